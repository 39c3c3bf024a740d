//go:build conformance

package conformance

import (
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
)

// A comparison that nobody has seen fail is none: each kind of difference is planted
// once, and must be found and not be explained away.
func TestTheComparisonFindsPlantedDifferences(t *testing.T) {
	record := func(text string) dns.RR {
		rr, err := dns.NewRR(text)
		require.NoError(t, err)
		return rr
	}
	answer := func() *dns.Msg {
		m := new(dns.Msg)
		m.SetQuestion("WwW.z0000.test.", dns.TypeA)
		m.Response, m.Authoritative = true, true
		m.Answer = []dns.RR{record("www.z0000.test. 60 IN A 192.0.2.1"), record("www.z0000.test. 60 IN A 192.0.2.2")}
		return m
	}
	referral := func() *dns.Msg {
		m := answer()
		m.Answer, m.Authoritative = nil, false
		m.Ns = []dns.RR{record("sub.z0000.test. 60 IN NS ns.sub.z0000.test.")}
		m.Extra = []dns.RR{record("ns.sub.z0000.test. 60 IN A 192.0.2.3")}
		return m
	}
	tests := []struct {
		name  string
		of    func() *dns.Msg
		plant func(m *dns.Msg)
		want  string // what differs; empty: nothing
	}{
		{"the same answer", answer, func(*dns.Msg) {}, ""},
		{"another order", answer, func(m *dns.Msg) { m.Answer[0], m.Answer[1] = m.Answer[1], m.Answer[0] }, ""},
		{"another case of the owner", answer, func(m *dns.Msg) { m.Answer[0].Header().Name = "WWW.z0000.test." }, ""},
		{"another serial", answer, func(m *dns.Msg) {
			m.Ns = []dns.RR{record("z0000.test. 60 IN SOA ns.z0000.test. h.z0000.test. 9 1 1 1 1")}
		}, "soa"},
		{"another code", answer, func(m *dns.Msg) { m.Rcode = dns.RcodeNameError }, "rcode"},
		{"no authority", answer, func(m *dns.Msg) { m.Authoritative = false }, "aa"},
		{"the question in another case", answer, func(m *dns.Msg) { m.Question[0].Name = "www.z0000.test." }, "question"},
		{"a record less", answer, func(m *dns.Msg) { m.Answer = m.Answer[:1] }, "answer"},
		{"another TTL", answer, func(m *dns.Msg) { m.Answer[0].Header().Ttl = 61 }, "answer"},
		{"another address", answer, func(m *dns.Msg) { m.Answer[0] = record("www.z0000.test. 60 IN A 192.0.2.9") }, "answer"},
		{"no glue", referral, func(m *dns.Msg) { m.Extra = nil }, "glue"},
		{"no name server", referral, func(m *dns.Msg) { m.Ns, m.Extra = nil, nil }, "ns"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := tt.of()
			tt.plant(m)
			ours, theirs := saidBy(m), saidBy(tt.of())
			parts := ours.parts(theirs)
			if tt.want == "" {
				require.Empty(t, parts)
				return
			}
			require.Contains(t, parts, tt.want)
			q := question{name: "WwW.z0000.test.", typ: dns.TypeA}
			for _, peer := range []string{"nsd", "knot"} {
				require.Empty(t, classOf(difference{q, ours, theirs, peer, false, parts}), "it is no accepted difference where both peers agree")
			}
		})
	}
}
