package dnsserver

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/routing"
	"github.com/quorate/quorate/statestore"
)

const zone = "gslb.test."

var someClient = netip.MustParseAddrPort("203.0.113.99:5353")

func sec(n int) statestore.Duration { return statestore.Duration(time.Duration(n) * time.Second) }

func ips(list ...string) []netip.Addr {
	var out []netip.Addr
	for _, a := range list {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}

// testState serves web (weighted, eu 75 us 25), db (failover, v4 only), big (more
// than fits 512 octets) and some static data.
func testState() *statestore.State {
	service := func(name string, typ statestore.PolicyType) *statestore.Service {
		return &statestore.Service{
			Zone: zone, Names: []string{name},
			Policy:  statestore.Policy{Type: typ},
			TTL:     statestore.TTL{Normal: sec(20), Changing: sec(5)},
			OnStale: statestore.OnStale{After: sec(30), Answer: statestore.StaleKeep},
			Answer:  statestore.Answer{Clusters: 1, Addresses: 100},
		}
	}
	var many []netip.Addr
	for i := range 60 {
		many = append(many, netip.AddrFrom4([4]byte{198, 18, 0, byte(i)}))
	}
	rotation := func(shares ...statestore.Share) *statestore.ServiceState {
		return &statestore.ServiceState{Rotation: statestore.Rotation{Number: 1, V4: statestore.Pool{Shares: shares}}}
	}
	member := func(name, v4 string) *statestore.Member {
		return &statestore.Member{Name: name, Role: statestore.Voter, DNS: statestore.Advertise{IPv4: ips(v4)}}
	}
	long := `"` + strings.Repeat("x", 200) + `"`
	return &statestore.State{
		Generation: 1, TableIndex: 9, Revision: 1,
		Members: map[string]*statestore.Member{"eu-1": member("eu-1", "203.0.113.1"), "us-1": member("us-1", "203.0.113.2")},
		Spec: &statestore.Spec{
			Zones: map[string]*statestore.Zone{zone: {
				NSTTL: sec(3600), SOA: statestore.SOA{Refresh: sec(3600), Retry: sec(900), Expire: sec(604800), NegativeTTL: sec(30)},
				Records: map[string]map[string][]string{
					"@":     {"TXT": {"apex"}},
					"www":   {"CNAME": {"web"}},
					"a.ent": {"TXT": {"below"}},
					"text":  {"TXT": {long, long + " b", long + " c", long + " d", long + " e", long + " f"}},
				},
			}},
			Clusters: map[string]*statestore.Cluster{"eu": {IPv4: ips("192.0.2.1")}, "us": {IPv4: ips("192.0.2.2")}, "many": {IPv4: many}},
			Services: map[string]*statestore.Service{"web": service("web", statestore.Weighted), "db": service("db", statestore.Failover), "big": service("big", statestore.Failover)},
		},
		Services: map[string]*statestore.ServiceState{
			"web": rotation(statestore.Share{Cluster: "eu", Weight: 75, Endpoints: ips("192.0.2.1")}, statestore.Share{Cluster: "us", Weight: 25, Endpoints: ips("192.0.2.2")}),
			"db":  rotation(statestore.Share{Cluster: "us", Endpoints: ips("192.0.2.2")}, statestore.Share{Cluster: "eu", Endpoints: ips("192.0.2.1")}),
			"big": rotation(statestore.Share{Cluster: "many", Endpoints: many}),
		},
	}
}

func testTable(t testing.TB) *routing.Table {
	t.Helper()
	table, err := routing.Compile(testState())
	require.NoError(t, err)
	return table
}

func testConfig(table *routing.Table) Config {
	return Config{Table: func() *routing.Table { return table }, Draw: func() uint64 { return 0 }, NSID: "eu-1"}
}

// start runs a server on the addresses until the test ends.
func start(t *testing.T, cfg Config, listen ...string) *Server {
	t.Helper()
	cfg.Listen = listen
	s := New(cfg)
	require.NoError(t, s.Bind())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return s
}

func newQuery(name string, qtype uint16) *dns.Msg {
	m := new(dns.Msg)
	m.Id = 4711
	m.Question = []dns.Question{{Name: name, Qtype: qtype, Qclass: dns.ClassINET}}
	return m
}

func withEDNS(m *dns.Msg, size uint16) *dns.Msg { return m.SetEdns0(size, false) }

// ask answers a query with the server's function; nil is silence.
func ask(t testing.TB, s *Server, q *dns.Msg, proto Proto) *dns.Msg {
	t.Helper()
	wire, err := q.Pack()
	require.NoError(t, err)
	reply := s.Respond(s.cfg.Table(), wire, someClient, proto)
	if reply == nil {
		return nil
	}
	m := new(dns.Msg)
	require.NoError(t, m.Unpack(reply))
	require.Equal(t, q.Id, m.Id)
	require.True(t, m.Response)
	return m
}

func lines(rrs []dns.RR) string {
	var out []string
	for _, rr := range rrs {
		if rr.Header().Rrtype != dns.TypeOPT {
			out = append(out, strings.ReplaceAll(rr.String(), "\t", " "))
		}
	}
	return strings.Join(out, "|")
}
