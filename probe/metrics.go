package probe

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/health"
)

// seriesKey is what a probe's series are labelled with. Endpoints of one family
// in one cluster share them: addresses are not bounded.
type seriesKey struct{ service, cluster, family string }

func keyOf(t health.Target) seriesKey {
	family := "4"
	if t.Endpoint.Unmap().Is6() {
		family = "6"
	}
	return seriesKey{t.Service, t.Cluster, family}
}

// placeKey labels what is not told apart by family.
type placeKey struct{ service, cluster string }

// metrics are this package's series. Those of a target that is gone are deleted.
type metrics struct {
	results    *prometheus.CounterVec
	duration   *prometheus.HistogramVec
	completed  *prometheus.GaugeVec
	certExpiry *prometheus.GaugeVec
	vote       *prometheus.GaugeVec
}

// newMetrics registers the series with reg; nil registers none.
func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quorate_probe_results_total", Help: "Completed probes by how they ended.",
		}, []string{"service", "cluster", "family", "result"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "quorate_probe_duration_seconds", Help: "How long completed probes took.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"service", "cluster", "family"}),
		completed: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "quorate_probe_last_completed_timestamp_seconds", Help: "When a probe last completed, good or bad.",
		}, []string{"service", "cluster", "family"}),
		certExpiry: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "quorate_probe_cert_expiry_timestamp_seconds", Help: "When the first certificate seen by the probes expires.",
		}, []string{"service", "cluster"}),
		vote: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "quorate_vote", Help: "1 if this node's own vote on some endpoint of the cluster is the state.",
		}, []string{"service", "cluster", "state"}),
	}
	if reg != nil {
		reg.MustRegister(m.results, m.duration, m.completed, m.certExpiry, m.vote)
	}
	return m
}

// add makes the series of key exist at zero; timestamps wait for a value.
func (m *metrics) add(k seriesKey) {
	for _, r := range resultReasons {
		m.results.WithLabelValues(k.service, k.cluster, k.family, string(r))
	}
	m.duration.WithLabelValues(k.service, k.cluster, k.family)
}

// remove deletes the series of key.
func (m *metrics) remove(k seriesKey) {
	for _, r := range resultReasons {
		m.results.DeleteLabelValues(k.service, k.cluster, k.family, string(r))
	}
	m.duration.DeleteLabelValues(k.service, k.cluster, k.family)
	m.completed.DeleteLabelValues(k.service, k.cluster, k.family)
}

// removePlace deletes the series of a service at a cluster.
func (m *metrics) removePlace(k placeKey) {
	m.certExpiry.DeleteLabelValues(k.service, k.cluster)
	for _, side := range sides {
		m.vote.DeleteLabelValues(k.service, k.cluster, side.String())
	}
}

// observe counts one completed probe under key.
func (m *metrics) observe(k seriesKey, reason Reason, took time.Duration, at time.Time) {
	m.results.WithLabelValues(k.service, k.cluster, k.family, string(reason)).Inc()
	m.duration.WithLabelValues(k.service, k.cluster, k.family).Observe(took.Seconds())
	m.completed.WithLabelValues(k.service, k.cluster, k.family).Set(float64(at.UnixMilli()) / 1e3)
}

var sides = [...]health.Side{health.Up, health.Down, health.Unknown}

// setVotes shows which sides the endpoints of a place are on.
func (m *metrics) setVotes(k placeKey, counts map[health.Side]int) {
	for _, side := range sides {
		m.vote.WithLabelValues(k.service, k.cluster, side.String()).Set(float64(min(counts[side], 1)))
	}
}
