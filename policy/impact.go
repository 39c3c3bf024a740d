package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/quorate/quorate/statestore"
)

// impacts compares the rotations in force with those of the view.
func (v view) impacts(services []string) []Impact {
	out := make([]Impact, 0, len(services))
	for _, service := range services {
		out = append(out, v.impact(v.rotation(service)))
	}
	return out
}

// impact compares a service's rotation in force with another one of the view.
func (v view) impact(rc statestore.RotationChange) Impact {
	service, last := rc.Service, v.last(rc.Service)
	was, is := v.st.Spec.Services[service], v.spec.Services[service]
	im := Impact{
		Service: service,
		Before:  Shares(was, last.V4, last.V6),
		After:   Shares(is, rc.V4, rc.V6),
		Moves:   !sameRotation(rc, last) || routedAnew(was, is),
	}
	if !was.ByClient() && !is.ByClient() {
		im.Moved = movedPercent(im.Before, im.After)
	}
	if was != nil && im.Moves {
		im.Clears = was.LongestTTL()
	}
	im.Warnings = append(v.overloads(service, im), confined(is, im)...)
	if mode := max(rc.V4.AllDown, rc.V6.AllDown); mode != "" {
		im.Warnings = append(im.Warnings, "no candidate is up: "+string(mode))
	}
	if why := v.pinEnds(service); why != "" {
		im.Warnings = append(im.Warnings, fmt.Sprintf("the pin to %s ends: %s", v.st.Services[service].Override.Cluster, why))
	} else if why := v.pinYields(service); why != "" {
		im.Warnings = append(im.Warnings, fmt.Sprintf("the pin to %s has no effect: %s", v.pinOf(service).Cluster, why))
	}
	return im
}

// confined returns a warning for each place whose clients lose the last cluster in
// rotation that residency lets them have: nobody gets another one.
func confined(svc *statestore.Service, im Impact) []string {
	var warnings []string
	for _, place := range sortedKeys(svc.Residency) {
		allowed := sortedSet(svc.Residency[place])
		in := func(shares []ClusterShare) bool {
			return slices.ContainsFunc(shares, func(s ClusterShare) bool { return slices.Contains(allowed, s.Cluster) })
		}
		if in(im.Before) && !in(im.After) {
			warnings = append(warnings, fmt.Sprintf("clients in %s %s: residency lets them have %s only", place, getInstead(svc, allowed), strings.Join(allowed, ", ")))
		}
	}
	return warnings
}

// getInstead says what on_all_down gives clients of whose clusters none is in rotation.
func getInstead(svc *statestore.Service, allowed []string) string {
	switch mode := svc.OnAllDown.Mode; mode {
	case statestore.NoData, statestore.ServFail, statestore.Sorry:
		return fmt.Sprintf("get no cluster (on_all_down %s)", mode)
	}
	names, _ := phrase(allowed, "", "")
	return "go on getting " + names + " all the same"
}

// routedAnew reports whether the service draws other answers from the same rotation.
func routedAnew(was, is *statestore.Service) bool {
	if was == nil || is == nil {
		return false
	}
	// Order and weights are in the rotation itself.
	p, q := was.Policy, is.Policy
	return p.Type != q.Type || p.Affinity != q.Affinity || p.Sticky != q.Sticky || was.Answer != is.Answer ||
		!sameLists(p.Map, q.Map) || !sameLists(was.Residency, is.Residency) || !sameSpillover(p.Spillover, q.Spillover)
}

func sameLists(a, b map[string][]string) bool {
	return maps.EqualFunc(a, b, slices.Equal[[]string])
}

func sameSpillover(a, b *statestore.Spillover) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.At == b.At && slices.Equal(a.Order, b.Order)
}

// movedPercent returns the part of the clients that get another cluster.
func movedPercent(before, after []ClusterShare) float64 {
	moved := 0.0
	for _, s := range before {
		moved += max(0, s.Percent-percentOf(after, s.Cluster))
	}
	return moved
}

// overloadPercent is how far above its part of all capacity a cluster may be pushed
// before the impact says so. Failover always means some more.
const overloadPercent = 150

// overloads returns a warning for each cluster that the change pushes beyond its part
// of the capacity. What all clusters together can take is what the clients need:
// nothing else is known of them.
func (v view) overloads(service string, im Impact) []string {
	if len(im.Before) == 0 {
		return nil // what a new service will carry nobody knows
	}
	need := 0
	for _, c := range v.spec.Candidates(service) {
		if v.spec.Clusters[c].Capacity == 0 {
			return nil // nobody said what they can take
		}
		need += v.spec.Clusters[c].Capacity
	}
	if v.spec.Services[service].ByClient() {
		return v.shortage(service, im, need)
	}
	var warnings []string
	for _, s := range im.After {
		if s.Percent <= percentOf(im.Before, s.Cluster) {
			continue
		}
		can, _ := v.capacity(s.Cluster)
		declared := v.spec.Clusters[s.Cluster].Capacity
		load := s.Percent * float64(need)
		switch {
		case can == 0:
			warnings = append(warnings, fmt.Sprintf("%s would take %.0f%% of the clients and reports no capacity left", s.Cluster, s.Percent))
		case load/float64(can) <= overloadPercent:
		case can < declared:
			warnings = append(warnings, fmt.Sprintf("%s would be at %.0f%% of its capacity (it reports %d of %d)", s.Cluster, load/float64(can), can, declared))
		default:
			warnings = append(warnings, fmt.Sprintf("%s would be at %.0f%% of its capacity", s.Cluster, load/float64(can)))
		}
	}
	return warnings
}

// shortage says how much of the capacity is left, for a service of which nobody can
// tell from weights which cluster its clients move to.
func (v view) shortage(service string, im Impact, need int) []string {
	left := 0
	var names []string
	for _, s := range im.After {
		can, _ := v.capacity(s.Cluster)
		left += can
		names = append(names, s.Cluster)
	}
	if len(im.After) >= len(im.Before) || left > 0 && need*100/left <= overloadPercent {
		return nil
	}
	return []string{fmt.Sprintf("%s would be left with %d of %d of the capacity", strings.Join(names, ", "), left, need)}
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
// where there is one. A nil service has no shares. Of a service that answers by
// client they are the parts of the weight.
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
	rest := 100.0
	for i, s := range pool.Shares {
		share := ClusterShare{Cluster: s.Cluster}
		switch {
		case svc.Policy.Type == statestore.Failover && i == len(pool.Shares)-1:
			share.Percent = rest // it has nobody to pass clients on to
		case svc.Policy.Type == statestore.Failover:
			share.Percent = rest * float64(statestore.AllSpill-s.Spill) / statestore.AllSpill // the first in the order alone, but for what it passes on
			rest -= share.Percent
		case total > 0:
			share.Percent = 100 * float64(s.Weight) / float64(total)
		}
		out = append(out, share)
	}
	return out
}
