package dnsserver

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/dnsserver/dnssec"
)

// signingCollector shows how signing goes when scraped.
type signingCollector struct {
	s *Server

	made, refused, expiry, missing *prometheus.Desc
}

func newSigningCollector(s *Server) *signingCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("quorate_dnssec_"+name, help, labels, nil)
	}
	return &signingCollector{
		s:       s,
		made:    desc("signatures_total", "Signatures made, by whether the name is in the zone (own) or made up by who asks (made).", "name"),
		refused: desc("signatures_refused_total", "Answers that were SERVFAIL since too many signatures were being made.", "name"),
		expiry:  desc("signature_expiry_timestamp_seconds", "When the first signature expires that the zone is served with, unix time.", "zone"),
		missing: desc("keys_missing", "1 when a key of the zone does not read on this node, else 0.", "zone"),
	}
}

// Describe implements prometheus.Collector.
func (c *signingCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.made, c.refused, c.expiry, c.missing} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *signingCollector) Collect(ch chan<- prometheus.Metric) {
	counts := c.s.signer.Counts()
	for origin, name := range map[dnssec.Origin]string{dnssec.Own: "own", dnssec.Made: "made"} {
		ch <- prometheus.MustNewConstMetric(c.made, prometheus.CounterValue, float64(counts.Made[origin]), name)
		ch <- prometheus.MustNewConstMetric(c.refused, prometheus.CounterValue, float64(counts.Refused[origin]), name)
	}
	table := c.s.cfg.Table()
	if table == nil {
		return
	}
	earliest := c.s.signer.Earliest(time.Now())
	for _, zone := range table.Zones {
		z, signed := c.s.signed(table, zone)
		if !signed {
			continue
		}
		missing := 0.0
		if z.Err != nil || z.Lacks != nil {
			missing = 1
		}
		ch <- prometheus.MustNewConstMetric(c.missing, prometheus.GaugeValue, missing, zone.Name)
		if at, ok := earliest[zone.Name]; ok {
			ch <- prometheus.MustNewConstMetric(c.expiry, prometheus.GaugeValue, float64(at.Unix()), zone.Name)
		}
	}
}

// SignedUntil returns when the first signature expires that the zone is served with;
// zero: nobody asked for one lately.
func (s *Server) SignedUntil(zone string) time.Time { return s.signer.Earliest(time.Now())[zone] }
