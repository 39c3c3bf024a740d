package dnsserver

import (
	"testing"

	"github.com/miekg/dns"
)

// BenchmarkRespond is the general path for the ordinary question.
func BenchmarkRespond(b *testing.B) {
	cfg := testConfig(testTable(b))
	s := New(cfg)
	wire, err := withEDNS(newQuery("web.gslb.test.", dns.TypeA), 1232).Pack()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if s.Respond(cfg.Table(), wire, someClient, UDP) == nil {
			b.Fatal("no answer")
		}
	}
}
