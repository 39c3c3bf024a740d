package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

// CheckDrain is CheckDrains of one cluster.
func CheckDrain(st *statestore.State, cluster string, services []string) []Blocker {
	return CheckDrains(st, []string{cluster}, services)
}

// CheckDrains returns every rule that forbids draining the clusters for services
// (empty: all that they serve), judged on the state as it would be with all of them
// out: two drains that each keep the floor may break it together.
func CheckDrains(st *statestore.State, clusters, services []string) []Blocker {
	var blockers []Blocker
	block := func(rule, format string, args ...any) {
		blockers = append(blockers, Blocker{Rule: rule, Reason: fmt.Sprintf(format, args...)})
	}
	clusters = sortedSet(clusters)
	for _, c := range clusters {
		if st.Spec.Clusters[c] == nil {
			block(RuleUnknownCluster, "there is no cluster %s", c)
		}
	}
	if len(blockers) > 0 || len(clusters) == 0 {
		return blockers
	}
	for _, s := range sortedSet(services) {
		if st.Spec.Services[s] == nil {
			block(RuleUnknownService, "there is no service %s", s)
		}
	}
	floor := max(st.Spec.Safety.MinServingClusters, 1)
	before := view{st: st, spec: st.Spec}
	after := view{st: st, spec: st.Spec, drains: drainOverlay(st, clusters, services)}
	for _, service := range servicesOf(st, clusters) {
		out := slices.DeleteFunc(slices.Clone(clusters), func(c string) bool {
			return !slices.Contains(st.Spec.Candidates(service), c) || !after.drained(c, service) || before.drained(c, service)
		})
		if len(out) == 0 || before.active(service) != "" {
			continue // a drain moves no stateful service
		}
		serving := before.serving(service)
		// Unjudged clusters would answer in their place, but nobody knows that they can.
		left := slices.DeleteFunc(slices.Clone(serving), func(c string) bool { return slices.Contains(out, c) })
		names, is := phrase(out, "is", "are")
		switch {
		case len(after.open(service)) == 0:
			block(RuleLastServing, "%s %s that %s not drained for %s", names, last(is, out), is, service)
		case !slices.ContainsFunc(out, func(c string) bool { return before.answersFrom(service, c) || slices.Contains(serving, c) }):
			// They serve nothing here, so nothing gets worse.
		case len(left) == 0:
			block(RuleLastServing, "%s %s that %s %s: no other one is up", names, last(is, out), serve(out), service)
		case len(left) < floor:
			block(RuleMinServing, "%s would be left with %d serving (%s), min_serving_clusters is %d", service, len(left), strings.Join(left, ", "), floor)
		}
	}
	if limit := st.Spec.Safety.MaxDrained; limit > 0 {
		drained := slices.Clone(clusters)
		for _, c := range sortedKeys(st.Clusters) {
			if !slices.Contains(clusters, c) && st.Clusters[c].Drain != nil {
				drained = append(drained, c)
			}
		}
		slices.Sort(drained)
		if len(drained) > limit {
			block(RuleMaxDrained, "%d clusters would be drained (%s), max_drained is %d", len(drained), strings.Join(drained, ", "), limit)
		}
	}
	return blockers
}

// sortedSet returns the names sorted, each once.
func sortedSet(names []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(names)))
}

// phrase joins names, with the verb that goes with so many.
func phrase(names []string, one, many string) (subject, verb string) {
	if len(names) == 1 {
		return names[0], one
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1], many
}

func last(is string, names []string) string {
	if len(names) == 1 {
		return is + " the last cluster"
	}
	return is + " the last clusters"
}

func serve(names []string) string {
	if len(names) == 1 {
		return "serves"
	}
	return "serve"
}

// DrainRotations returns the rotations that DrainCluster has to carry.
func DrainRotations(st *statestore.State, cluster string, services []string) []statestore.RotationChange {
	return DrainsRotations(st, []string{cluster}, services)
}

// DrainsRotations returns the rotations that DrainClusters has to carry.
func DrainsRotations(st *statestore.State, clusters, services []string) []statestore.RotationChange {
	return Rotations(st, st.Spec, servicesOf(st, clusters), drainOverlay(st, clusters, services))
}

// UndrainRotations returns the rotations that UndrainCluster has to carry.
func UndrainRotations(st *statestore.State, cluster string) []statestore.RotationChange {
	return Rotations(st, st.Spec, servicesOf(st, []string{cluster}), Drains{cluster: nil})
}

// DrainImpact is DrainsImpact of one cluster.
func DrainImpact(st *statestore.State, cluster string, services []string) []Impact {
	return DrainsImpact(st, []string{cluster}, services)
}

// DrainsImpact returns what draining the clusters does to each service that one of
// them is a candidate of and that the drain covers. The active side of a stateful
// service stays where it is.
func DrainsImpact(st *statestore.State, clusters, services []string) []Impact {
	v := view{st: st, spec: st.Spec, drains: drainOverlay(st, clusters, services)}
	covering := func(service string) []string {
		return slices.DeleteFunc(sortedSet(clusters), func(c string) bool {
			return !slices.Contains(st.Spec.Candidates(service), c) || !v.drained(c, service)
		})
	}
	covered := slices.DeleteFunc(servicesOf(st, clusters), func(s string) bool { return len(covering(s)) == 0 })
	out := v.impacts(covered)
	for i, im := range out {
		active := v.active(im.Service)
		if active == "" {
			continue
		}
		drained := covering(im.Service)
		if slices.Contains(drained, active) {
			drained = []string{active} // that it stays is what matters
		}
		for _, c := range drained {
			out[i].Warnings = append(out[i].Warnings, v.stays(im.Service, c))
		}
	}
	return out
}

// UndrainImpact returns what bringing the cluster back does.
func UndrainImpact(st *statestore.State, cluster string) []Impact {
	return view{st: st, spec: st.Spec, drains: Drains{cluster: nil}}.impacts(servicesOf(st, []string{cluster}))
}

// drainOverlay is the state's drains with more of them.
func drainOverlay(st *statestore.State, clusters, services []string) Drains {
	d := Drains{}
	for _, c := range clusters {
		d[c] = &statestore.Drain{Services: services, At: st.Now}
	}
	return d
}

// servicesOf returns the services that one of the clusters is a candidate of.
func servicesOf(st *statestore.State, clusters []string) []string {
	return slices.DeleteFunc(sortedKeys(st.Spec.Services), func(s string) bool {
		return !slices.ContainsFunc(st.Spec.Candidates(s), func(c string) bool { return slices.Contains(clusters, c) })
	})
}

// open returns the candidates that have an address and are not drained.
func (v view) open(service string) []string {
	return slices.DeleteFunc(slices.Clone(v.spec.Candidates(service)), func(c string) bool {
		return v.drained(c, service) || len(v.spec.Clusters[c].Endpoints()) == 0
	})
}

// serving returns the candidates that can serve: not drained, and an endpoint is
// up. Where none is up, those that nobody has judged yet: they answer then.
func (v view) serving(service string) []string {
	having := func(side health.Side) []string {
		return slices.DeleteFunc(v.open(service), func(c string) bool {
			return !slices.ContainsFunc(v.spec.Clusters[c].Endpoints(), func(a netip.Addr) bool {
				return v.verdict(health.Target{Service: service, Cluster: c, Endpoint: a}).Side == side
			})
		})
	}
	if up := having(health.Up); len(up) > 0 {
		return up
	}
	return having(health.Unknown)
}

// answersFrom reports whether the rotation in force hands out the cluster by
// choice, not because nothing is up.
func (v view) answersFrom(service, cluster string) bool {
	r := v.last(service)
	for _, p := range []statestore.Pool{r.V4, r.V6} {
		if p.AllDown == "" && slices.ContainsFunc(p.Shares, func(s statestore.Share) bool { return s.Cluster == cluster }) {
			return true
		}
	}
	return false
}
