package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/statestore"
)

// Outcome is what a supposed state would make of one service.
type Outcome struct {
	Service string
	Before  []ClusterShare // in pool order
	After   []ClusterShare
	Moves   bool   // another rotation, or another active side
	Text    string // one line for people: what happens and why
}

// Outcomes compares a supposed state with the one it was supposed from, service by
// service, sorted.
func Outcomes(was, st *statestore.State) []Outcome {
	out := make([]Outcome, 0, len(was.Spec.Services))
	for _, service := range sortedKeys(was.Spec.Services) {
		old, now := was.Services[service], st.Services[service]
		if old == nil || now == nil {
			continue
		}
		o := Outcome{
			Service: service,
			Before:  Shares(was.Spec.Services[service], old.Rotation.V4, old.Rotation.V6),
			After:   Shares(st.Spec.Services[service], now.Rotation.V4, now.Rotation.V6),
			Moves:   !old.Rotation.V4.Equal(now.Rotation.V4) || !old.Rotation.V6.Equal(now.Rotation.V6),
		}
		o.Text = outcomeText(st, service, o, old, now)
		out = append(out, o)
	}
	return out
}

func outcomeText(st *statestore.State, service string, o Outcome, old, now *statestore.ServiceState) string {
	if own := now.Ownership; own != nil {
		switch {
		case old.Ownership != nil && old.Ownership.Active != own.Active:
			return fmt.Sprintf("%s -> %s by %s", old.Ownership.Active, own.Active, own.Cutover)
		case unwell(st, service, own.Active):
			return fmt.Sprintf("stays on %s, which is not well, until people approve a cutover", own.Active)
		}
		return "stays on " + own.Active
	}
	pools := []statestore.Pool{now.Rotation.V4, now.Rotation.V6}
	if i := slices.IndexFunc(pools, func(p statestore.Pool) bool { return p.AllDown != "" }); i >= 0 && o.Moves {
		return fmt.Sprintf("no candidate is up: %s", pools[i].AllDown)
	}
	if !o.Moves {
		return "nothing changes"
	}
	return fmt.Sprintf("%s -> %s: %s", shareText(o.Before), shareText(o.After), now.Rotation.Reason)
}

// shareText lists shares as people say them: "eu" or "eu 80%, us 20%". Those without
// a part are left out.
func shareText(shares []ClusterShare) string {
	var parts []string
	for _, s := range shares {
		switch {
		case s.Percent >= 99.5:
			return s.Cluster
		case s.Percent > 0:
			parts = append(parts, fmt.Sprintf("%s %.0f%%", s.Cluster, s.Percent))
		}
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}
