package probe

import (
	"time"

	"github.com/quorate/quorate/health"
)

// opinion is what one probe says at one moment: its side with the reason for it.
type opinion struct {
	side   health.Side
	reason Reason
}

// opinionOf returns the probe's opinion for a target that calls it stale after d,
// and until when it holds unless something happens; zero for ever.
func (s *probeState) opinionOf(d time.Duration, now time.Time) (opinion, time.Time) {
	side, reason := s.h.opinion()
	if side == health.Unknown {
		if s.unmeasured != "" {
			reason = s.unmeasured
		}
		return opinion{side, reason}, time.Time{}
	}
	d = s.bound(d)
	if now.Sub(s.completed) > d {
		reason = ReasonStale
		if s.unmeasured != "" {
			reason = s.unmeasured
		}
		return opinion{health.Unknown, reason}, time.Time{}
	}
	return opinion{side, reason}, s.completed.Add(d)
}

// bound returns after how long the last run is stale where d is asked for: one that a
// healthy probe cannot keep would make its vote flap.
func (s *probeState) bound(d time.Duration) time.Duration {
	return max(d, s.probe.Check.Interval+s.probe.Check.Timeout+beat)
}

// outdated reports whether the last run is stale for every target: what was seen then
// says nothing about now, and comes back with no single result.
func (s *probeState) outdated(now time.Time) bool {
	return s.h.sure && s.h.side != health.Unknown && now.Sub(s.completed) > s.bound(s.staleAfter)
}

// combine adds up what a target's checks say: down when any of all is down or
// every any is, else unknown when something needed is, else up. A target without
// checks is unknown.
func combine(all, anyOf []opinion) opinion {
	best := opinion{health.Up, ReasonOK}
	if len(all)+len(anyOf) == 0 {
		return opinion{}
	}
	for _, o := range all {
		switch {
		case o.side == health.Down:
			return o
		case o.side == health.Unknown && best.side == health.Up:
			best = o
		}
	}
	if len(anyOf) == 0 {
		return best
	}
	group := anyOf[0]
	for _, o := range anyOf {
		switch o.side {
		case health.Up:
			return best
		case health.Unknown:
			if group.side == health.Down {
				group = o
			}
		}
	}
	if group.side == health.Down || best.side == health.Up {
		return group
	}
	return best
}

// degradedOf returns why a target that is up is not well: what the first of its
// checks says, where of any the up ones count and one that is well is enough.
func (t *targetState) degradedOf(anyOf []opinion) string {
	for _, s := range t.all {
		if s.degraded.is != "" {
			return s.degraded.is
		}
	}
	why := ""
	for i, s := range t.any {
		switch {
		case anyOf[i].side != health.Up:
		case s.degraded.is == "":
			return ""
		case why == "":
			why = s.degraded.is
		}
	}
	return why
}

// recomputeAll computes every vote.
func (l *loop) recomputeAll(now time.Time) {
	for _, t := range l.targets {
		l.recomputeOne(t, now)
	}
}

func (l *loop) recompute(targets []*targetState, now time.Time) {
	for _, t := range targets {
		l.recomputeOne(t, now)
	}
}

// recomputeOne computes the vote on t. A vote changes with its side; the reason
// of an unchanged up or down stays what turned it, since every change is an
// entry in the replicated log.
func (l *loop) recomputeOne(t *targetState, now time.Time) {
	o, degraded := opinion{health.Unknown, ReasonBlind}, ""
	if !l.blind {
		var until time.Time // the first of the opinions to grow stale
		l.opinions = l.opinions[:0]
		note := func(s *probeState, staleAfter time.Duration) {
			o, holds := s.opinionOf(staleAfter, now)
			l.opinions = append(l.opinions, o)
			if !holds.IsZero() && (until.IsZero() || holds.Before(until)) {
				until = holds
			}
		}
		for i, s := range t.all {
			note(s, t.plan.All[i].StaleAfter)
		}
		for i, s := range t.any {
			note(s, t.plan.Any[i].StaleAfter)
		}
		anyOf := l.opinions[len(t.all):]
		if o = combine(l.opinions[:len(t.all)], anyOf); o.side == health.Up {
			degraded = t.degradedOf(anyOf)
		}
		l.lookAgain(t, until)
	}
	was := t.vote.Side
	switch {
	case o.side != was:
		t.vote = health.Vote{Side: o.side, Reason: string(o.reason), Since: now.Round(0).UTC(), Degraded: degraded}
	case o.side == health.Unknown && string(o.reason) != t.vote.Reason:
		t.vote.Reason = string(o.reason)
	case degraded != t.vote.Degraded:
		t.vote.Degraded = degraded
	default:
		return
	}
	l.changed[t.plan.Target] = &t.vote
	t.place.count(was, -1)
	t.place.count(o.side, 1)
}
