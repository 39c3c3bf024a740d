package controller

import (
	"maps"
	"slices"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/statestore"
)

// tellOverrides tells which services people have pinned, and when that ends.
func (c *Controller) tellOverrides(last, st *statestore.State) {
	for _, service := range slices.Sorted(maps.Keys(st.Services)) {
		ss, old := st.Services[service], last.Services[service]
		if old == nil || old == ss || old.Override == ss.Override {
			continue
		}
		switch o, was := ss.Override, old.Override; {
		case o == nil:
			c.log.Info("override ended", keyIndex, st.Index, keyService, service, keyWas, was.Cluster)
		case was == nil || was.Version != o.Version:
			pairs := []any{keyIndex, st.Index, keyService, service, keyTo, o.Cluster, keyBy, o.By, keyReason, o.Reason}
			if !o.Until.IsZero() {
				pairs = append(pairs, keyUntil, o.Until)
			}
			c.log.Warn("service is pinned to a cluster", pairs...)
		}
	}
}

// tellClusters tells what clusters named by a hostname came to, and what clusters
// report that they can take.
func (c *Controller) tellClusters(last, st *statestore.State) {
	for _, name := range slices.Sorted(maps.Keys(st.Clusters)) {
		if was, is := last.Spec.Clusters[name], st.Spec.Clusters[name]; was != is && was != nil && is != nil &&
			is.Hostname != "" && was.Hostname == is.Hostname && !slices.Equal(was.Endpoints(), is.Endpoints()) {
			c.log.Info("addresses of a hostname changed", keyIndex, st.Index, keyCluster, name, keyHostname, is.Hostname,
				keyWas, was.Endpoints(), keyTo, is.Endpoints())
		}
		cs, old := st.Clusters[name], last.Clusters[name]
		if old == nil || old == cs || old.Reported == cs.Reported {
			continue
		}
		switch r, was := cs.Reported, old.Reported; {
		case r == nil:
			c.log.Warn("no fresh report of a cluster's capacity, the declared one counts", keyIndex, st.Index, keyCluster, name, keyWas, was.Capacity)
		case was == nil:
			c.log.Info("cluster reports its capacity", keyIndex, st.Index, keyCluster, name, keyCapacity, r.Capacity)
		case was.Capacity != r.Capacity:
			c.log.Info("cluster reports its capacity", keyIndex, st.Index, keyCluster, name, keyCapacity, r.Capacity, keyWas, was.Capacity)
		}
	}
}

// tellDegraded names targets that are up and not well. told is what was said of them
// last; only what the last entries touched, and what was told, is looked at.
func (c *Controller) tellDegraded(last, st *statestore.State, told map[health.Target]string) {
	for _, t := range voted(last, st, told) {
		why, was := "", told[t]
		ts, ok := st.Target(t)
		if ok && complained(ts) {
			why = st.Degraded(t)
		}
		switch {
		case why == was:
			continue
		case why == "":
			delete(told, t)
			if ok && ts.Verdict.Side == health.Up {
				c.log.Info("target is well again", keyIndex, st.Index, keyTarget, t.String(), keyWas, was)
			}
			continue
		}
		told[t] = why
		c.log.Warn("target is degraded", keyIndex, st.Index, keyTarget, t.String(), keyReason, why)
	}
}

// voted returns the targets of st on which votes have changed since last, and those
// in told, sorted. What an entry did not touch is the same object in both.
func voted(last, st *statestore.State, told map[health.Target]string) []health.Target {
	targets := slices.Collect(maps.Keys(told))
	compare := func(was, is map[health.Target]*statestore.TargetState) {
		for t, ts := range is {
			if was[t] != ts {
				targets = append(targets, t)
			}
		}
	}
	for name, ss := range st.Services {
		if old := last.Services[name]; old != nil && old != ss {
			compare(old.Targets, ss.Targets)
		}
	}
	for name, cs := range st.Clusters {
		if old := last.Clusters[name]; old != nil && old != cs {
			compare(old.Targets, cs.Targets)
		}
	}
	slices.SortFunc(targets, health.CompareTargets)
	return slices.Compact(targets)
}

// degraded returns the targets that are not well now, and why. A new leader says
// nothing of them: the one before did.
func degraded(st *statestore.State) map[health.Target]string {
	out := map[health.Target]string{}
	for t, ts := range policy.TargetStates(st) {
		if !complained(ts) {
			continue
		}
		if why := st.Degraded(t); why != "" {
			out[t] = why
		}
	}
	return out
}
