package policy

import (
	"fmt"
	"slices"

	"github.com/quorate/quorate/statestore"
)

// Rules that a spec may break about stateful services.
const (
	RuleStateful       = "stateful"
	RuleActive         = "active_cluster"
	RuleCutoverPending = "cutover_pending"
)

// stateful checks that the spec moves no stateful service and pulls nothing away
// from under a cutover. An apply never does either.
func (f *Findings) stateful(st *statestore.State, spec *statestore.Spec) {
	for _, name := range sortedKeys(st.Services) {
		own := st.Services[name].Ownership
		if own == nil {
			continue
		}
		if taker, host := st.NameTaken(spec, name); taker != "" {
			f.block(RuleStateful, "services.%s.names: %s would answer %s with another cluster than %s, where it is active; move it first, or remove the service first", taker, taker, host, own.Active)
		}
		is, open := spec.Services[name], st.Cutovers[own.Open]
		switch {
		case is == nil && open != nil:
			f.block(RuleCutoverPending, "services.%s: %s is open, so it cannot be removed; decide it first: quorate cutover show %s", name, open.ID, open.ID)
			continue
		case is == nil:
			continue
		case is.Stateful == nil:
			f.block(RuleStateful, "services.%s.stateful: a stateful service cannot become stateless; remove the service first", name)
			continue
		case open != nil && open.Phase == statestore.Fencing && st.Spec.ServiceDigest(name) != spec.ServiceDigest(name):
			f.block(RuleCutoverPending, "services.%s: %s is under way, so nothing about it can change; wait until it is done: quorate cutover show %s", name, open.ID, open.ID)
		}
		candidates := spec.Candidates(name)
		if !slices.Contains(candidates, own.Active) {
			f.block(RuleActive, "services.%s: it is active on %s, which would be no candidate any more; move it first: quorate cutover propose %s --planned", name, own.Active, name)
		}
		if open != nil && !slices.Contains(candidates, open.Destination) {
			f.block(RuleCutoverPending, "services.%s: %s goes to %s, which would be no candidate any more; decide it first: quorate cutover show %s", name, open.ID, open.Destination, open.ID)
		}
	}
	for _, name := range sortedKeys(spec.Services) {
		is, was := spec.Services[name], st.Spec.Services[name]
		if is.Stateful == nil || was != nil && st.Spec.ServiceDigest(name) == spec.ServiceDigest(name) {
			continue
		}
		f.redirected(st, spec, name)
		f.returns(st, spec, name)
		if !G4Enforced(is) {
			f.warn("services.%s: G4 not enforced: without a fence or a writer lease nothing keeps two sides from taking writes, and each of its cutovers needs a waiver of source_fenced", name)
		}
		if len(spec.Candidates(name)) == 1 {
			f.warn("services.%s: it has one cluster only, so there is nowhere to move it", name)
		}
	}
}

// returns says where a service goes on that was here before under the same name.
func (f *Findings) returns(st *statestore.State, spec *statestore.Spec, name string) {
	old, was := st.Sides[name]
	if !was || st.Ownership(name) != nil {
		return
	}
	if _, certain := st.FirstSide(spec, name); certain {
		f.warn("services.%s: it was here before and goes on where it was active, on %s; a spec moves no stateful service", name, old)
		return
	}
	f.warn("services.%s: it was here before and active on %s, which is no candidate any more; it starts unconfirmed: quorate thaw %s --active CLUSTER", name, old, name)
}

// redirected says where the next move would go, when the spec changes that: no
// answer does.
func (f *Findings) redirected(st *statestore.State, spec *statestore.Spec, name string) {
	was, is := st.Spec.Services[name], spec.Services[name]
	own := st.Ownership(name)
	if own == nil || was.Stateful == nil || !slices.Contains(spec.Candidates(name), own.Active) {
		return
	}
	before := nextSide(view{st: st, spec: st.Spec}, name, own.Active)
	after := nextSide(view{st: st, spec: spec}, name, own.Active)
	preferred := is.Stateful.Preferred
	switch {
	case was.Stateful.Preferred != preferred && preferred != own.Active:
		after = preferred
	case was.Stateful.Preferred != preferred:
		f.warn("services.%s: no answer changes now; it is on %s, which would be its preferred side", name, own.Active)
		return
	case before == after && slices.Equal(was.Policy.Order, is.Policy.Order) || after == "":
		return
	}
	f.warn("services.%s: no answer changes now; the next proposal would go %s -> %s", name, own.Active, after)
}

// statefulClass raises the class of a change that reaches a stateful service: it
// moves no answer, but what the next proposal is about.
func statefulClass(st *statestore.State, spec *statestore.Spec, c Change) Class {
	if len(c.at) < 2 || c.at[0] != "services" {
		return ClassNone
	}
	is := func(sp *statestore.Spec) bool { s := sp.Services[c.at[1]]; return s != nil && s.Stateful != nil }
	if !is(st.Spec) && !is(spec) {
		return ClassNone
	}
	if len(c.at) == 2 || slices.Contains([]string{"stateful", "policy", "clusters"}, c.at[2]) {
		return ClassStateful
	}
	return ClassNone
}

// stays says, for people, what a drain does to a stateful service.
func (v view) stays(service, cluster string) string {
	active := v.active(service)
	if active != cluster {
		return fmt.Sprintf("%s stays active; %s is no destination while it is drained", active, cluster)
	}
	to := nextSide(v, service, active)
	if to == "" {
		return "active here: not moved by a drain, and there is no other cluster to move it to"
	}
	return fmt.Sprintf("active here: not moved by a drain. Run: quorate cutover propose %s --to %s --planned", service, to)
}
