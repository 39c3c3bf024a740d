package dnsserver

import (
	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/routing"
)

// metrics are what the server counts. Labels are bounded by the configuration:
// zones, services and clusters that the table holds, known types and codes.
type metrics struct {
	queries   *prometheus.CounterVec // zone, qtype, proto, family
	responses *prometheus.CounterVec // zone, rcode
	answers   *prometheus.CounterVec // service, cluster
	truncated *prometheus.CounterVec // zone
	ecs       *prometheus.CounterVec // zone
	took      [2]prometheus.Observer // by Proto
	panics    prometheus.Counter
	unsent    prometheus.Counter
	refused   *prometheus.CounterVec // reason: TCP connections turned away
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
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "quorate_dns_" + name, Help: help}, labels)
	}
	took := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "quorate_dns_request_duration_seconds",
		Help:    "Time from reading a query to having its answer.",
		Buckets: prometheus.ExponentialBuckets(0.000002, 4, 10), // 2 microseconds to 0.5 s
	}, []string{"proto"})
	m := &metrics{
		queries:   counter("queries_total", "Queries that were read.", "zone", "qtype", "proto", "family"),
		responses: counter("responses_total", "Answers given, by response code.", "zone", "rcode"),
		answers:   counter("answers_total", "Answers that named a cluster.", "service", "cluster"),
		truncated: counter("truncated_total", "Answers that were too long for UDP.", "zone"),
		ecs:       counter("ecs_queries_total", "Queries that named their client's subnet.", "zone"),
		panics:    prometheus.NewCounter(prometheus.CounterOpts{Name: "quorate_dns_panics_total", Help: "Queries whose answering panicked. Each is a bug."}),
		unsent:    prometheus.NewCounter(prometheus.CounterOpts{Name: "quorate_dns_unsent_total", Help: "UDP answers the kernel did not take."}),
		refused:   counter("tcp_refused_total", "TCP connections turned away.", "reason"),
	}
	m.took = [2]prometheus.Observer{UDP: took.WithLabelValues("udp"), TCP: took.WithLabelValues("tcp")}
	for _, reason := range []string{"full", "prefix"} {
		m.refused.WithLabelValues(reason)
	}
	if cfg.Registerer != nil {
		cfg.Registerer.MustRegister(m.queries, m.answers, took, m.panics, m.unsent, m.refused, newTableCollector(cfg, m))
	}
	return m
}

// count counts an answer that is about to be packed.
func (s *Server) count(req request, m *message) {
	family := "4"
	if a := req.client.Addr(); a.Is6() && !a.Is4In6() {
		family = "6"
	}
	s.metrics.queries.WithLabelValues(m.zone, m.qtype, req.proto.String(), family).Inc()
	s.metrics.responses.WithLabelValues(m.zone, rcodeLabel(m.Rcode)).Inc()
	if m.edns.ecs != nil {
		s.metrics.ecs.WithLabelValues(m.zone).Inc()
	}
	for _, c := range m.answer.Clusters {
		s.metrics.answers.WithLabelValues(m.answer.Service, c).Inc()
	}
}

// tableCollector shows the table as it is when scraped, and what is counted by
// zone: a zone's counters are there at zero as soon as it is, so that the first
// SERVFAIL is a rise that an alert sees.
type tableCollector struct {
	cfg                  Config
	counters             *metrics
	age, serial, records *prometheus.Desc
}

func newTableCollector(cfg Config, counters *metrics) *tableCollector {
	return &tableCollector{
		cfg: cfg, counters: counters,
		age:     prometheus.NewDesc("quorate_dns_table_age_seconds", "Time since this node last heard a leader that holds its lease.", nil, nil),
		serial:  prometheus.NewDesc("quorate_dns_zone_serial", "SOA serial of the zone.", []string{"zone"}, nil),
		records: prometheus.NewDesc("quorate_dns_zone_records", "Records in the zone as one client can see them.", []string{"zone"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *tableCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.age
	ch <- c.serial
	ch <- c.records
	for _, v := range c.byZone() {
		v.Describe(ch)
	}
}

func (c *tableCollector) byZone() []*prometheus.CounterVec {
	return []*prometheus.CounterVec{c.counters.responses, c.counters.truncated, c.counters.ecs}
}

// Collect implements prometheus.Collector.
func (c *tableCollector) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.MustNewConstMetric(c.age, prometheus.GaugeValue, c.cfg.Age().Seconds())
	if table := c.cfg.Table(); table != nil {
		for _, z := range table.Zones {
			c.zone(ch, z)
		}
	}
	for _, v := range c.byZone() {
		v.Collect(ch)
	}
}

func (c *tableCollector) zone(ch chan<- prometheus.Metric, z *routing.Zone) {
	ch <- prometheus.MustNewConstMetric(c.serial, prometheus.GaugeValue, float64(z.Serial), z.Name)
	ch <- prometheus.MustNewConstMetric(c.records, prometheus.GaugeValue, float64(z.Records), z.Name)
	for _, rcode := range []int{dns.RcodeSuccess, dns.RcodeNameError, dns.RcodeServerFailure} {
		c.counters.responses.WithLabelValues(z.Name, rcodeLabel(rcode))
	}
	c.counters.truncated.WithLabelValues(z.Name)
	c.counters.ecs.WithLabelValues(z.Name)
}
