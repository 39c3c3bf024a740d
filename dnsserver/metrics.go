package dnsserver

import (
	"net/netip"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
)

// metrics are what the server counts. What a query costs is counted in the shards of
// the workers (counters); what is rare, here. Labels are bounded by the configuration:
// zones, services and clusters that the table holds, known types and codes.
type metrics struct {
	counters counters
	panics   prometheus.Counter
	unsent   prometheus.Counter
	refused  *prometheus.CounterVec // reason: TCP connections turned away
}

// labelledTypes are the types counted by name. All others are "other", so that
// nobody can make series by asking.
var labelledTypes = map[uint16]string{
	dns.TypeA: "A", dns.TypeAAAA: "AAAA", dns.TypeNS: "NS", dns.TypeSOA: "SOA", dns.TypeTXT: "TXT", dns.TypeCNAME: "CNAME",
	dns.TypeMX: "MX", dns.TypeSRV: "SRV", dns.TypeCAA: "CAA", dns.TypePTR: "PTR", dns.TypeHTTPS: "HTTPS", dns.TypeSVCB: "SVCB",
	dns.TypeDS: "DS", dns.TypeDNSKEY: "DNSKEY", dns.TypeANY: "ANY",
}

func qtypeLabel(qtype uint16) string {
	if l, ok := labelledTypes[qtype]; ok {
		return l
	}
	return "other"
}

// rcodeLabel names a code. 16 is BADVERS here; the library has the TSIG name for it.
func rcodeLabel(rcode int) string {
	if rcode == dns.RcodeBadVers {
		return "BADVERS"
	}
	return dns.RcodeToString[rcode]
}

func newMetrics(cfg Config) *metrics {
	counter := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Name: "quorate_dns_" + name, Help: help}
	}
	m := &metrics{
		panics:  prometheus.NewCounter(counter("panics_total", "Queries whose answering panicked. Each is a bug.")),
		unsent:  prometheus.NewCounter(counter("unsent_total", "UDP answers the kernel did not take.")),
		refused: prometheus.NewCounterVec(counter("tcp_refused_total", "TCP connections turned away."), []string{"reason"}),
	}
	for _, reason := range []string{tcpFull, tcpPrefix} {
		m.refused.WithLabelValues(reason)
	}
	if cfg.Registerer != nil {
		cfg.Registerer.MustRegister(m.panics, m.unsent, m.refused, newCollector(cfg, &m.counters))
	}
	return m
}

// count counts an answer that is about to be packed.
func (s *Server) count(req request, m *message) {
	c, client := &s.metrics.counters, req.client.Addr().Unmap()
	rcode := m.Rcode
	if m.dropped {
		rcode = unanswered
	}
	req.shard.add(c.outcome(m.zone, m.qtype, req.proto, client.Is6(), rcode))
	if m.edns.ecs != nil {
		req.shard.add(c.ecs(m.zone))
	}
	for _, cluster := range m.answer.Clusters {
		req.shard.add(c.answer(m.answer.Service, cluster))
	}
	if req.sample > 0 && m.answer.Service != "" {
		from := m.edns.subnet
		if !from.IsValid() || from.Bits() == 0 { // RFC 7871 7.1.2: the resolver stands for it
			from = netip.PrefixFrom(client, client.BitLen())
		}
		req.shard.saw(req.sample, c.service(m.answer.Service), from)
	}
}
