package statestore

import (
	"slices"

	"github.com/quorate/quorate/health"
)

// breakGlassWaivers is how many break-glass signatures let an emergency go on
// though the source is not down by quorum: a planned move is the right tool.
const breakGlassWaivers = 2

// Waivable reports whether people may go on without the gate at all.
func (g Gate) Waivable() bool { return g != GateNoOther }

// NeedWaivers returns how many distinct people must waive a gate of that class;
// 0 for one that is clean, and for one that cannot be waived. For
// source_down_by_quorum only break-glass signatures count.
func NeedWaivers(p ApprovalPolicy, g Gate, class GateClass) int {
	switch {
	case class == Clean || !g.Waivable():
		return 0
	case g == GateSourceDown:
		return breakGlassWaivers
	case class == NotConfigured:
		return 1
	}
	return max(p.WaiversRequired, 1)
}

// Count is how far the signatures of a cutover have come.
type Count struct {
	Required int               // distinct people
	People   []string          // who have signed and still may, in order of signing
	Waived   map[Gate][]string // of those, who have waived each gate, in order of signing
	Lacking  []Gate            // gates that are neither clean nor waived by enough people, in order
}

// Approved reports whether enough people have signed and every gate is passed.
func (n Count) Approved() bool { return len(n.People) >= n.Required && len(n.Lacking) == 0 }

// Count counts the signatures of a cutover by people who may still sign: a role
// or token that was taken away since takes the signature with it.
func (st *State) Count(co *Cutover) Count {
	policy := st.approvalPolicy(co.Service)
	n := Count{Required: max(policy.Required, 1), Waived: map[Gate][]string{}}
	for _, s := range st.counted(co) {
		n.People = append(n.People, s.Person)
		mayWaive := st.Can(s.Signer, CanWaive, co.Service)
		for _, w := range s.Waivers {
			if mayWaive && (w.Gate != GateSourceDown || s.BreakGlass) {
				n.Waived[w.Gate] = append(n.Waived[w.Gate], s.Person)
			}
		}
	}
	for _, g := range co.Evidence.Gates {
		if g.Class != Clean && (!g.Gate.Waivable() || len(n.Waived[g.Gate]) < NeedWaivers(policy, g.Gate, g.Class)) {
			n.Lacking = append(n.Lacking, g.Gate)
		}
	}
	return n
}

// counted returns the signatures that count, in order of signing: each by somebody
// who may sign now, and no two by one person.
func (st *State) counted(co *Cutover) []Signature {
	var counted []Signature
	for _, s := range co.Signatures {
		breakGlass, err := st.MaySign(s.Signer, co.Service)
		if err != nil || signedBy(counted, s) {
			continue
		}
		s.BreakGlass = breakGlass
		counted = append(counted, s)
	}
	return counted
}

// Waivers returns the signatures made since the cutover began that waive the gate,
// in order: each by somebody who may do so now, and no two by one person. A member
// narrows it to waivers that name it.
func (st *State) Waivers(co *Cutover, g Gate, member string) []Signature {
	var counted []Signature
	for _, s := range co.Waived {
		waives := slices.ContainsFunc(s.Waivers, func(w Waiver) bool {
			return w.Gate == g && (member == "" || slices.Contains(w.Nodes, member))
		})
		if !waives || signedBy(counted, s) || !st.Can(s.Signer, CanWaive, co.Service) {
			continue
		}
		if _, err := st.MaySign(s.Signer, co.Service); err == nil {
			counted = append(counted, s)
		}
	}
	return counted
}

// approvalPolicy returns the service's policy; the zero policy for a service that
// is not stateful.
func (st *State) approvalPolicy(service string) ApprovalPolicy {
	if s, ok := st.Spec.Services[service]; ok && s.Stateful != nil {
		return s.Stateful.Approval
	}
	return ApprovalPolicy{}
}

// Waiting returns the members that a cutover under way still waits for, sorted:
// all that have not acknowledged, were not named in the evidence that people
// signed, and whom not enough people have named since. It is empty for one that is
// not under way.
func (st *State) Waiting(co *Cutover, acknowledged []string) []string {
	if co.Phase != Fencing {
		return nil
	}
	need := NeedWaivers(st.approvalPolicy(co.Service), GateNodesAcknowledged, Blocked)
	var waiting []string
	for _, name := range sortedKeys(st.Members) {
		if !slices.Contains(acknowledged, name) && !slices.Contains(co.Evidence.Unacknowledged, name) &&
			len(st.Waivers(co, GateNodesAcknowledged, name)) < need {
			waiting = append(waiting, name)
		}
	}
	return waiting
}

// DestinationHolds reports whether the destination of a cutover under way is well,
// or as it was when people signed, or waived since.
func (st *State) DestinationHolds(co *Cutover) bool {
	side := st.SideOf(co.Service, co.Destination)
	c, ok := st.Clusters[co.Destination]
	if !ok {
		return false
	}
	drained := c.Drain.Covers(co.Service)
	if side == health.Up && !drained {
		return true
	}
	if co.Evidence.Class(GateDestination) != Clean && side == co.Evidence.DestinationSide {
		return true
	}
	return len(st.Waivers(co, GateDestination, "")) >= NeedWaivers(st.approvalPolicy(co.Service), GateDestination, Blocked)
}
