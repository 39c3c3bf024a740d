package consensus

import (
	"context"
	"errors"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"
)

// metrics are this package's. Gauges read the node when they are asked.
type metrics struct {
	leaderChanges prometheus.Counter
	proposals     *prometheus.CounterVec
	commit        prometheus.Histogram
	reachable     *prometheus.GaugeVec
	offset        *prometheus.GaugeVec
	known         map[string]bool // peers that reachable has a series of
}

// failReasons are the values of the reason label.
var failReasons = []string{"no_leader", "unknown_outcome", "parked", "closed", "other"}

func newMetrics(n *Node, reg prometheus.Registerer) *metrics {
	m := &metrics{
		leaderChanges: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "quorate_raft_leader_changes_total", Help: "Leaders this node has seen come, itself included.",
		}),
		proposals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quorate_raft_proposals_failed_total", Help: "Proposals made at this node that did not commit or are in doubt.",
		}, []string{"reason"}),
		commit: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "quorate_raft_commit_duration_seconds", Help: "From proposing on the leader to applied there.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}),
		reachable: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "quorate_member_reachable", Help: "Whether the peer answered this node lately.",
		}, []string{"peer"}),
		offset: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "quorate_clock_offset_seconds", Help: "How far the peer's clock is ahead of this node's.",
		}, []string{"peer"}),
	}
	for _, r := range failReasons {
		m.proposals.WithLabelValues(r)
	}
	if reg == nil {
		return m
	}
	reg.MustRegister(m.leaderChanges, m.proposals, m.commit, m.reachable, m.offset)
	gauge := func(name, help string, f func() float64) {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "quorate_" + name, Help: help}, f))
	}
	gauge("quorum_available", "Whether a leader that holds its lease was heard lately.", func() float64 { return truth(n.Health().Quorum) })
	gauge("quorum_failure_tolerance", "How many more voters may be lost.", func() float64 { return float64(n.Health().Tolerance) })
	gauge("raft_is_leader", "Whether this node leads and holds its lease.", func() float64 { return truth(n.IsLeader()) })
	gauge("raft_last_contact_seconds", "Since a leader that holds its lease was heard.", func() float64 { return n.LastContact().Seconds() })
	gauge("raft_applied_index", "Index of the entry applied last.", func() float64 { return float64(n.cfg.Store.State().Index) })
	gauge("raft_term", "Current term.", func() float64 { return float64(n.Health().Term) })
	gauge("raft_commit_index", "Highest index known to be committed.", func() float64 { return float64(n.Health().Commit) })
	return m
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func (m *metrics) failed(err error) {
	reason := "other"
	switch {
	case errors.Is(err, ErrUnknownOutcome):
		reason = "unknown_outcome"
	case errors.Is(err, ErrParked):
		reason = "parked"
	case errors.Is(err, ErrClosed):
		reason = "closed"
	case errors.Is(err, ErrNoLeader), errors.Is(err, ErrNotLeader), errors.Is(err, context.DeadlineExceeded):
		reason = "no_leader"
	}
	m.proposals.WithLabelValues(reason).Inc()
}

// members publishes who is reachable, and drops who is no longer a member. Only the
// session's loop calls it.
func (m *metrics) members(n *Node, servers []raft.Server) {
	up := map[string]bool{}
	n.contact.mu.Lock()
	for _, srv := range servers {
		if srv.ID != n.id {
			name, _ := SplitServerID(string(srv.ID))
			p := n.contact.peers[srv.ID]
			up[name] = up[name] || p != nil && p.up
			if p != nil && p.ever {
				m.offset.WithLabelValues(name).Set(p.offset.Seconds())
			}
		}
	}
	n.contact.mu.Unlock()
	for name := range m.known {
		if _, ok := up[name]; !ok {
			m.reachable.DeleteLabelValues(name)
			m.offset.DeleteLabelValues(name)
		}
	}
	for name, ok := range up {
		m.reachable.WithLabelValues(name).Set(truth(ok))
	}
	m.known = up
}
