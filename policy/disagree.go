package policy

import (
	"slices"
	"strings"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

// Disagreement is an observer whose counted vote contradicts the verdict: the
// odd one out, which is more likely sick itself than right (G1, G9).
type Disagreement struct {
	Observer health.ObserverID `json:"observer"`
	Region   string            `json:"region"`
	Target   health.Target     `json:"target"`
	Side     health.Side       `json:"side"`
	Reason   string            `json:"reason,omitempty"`
	Verdict  health.Side       `json:"verdict"`
}

// Disagreements returns the outvoted votes, by target and observer. Unknown
// contradicts nothing, and nothing contradicts an unknown verdict.
func Disagreements(st *statestore.State) []Disagreement {
	var ds []Disagreement
	look := func(t health.Target, ts *statestore.TargetState) {
		if !opposed(ts) {
			return // nearly always: reading the electorate costs more
		}
		for _, b := range st.Ballots(t) {
			if b.Side != health.Unknown && b.Side != ts.Verdict.Side {
				ds = append(ds, Disagreement{b.Observer, b.Region, t, b.Side, b.Reason, ts.Verdict.Side})
			}
		}
	}
	for _, ss := range st.Services {
		for t, ts := range ss.Targets {
			look(t, ts)
		}
	}
	for _, cs := range st.Clusters {
		for t, ts := range cs.Targets {
			look(t, ts)
		}
	}
	slices.SortStableFunc(ds, func(a, b Disagreement) int {
		if c := health.CompareTargets(a.Target, b.Target); c != 0 {
			return c
		}
		return strings.Compare(string(a.Observer), string(b.Observer))
	})
	return ds
}

// opposed reports whether any vote contradicts the verdict, counted or not.
func opposed(ts *statestore.TargetState) bool {
	for _, v := range ts.Votes {
		if ts.Verdict.Side != health.Unknown && v.Side != health.Unknown && v.Side != ts.Verdict.Side {
			return true
		}
	}
	return false
}

// TargetStates goes through all targets of the state: services' and front doors', sorted.
func TargetStates(st *statestore.State) func(yield func(health.Target, *statestore.TargetState) bool) {
	return func(yield func(health.Target, *statestore.TargetState) bool) {
		all := map[health.Target]*statestore.TargetState{}
		for _, cs := range st.Clusters {
			for t, ts := range cs.Targets {
				all[t] = ts
			}
		}
		for _, ss := range st.Services {
			for t, ts := range ss.Targets {
				all[t] = ts
			}
		}
		for _, t := range sortedTargets(all) {
			if !yield(t, all[t]) {
				return
			}
		}
	}
}

func sortedTargets[V any](m map[health.Target]V) []health.Target {
	ts := make([]health.Target, 0, len(m))
	for t := range m {
		ts = append(ts, t)
	}
	slices.SortFunc(ts, health.CompareTargets)
	return ts
}
