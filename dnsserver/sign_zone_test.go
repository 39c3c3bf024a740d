package dnsserver

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/dnsserver/dnssec"
	"github.com/quorate/quorate/routing"
	"github.com/quorate/quorate/statestore"
)

const childZone = "child." + zone

// signedState is testState with a zone that has some of everything, signed, and two
// zones below it: a signed one and one that is not.
func signedState(algorithm statestore.Algorithm, denial statestore.Denial) *statestore.State {
	st := testState()
	how := &statestore.DNSSEC{
		Mode: statestore.Signed, Algorithm: algorithm, Denial: denial, Valid: statestore.Duration(7 * 24 * time.Hour),
		KSK: statestore.Secret{Secret: "ksk"}, ZSK: statestore.Secret{Secret: "zsk"},
	}
	z := st.Spec.Zones[zone]
	z.DNSSEC = how
	for owner, types := range map[string]map[string][]string{
		"mail":           {"MX": {"10 MX1", "20 mx2.example.net."}, "TXT": {"mixed Case"}, "CAA": {`0 issue "ca.example.net"`}},
		"MX1":            {"A": {"192.0.2.25"}, "AAAA": {"2001:db8::25"}},
		"*.wild":         {"A": {"192.0.2.7"}, "TXT": {"wild"}, "MX": {"0 mx1"}},
		"own.wild":       {"TXT": {"its own"}},
		"*.alias":        {"CNAME": {"web"}},
		"*.gone":         {"CNAME": {"nothing.here"}},
		"two":            {"CNAME": {"one.alias"}},
		"out":            {"CNAME": {"www.example.net."}},
		"tree":           {"DNAME": {"wild"}},
		"deep.deeper.in": {"SRV": {"0 0 443 web"}},
		"signed":         {"NS": {"ns.signed", "ns-eu-1"}, "DS": {"12345 13 2 0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF"}},
		"ns.signed":      {"A": {"192.0.2.53"}},
		"unsigned":       {"NS": {"ns.unsigned"}},
		"ns.unsigned":    {"A": {"192.0.2.54"}},
		"child":          {"DS": {"4711 13 2 0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF"}},
		"odd":            {"TYPE65280": {`\# 2 beef`}},
	} {
		z.Records[owner] = types
	}
	down := *st.Spec.Services["db"]
	down.Names, down.OnAllDown = []string{"down"}, statestore.OnAllDown{Mode: statestore.NoData}
	st.Spec.Services["down"] = &down
	st.Services["down"] = &statestore.ServiceState{Rotation: statestore.Rotation{Number: 1, V4: statestore.Pool{
		AllDown: statestore.NoData, Shares: []statestore.Share{{Cluster: "eu", Endpoints: ips("192.0.2.1")}},
	}}}
	st.Spec.Zones[childZone] = &statestore.Zone{
		NSTTL: z.NSTTL, SOA: z.SOA, DNSSEC: how,
		Records: map[string]map[string][]string{"x": {"A": {"192.0.2.8"}}},
	}
	st.Spec.Zones["plain."+zone] = &statestore.Zone{
		NSTTL: z.NSTTL, SOA: z.SOA,
		Records: map[string]map[string][]string{"x": {"A": {"192.0.2.9"}}},
	}
	return st
}

// signedZone returns the keys of a zone of signedState.
func signedZone(t testing.TB, name string, how *statestore.DNSSEC) *dnssec.Zone {
	t.Helper()
	algorithm, ok := dnssec.AlgorithmNumber(string(how.Algorithm))
	require.True(t, ok)
	p := dnssec.Policy{Zone: name, Algorithm: algorithm, Compact: how.Denial == statestore.CompactDenial, Valid: how.Valid.D(), TTL: 3600}
	for _, k := range []*dnssec.Keys{&p.KSK, &p.ZSK} {
		key, err := dnssec.Generate(algorithm)
		require.NoError(t, err)
		k.Active = key
	}
	z, err := dnssec.NewZone(p)
	require.NoError(t, err)
	return z
}

// signedServer answers from signedState.
func signedServer(t testing.TB, algorithm statestore.Algorithm, denial statestore.Denial) *Server {
	t.Helper()
	st := signedState(algorithm, denial)
	table, err := routing.Compile(st)
	require.NoError(t, err)
	keys := map[string]*dnssec.Zone{}
	for _, name := range []string{zone, childZone} {
		keys[name] = signedZone(t, name, st.Spec.Zones[name].DNSSEC)
	}
	cfg := testConfig(table)
	cfg.Keys = func(name string) *dnssec.Zone { return keys[name] }
	return New(cfg)
}

// askSigned asks with DO, over TCP so that everything fits.
func askSigned(t testing.TB, s *Server, name string, qtype uint16) *dns.Msg {
	t.Helper()
	m := ask(t, s, newQuery(name, qtype).SetEdns0(4096, true), TCP)
	require.NotNil(t, m)
	require.False(t, m.AuthenticatedData)
	require.True(t, m.IsEdns0().Do())
	return m
}

// signedNames are names that are there, and names that are not, at every kind of place.
func signedNames() []string {
	var names []string
	for _, n := range []string{
		"", "www", "web", "db", "down", "big", "text", "ent", "a.ent", "b.ent", "mail", "mx1", "wild", "*.wild", "a.wild", "b.a.wild", "own.wild", "below.own.wild",
		"alias", "one.alias", "gone", "a.gone", "two", "out", "tree", "a.tree", "x.y.tree", "in", "deeper.in", "deep.deeper.in", "a.deeper.in",
		"signed", "ns.signed", "x.signed", "unsigned", "x.unsigned", "child", "x.child", "y.child", "plain", "x.plain", "y.plain", "odd",
		"0", "zzz", "nothing.here", "ns-eu-1", "a.web", `\000.web`, `a\.b`, `\255`, strings.Repeat("a", 63), "w",
	} {
		if n == "" {
			names = append(names, zone)
			continue
		}
		names = append(names, n+"."+zone)
	}
	long := strings.Repeat(strings.Repeat("l", 61)+".", 4)
	return append(names, long[len(long)-254+len(zone):]+zone)
}

var signedTypes = []uint16{
	dns.TypeA, dns.TypeAAAA, dns.TypeNS, dns.TypeSOA, dns.TypeCNAME, dns.TypeTXT, dns.TypeMX, dns.TypeSRV, dns.TypeCAA, dns.TypeDS, dns.TypeHTTPS, dns.TypeDNAME,
	dns.TypeDNSKEY, dns.TypeCDS, dns.TypeCDNSKEY, dns.TypeNSEC, dns.TypeRRSIG, dns.TypeANY, dns.TypeHINFO, 65280, 65281,
}

// eachSigned runs f for both algorithms and both ways of denial.
func eachSigned(t *testing.T, f func(t *testing.T, s *Server, denial statestore.Denial)) {
	for _, algorithm := range []statestore.Algorithm{statestore.ECDSAP256SHA256, statestore.ED25519} {
		for _, denial := range []statestore.Denial{statestore.CompactDenial, statestore.NSECDenial} {
			t.Run(string(algorithm)+" "+string(denial), func(t *testing.T) { f(t, signedServer(t, algorithm, denial), denial) })
		}
	}
}

func TestEveryAnswerOfASignedZoneValidates(t *testing.T) {
	eachSigned(t, func(t *testing.T, s *Server, _ statestore.Denial) {
		keys := trusted(t, s)
		for _, name := range signedNames() {
			for _, qtype := range signedTypes {
				m := askSigned(t, s, name, qtype)
				v := &validation{keys: keys, m: m, name: name, qtype: qtype}
				if err := v.check(time.Now()); err != nil {
					t.Fatalf("%s %s: %v\n%v", name, dns.Type(qtype), err, m)
				}
			}
		}
	})
}

// What a resolver that answers from NSEC records has learned (RFC 8198) must not deny
// anything that somebody is answered.
func TestNoProofDeniesWhatAnotherQueryGets(t *testing.T) {
	eachSigned(t, func(t *testing.T, s *Server, _ statestore.Denial) {
		type learned struct {
			nsec   *dns.NSEC
			zone   string
			denied string // what was asked when it was learned
		}
		var proofs []learned
		type answered struct {
			name  string
			qtype uint16
			zone  string
		}
		var there []answered
		for _, name := range signedNames() {
			for _, qtype := range signedTypes {
				m := askSigned(t, s, name, qtype)
				for _, rr := range m.Ns {
					if n, ok := rr.(*dns.NSEC); ok {
						proofs = append(proofs, learned{n, signerOf(m, n.Hdr.Name, dns.TypeNSEC), strings.ToLower(name) + dns.Type(qtype).String()})
					}
				}
				for _, rr := range m.Answer {
					h := rr.Header()
					if by := signerOf(m, h.Name, h.Rrtype); by != "" && h.Rrtype != dns.TypeHINFO {
						there = append(there, answered{dns.CanonicalName(h.Name), h.Rrtype, by})
					}
				}
			}
		}
		require.Greater(t, len(proofs), 100)
		for _, p := range proofs {
			for _, a := range there {
				if p.zone != a.zone || p.denied == a.name+dns.Type(a.qtype).String() {
					continue
				}
				require.False(t, covers(p.nsec, a.name) && !strings.HasPrefix(a.name, "*") && !s.wildcards(a.name), "%v denies %s", p.nsec, a.name)
				if dns.CanonicalName(p.nsec.Hdr.Name) == a.name {
					require.True(t, slices.Contains(p.nsec.TypeBitMap, a.qtype), "%v, learned by %s, denies %s", p.nsec, p.denied, dns.Type(a.qtype))
				}
			}
		}
	})
}

// wildcards reports whether a name is one that a wildcard or DNAME answers: others near
// it are there because of the same.
func (s *Server) wildcards(name string) bool {
	types, there := s.cfg.Table().Types(name)
	return !there || len(types) == 0
}

func TestAnUnsignedAnswerStaysAsItIs(t *testing.T) {
	eachSigned(t, func(t *testing.T, s *Server, _ statestore.Denial) {
		plain := New(testConfig(s.cfg.Table()))
		for _, name := range signedNames() {
			for _, qtype := range signedTypes {
				m := ask(t, s, newQuery(name, qtype), TCP)
				if qtype == dns.TypeDNSKEY || qtype == dns.TypeCDS || qtype == dns.TypeCDNSKEY || qtype == dns.TypeNSEC || qtype == dns.TypeRRSIG {
					continue
				}
				require.Equal(t, ask(t, plain, newQuery(name, qtype), TCP).String(), m.String())
			}
		}
	})
}

func TestCompactDenial(t *testing.T) {
	s := signedServer(t, statestore.ECDSAP256SHA256, statestore.CompactDenial)
	nsec := func(m *dns.Msg) *dns.NSEC {
		for _, rr := range m.Ns {
			if n, ok := rr.(*dns.NSEC); ok {
				return n
			}
		}
		return nil
	}
	m := askSigned(t, s, "NoPe."+zone, dns.TypeA)
	require.Equal(t, dns.RcodeSuccess, m.Rcode)
	require.Equal(t, "NoPe."+zone+" 30 IN NSEC \\000.nope."+zone+" RRSIG NSEC NXNAME", lines([]dns.RR{nsec(m)}))
	require.Len(t, m.Ns, 4, "SOA and NSEC, signed")

	q := newQuery("nope."+zone, dns.TypeA).SetEdns0(4096, true)
	q.IsEdns0().Hdr.Ttl |= flagCO
	m = ask(t, s, q, TCP)
	require.Equal(t, dns.RcodeNameError, m.Rcode, "who knows NXNAME gets the code")

	require.Equal(t, dns.RcodeNameError, ask(t, s, newQuery("nope."+zone, dns.TypeA), TCP).Rcode, "without DO there is no NSEC record to say it")
	require.Equal(t, dns.RcodeFormatError, ask(t, s, newQuery("web."+zone, dns.TypeNXNAME), TCP).Rcode)

	for _, tt := range []struct {
		name  string
		qtype uint16
		want  []uint16
	}{
		{"ent", dns.TypeA, []uint16{dns.TypeRRSIG, dns.TypeNSEC}},
		{"down", dns.TypeA, []uint16{dns.TypeRRSIG, dns.TypeNSEC}},
		{"down", dns.TypeTXT, []uint16{dns.TypeA, dns.TypeRRSIG, dns.TypeNSEC}},
		{"web", dns.TypeTXT, []uint16{dns.TypeA, dns.TypeRRSIG, dns.TypeNSEC}},
		{"a.wild", dns.TypeAAAA, []uint16{dns.TypeA, dns.TypeMX, dns.TypeTXT, dns.TypeRRSIG, dns.TypeNSEC}},
		{"unsigned", dns.TypeDS, []uint16{dns.TypeNS, dns.TypeRRSIG, dns.TypeNSEC}},
		{"x.unsigned", dns.TypeA, []uint16{dns.TypeNS, dns.TypeRRSIG, dns.TypeNSEC}},
	} {
		require.Equal(t, tt.want, nsec(askSigned(t, s, tt.name+"."+zone, tt.qtype)).TypeBitMap, tt.name)
	}
}

func TestAZoneWithoutKeysIsNeverServedUnsigned(t *testing.T) {
	cfg := testConfig(signedServer(t, statestore.ED25519, statestore.CompactDenial).cfg.Table())
	for _, keys := range []func(string) *dnssec.Zone{nil, func(string) *dnssec.Zone { return nil }} {
		cfg.Keys = keys
		s := New(cfg)
		for _, name := range []string{"web", "nope", "unsigned", "x.unsigned", "www", "ent", "x.child"} {
			for _, qtype := range []uint16{dns.TypeA, dns.TypeDNSKEY, dns.TypeNSEC, dns.TypeRRSIG, dns.TypeDS} {
				m := askSigned(t, s, name+"."+zone, qtype)
				require.Equal(t, dns.RcodeServerFailure, m.Rcode, "%v", m)
				require.Equal(t, dns.ExtendedErrorCodeDNSKEYMissing, m.IsEdns0().Option[0].(*dns.EDNS0_EDE).InfoCode)
				require.Empty(t, m.Answer)
				require.Empty(t, m.Ns)
				require.Len(t, m.Extra, 1)
			}
		}
		require.Equal(t, dns.RcodeServerFailure, ask(t, s, newQuery(zone, dns.TypeDNSKEY), UDP).Rcode)
		m := askSigned(t, s, "x.plain."+zone, dns.TypeA)
		require.Equal(t, dns.RcodeSuccess, m.Rcode, "other zones are answered")
		require.Len(t, m.Answer, 1)
		require.Equal(t, dns.RcodeSuccess, ask(t, s, newQuery("web."+zone, dns.TypeA), UDP).Rcode, "who asks for no signatures misses none")
	}
}

func TestMadeUpNamesHaveABudget(t *testing.T) {
	s := signedServer(t, statestore.ED25519, statestore.CompactDenial)
	s.signer = dnssec.NewSigner(dnssec.Limits{PerSecond: 10})
	refused := 0
	for i := range 50 {
		m := askSigned(t, s, strings.Repeat("x", i+1)+"."+zone, dns.TypeA)
		if m.Rcode == dns.RcodeServerFailure {
			refused++
			require.Equal(t, dns.ExtendedErrorCodeNotReady, m.IsEdns0().Option[0].(*dns.EDNS0_EDE).InfoCode)
			require.Empty(t, m.Ns)
		}
	}
	require.Greater(t, refused, 30)
	m := askSigned(t, s, "db."+zone, dns.TypeA)
	require.Equal(t, dns.RcodeSuccess, m.Rcode, "the zone's own names have another")
	require.Len(t, m.Answer, 2)
}

func TestAnAnswerThatDoesNotFitIsTruncated(t *testing.T) {
	s := signedServer(t, statestore.ECDSAP256SHA256, statestore.NSECDenial)
	m := ask(t, s, newQuery("text."+zone, dns.TypeTXT).SetEdns0(1232, true), UDP)
	require.True(t, m.Truncated)
	m = ask(t, s, newQuery("nope."+zone, dns.TypeA).SetEdns0(1232, true), UDP)
	require.False(t, m.Truncated)
}

func TestAnAnswerDoesNotFailForAnotherZonesKeys(t *testing.T) {
	st := signedState(statestore.ED25519, statestore.CompactDenial)
	st.Spec.Zones["plain."+zone].NS = []string{"ns-eu-1." + zone}
	table, err := routing.Compile(st)
	require.NoError(t, err)
	s := New(testConfig(table)) // without keys
	m := askSigned(t, s, "plain."+zone, dns.TypeNS)
	require.Equal(t, dns.RcodeSuccess, m.Rcode, "the addresses of its server are of a zone that cannot be signed")
	require.Len(t, m.Answer, 1)
	require.Greater(t, len(m.Extra), 1)
}
