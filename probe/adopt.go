package probe

import (
	"container/heap"
	"slices"
	"time"

	"github.com/quorate/quorate/health"
)

// adopt makes plan the one that runs. Probes that stay keep what they have seen.
func (l *loop) adopt(plan Plan, now time.Time) {
	old := l.probes
	l.probes = make(map[ProbeID]*probeState, len(plan.Probes))
	for _, p := range plan.Probes {
		p.Check = p.Check.withDefaults()
		s := old[p.ID]
		if s == nil {
			s = l.newState(p, now)
		}
		s.probe.Names, s.targets, s.keys = p.Names, nil, nil
		l.probes[p.ID] = s
	}
	for id, s := range old {
		if l.probes[id] == nil {
			l.drop(s)
		}
	}
	l.adoptTargets(plan, now)
	l.adoptSeries()
	l.p.adopted(plan, l.probes)
	l.recomputeAll(now)
}

// newState returns the state of a probe that has never run, in the heap.
func (l *loop) newState(p Probe, now time.Time) *probeState {
	s := &probeState{probe: p, at: -1, h: hysteresis{fall: p.Check.Fall, rise: p.Check.Rise}}
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
	s.gone = true
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

// adoptTargets links targets, probes and clusters anew.
func (l *loop) adoptTargets(plan Plan, now time.Time) {
	oldTargets, oldClusters := l.targets, l.clusters
	l.targets = make(map[health.Target]*targetState, len(plan.Targets))
	l.clusters = map[string]*clusterState{}
	l.places = map[placeKey][]*targetState{}
	for _, tp := range plan.Targets {
		t := &targetState{plan: tp, vote: health.Vote{Since: now.Round(0).UTC()}}
		if was := oldTargets[tp.Target]; was != nil {
			t.vote = was.vote
		} else {
			l.changed[tp.Target] = &t.vote
		}
		l.targets[tp.Target] = t
		place := placeKey{tp.Target.Service, tp.Target.Cluster}
		l.places[place] = append(l.places[place], t)
		c := l.clusters[tp.Target.Cluster]
		if c == nil {
			c = &clusterState{probes: map[*probeState]struct{}{}}
			if was := oldClusters[tp.Target.Cluster]; was != nil {
				c.alive = was.alive
			}
			l.clusters[tp.Target.Cluster] = c
		}
		link := func(needs []Need) []*probeState {
			var out []*probeState
			for _, n := range needs {
				s := l.probes[n.Probe]
				out = append(out, s)
				c.probes[s] = struct{}{}
				if !slices.Contains(s.targets, t) {
					s.targets = append(s.targets, t)
				}
				if k := keyOf(tp.Target); !slices.Contains(s.keys, k) {
					s.keys = append(s.keys, k)
				}
			}
			return out
		}
		t.all, t.any = link(tp.All), link(tp.Any)
	}
	for target := range oldTargets {
		if l.targets[target] == nil {
			l.changed[target] = nil
		}
	}
}

// adoptSeries makes the metrics follow the targets.
func (l *loop) adoptSeries() {
	old := l.series
	l.series = map[seriesKey]struct{}{}
	for target := range l.targets {
		k := keyOf(target)
		l.series[k] = struct{}{}
		if _, ok := old[k]; !ok {
			l.p.metrics.add(k)
		}
	}
	for k := range old {
		if _, ok := l.series[k]; ok {
			continue
		}
		l.p.metrics.remove(k)
		if place := (placeKey{k.service, k.cluster}); l.places[place] == nil {
			l.p.metrics.removePlace(place)
		}
	}
	for place := range l.places {
		l.showVotes(place)
	}
}

// showExpiry shows the earliest certificate expiry of every place s belongs to.
func (l *loop) showExpiry(s *probeState) {
	for _, k := range s.keys {
		var first time.Time
		for _, t := range l.places[placeKey{k.service, k.cluster}] {
			for _, o := range slices.Concat(t.all, t.any) {
				if e := o.certExpiry; !e.IsZero() && (first.IsZero() || e.Before(first)) {
					first = e
				}
			}
		}
		l.p.metrics.certExpiry.WithLabelValues(k.service, k.cluster).Set(float64(first.Unix()))
	}
}

// showVotes shows the votes on the endpoints of a place.
func (l *loop) showVotes(place placeKey) {
	counts := map[health.Side]int{}
	for _, t := range l.places[place] {
		counts[t.vote.Side]++
	}
	l.p.metrics.setVotes(place, counts)
}

// recomputeAll computes every vote.
func (l *loop) recomputeAll(now time.Time) {
	for _, t := range l.targets {
		l.recomputeOne(t, now)
	}
}

func (l *loop) recompute(targets []*targetState, now time.Time) {
	for _, t := range targets {
		l.recomputeOne(t, now)
	}
}

// recomputeOne computes the vote on t. A vote changes with its side; the reason
// of an unchanged up or down stays what turned it, since every change is an
// entry in the replicated log.
func (l *loop) recomputeOne(t *targetState, now time.Time) {
	o := opinion{health.Unknown, ReasonBlind}
	if !l.blind {
		l.opinions = l.opinions[:0]
		for i, s := range t.all {
			l.opinions = append(l.opinions, s.opinionOf(t.plan.All[i].StaleAfter, now))
		}
		for i, s := range t.any {
			l.opinions = append(l.opinions, s.opinionOf(t.plan.Any[i].StaleAfter, now))
		}
		o = combine(l.opinions[:len(t.all)], l.opinions[len(t.all):])
	}
	switch {
	case o.side != t.vote.Side:
		t.vote = health.Vote{Side: o.side, Reason: string(o.reason), Since: now.Round(0).UTC()}
	case o.side == health.Unknown && string(o.reason) != t.vote.Reason:
		t.vote.Reason = string(o.reason)
	default:
		return
	}
	l.changed[t.plan.Target] = &t.vote
	l.showVotes(placeKey{t.plan.Target.Service, t.plan.Target.Cluster})
}
