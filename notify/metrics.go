package notify

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/statestore"
)

// Why an event was not told.
const (
	reasonConnection = "connection"
	reasonTimeout    = "timeout"
	reasonRedirect   = "redirect"
	reasonStatus     = "status"
	reasonSecret     = "secret"
	reasonEncode     = "encode"
	reasonExpired    = "expired" // given up
	reasonHistory    = "history" // dropped from the state before it was told
)

var reasons = []string{reasonConnection, reasonTimeout, reasonRedirect, reasonStatus, reasonSecret, reasonEncode, reasonExpired, reasonHistory}

// metrics holds the counts of the receivers that the spec has; those of a removed
// one vanish. Types are those of the state machine's events, so their number is
// bounded.
type metrics struct {
	store      Store
	secret     func(name string) ([]byte, error)
	named      func(sp *statestore.Spec) []string
	sent       *prometheus.CounterVec
	failures   *prometheus.CounterVec
	latency    *prometheus.HistogramVec
	unresolved *prometheus.Desc

	mu    sync.Mutex
	known map[string]bool // receivers with series
}

func newMetrics(cfg Config) *metrics {
	m := &metrics{
		store: cfg.Store, secret: cfg.Secret, named: cfg.Named, known: map[string]bool{},
		sent: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quorate_notifications_total", Help: "Events that a receiver has taken.",
		}, []string{"receiver", "type"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quorate_notifications_failed_total", Help: "Tries to tell a receiver that failed, and events that were given up (expired, history).",
		}, []string{"receiver", "reason"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "quorate_notification_latency_seconds", Help: "Time from an event to its receiver's having it.",
			Buckets: []float64{0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 3600, 86400},
		}, []string{"receiver"}),
		unresolved: prometheus.NewDesc("quorate_secrets_unresolved", "1 for a secret that the spec names and this node cannot resolve.", []string{"secret"}, nil),
	}
	if m.named == nil {
		m.named = signing
	}
	if cfg.Registerer != nil {
		cfg.Registerer.MustRegister(m)
	}
	return m
}

func (m *metrics) told(receiver, kind string, after time.Duration) {
	m.note(receiver)
	m.sent.WithLabelValues(receiver, kind).Inc()
	m.latency.WithLabelValues(receiver).Observe(after.Seconds())
}

func (m *metrics) failed(receiver, reason string) {
	m.note(receiver)
	m.failures.WithLabelValues(receiver, reason).Inc()
}

func (m *metrics) note(receiver string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known[receiver] = true
}

// Describe sends the descriptors.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	m.sent.Describe(ch)
	m.failures.Describe(ch)
	m.latency.Describe(ch)
	ch <- m.unresolved
}

// Collect sends the series of the receivers that the spec has now.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	st := m.store.State()
	m.follow(st)
	m.sent.Collect(ch)
	m.failures.Collect(ch)
	m.latency.Collect(ch)
	for _, name := range m.named(st.Spec) {
		value := 0.0
		if _, err := m.secret(name); err != nil {
			value = 1
		}
		ch <- prometheus.MustNewConstMetric(m.unresolved, prometheus.GaugeValue, value, name)
	}
}

// signing returns the secrets that receivers need.
func signing(sp *statestore.Spec) []string {
	var names []string
	for _, r := range sp.Notify.Receivers {
		if r.Webhook != nil && r.Webhook.Sign != "" {
			names = append(names, r.Webhook.Sign)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// follow gives new receivers their series at zero and takes away those of removed
// ones. Types exist at zero where a route names them.
func (m *metrics) follow(st *statestore.State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range m.known {
		if webhook(st, name) == nil {
			of := prometheus.Labels{"receiver": name}
			m.sent.DeletePartialMatch(of)
			m.failures.DeletePartialMatch(of)
			m.latency.DeletePartialMatch(of)
			delete(m.known, name)
		}
	}
	for name := range st.Spec.Notify.Receivers {
		if webhook(st, name) == nil {
			continue
		}
		m.known[name] = true
		m.latency.WithLabelValues(name)
		for _, reason := range reasons {
			m.failures.WithLabelValues(name, reason)
		}
	}
	for _, r := range st.Spec.Notify.Routes {
		for _, to := range r.To {
			for _, t := range r.Types {
				if m.known[to] && !strings.HasSuffix(t, "*") {
					m.sent.WithLabelValues(to, t)
				}
			}
		}
	}
}
