package statestore

import (
	"errors"
	"fmt"
)

// Refusal is a command that the state forbids. It is a result like any other:
// every node refuses the same command for the same reason.
type Refusal struct {
	Code string // stable, for programs: one of the sentinels' codes
	Text string // for people: the thing, the rule and the value
}

// Error returns the text.
func (r *Refusal) Error() string { return r.Text }

// Is compares codes, so that errors.Is(err, ErrStale) holds for every stale refusal.
func (r *Refusal) Is(target error) bool {
	var t *Refusal
	return errors.As(target, &t) && t.Code == r.Code
}

// The refusals. Their texts are the general case; Apply says which thing it was.
var (
	ErrNotFound       = &Refusal{"not_found", "no such object"}
	ErrExists         = &Refusal{"exists", "already exists"}
	ErrInvalid        = &Refusal{"invalid", "invalid"}
	ErrStale          = &Refusal{"stale", "what the conclusion was drawn from has changed"}
	ErrStalePlan      = &Refusal{"stale_plan", "the plan is of another revision"}
	ErrFrozen         = &Refusal{"frozen", "automation is frozen"}
	ErrBudget         = &Refusal{"budget", "the budget of automatic changes is used up"}
	ErrFloor          = &Refusal{"floor", "too few clusters would serve"}
	ErrMaxDrained     = &Refusal{"max_drained", "too many clusters are drained"}
	ErrEmptyRotation  = &Refusal{"empty_rotation", "the rotation is empty"}
	ErrExpired        = &Refusal{"expired", "expired"}
	ErrForbidden      = &Refusal{"forbidden", "not allowed"}
	ErrInUse          = &Refusal{"in_use", "still in use"}
	ErrRequestReused  = &Refusal{"request_reused", "the request id was used for another command"}
	ErrRequestUnknown = &Refusal{"request_unknown", "the request id is too old to be known"}
	ErrFeatureLevel   = &Refusal{"feature_level", "not every member supports it"}
	ErrEvidence       = &Refusal{"evidence_changed", "the evidence has changed"}
	ErrDecided        = &Refusal{"already_decided", "already decided"}
	ErrSigned         = &Refusal{"already_signed", "already signed by the same person"}
	ErrSelfApproval   = &Refusal{"self_approval", "the proposer may not approve"}
	ErrBlocked        = &Refusal{"blocked", "a gate is not clean"}
	ErrStateful       = &Refusal{"stateful", "a stateful service moves only by an approved cutover"}
	ErrUnconfirmed    = &Refusal{"unconfirmed", "the active side is not confirmed"}
	ErrVersionSkew    = &Refusal{"version_skew", "versions differ by more than one minor release"}
)

// ErrUndecodable is the result of an entry this build cannot read. Consensus
// parks on it, since a replica that guesses would diverge; DNS goes on. It is no
// Refusal.
var ErrUndecodable = errors.New("log entry cannot be decoded; run a newer quorate")

// refuse returns a refusal with sentinel's code and a text of its own.
func refuse(sentinel *Refusal, format string, args ...any) error {
	return &Refusal{Code: sentinel.Code, Text: fmt.Sprintf(format, args...)}
}

func asRefusal(err error, r **Refusal) bool { return err != nil && errors.As(err, r) }
