package dnsserver

import (
	"bytes"
	"fmt"
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

// richState is testState with a service of each sort, names of each sort, and a zone
// in a zone.
func richState() *statestore.State {
	st := testState()
	sp := st.Spec
	sp.Regions = map[string]*statestore.Region{"eu-west": {Countries: []string{"GB"}}, "us-east": {Countries: []string{"US"}}}
	sp.Clusters["eu"].Region, sp.Clusters["us"].Region = "eu-west", "us-east"
	sp.Clusters["eu"].IPv6, sp.Clusters["us"].IPv6 = ips("2001:db8::1"), ips("2001:db8::2")
	shares := func(spill int) []statestore.Share {
		return []statestore.Share{{Cluster: "eu", Weight: 3, Spill: spill, Endpoints: ips("192.0.2.1")}, {Cluster: "us", Weight: 1, Endpoints: ips("192.0.2.2")}}
	}
	add := func(name string, edit func(*statestore.Service, *statestore.ServiceState)) {
		s := *sp.Services["web"]
		s.Names = []string{name}
		run := &statestore.ServiceState{Rotation: statestore.Rotation{Number: 1, V4: statestore.Pool{Shares: shares(0)}}}
		edit(&s, run)
		sp.Services[name], st.Services[name] = &s, run
	}
	add("geo", func(s *statestore.Service, run *statestore.ServiceState) {
		s.Policy = statestore.Policy{Type: statestore.Geo, Map: map[string][]string{"eu-west": {"GB"}}}
		s.HTTPSRecord = &statestore.HTTPSRecord{ALPN: []string{"h2"}}
		s.SRV = &statestore.SRVRecord{Port: 443, Proto: "tcp"}
		run.Rotation.V6.Shares = []statestore.Share{{Cluster: "eu", Endpoints: ips("2001:db8::1")}}
	})
	add("sticky", func(s *statestore.Service, _ *statestore.ServiceState) { s.Policy.Sticky = true })
	add("spills", func(_ *statestore.Service, run *statestore.ServiceState) { run.Rotation.V4.Shares = shares(5000) })
	add("both", func(s *statestore.Service, _ *statestore.ServiceState) { s.Answer.Clusters = 2 })
	add("nodata", func(_ *statestore.Service, run *statestore.ServiceState) {
		run.Rotation.V4 = statestore.Pool{AllDown: statestore.NoData}
	})
	add("servfail", func(_ *statestore.Service, run *statestore.ServiceState) {
		run.Rotation.V4 = statestore.Pool{AllDown: statestore.ServFail}
	})
	add("resides", func(s *statestore.Service, run *statestore.ServiceState) {
		s.Residency, s.OnAllDown.Mode = map[string][]string{"GB": {"eu"}}, statestore.NoData
		run.Rotation.V4.Shares = run.Rotation.V4.Shares[1:]
	})
	add("moves", func(s *statestore.Service, run *statestore.ServiceState) {
		s.Stateful = &statestore.Stateful{}
		run.Ownership = &statestore.Ownership{Active: "eu", Epoch: 12, Next: 13, Open: "CUT-17"}
	})
	add("owned", func(s *statestore.Service, run *statestore.ServiceState) {
		s.Stateful = &statestore.Stateful{}
		run.Ownership = &statestore.Ownership{Active: "us", Epoch: 12}
	})
	add("refuses", func(s *statestore.Service, _ *statestore.ServiceState) { s.OnStale.Answer = statestore.StaleRefuse })
	add("@", func(*statestore.Service, *statestore.ServiceState) {})
	sp.Zones["in."+zone] = &statestore.Zone{
		NSTTL: sec(60), SOA: statestore.SOA{MName: "ns.elsewhere.test.", Refresh: sec(1), NegativeTTL: sec(3600)},
		Records: map[string]map[string][]string{"@": {"MX": {"10 mail"}}, "mail": {"A": {"192.0.2.7"}}, "out": {"CNAME": {"geo." + zone}}},
	}
	sp.Zones["1.2.3."] = &statestore.Zone{NSTTL: sec(60), NS: []string{"ns.1.2.3."}, Records: map[string]map[string][]string{"4": {"CNAME": {"5"}}, "5": {"CNAME": {"6"}}, "6": {"PTR": {"web." + zone}}, "7": {"CNAME": {"nowhere." + zone}}}}
	for owner, types := range map[string]map[string][]string{
		"*.wild":                {"A": {"192.0.2.77"}, "TXT": {"any of them"}},
		"x.wild":                {"TXT": {"hides it"}},
		"*.walias":              {"CNAME": {"geo"}},
		"sub":                   {"NS": {"ns.sub", "ns.example.com."}},
		"ns.sub":                {"A": {"192.0.2.53"}},
		"safe":                  {"NS": {"ns.example.com."}, "DS": {"1 13 2 " + strings.Repeat("ab", 32)}},
		"ren":                   {"DNAME": {"wild"}, "TXT": {"its own"}},
		"tosub":                 {"CNAME": {"a.sub"}},
		"away":                  {"CNAME": {"www.example.com."}},
		"deep":                  {"CNAME": {"geo"}},
		"dead":                  {"CNAME": {"nowhere"}},
		"tonone":                {"CNAME": {"nowhere.in." + zone}},
		"toboth":                {"CNAME": {"both"}},
		`\000b\255\.in`:         {"A": {"192.0.2.8"}},
		`\097scii`:              {"A": {"192.0.2.9"}},
		"mix":                   {"MX": {"10 mix", "20 web"}, "NS": {}, "TXT": {"a", "b"}, "TYPE65280": {`\# 2 0102`}, "SRV": {"1 2 3 web"}, "CAA": {`0 issue "x"`}},
		strings.Repeat("l", 63): {"A": {"192.0.2.10"}},
		strings.Repeat(strings.Repeat("d", 40)+".", 5) + "e": {"AAAA": {"2001:db8::5"}},
	} {
		for typ, rr := range types {
			if len(rr) > 0 {
				recs := sp.Zones[zone].Records
				if recs[owner] == nil {
					recs[owner] = map[string][]string{}
				}
				recs[owner][typ] = rr
			}
		}
	}
	return st
}

func richTable(t testing.TB) *routing.Table {
	t.Helper()
	table, err := routing.Update(nil, richState(), routing.Local{Geo: richPlaces(t)})
	require.NoError(t, err)
	return table
}

func richPlaces(t testing.TB) *geo.Index {
	t.Helper()
	index, err := geo.New([]geo.Entry{
		{Prefix: netip.MustParsePrefix("198.51.100.0/24"), Place: geo.Place{Country: "GB", Continent: "EU"}},
		{Prefix: netip.MustParsePrefix("2001:db8:100::/40"), Place: geo.Place{Country: "GB", Continent: "EU"}},
	}, "2026-10-07")
	require.NoError(t, err)
	return index
}

// paths is a server whose both paths answer by the same draw, at the same age.
type paths struct {
	*Server
	w     *worker
	draw  uint64
	age   time.Duration
	table *routing.Table
}

func newPaths(table *routing.Table) *paths { return newPathsWith(table, Config{NSID: "eu-1"}) }

func newPathsWith(table *routing.Table, cfg Config) *paths {
	p := &paths{table: table}
	cfg.Draw, cfg.Age = func() uint64 { return p.draw }, func() time.Duration { return p.age }
	p.Server = New(cfg)
	p.Publish(table)
	p.prepare()
	p.w = p.newWorker(p.shared, UDP)
	return p
}

// ask answers a query by both paths, and reports whether the fast one did.
func (p *paths) ask(t require.TestingT, query []byte, client netip.AddrPort) bool {
	buf := make([]byte, max(maxQuery, len(query)))
	n := copy(buf, query)
	p.w.begin(p.current(), p.age)
	size, ok := p.fast(p.w, buf, n, client.Addr(), 0)
	if !ok {
		require.Equal(t, query, buf[:n], "a query that is handed on is untouched")
		return false
	}
	want := p.Respond(p.table, query, client, UDP)
	require.Equal(t, expanded(t, want), expanded(t, buf[:size]), "query %x\nfast %x\ngeneral %x", query, buf[:size], want)
	return true
}

// expanded is a message without compression.
func expanded(t require.TestingT, wire []byte) []byte {
	var m dns.Msg
	require.NoError(t, m.Unpack(wire), "%x", wire)
	m.Compress = false
	out, err := m.Pack()
	require.NoError(t, err, "%x", wire)
	return out
}

// forms are the ways in which one question is asked.
func forms(name string, qtype uint16) map[string]*dns.Msg {
	out := map[string]*dns.Msg{}
	add := func(form string, edit func(*dns.Msg)) {
		m := newQuery(name, qtype)
		edit(m)
		out[form] = m
	}
	add("plain", func(*dns.Msg) {})
	add("recursion desired", func(m *dns.Msg) { m.RecursionDesired = true })
	add("all flags", func(m *dns.Msg) {
		m.RecursionDesired, m.Truncated, m.Authoritative, m.Zero, m.CheckingDisabled, m.AuthenticatedData = true, true, true, true, true, true
	})
	for _, size := range []uint16{0, 512, 700, 1232, 4096, 65535} {
		add(fmt.Sprint("edns ", size), func(m *dns.Msg) { m.SetEdns0(size, false) })
		add(fmt.Sprint("do ", size), func(m *dns.Msg) { m.SetEdns0(size, true) })
	}
	add("a version", func(m *dns.Msg) { m.SetEdns0(1232, false).IsEdns0().SetVersion(1) })
	add("other flags", func(m *dns.Msg) { m.SetEdns0(1232, false).IsEdns0().SetZ(0x4001) })
	add("nsid", func(m *dns.Msg) {
		m.SetEdns0(1232, false).IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_NSID{Code: dns.EDNS0NSID}}
	})
	add("subnet", func(m *dns.Msg) {
		m.SetEdns0(1232, false).IsEdns0().Option = []dns.EDNS0{subnetOption(netip.MustParsePrefix("198.51.100.0/24"))}
	})
	add("chaos", func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassCHAOS })
	add("notify", func(m *dns.Msg) { m.Opcode = dns.OpcodeNotify })
	add("an answer in it", func(m *dns.Msg) { m.Answer = []dns.RR{&dns.NULL{Hdr: hdr()}} })
	add("two questions", func(m *dns.Msg) { m.Question = append(m.Question, m.Question[0]) })
	return out
}

// askedNames are all names of a table, some spelled otherwise, and names that do not
// exist.
func askedNames(table *routing.Table) []string {
	names := []string{".", "test.", "example.com.", "xgslb.test.", "nope.example.com."}
	for name := range table.Names() {
		names = append(names, name, "nope."+name, "*."+name)
		if len(name) < 60 {
			names = append(names, "a.b.c.d."+name, strings.ToUpper(name), strings.ToUpper(name[:1])+name[1:])
		}
	}
	var fit []string
	for _, name := range names {
		if _, ok := dns.IsDomainName(name); ok {
			fit = append(fit, name)
		}
	}
	return fit
}

var askedTypes = []uint16{
	dns.TypeA, dns.TypeAAAA, dns.TypeHTTPS, dns.TypeSRV, dns.TypeTXT, dns.TypeMX, dns.TypeCNAME, dns.TypeNS, dns.TypeSOA, dns.TypeDS, dns.TypePTR, dns.TypeCAA,
	dns.TypeANY, dns.TypeDNSKEY, dns.TypeRRSIG, dns.TypeNSEC, 65280, 65281, 65535, 0, dns.TypeOPT, dns.TypeAXFR, dns.TypeIXFR, dns.TypeTSIG,
}

var askingClients = []netip.AddrPort{
	netip.MustParseAddrPort("198.51.100.7:53"), netip.MustParseAddrPort("203.0.113.7:53"), netip.MustParseAddrPort("[2001:db8:100::7]:53"), netip.MustParseAddrPort("[2001:db8:f::7]:53"),
}

// TestBothPathsGiveTheSameMessage: for every name, type, form and client, byte for byte
// but for compression.
func TestBothPathsGiveTheSameMessage(t *testing.T) {
	p := newPaths(richTable(t))
	fast, all := 0, 0
	for _, name := range askedNames(p.table) {
		for _, qtype := range askedTypes {
			for form, q := range forms(name, qtype) {
				if qtype != dns.TypeA && qtype != dns.TypeTXT && !strings.HasPrefix(form, "edns 1") && form != "do 1232" {
					continue // each form with each type that is answered in its own way
				}
				query, err := q.Pack()
				require.NoError(t, err, "%s %d %s", name, qtype, form)
				p.draw = p.draw*0x9e3779b97f4a7c15 + 1
				all++
				if p.ask(t, query, askingClients[all%len(askingClients)]) {
					fast++
				}
			}
		}
	}
	t.Logf("%d of %d queries on the fast path", fast, all)
	require.Greater(t, fast, all/2, "the fast path must be what is compared")
}

// TestWhatTheFastPathAnswers: the ordinary is its own, the unusual is not.
func TestWhatTheFastPathAnswers(t *testing.T) {
	p := newPaths(richTable(t))
	tests := []struct {
		name  string
		ask   string
		qtype uint16
		age   time.Duration
		fast  bool
	}{
		{"one cluster", "db." + zone, dns.TypeA, 0, true},
		{"by weight", "web." + zone, dns.TypeA, 0, true},
		{"by place", "geo." + zone, dns.TypeA, 0, true},
		{"by network", "sticky." + zone, dns.TypeA, 0, true},
		{"who spills over", "spills." + zone, dns.TypeA, 0, true},
		{"an alias to a service", "deep." + zone, dns.TypeA, 0, true},
		{"an alias out of our data", "away." + zone, dns.TypeA, 0, true},
		{"another type at a name", "geo." + zone, dns.TypeTXT, 0, true},
		{"an empty non-terminal", "ent." + zone, dns.TypeA, 0, true},
		{"no such name", "nope." + zone, dns.TypeA, 0, true},
		{"no such name in a zone in a zone", "a.b.in." + zone, dns.TypeA, 0, true},
		{"out of zone", "example.com.", dns.TypeA, 0, true},
		{"the SOA", zone, dns.TypeSOA, 0, true},
		{"the NS with glue", zone, dns.TypeNS, 0, true},
		{"a binary label", `\000B\255\.in.` + zone, dns.TypeA, 0, true},
		{"a short while without a leader", "web." + zone, dns.TypeA, 30 * time.Second, true},
		{"a long while without a leader", "web." + zone, dns.TypeA, 31 * time.Second, false},
		{"static data whatever the age", "a.ent." + zone, dns.TypeTXT, time.Hour, true},
		{"several clusters at once", "both." + zone, dns.TypeA, 0, false},
		{"a wildcard", "any.wild." + zone, dns.TypeA, 0, false},
		{"a cutover under way", "moves." + zone, dns.TypeA, 0, true},
		{"too long without EDNS", "text." + zone, dns.TypeTXT, 0, false},
		{"a transfer", zone, dns.TypeAXFR, 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			query, err := newQuery(tt.ask, tt.qtype).Pack()
			require.NoError(t, err)
			p.age = tt.age
			require.Equal(t, tt.fast, p.ask(t, query, someClient))
		})
	}
}

// TestBothPathsForEveryClient: for random specs, states, clients and draws.
func TestBothPathsForEveryClient(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := routingtest.Draw(rt)
		table, err := routing.Update(nil, w.State, routing.Local{Geo: w.Geo})
		require.NoError(rt, err)
		p := newPaths(table)
		for range 4 {
			q := routingtest.DrawQuery(rt, w.State)
			q.Type = rapid.SampledFrom([]uint16{q.Type, routing.TypeHTTPS, routing.TypeAAAA, routing.TypeANY}).Draw(rt, "asked")
			p.age = rapid.SampledFrom([]statestore.Duration{0, 0, sec(3600)}).Draw(rt, "stale").D()
			p.draw = q.Draw
			query, err := withEDNS(newQuery(q.Name, q.Type), 1232).Pack()
			require.NoError(rt, err)
			p.ask(rt, query, netip.AddrPortFrom(q.Client.Unmap(), 53))
		}
	})
}

// TestPreparedAnswersFollowTheTable: through changes of services, serials, places and
// names, both paths stay the same, and what did not change is shared.
func TestPreparedAnswersFollowTheTable(t *testing.T) {
	st, places := richState(), richPlaces(t)
	first, err := routing.Update(nil, st, routing.Local{Geo: places})
	require.NoError(t, err)
	p := newPaths(first)
	for i, change := range []func(*statestore.State){
		func(*statestore.State) {},
		func(st *statestore.State) {
			run := *st.Services["geo"]
			run.Rotation.Number, run.Rotation.V4.Shares = 2, run.Rotation.V4.Shares[1:]
			st.Services["geo"] = &run
		},
		func(st *statestore.State) {
			run := *st.Services["owned"]
			run.Ownership = &statestore.Ownership{Active: "eu", Epoch: 13}
			st.Services["owned"] = &run
		},
		func(st *statestore.State) {
			sp := *st.Spec
			zones := map[string]*statestore.Zone{zone: sp.Zones[zone]}
			sp.Zones, st.Spec = zones, &sp
		},
	} {
		next := *st
		next.TableIndex += uint64(i + 1)
		next.Services = map[string]*statestore.ServiceState{}
		for name, run := range st.Services {
			next.Services[name] = run
		}
		change(&next)
		table, err := routing.Update(p.table, &next, routing.Local{Geo: places})
		require.NoError(t, err)
		before := p.current()
		p.Publish(table)
		p.askOld(t, before)
		if p.current().wire == nil {
			require.False(t, table.SameNames(p.table))
			p.prepare()
		}
		require.Same(t, table, p.current().table)
		st, p.table = &next, table
		for _, name := range askedNames(table) {
			for _, qtype := range []uint16{dns.TypeA, dns.TypeHTTPS, dns.TypeSRV, dns.TypeSOA} {
				query, err := withEDNS(newQuery(name, qtype), 1232).Pack()
				require.NoError(t, err)
				p.ask(t, query, askingClients[0])
			}
		}
	}
}

// askOld asks what a worker holds that has not taken the newer table up yet.
func (p *paths) askOld(t *testing.T, old *published) {
	t.Helper()
	now := p.current()
	p.published.now.Store(old)
	defer p.published.now.Store(now)
	for _, name := range []string{"geo." + zone, "owned." + zone} {
		query, err := newQuery(name, dns.TypeA).Pack()
		require.NoError(t, err)
		require.True(t, p.ask(t, query, askingClients[0]))
	}
}

func TestTheFastPathAllocatesNothing(t *testing.T) {
	p := newPaths(richTable(t))
	for _, tt := range []struct {
		name  string
		ask   string
		qtype uint16
	}{
		{"static", "a.ent." + zone, dns.TypeTXT},
		{"one cluster", "db." + zone, dns.TypeA},
		{"weighted", "web." + zone, dns.TypeA},
		{"geo", "geo." + zone, dns.TypeA},
		{"sticky", "sticky." + zone, dns.TypeA},
		{"spilling", "spills." + zone, dns.TypeA},
		{"an alias", "deep." + zone, dns.TypeA},
		{"no data", "web." + zone, dns.TypeTXT},
		{"no such name", "nope.nope." + zone, dns.TypeA},
		{"out of zone", "example.com.", dns.TypeA},
	} {
		t.Run(tt.name, func(t *testing.T) {
			query, err := withEDNS(newQuery(tt.ask, tt.qtype), 1232).Pack()
			require.NoError(t, err)
			batch := []packet{{buf: make([]byte, maxQuery), n: len(query), client: someClient}}
			p.w.begin(p.current(), 0)
			require.Zero(t, testing.AllocsPerRun(200, func() {
				copy(batch[0].buf, query)
				batch[0].reply = nil
				p.draw += 1 << 61
				p.answerFrom(p.w, batch, 0)
			}))
			require.NotEmpty(t, batch[0].reply)
			require.True(t, bytes.HasPrefix(batch[0].reply, query[:2]))
		})
	}
}

// TestAnAnswerThatCannotBeMadeIsLeftToTheGeneralPath: preparing answers goes on, and the
// process too.
func TestAnAnswerThatCannotBeMadeIsLeftToTheGeneralPath(t *testing.T) {
	p := newPaths(richTable(t))
	mk := &maker{s: p.Server, table: p.table}
	broken := routing.Answer{Kind: routing.NoError, Zone: p.table.Zones[0], Owner: "web." + zone, Set: &routing.RRset{Type: dns.TypeA, Rdata: [][]byte{{1}}}}
	msg, options := mk.Message("WEB."+zone, dns.TypeA, broken)
	require.Nil(t, msg)
	require.Nil(t, options)
	require.Equal(t, 1.0, counted(t, p.metrics.panics))
	broken.Set = &routing.RRset{Type: dns.TypeA, Rdata: [][]byte{{192, 0, 2, 1}}}
	msg, _ = mk.Message("WEB."+zone, dns.TypeA, broken)
	require.NotNil(t, msg)
}

// FuzzPaths: whatever comes, the fast path answers as the general one, or not at all.
func FuzzPaths(f *testing.F) {
	p := newPaths(richTable(f))
	for _, name := range []string{"web." + zone, "geo." + zone, "NOPE." + zone, "deep." + zone, "ent." + zone, "example.com.", zone, "x.in." + zone, `\000b\255\.in.` + zone} {
		for _, q := range forms(name, dns.TypeA) {
			query, err := q.Pack()
			require.NoError(f, err)
			f.Add(query, uint64(1)<<62, uint8(0))
		}
		for _, qtype := range askedTypes {
			query, err := withEDNS(newQuery(name, qtype), 4096).Pack()
			require.NoError(f, err)
			f.Add(query, uint64(0), uint8(1))
		}
	}
	f.Fuzz(func(t *testing.T, query []byte, draw uint64, client uint8) {
		p.draw = draw
		p.ask(t, query, askingClients[int(client)%len(askingClients)])
		require.Zero(t, counted(t, p.metrics.panics))
	})
}
