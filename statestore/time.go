package statestore

import (
	"time"

	"github.com/quorate/quorate/health"
)

// lastYear is the last one that RFC 3339 can write, and with it a snapshot.
const lastYear = 9999

// logTime returns the log time of an entry. It only grows, whatever the
// proposer's clock did (G10): Elapsed is added as it is, because a bound on it
// would keep expired things alive on a quiet log. The first entry of a log sets
// it from the proposer's wall clock, so that it means something to people.
func logTime(now time.Time, m Meta) time.Time {
	if now.IsZero() {
		return m.Wall.UTC()
	}
	next := now.Add(m.Elapsed)
	if m.Elapsed <= 0 || next.Before(now) || next.Year() > lastYear {
		return now
	}
	return next
}

// until returns the end of something that lasts for d from now; zero for ever.
func until(now time.Time, d time.Duration) time.Time {
	if d == 0 {
		return time.Time{}
	}
	return now.Add(d)
}

// passed reports whether the end t has come. A zero t never comes.
func passed(now, t time.Time) bool { return !t.IsZero() && !now.Before(t) }

// Deadlines reports whether something in the state ends by itself, so that the
// leader must move log time on with a Tick now and then.
func (st *State) Deadlines() bool {
	for _, c := range st.Clusters {
		if c.Drain != nil && !c.Drain.Until.IsZero() {
			return true
		}
	}
	for _, f := range st.Freezes {
		if !f.Until.IsZero() {
			return true
		}
	}
	// A join token is good for minutes on an otherwise quiet log, where without a
	// Tick it would be good for ever.
	for _, t := range st.JoinTokens {
		if !passed(st.Now, t.Expires) {
			return true
		}
	}
	if st.signingDeadline() {
		return true
	}
	for name, s := range st.Services {
		if s.Override != nil && !s.Override.Until.IsZero() {
			return true
		}
		if s.Ownership != nil && st.deadline(name, s.Ownership) {
			return true
		}
	}
	return false
}

// deadline reports whether log time matters to a stateful service: a cutover may
// expire, one may soon be proposed, or people wait until one may.
func (st *State) deadline(service string, o *Ownership) bool {
	spec := st.Spec.Services[service].Stateful
	if o.Open != "" || st.SideOf(service, o.Active) == health.Down {
		return true
	}
	if o.Cutover != "" && !passed(st.Now, o.Since.Add(spec.Cooldown.D())) {
		return true
	}
	if o.Active == spec.Preferred || st.SideOf(service, spec.Preferred) != health.Up {
		return false
	}
	up, ok := st.UpSince(service, spec.Preferred)
	return ok && !passed(st.Now, up.Add(spec.Failback.HealthyFor.D()))
}
