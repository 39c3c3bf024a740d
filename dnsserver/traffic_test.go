package dnsserver

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
)

// queriesOf are the queries that each network made for a service.
func queriesOf(tr Traffic, service string) map[string]uint64 {
	out := map[string]uint64{}
	for _, sv := range tr.Services {
		if sv.Service == service {
			for _, n := range sv.Networks {
				out[n.Prefix.String()] = n.Queries
			}
		}
	}
	return out
}

func serviceOf(t *testing.T, tr Traffic, service string) ServiceTraffic {
	t.Helper()
	for _, sv := range tr.Services {
		if sv.Service == service {
			return sv
		}
	}
	t.Fatalf("no traffic of %s in %+v", service, tr)
	return ServiceTraffic{}
}

func TestTrafficIsWhoAskedForWhat(t *testing.T) {
	cfg := testConfig(testTable(t))
	s := New(cfg)
	asked := func(times int, name, client string, subnet string) {
		q := newQuery(name, dns.TypeA)
		if subnet != "" {
			p := netip.MustParsePrefix(subnet)
			family := uint16(1)
			if p.Addr().Is6() {
				family = 2
			}
			q = withEDNS(q, 1232)
			q.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_SUBNET{Code: dns.EDNS0SUBNET, Family: family, SourceNetmask: uint8(p.Bits()), Address: p.Addr().AsSlice()}}
		}
		wire, err := q.Pack()
		require.NoError(t, err)
		for range times {
			require.NotNil(t, s.Respond(cfg.Table(), wire, netip.AddrPortFrom(netip.MustParseAddr(client), 4000), UDP))
		}
	}
	asked(5, "web.gslb.test.", "192.0.2.1", "")
	asked(3, "web.gslb.test.", "192.0.2.200", "")
	asked(2, "web.gslb.test.", "2001:db8:0:1::1", "")
	asked(4, "web.gslb.test.", "192.0.2.1", "198.51.100.0/24")
	asked(1, "web.gslb.test.", "192.0.2.1", "10.0.0.0/8")
	asked(2, "web.gslb.test.", "192.0.2.9", "0.0.0.0/0")
	asked(7, "big.gslb.test.", "192.0.2.1", "")
	asked(9, "nope.gslb.test.", "203.0.113.1", "")

	got := s.Traffic(100)
	require.Equal(t, map[string]uint64{"192.0.2.0/24": 10, "2001:db8::/56": 2, "198.51.100.0/24": 4, "10.0.0.0/8": 1}, queriesOf(got, "web"))
	require.Equal(t, map[string]uint64{"192.0.2.0/24": 7}, queriesOf(got, "big"))
	require.Len(t, got.Services, 2, "clients of names that do not exist are not remembered")
	web := serviceOf(t, got, "web")
	require.EqualValues(t, 17, web.Answers)
	require.EqualValues(t, 17, web.Recent)
	require.Equal(t, 4, web.RecentNetworks)
	require.False(t, web.More)
	require.Equal(t, "192.0.2.0/24", web.Networks[0].Prefix.String(), "the busiest first")

	require.Equal(t, map[string]uint64{"192.0.2.0/24": 10}, queriesOf(s.Traffic(1), "web"), "the limit is of all services together")
}

// saw lets a shard answer for a service so many times.
func (tr *traffic) saw(sh *shard, service string, client netip.Prefix, times int) {
	for range times {
		sh.add(tr.counters.answer(service, "eu"))
		if at, weight := sh.due(1); at == 0 {
			sh.timed(weight, UDP, time.Now())
			sh.saw(weight, tr.counters.service(service), client)
		}
	}
}

func TestTrafficIsOfTheLastHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c counters
		tr, sh := newTraffic(&c, time.Now()), c.shard()
		read := func() ServiceTraffic { return serviceOf(t, tr.read(time.Now(), 100), "web") }
		tr.saw(sh, "web", prefixOf(1), 10)
		require.EqualValues(t, 10, read().Recent)
		time.Sleep(20 * time.Minute)
		tr.saw(sh, "web", prefixOf(2), 5)
		web := read()
		require.EqualValues(t, 15, web.Answers)
		require.EqualValues(t, 5, web.Recent)
		require.Equal(t, 1, web.RecentNetworks)
		require.Equal(t, []NetworkTraffic{
			{netip.MustParsePrefix("10.0.1.0/24"), 10, 0}, {netip.MustParsePrefix("10.0.2.0/24"), 5, 5},
		}, web.Networks)
		now := tr.read(time.Now(), 100)
		require.Equal(t, 20*time.Minute, now.Hour, "as long as there is anything to know")
		require.Equal(t, 10*time.Minute, now.Recent)
		time.Sleep(44*time.Minute + time.Second)
		require.EqualValues(t, 15, read().Answers)
		now = tr.read(time.Now(), 100)
		require.Equal(t, 64*time.Minute+time.Second, now.Hour)
		require.Equal(t, 14*time.Minute+time.Second, now.Recent)
		time.Sleep(time.Minute)
		require.EqualValues(t, 5, read().Answers, "more than an hour ago")
		time.Sleep(2 * time.Hour)
		require.Empty(t, tr.read(time.Now(), 100).Services)
	})
}

func TestAFloodOfNetworksHidesNoBusyOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c counters
		tr, sh := newTraffic(&c, time.Now()), c.shard()
		for i := range 200_000 {
			tr.saw(sh, "web", prefixOf(i%60_000), 1) // each source once in a while
			if i%20 == 0 {
				tr.saw(sh, "web", netip.MustParsePrefix("192.0.2.1/32"), 1)
			}
			if i%5000 == 0 {
				tr.read(time.Now(), 1)
			}
		}
		web := serviceOf(t, tr.read(time.Now(), 1), "web")
		require.Equal(t, "192.0.2.0/24", web.Networks[0].Prefix.String())
		require.InEpsilon(t, 10_000, web.Networks[0].Queries, 0.35)
		require.True(t, web.More, "nobody knows how many there were")
		require.LessOrEqual(t, web.RecentNetworks, windowSketch)
		require.EqualValues(t, 210_000, web.Answers, "counters are exact")
	})
}
