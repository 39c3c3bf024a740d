package policy

import (
	"fmt"
	"maps"
	"slices"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

// Suppose returns the state as it would come to be if the conditions held: first what
// is down, up or lost, with the rotations that follow, then what people do. The
// change budget and freezes are passed over, and so are refusals of what people do;
// the notes say where they would be in the way. Without a quorum nothing changes.
// The state is for looking at: nothing may be proposed from it.
func Suppose(st *statestore.State, conds []Condition) (*statestore.State, []string, error) {
	if err := checkConditions(st, conds); err != nil {
		return nil, nil, err
	}
	w := &whatIf{st: copyState(st), was: st}
	if text, holds := QuorumOutlook(st, conds); !holds {
		w.note("%s", text)
		w.unled()
		return w.st, w.notes, nil
	}
	w.facts(conds)
	w.replan()
	w.budget()
	w.acts(conds)
	w.explain()
	w.stateful()
	return w.st, w.notes, nil
}

// SupposeSpec returns the state as applying the spec would leave it, as far as answers
// go: with its rotations, whether Apply would accept it or not. The spec is an
// effective one: see Spec.WithAddresses.
func SupposeSpec(st *statestore.State, spec *statestore.Spec) *statestore.State {
	next := st.Under(spec)
	for name, ss := range next.Services {
		if spec.Services[name].Stateful == nil {
			ss.Ownership = nil // which Apply refuses
		}
	}
	rotate(next, Rotations(st, spec, nil, nil))
	return next
}

// SupposeRotations returns the state with other rotations, as far as answers go.
func SupposeRotations(st *statestore.State, rotations []statestore.RotationChange) *statestore.State {
	next := copyState(st)
	rotate(next, rotations)
	return next
}

// rotate changes rotations of a state whose services may be changed.
func rotate(st *statestore.State, rotations []statestore.RotationChange) {
	for _, rc := range rotations {
		ss := st.Services[rc.Service]
		ss.Rotation = statestore.Rotation{
			Number: ss.Rotation.Number + 1, Index: st.Index, At: st.Now, Reason: rc.Reason, V4: rc.V4, V6: rc.V6, Clears: st.Now,
		}
	}
}

// whatIf is a state that is being supposed.
type whatIf struct {
	was   *statestore.State
	st    *statestore.State
	notes []string
}

func (w *whatIf) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(w.notes, text) {
		w.notes = append(w.notes, text)
	}
}

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

// facts makes down and up what the conditions say is. In a lost region everything
// stops: its observers are silent, and its clusters are down as far as the others can
// decide that.
func (w *whatIf) facts(conds []Condition) {
	gone := LostRegions(conds)
	for name, m := range w.st.Members {
		id := health.ObserverID(name)
		if o := w.st.Observers[id]; o != nil && slices.Contains(gone, m.Region) {
			silent := *o
			silent.Silent = true
			w.st.Observers[id] = &silent
		}
	}
	for t := range TargetStates(w.st) {
		switch c := w.st.Spec.Clusters[t.Cluster]; {
		case c != nil && slices.Contains(gone, c.Region):
			w.lose(t)
		case len(gone) > 0:
			w.mark(t)
		}
	}
	said := map[string]health.Side{}
	for _, c := range conds {
		switch c.Is {
		case isUp:
			said[c.Of] = health.Up
		case isDown:
			said[c.Of] = health.Down
		}
	}
	for t := range TargetStates(w.st) {
		// What is said of one service there beats what is said of the cluster.
		for _, of := range []string{t.Service + "/" + t.Cluster, t.Cluster} {
			if side, ok := said[of]; ok {
				w.set(t, side)
				break
			}
		}
	}
}

// lose has everybody who is left vote the target down, and judges it.
func (w *whatIf) lose(t health.Target) {
	old, _ := w.st.Target(t)
	next := votedBy(w.st, old, t, health.Down)
	w.put(t, next)
	j := health.Judge(old.Verdict.Side, w.st.Ballots(t), w.st.Rule(t))
	next.Verdict.Mark = j.Mark
	if j.Side != old.Verdict.Side {
		next.Verdict = health.Verdict{Number: old.Verdict.Number + 1, Side: j.Side, Mark: j.Mark, Since: w.st.Now, Deciding: j.Deciding}
		return
	}
	if j.Side != health.Down {
		w.note("%s stays %s: %d of %d regions are left to say that it is down, %d must", w.place(t), j.Side, j.Down, j.Eligible, j.Need.Down)
	}
}

// mark renews the target's mark after votes were set aside. That turns no verdict.
func (w *whatIf) mark(t health.Target) {
	old, _ := w.st.Target(t)
	if j := health.Judge(old.Verdict.Side, w.st.Ballots(t), w.st.Rule(t)); j.Side == old.Verdict.Side && j.Mark != old.Verdict.Mark {
		next := *old
		next.Verdict.Mark = j.Mark
		w.put(t, &next)
	}
}

// place names a target without its address: what is said of one endpoint is true of all.
func (w *whatIf) place(t health.Target) string {
	if t.FrontDoor() {
		return "the front door of " + t.Cluster
	}
	return t.Service + "/" + t.Cluster
}

// set makes the target's verdict what is supposed, with votes that agree.
func (w *whatIf) set(t health.Target, side health.Side) {
	old, _ := w.st.Target(t)
	next := votedBy(w.st, old, t, side)
	next.Verdict.Mark = health.Settled
	if old.Verdict.Side != side {
		next.Verdict = health.Verdict{Number: old.Verdict.Number + 1, Side: side, Since: w.st.Now}
	}
	w.put(t, next)
}

// votedBy returns the target's state with every observer that may vote on side.
func votedBy(st *statestore.State, old *statestore.TargetState, t health.Target, side health.Side) *statestore.TargetState {
	next := &statestore.TargetState{Votes: map[health.ObserverID]health.Vote{}, Verdict: old.Verdict}
	for _, b := range st.Ballots(t) {
		v := health.Vote{Side: side, Reason: "supposed", Since: st.Now}
		if was, voted := old.Votes[b.Observer]; voted && was.Side == side {
			v = was
		}
		next.Votes[b.Observer] = v
	}
	return next
}

func (w *whatIf) put(t health.Target, ts *statestore.TargetState) {
	if t.FrontDoor() {
		w.st.Clusters[t.Cluster].Targets[t] = ts
		return
	}
	w.st.Services[t.Service].Targets[t] = ts
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
