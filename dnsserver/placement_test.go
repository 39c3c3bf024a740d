package dnsserver

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/quorate/quorate/routing"
	"github.com/quorate/quorate/routing/geo"
	"github.com/quorate/quorate/routing/routingtest"
	"github.com/quorate/quorate/statestore"
)

// TestG14ExplainIsTheServerForEveryClient: for random specs, states and clients, the message that
// the server sends is the answer that explain prints for the same question, octet for
// octet: code, records in their order and TTL, authority, and the scope. And what
// explain tells is not empty.
func TestG14ExplainIsTheServerForEveryClient(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := routingtest.Draw(rt)
		table, err := routing.Update(nil, w.State, routing.Local{Geo: w.Geo})
		require.NoError(rt, err)
		for range 4 {
			q := routingtest.DrawQuery(rt, w.State)
			q.Type = rapid.SampledFrom([]uint16{q.Type, routing.TypeHTTPS, routing.TypeAAAA, routing.TypeANY}).Draw(rt, "asked")
			if rapid.IntRange(0, 3).Draw(rt, "the port") == 0 {
				q.Name, q.Type = "_"+strings.TrimSuffix(q.Name, "."+routingtest.Zone)+"._tcp."+routingtest.Zone, routing.TypeSRV
			}
			q.Stale = rapid.SampledFrom([]statestore.Duration{0, 0, sec(3600)}).Draw(rt, "stale").D()
			s := New(Config{Table: func() *routing.Table { return table }, Draw: func() uint64 { return q.Draw }})
			s.cfg.Age = func() time.Duration { return q.Stale }
			query := newQuery(q.Name, q.Type)
			withEDNS(query, 4096)
			if q.Subnet.IsValid() {
				query.IsEdns0().Option = []dns.EDNS0{subnetOption(q.Subnet)}
			}
			wire, err := query.Pack()
			require.NoError(rt, err)
			got := s.Respond(table, wire, netip.AddrPortFrom(q.Client, 53), TCP)

			a, tr := routing.Select(table, q)
			require.NotEmpty(rt, tr.Steps())
			require.Equal(rt, explained(rt, query, q, a), got, "%v\n%v", q, tr.Steps())
		}
	})
}

func subnetOption(p netip.Prefix) *dns.EDNS0_SUBNET {
	o := &dns.EDNS0_SUBNET{Code: dns.EDNS0SUBNET, Family: 1, SourceNetmask: uint8(p.Bits()), Address: p.Addr().AsSlice()}
	if p.Addr().Is6() {
		o.Family = 2
	}
	return o
}

// explained packs the answer as explain prints it: from its records' text.
func explained(t require.TestingT, query *dns.Msg, q routing.Query, a routing.Answer) []byte {
	m := new(dns.Msg)
	m.SetReply(query)
	m.Compress = true
	m.Rcode = map[routing.Kind]int{
		routing.NameError: dns.RcodeNameError, routing.ServFail: dns.RcodeServerFailure, routing.Refused: dns.RcodeRefused,
	}[a.Kind]
	said := m.Rcode == dns.RcodeSuccess || m.Rcode == dns.RcodeNameError
	m.Authoritative = said
	opt := &dns.OPT{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeOPT}}
	opt.SetUDPSize(udpSize)
	if q.Subnet.IsValid() {
		o := subnetOption(q.Subnet)
		o.SourceScope = a.Scope
		opt.Option = append(opt.Option, o)
	}
	switch {
	case a.Stale && said:
		opt.Option = append(opt.Option, &dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeStaleAnswer})
	case a.Zone == nil:
		opt.Option = append(opt.Option, &dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeNotAuthoritative})
	case a.Stale:
		opt.Option = append(opt.Option, &dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeNotReady, ExtraText: "no quorum heard"})
	case a.Kind == routing.ServFail:
		opt.Option = append(opt.Option, &dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeNetworkError})
	}
	m.Extra = []dns.RR{opt}
	if a.Set != nil {
		m.Answer = fromText(t, a.Owner, a.Set)
	} else if said {
		m.Ns = fromText(t, a.Zone.Name, a.Zone.Negative)
	}
	wire, err := m.Pack()
	require.NoError(t, err)
	return wire
}

// fromText reads a set's records from their presentation format.
func fromText(t require.TestingT, owner string, set *routing.RRset) []dns.RR {
	var rrs []dns.RR
	for _, text := range set.Text {
		rr, err := dns.NewRR(owner + " " + dns.TypeToString[set.Type] + " " + text)
		require.NoError(t, err, "%s", text)
		rr.Header().Ttl = set.TTL
		rrs = append(rrs, rr)
	}
	return rrs
}

// placedTable serves web by policy geo: 198.51.100.0/24 is in GB and belongs to eu,
// everything else is nearest to nobody; us and eu answer by weight there.
func placedTable(t *testing.T) *routing.Table {
	st := testState()
	web := st.Spec.Services["web"]
	web.Policy = statestore.Policy{Type: statestore.Geo, Map: map[string][]string{"eu-west": {"GB"}}}
	web.HTTPSRecord = &statestore.HTTPSRecord{ALPN: []string{"h2", "h3"}}
	web.SRV = &statestore.SRVRecord{Port: 443, Proto: "tcp"}
	st.Spec.Clusters["eu"].Region, st.Spec.Clusters["us"].Region = "eu-west", "us-east"
	st.Spec.Clusters["us"].IPv6 = ips("2001:db8::2")
	st.Services["web"].Rotation.V6 = statestore.Pool{Shares: []statestore.Share{{Cluster: "us", Endpoints: ips("2001:db8::2")}}}
	index, err := geo.New([]geo.Entry{
		{Prefix: netip.MustParsePrefix("198.51.100.0/24"), Place: geo.Place{Country: "GB", Continent: "EU"}},
		{Prefix: netip.MustParsePrefix("2001:db8:100::/40"), Place: geo.Place{Country: "GB", Continent: "EU"}},
	}, "2026-10-07")
	require.NoError(t, err)
	table, err := routing.Update(nil, st, routing.Local{Geo: index})
	require.NoError(t, err)
	return table
}

func TestScopeOfAnAnswer(t *testing.T) {
	s := New(testConfig(placedTable(t)))
	tests := []struct {
		name, ask, subnet string
		want              string
	}{
		{"a network of the file", "web.gslb.test.", "198.51.100.0/24", "198.51.100.0/24/24"},
		{"a longer source keeps the scope of what decided", "web.gslb.test.", "198.51.100.128/25", "198.51.100.128/25/24"},
		{"a shorter source than what decides", "web.gslb.test.", "198.51.0.0/16", "198.51.0.0/16/18"},
		{"beside the file's networks", "web.gslb.test.", "203.0.113.0/24", "203.0.113.0/24/5"},
		{"IPv6", "web.gslb.test.", "2001:db8:100::/56", "[2001:db8:100::]/56/40"},
		{"who hides gets scope 0", "web.gslb.test.", "0.0.0.0/0", "0.0.0.0/0/0"},
		{"an answer for all", "db.gslb.test.", "198.51.100.0/24", "198.51.100.0/24/0"},
		{"static data", "a.ent.gslb.test.", "198.51.100.0/24", "198.51.100.0/24/0"},
		{"no such name", "nope.gslb.test.", "198.51.100.0/24", "198.51.100.0/24/0"},
		{"out of zone", "example.com.", "198.51.100.0/24", "198.51.100.0/24/0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q := withEDNS(newQuery(tt.ask, dns.TypeA), 1232)
			q.IsEdns0().Option = []dns.EDNS0{subnetOption(netip.MustParsePrefix(tt.subnet))}
			m := ask(t, s, q, UDP)
			require.Equal(t, tt.want, m.IsEdns0().Option[0].(*dns.EDNS0_SUBNET).String())
		})
	}
}

func TestMalformedSubnets(t *testing.T) {
	s := New(testConfig(placedTable(t)))
	option := func(family uint16, source, scope uint8, addr string) *dns.EDNS0_SUBNET {
		return &dns.EDNS0_SUBNET{Code: dns.EDNS0SUBNET, Family: family, SourceNetmask: source, SourceScope: scope, Address: net.ParseIP(addr)}
	}
	tests := []struct {
		name   string
		option *dns.EDNS0_SUBNET
		rcode  int
	}{
		{"well formed", option(1, 24, 0, "198.51.100.0"), dns.RcodeSuccess},
		{"a scope in a query", option(1, 24, 24, "198.51.100.0"), dns.RcodeFormatError},
		{"no family, no address", &dns.EDNS0_SUBNET{Code: dns.EDNS0SUBNET}, dns.RcodeSuccess},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q := withEDNS(newQuery("web.gslb.test.", dns.TypeA), 1232)
			q.IsEdns0().Option = []dns.EDNS0{tt.option}
			require.Equal(t, dns.RcodeToString[tt.rcode], dns.RcodeToString[ask(t, s, q, UDP).Rcode])
		})
	}
	// What the library would not pack is written by hand: the option follows the OPT
	// record's fixed part at the end of the message.
	raw := func(option ...byte) []byte {
		q := withEDNS(newQuery("web.gslb.test.", dns.TypeA), 1232)
		wire, err := q.Pack()
		require.NoError(t, err)
		wire[len(wire)-1] = byte(len(option) + 4)
		return append(append(wire, 0, dns.EDNS0SUBNET, 0, byte(len(option))), option...)
	}
	for name, wire := range map[string][]byte{
		"bits beyond the prefix":    raw(0, 1, 20, 0, 198, 51, 255),
		"more bits than there are":  raw(0, 1, 33, 0, 198, 51, 100, 0, 0),
		"an option cut short":       raw(0, 1, 24),
		"a family nobody has heard": raw(0, 9, 24, 0, 198, 51, 100),
	} {
		reply := s.Respond(s.cfg.Table(), wire, someClient, UDP)
		require.Equal(t, dns.RcodeFormatError, int(reply[3]&0xf), "%s", name)
	}
}

// The types made here pack as the library packs what it reads from their text.
func TestHTTPSAndSRV(t *testing.T) {
	s := New(testConfig(placedTable(t)))
	q := withEDNS(newQuery("web.gslb.test.", dns.TypeHTTPS), 1232)
	q.IsEdns0().Option = []dns.EDNS0{subnetOption(netip.MustParsePrefix("198.51.100.0/24"))}
	m := ask(t, s, q, UDP)
	require.Equal(t, `web.gslb.test. 20 IN HTTPS 1 . alpn="h2,h3" ipv4hint="192.0.2.1"`, lines(m.Answer))
	m = ask(t, s, newQuery("_web._tcp.gslb.test.", dns.TypeSRV), UDP)
	require.Equal(t, "_web._tcp.gslb.test. 20 IN SRV 0 0 443 web.gslb.test.", lines(m.Answer))
	m = ask(t, s, newQuery("_web._tcp.gslb.test.", dns.TypeA), UDP)
	require.Equal(t, dns.RcodeSuccess, m.Rcode)
	require.Empty(t, m.Answer)
	m = ask(t, s, newQuery("_tcp.gslb.test.", dns.TypeSRV), UDP)
	require.Equal(t, dns.RcodeSuccess, m.Rcode, "an empty non-terminal")
}
