package probe

import (
	"container/heap"
	"time"

	"github.com/quorate/quorate/health"
)

// adopt makes plan the one that runs. Probes that stay keep what they have seen.
func (l *loop) adopt(plan Plan, now time.Time) {
	old := l.probes
	kin := kindred{of: old}
	l.probes = make(map[ProbeID]*probeState, len(plan.Probes))
	for _, p := range plan.Probes {
		p.Check = p.Check.withDefaults()
		s := old[p.ID]
		if s == nil {
			s = l.newState(p, now)
			if before := kin.find(p); before != nil && s.checker != nil {
				l.p.inherit(s, before)
			}
		}
		s.probe.Names, s.targets, s.series, s.staleAfter = p.Names, nil, nil, 0
		l.probes[p.ID] = s
	}
	for id, s := range old {
		if l.probes[id] == nil {
			l.drop(s)
		}
	}
	l.pace.adopt(l.probes)
	l.adoptTargets(plan, now)
	l.p.adopted(plan, l.probes)
	l.recomputeAll(now)
}

// newState returns the state of a probe that has never run, in the heap.
func (l *loop) newState(p Probe, now time.Time) *probeState {
	s := &probeState{probe: p, at: -1, samples: &ring{}, h: hysteresis{fall: p.Check.Fall, rise: p.Check.Rise}}
	s.phase = phaseOf(l.p.cfg.Node, p.ID, p.Check.Interval)
	c, err := l.p.newChecker(p.Check, p.Endpoint)
	if err != nil {
		// The spec was checked when it was applied, so this is a newer spec than
		// this node: it cannot measure, which is no reason to vote down.
		l.p.log.Warn("check cannot be made; votes that need it are unknown", keyProbe, p.Names[0].String(), keyErr, err)
		s.unmeasured = ReasonOther
		return s
	}
	s.checker = c
	s.due = l.slot(s, now)
	heap.Push(&l.heap, s)
	return s
}

// drop ends a probe that is no longer in the plan.
func (l *loop) drop(s *probeState) {
	s.gone, s.waiting = true, false
	delete(l.held, s)
	if s.at >= 0 {
		heap.Remove(&l.heap, s.at)
	}
	switch {
	case s.running:
		s.cancel() // finish closes the checker
	case s.checker != nil:
		s.checker.close()
	}
}

// adoptTargets links targets, probes, clusters and series anew.
func (l *loop) adoptTargets(plan Plan, now time.Time) {
	oldTargets, oldClusters := l.targets, l.clusters
	l.targets = make(map[health.Target]*targetState, len(plan.Targets))
	l.clusters = map[string]*clusterState{}
	l.places = map[placeKey][]*targetState{}
	l.fresh = nil
	for _, tp := range plan.Targets {
		t := &targetState{plan: tp, at: -1, vote: health.Vote{Since: now.Round(0).UTC()}}
		if was := oldTargets[tp.Target]; was != nil {
			t.vote = was.vote
		} else {
			l.changed[tp.Target] = &t.vote
		}
		l.targets[tp.Target] = t
		at := placeKey{tp.Target.Service, tp.Target.Cluster}
		l.places[at] = append(l.places[at], t)
		if t.cluster = l.clusters[tp.Target.Cluster]; t.cluster == nil {
			t.cluster = &clusterState{probes: map[*probeState]struct{}{}}
			if was := oldClusters[tp.Target.Cluster]; was != nil {
				t.cluster.alive = was.alive
			}
			l.clusters[tp.Target.Cluster] = t.cluster
		}
		t.all, t.any = l.link(t, tp.All), l.link(t, tp.Any)
	}
	for target := range oldTargets {
		if l.targets[target] == nil {
			l.changed[target] = nil
		}
	}
	l.adoptSeries()
}

// link makes t known to the probes it needs.
func (l *loop) link(t *targetState, needs []Need) []*probeState {
	var out []*probeState
	for _, n := range needs {
		s := l.probes[n.Probe]
		out = append(out, s)
		t.cluster.probes[s] = struct{}{}
		s.staleAfter = max(s.staleAfter, n.StaleAfter)
		// Targets are linked one after the other, so the last one tells.
		if k := len(s.targets); k == 0 || s.targets[k-1] != t {
			s.targets = append(s.targets, t)
		}
	}
	return out
}

// adoptSeries makes the metrics follow the targets.
func (l *loop) adoptSeries() {
	keyed, places := l.p.metrics.adopt(l.targets)
	for _, p := range places {
		p.counts = [len(sides)]int{}
	}
	for target, t := range l.targets {
		t.place = places[placeKey{target.Service, target.Cluster}]
		t.place.count(t.vote.Side, 1)
	}
	for _, p := range places {
		for _, side := range sides {
			p.count(side, 0) // shows the sides that nobody is on any more
		}
	}
	for _, s := range l.probes {
		// All its targets are at one endpoint, so no two of them share a key.
		for _, t := range s.targets {
			s.series = append(s.series, keyed[keyOf(t.plan.Target)])
		}
	}
}

// showExpiry shows the earliest certificate expiry of every place s belongs to.
func (l *loop) showExpiry(s *probeState) {
	for _, t := range s.targets {
		var first time.Time
		for _, other := range l.places[t.place.key] {
			for _, needs := range [][]*probeState{other.all, other.any} {
				for _, o := range needs {
					if e := o.certExpiry; !e.IsZero() && (first.IsZero() || e.Before(first)) {
						first = e
					}
				}
			}
		}
		t.place.expiry.Store(first.Unix())
	}
}
