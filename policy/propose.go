package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

// Rules that a proposal of a cutover may break. What is in the way of moving at
// once but can be waived is a gate and no such rule.
const (
	RuleStateless     = "stateless"
	RuleUnconfirmed   = "unconfirmed"
	RuleCutoverOpen   = "cutover_open"
	RuleKind          = "kind"
	RuleAlreadyActive = "already_active"
	RuleNoDestination = "no_destination"
)

// Propose returns the command that proposes the move on behalf of proposer, zero
// for automation, the gates as they are, and every rule that forbids the proposal.
// The command is complete either way, but for the reason; Apply refuses it then.
func Propose(st *statestore.State, m Move, proposer statestore.Signer) (statestore.ProposeCutover, []Gate, []Blocker) {
	m.Automatic = proposer.User == ""
	m = destined(st, m)
	cmd := statestore.ProposeCutover{
		Service: m.Service, To: m.To, As: m.Kind, Signer: proposer,
		Evidence: Evidence(st, m), Basis: st.Basis(m.Service),
	}
	return cmd, MoveGates(st, m), forbids(st, m)
}

// forbids returns the rules that the move breaks.
func forbids(st *statestore.State, m Move) []Blocker {
	svc, ss := st.Spec.Services[m.Service], st.Services[m.Service]
	switch {
	case svc == nil || ss == nil:
		return []Blocker{{Rule: RuleUnknownService, Reason: fmt.Sprintf("there is no service %s", m.Service)}}
	case svc.Stateful == nil || ss.Ownership == nil:
		return []Blocker{{Rule: RuleStateless, Reason: m.Service + " is stateless: it moves by itself; take a cluster out with: quorate drain CLUSTER"}}
	}
	own := ss.Ownership
	var blockers []Blocker
	block := func(rule, format string, args ...any) {
		blockers = append(blockers, Blocker{Rule: rule, Reason: fmt.Sprintf(format, args...)})
	}
	if own.Unconfirmed {
		block(RuleUnconfirmed, "the active side of %s is not confirmed; say which it is: quorate thaw %s --active CLUSTER", m.Service, m.Service)
	}
	if own.Open != "" {
		block(RuleCutoverOpen, "%s is open already: quorate cutover show %s", own.Open, own.Open)
	}
	candidates := st.Spec.Candidates(m.Service)
	switch {
	case !slices.Contains(statestore.CutoverKinds(), m.Kind):
		block(RuleKind, "kind must be planned, emergency or failback, is %q", string(m.Kind))
	case m.Kind == statestore.Back && own.Active == svc.Stateful.Preferred:
		block(RuleAlreadyActive, "%s is active on %s, its preferred side, already", m.Service, own.Active)
	case m.To == "":
		block(RuleNoDestination, "%s has no cluster beside %s to go to", m.Service, own.Active)
	case !slices.Contains(candidates, m.To):
		block(RuleNoDestination, "%s is no candidate of %s, only %s", m.To, m.Service, strings.Join(candidates, ", "))
	case m.To == own.Active:
		block(RuleAlreadyActive, "%s is active on %s already", m.Service, m.To)
	case m.Kind == statestore.Back && m.To != svc.Stateful.Preferred:
		block(RuleKind, "a failback goes to %s, the preferred side; for %s propose a planned cutover", svc.Stateful.Preferred, m.To)
	}
	return blockers
}

// destined fills in where a move without a destination goes.
func destined(st *statestore.State, m Move) Move {
	svc, ss := st.Spec.Services[m.Service], st.Services[m.Service]
	if m.To != "" || svc == nil || svc.Stateful == nil || ss == nil || ss.Ownership == nil {
		return m
	}
	if m.Kind == statestore.Back {
		m.To = svc.Stateful.Preferred
		return m
	}
	m.To = nextSide(view{st: st, spec: st.Spec}, m.Service, ss.Ownership.Active)
	return m
}

// nextSide returns where the service would go from active: the first candidate in
// order that is up and not drained, else the first at all, so that people see what
// is missing. It is empty when there is no other.
func nextSide(v view, service, active string) string {
	others := slices.DeleteFunc(v.spec.Ordered(service), func(c string) bool { return c == active })
	for _, c := range others {
		if v.st.SideOf(service, c) == health.Up && !v.drained(c, service) {
			return c
		}
	}
	if len(others) == 0 {
		return ""
	}
	return others[0]
}

// ApprovalBlockers returns what would refuse a signature with these waivers: each
// gate that is not clean, that earlier signatures have not waived often enough,
// and that this one does not waive. A zero signer stands for anybody.
func ApprovalBlockers(st *statestore.State, co *statestore.Cutover, waivers []statestore.Waiver, s statestore.Signer) []Blocker {
	if co.Phase == statestore.Fencing {
		return nil // a signature only carries waivers by now
	}
	may := s.User == "" || st.Can(s, statestore.CanWaive, co.Service)
	glass, err := st.MaySign(s, co.Service)
	glass = s.User == "" || glass && err == nil
	var blockers []Blocker
	for _, g := range Gates(st, co) {
		waives := slices.ContainsFunc(waivers, func(w statestore.Waiver) bool { return w.Gate == g.Name })
		if g.Passed() || waives && g.Waivable && may && (glass || g.Name != statestore.GateSourceDown) {
			continue
		}
		b := Blocker{Rule: string(g.Name), Reason: g.Why, Waivable: g.Waivable}
		switch {
		case !g.Waivable:
		case g.Name == statestore.GateSourceDown && !glass:
			b.Waivable = false
			b.Reason += "; only break-glass signatures waive it"
		case !may:
			b.Waivable = false
			b.Reason += "; you may not waive"
		}
		blockers = append(blockers, b)
	}
	return blockers
}
