package statestore

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/quorate/quorate/health"
)

// unconfirmAll sets every observer's votes aside until it confirmed them to the
// leader of this term: a grace would keep a dead observer's vote alive through
// every election.
func (st *State) unconfirmAll() {
	next := make(map[health.ObserverID]*Observer, len(st.Observers))
	for id, o := range st.Observers {
		if o.Confirmed {
			o = &Observer{Seq: o.Seq, Silent: o.Silent, Since: st.Now}
		}
		next[id] = o
	}
	st.Observers = next
}

func (c CastVotes) apply(st *State, at entry) (record, error) {
	edit := newTally(st, at)
	var refused []string
	observers := maps.Clone(st.Observers)
	seen := map[health.ObserverID]bool{}
	for _, b := range c.Batches {
		old := observers[b.Observer]
		if why := st.refuseBatch(b, old, seen[b.Observer]); why != "" {
			refused = append(refused, why)
			continue
		}
		seen[b.Observer] = true
		next := &Observer{Seq: b.Seq, Since: at.now}
		if old != nil {
			next.Confirmed, next.Silent, next.Since = old.Confirmed, old.Silent, old.Since
		}
		if b.Full {
			if !next.Counts() {
				next.Since = at.now
			}
			next.Confirmed, next.Silent = true, false
			edit.dropVotes(b.Observer, b.Votes, b.Recorded)
		}
		observers[b.Observer] = next
		edit.castVotes(b)
	}
	if len(refused) == len(c.Batches) {
		return record{}, refuse(ErrStale, "votes: %s", cmp.Or(strings.Join(refused, "; "), "no batch"))
	}
	st.Observers = observers
	edit.judge()
	return edit.record(votedText(c.Batches), refused), nil
}

// refuseBatch returns why a batch cannot count, or "".
func (st *State) refuseBatch(b VoteBatch, o *Observer, again bool) string {
	m, ok := st.Members[string(b.Observer)]
	var seq uint64
	if o != nil {
		seq = o.Seq
	}
	switch {
	case !ok:
		return fmt.Sprintf("%s is not a member", b.Observer)
	case !m.Observes:
		return fmt.Sprintf("%s does not observe", b.Observer)
	case again:
		return fmt.Sprintf("%s has two batches", b.Observer)
	case b.Seq <= seq:
		return fmt.Sprintf("%s is at %d, not before %d", b.Observer, seq, b.Seq)
	case !b.Full && b.Prev != seq:
		return fmt.Sprintf("%s is at %d, not at %d", b.Observer, seq, b.Prev)
	case !b.Full && o == nil:
		return fmt.Sprintf("%s has never sent a full set", b.Observer)
	case !b.Full && o.Silent:
		return fmt.Sprintf("%s was silent and must send a full set", b.Observer)
	}
	return ""
}

func (c ConfirmObservers) apply(st *State, at entry) (record, error) {
	confirmed := func(o *Observer) bool { return o != nil && o.Confirmed }
	observers := maps.Clone(st.Observers)
	changed := false
	if c.Reset {
		for id, o := range observers {
			if _, stays := c.Observers[id]; confirmed(o) && !(stays && c.Observers[id] == o.Seq && !o.Silent) {
				observers[id] = &Observer{Seq: o.Seq, Silent: o.Silent, Since: at.now}
				changed = true
			}
		}
	}
	var newly []health.ObserverID
	for _, id := range sortedKeys(c.Observers) {
		o := observers[id]
		if o == nil || o.Silent || o.Confirmed || o.Seq != c.Observers[id] {
			continue
		}
		observers[id] = &Observer{Seq: o.Seq, Confirmed: true, Since: at.now}
		newly = append(newly, id)
	}
	if !changed && len(newly) == 0 {
		return record{}, nil
	}
	st.Observers = observers
	edit := newTally(st, at)
	edit.touchVotesOf(newly)
	edit.judge()
	names := make([]string, len(newly))
	for i, id := range newly {
		names[i] = string(id)
	}
	rec := edit.record("votes confirmed: "+cmp.Or(strings.Join(names, ", "), "none"), nil)
	if len(edit.changes) == 0 {
		rec.kind, rec.subject = "observers.confirmed", "observers"
		rec.detail = map[string]any{"observers": newly, "reset": c.Reset}
	}
	return rec, nil
}

func (c ObserverSilent) apply(st *State, at entry) (record, error) {
	o, ok := st.Observers[c.Observer]
	if !ok {
		return record{}, refuse(ErrNotFound, "observer %s: not found", c.Observer)
	}
	if o.Silent {
		return record{}, refuse(ErrStale, "observer %s: is silent already", c.Observer)
	}
	before := st.suspects()
	st.Observers = with(st.Observers, c.Observer, &Observer{Seq: o.Seq, Silent: true, Since: at.now})
	edit := newTally(st, at)
	edit.touchVotesOf([]health.ObserverID{c.Observer})
	edit.markOnly()
	st.renewAnswers(before, at)
	return record{
		kind: "observer.silent", subject: "observers/" + string(c.Observer),
		text: string(c.Observer) + " is silent; its votes are set aside", detail: map[string]uint64{"seq": o.Seq},
	}, nil
}

// renewAnswers makes a new ServiceState of each service that was suspect, or is
// now, and answers with another TTL therefore.
func (st *State) renewAnswers(before map[string]bool, at entry) {
	after := st.suspects()
	changed := maps.Clone(before)
	maps.Copy(changed, after)
	st.renewServices()
	for _, name := range sortedKeys(changed) {
		if s := st.Services[name]; s != nil && before[name] != after[name] {
			clone := *s
			st.putService(name, &clone)
			st.TableIndex = at.index
		}
	}
}

// forgetObserver forgets an observer and its votes. It judges nothing: a verdict
// only turns by a vote.
func (st *State) forgetObserver(id health.ObserverID, at entry) {
	t := newTally(st, at)
	t.dropVotes(id, nil, false)
	st.Observers = without(st.Observers, id)
	t.install()
}

// votedText says what was voted, in one bounded line.
func votedText(batches []VoteBatch) string {
	const shown = 3
	var parts []string
	total := 0
	for _, b := range batches {
		total += len(b.Votes)
		targets := slices.SortedFunc(maps.Keys(b.Votes), health.CompareTargets)
		for _, t := range targets {
			if len(parts) == shown {
				break
			}
			v := b.Votes[t]
			parts = append(parts, withCause(fmt.Sprintf("%s votes %s %s", b.Observer, t, v.Side), v.Reason))
		}
	}
	text := strings.Join(parts, "; ")
	switch {
	case total == 0:
		return "full set of votes, empty"
	case total > len(parts):
		return fmt.Sprintf("%s; and %d more", text, total-len(parts))
	}
	return text
}

func withCause(text, cause string) string {
	if cause == "" {
		return text
	}
	return text + " (" + cause + ")"
}
