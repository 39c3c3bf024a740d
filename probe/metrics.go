package probe

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
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

// durationBuckets are the upper bounds of the duration histogram, in seconds.
var durationBuckets = [...]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

// series are the counts of one key. The loop writes, a scrape reads.
type series struct {
	key       seriesKey
	results   [len(resultReasons)]atomic.Uint64
	buckets   [len(durationBuckets)]atomic.Uint64 // of durations up to that bound and above the one before
	count     atomic.Uint64
	took      atomic.Int64 // sum, in nanoseconds
	completed atomic.Int64 // milliseconds of the wall clock; zero: never
}

// observe counts one completed probe.
func (s *series) observe(reason uint8, took time.Duration, at time.Time) {
	s.results[reason].Add(1)
	seconds := took.Seconds()
	for i, bound := range durationBuckets {
		if seconds <= bound {
			s.buckets[i].Add(1)
			break
		}
	}
	s.took.Add(int64(took))
	s.count.Add(1)
	s.completed.Store(at.UnixMilli())
}

// place are the gauges of one service at one cluster.
type place struct {
	key    placeKey
	counts [len(sides)]int // endpoints by side; of the loop
	votes  atomic.Uint32   // bit i: counts[i] is not zero
	expiry atomic.Int64    // seconds of the first certificate's end; zero: none was seen
}

var sides = [...]health.Side{health.Up, health.Down, health.Unknown}

// count adds n endpoints on a side.
func (p *place) count(side health.Side, n int) {
	i := slices.Index(sides[:], side)
	p.counts[i] += n
	if p.counts[i] > 0 {
		p.votes.Or(1 << i)
	} else {
		p.votes.And(^uint32(1 << i))
	}
}

// metrics are this package's series. It is a collector of its own: a vector would
// need kilobytes for each service at each cluster. What is gone is not collected.
type metrics struct {
	results, duration, completed, certExpiry, vote *prometheus.Desc

	backlog prometheus.Gauge
	late    prometheus.Gauge

	mu     sync.Mutex // guards what follows, not what it points to
	series map[seriesKey]*series
	places map[placeKey]*place
}

// newMetrics registers the series with reg; nil registers none.
func newMetrics(reg prometheus.Registerer) *metrics {
	perKey := []string{"service", "cluster", "family"}
	m := &metrics{
		results: prometheus.NewDesc("quorate_probe_results_total",
			"Completed probes by how they ended.", append(perKey, "result"), nil),
		duration: prometheus.NewDesc("quorate_probe_duration_seconds",
			"How long completed probes took.", perKey, nil),
		completed: prometheus.NewDesc("quorate_probe_last_completed_timestamp_seconds",
			"When a probe last completed, good or bad.", perKey, nil),
		certExpiry: prometheus.NewDesc("quorate_probe_cert_expiry_timestamp_seconds",
			"When the first certificate seen by the probes expires.", []string{"service", "cluster"}, nil),
		vote: prometheus.NewDesc("quorate_vote",
			"1 if this node's own vote on some endpoint of the cluster is the state.", []string{"service", "cluster", "state"}, nil),
		backlog: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "quorate_probe_backlog", Help: "Probes that are due and wait for max_concurrency or for the pace of rechecks.",
		}),
		late: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "quorate_probe_late_seconds", Help: "How late the longest waiting probe is.",
		}),
	}
	if reg != nil {
		reg.MustRegister(m, m.backlog, m.late)
	}
	return m
}

// adopt makes the series those of the targets. What stays keeps its counts.
func (m *metrics) adopt(targets map[health.Target]*targetState) (map[seriesKey]*series, map[placeKey]*place) {
	m.mu.Lock()
	defer m.mu.Unlock()
	oldSeries, oldPlaces := m.series, m.places
	m.series, m.places = map[seriesKey]*series{}, map[placeKey]*place{}
	for t := range targets {
		k := keyOf(t)
		if m.series[k] == nil {
			if m.series[k] = oldSeries[k]; m.series[k] == nil {
				m.series[k] = &series{key: k}
			}
		}
		at := placeKey{t.Service, t.Cluster}
		if m.places[at] == nil {
			if m.places[at] = oldPlaces[at]; m.places[at] == nil {
				m.places[at] = &place{key: at}
			}
		}
	}
	return m.series, m.places
}

// Describe sends what may be collected; see prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.results, m.duration, m.completed, m.certExpiry, m.vote} {
		ch <- d
	}
}

// Collect sends what counts now. Counters exist at zero from the start; timestamps
// wait for a value.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	m.mu.Lock()
	keyed, places := slices.Collect(maps.Values(m.series)), slices.Collect(maps.Values(m.places))
	m.mu.Unlock()
	for _, s := range keyed {
		m.collectSeries(ch, s)
	}
	for _, p := range places {
		bits := p.votes.Load()
		for i, side := range sides {
			ch <- prometheus.MustNewConstMetric(m.vote, prometheus.GaugeValue, float64(bits>>i&1), p.key.service, p.key.cluster, side.String())
		}
		if at := p.expiry.Load(); at != 0 {
			ch <- prometheus.MustNewConstMetric(m.certExpiry, prometheus.GaugeValue, float64(at), p.key.service, p.key.cluster)
		}
	}
}

func (m *metrics) collectSeries(ch chan<- prometheus.Metric, s *series) {
	k := s.key
	for i, reason := range resultReasons {
		ch <- prometheus.MustNewConstMetric(m.results, prometheus.CounterValue, float64(s.results[i].Load()),
			k.service, k.cluster, k.family, string(reason))
	}
	count := s.count.Load() // first, so that no bucket has less than its part of it
	buckets, below := make(map[float64]uint64, len(durationBuckets)), uint64(0)
	for i, bound := range durationBuckets {
		below = min(below+s.buckets[i].Load(), count)
		buckets[bound] = below
	}
	ch <- prometheus.MustNewConstHistogram(m.duration, count, time.Duration(s.took.Load()).Seconds(), buckets,
		k.service, k.cluster, k.family)
	if at := s.completed.Load(); at != 0 {
		ch <- prometheus.MustNewConstMetric(m.completed, prometheus.GaugeValue, float64(at)/1e3,
			k.service, k.cluster, k.family)
	}
}
