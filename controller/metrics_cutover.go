package controller

import (
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/statestore"
)

// cutoverMetrics show the stateful services of the state at the moment of the
// scrape. What has ended is counted from the state too, so that every node says the
// same, whoever led.
type cutoverMetrics struct {
	active, epoch, pending, since, expires, signatures, gate *prometheus.Desc
	total, waivers                                           *prometheus.Desc
	phases                                                   *prometheus.HistogramVec

	// Guarded by the mutex of metrics.
	ended    map[ending]int
	waived   map[statestore.Gate]int
	endedTo  uint64 // version of the newest ended cutover that is counted
	waivedTo uint64 // index of the newest signature that is counted
}

// ending is the labels of an ended cutover.
type ending struct{ service, from, to, kind, result string }

// phaseBuckets reach from a publication on a LAN to a night without an approver.
var phaseBuckets = [...]float64{0.05, 0.1, 0.3, 1, 3, 10, 30, 60, 300, 900, 1800, 3600, 14400}

func newCutoverMetrics(desc func(name, help string, labels ...string) *prometheus.Desc) cutoverMetrics {
	m := cutoverMetrics{
		active:     desc("service_active_cluster", "1 for the cluster that a stateful service is active on.", "service", "cluster"),
		epoch:      desc("service_epoch", "Epoch of a stateful service.", "service"),
		pending:    desc("cutover_pending", "1 while a cutover of the service is open.", "service"),
		since:      desc("cutover_pending_since_timestamp_seconds", "When the open cutover was proposed.", "service"),
		expires:    desc("cutover_expires_timestamp_seconds", "When the open cutover expires unless it has begun.", "service"),
		signatures: desc("cutover_signatures", "People who have signed the open cutover.", "service"),
		gate:       desc("gate_state", "1 for the state a gate of the open cutover has; all 0 without one.", "service", "gate", "state"),
		total:      desc("cutovers_total", "Cutovers that have ended.", "service", "from", "to", "kind", "result"),
		waivers:    desc("waivers_total", "Gates that people have waived.", "rule"),
		phases: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "quorate_cutover_phase_duration_seconds",
			Help: "How long ended cutovers waited for signatures, and then for nodes.", Buckets: phaseBuckets[:],
		}, []string{"phase"}),
		ended:  map[ending]int{},
		waived: map[statestore.Gate]int{},
	}
	for _, phase := range []string{phaseApprove, phaseFence} {
		m.phases.WithLabelValues(phase)
	}
	return m
}

// The phases that are measured: until everybody has signed, and until no node
// answers with the source any more.
const (
	phaseApprove = "approve"
	phaseFence   = "fence"
)

func (m *cutoverMetrics) describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		m.active, m.epoch, m.pending, m.since, m.expires, m.signatures, m.gate, m.total, m.waivers,
	} {
		ch <- d
	}
	m.phases.Describe(ch)
}

// gateClasses are all a gate can say.
var gateClasses = [...]statestore.GateClass{
	statestore.Clean, statestore.Blocked, statestore.UnknownGate, statestore.Untried, statestore.NotConfigured,
}

// endings are how a cutover can end.
var endings = [...]statestore.CutoverPhase{
	statestore.Done, statestore.Rejected, statestore.Expired, statestore.Withdrawn, statestore.Aborted, statestore.Void,
}

func (m *cutoverMetrics) collectService(st *statestore.State, name string, gauge emit) {
	own := st.Ownership(name)
	if own == nil {
		return
	}
	for _, cluster := range st.Spec.Candidates(name) {
		gauge(m.active, number(cluster == own.Active), name, cluster)
	}
	gauge(m.epoch, float64(own.Epoch), name)
	co := st.OpenCutover(name)
	gauge(m.pending, number(co != nil), name)
	classes := map[statestore.Gate]statestore.GateClass{}
	signed := 0
	if co != nil {
		at := proposedAt(co)
		gauge(m.since, timestamp(at), name)
		if co.Phase != statestore.Fencing {
			gauge(m.expires, timestamp(at.Add(co.Expires.Sub(co.At))), name)
		}
		for _, g := range policy.Gates(st, co) {
			classes[g.Name] = g.Class
		}
		signed = len(st.Count(co).People)
	}
	gauge(m.signatures, float64(signed), name)
	for _, g := range statestore.AllGates() {
		for _, class := range gateClasses {
			gauge(m.gate, number(classes[g] == class), name, string(g), string(class))
		}
	}
}

// proposedAt returns the proposer's wall clock at the proposal: log time is no
// time of day once a leader's clock was corrected.
func proposedAt(co *statestore.Cutover) time.Time {
	if len(co.Steps) > 0 && !co.Steps[0].Wall.IsZero() {
		return co.Steps[0].Wall
	}
	return co.At
}

func timestamp(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// collectCounts counts what is new and sends all counts. Those of removed services
// are forgotten.
func (m *cutoverMetrics) collectCounts(st *statestore.State, ch chan<- prometheus.Metric) {
	endedTo, waivedTo := m.endedTo, m.waivedTo
	for _, id := range st.CutoverIDs() {
		co := st.Cutovers[id]
		for _, s := range slices.Concat(co.Signatures, co.Waived) {
			if s.Index <= m.waivedTo {
				continue
			}
			waivedTo = max(waivedTo, s.Index)
			for _, w := range s.Waivers {
				m.waived[w.Gate]++
			}
		}
		if co.Phase.Open() || co.Version <= m.endedTo {
			continue
		}
		endedTo = max(endedTo, co.Version)
		m.ended[ending{co.Service, co.Source, co.Destination, string(co.Kind), string(co.Phase)}]++
		m.measure(co)
	}
	m.endedTo, m.waivedTo = endedTo, waivedTo
	counter := func(d *prometheus.Desc, v int, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	for _, g := range statestore.AllGates() {
		if g.Waivable() {
			counter(m.waivers, m.waived[g], string(g))
		}
	}
	for name, service := range st.Spec.Services { // at zero from the start: the ways there and back
		own := st.Ownership(name)
		if own == nil || service.Stateful == nil {
			continue
		}
		for _, to := range st.Destinations(name) {
			for _, result := range endings {
				for _, kind := range statestore.CutoverKinds() {
					e := ending{name, own.Active, to, string(kind), string(result)}
					if kind == statestore.Back && to != service.Stateful.Preferred {
						continue
					}
					m.ended[e] += 0
				}
			}
		}
	}
	for _, e := range slices.SortedFunc(maps.Keys(m.ended), compareEndings) {
		if st.Spec.Services[e.service] == nil {
			delete(m.ended, e)
			continue
		}
		counter(m.total, m.ended[e], e.service, e.from, e.to, e.kind, e.result)
	}
	m.phases.Collect(ch)
}

func compareEndings(a, b ending) int {
	return slices.Compare([]string{a.service, a.from, a.to, a.kind, a.result}, []string{b.service, b.from, b.to, b.kind, b.result})
}

// measure notes how long the steps of an ended cutover took, in log time.
func (m *cutoverMetrics) measure(co *statestore.Cutover) {
	var proposed, approved, fencing time.Time
	for _, s := range co.Steps {
		switch s.Phase {
		case statestore.Proposed:
			if proposed.IsZero() {
				proposed = s.At
			}
		case statestore.Approved:
			approved = s.At
		case statestore.Fencing:
			fencing = s.At
		}
	}
	if !approved.IsZero() && !proposed.IsZero() {
		m.phases.WithLabelValues(phaseApprove).Observe(approved.Sub(proposed).Seconds())
	}
	if !fencing.IsZero() && !co.Decided.IsZero() {
		m.phases.WithLabelValues(phaseFence).Observe(co.Decided.Sub(fencing).Seconds())
	}
}
