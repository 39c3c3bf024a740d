package statestore

import (
	"fmt"
	"slices"
	"strings"
)

// apply is the fencing entry: from here on the source is not answered.
func (c BeginCutover) apply(st *State, at entry) (record, error) {
	co, err := st.pending(c.ID, c.Version)
	if err != nil {
		return record{}, err
	}
	if co.Phase != Approved {
		return record{}, refuse(ErrBlocked, "%s: is %s, not approved", co.title(), co.Phase)
	}
	if passed(at.now, co.Expires) {
		return record{}, refuse(ErrExpired, "%s: expired %s", co.title(), stamp(co.Expires))
	}
	if err := st.checkSigned(co, c.Evidence.Digest()); err != nil {
		return record{}, err
	}
	if err := st.checkBasis(co.Service, c.Basis); err != nil {
		return record{}, err
	}
	n := st.Count(co)
	if !n.Approved() {
		return record{}, refuse(ErrBlocked, "%s: %d of %d signatures are by people who still may sign, and %s are not passed; it needs more signatures",
			co.title(), len(n.People), n.Required, gateList(n.Lacking))
	}
	next := co.step(Fencing, at, Automation, "approved by "+list(n.People))
	next.Next = st.nextEpoch(co.Service)
	st.put(next)
	st.own(co.Service, at, func(o *Ownership) { o.Next = next.Next })
	d := next.detail()
	d.Epoch, d.Evidence, d.Have, d.Required = next.Next, &next.Evidence, len(n.People), n.Required
	return next.record("cutover.begun", fmt.Sprintf("%s: begun under epoch %d, %s is not answered any more", next.title(), next.Next, next.Source), d), nil
}

// underWay returns a cutover that has begun and has not ended.
func (st *State) underWay(id string) (*Cutover, error) {
	co, ok := st.Cutovers[id]
	switch {
	case !ok:
		return nil, refuse(ErrNotFound, "%s: not found", id)
	case co.Phase == Expired:
		return nil, refuse(ErrExpired, "%s: expired %s", co.title(), stamp(co.Expires))
	case !co.Phase.Open():
		return nil, refuse(ErrDecided, "%s: was %s %s by %s", co.title(), decidedAs(co.Phase), stamp(co.Decided), co.Steps[len(co.Steps)-1].By)
	case co.Phase != Fencing:
		return nil, refuse(ErrInvalid, "%s: is %s and has not begun; reject it with: quorate reject %s", co.title(), co.Phase, co.ID)
	}
	return co, nil
}

func (c PublishCutover) apply(st *State, at entry) (record, error) {
	co, err := st.underWay(c.ID)
	if err != nil {
		return record{}, err
	}
	if co.Version != c.Version {
		return record{}, refuse(ErrStale, "%s: is at version %d, not at %d", co.title(), co.Version, c.Version)
	}
	if c.Rotation.Service != co.Service {
		return record{}, refuse(ErrInvalid, "%s: carries the rotation of %q", co.title(), c.Rotation.Service)
	}
	if waiting := st.Waiting(co, c.Acknowledged); len(waiting) > 0 {
		return record{}, refuse(ErrBlocked, "%s: waits for %s to acknowledge", co.title(), list(waiting))
	}
	if !st.DestinationHolds(co) {
		return record{}, refuse(ErrBlocked, "%s: %s is %s now and was %s when people signed, or is drained; waive %s or abort",
			co.title(), co.Destination, st.SideOf(co.Service, co.Destination), co.Evidence.DestinationSide, GateDestination)
	}
	next := co.step(Done, at, Automation, fmt.Sprintf("%s is active under epoch %d", co.Destination, co.Next))
	st.own(co.Service, at, func(o *Ownership) {
		*o = Ownership{
			Active: co.Destination, Epoch: co.Next, Generation: st.Generation,
			Since: at.now, Index: at.index, Cutover: co.ID,
		}
	})
	rotation, err := st.activate(c.Rotation, at)
	if err != nil {
		return record{}, err
	}
	next.Clears = st.Services[co.Service].Rotation.Clears
	st.put(next)
	d := next.detail()
	d.Epoch, d.Rotation, d.Acknowledged = co.Next, rotation, c.Acknowledged
	for _, name := range sortedKeys(st.Members) {
		if !slices.Contains(c.Acknowledged, name) {
			d.Named = append(d.Named, name)
		}
	}
	return next.record("cutover.published", fmt.Sprintf("%s: done, %s is active under epoch %d; old answers until %s",
		next.title(), next.Destination, co.Next, stamp(next.Clears)), d), nil
}

// activate checks and installs the rotation of a service whose active side is the
// state's by now. Nil: it answered with that already.
func (st *State) activate(ch RotationChange, at entry) (*RotationDetail, error) {
	if err := st.checkPools(ch, judged); err != nil {
		return nil, err
	}
	// own has made the map this entry's own.
	d, changed := st.installRotation(ch, at, st.Spec)
	if !changed {
		return nil, nil
	}
	return &d, nil
}

// apply ends a cutover that is approved or has begun. One that has begun burns the
// epoch it reserved and gives the source a new one, for nodes hold the reserved one
// to be their floor.
func (c AbortCutover) apply(st *State, at entry) (record, error) {
	co, begun := st.Cutovers[c.ID], true
	if co != nil && co.Phase == Approved {
		begun = false
	} else if _, err := st.underWay(c.ID); err != nil {
		return record{}, err
	}
	if err := st.mayDecide(co, c.Signer, c.Reason, "abort"); err != nil {
		return record{}, err
	}
	next := st.end(co, Aborted, at, c.Signer.User, c.Reason)
	epoch := co.Epoch
	if begun {
		epoch = st.nextEpoch(co.Service)
		st.own(co.Service, at, func(o *Ownership) {
			o.Epoch, o.Generation, o.Since, o.Index, o.Cutover = epoch, st.Generation, at.now, at.index, co.ID
		})
	}
	d := next.detail().by(c.Signer, st.Person(c.Signer))
	d.Epoch, d.Reason = epoch, c.Reason
	return next.record("cutover.aborted", withReason(fmt.Sprintf("%s: aborted by %s, %s goes on under epoch %d", next.title(), c.Signer.User, next.Source, epoch), c.Reason), d), nil
}

func (c ConfirmActive) apply(st *State, at entry) (record, error) {
	o := st.Ownership(c.Service)
	switch {
	case st.Services[c.Service] == nil:
		return record{}, refuse(ErrNotFound, "service %s: not found", c.Service)
	case o == nil:
		return record{}, refuse(ErrInvalid, "service %s: is stateless and has no active side", c.Service)
	case c.Signer.User == "" || ReservedUser(c.Signer.User) || !st.Can(c.Signer, CanApprove, c.Service):
		return record{}, refuse(ErrForbidden, "service %s: %s may not confirm its active side: no role that may approve holds", c.Service, orNone(c.Signer.User))
	case !o.Unconfirmed:
		return record{}, refuse(ErrDecided, "service %s: its active side %s is confirmed already; move it with a cutover", c.Service, o.Active)
	case strings.TrimSpace(c.Reason) == "":
		return record{}, refuse(ErrInvalid, "service %s: to confirm its active side needs a reason", c.Service)
	case !slices.Contains(st.Spec.Candidates(c.Service), c.Active):
		return record{}, refuse(ErrInvalid, "service %s: %q is none of its clusters (%s)", c.Service, c.Active, list(st.Spec.Candidates(c.Service)))
	case c.Rotation.Service != c.Service:
		return record{}, refuse(ErrInvalid, "service %s: carries the rotation of %q", c.Service, c.Rotation.Service)
	}
	was, epoch := o.Active, st.nextEpoch(c.Service)
	st.own(c.Service, at, func(o *Ownership) {
		*o = Ownership{Active: c.Active, Epoch: epoch, Generation: st.Generation, Since: at.now, Index: at.index}
	})
	rotation, err := st.activate(c.Rotation, at)
	if err != nil {
		return record{}, err
	}
	d := CutoverDetail{Source: was, Destination: c.Active, Epoch: epoch, Generation: st.Generation, Reason: c.Reason, Rotation: rotation}
	return record{
		kind: "service.confirmed", subject: "services/" + c.Service,
		text: withReason(fmt.Sprintf("%s: %s is active under epoch %d of generation %d, says %s",
			c.Service, c.Active, epoch, st.Generation, c.Signer.User), c.Reason),
		detail: d.by(c.Signer, st.Person(c.Signer)),
	}, nil
}
