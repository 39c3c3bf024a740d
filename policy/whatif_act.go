package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

// copyState returns a state whose services, clusters, targets and observers may be
// replaced.
func copyState(st *statestore.State) *statestore.State {
	next := *st
	next.Observers = maps.Clone(st.Observers)
	next.Services = make(map[string]*statestore.ServiceState, len(st.Services))
	for name, s := range st.Services {
		ss := *s
		ss.Targets = maps.Clone(s.Targets)
		next.Services[name] = &ss
	}
	next.Clusters = make(map[string]*statestore.ClusterState, len(st.Clusters))
	for name, c := range st.Clusters {
		cs := *c
		cs.Targets = maps.Clone(c.Targets)
		next.Clusters[name] = &cs
	}
	return &next
}

// replan installs the rotations that automation wants.
func (w *whatIf) replan() {
	for _, service := range sortedKeys(w.st.Services) {
		if rc := Wanted(w.st, service); !sameRotation(rc, w.st.Services[service].Rotation) {
			w.install(rc)
		}
	}
}

func (w *whatIf) install(rc statestore.RotationChange) {
	ss := w.st.Services[rc.Service]
	ss.Rotation = statestore.Rotation{
		Number: ss.Rotation.Number + 1, Index: w.st.Index, At: w.st.Now, By: statestore.Automation, Reason: rc.Reason,
		V4: rc.V4, V6: rc.V6, Clears: w.st.Now.Add(w.st.Spec.Services[rc.Service].LongestTTL()),
	}
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

// acts does what people are supposed to do: undrain, drain, pin, approve.
func (w *whatIf) acts(conds []Condition) {
	var drains []string
	for _, c := range conds {
		switch c.Is {
		case isUndrained:
			w.drain(c.Of, nil)
			w.replan()
		case isDrained:
			drains = append(drains, c.Of)
		}
	}
	w.drains(drains)
	for _, c := range conds {
		switch {
		case c.Is == isApproved:
			w.approve(w.st.Cutovers[c.Of])
		case !strings.Contains(c.Of, "/") && !slices.Contains([]string{isDown, isUp, isDrained, isUndrained, isLost}, c.Is):
			w.pin(c.Of, c.Is)
		}
	}
}

// drains takes the clusters out together, as one command would.
func (w *whatIf) drains(clusters []string) {
	if len(clusters) == 0 {
		return
	}
	for _, b := range CheckDrains(w.st, clusters, nil) {
		w.note("draining %s would be refused: %s", strings.Join(clusters, ", "), b.Reason)
	}
	for _, c := range clusters {
		w.drain(c, &statestore.Drain{By: "a person", Reason: "supposed", At: w.st.Now})
	}
	w.replan()
}

func (w *whatIf) drain(cluster string, d *statestore.Drain) { w.st.Clusters[cluster].Drain = d }

func (w *whatIf) pin(service, cluster string) {
	for _, b := range CheckOverride(w.st, service, cluster) {
		w.note("pinning %s to %s would be refused: %s", service, cluster, b.Reason)
	}
	w.st.Services[service].Override = &statestore.Override{Cluster: cluster, By: "a person", Reason: "supposed", At: w.st.Now}
	w.replan()
}

// approve carries an open cutover to its end.
func (w *whatIf) approve(co *statestore.Cutover) {
	if co.Phase.Pending() {
		var open []string
		for _, g := range Gates(w.st, co) {
			if !g.Passed() {
				open = append(open, string(g.Name))
			}
		}
		if len(open) > 0 {
			w.note("%s needs a waiver of %s", co.ID, strings.Join(open, ", "))
		}
	}
	ss := w.st.Services[co.Service]
	own := statestore.Ownership{
		Active: co.Destination, Epoch: max(co.Next, w.st.Epochs[co.Service]+1), Generation: w.st.Generation,
		Since: w.st.Now, Index: w.st.Index, Cutover: co.ID,
	}
	ss.Ownership = &own
	done := *co
	done.Phase, done.Decided = statestore.Done, w.st.Now
	w.st.Cutovers = maps.Clone(w.st.Cutovers)
	w.st.Cutovers[co.ID] = &done
	if rc := ActiveRotation(w.st, co.Service, co.Destination); !sameRotation(rc, ss.Rotation) {
		w.install(rc)
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
