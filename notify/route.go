package notify

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/quorate/quorate/statestore"
)

// since returns the index before which the receiver was not in the spec: a new one
// hears of what happens from the revision that brought it on, and of nothing before.
func since(st *statestore.State, receiver string) uint64 {
	start := uint64(0)
	for _, r := range slices.Backward(st.Revisions) {
		if r.Spec == nil || r.Spec.Notify.Receivers[receiver] == nil {
			break
		}
		start = r.Index - 1
	}
	return start
}

// wanted reports whether a route sends the event to the receiver. The routes are
// those of the revision in force when it happened, so that a new route brings no
// history, and every leader picks the same events.
func wanted(st *statestore.State, receiver string, e statestore.Event) bool {
	return slices.ContainsFunc(routesAt(st, e.Index), func(r statestore.Route) bool {
		return slices.Contains(r.To, receiver) && slices.ContainsFunc(r.Types, func(t string) bool { return typeMatches(t, e.Type) }) &&
			(len(r.Services) == 0 || concerns(e, r.Services))
	})
}

// routesAt returns the routes in force when the entry at index had been applied.
func routesAt(st *statestore.State, index uint64) []statestore.Route {
	routes := st.Spec.Notify.Routes
	for _, r := range slices.Backward(st.Revisions) {
		if r.Spec == nil {
			continue
		}
		routes = r.Spec.Notify.Routes // past the oldest one that is kept, that one's
		if r.Index <= index {
			break
		}
	}
	return routes
}

// typeMatches reports whether a pattern of a route takes the type: itself, the
// family "cutover.*" or "*".
func typeMatches(pattern, kind string) bool {
	if family, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(kind, family)
	}
	return pattern == kind
}

// concerns reports whether the event is about one of the services.
func concerns(e statestore.Event, services []string) bool {
	if rest, ok := strings.CutPrefix(e.Subject, "services/"); ok {
		name, _, _ := strings.Cut(rest, "/")
		return slices.Contains(services, name)
	}
	if e.Type != "verdict.changed" {
		return false
	}
	// One entry may turn the verdicts of several services.
	var detail statestore.VerdictsDetail
	if json.Unmarshal(e.Detail, &detail) != nil {
		return false
	}
	for _, c := range detail.Changes {
		if slices.Contains(services, c.Target.Service) {
			return true
		}
	}
	return false
}
