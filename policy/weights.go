package policy

import (
	"math"

	"github.com/quorate/quorate/statestore"
)

// weights returns each candidate's weight under the view's spec.
func (v view) weights(service string, candidates []string) map[string]int {
	return v.spec.Weights(service, candidates, v.reported)
}

// reported returns what the cluster said last that it can take, and whether there
// is a fresh report.
func (v view) reported(cluster string) (int, bool) {
	c, cs := v.spec.Clusters[cluster], v.st.Clusters[cluster]
	if c == nil || c.CapacityFrom == nil || cs == nil || cs.Reported == nil {
		return 0, false
	}
	if !v.st.Spec.Clusters[cluster].ReportsLike(c) {
		return 0, false // Apply forgets it with the spec
	}
	return cs.Reported.Capacity, true
}

// capacity returns what the cluster can take: what it reports, else what is
// declared. It is false for a cluster of which neither is known.
func (v view) capacity(cluster string) (int, bool) {
	if n, ok := v.reported(cluster); ok {
		return n, true
	}
	c := v.spec.Clusters[cluster]
	if c == nil {
		return 0, false
	}
	return c.Capacity, c.Capacity > 0
}

// spill fills in which part of each cluster's clients go on to the next one, since
// the cluster reports less than spillover.at of its capacity left. When every
// cluster would pass on everybody, none passes on any: there is no next one.
func (v view) spill(service string, shares []statestore.Share) []statestore.Share {
	s := v.spec.Services[service].Policy.Spillover
	if s == nil || s.At <= 0 {
		return shares
	}
	full := true
	for i := range shares {
		shares[i].Spill = v.spilled(shares[i].Cluster, s.At)
		full = full && shares[i].Spill == statestore.AllSpill
	}
	if full {
		for i := range shares {
			shares[i].Spill = 0
		}
	}
	return shares
}

// spilled returns the percentage of its clients that the cluster passes on: none
// at the threshold, and all when it has nothing left.
func (v view) spilled(cluster string, at float64) int {
	reported, ok := v.reported(cluster)
	c := v.spec.Clusters[cluster]
	if !ok || c.Capacity <= 0 {
		return 0
	}
	left := float64(reported) / float64(c.Capacity)
	if left >= at {
		return 0
	}
	return int(math.Round(statestore.AllSpill * (1 - left/at)))
}
