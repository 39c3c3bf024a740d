package api

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics are what the API counts. The route is a pattern, never a path, so that
// its values are bounded.
type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	streams  prometheus.Gauge
}

// newMetrics registers the metrics; with a nil Registerer they count for nobody.
func newMetrics(r prometheus.Registerer) *metrics {
	f := promauto.With(r)
	return &metrics{
		requests: f.NewCounterVec(prometheus.CounterOpts{
			Name: "quorate_http_requests_total",
			Help: "Requests answered by the HTTP API.",
		}, []string{"route", "method", "code"}),
		duration: f.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "quorate_http_request_duration_seconds",
			Help:    "Time to answer a request of the HTTP API, streams excepted.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2.5, 10),
		}, []string{"route", "method"}),
		streams: f.NewGauge(prometheus.GaugeOpts{
			Name: "quorate_sse_clients",
			Help: "Clients reading an event stream now.",
		}),
	}
}
