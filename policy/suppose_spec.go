package policy

import (
	"maps"
	"slices"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

// SupposeSpec returns the state as applying the spec would leave it, as far as answers
// go: with its rotations, whether Apply would accept it or not. The spec is an
// effective one: see Spec.WithAddresses.
func SupposeSpec(st *statestore.State, spec *statestore.Spec) *statestore.State {
	next := *st
	next.Spec = spec
	next.Revision++
	next.Services = make(map[string]*statestore.ServiceState, len(spec.Services))
	for name, svc := range spec.Services {
		ss := &statestore.ServiceState{Targets: map[health.Target]*statestore.TargetState{}}
		old := st.Services[name]
		if old != nil {
			ss.Rotation, ss.Ownership = old.Rotation, old.Ownership
			if o := old.Override; o != nil && svc.Stateful == nil && slices.Contains(spec.Candidates(name), o.Cluster) {
				ss.Override = o
			}
		}
		if svc.Stateful != nil && ss.Ownership == nil {
			side, certain := st.FirstSide(spec, name)
			ss.Ownership = &statestore.Ownership{Active: side, Epoch: st.Epochs[name] + 1, Generation: st.Generation, Since: st.Now, Index: st.Index, Unconfirmed: !certain}
		}
		if svc.Stateful == nil {
			ss.Ownership = nil
		}
		for _, t := range spec.ServiceTargets(name) {
			ss.Targets[t] = carriedTarget(st, spec, t)
		}
		next.Services[name] = ss
	}
	for _, rc := range Rotations(st, spec, nil, nil) {
		ss := next.Services[rc.Service]
		ss.Rotation = statestore.Rotation{
			Number: ss.Rotation.Number + 1, Index: st.Index, At: st.Now, Reason: rc.Reason, V4: rc.V4, V6: rc.V6, Clears: st.Now,
		}
	}
	next.Clusters = make(map[string]*statestore.ClusterState, len(spec.Clusters))
	for name := range spec.Clusters {
		cs := &statestore.ClusterState{}
		if old := st.Clusters[name]; old != nil {
			*cs = *old
			cs.Targets = maps.Clone(old.Targets)
			if !reportedAlike(st.Spec, spec, name) {
				cs.Reported = nil
			}
		}
		next.Clusters[name] = cs
	}
	return &next
}

// carriedTarget returns what is left of a target's votes and verdict under the spec:
// nothing where it is probed in another way.
func carriedTarget(st *statestore.State, spec *statestore.Spec, t health.Target) *statestore.TargetState {
	old, there := st.Target(t)
	switch {
	case !there || old.Verdict.Number == 0 && !probedAlike(st.Spec, spec, t):
		return &statestore.TargetState{Votes: map[health.ObserverID]health.Vote{}}
	case probedAlike(st.Spec, spec, t):
		return old
	}
	return &statestore.TargetState{
		Votes:   map[health.ObserverID]health.Vote{},
		Verdict: health.Verdict{Number: old.Verdict.Number + 1, Since: st.Now, Index: st.Index},
	}
}

// probedAlike reports whether a service's target is probed the same way under both.
func probedAlike(a, b *statestore.Spec, t health.Target) bool {
	probing := func(sp *statestore.Spec) any {
		svc, c := sp.Services[t.Service], sp.Clusters[t.Cluster]
		if svc == nil || c == nil {
			return nil
		}
		host := ""
		if o := svc.Overrides[t.Cluster]; o != nil {
			host = o.Host
		}
		return []any{svc.Zone, svc.Names[:min(1, len(svc.Names))], svc.Checks, c.Check, host}
	}
	return sameText(probing(a), probing(b))
}

// reportedAlike reports whether a cluster's capacity is reported the same way under
// both: else its last report says nothing any more.
func reportedAlike(a, b *statestore.Spec, cluster string) bool {
	ca, cb := a.Clusters[cluster], b.Clusters[cluster]
	if ca == nil || cb == nil || ca.CapacityFrom == nil || cb.CapacityFrom == nil {
		return false
	}
	return ca.Capacity == cb.Capacity && sameText(ca.CapacityFrom.HTTP, cb.CapacityFrom.HTTP) && sameText(ca.CapacityFrom.Prometheus, cb.CapacityFrom.Prometheus)
}
