package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

// Rules that a drain or a plan may break.
const (
	RuleUnknownCluster = "unknown_cluster"
	RuleUnknownService = "unknown_service"
	RuleLastServing    = "last_serving_cluster"
	RuleMinServing     = "min_serving_clusters"
	RuleMaxDrained     = "max_drained"
	RuleObservers      = "observers"
	RuleMinVotes       = "min_votes"
	RuleThreshold      = "quorum"
	RuleNoCandidates   = "no_candidates"
	RuleNameServer     = "name_server"
)

// CheckDrain returns every rule that forbids draining the cluster for services
// (empty: all that it serves), judged on the state as it would be afterwards.
func CheckDrain(st *statestore.State, cluster string, services []string) []Blocker {
	if st.Spec.Clusters[cluster] == nil {
		return []Blocker{{Rule: RuleUnknownCluster, Reason: fmt.Sprintf("there is no cluster %s", cluster)}}
	}
	var blockers []Blocker
	for _, s := range slices.Sorted(slices.Values(services)) {
		if st.Spec.Services[s] == nil {
			blockers = append(blockers, Blocker{Rule: RuleUnknownService, Reason: fmt.Sprintf("there is no service %s", s)})
		}
	}
	floor := max(st.Spec.Safety.MinServingClusters, 1)
	before := view{st: st, spec: st.Spec}
	after := view{st: st, spec: st.Spec, drains: drainOverlay(st, cluster, services)}
	for _, service := range servicesOf(st, cluster) {
		if !after.drained(cluster, service) || before.drained(cluster, service) || before.active(service) != "" {
			continue // a drain moves no stateful service
		}
		// Unjudged clusters would answer in its place, but nobody knows that they can.
		left := slices.DeleteFunc(before.serving(service), func(c string) bool { return c == cluster })
		switch {
		case len(after.open(service)) == 0:
			blockers = append(blockers, Blocker{Rule: RuleLastServing, Reason: fmt.Sprintf(
				"%s is the last cluster that is not drained for %s", cluster, service)})
		case !before.answersFrom(service, cluster) && !slices.Contains(before.serving(service), cluster):
			// It serves nothing here, so nothing gets worse.
		case len(left) == 0:
			blockers = append(blockers, Blocker{Rule: RuleLastServing, Reason: fmt.Sprintf(
				"%s is the last cluster that serves %s: no other one is up", cluster, service)})
		case len(left) < floor:
			blockers = append(blockers, Blocker{Rule: RuleMinServing, Reason: fmt.Sprintf(
				"%s would be left with %d serving (%s), min_serving_clusters is %d", service, len(left), strings.Join(left, ", "), floor)})
		}
	}
	if limit := st.Spec.Safety.MaxDrained; limit > 0 {
		drained := []string{cluster}
		for _, c := range sortedKeys(st.Clusters) {
			if c != cluster && st.Clusters[c].Drain != nil {
				drained = append(drained, c)
			}
		}
		slices.Sort(drained)
		if len(drained) > limit {
			blockers = append(blockers, Blocker{Rule: RuleMaxDrained, Reason: fmt.Sprintf(
				"%d clusters would be drained (%s), max_drained is %d", len(drained), strings.Join(drained, ", "), limit)})
		}
	}
	return blockers
}

// DrainRotations returns the rotations that DrainCluster has to carry.
func DrainRotations(st *statestore.State, cluster string, services []string) []statestore.RotationChange {
	return Rotations(st, st.Spec, servicesOf(st, cluster), drainOverlay(st, cluster, services))
}

// UndrainRotations returns the rotations that UndrainCluster has to carry.
func UndrainRotations(st *statestore.State, cluster string) []statestore.RotationChange {
	return Rotations(st, st.Spec, servicesOf(st, cluster), Drains{cluster: nil})
}

// DrainImpact returns what draining the cluster does to each service it is a
// candidate of and that the drain covers. The active side of a stateful service
// stays where it is.
func DrainImpact(st *statestore.State, cluster string, services []string) []Impact {
	v := view{st: st, spec: st.Spec, drains: drainOverlay(st, cluster, services)}
	covered := slices.DeleteFunc(servicesOf(st, cluster), func(s string) bool { return !v.drained(cluster, s) })
	out := v.impacts(covered)
	for i, im := range out {
		if v.active(im.Service) != "" {
			out[i].Warnings = append(im.Warnings, v.stays(im.Service, cluster))
		}
	}
	return out
}

// UndrainImpact returns what bringing the cluster back does.
func UndrainImpact(st *statestore.State, cluster string) []Impact {
	return view{st: st, spec: st.Spec, drains: Drains{cluster: nil}}.impacts(servicesOf(st, cluster))
}

// drainOverlay is the state's drains with one more.
func drainOverlay(st *statestore.State, cluster string, services []string) Drains {
	return Drains{cluster: &statestore.Drain{Services: services, At: st.Now}}
}

// servicesOf returns the services that the cluster is a candidate of.
func servicesOf(st *statestore.State, cluster string) []string {
	return slices.DeleteFunc(sortedKeys(st.Spec.Services), func(s string) bool {
		return !slices.Contains(st.Spec.Candidates(s), cluster)
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

// impacts compares the rotations in force with those of the view.
func (v view) impacts(services []string) []Impact {
	out := make([]Impact, 0, len(services))
	for _, service := range services {
		rc, last := v.rotation(service), v.last(service)
		im := Impact{
			Service: service,
			Before:  Shares(v.st.Spec.Services[service], last.V4, last.V6),
			After:   Shares(v.spec.Services[service], rc.V4, rc.V6),
			Moves:   !sameRotation(rc, last),
		}
		if old := v.st.Spec.Services[service]; old != nil && im.Moves {
			im.Clears = max(old.TTL.Normal.D(), old.TTL.Changing.D())
		}
		im.Warnings = v.overloads(service, im)
		if rc.V4.AllDown != "" || rc.V6.AllDown != "" {
			im.Warnings = append(im.Warnings, "no candidate is up: "+string(max(rc.V4.AllDown, rc.V6.AllDown)))
		}
		out = append(out, im)
	}
	return out
}

// overloadPercent is how far above its part of all declared capacity a cluster
// may be pushed before the impact says so. Failover always means some more.
const overloadPercent = 150

// overloads returns a warning for each cluster that the change pushes beyond its
// part of the declared capacity.
func (v view) overloads(service string, im Impact) []string {
	total := 0
	candidates := v.spec.Candidates(service)
	for _, c := range candidates {
		if v.spec.Clusters[c].Capacity == 0 {
			return nil // nobody said what they can take
		}
		total += v.spec.Clusters[c].Capacity
	}
	var warnings []string
	for _, s := range im.After {
		fair := 100 * float64(v.spec.Clusters[s.Cluster].Capacity) / float64(total)
		if load := 100 * s.Percent / fair; load > overloadPercent && s.Percent > percentOf(im.Before, s.Cluster) {
			warnings = append(warnings, fmt.Sprintf("%s at %.0f%% of its capacity weight", s.Cluster, load))
		}
	}
	return warnings
}

func percentOf(shares []ClusterShare, cluster string) float64 {
	for _, s := range shares {
		if s.Cluster == cluster {
			return s.Percent
		}
	}
	return 0
}

// Shares returns the part of the service's answers that each cluster of its
// rotation has, in pool order. The family that most clients ask is shown: IPv4
// where there is one. A nil service has no shares.
func Shares(svc *statestore.Service, v4, v6 statestore.Pool) []ClusterShare {
	pool := v4
	if len(pool.Shares) == 0 {
		pool = v6
	}
	out := make([]ClusterShare, 0, len(pool.Shares))
	if svc == nil {
		return out
	}
	total := 0
	for _, s := range pool.Shares {
		total += s.Weight
	}
	for i, s := range pool.Shares {
		share := ClusterShare{Cluster: s.Cluster}
		switch {
		case svc.Policy.Type == statestore.Failover && i == 0:
			share.Percent = 100 // the first in the order alone, never a union
		case svc.Policy.Type != statestore.Failover && total > 0:
			share.Percent = 100 * float64(s.Weight) / float64(total)
		}
		out = append(out, share)
	}
	return out
}
