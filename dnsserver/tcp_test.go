package dnsserver

import (
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/dnsserver/client"
)

// framed is a query as TCP carries it.
func framed(t testing.TB, m *dns.Msg) []byte {
	t.Helper()
	wire, err := m.Pack()
	require.NoError(t, err)
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(wire))), wire...)
}

// tcpStep is what a client does at a time after it has connected.
type tcpStep struct {
	at   time.Duration
	send []byte
}

// tcpCase is what a client does, and when it is closed.
type tcpCase struct {
	name  string
	max   int // connections
	reads bool
	steps []tcpStep
	want  time.Duration
}

// tcpCases hold for whatever serves the connections.
func tcpCases(t *testing.T) []tcpCase {
	query := framed(t, newQuery("web.gslb.test.", dns.TypeA))
	response := append([]byte(nil), query...)
	response[4] |= 0x80
	var slow []tcpStep // an octet each 100 ms: the message would take 3 s
	for i := range query {
		slow = append(slow, tcpStep{time.Second + time.Duration(i)*100*time.Millisecond, query[i : i+1]})
	}
	halves := []tcpStep{{time.Second, query[:5]}, {2 * time.Second, query[5:]}}
	pipelined := append(append(append([]byte(nil), query...), query...), query[:7]...)
	return []tcpCase{
		{"an idle one is closed after 10 s", 100, true, nil, 10 * time.Second},
		{"under pressure after 2 s", 1, true, nil, 2 * time.Second},
		{"an octet at a time is closed 2 s after the first", 100, true, slow, 3 * time.Second},
		{"two halves are a message", 100, true, halves, 12 * time.Second},
		{"a message begun behind others has 2 s", 100, true, []tcpStep{{time.Second, pipelined}}, 3 * time.Second},
		{"a response ends it", 100, true, []tcpStep{{time.Second, response}}, time.Second},
		{"a response ends it behind a query", 100, true, []tcpStep{{time.Second, append(query[:len(query):len(query)], response...)}}, time.Second},
		{"an impossible length ends it", 100, true, []tcpStep{{time.Second, []byte{0xff, 0xff}}}, time.Second},
		{"less than a header ends it", 100, true, []tcpStep{{time.Second, []byte{0, 11}}}, time.Second},
		{"idle counts from the last answer", 100, true, []tcpStep{{5 * time.Second, query}}, 15 * time.Second},
		{"one that never reads is closed after 2 s", 100, false, []tcpStep{{time.Second, repeat(query, 200)}}, 3 * time.Second},
	}
}

func repeat(b []byte, n int) []byte {
	var all []byte
	for range n {
		all = append(all, b...)
	}
	return all
}

func TestNetTCPDeadlines(t *testing.T) {
	for _, tt := range tcpCases(t) {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := testConfig(testTable(t))
				cfg.MaxTCP = tt.max
				s := New(cfg)
				require.Empty(t, s.conns.take(network(someClient.Addr()), 0))
				ours, theirs := net.Pipe()
				start := time.Now()
				var took time.Duration
				done := make(chan struct{})
				go func() {
					defer close(done)
					(&netTCP{s: s}).serveConn(t.Context(), ours, someClient)
					took = time.Since(start)
					_ = ours.Close()
				}()
				acted := make(chan struct{})
				go func() {
					defer close(acted)
					for _, step := range tt.steps {
						time.Sleep(step.at - time.Since(start))
						_, _ = theirs.Write(step.send) // it may be closed by now
					}
				}()
				if tt.reads {
					_, _ = io.Copy(io.Discard, theirs)
				}
				<-done
				_ = theirs.Close()
				<-acted
				require.Equal(t, tt.want, took)
			})
		})
	}
}

func TestConnectionLimits(t *testing.T) {
	cs := newConnections(4, 2)
	take := func(addr string) string { return cs.take(network(netip.MustParseAddr(addr)), 0) }
	require.Empty(t, take("192.0.2.1"))
	require.Empty(t, take("192.0.2.200"))
	require.Equal(t, "prefix", take("::ffff:192.0.2.3"), "a /24 counts as one client, mapped or not")
	require.Empty(t, take("2001:db8:0:aa00::1"))
	require.Empty(t, take("2001:db8:0:aaff::1"))
	require.Equal(t, "full", take("198.51.100.1"))
	require.True(t, cs.pressed())
	cs.release(network(netip.MustParseAddr("192.0.2.1")))
	require.Equal(t, "prefix", take("2001:db8:0:aa11::1"), "a /56 counts as one client")
	require.Empty(t, take("198.51.100.1"))
}

func TestAConnectionAboveTheLimitIsClosedAndUDPGoesOn(t *testing.T) {
	cfg := testConfig(testTable(t))
	cfg.MaxTCPPerPrefix = 1
	s := start(t, cfg, "127.0.0.1:0")
	server := s.Addrs()[0].String()
	first := dialTCP(t, server, "127.0.0.1")
	_, err := first.Write([]byte{0})
	require.NoError(t, err)
	second := dialTCP(t, server, "127.0.0.2")
	_, err = second.Read(make([]byte, 1))
	require.Error(t, err, "one network has two connections")
	require.Equal(t, "NOERROR", query(t, server, "web.gslb.test.", "A", client.Options{}).Rcode)
	exchange(t, dialTCP(t, server, "127.0.1.1"), 1)
}

// dialTCP connects from an address of this host. What comes must come soon.
func dialTCP(t testing.TB, server, from string) *net.TCPConn {
	t.Helper()
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 0)), Timeout: 5 * time.Second}
	c, err := d.DialContext(t.Context(), "tcp4", server)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() }) // a test's
	require.NoError(t, c.SetDeadline(time.Now().Add(10*time.Second)))
	return c.(*net.TCPConn)
}

// numbered is n queries in a row with the ids 0 to n-1.
func numbered(t testing.TB, n int) []byte {
	t.Helper()
	var all []byte
	one := framed(t, newQuery("web.gslb.test.", dns.TypeA))
	for id := range n {
		binary.BigEndian.PutUint16(one[prefixSize:], uint16(id))
		all = append(all, one...)
	}
	return all
}

// exchange asks n numbered queries at once and requires their answers, in order.
func exchange(t testing.TB, c io.ReadWriter, n int) {
	t.Helper()
	all := numbered(t, n)
	written := make(chan error, 1)
	go func() {
		_, err := c.Write(all)
		written <- err
	}()
	answers(t, c, n)
	require.NoError(t, <-written)
}

func answers(t testing.TB, c io.Reader, n int) {
	t.Helper()
	for id := range n {
		m := readAnswer(t, c)
		require.Equal(t, uint16(id), m.Id)
		require.Equal(t, dns.RcodeSuccess, m.Rcode)
		require.Len(t, m.Answer, 1)
	}
}

func readAnswer(t testing.TB, c io.Reader) *dns.Msg {
	t.Helper()
	var prefix [prefixSize]byte
	_, err := io.ReadFull(c, prefix[:])
	require.NoError(t, err)
	wire := make([]byte, binary.BigEndian.Uint16(prefix[:]))
	_, err = io.ReadFull(c, wire)
	require.NoError(t, err)
	m := new(dns.Msg)
	require.NoError(t, m.Unpack(wire))
	return m
}

func TestTheIdleTimeIsToldToWhoAsks(t *testing.T) {
	keepalive := func(m *dns.Msg) (time.Duration, bool) {
		if opt := m.IsEdns0(); opt != nil {
			for _, o := range opt.Option {
				if k, ok := o.(*dns.EDNS0_TCP_KEEPALIVE); ok {
					return time.Duration(k.Timeout) * keepaliveUnit, true
				}
			}
		}
		return 0, false
	}
	asking := withEDNS(newQuery("web.gslb.test.", dns.TypeA), 1232)
	opt := asking.IsEdns0()
	opt.Option = append(opt.Option, &dns.EDNS0_TCP_KEEPALIVE{Code: dns.EDNS0TCPKEEPALIVE})
	tests := []struct {
		name  string
		query *dns.Msg
		proto Proto
		taken int // of 4 connections
		told  bool
		want  time.Duration
	}{
		{"10 s", asking, TCP, 1, true, 10 * time.Second},
		{"2 s under pressure", asking, TCP, 2, true, 2 * time.Second},
		{"not to who did not ask", withEDNS(newQuery("web.gslb.test.", dns.TypeA), 1232), TCP, 1, false, 0},
		{"nothing over UDP", asking, UDP, 1, false, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := testConfig(testTable(t))
			cfg.MaxTCP = 4
			s := New(cfg)
			for range tt.taken {
				require.Empty(t, s.conns.take(network(someClient.Addr()), 0))
			}
			wire, err := tt.query.Pack()
			require.NoError(t, err)
			m := new(dns.Msg)
			require.NoError(t, m.Unpack(s.Respond(cfg.Table(), wire, someClient, tt.proto)))
			got, told := keepalive(m)
			require.Equal(t, tt.told, told)
			require.Equal(t, tt.want, got)
		})
	}
}
