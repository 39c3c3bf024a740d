package dnsserver

import (
	"fmt"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/routing"
	"github.com/quorate/quorate/statestore"
)

// zoneServer serves static data of all sorts beside web, and a zone below the zone.
func zoneServer(t *testing.T) *Server {
	st := testState()
	many := make([]string, 3000)
	for i := range many {
		many[i] = fmt.Sprintf("198.18.%d.%d", i/256, i%256)
	}
	var servers []string
	z := *st.Spec.Zones[zone]
	z.Records = map[string]map[string][]string{
		"@":          {"MX": {"10 mail"}, "CAA": {`0 issue "ca.example"`}},
		"mail":       {"A": {"192.0.2.25"}},
		"child":      {"NS": {"ns1.child", "ns.example."}, "DS": {"4711 13 2 " + strings.Repeat("AB", 32)}},
		"ns1.child":  {"A": {"192.0.2.53"}, "AAAA": {"2001:db8::53"}},
		"to-child":   {"CNAME": {"www.child"}},
		"old":        {"DNAME": {"new"}},
		"*.new":      {"TXT": {"wild"}},
		"x.new":      {"TYPE65534": {`\# 4 01020304`}},
		"big":        {"TXT": {"few"}},
		"large":      {"A": many},
		"to-nowhere": {"CNAME": {"nowhere"}},
	}
	for i := range 30 {
		name := fmt.Sprintf("a-rather-long-name-of-a-server-%02d.wide", i)
		servers = append(servers, name)
		z.Records[name] = map[string][]string{"A": {fmt.Sprintf("192.0.2.%d", i)}}
	}
	z.Records["wide"] = map[string][]string{"NS": servers}
	z.TTLs = map[string]map[string]uint32{"mail": {"A": 0}, "child": {"NS": 86400}, "old": {"DNAME": 7}}
	st.Spec.Zones[zone] = &z
	below := z
	below.Records, below.TTLs = map[string]map[string][]string{"www": {"A": {"192.0.2.80"}}}, nil
	st.Spec.Zones["below."+zone] = &below
	require.NoError(t, routing.CheckSpec(st.Spec))
	table, err := routing.Compile(st)
	require.NoError(t, err)
	return New(testConfig(table))
}

func TestAnswersOfStaticData(t *testing.T) {
	s := zoneServer(t)
	const (
		soa   = "gslb.test. 30 IN SOA ns-eu-1.gslb.test. hostmaster.gslb.test. 67108873 3600 900 604800 30"
		below = "below.gslb.test. 30 IN SOA ns-eu-1.below.gslb.test. hostmaster.below.gslb.test. 67108873 3600 900 604800 30"
		child = "child.gslb.test. 86400 IN NS ns1.child.gslb.test.|child.gslb.test. 86400 IN NS ns.example."
		glue  = "ns1.child.gslb.test. 300 IN A 192.0.2.53|ns1.child.gslb.test. 300 IN AAAA 2001:db8::53"
		dname = "old.gslb.test. 7 IN DNAME new.gslb.test."
	)
	tests := []struct {
		name, ask, typ           string
		rcode                    int
		aa                       bool
		answer, authority, extra string
	}{
		{"static data at the apex", "gslb.test.", "MX", 0, true, "gslb.test. 300 IN MX 10 mail.gslb.test.", "", ""},
		{"a TTL of its own", "mail.gslb.test.", "A", 0, true, "mail.gslb.test. 0 IN A 192.0.2.25", "", ""},
		{"a referral", "www.child.gslb.test.", "A", 0, false, "", child, glue},
		{"a referral at the cut", "child.gslb.test.", "NS", 0, false, "", child, glue},
		{"glue is no answer", "ns1.child.gslb.test.", "A", 0, false, "", child, glue},
		{"the DS is ours", "child.gslb.test.", "DS", 0, true, "child.gslb.test. 300 IN DS 4711 13 2 " + strings.Repeat("AB", 32), "", ""},
		{"an alias into the child is ours", "to-child.gslb.test.", "A", 0, true, "to-child.gslb.test. 300 IN CNAME www.child.gslb.test.", child, glue},
		{"a DNAME and the alias it makes", "a.old.gslb.test.", "TXT", 0, true, dname + "|a.old.gslb.test. 7 IN CNAME a.new.gslb.test.|a.new.gslb.test. 300 IN TXT \"wild\"", "", ""},
		{"the alias that a DNAME makes", "a.old.gslb.test.", "CNAME", 0, true, dname + "|a.old.gslb.test. 7 IN CNAME a.new.gslb.test.", "", ""},
		{"an unknown type", "x.new.gslb.test.", "TYPE65534", 0, true, `x.new.gslb.test. 300 IN TYPE65534 \# 4 01020304`, "", ""},
		{"an alias to nothing", "to-nowhere.gslb.test.", "A", dns.RcodeNameError, true, "to-nowhere.gslb.test. 300 IN CNAME nowhere.gslb.test.", soa, ""},
		{"a name of the zone below", "www.below.gslb.test.", "A", 0, true, "www.below.gslb.test. 300 IN A 192.0.2.80", "", ""},
		{"no name in the zone below", "x.below.gslb.test.", "A", dns.RcodeNameError, true, "", below, ""},
		{"no DS of the zone below", "below.gslb.test.", "DS", 0, true, "", soa, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			typ, _ := routing.ParseType(tt.typ)
			m := ask(t, s, withEDNS(newQuery(tt.ask, typ), 1232), UDP)
			require.Equal(t, dns.RcodeToString[tt.rcode], dns.RcodeToString[m.Rcode])
			require.Equal(t, tt.aa, m.Authoritative)
			require.Equal(t, tt.answer, text(m.Answer))
			require.Equal(t, tt.authority, lines(m.Ns))
			require.Equal(t, tt.extra, lines(m.Extra))
			require.False(t, m.Truncated)
		})
	}
}

// text is lines with unknown types as people write them.
func text(rrs []dns.RR) string {
	return strings.ReplaceAll(lines(rrs), "CLASS1 ", "IN ")
}

func TestARenamedNameThatIsTooLong(t *testing.T) {
	st := testState()
	st.Spec.Zones[zone].Records = map[string]map[string][]string{"o": {"DNAME": {strings.Repeat("n", 60)}}}
	table, err := routing.Compile(st)
	require.NoError(t, err)
	m := ask(t, New(testConfig(table)), newQuery(strings.Repeat(strings.Repeat("a", 62)+".", 3)+"o.gslb.test.", dns.TypeA), TCP)
	require.Equal(t, dns.RcodeYXDomain, m.Rcode)
	require.Len(t, m.Answer, 1)
	require.IsType(t, new(dns.DNAME), m.Answer[0])
}

func TestLargeSetsAndReferrals(t *testing.T) {
	s := zoneServer(t)
	m := ask(t, s, withEDNS(newQuery("large.gslb.test.", dns.TypeA), 4096), UDP)
	require.True(t, m.Truncated)
	require.Empty(t, m.Answer, "a set is whole or not there (RFC 2181 9)")
	require.Len(t, ask(t, s, newQuery("large.gslb.test.", dns.TypeA), TCP).Answer, 3000)

	m = ask(t, s, withEDNS(newQuery("www.wide.gslb.test.", dns.TypeA), 1232), UDP)
	require.True(t, m.Truncated, "glue that does not fit is asked for over TCP (RFC 9471)")
	m = ask(t, s, newQuery("www.wide.gslb.test.", dns.TypeA), TCP)
	require.False(t, m.Truncated)
	require.Len(t, m.Ns, 30)
	require.Len(t, m.Extra, 30)
}

// TestAnEmptyZoneAnswers: a zone without any record has its apex all the same.
func TestAnEmptyZoneAnswers(t *testing.T) {
	table, err := routing.Compile(&statestore.State{Spec: &statestore.Spec{Zones: map[string]*statestore.Zone{"empty.test.": {}}}})
	require.NoError(t, err)
	s := New(testConfig(table))
	require.Len(t, ask(t, s, newQuery("empty.test.", dns.TypeSOA), UDP).Answer, 1)
	require.Equal(t, dns.RcodeSuccess, ask(t, s, newQuery("empty.test.", dns.TypeNS), UDP).Rcode)
	require.Equal(t, dns.RcodeNameError, ask(t, s, newQuery("x.empty.test.", dns.TypeNS), UDP).Rcode)
}
