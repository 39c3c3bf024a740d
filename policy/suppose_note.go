package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

// QuorumOutlook says in a line what becomes of the quorum under the conditions, and
// whether it holds. Only lost regions take voters away.
func QuorumOutlook(st *statestore.State, conds []Condition) (text string, holds bool) {
	gone := LostRegions(conds)
	voters, left := 0, 0
	for _, m := range st.Members {
		if m.Role != statestore.Voter {
			continue
		}
		voters++
		if !slices.Contains(gone, m.Region) {
			left++
		}
	}
	switch {
	case voters == 0:
		return "no member is recorded yet", true
	case left == voters:
		return fmt.Sprintf("%d of %d voters: quorum holds", left, voters), true
	case 2*left > voters:
		return fmt.Sprintf("%d of %d voters left: quorum holds", left, voters), true
	}
	return fmt.Sprintf("%d of %d voters left: no quorum, answers stay as they are", left, voters), false
}

// budget says where automation would stop by itself: frozen services, and more causes
// than it may take out.
func (w *whatIf) budget() {
	causes := recentLosses(w.was)
	before := len(causes)
	for _, service := range sortedKeys(w.st.Services) {
		old := w.was.Services[service].Rotation
		now := w.st.Services[service].Rotation
		rc := statestore.RotationChange{Service: service, V4: now.V4, V6: now.V6}
		if sameRotation(rc, old) {
			continue
		}
		if f, frozen := w.was.Frozen(service); frozen {
			w.note("%s is frozen by %s (%s): automation would not move it before somebody thaws it", service, f.By, f.Reason)
		}
		for _, c := range lost(w.was, rc, old) {
			causes[c] = true
		}
	}
	if b := w.was.Spec.Safety.Changes; b.Causes > 0 && len(causes) > b.Causes && len(causes) > before {
		w.note("%s would be out within %s, the budget is %d: automation would freeze everything and ask a person before it had moved all of this",
			strings.Join(sortedKeys(causes), ", "), b.Per, b.Causes)
	}
}

// explain gives each changed rotation a reason that compares it with the one that is
// in force, whatever came in between.
func (w *whatIf) explain() {
	v := view{st: w.st, spec: w.st.Spec}
	for _, service := range sortedKeys(w.st.Services) {
		ss, old := w.st.Services[service], w.was.Services[service].Rotation
		rc := statestore.RotationChange{Service: service, V4: ss.Rotation.V4, V6: ss.Rotation.V6}
		if why := v.why(rc, w.st.Spec.Ordered(service), old); why != "" && !sameRotation(rc, old) && v.active(service) == "" {
			ss.Rotation.Reason = why
		}
	}
}

// stateful says what becomes of the services that move by approval only.
func (w *whatIf) stateful() {
	for _, service := range sortedKeys(w.st.Services) {
		own, svc := w.st.Services[service].Ownership, w.st.Spec.Services[service]
		if own == nil || own.Unconfirmed || svc == nil || svc.Stateful == nil {
			continue
		}
		if !unwell(w.st, service, own.Active) {
			continue
		}
		side := w.st.SideOf(service, own.Active)
		to := nextSide(view{st: w.st, spec: w.st.Spec}, service, own.Active)
		co := w.st.Cutovers[own.Open]
		f, frozen := w.st.Frozen(service)
		what := fmt.Sprintf("%s stays on %s, which would be %s", service, own.Active, side)
		if side != health.Down {
			what = fmt.Sprintf("%s stays on %s, of which too few regions could say anything", service, own.Active)
		}
		switch {
		case co != nil:
			w.note("%s: %s to %s is open already and waits for people", what, co.ID, co.Destination)
		case to == "":
			w.note("%s: there is no other cluster to propose", what)
		case frozen:
			w.note("%s: frozen by %s, automation would propose no cutover to %s before somebody thaws it", what, f.By, to)
		default:
			w.note("%s: automation would propose a cutover to %s after %s, and people decide", what, to, svc.Stateful.ProposeAfter)
		}
	}
}

// unled says what becomes of answers that nobody can change any more.
func (w *whatIf) unled() {
	for _, service := range sortedKeys(w.st.Spec.Services) {
		if s := w.st.Spec.Services[service].OnStale; s.Answer != "" && s.Answer != statestore.StaleKeep && s.After > 0 {
			w.note("%s would be answered with %s after %s without a leader (on_stale)", service, s.Answer, time.Duration(s.After))
		}
	}
}
