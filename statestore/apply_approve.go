package statestore

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

func (c ApproveCutover) apply(st *State, at entry) (record, error) {
	co, ok := st.Cutovers[c.ID]
	if !ok {
		return record{}, refuse(ErrNotFound, "%s: not found", c.ID)
	}
	if co.Phase == Fencing {
		return c.waive(st, co, at)
	}
	if err := st.undecided(co, at); err != nil {
		return record{}, err
	}
	by, err := st.signer(co, c.Signer)
	if err != nil {
		return record{}, err
	}
	before := st.Count(co)
	// With enough signatures of people who have only lately got their right back,
	// it takes one of them to say that it is approved.
	if signedBy(st.counted(co), by) && !before.Approved() {
		return record{}, signedAlready(co, by)
	}
	if err := st.checkSigned(co, c.Evidence); err != nil {
		return record{}, err
	}
	waivers, err := c.waivers(st, co, by.BreakGlass, before)
	if err != nil {
		return record{}, err
	}
	next := *co
	// A signature that no longer counts makes room for its person's new one.
	next.Signatures = slices.DeleteFunc(slices.Clone(co.Signatures), by.sharesPerson)
	next.Voided += len(co.Signatures) - len(next.Signatures)
	next.Signatures = append(next.Signatures, c.signature(at, by, waivers))
	n := st.Count(&next)
	kind, text := "cutover.signed", fmt.Sprintf("%s signed, %d of %d", c.Signer.User, len(n.People), n.Required)
	signed := &next
	if n.Approved() {
		kind, text = "cutover.approved", "approved by "+list(n.People)
		signed = next.step(Approved, at, c.Signer.User, c.Reason)
	} else if len(n.People) >= n.Required {
		text += fmt.Sprintf("; %s need more people to waive", gateList(n.Lacking))
	}
	st.put(signed)
	d := signed.detail().by(c.Signer, by.Person)
	d.Waivers, d.BreakGlass, d.Reason, d.Have, d.Required = waivers, by.BreakGlass, c.Reason, len(n.People), n.Required
	if n.Approved() {
		d.Evidence = &signed.Evidence
	}
	return signed.record(kind, withReason(fmt.Sprintf("%s: %s", signed.title(), text), c.Reason), d), nil
}

func (c ApproveCutover) signature(at entry, by Signature, waivers []Waiver) Signature {
	by.Evidence, by.Waivers, by.Reason, by.At, by.Index = c.Evidence, waivers, c.Reason, at.now, at.index
	return by
}

// undecided refuses what comes too late for a cutover that could still be signed
// or rejected: it was decided, or its time is over.
func (st *State) undecided(co *Cutover, at entry) error {
	switch {
	case co.Phase == Expired:
		return refuse(ErrExpired, "%s: expired %s", co.title(), stamp(co.Expires))
	case !co.Phase.Open():
		return refuse(ErrDecided, "%s: was %s %s by %s", co.title(), decidedAs(co.Phase), stamp(co.Decided), co.Steps[len(co.Steps)-1].By)
	case co.Phase == Fencing:
		return refuse(ErrDecided, "%s: was approved and has begun; end it with: quorate cutover abort %s", co.title(), co.ID)
	case co.Phase == Approved && st.Count(co).Approved():
		return refuse(ErrDecided, "%s: is approved and about to begin; end it with: quorate cutover abort %s", co.title(), co.ID)
	case passed(at.now, co.Expires):
		return refuse(ErrExpired, "%s: expired %s", co.title(), stamp(co.Expires))
	}
	return nil
}

// decidedAs says in a sentence what became of it.
func decidedAs(p CutoverPhase) string {
	switch p {
	case Done:
		return "published"
	case Void:
		return "made void"
	}
	return string(p)
}

// signer returns a signature of the signer, of nothing yet, or why they may not sign.
func (st *State) signer(co *Cutover, s Signer) (Signature, error) {
	by := st.signed(s)
	if s.User == "" || ReservedUser(s.User) {
		return by, refuse(ErrForbidden, "%s: only a person may sign", co.title())
	}
	var err error
	if by.BreakGlass, err = st.MaySign(s, co.Service); err != nil {
		return by, err
	}
	if st.Proposed(co, s) && !st.approvalPolicy(co.Service).ProposerMayApprove {
		return by, refuse(ErrSelfApproval, "%s: %s proposed it and may not approve it; another approver must sign", co.title(), countsAs(s.User, by.Person))
	}
	return by, nil
}

func signedAlready(co *Cutover, by Signature) error {
	return refuse(ErrSigned, "%s: %s has signed already; another person must sign", co.title(), countsAs(by.User, by.Person))
}

// countsAs names a user together with the person they count as.
func countsAs(user, person string) string {
	if user == person {
		return user
	}
	return fmt.Sprintf("%s, who counts as %s,", user, person)
}

// checkSigned refuses a signature over anything but what is so now.
func (st *State) checkSigned(co *Cutover, digest string) error {
	if digest != co.Digest {
		return refuse(ErrEvidence, "%s: the evidence is %s now, not %.40s; look at it again", co.title(), co.Digest, digest)
	}
	facts, err := st.Facts(co.Service, co.Kind, co.Destination)
	if err != nil {
		return refuse(ErrEvidence, "%s: cannot go there any more: %v", co.title(), err)
	}
	if changed := co.Evidence.sameFacts(facts); len(changed) > 0 {
		return refuse(ErrEvidence, "%s: the evidence has changed: %s; look at it again", co.title(), strings.Join(changed, "; "))
	}
	return nil
}

// waivers returns the waivers of a signature. Each must be of a gate that is not
// clean, by somebody who may waive it; and a signature that leaves out one that is
// still lacking is refused, so that nobody signs what can never begin.
func (c ApproveCutover) waivers(st *State, co *Cutover, breakGlass bool, before Count) ([]Waiver, error) {
	if err := c.wellFormed(co); err != nil {
		return nil, err
	}
	var wrong []string
	for _, w := range c.Waivers {
		if why := co.misplaced(w); why != "" {
			wrong = append(wrong, why)
		}
	}
	if len(wrong) > 0 {
		return nil, refuse(ErrInvalid, "%s: %s", co.title(), strings.Join(wrong, "; "))
	}
	if err := st.mayWaive(co, c.Signer, c.Waivers, breakGlass); err != nil {
		return nil, err
	}
	var missing []string
	for _, g := range before.Lacking {
		if !slices.ContainsFunc(c.Waivers, func(w Waiver) bool { return w.Gate == g }) {
			missing = append(missing, fmt.Sprintf("%s is %s", g, co.Evidence.Class(g)))
		}
	}
	if len(missing) > 0 {
		return nil, refuse(ErrBlocked, "%s: %s; each must be waived by name, with a reason", co.title(), strings.Join(missing, ", "))
	}
	return slices.Clone(c.Waivers), nil
}

// misplaced says why the waiver is of nothing in the evidence; empty: it is of
// something.
func (co *Cutover) misplaced(w Waiver) string {
	class := co.Evidence.Class(w.Gate)
	switch {
	case class == "":
		return fmt.Sprintf("a %s cutover has no gate %q to waive", co.Kind, w.Gate)
	case class == Clean:
		return fmt.Sprintf("%s is clean; there is nothing to waive", w.Gate)
	case !w.Gate.Waivable():
		return fmt.Sprintf("%s cannot be waived", w.Gate)
	case (class == Untried) != (w.Outcome != ""):
		return fmt.Sprintf("%s is %s; a waiver names an outcome of a gate that is untried, and of no other", w.Gate, class)
	case len(w.Nodes) > 0 && (w.Gate != GateNodesAcknowledged || !slices.Equal(slices.Sorted(slices.Values(w.Nodes)), co.Evidence.Unacknowledged)):
		return fmt.Sprintf("a waiver of %s before it begins is of the members in the evidence: %s", w.Gate, list(co.Evidence.Unacknowledged))
	}
	return ""
}

// wellFormed refuses a signature without a reason, or that waives a gate twice.
func (c ApproveCutover) wellFormed(co *Cutover) error {
	if strings.TrimSpace(c.Reason) == "" {
		return refuse(ErrInvalid, "%s: a signature must have a reason", co.title())
	}
	for i, w := range c.Waivers {
		if slices.ContainsFunc(c.Waivers[:i], func(o Waiver) bool { return o.Gate == w.Gate }) {
			return refuse(ErrInvalid, "%s: waives %s twice", co.title(), w.Gate)
		}
	}
	return nil
}

// mayWaive refuses waivers by somebody who may not make them.
func (st *State) mayWaive(co *Cutover, s Signer, waivers []Waiver, breakGlass bool) error {
	if len(waivers) == 0 {
		return nil
	}
	if !st.Can(s, CanWaive, co.Service) {
		return refuse(ErrForbidden, "%s: %s may not waive: no role with that capability holds", co.title(), s.User)
	}
	if !breakGlass && slices.ContainsFunc(waivers, func(w Waiver) bool { return w.Gate == GateSourceDown }) {
		return refuse(ErrForbidden, "%s: %s is waived by %d break-glass signatures only; propose a planned cutover instead", co.title(), GateSourceDown, breakGlassWaivers)
	}
	return nil
}

// waive takes the waivers that a cutover under way needs: of members that do not
// acknowledge, and of a destination that is worse than it was when people signed.
func (c ApproveCutover) waive(st *State, co *Cutover, at entry) (record, error) {
	if len(c.Waivers) == 0 {
		return record{}, refuse(ErrDecided, "%s: was approved and has begun; a signature can only waive what holds it up now", co.title())
	}
	by, err := st.signer(co, c.Signer)
	if err != nil {
		return record{}, err
	}
	if c.Evidence != co.Digest {
		return record{}, refuse(ErrEvidence, "%s: the evidence is %s, not %.40s", co.title(), co.Digest, c.Evidence)
	}
	if err := c.wellFormed(co); err != nil {
		return record{}, err
	}
	for _, w := range c.Waivers {
		if err := st.checkLateWaiver(co, w); err != nil {
			return record{}, err
		}
	}
	if err := st.mayWaive(co, c.Signer, c.Waivers, by.BreakGlass); err != nil {
		return record{}, err
	}
	if !slices.ContainsFunc(c.Waivers, func(w Waiver) bool { return st.newlyWaived(co, w, by) }) {
		return record{}, refuse(ErrSigned, "%s: %s has waived that already; another person must", co.title(), countsAs(by.User, by.Person))
	}
	next := *co
	next.Waived = append(slices.Clip(co.Waived), c.signature(at, by, slices.Clone(c.Waivers)))
	st.put(&next)
	d := next.detail().by(c.Signer, by.Person)
	d.Waivers, d.BreakGlass, d.Reason = c.Waivers, by.BreakGlass, c.Reason
	var what []string
	for _, w := range c.Waivers {
		what = append(what, strings.TrimSuffix(string(w.Gate)+" of "+strings.Join(w.Nodes, ", "), " of "))
	}
	return next.record("cutover.waived", withReason(fmt.Sprintf("%s: %s waived %s", next.title(), c.Signer.User, strings.Join(what, "; ")), c.Reason), d), nil
}

// checkLateWaiver refuses a waiver of what does not hold up a cutover under way.
func (st *State) checkLateWaiver(co *Cutover, w Waiver) error {
	if w.Outcome != "" {
		return refuse(ErrInvalid, "%s: %s is not untried, a waiver of it names no outcome", co.title(), w.Gate)
	}
	switch w.Gate {
	case GateNodesAcknowledged:
		if len(w.Nodes) == 0 {
			return refuse(ErrInvalid, "%s: a waiver of %s must name the members", co.title(), w.Gate)
		}
		for i, n := range w.Nodes {
			if _, ok := st.Members[n]; !ok || slices.Contains(w.Nodes[:i], n) {
				return refuse(ErrInvalid, "%s: %s: %.63q is no member, or is there twice", co.title(), w.Gate, n)
			}
		}
	case GateDestination:
		if st.DestinationHolds(co) {
			return refuse(ErrInvalid, "%s: %s is clean, as it was signed, or waived by enough people; there is nothing to waive", co.title(), w.Gate)
		}
		if len(w.Nodes) > 0 {
			return refuse(ErrInvalid, "%s: a waiver of %s names no members", co.title(), w.Gate)
		}
	default:
		return refuse(ErrInvalid, "%s: has begun; only %s and %s can still be waived, not %.40q", co.title(), GateNodesAcknowledged, GateDestination, w.Gate)
	}
	return nil
}

// newlyWaived reports whether the waiver covers what the person has not waived yet.
func (st *State) newlyWaived(co *Cutover, w Waiver, by Signature) bool {
	covered := func(member string) bool { return signedBy(st.Waivers(co, w.Gate, member), by) }
	if w.Gate != GateNodesAcknowledged {
		return !covered("")
	}
	return slices.ContainsFunc(w.Nodes, func(n string) bool { return !covered(n) })
}

func (c RejectCutover) apply(st *State, at entry) (record, error) {
	co, ok := st.Cutovers[c.ID]
	if !ok {
		return record{}, refuse(ErrNotFound, "%s: not found", c.ID)
	}
	if err := st.undecided(co, at); err != nil {
		return record{}, err
	}
	if err := st.mayDecide(co, c.Signer, c.Reason, "reject"); err != nil {
		return record{}, err
	}
	next := st.end(co, Rejected, at, c.Signer.User, c.Reason)
	d := next.detail().by(c.Signer, st.Person(c.Signer))
	d.Reason = c.Reason
	return next.record("cutover.rejected", withReason(fmt.Sprintf("%s: rejected by %s", next.title(), c.Signer.User), c.Reason), d), nil
}

// mayDecide refuses an end of a cutover by somebody who may not approve, or
// without a reason.
func (st *State) mayDecide(co *Cutover, s Signer, reason, verb string) error {
	if s.User == "" || ReservedUser(s.User) || !st.Can(s, CanApprove, co.Service) {
		return refuse(ErrForbidden, "%s: %s may not %s it: no role that may approve holds", co.title(), orNone(s.User), verb)
	}
	if strings.TrimSpace(reason) == "" {
		return refuse(ErrInvalid, "%s: to %s it needs a reason", co.title(), verb)
	}
	return nil
}

func gateList(gates []Gate) string {
	names := make([]string, len(gates))
	for i, g := range gates {
		names[i] = string(g)
	}
	return list(names)
}

// stamp writes a time for people.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

// count says how many, in the right number.
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
