package statestore

import (
	"fmt"
	"maps"

	"github.com/quorate/quorate/health"
)

// GenerationDetail is Event.Detail of "generation.begun".
type GenerationDetail struct {
	From        uint64   `json:"from"`
	To          uint64   `json:"to"`
	Member      string   `json:"member"`
	Reason      string   `json:"reason"`
	Void        []string `json:"void,omitempty"`        // cutovers
	Unconfirmed []string `json:"unconfirmed,omitempty"` // services
	CA          string   `json:"ca,omitempty"`          // fingerprint of the one that is new
}

func (c BeginGeneration) apply(st *State, at entry) (record, error) {
	switch {
	case st.Installation == "":
		return record{}, refuse(ErrInvalid, "generation %d: there is no installation to recover", c.Generation)
	case c.Generation <= st.Generation:
		return record{}, refuse(ErrStale, "generation %d: the state is of generation %d already", c.Generation, st.Generation)
	case c.Reason == "":
		return record{}, refuse(ErrInvalid, "generation %d: must have a reason", c.Generation)
	}
	detail := GenerationDetail{From: st.Generation, To: c.Generation, Member: c.Member.Name, Reason: c.Reason}
	st.Members = map[string]*Member{}
	m := c.Member
	if err := st.checkMember(m); err != nil {
		return record{}, err
	}
	m.AddedIndex = at.index
	st.Members[m.Name] = &m
	st.Versions++
	st.Generation, st.JoinTokens = c.Generation, map[string]*JoinToken{}
	st.forgetVotes()
	if ca := c.CA; ca.Fingerprint != "" && !st.trusts(ca.Fingerprint) {
		ca.At = at.now
		st.Trust = append(st.Trust[:len(st.Trust):len(st.Trust)], ca)
		detail.CA = ca.Fingerprint
	}
	for _, co := range st.OpenCutovers() {
		st.end(co, Void, at, at.meta.Actor, fmt.Sprintf("a recovery began generation %d", c.Generation))
		detail.Void = append(detail.Void, co.ID)
	}
	for _, name := range sortedKeys(st.Services) {
		if st.Services[name].Ownership != nil {
			st.own(name, at, func(o *Ownership) { o.Unconfirmed = true })
			detail.Unconfirmed = append(detail.Unconfirmed, name)
		}
	}
	st.TableIndex = at.index
	return record{
		kind: "generation.begun", subject: "installation",
		text: withReason(fmt.Sprintf("generation %d begun by %s; %s void, %s unconfirmed", c.Generation, m.Name,
			count(len(detail.Void), "cutover", "cutovers"), count(len(detail.Unconfirmed), "service", "services")), c.Reason),
		detail: detail,
	}, nil
}

func (st *State) trusts(fingerprint string) bool {
	for _, ca := range st.Trust {
		if ca.Fingerprint == fingerprint {
			return true
		}
	}
	return false
}

// forgetVotes forgets all observers and their votes; verdicts stay as they are.
func (st *State) forgetVotes() {
	without := func(targets map[health.Target]*TargetState) map[health.Target]*TargetState {
		next := make(map[health.Target]*TargetState, len(targets))
		for t, ts := range targets {
			next[t] = &TargetState{Votes: map[health.ObserverID]health.Vote{}, Verdict: ts.Verdict}
		}
		return next
	}
	st.Observers = map[health.ObserverID]*Observer{}
	st.renewServices()
	for _, name := range sortedKeys(st.Services) {
		next := *st.Services[name]
		next.Targets = without(next.Targets)
		st.putService(name, &next)
	}
	st.Clusters = maps.Clone(st.Clusters)
	for name, c := range st.Clusters {
		if c.Targets == nil {
			continue
		}
		next := *c
		next.Targets = without(c.Targets)
		st.Clusters[name] = &next
	}
}

// apply has no record: which events were told is bookkeeping, and a record of each
// would be one more event to tell.
func (c NoteDelivery) apply(st *State, _ entry) (record, error) {
	switch {
	case st.Spec.Notify.Receivers[c.Receiver] == nil:
		return record{}, refuse(ErrNotFound, "receiver %s: not found", c.Receiver)
	case c.Index <= st.Delivered[c.Receiver]:
		return record{}, refuse(ErrStale, "receiver %s: was told up to event %d already", c.Receiver, st.Delivered[c.Receiver])
	case c.Index >= st.Index:
		return record{}, refuse(ErrInvalid, "receiver %s: there is no event %d yet", c.Receiver, c.Index)
	}
	st.Delivered = with(st.Delivered, c.Receiver, c.Index)
	return record{}, nil
}
