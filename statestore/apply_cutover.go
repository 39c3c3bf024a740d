package statestore

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/health"
)

func (c ProposeCutover) apply(st *State, at entry) (record, error) {
	by, person := Automation, Automation
	var makers []string
	if c.Signer.User != "" {
		signed := st.signed(c.Signer)
		by, person, makers = c.Signer.User, signed.Person, signed.Makers
	}
	if err := c.allowed(st); err != nil {
		return record{}, err
	}
	facts, err := st.Facts(c.Service, c.As, c.To)
	if err != nil {
		return record{}, err
	}
	if open := st.OpenCutover(c.Service); open != nil {
		return record{}, refuse(ErrBlocked, "service %s: %s: %s is %s; decide it first", c.Service, GateNoOther, open.title(), open.Phase)
	}
	if err := st.checkEvidence(c.Evidence, facts); err != nil {
		return record{}, err
	}
	if err := st.checkBasis(c.Service, c.Basis); err != nil {
		return record{}, err
	}
	st.CutoverSeq++
	co := &Cutover{
		ID: fmt.Sprintf("%s%d", cutoverPrefix, st.CutoverSeq), Service: c.Service, Kind: c.As,
		Source: facts.Source, Destination: facts.Destination, Epoch: facts.Epoch, Generation: facts.Generation,
		Proposer: by, Person: person, Makers: makers, Reason: c.Reason, At: at.now,
		Expires:  at.now.Add(st.approvalPolicy(c.Service).TTL.D()),
		Evidence: c.Evidence.normal(), Digest: c.Evidence.Digest(),
	}
	co = co.step(Proposed, at, by, c.Reason)
	st.put(co)
	st.own(c.Service, at, func(o *Ownership) { o.Open = co.ID })
	d := co.detail().by(c.Signer, person)
	d.User, d.Reason, d.Evidence, d.Required = by, c.Reason, &co.Evidence, max(st.approvalPolicy(c.Service).Required, 1)
	return co.record("cutover.proposed", withReason(fmt.Sprintf("%s: %s cutover proposed by %s", co.title(), co.Kind, by), c.Reason), d), nil
}

// allowed refuses a proposal that whoever makes it may not make.
func (c ProposeCutover) allowed(st *State) error {
	switch {
	case strings.TrimSpace(c.Reason) == "":
		return refuse(ErrInvalid, "service %s: a cutover must have a reason", c.Service)
	case ReservedUser(c.Signer.User):
		return refuse(ErrForbidden, "service %s: %q is no person's name", c.Service, c.Signer.User)
	case c.Signer.User != "":
		if !st.Can(c.Signer, CanPropose, c.Service) {
			return refuse(ErrForbidden, "service %s: %s may not propose: no role with that capability holds", c.Service, c.Signer.User)
		}
		return nil
	case c.Signer.Via != "" || c.Signer.Token != "":
		return refuse(ErrInvalid, "service %s: a person who proposes must have a name", c.Service)
	case c.As != Emergency:
		return refuse(ErrForbidden, "service %s: automation proposes emergencies only, not a %s cutover", c.Service, c.As)
	}
	return st.checkFrozen(c.Service)
}

// checkEvidence refuses evidence whose facts are not the state's, or whose gates
// are not those of the kind, or say better than the state knows.
func (st *State) checkEvidence(ev, facts Evidence) error {
	if changed := ev.sameFacts(facts); len(changed) > 0 {
		return refuse(ErrStale, "service %s: what the evidence rests on has changed: %s", facts.Service, strings.Join(changed, "; "))
	}
	gates := Gates(facts.Kind)
	same := slices.EqualFunc(ev.Gates, gates, func(r GateResult, g Gate) bool { return r.Gate == g })
	if !same {
		return refuse(ErrInvalid, "service %s: the evidence of a %s cutover must have the gates %v", facts.Service, facts.Kind, gates)
	}
	for _, r := range ev.Gates {
		switch r.Class {
		case Clean:
			if why := st.notClean(r.Gate, facts); why != "" {
				return refuse(ErrInvalid, "service %s: the evidence says that %s is clean, but %s", facts.Service, r.Gate, why)
			}
		case Blocked, UnknownGate, Untried, NotConfigured:
			if !r.Gate.Waivable() {
				return refuse(ErrBlocked, "service %s: %s is %s and cannot be waived", facts.Service, r.Gate, r.Class)
			}
		default:
			return refuse(ErrInvalid, "service %s: %s: %q is no class of a gate", facts.Service, r.Gate, r.Class)
		}
	}
	return nil
}

// notClean returns why a gate cannot be clean, as far as the state knows; empty
// when it can. What it rests on is in the facts and the basis.
func (st *State) notClean(g Gate, facts Evidence) string {
	switch g {
	case GateSourceDown:
		if facts.SourceSide != health.Down {
			return fmt.Sprintf("%s is %s", facts.Source, facts.SourceSide)
		}
	case GateDestination:
		if facts.DestinationSide != health.Up {
			return fmt.Sprintf("%s is %s", facts.Destination, facts.DestinationSide)
		}
		if st.Clusters[facts.Destination].Drain.Covers(facts.Service) {
			return facts.Destination + " is drained"
		}
	case GateNodesAcknowledged:
		if len(facts.Unacknowledged) > 0 {
			return list(facts.Unacknowledged) + " cannot acknowledge"
		}
	case GateLag, GateFenced, GateResync:
		return "there is nothing that could say so"
	case GateNotFrozen:
		if f, ok := st.Frozen(facts.Service); ok {
			return "it is frozen by " + f.By
		}
	}
	return ""
}

// pending returns a cutover that has not begun, at the version the leader read.
func (st *State) pending(id string, version uint64) (*Cutover, error) {
	co, ok := st.Cutovers[id]
	switch {
	case !ok:
		return nil, refuse(ErrNotFound, "%s: not found", id)
	case !co.Phase.Pending():
		return nil, refuse(ErrDecided, "%s: is %s", co.title(), co.Phase)
	case co.Version != version:
		return nil, refuse(ErrStale, "%s: is at version %d, not at %d", co.title(), co.Version, version)
	}
	return co, nil
}

func (c ReviseCutover) apply(st *State, at entry) (record, error) {
	co, err := st.pending(c.ID, c.Version)
	if err != nil {
		return record{}, err
	}
	if passed(at.now, co.Expires) {
		return record{}, refuse(ErrExpired, "%s: expired %s", co.title(), stamp(co.Expires))
	}
	facts, err := st.Facts(co.Service, co.Kind, co.Destination)
	if err != nil {
		return record{}, err
	}
	if err := st.checkEvidence(c.Evidence, facts); err != nil {
		return record{}, err
	}
	if err := st.checkBasis(co.Service, c.Basis); err != nil {
		return record{}, err
	}
	changes := co.Evidence.Differences(c.Evidence)
	if c.Evidence.Digest() == co.Digest {
		return record{}, refuse(ErrStale, "%s: the evidence is the same", co.title())
	}
	voided := len(co.Signatures)
	text := fmt.Sprintf("evidence changed: %s", strings.Join(changes, "; "))
	if voided > 0 {
		text += fmt.Sprintf("; %s void", count(voided, "signature is", "signatures are"))
	}
	next := co.step(Proposed, at, Automation, text)
	next.Evidence, next.Digest = c.Evidence.normal(), c.Evidence.Digest()
	next.Signatures, next.Voided = nil, co.Voided+voided
	st.put(next)
	d := next.detail()
	d.Evidence, d.Changes, d.Voided = &next.Evidence, changes, voided
	return next.record("cutover.revised", fmt.Sprintf("%s: %s", next.title(), text), d), nil
}

func (c CloseCutover) apply(st *State, at entry) (record, error) {
	co, err := st.pending(c.ID, c.Version)
	if err != nil {
		return record{}, err
	}
	switch c.As {
	case Expired:
		if !passed(at.now, co.Expires) {
			return record{}, refuse(ErrStale, "%s: expires %s, which has not come yet", co.title(), stamp(co.Expires))
		}
	case Withdrawn:
		if st.CauseGone(co) == "" {
			return record{}, refuse(ErrStale, "%s: its cause is not gone", co.title())
		}
	default:
		return record{}, refuse(ErrInvalid, "%s: automation ends a cutover as expired or withdrawn, not as %s", co.title(), c.As)
	}
	next := st.end(co, c.As, at, Automation, c.Reason)
	d := next.detail()
	d.Reason = c.Reason
	return next.record("cutover."+string(c.As), withReason(fmt.Sprintf("%s: %s", next.title(), c.As), c.Reason), d), nil
}

// CauseGone says why nothing asks for the cutover any more; empty while something
// does. Its destination is gone, or an emergency's source is up again. Automation's
// own proposal for a source that was only contested or unobserved is gone once that
// has settled; people who ask for one although the source is up know that it is.
func (st *State) CauseGone(co *Cutover) string {
	_, err := st.Facts(co.Service, co.Kind, co.Destination)
	switch {
	case err != nil:
		return err.Error()
	case co.Kind != Emergency || st.SideOf(co.Service, co.Source) != health.Up:
		return ""
	case co.Evidence.SourceSide != health.Up:
		return co.Source + " is up again"
	case co.Proposer == Automation && st.settled(co.Service, co.Source):
		return co.Source + " is up by a quorum"
	}
	return ""
}

// settled reports whether no verdict on the cluster is contested or unobserved.
func (st *State) settled(service, cluster string) bool {
	for t, ts := range st.Services[service].Targets {
		if t.Cluster == cluster && ts.Verdict.Mark != health.Settled {
			return false
		}
	}
	return true
}

// end ends a cutover. The service goes on where it was.
func (st *State) end(co *Cutover, as CutoverPhase, at entry, by, text string) *Cutover {
	next := co.step(as, at, by, text)
	st.own(co.Service, at, func(o *Ownership) { o.Open, o.Next = "", 0 })
	st.put(next)
	return next
}

func (c RemindCutover) apply(st *State, at entry) (record, error) {
	co, ok := st.Cutovers[c.ID]
	if !ok {
		return record{}, refuse(ErrNotFound, "%s: not found", c.ID)
	}
	remind := st.approvalPolicy(co.Service).Remind
	switch {
	case co.Phase != Proposed:
		return record{}, refuse(ErrDecided, "%s: is %s", co.title(), co.Phase)
	case c.Number != co.Reminded+1 || c.Number > len(remind):
		return record{}, refuse(ErrStale, "%s: reminder %d is not the next one", co.title(), c.Number)
	case !passed(at.now, co.At.Add(remind[c.Number-1].D())):
		return record{}, refuse(ErrStale, "%s: reminder %d is not due yet", co.title(), c.Number)
	}
	next := *co
	next.Reminded = c.Number
	st.put(&next)
	n := st.Count(&next)
	d := next.detail()
	d.Have, d.Required = len(n.People), n.Required
	left := max(co.Expires.Sub(at.now), 0)
	return next.record("cutover.expiring", fmt.Sprintf("%s: waits for people, %d of %d signed; expires in %s", next.title(), d.Have, d.Required, left), d), nil
}
