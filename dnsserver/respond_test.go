package dnsserver

import (
	"net"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/routing"
	"github.com/quorate/quorate/statestore"
)

func TestAnswers(t *testing.T) {
	s := New(testConfig(testTable(t)))
	const soa = "gslb.test. 30 IN SOA ns-eu-1.gslb.test. hostmaster.gslb.test. 67108873 3600 900 604800 30"
	tests := []struct {
		name, ask string
		qtype     uint16
		rcode     int
		answer    string
		authority string
	}{
		{"a service", "web.gslb.test.", dns.TypeA, dns.RcodeSuccess, "web.gslb.test. 20 IN A 192.0.2.1", ""},
		{"case of the question is kept", "WwW.GSLB.test.", dns.TypeTXT, dns.RcodeSuccess, "WwW.GSLB.test. 300 IN CNAME web.gslb.test.", soaAs("GSLB.test.", soa)},
		{"case of an answer's owner too", "wEb.GsLb.TeSt.", dns.TypeA, dns.RcodeSuccess, "wEb.GsLb.TeSt. 20 IN A 192.0.2.1", ""},
		{"no data is not no name", "web.gslb.test.", dns.TypeAAAA, dns.RcodeSuccess, "", soa},
		{"https at an address name is no data", "web.gslb.test.", dns.TypeHTTPS, dns.RcodeSuccess, "", soa},
		{"an unknown type is no data", "web.gslb.test.", 65280, dns.RcodeSuccess, "", soa},
		{"an empty non-terminal is no data", "ent.gslb.test.", dns.TypeA, dns.RcodeSuccess, "", soa},
		{"no such name", "nope.gslb.test.", dns.TypeA, dns.RcodeNameError, "", soa},
		{"an alias and what it names", "www.gslb.test.", dns.TypeA, dns.RcodeSuccess, "www.gslb.test. 300 IN CNAME web.gslb.test.|web.gslb.test. 20 IN A 192.0.2.1", ""},
		{"the soa", "gslb.test.", dns.TypeSOA, dns.RcodeSuccess, "gslb.test. 3600 IN SOA ns-eu-1.gslb.test. hostmaster.gslb.test. 67108873 3600 900 604800 30", ""},
		{"the ns", "gslb.test.", dns.TypeNS, dns.RcodeSuccess, "gslb.test. 3600 IN NS ns-eu-1.gslb.test.|gslb.test. 3600 IN NS ns-us-1.gslb.test.", ""},
		{"any is minimal", "web.gslb.test.", dns.TypeANY, dns.RcodeSuccess, `web.gslb.test. 3600 IN HINFO "RFC8482" ""`, ""},
		{"out of zone", "example.com.", dns.TypeA, dns.RcodeRefused, "", ""},
		{"the root", ".", dns.TypeNS, dns.RcodeRefused, "", ""},
		{"a transfer", "gslb.test.", dns.TypeAXFR, dns.RcodeRefused, "", ""},
		{"an incremental transfer", "gslb.test.", dns.TypeIXFR, dns.RcodeRefused, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, proto := range []Proto{UDP, TCP} {
				m := ask(t, s, newQuery(tt.ask, tt.qtype), proto)
				require.Equal(t, dns.RcodeToString[tt.rcode], dns.RcodeToString[m.Rcode])
				require.Equal(t, tt.answer, lines(m.Answer))
				require.Equal(t, tt.authority, lines(m.Ns))
				require.Equal(t, tt.ask, m.Question[0].Name)
				require.Equal(t, tt.rcode != dns.RcodeRefused, m.Authoritative)
				require.Nil(t, m.IsEdns0(), "no OPT unless asked")
			}
		})
	}
}

// soaAs returns the negative SOA with the owner as the client spelled it.
func soaAs(owner, soa string) string { return owner + soa[len(zone):] }

func TestNSCarriesGlue(t *testing.T) {
	m := ask(t, New(testConfig(testTable(t))), newQuery(zone, dns.TypeNS), UDP)
	require.Equal(t, "ns-eu-1.gslb.test. 3600 IN A 203.0.113.1|ns-us-1.gslb.test. 3600 IN A 203.0.113.2", lines(m.Extra))
}

func TestHeaderRules(t *testing.T) {
	s := New(testConfig(testTable(t)))
	tests := []struct {
		name  string
		edit  func(*dns.Msg)
		rcode int
	}{
		{"recursion desired is given back", func(m *dns.Msg) { m.RecursionDesired = true }, dns.RcodeSuccess},
		{"ad, cd, tc, aa and z are not", func(m *dns.Msg) {
			m.AuthenticatedData, m.CheckingDisabled, m.Truncated, m.Zero = true, true, true, true
		}, dns.RcodeSuccess},
		{"status is not implemented", func(m *dns.Msg) { m.Opcode = dns.OpcodeStatus }, dns.RcodeNotImplemented},
		{"an unknown opcode is not implemented", func(m *dns.Msg) { m.Opcode = 9 }, dns.RcodeNotImplemented},
		{"notify is refused", func(m *dns.Msg) { m.Opcode = dns.OpcodeNotify }, dns.RcodeRefused},
		{"update is refused", func(m *dns.Msg) { m.Opcode = dns.OpcodeUpdate }, dns.RcodeRefused},
		{"chaos is refused", func(m *dns.Msg) {
			m.Question[0] = dns.Question{Name: "version.bind.", Qtype: dns.TypeTXT, Qclass: dns.ClassCHAOS}
		}, dns.RcodeRefused},
		{"an unknown class is refused", func(m *dns.Msg) { m.Question[0].Qclass = 77 }, dns.RcodeRefused},
		{"class any is refused", func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassANY }, dns.RcodeRefused},
		{"no question", func(m *dns.Msg) { m.Question = nil }, dns.RcodeFormatError},
		{"two questions", func(m *dns.Msg) { m.Question = append(m.Question, m.Question[0]) }, dns.RcodeFormatError},
		{"two answers in a query", func(m *dns.Msg) { m.Answer = []dns.RR{&dns.NULL{Hdr: hdr()}, &dns.NULL{Hdr: hdr()}} }, dns.RcodeFormatError},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q := newQuery("web.gslb.test.", dns.TypeA)
			tt.edit(q)
			m := ask(t, s, q, UDP)
			require.Equal(t, dns.RcodeToString[tt.rcode], dns.RcodeToString[m.Rcode])
			require.Equal(t, q.Opcode, m.Opcode)
			require.Equal(t, q.RecursionDesired, m.RecursionDesired)
			require.False(t, m.RecursionAvailable || m.AuthenticatedData || m.CheckingDisabled || m.Truncated || m.Zero)
			require.Equal(t, tt.rcode == dns.RcodeSuccess, len(m.Answer) > 0)
		})
	}
}

func hdr() dns.RR_Header { return dns.RR_Header{Name: ".", Rrtype: dns.TypeNULL, Class: dns.ClassINET} }

func TestSilence(t *testing.T) {
	s := New(testConfig(testTable(t)))
	wire, err := newQuery("web.gslb.test.", dns.TypeA).Pack()
	require.NoError(t, err)
	response := append([]byte(nil), wire...)
	response[2] |= 0x80
	for name, b := range map[string][]byte{"nothing": nil, "short": wire[:11], "a response": response} {
		require.Nil(t, s.Respond(s.cfg.Table(), b, someClient, UDP), name)
	}
	cut := s.Respond(s.cfg.Table(), wire[:20], someClient, UDP)
	require.Equal(t, wire[:2], cut[:2])
	require.EqualValues(t, dns.RcodeFormatError, cut[3]&0xf, "a question cut short is answered")
	for name, question := range map[string][]byte{
		"a pointer loop":          {0xc0, 12, 0, 1, 0, 1},
		"a pointer into the id":   {0xc0, 2, 0, 1, 0, 1},
		"a pointer forward":       {0xc0, 18, 0, 1, 0, 1, 0},
		"a pointer after a label": {1, 'a', 0xc0, 20, 0, 1, 0, 1, 0},
	} {
		pointer := append(append([]byte(nil), wire[:12]...), question...)
		require.EqualValues(t, dns.RcodeFormatError, s.Respond(s.cfg.Table(), pointer, someClient, UDP)[3]&0xf, name)
	}
}

func TestEDNS(t *testing.T) {
	s := New(testConfig(testTable(t)))
	opt := func(name string, version uint8, options ...dns.EDNS0) *dns.OPT {
		o := &dns.OPT{Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeOPT}, Option: options}
		o.SetUDPSize(4096)
		o.SetVersion(version)
		return o
	}
	subnet := func(bits uint8, ip string, scope uint8) dns.EDNS0 {
		return &dns.EDNS0_SUBNET{Code: dns.EDNS0SUBNET, Family: 1, SourceNetmask: bits, SourceScope: scope, Address: net.ParseIP(ip)}
	}
	do := opt(".", 0)
	do.SetDo()
	tests := []struct {
		name  string
		extra []dns.RR
		rcode int
		opt   string // options given back
	}{
		{"plain", []dns.RR{opt(".", 0)}, dns.RcodeSuccess, ""},
		{"do is given back", []dns.RR{do}, dns.RcodeSuccess, "do"},
		{"a higher version", []dns.RR{opt(".", 1)}, dns.RcodeBadVers, ""},
		{"two of them", []dns.RR{opt(".", 0), opt(".", 0)}, dns.RcodeFormatError, ""},
		{"not at the root", []dns.RR{opt("x.", 0)}, dns.RcodeFormatError, ""},
		{"an unknown option is ignored", []dns.RR{opt(".", 0, &dns.EDNS0_LOCAL{Code: 65001, Data: []byte{1}})}, dns.RcodeSuccess, ""},
		{"nsid when asked", []dns.RR{opt(".", 0, &dns.EDNS0_NSID{Code: dns.EDNS0NSID})}, dns.RcodeSuccess, "nsid 65752d31"},
		{"a subnet gets scope 0", []dns.RR{opt(".", 0, subnet(24, "192.0.2.0", 0))}, dns.RcodeSuccess, "ecs 192.0.2.0/24/0"},
		{"a subnet with a scope", []dns.RR{opt(".", 0, subnet(24, "192.0.2.0", 24))}, dns.RcodeFormatError, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q := newQuery("web.gslb.test.", dns.TypeA)
			q.Extra = tt.extra
			m := ask(t, s, q, UDP)
			require.Equal(t, dns.RcodeToString[tt.rcode], dns.RcodeToString[m.Rcode])
			require.Equal(t, tt.rcode == dns.RcodeSuccess, len(m.Answer) > 0)
			got := m.IsEdns0()
			require.NotNil(t, got)
			require.EqualValues(t, 0, got.Version())
			require.EqualValues(t, 1232, got.UDPSize())
			require.EqualValues(t, 0, got.Z())
			shown := ""
			if got.Do() {
				shown = "do"
			}
			for _, o := range got.Option {
				switch o := o.(type) {
				case *dns.EDNS0_NSID:
					shown += "nsid " + o.Nsid
				case *dns.EDNS0_SUBNET:
					shown += "ecs " + o.String()
				}
			}
			require.Equal(t, tt.opt, shown)
		})
	}
}

func TestTruncation(t *testing.T) {
	s := New(testConfig(testTable(t)))
	tests := []struct {
		name    string
		ask     string
		qtype   uint16
		size    uint16 // 0: no EDNS
		proto   Proto
		answers int
		tc      bool
	}{
		{"512 without EDNS", "big.gslb.test.", dns.TypeA, 0, UDP, 0, true},
		{"below 512 means 512", "big.gslb.test.", dns.TypeA, 100, UDP, 0, true},
		{"fits 1232", "big.gslb.test.", dns.TypeA, 1232, UDP, 60, false},
		{"never above 1232", "text.gslb.test.", dns.TypeTXT, 4096, UDP, 0, true},
		{"tcp has no such limit", "text.gslb.test.", dns.TypeTXT, 1232, TCP, 6, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q := newQuery(tt.ask, tt.qtype)
			if tt.size > 0 {
				withEDNS(q, tt.size)
			}
			wire, err := q.Pack()
			require.NoError(t, err)
			reply := s.Respond(s.cfg.Table(), wire, someClient, tt.proto)
			var m dns.Msg
			require.NoError(t, m.Unpack(reply))
			require.Equal(t, tt.tc, m.Truncated)
			require.Len(t, m.Answer, tt.answers, "whole sets or none")
			require.Equal(t, tt.size > 0, m.IsEdns0() != nil)
			if tt.proto == UDP {
				require.LessOrEqual(t, len(reply), max(512, min(1232, int(tt.size))))
			}
		})
	}
}

func TestAdditionalIsTrimmedFirstAndSilently(t *testing.T) {
	st := testState()
	for i := range 20 {
		name := string(rune('a'+i)) + "-node-with-a-rather-long-name"
		st.Members[name] = &statestore.Member{Name: name, DNS: statestore.Advertise{IPv4: ips("203.0.113.50"), IPv6: ips("2001:db8::50")}}
	}
	table, err := routing.Compile(st)
	require.NoError(t, err)
	m := ask(t, New(testConfig(table)), withEDNS(newQuery(zone, dns.TypeNS), 1232), UDP)
	require.False(t, m.Truncated)
	require.Len(t, m.Answer, 22)
	require.Less(t, len(m.Extra), 43, "not all of the glue and OPT")
	require.Greater(t, len(m.Extra), 1, "but what fits")
}

func TestAnyIsNeverAnAmplifier(t *testing.T) {
	s := New(testConfig(testTable(t)))
	for _, name := range []string{"web.gslb.test.", "text.gslb.test.", zone} {
		wire, err := newQuery(name, dns.TypeANY).Pack()
		require.NoError(t, err)
		require.LessOrEqual(t, len(s.Respond(s.cfg.Table(), wire, someClient, UDP)), 2*len(wire))
	}
}

func TestStaleAnswerIsKeptAndSaid(t *testing.T) {
	cfg := testConfig(testTable(t))
	age := time.Duration(0)
	cfg.Age = func() time.Duration { return age }
	s := New(cfg)
	stale := func(m *dns.Msg) bool {
		for _, o := range m.IsEdns0().Option {
			if e, ok := o.(*dns.EDNS0_EDE); ok && e.InfoCode == dns.ExtendedErrorCodeStaleAnswer {
				return true
			}
		}
		return false
	}
	require.False(t, stale(ask(t, s, withEDNS(newQuery("web.gslb.test.", dns.TypeA), 1232), UDP)))
	age = 31 * time.Second
	m := ask(t, s, withEDNS(newQuery("web.gslb.test.", dns.TypeA), 1232), UDP)
	require.Equal(t, "web.gslb.test. 20 IN A 192.0.2.1", lines(m.Answer))
	require.True(t, stale(m))
	m = ask(t, s, newQuery("web.gslb.test.", dns.TypeA), UDP)
	require.Nil(t, m.IsEdns0())
	require.Len(t, m.Answer, 1)
}

func TestWhileACutoverIsUnderWayNobodyIsAnsweredAndItIsSaid(t *testing.T) {
	st := testState()
	st.Spec.Services["web"].Stateful = &statestore.Stateful{}
	run := *st.Services["web"]
	run.Ownership = &statestore.Ownership{Active: "eu", Epoch: 12, Next: 13, Open: "CUT-17"}
	st.Services["web"] = &run
	table, err := routing.Compile(st)
	require.NoError(t, err)
	m := ask(t, New(testConfig(table)), withEDNS(newQuery("web.gslb.test.", dns.TypeA), 1232), UDP)
	require.Equal(t, dns.RcodeServerFailure, m.Rcode)
	require.Empty(t, m.Answer)
	require.Equal(t, []dns.EDNS0{&dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeNotReady, ExtraText: "a cutover is under way"}}, m.IsEdns0().Option)
}

func TestNoTableYetIsRefused(t *testing.T) {
	m := ask(t, New(Config{}), newQuery("web.gslb.test.", dns.TypeA), UDP)
	require.Equal(t, dns.RcodeRefused, m.Rcode)
}

func TestAPanicIsCountedAndAnswered(t *testing.T) {
	cfg := testConfig(testTable(t))
	cfg.Draw = func() uint64 { panic("planted") }
	s := New(cfg)
	m := ask(t, s, newQuery("web.gslb.test.", dns.TypeA), UDP)
	require.Equal(t, dns.RcodeServerFailure, m.Rcode)
	require.EqualValues(t, 1, counted(t, s.metrics.panics))
}

// TestG14ExplainIsTheServer asks DNS and the function behind explain the same
// questions: every name, type and draw gets the same records and code.
func TestG14ExplainIsTheServer(t *testing.T) {
	table := testTable(t)
	var draw uint64
	cfg := testConfig(table)
	cfg.Draw = func() uint64 { return draw }
	s := New(cfg)
	rcodes := map[routing.Kind]int{routing.NoError: dns.RcodeSuccess, routing.NoData: dns.RcodeSuccess, routing.NameError: dns.RcodeNameError, routing.Refused: dns.RcodeRefused, routing.ServFail: dns.RcodeServerFailure}
	for _, name := range []string{"web.gslb.test.", "db.gslb.test.", "www.gslb.test.", "nope.gslb.test.", "example.com.", zone} {
		for _, typ := range []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeNS} {
			for _, draw = range []uint64{0, 1 << 62, 1<<64 - 1} {
				a, trace := routing.Select(table, routing.Query{Name: name, Type: typ, Client: someClient.Addr(), Draw: draw})
				m := ask(t, s, newQuery(name, typ), TCP)
				require.Equal(t, rcodes[a.Kind], m.Rcode)
				var want []string
				for _, addr := range a.Addresses() {
					want = append(want, addr.String())
				}
				var got []string
				for _, rr := range m.Answer {
					if r, ok := rr.(*dns.A); ok {
						got = append(got, r.A.String())
					}
				}
				require.Equal(t, want, got)
				steps := trace.Steps()
				require.Equal(t, "answer", steps[len(steps)-1].Step)
			}
		}
	}
}
