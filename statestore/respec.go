package statestore

import (
	"slices"

	"github.com/quorate/quorate/health"
)

// Under returns the state as the spec alone would leave it: nothing is checked, and
// the rotations are those in force, whether they stand or not. The spec is an
// effective one: see Spec.WithAddresses.
func (st *State) Under(spec *Spec) *State {
	next := *st
	next.Spec = spec
	next.Revision++
	next.respec(st, entry{index: st.Index, now: st.Now})
	return &next
}

// respec makes the running side fit the new spec: services, clusters and targets
// come and go, and a target keeps its votes and verdict unless it is probed in
// another way from now on.
func (st *State) respec(prior *State, at entry) {
	doors := make(map[string]bool, len(st.Spec.Clusters))
	for name := range st.Spec.Clusters {
		doors[name] = sameDoor(prior.Spec, st.Spec, name)
	}
	services := make(map[string]*ServiceState, len(st.Spec.Services))
	for _, name := range sortedKeys(st.Spec.Services) {
		next := &ServiceState{Targets: map[health.Target]*TargetState{}}
		old, existed := prior.Services[name]
		if existed {
			next.Rotation, next.Ownership = old.Rotation, old.Ownership
			next.Override = old.Override.under(st.Spec, name)
		}
		if s := st.Spec.Services[name].Stateful; s != nil && next.Ownership == nil {
			side, certain := st.FirstSide(st.Spec, name)
			next.Ownership = &Ownership{
				Active: side, Epoch: st.nextEpoch(name), Generation: st.Generation, Since: at.now, Index: at.index, Unconfirmed: !certain,
			}
			st.Sides = without(st.Sides, name)
		}
		same := existed && sameChecks(prior.Spec, st.Spec, name)
		for _, t := range st.Spec.ServiceTargets(name) {
			var was *TargetState
			if existed {
				was = old.Targets[t]
			}
			next.Targets[t] = carry(was, same && doors[t.Cluster] && sameHost(prior.Spec, st.Spec, name, t.Cluster), at)
		}
		services[name] = next
	}
	for _, name := range sortedKeys(prior.Services) {
		if own := prior.Services[name].Ownership; own != nil && services[name] == nil {
			st.Sides = with(st.Sides, name, own.Active)
		}
	}
	clusters := make(map[string]*ClusterState, len(st.Spec.Clusters))
	for name := range st.Spec.Clusters {
		next := &ClusterState{}
		old, existed := prior.Clusters[name]
		if existed {
			if prior.Spec.Clusters[name].ReportsLike(st.Spec.Clusters[name]) {
				next.Reported = old.Reported
			}
			next.Drain, next.DrainVersion = old.Drain.among(st.Spec.Services), old.DrainVersion
			if next.Drain != old.Drain {
				st.Versions++
				next.DrainVersion = st.Versions
			}
		}
		if targets := st.Spec.frontDoors(name); len(targets) > 0 {
			next.Targets = map[health.Target]*TargetState{}
			for _, t := range targets {
				var was *TargetState
				if existed {
					was = old.Targets[t]
				}
				next.Targets[t] = carry(was, doors[name], at)
			}
		}
		clusters[name] = next
	}
	st.Clusters = clusters
	st.setServices(services)
	for _, name := range sortedKeys(st.Freezes) {
		if _, ok := services[name]; !ok && name != "" {
			st.Freezes = without(st.Freezes, name)
		}
	}
	var losses []Loss
	for _, l := range st.Losses {
		if _, ok := clusters[l.Cluster]; ok {
			losses = append(losses, l)
		}
	}
	st.Losses = losses
	st.forgetLatency()
	st.resign(prior, at)
	for _, name := range sortedKeys(st.Delivered) {
		if st.Spec.Notify.Receivers[name] == nil {
			st.Delivered = without(st.Delivered, name)
		}
	}
}

// among returns the drain as it stands for the services that are left. One that
// named only services that are gone ends: an empty list would mean all.
func (d *Drain) among(services map[string]*Service) *Drain {
	if d == nil || len(d.Services) == 0 {
		return d
	}
	left := slices.DeleteFunc(slices.Clone(d.Services), func(name string) bool {
		_, ok := services[name]
		return !ok
	})
	switch len(left) {
	case len(d.Services):
		return d
	case 0:
		return nil
	}
	next := *d
	next.Services = left
	return &next
}

// under returns the pin as it stands under the spec. One ends with its cluster's
// candidacy, and with the service's being stateless.
func (o *Override) under(sp *Spec, service string) *Override {
	if o == nil || sp.Services[service].Stateful != nil || !slices.Contains(sp.Candidates(service), o.Cluster) {
		return nil
	}
	return o
}

// carry returns a target's state under the new spec. Verdict numbers go on.
func carry(was *TargetState, same bool, at entry) *TargetState {
	switch {
	case was == nil:
		return &TargetState{Votes: map[health.ObserverID]health.Vote{}}
	case same:
		return was
	case was.Verdict.Number == 0:
		return &TargetState{Votes: map[health.ObserverID]health.Vote{}}
	}
	return &TargetState{
		Votes:   map[health.ObserverID]health.Vote{},
		Verdict: health.Verdict{Number: was.Verdict.Number + 1, Since: at.now, Index: at.index},
	}
}

// sameDoor reports whether a cluster is there under both specs, with the same
// front-door check.
func sameDoor(a, b *Spec, cluster string) bool {
	ca, cb := a.Clusters[cluster], b.Clusters[cluster]
	return ca != nil && cb != nil && (ca == cb || Same(ca.Check.asProbed(), cb.Check.asProbed()))
}

// sameChecks reports whether a service is there under both specs and probed the
// same way.
func sameChecks(a, b *Spec, service string) bool {
	sa, sb := a.Services[service], b.Services[service]
	if sa == nil || sb == nil || sa.Zone != sb.Zone {
		return false
	}
	if sa == sb {
		return true // of the same spec, but for addresses
	}
	// The first name is what "{service}" stands for in a check.
	return slices.Equal(sa.Names[:min(1, len(sa.Names))], sb.Names[:min(1, len(sb.Names))]) && Same(sa.Checks.asProbed(), sb.Checks.asProbed())
}

// sameHost reports whether a cluster is probed under the same name for the service.
func sameHost(a, b *Spec, service, cluster string) bool {
	host := func(sp *Spec) string {
		if o := sp.Services[service].Overrides[cluster]; o != nil {
			return o.Host
		}
		return ""
	}
	return host(a) == host(b)
}

// ReportsLike reports whether a cluster's capacity is reported the same way under
// another spec, so that the last report still says what it said. A nil cluster, and
// one without capacity_from, reports like none.
func (c *Cluster) ReportsLike(o *Cluster) bool {
	if c == nil || o == nil || c.CapacityFrom == nil || o.CapacityFrom == nil {
		return false
	}
	if c == o {
		return true
	}
	// A part of the declared capacity is another number when that one is.
	return c.Capacity == o.Capacity && Same(c.CapacityFrom.HTTP, o.CapacityFrom.HTTP) &&
		Same(c.CapacityFrom.Prometheus, o.CapacityFrom.Prometheus)
}
