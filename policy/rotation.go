package policy

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

// view is a state as it would be with another spec, other drains and other pins.
// Verdicts, reports, freezes and the rotations in force are always those of the
// state.
type view struct {
	st     *statestore.State
	spec   *statestore.Spec
	drains Drains
	pins   map[string]*statestore.Override // by service: overlaid on the state's; nil: none
}

// Rotations returns the rotations that spec and the overlaid drains cause, sorted by
// service. A nil services means all of spec's; those that spec does not have are left
// out. Under another spec than the state's it is what ApplySpec has to carry: see
// causes.
func Rotations(st *statestore.State, spec *statestore.Spec, services []string, drains Drains) []statestore.RotationChange {
	v := view{st: st, spec: spec, drains: drains}
	if services == nil {
		services = sortedKeys(spec.Services)
	}
	services = slices.Compact(slices.Sorted(slices.Values(services)))
	var changes []statestore.RotationChange
	var under *statestore.State
	for _, name := range services {
		if spec.Services[name] == nil {
			continue
		}
		rc := v.rotation(name)
		if sameRotation(rc, v.last(name)) {
			continue
		}
		if spec != st.Spec {
			if under == nil {
				under = st.Under(spec)
			}
			if !v.causes(under, rc) {
				continue
			}
		}
		changes = append(changes, rc)
	}
	return changes
}

// causes reports whether the view's spec makes the service rotate so: it is new, what
// is in force does not stand under the spec, or with the spec that is in force it
// would rotate otherwise. What automation owes anyway is not caused: automation alone
// asks freezes and the budget first, and where verdicts turn all the time a person
// could never be as quick. Only what the spec makes forgotten has to go along, with
// the verdicts of a check that becomes another; but a freeze goes before it.
// under is the state as the spec leaves it.
func (v view) causes(under *statestore.State, rc statestore.RotationChange) bool {
	was, is := v.st.Services[rc.Service], under.Services[rc.Service]
	if was == nil || under.Stands(rc.Service) != nil {
		return true
	}
	before := view{st: v.st, spec: v.st.Spec, drains: v.drains}.rotation(rc.Service)
	if !before.V4.Equal(rc.V4) || !before.V6.Equal(rc.V6) {
		return true
	}
	if _, frozen := v.st.Frozen(rc.Service); frozen {
		return false
	}
	for t, ts := range is.Targets {
		if old := was.Targets[t]; old != nil && old.Verdict.Number != ts.Verdict.Number {
			return true
		}
	}
	return false
}

// Wanted returns the rotation the service should have now, frozen or not.
func Wanted(st *statestore.State, service string) statestore.RotationChange {
	return view{st: st, spec: st.Spec}.rotation(service)
}

// last returns the rotation in force, the zero one for a new service.
func (v view) last(service string) statestore.Rotation {
	if ss := v.st.Services[service]; ss != nil {
		return ss.Rotation
	}
	return statestore.Rotation{}
}

// drained reports whether a person has taken the cluster out of the service.
func (v view) drained(cluster, service string) bool {
	if d, overlaid := v.drains[cluster]; overlaid {
		return d.Covers(service)
	}
	if cs := v.st.Clusters[cluster]; cs != nil {
		return cs.Drain.Covers(service)
	}
	return false
}

// verdict returns the target's verdict; number 0 for one that was never judged.
func (v view) verdict(t health.Target) health.Verdict {
	if ss := v.st.Services[t.Service]; ss != nil {
		if ts := ss.Targets[t]; ts != nil {
			return ts.Verdict
		}
	}
	return health.Verdict{}
}

// rotation returns what the service should answer with.
func (v view) rotation(service string) statestore.RotationChange {
	last := v.last(service)
	if active := v.active(service); active != "" {
		rc := v.activeRotation(service, active)
		if !sameRotation(rc, last) {
			rc.Reason = v.why(rc, v.spec.Ordered(service), last)
		}
		return rc
	}
	order := v.spec.Ordered(service)
	weights := v.weights(service, order)
	rc := statestore.RotationChange{
		Service: service,
		V4:      v.family(service, order, weights, netip.Addr.Is4, last.V4),
		V6:      v.family(service, order, weights, netip.Addr.Is6, last.V6),
	}
	if !sameRotation(rc, last) {
		rc.Reason = v.why(rc, order, last)
	}
	return rc
}

// family returns one family's pool: the pinned cluster alone where a person has
// pinned one that is up, else what the policy takes in.
func (v view) family(service string, order []string, weights map[string]int, family func(netip.Addr) bool, last statestore.Pool) statestore.Pool {
	if shares := v.pinShares(service, family); len(shares) > 0 {
		return statestore.Pool{Shares: shares}
	}
	p := v.pool(service, order, weights, family, last)
	if p.AllDown == "" {
		p.Shares = v.spill(service, p.Shares)
	}
	return p
}

// active returns the one cluster that a stateful service answers with: its active
// side, or the first one of a service that becomes stateful. It is empty for a
// stateless service.
func (v view) active(service string) string {
	svc := v.spec.Services[service]
	if svc == nil || svc.Stateful == nil {
		return ""
	}
	if ss := v.st.Services[service]; ss != nil && ss.Ownership != nil {
		return ss.Ownership.Active
	}
	side, _ := v.st.FirstSide(v.spec, service)
	return side
}

// activeRotation returns the rotation that names one cluster only, whatever its state and
// its drains: the endpoints that are up, or all of them when none is.
func (v view) activeRotation(service, cluster string) statestore.RotationChange {
	if v.spec.Clusters[cluster] == nil {
		return statestore.RotationChange{Service: service} // a spec that CheckSpec refuses
	}
	pool := func(family func(netip.Addr) bool) statestore.Pool {
		weights := map[string]int{cluster: 1}
		up := v.shares([]string{cluster}, weights, func(c string, a netip.Addr) bool {
			return family(a) && v.verdict(health.Target{Service: service, Cluster: c, Endpoint: a}).Side == health.Up
		})
		if len(up) > 0 {
			return statestore.Pool{Shares: up}
		}
		return statestore.Pool{Shares: v.shares([]string{cluster}, weights, func(_ string, a netip.Addr) bool { return family(a) })}
	}
	return statestore.RotationChange{Service: service, V4: pool(netip.Addr.Is4), V6: pool(netip.Addr.Is6)}
}

// pool returns one family's pool: the undrained candidates with an endpoint that
// is up, or that answers now and waits for the first verdict of a changed check:
// whose probes end first must not decide who answers. When there is none, those
// never judged, since nothing else could answer; then what on_all_down says. It is
// empty only if no candidate has an address.
func (v view) pool(service string, order []string, weights map[string]int, family func(netip.Addr) bool, last statestore.Pool) statestore.Pool {
	var open, drained []string
	for _, c := range order {
		switch {
		case !slices.ContainsFunc(v.spec.Clusters[c].Endpoints(), family):
		case v.drained(c, service):
			drained = append(drained, c)
		default:
			open = append(open, c)
		}
	}
	pick := func(from []string, want func(cluster string, a netip.Addr) bool) []statestore.Share {
		return v.shares(from, weights, func(c string, a netip.Addr) bool { return family(a) && want(c, a) })
	}
	is := func(side health.Side) func(string, netip.Addr) bool {
		return func(c string, a netip.Addr) bool {
			return v.verdict(health.Target{Service: service, Cluster: c, Endpoint: a}).Side == side
		}
	}
	serves := func(c string, a netip.Addr) bool {
		verdict := v.verdict(health.Target{Service: service, Cluster: c, Endpoint: a})
		rechecked := verdict.Side == health.Unknown && verdict.Number > 0
		return verdict.Side == health.Up || rechecked && last.AllDown == "" && inPool(last, c, a)
	}
	if in := pick(open, serves); len(in) > 0 {
		return statestore.Pool{Shares: level(v.healthy(service, in, family))}
	}
	if unknown := pick(open, is(health.Unknown)); len(unknown) > 0 {
		// Of the unjudged, those that answer already go first: a new check makes
		// everything unknown, and what was down before is hardly up because of it.
		if last.AllDown == "" {
			in := pick(open, func(c string, a netip.Addr) bool { return is(health.Unknown)(c, a) && inPool(last, c, a) })
			if len(in) > 0 {
				return statestore.Pool{Shares: in}
			}
		}
		return statestore.Pool{Shares: unknown}
	}
	if len(open) == 0 {
		open = drained // a spec may take away what a drain left
	}
	all := pick(open, func(string, netip.Addr) bool { return true })
	if len(all) == 0 {
		return statestore.Pool{}
	}
	mode := cmp.Or(v.spec.Services[service].OnAllDown.Mode, statestore.ServeLast)
	if mode != statestore.ServeAll {
		// Whatever the answer is meanwhile, the pool keeps the last clusters: an
		// empty one could not be told from a mistake (G5).
		if kept := pick(open, func(c string, a netip.Addr) bool { return inPool(last, c, a) }); len(kept) > 0 {
			all = kept
		}
	}
	return statestore.Pool{Shares: all, AllDown: mode}
}

// shares returns a share for each cluster that has a wanted endpoint.
func (v view) shares(clusters []string, weights map[string]int, want func(cluster string, a netip.Addr) bool) []statestore.Share {
	var shares []statestore.Share
	for _, c := range clusters {
		var endpoints []netip.Addr
		for _, a := range v.spec.Clusters[c].Endpoints() {
			if want(c, a) {
				endpoints = append(endpoints, a)
			}
		}
		if len(endpoints) > 0 {
			shares = append(shares, statestore.Share{Cluster: c, Weight: weights[c], Endpoints: endpoints})
		}
	}
	return level(shares)
}

// level returns the shares with the weight 1 each when none has any. Clusters of
// weight 0 stand by; when only such are left they share equally, as a pool that
// nobody is drawn from would be an empty answer.
func level(shares []statestore.Share) []statestore.Share {
	for _, s := range shares {
		if s.Weight > 0 {
			return shares
		}
	}
	for i := range shares {
		shares[i].Weight = 1
	}
	return shares
}

// healthy returns the shares without those of clusters that have fewer endpoints
// up than min_healthy, as long as what is left keeps the floor: better a cluster on
// its last endpoint than too few clusters. A cluster with fewer endpoints than that
// needs all of them.
func (v view) healthy(service string, shares []statestore.Share, family func(netip.Addr) bool) []statestore.Share {
	need := v.spec.Services[service].MinHealthy
	if need <= 1 {
		return shares
	}
	well := slices.DeleteFunc(slices.Clone(shares), func(s statestore.Share) bool {
		return len(s.Endpoints) < min(need, countOf(v.spec.Clusters[s.Cluster], family))
	})
	serving := 0
	for _, s := range well {
		if slices.ContainsFunc(s.Endpoints, func(a netip.Addr) bool {
			return v.verdict(health.Target{Service: service, Cluster: s.Cluster, Endpoint: a}).Side == health.Up
		}) {
			serving++
		}
	}
	if serving < max(v.spec.Safety.MinServingClusters, 1) {
		return shares
	}
	return well
}

// countOf returns how many addresses of the family the cluster has.
func countOf(c *statestore.Cluster, family func(netip.Addr) bool) int {
	n := 0
	for _, a := range c.Endpoints() {
		if family(a) {
			n++
		}
	}
	return n
}

// sameRotation reports whether the change would install what is in force.
func sameRotation(rc statestore.RotationChange, r statestore.Rotation) bool {
	return r.Number > 0 && rc.V4.Equal(r.V4) && rc.V6.Equal(r.V6)
}

// inPool reports whether the pool answers with the cluster's endpoint.
func inPool(p statestore.Pool, cluster string, a netip.Addr) bool {
	return slices.ContainsFunc(p.Shares, func(s statestore.Share) bool {
		return s.Cluster == cluster && slices.Contains(s.Endpoints, a)
	})
}

// poolClusters returns the clusters of both pools, each once, in pool order.
func poolClusters(v4, v6 statestore.Pool) []string {
	var names []string
	for _, s := range slices.Concat(v4.Shares, v6.Shares) {
		if !slices.Contains(names, s.Cluster) {
			names = append(names, s.Cluster)
		}
	}
	return names
}
