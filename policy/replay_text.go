package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

// timing is what decides when an observer changes its vote on a target.
type timing struct {
	fall, rise int
	recheck    time.Duration
}

// timingOf returns the timing of the target's first check; false where it is none of
// the spec's targets, or has no check.
func timingOf(sp *statestore.Spec, t health.Target) (timing, bool) {
	all := checksOf(sp, t)
	if len(all) == 0 {
		return timing{}, false
	}
	c := all[0]
	return timing{max(c.Fall, 1), max(c.Rise, 1), max(c.Recheck.D(), time.Millisecond)}, true
}

// checksOf returns what is checked of a target, the service's own checks first.
func checksOf(sp *statestore.Spec, t health.Target) []*statestore.Check {
	cluster := sp.Clusters[t.Cluster]
	if cluster == nil {
		return nil
	}
	var all []*statestore.Check
	if !t.FrontDoor() {
		svc := sp.Services[t.Service]
		if svc == nil || !slices.Contains(sp.Candidates(t.Service), t.Cluster) {
			return nil
		}
		all = slices.Concat(svc.Checks.All, svc.Checks.Any)
	}
	if cluster.Check != nil {
		all = append(all, cluster.Check)
	}
	return all
}

// differences says what the new timing has that the old one had not.
func (was timing) differences(is timing) []string {
	var parts []string
	if was.fall != is.fall {
		parts = append(parts, fmt.Sprintf("fall %d", is.fall))
	}
	if was.rise != is.rise {
		parts = append(parts, fmt.Sprintf("rise %d", is.rise))
	}
	if was.recheck != is.recheck {
		parts = append(parts, fmt.Sprintf("recheck %s", is.recheck))
	}
	return parts
}

// rules says what is new about whose votes count and how many of them decide.
func (r *replay) rules(t health.Target) []string {
	was, is := r.st.Spec.Services[t.Service], r.spec.Services[t.Service]
	if was == nil || is == nil {
		return nil
	}
	now := *r.st
	now.Spec = r.spec
	rule := now.Rule(t)
	var parts []string
	if was.Quorum.Observers != is.Quorum.Observers {
		parts = append(parts, fmt.Sprintf("observers %q", is.Quorum.Observers))
	}
	if was.Quorum.Down != is.Quorum.Down {
		parts = append(parts, fmt.Sprintf("%d regions for down", rule.Down))
	}
	if was.Quorum.Up != is.Quorum.Up {
		parts = append(parts, fmt.Sprintf("%d regions for up", rule.Up))
	}
	return parts
}

// caveats says what a replay cannot tell.
func (r *replay) caveats() {
	services := sortedKeys(r.spec.Services)
	for _, service := range services {
		was, is := r.st.Spec.Services[service], r.spec.Services[service]
		if was == nil {
			r.warn("%s is new: nothing is recorded of it", service)
			continue
		}
		old, now := slices.Concat(was.Checks.All, was.Checks.Any), slices.Concat(is.Checks.All, is.Checks.Any)
		if !statestore.Same(seen(old), seen(now)) {
			r.warn("%s: its checks look at something else, or at another pace; the votes are of what was checked then", service)
		}
		if len(now) > 1 && slices.ContainsFunc(now[1:], func(c *statestore.Check) bool {
			return c.Fall != now[0].Fall || c.Rise != now[0].Rise || c.Recheck != now[0].Recheck
		}) {
			r.warn("%s: its checks have several timings; it is replayed with that of %s", service, now[0].Name)
		}
		if len(old) > 0 && len(now) > 0 && (now[0].Fall < old[0].Fall || now[0].Rise < old[0].Rise) {
			r.warn("%s: fewer results change a vote, and runs too short to change one then are not recorded: it might have turned more often than told here", service)
		}
	}
}

// seen returns the checks without what is replayed.
func seen(checks []*statestore.Check) []statestore.Check {
	out := make([]statestore.Check, len(checks))
	for i, c := range checks {
		out[i] = *c
		out[i].Fall, out[i].Rise, out[i].Recheck = 0, 0, 0
	}
	return out
}

// noticeable is the least difference in time that is told: below it lies how long a
// probe takes.
const noticeable = time.Second

// sameTurns reports whether two courses are the same, but for what nobody notices.
func sameTurns(a, b []Turn) bool {
	return slices.EqualFunc(a, b, func(x, y Turn) bool {
		return x.Side == y.Side && x.At.Sub(y.At).Abs() < noticeable
	})
}

// episode is a time of being down; until is zero for one that has not ended.
type episode struct{ from, until time.Time }

func episodes(turns []Turn) []episode {
	var all []episode
	down := false
	for _, t := range turns {
		switch {
		case t.Side == health.Down && !down:
			all = append(all, episode{from: t.At})
		case t.Side != health.Down && down:
			all[len(all)-1].until = t.At
		}
		down = t.Side == health.Down
	}
	return all
}

func (e episode) meets(o episode) bool {
	return (e.until.IsZero() || o.from.Before(e.until)) && (o.until.IsZero() || e.from.Before(o.until))
}

// tellMost is how many differences one line names.
const tellMost = 3

// tell says in a line how the courses differ.
func tell(with string, before []Turn, after judged) string {
	old, now := episodes(before), episodes(after.turns)
	var parts []string
	for _, e := range old {
		i := slices.IndexFunc(now, e.meets)
		if i < 0 {
			parts = append(parts, fmt.Sprintf("it would not have gone down on %s%s", stampOf(e.from), after.sawUntil(e)))
			continue
		}
		n := now[i]
		if d := n.from.Sub(e.from); d.Abs() >= noticeable {
			parts = append(parts, fmt.Sprintf("it would have gone down %s, on %s", laterBy(d), stampOf(n.from)))
		}
		switch {
		case !e.until.IsZero() && n.until.IsZero():
			parts = append(parts, fmt.Sprintf("it would not have come back on %s", stampOf(e.until)))
		case e.until.IsZero() && !n.until.IsZero():
			parts = append(parts, fmt.Sprintf("it would have come back on %s", stampOf(n.until)))
		case !e.until.IsZero() && n.until.Sub(e.until).Abs() >= noticeable:
			parts = append(parts, fmt.Sprintf("it would have come back %s, on %s", laterBy(n.until.Sub(e.until)), stampOf(n.until)))
		}
	}
	for _, n := range now {
		if !slices.ContainsFunc(old, n.meets) {
			parts = append(parts, fmt.Sprintf("it would have gone down on %s too", stampOf(n.from)))
		}
	}
	if len(parts) == 0 {
		parts = append(parts, "its first verdict would have come at another time")
	}
	if more := len(parts) - tellMost; more > 0 {
		parts = append(parts[:tellMost], fmt.Sprintf("and %d more", more))
	}
	text := strings.Join(parts, "; ")
	if with != "" {
		text = "with " + with + " " + text
	}
	return text
}

// sawUntil says how many bad results the observers saw that did not vote for an
// episode that would not have been.
func (j judged) sawUntil(e episode) string {
	var parts []string
	for _, r := range j.runs {
		if !r.bad || !e.until.IsZero() && r.at.After(e.until) || r.at.Before(e.from.Add(-time.Hour)) {
			continue
		}
		if len(parts) == 0 {
			parts = append(parts, fmt.Sprintf("%s saw %d bad results", r.observer, r.results))
		} else {
			parts = append(parts, fmt.Sprintf("%s %d", r.observer, r.results))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

func laterBy(d time.Duration) string {
	if d < 0 {
		return d.Abs().Round(time.Second).String() + " earlier"
	}
	return d.Round(time.Second).String() + " later"
}

// stampOf prints a time as people say it.
func stampOf(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05Z") }
