package policy

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

// Turn is one turn of a verdict.
type Turn struct {
	At   time.Time
	Side health.Side
}

// ReplayedTarget is a target whose verdict would have turned otherwise.
type ReplayedTarget struct {
	Target health.Target
	Was    []Turn // as it was recorded
	Would  []Turn
	Text   string // one line for people
}

// Replayed is what recorded votes would have come to under another spec.
type Replayed struct {
	Since    time.Time // of the first vote that is recorded
	Until    time.Time
	Votes    int // that are recorded
	Targets  []ReplayedTarget
	Warnings []string // what cannot be told from the record
}

// Replay judges the votes recorded since then as the spec would have had them judged:
// with its fall, rise and recheck at each observer, and its quorum. What an observer
// saw between two of its votes is told from how long it saw it. The members are those
// of now, and what a check looks at is what it was: those differences are warned of.
func Replay(st *statestore.State, spec *statestore.Spec, since time.Time) Replayed {
	r := &replay{st: st, spec: spec, out: Replayed{Since: since, Until: st.Now, Targets: []ReplayedTarget{}, Warnings: []string{}}}
	r.read(since)
	for _, t := range sortedTargets(r.tracks) {
		r.target(t, r.tracks[t])
	}
	r.caveats()
	return r.out
}

// replay is a replay under way.
type replay struct {
	st     *statestore.State
	spec   *statestore.Spec
	tracks map[health.Target]*track
	out    Replayed
}

// track is what is recorded of one target.
type track struct {
	casts []cast
	turns []Turn
	first health.Side // before the first turn; of use where there is one
}

// cast is one recorded vote.
type cast struct {
	index    uint64
	at       time.Time // log time
	observer health.ObserverID
	vote     health.Vote
}

func (r *replay) warn(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(r.out.Warnings, text) {
		r.out.Warnings = append(r.out.Warnings, text)
	}
}

func (r *replay) track(t health.Target) *track {
	if r.tracks[t] == nil {
		r.tracks[t] = &track{}
	}
	return r.tracks[t]
}

// read collects what the events tell, oldest first.
func (r *replay) read(since time.Time) {
	r.tracks = map[health.Target]*track{}
	found := false
	for _, e := range r.st.Events {
		if e.At.Before(since) {
			continue
		}
		switch e.Type {
		case "spec.applied":
			r.warn("a revision was applied on %s: votes after it are of its checks", stampOf(e.At))
		case "observer.silent":
			r.warn("%s was silent from %s on: its votes are replayed as if it had gone on", strings.TrimPrefix(e.Subject, "observers/"), stampOf(e.At))
		}
		if e.Type != "verdict.changed" && e.Type != "votes.changed" {
			continue
		}
		var d statestore.VerdictsDetail
		if json.Unmarshal(e.Detail, &d) != nil {
			continue // another version's shape
		}
		for _, c := range d.Cast {
			if !found {
				found, r.out.Since = true, e.At
			}
			r.out.Votes++
			tr := r.track(c.Target)
			tr.casts = append(tr.casts, cast{e.Index, e.At, c.Observer, c.Vote})
		}
		if d.CastMore > 0 {
			r.warn("%d votes of %s were more than an event keeps: what they turned cannot be told", d.CastMore, stampOf(e.At))
		}
		for _, c := range d.Changes {
			tr := r.track(c.Target)
			if len(tr.turns) == 0 {
				tr.first = c.From
			}
			tr.turns = append(tr.turns, Turn{e.At, c.To})
		}
	}
	if !found {
		r.warn("no vote is recorded since %s", stampOf(since))
	}
}

// target replays one target under both specs. Only what differs between the two is
// told: what the record does not explain is the same in both.
func (r *replay) target(t health.Target, tr *track) {
	was, okWas := timingOf(r.st.Spec, t)
	is, okIs := timingOf(r.spec, t)
	if !okWas || !okIs || len(tr.casts) == 0 {
		if okWas && !okIs {
			r.warn("%s is no target under the new spec", t)
		}
		return
	}
	old, now := *r.st, *r.st
	now.Spec = r.spec
	before, after := r.judge(&old, t, tr, nil), r.judge(&now, t, tr, &is)
	if !sameTurns(before.turns, tr.turns) {
		r.warn("%s: its verdicts do not follow from the recorded votes alone; somebody was silent, or a leader was elected", t)
	}
	if sameTurns(before.turns, after.turns) {
		return
	}
	with := strings.Join(slices.Concat(was.differences(is), r.rules(t)), ", ")
	r.out.Targets = append(r.out.Targets, ReplayedTarget{
		Target: t, Was: tr.turns, Would: after.turns, Text: tell(with, before.turns, after),
	})
}

// judged is what the votes on a target come to.
type judged struct {
	turns []Turn
	runs  []run // of results that no vote followed from
}

// run is a stretch of results that was too short to change an observer's vote.
type run struct {
	observer health.ObserverID
	at       time.Time // of the vote that was recorded for it
	bad      bool
	results  int
}

// judge replays the votes under the state's spec, with the timing in place of the one
// that was in force; nil: that one.
func (r *replay) judge(st *statestore.State, t health.Target, tr *track, is *timing) judged {
	var out judged
	ballots := st.Ballots(t)
	prev := tr.first
	if len(tr.turns) == 0 {
		if ts, ok := r.st.Target(t); ok {
			prev = ts.Verdict.Side
		}
	}
	type moment struct {
		cast
		when time.Time
	}
	var moments []moment
	for i, b := range ballots {
		own := castsOf(tr.casts, b.Observer)
		ballots[i].Side = firstSide(prev, own, b.Side)
		for n, c := range own {
			when, results, reached := r.retime(t, own, n, is)
			if !reached {
				out.runs = append(out.runs, run{c.observer, c.at, c.vote.Side == health.Down, results})
				continue
			}
			moments = append(moments, moment{c, when})
		}
	}
	slices.SortStableFunc(moments, func(a, b moment) int {
		return cmp.Or(a.when.Compare(b.when), cmp.Compare(a.index, b.index), cmp.Compare(a.observer, b.observer))
	})
	rule := st.Rule(t)
	for i, m := range moments {
		for n := range ballots {
			if ballots[n].Observer == m.observer {
				ballots[n].Side = m.vote.Side
			}
		}
		if i+1 < len(moments) && moments[i+1].when.Equal(m.when) {
			continue // what is voted together is judged once
		}
		if j := health.Judge(prev, ballots, rule); j.Side != prev {
			prev = j.Side
			out.turns = append(out.turns, Turn{m.when, j.Side})
		}
	}
	return out
}

// castsOf returns one observer's votes that changed its side.
func castsOf(casts []cast, observer health.ObserverID) []cast {
	var own []cast
	for _, c := range casts {
		if c.observer == observer && (len(own) == 0 || own[len(own)-1].vote.Side != c.vote.Side) {
			own = append(own, c)
		}
	}
	return own
}

// firstSide is what an observer voted before the record begins, as far as can be
// told: what it votes now, if it never changed, else what the verdict was.
func firstSide(verdict health.Side, own []cast, now health.Side) health.Side {
	if len(own) == 0 {
		return now
	}
	return verdict
}

// retime returns when the observer would have cast its n-th vote, after how many
// results, and whether it had seen enough of them at all.
func (r *replay) retime(t health.Target, own []cast, n int, is *timing) (when time.Time, results int, reached bool) {
	c := own[n]
	was, ok := timingOf(r.specAt(c.at), t)
	if !ok || is == nil || *is == was || c.vote.Side == health.Unknown {
		return c.at, 0, true
	}
	had, need := was.fall, is.fall
	if c.vote.Side == health.Up {
		had, need = was.rise, is.rise
	}
	// The vote came with the last result of its run, and the run went on until the
	// next vote's began.
	begin := c.vote.Since.Add(-time.Duration(had-1) * was.recheck)
	end := r.out.Until.Add(c.vote.Since.Sub(c.at))
	if n+1 < len(own) {
		next := own[n+1].vote
		end = next.Since
		switch next.Side {
		case health.Up:
			end = end.Add(-time.Duration(was.rise-1) * was.recheck)
		case health.Down:
			end = end.Add(-time.Duration(was.fall-1) * was.recheck)
		}
	}
	results = 1
	if length := end.Sub(begin); length > 0 {
		results = 1 + int((length-1)/is.recheck)
	}
	if is.recheck == was.recheck {
		results = max(results, had)
	}
	return c.at.Add(begin.Add(time.Duration(need-1) * is.recheck).Sub(c.vote.Since)), results, results >= need
}

// specAt returns the spec that was in force.
func (r *replay) specAt(at time.Time) *statestore.Spec {
	spec := r.st.Spec
	for i := len(r.st.Revisions) - 1; i >= 0; i-- {
		spec = r.st.Revisions[i].Spec
		if !r.st.Revisions[i].At.After(at) {
			break
		}
	}
	return spec
}
