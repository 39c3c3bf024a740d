package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

// Condition is one thing that is supposed: what it is about, and what is so of it.
type Condition struct {
	Of string // a cluster, SERVICE/CLUSTER, a service, a region or a cutover's id
	Is string // down, up, drained, undrained, lost, approved; of a service: the cluster it is pinned to
}

// String returns the condition as people write it.
func (c Condition) String() string { return c.Of + "=" + c.Is }

// What a condition may say of a thing.
const (
	isDown      = "down"
	isUp        = "up"
	isDrained   = "drained"
	isUndrained = "undrained"
	isLost      = "lost"
	isApproved  = "approved"
)

// grammar is what a mistaken condition is answered with.
const grammar = "CLUSTER=down|up|drained|undrained, SERVICE/CLUSTER=down|up, SERVICE=CLUSTER, REGION=lost or CUT-1=approved"

// ParseConditions reads conditions, each text one or several with commas between
// them. All mistakes are in the error. Whether the names exist, Suppose says.
func ParseConditions(texts []string) ([]Condition, error) {
	var conds []Condition
	var errs []error
	bad := func(text, format string, args ...any) {
		errs = append(errs, fmt.Errorf("condition %q: %s", text, fmt.Sprintf(format, args...)))
	}
	for _, text := range texts {
		for part := range strings.SplitSeq(text, ",") {
			part = strings.TrimSpace(part)
			of, is, ok := strings.Cut(part, "=")
			of, is = strings.TrimSpace(of), strings.TrimSpace(is)
			switch {
			case !ok || of == "" || is == "" || strings.Contains(is, "="):
				bad(part, "must be %s", grammar)
				continue
			case strings.Count(of, "/") > 1 || strings.HasPrefix(of, "/") || strings.HasSuffix(of, "/"):
				bad(part, "must name SERVICE/CLUSTER, is %q", of)
				continue
			case strings.Contains(of, "/") && is != isDown && is != isUp:
				bad(part, "SERVICE/CLUSTER is down or up, is %q", is)
				continue
			}
			c := Condition{of, is}
			i := slices.IndexFunc(conds, func(o Condition) bool { return o.Of == of && contradict(o.Is, is) })
			switch {
			case slices.Contains(conds, c):
			case i >= 0:
				bad(part, "contradicts %s", conds[i])
			default:
				conds = append(conds, c)
			}
		}
	}
	return conds, errors.Join(errs...)
}

// contradict reports whether one thing cannot be both.
func contradict(a, b string) bool {
	kinds := [][]string{{isDown, isUp}, {isDrained, isUndrained}, {isLost}, {isApproved}}
	of := func(is string) int {
		return slices.IndexFunc(kinds, func(k []string) bool { return slices.Contains(k, is) })
	}
	return a != b && of(a) == of(b)
}

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

// checkConditions returns every condition that speaks of what is not there.
func checkConditions(st *statestore.State, conds []Condition) error {
	var errs []error
	bad := func(c Condition, format string, args ...any) {
		errs = append(errs, fmt.Errorf("condition %q: %s", c, fmt.Sprintf(format, args...)))
	}
	cluster := func(c Condition, name string) bool {
		if st.Spec.Clusters[name] == nil {
			bad(c, "no cluster is named %s; there are %s", name, orNone(sortedKeys(st.Spec.Clusters)))
			return false
		}
		return true
	}
	candidate := func(c Condition, service, name string) {
		switch candidates := st.Spec.Candidates(service); {
		case st.Spec.Services[service] == nil:
			bad(c, "no service is named %s; there are %s", service, orNone(sortedKeys(st.Spec.Services)))
		case cluster(c, name) && !slices.Contains(candidates, name):
			bad(c, "%s is no candidate of %s; they are %s", name, service, orNone(candidates))
		}
	}
	for _, c := range conds {
		service, of, one := strings.Cut(c.Of, "/")
		switch {
		case one:
			candidate(c, service, of)
		case c.Is == isLost:
			if known := regionsOf(st); !slices.Contains(known, c.Of) {
				bad(c, "nothing is in region %s; regions are %s", c.Of, orNone(known))
			}
		case c.Is == isApproved:
			switch co := st.Cutovers[c.Of]; {
			case co == nil:
				bad(c, "there is no cutover %s", c.Of)
			case !co.Phase.Open():
				bad(c, "%s is %s already", c.Of, co.Phase)
			}
		case slices.Contains([]string{isDown, isUp, isDrained, isUndrained}, c.Is):
			cluster(c, c.Of)
		case st.Spec.Services[c.Of] != nil && st.Spec.Services[c.Of].Stateful != nil:
			bad(c, "%s is stateful and cannot be pinned; a cutover moves it: suppose that one is approved", c.Of)
		case st.Spec.Clusters[c.Of] != nil && st.Spec.Services[c.Of] == nil:
			bad(c, "%s is a cluster, and one is down, up, drained or undrained", c.Of)
		default:
			candidate(c, c.Of, c.Is)
		}
	}
	return errors.Join(errs...)
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// regionsOf returns the regions that members or clusters are in, sorted.
func regionsOf(st *statestore.State) []string {
	var all []string
	for _, m := range st.Members {
		all = append(all, m.Region)
	}
	for _, c := range st.Spec.Clusters {
		all = append(all, c.Region)
	}
	return sortedSet(all)
}

// lostRegions returns the regions that the conditions lose.
func lostRegions(conds []Condition) []string {
	var lost []string
	for _, c := range conds {
		if c.Is == isLost {
			lost = append(lost, c.Of)
		}
	}
	return lost
}

// QuorumOutlook says in a line what becomes of the quorum under the conditions, and
// whether it holds. Only lost regions take voters away.
func QuorumOutlook(st *statestore.State, conds []Condition) (text string, holds bool) {
	gone := lostRegions(conds)
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

// facts makes down and up what the conditions say is. In a lost region everything
// stops: its observers are silent, and its clusters are down as far as the others can
// decide that.
func (w *whatIf) facts(conds []Condition) {
	gone := lostRegions(conds)
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
