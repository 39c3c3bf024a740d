package dnsserver

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/routing"
)

// limitedExchange sends one query many times over UDP and counts what comes back. A
// query with a good cookie, which is never limited, is answered after all of them.
func limitedExchange(t *testing.T, s *Server, query []byte, times int) (answered, truncated int) {
	t.Helper()
	learned := tcpExchange(t, s)(rawQuery(0, nil, optRecord(1232, 0, 0, optionOf(10, 1, 2, 3, 4, 5, 6, 7, 8))))
	var m dns.Msg
	require.NoError(t, m.Unpack(learned))
	last := rawQuery(0, nil, optRecord(1232, 0, 0, optionOf(10, unhex(t, cookieOf(&m))...)))
	last[0], last[1] = 0xff, 0xff
	c, err := net.Dial("udp", s.Addrs()[0].String())
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	buf := make([]byte, 2048)
	for range times {
		_, err := c.Write(query)
		require.NoError(t, err)
		_, err = c.Write(last)
		require.NoError(t, err)
		for {
			require.NoError(t, c.SetReadDeadline(time.Now().Add(5*time.Second)))
			n, err := c.Read(buf)
			require.NoError(t, err)
			if buf[0] == 0xff {
				break
			}
			switch {
			case buf[2]&2 == 0:
				answered++
			default:
				truncated++
				require.Zero(t, binary.BigEndian.Uint32(buf[6:]), "no records")
				require.LessOrEqual(t, n, len(query), "and no longer than the query")
			}
		}
	}
	return answered, truncated
}

// Prepared answers and others are one kind: a network gets no more of both than of one.
func TestBothPathsShareTheLimit(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	cfg := testConfig(testTable(t))
	cfg.Registerer = reg
	cfg.RateLimit = RateLimit{PerSecond: 1, Slip: 2}
	s := startPrepared(t, cfg)
	web := asking("web.gslb.test.", dns.TypeA, dns.ClassINET)
	began := time.Now()
	fast, slipped := limitedExchange(t, s, rawQuery(0, web), 100)
	general, slippedToo := limitedExchange(t, s, rawQuery(0, web, optRecord(1232, 0, 0, optionOf(65001))), 100)
	due := 1 + 1 + int(time.Since(began)/time.Second)
	require.LessOrEqual(t, fast+general, due)
	require.Positive(t, fast)
	require.InDelta(t, (200-fast-general)/2, slipped+slippedToo, 1)

	limited := gathered(t, reg, "quorate_dns_rate_limited_total")
	require.EqualValues(t, slipped+slippedToo, limited["slip gslb.test."])
	require.EqualValues(t, 200-fast-general, limited["slip gslb.test."]+limited["drop gslb.test."])
}

// gathered are the values of a metric, by those of its labels.
func gathered(t *testing.T, reg *prometheus.Registry, name string) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	values := map[string]float64{}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			var at []string
			for _, l := range m.GetLabel() {
				at = append(at, l.GetValue())
			}
			values[strings.Join(at, " ")] = m.GetCounter().GetValue()
		}
	}
	return values
}

func TestWhatIsNoQueryIsCounted(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	cfg := testConfig(testTable(t))
	cfg.Registerer = reg
	s := startPrepared(t, cfg)
	udp := udpExchange(t, s)
	require.Nil(t, udp(rawQuery(bitQR, asking("web.gslb.test.", dns.TypeA, dns.ClassINET))))
	require.Nil(t, udp([]byte("short")))
	require.Nil(t, udp([]byte("short too")))
	require.Equal(t, map[string]float64{"response": 1, "short": 2}, gathered(t, reg, "quorate_dns_dropped_total"))
}

// TestWhatIsOneKind asks for ever new things that are one kind each: what can be
// repeated without end shares one bucket.
func TestWhatIsOneKind(t *testing.T) {
	st := testState()
	st.Spec.Zones[zone].Records["*.wild"] = map[string][]string{"A": {"192.0.2.80"}}
	st.Spec.Zones[zone].Records["cut"] = map[string][]string{"NS": {"ns.example.net."}}
	table, err := routing.Compile(st)
	require.NoError(t, err)
	tests := []struct {
		name   string
		first  func(i int) *dns.Msg
		shared bool
	}{
		{"an answer", func(int) *dns.Msg { return newQuery("web.gslb.test.", dns.TypeA) }, true},
		{"an answer in another spelling", func(i int) *dns.Msg { return newQuery([]string{"web.gslb.test.", "WEB.GSLB.test."}[i%2], dns.TypeA) }, true},
		{"answers of several types", func(i int) *dns.Msg {
			return newQuery("gslb.test.", []uint16{dns.TypeSOA, dns.TypeNS, dns.TypeTXT, dns.TypeANY}[i%4])
		}, false},
		{"what a wildcard stands for", func(i int) *dns.Msg { return newQuery(fmt.Sprintf("x%d.wild.gslb.test.", i), dns.TypeA) }, true},
		{"names that are not there", func(i int) *dns.Msg { return newQuery(fmt.Sprintf("x%d.gslb.test.", i), dns.TypeA) }, true},
		{"types that are not there", func(i int) *dns.Msg { return newQuery("web.gslb.test.", uint16(1000+i)) }, true},
		{"what is delegated", func(i int) *dns.Msg { return newQuery(fmt.Sprintf("x%d.cut.gslb.test.", i), dns.TypeA) }, true},
		{"what is out of zone", func(i int) *dns.Msg { return newQuery(fmt.Sprintf("x%d.example.com.", i), dns.TypeA) }, true},
		{"errors of many sorts", func(i int) *dns.Msg {
			q := newQuery("web.gslb.test.", dns.TypeA)
			q.Opcode = []int{dns.OpcodeQuery, dns.OpcodeUpdate, dns.OpcodeStatus, 9}[i%4]
			q.Question[0].Qclass = dns.ClassCHAOS
			return q
		}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := testConfig(table)
			cfg.RateLimit = RateLimit{PerSecond: 2}
			s := New(cfg)
			n := 0
			for i := range 8 {
				if ask(t, s, tt.first(i), UDP) != nil {
					n++
				}
			}
			require.Equal(t, tt.shared, n <= 4, "%d answers", n) // a slow machine earns some more
			require.NotNil(t, ask(t, s, newQuery("db.gslb.test.", dns.TypeA), UDP), "another kind")
		})
	}
}

func TestLimitsInForce(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	cfg := testConfig(testTable(t))
	cfg.Registerer = reg
	s := New(cfg)
	answers := func(proto Proto) int {
		n := 0
		for range 20 {
			if ask(t, s, newQuery("web.gslb.test.", dns.TypeA), proto) != nil {
				n++
			}
		}
		return n
	}
	require.Equal(t, 20, answers(UDP), "none")
	s.Limit(RateLimit{PerSecond: 1, LogOnly: true})
	require.Equal(t, 20, answers(UDP), "counted only")
	require.Greater(t, gathered(t, reg, "quorate_dns_rate_limited_total")["log gslb.test."], 10.0)
	s.Limit(RateLimit{PerSecond: 1, Exempt: []netip.Prefix{netip.PrefixFrom(someClient.Addr(), 24)}})
	require.Equal(t, 20, answers(UDP), "exempt")
	s.Limit(RateLimit{PerSecond: 1})
	require.Less(t, answers(UDP), 10)
	require.Equal(t, 20, answers(TCP))
	s.Limit(RateLimit{PerSecond: 1})
	require.Less(t, answers(UDP), 10, "the same rule forgets nothing")
	s.Limit(RateLimit{})
	require.Equal(t, 20, answers(UDP))
}
