package controller

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/statestore"
)

// metrics shows the state at the moment of the scrape, so that what is removed
// from the spec vanishes, and counts what this node decided while it led.
type metrics struct {
	store Store

	targetState, votes, configured, serving, frozen *prometheus.Desc
	drained, drainAge, drainExpires, disagreement   *prometheus.Desc
	capacity                                        *prometheus.Desc
	revision, automatic, blocked, audit             *prometheus.Desc

	cutovers cutoverMetrics

	mu        sync.Mutex
	decided   map[cause]int // committed by this node, by service
	held      map[cause]int
	audited   map[string]int // events by type
	auditedTo uint64         // index of the newest counted
}

// cause is a labelled count. An empty service stands for the installation.
type cause struct{ service, reason string }

func newMetrics(c *Controller) *metrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("quorate_"+name, help, labels, nil)
	}
	m := &metrics{
		store:        c.cfg.Store,
		targetState:  desc("target_state", "1 for the state a cluster's endpoints have for a service.", "service", "cluster", "state"),
		votes:        desc("votes", "Observers by what the quorum counts them as voting.", "service", "cluster", "state"),
		configured:   desc("service_configured_targets", "Endpoints the service could answer with.", "service"),
		serving:      desc("service_serving_targets", "Endpoints in rotation whose verdict is up.", "service"),
		frozen:       desc("service_frozen", "1 while automation is frozen for the service.", "service"),
		drained:      desc("cluster_drained", "1 while the cluster is drained, for some or all services.", "cluster"),
		drainAge:     desc("drain_age_seconds", "How long the cluster has been drained.", "cluster"),
		drainExpires: desc("drain_expires_timestamp_seconds", "When the drain ends by itself.", "cluster"),
		capacity:     desc("cluster_reported_capacity", "What the cluster reports that it can take, as it is counted; absent without a fresh report.", "cluster"),
		disagreement: desc("observer_disagreement_ratio", "Part of the counted votes on the cluster that contradict the verdict.", "cluster"),
		revision:     desc("config_revision", "Number of the spec's revision in force."),
		automatic:    desc("automatic_changes_total", "Changes that this node's automation committed.", "service", "reason"),
		blocked:      desc("changes_blocked_total", "Changes of automation that were not applied.", "service", "reason"),
		audit:        desc("audit_events_total", "Records of the audit chain that this node has seen.", "kind"),
		decided:      map[cause]int{},
		held:         map[cause]int{},
		audited:      map[string]int{},
		cutovers:     newCutoverMetrics(desc),
	}
	if c.cfg.Registerer != nil {
		c.cfg.Registerer.MustRegister(m)
	}
	return m
}

// done counts a committed change.
func (m *metrics) done(p policy.Proposal) { m.count(m.decided, p, reasonOf(p.Command)) }

// refused counts a change that was not applied.
func (m *metrics) refused(p policy.Proposal, reason string) { m.count(m.held, p, reason) }

func (m *metrics) count(in map[cause]int, p policy.Proposal, reason string) {
	service, _ := strings.CutPrefix(p.Subject, "services/")
	if service == p.Subject {
		service = ""
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	in[cause{service, reason}]++
}

func reasonOf(cmd statestore.Command) string {
	switch cmd.(type) {
	case statestore.Rotate:
		return "rotate"
	case statestore.UndrainCluster:
		return "undrain"
	case statestore.FreezeService:
		return "freeze"
	case statestore.ThawService:
		return "thaw"
	case statestore.ClearOverride:
		return "override"
	case statestore.ResolveCluster:
		return "resolve"
	case statestore.ReportCapacity:
		return "capacity"
	case statestore.MeasureLatency:
		return "latency"
	case statestore.ProposeCutover, statestore.ReviseCutover, statestore.CloseCutover, statestore.RemindCutover,
		statestore.BeginCutover, statestore.PublishCutover:
		return "cutover"
	}
	return "other"
}

// Describe sends the descriptors.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		m.targetState, m.votes, m.configured, m.serving, m.frozen, m.drained, m.drainAge, m.drainExpires,
		m.capacity, m.disagreement, m.revision, m.automatic, m.blocked, m.audit,
	} {
		ch <- d
	}
	m.cutovers.describe(ch)
}

// Collect reads one state and sends what it says.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	st := m.store.State()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(m.revision, float64(st.Revision))
	voters := map[string][]health.ObserverID{} // by selector: finding them costs more than counting
	for name, s := range st.Spec.Services {
		if _, known := voters[s.Quorum.Observers]; !known {
			voters[s.Quorum.Observers] = observersOf(st, name)
		}
		m.collectService(st, name, voters[s.Quorum.Observers], gauge)
		m.cutovers.collectService(st, name, gauge)
	}
	m.collectClusters(st, gauge)
	m.collectCounts(st, ch)
}

type emit func(d *prometheus.Desc, v float64, labels ...string)

func (m *metrics) collectService(st *statestore.State, name string, voters []health.ObserverID, gauge emit) {
	ss := st.Services[name]
	if ss == nil {
		return
	}
	_, frozen := st.Frozen(name)
	gauge(m.frozen, number(frozen), name)
	gauge(m.configured, float64(len(ss.Targets)), name)
	serving := 0
	for _, s := range slices.Concat(ss.Rotation.V4.Shares, ss.Rotation.V6.Shares) {
		for _, a := range s.Endpoints {
			if ts := ss.Targets[health.Target{Service: name, Cluster: s.Cluster, Endpoint: a}]; ts != nil && ts.Verdict.Side == health.Up {
				serving++
			}
		}
	}
	gauge(m.serving, float64(serving), name)
	for _, cluster := range st.Spec.Candidates(name) {
		verdicts, unwell := map[health.Side]bool{}, false
		votes := map[health.ObserverID]health.Side{}
		for _, a := range st.Spec.Clusters[cluster].Endpoints() {
			t := health.Target{Service: name, Cluster: cluster, Endpoint: a}
			ts := ss.Targets[t]
			if ts == nil {
				continue
			}
			verdicts[ts.Verdict.Side] = true
			unwell = unwell || complained(ts) && ts.Verdict.Side == health.Up && st.Degraded(t) != ""
			for _, o := range voters {
				side := health.Unknown // set aside, or has not voted
				if st.Observers[o].Counts() {
					side = ts.Votes[o].Side
				}
				votes[o] = better(votes[o], side)
			}
		}
		state := "unknown"
		switch cs := st.Clusters[cluster]; {
		case cs != nil && cs.Drain.Covers(name):
			state = "drained"
		case unwell:
			state = "degraded" // some of what is up
		case verdicts[health.Up]:
			state = "up"
		case verdicts[health.Down]:
			state = "down"
		}
		for _, s := range []string{"up", "degraded", "down", "unknown", "drained"} {
			gauge(m.targetState, number(s == state), name, cluster, s)
		}
		counts := map[health.Side]int{}
		for _, side := range votes {
			counts[side]++
		}
		for _, side := range []health.Side{health.Up, health.Down, health.Unknown} {
			gauge(m.votes, float64(counts[side]), name, cluster, side.String())
		}
	}
}

// complained reports whether any vote says that the target is not well. Few do, and
// what their regions make of it costs more to find out.
func complained(ts *statestore.TargetState) bool {
	for _, v := range ts.Votes {
		if v.Degraded != "" {
			return true
		}
	}
	return false
}

// observersOf returns who may vote on the service.
func observersOf(st *statestore.State, service string) []health.ObserverID {
	var ids []health.ObserverID
	for _, b := range st.Ballots(health.Target{Service: service}) {
		ids = append(ids, b.Observer)
	}
	return ids
}

// better returns the best of what an observer says of a cluster's endpoints: one
// that answers is enough for the cluster to serve.
func better(a, b health.Side) health.Side {
	switch {
	case a == health.Up || b == health.Up:
		return health.Up
	case a == health.Down || b == health.Down:
		return health.Down
	}
	return health.Unknown
}

func (m *metrics) collectClusters(st *statestore.State, gauge emit) {
	against, counted := map[string]int{}, map[string]int{}
	for t, ts := range policy.TargetStates(st) {
		if ts.Verdict.Side == health.Unknown {
			continue
		}
		for o, v := range ts.Votes {
			if v.Side != health.Unknown && st.Observers[o].Counts() {
				counted[t.Cluster]++
			}
		}
	}
	for _, d := range policy.Disagreements(st) {
		against[d.Target.Cluster]++
	}
	for name := range st.Spec.Clusters {
		gauge(m.disagreement, float64(against[name])/float64(max(counted[name], 1)), name)
		cs := st.Clusters[name]
		if cs != nil && cs.Reported != nil {
			gauge(m.capacity, float64(cs.Reported.Capacity), name)
		}
		drained := cs != nil && cs.Drain != nil
		gauge(m.drained, number(drained), name)
		if !drained {
			gauge(m.drainAge, 0, name)
			continue
		}
		gauge(m.drainAge, max(time.Since(cs.Drain.At).Seconds(), 0), name)
		if !cs.Drain.Until.IsZero() {
			gauge(m.drainExpires, float64(cs.Drain.Until.UnixMilli())/1000, name)
		}
	}
}

func (m *metrics) collectCounts(st *statestore.State, ch chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range st.Events {
		if e.Index > m.auditedTo {
			m.audited[e.Type]++
			m.auditedTo = e.Index
		}
	}
	counter := func(d *prometheus.Desc, v int, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	for _, kind := range slices.Sorted(maps.Keys(m.audited)) {
		counter(m.audit, m.audited[kind], kind)
	}
	for name := range st.Spec.Services { // at zero from the start
		for _, of := range []struct {
			desc   *prometheus.Desc
			counts map[cause]int
			reason string
		}{{m.automatic, m.decided, "rotate"}, {m.blocked, m.held, "budget"}, {m.blocked, m.held, "floor"}} {
			counter(of.desc, of.counts[cause{name, of.reason}], name, of.reason)
		}
	}
	m.cutovers.collectCounts(st, ch)
	m.rest(st, m.automatic, m.decided, []string{"rotate"}, counter)
	m.rest(st, m.blocked, m.held, []string{"budget", "floor"}, counter)
}

// rest sends the counts of causes that are not always there. Those of removed
// services are forgotten.
func (m *metrics) rest(st *statestore.State, d *prometheus.Desc, counts map[cause]int, sent []string, counter func(*prometheus.Desc, int, ...string)) {
	for c, n := range counts {
		switch {
		case c.service != "" && st.Spec.Services[c.service] == nil:
			delete(counts, c)
		case c.service != "" && slices.Contains(sent, c.reason):
		default:
			counter(d, n, c.service, c.reason)
		}
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
