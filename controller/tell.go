package controller

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/statestore"
)

// outvotedAfter is how long an observer must contradict a verdict before it is
// named in the log: on a real fault the first to see it is alone for a moment.
const outvotedAfter = 3 * time.Second

// tell writes the operator's timeline while this node leads: one line a fact.
// What happened before is the earlier leader's to tell.
func (c *Controller) tell(ctx context.Context, t *tenure) {
	last := c.cfg.Store.State()
	odd := map[oddity]time.Duration{}  // since when; negative: told
	held := map[string]time.Duration{} // likewise, by cutover
	unwell := degraded(last)
	for {
		changed := c.cfg.Store.Changed()
		st := c.cfg.Store.State()
		c.tellVerdicts(last, st)
		c.tellRotations(last, st)
		c.tellObservers(last, st)
		c.tellFreezes(last, st)
		c.tellCutovers(last, st)
		c.tellOverrides(last, st)
		c.tellClusters(last, st)
		c.tellDegraded(last, st, unwell)
		next := min(c.tellOutvoted(st, odd, t.clock()), c.tellHeldUp(st, t, held))
		last = st
		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
		case <-changed:
		case <-timer.C:
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

func (c *Controller) tellVerdicts(last, st *statestore.State) {
	for _, target := range turned(last, st) {
		ts, _ := st.Target(target)
		was, _ := last.Target(target)
		j := health.Judge(ts.Verdict.Side, st.Ballots(target), st.Rule(target))
		level, need := slog.LevelInfo, j.Need.Up
		if ts.Verdict.Side == health.Down {
			level, need = slog.LevelWarn, j.Need.Down
		}
		c.log.Log(context.Background(), level, "target went "+ts.Verdict.Side.String(),
			keyIndex, ts.Verdict.Index, keyTarget, target.String(), keyUp, j.Up, keyDown, j.Down, keyQuorum, need, keyWas, was.Verdict.Side.String())
	}
}

// turned returns the targets of both states whose verdict changed, sorted. What
// an entry did not touch is the same object in both.
func turned(last, st *statestore.State) []health.Target {
	var targets []health.Target
	compare := func(was, is map[health.Target]*statestore.TargetState) {
		for t, ts := range is {
			if old := was[t]; old != nil && old.Verdict.Number != ts.Verdict.Number {
				targets = append(targets, t)
			}
		}
	}
	for name, ss := range st.Services {
		if old := last.Services[name]; old != nil && old != ss {
			compare(old.Targets, ss.Targets)
		}
	}
	for name, cs := range st.Clusters {
		if old := last.Clusters[name]; old != nil && old != cs {
			compare(old.Targets, cs.Targets)
		}
	}
	slices.SortFunc(targets, health.CompareTargets)
	return targets
}

func (c *Controller) tellRotations(last, st *statestore.State) {
	var moved []string
	for service, ss := range st.Services {
		if was := last.Services[service]; was != nil && was.Rotation.Number != ss.Rotation.Number {
			moved = append(moved, service)
		}
	}
	slices.Sort(moved)
	for _, service := range moved {
		r := st.Services[service].Rotation
		c.log.Info("rotation changed", keyIndex, r.Index, keyService, service, keyNumber, r.Number, keyBy, r.By, keyReason, r.Reason)
	}
}

func (c *Controller) tellObservers(last, st *statestore.State) {
	for _, id := range slices.Sorted(maps.Keys(st.Observers)) {
		o, was := st.Observers[id], last.Observers[id]
		switch {
		case was == nil:
		case o.Silent && !was.Silent:
			c.log.Warn("observer is silent, its votes are set aside", keyIndex, st.Index, keyObserver, id)
		case !o.Silent && was.Silent:
			c.log.Info("observer is back", keyIndex, st.Index, keyObserver, id)
		}
	}
}

func (c *Controller) tellFreezes(last, st *statestore.State) {
	for _, service := range slices.Sorted(maps.Keys(st.Freezes)) {
		f := st.Freezes[service]
		if was := last.Freezes[service]; was == nil || was.Version != f.Version {
			c.log.Warn("automation frozen", keyIndex, st.Index, keyService, service, keyBy, f.By, keyReason, f.Reason)
		}
	}
	for _, service := range slices.Sorted(maps.Keys(last.Freezes)) {
		if st.Freezes[service] == nil {
			c.log.Info("automation thawed", keyIndex, st.Index, keyService, service)
		}
	}
}

// oddity is one observer that contradicts one verdict.
type oddity struct {
	observer health.ObserverID
	target   health.Target
	side     health.Side
}

// tellOutvoted names observers that have contradicted a verdict for a while (G1,
// G9) and returns when to look again.
func (c *Controller) tellOutvoted(st *statestore.State, odd map[oddity]time.Duration, now time.Duration) time.Duration {
	next := replan
	present := map[oddity]bool{}
	for _, d := range policy.Disagreements(st) {
		o := oddity{d.Observer, d.Target, d.Side}
		present[o] = true
		since, known := odd[o]
		switch {
		case !known:
			odd[o] = now
			next = min(next, outvotedAfter)
		case since < 0:
		case now-since >= outvotedAfter:
			odd[o] = -1
			c.log.Warn("observer is outvoted", keyIndex, st.Index, keyObserver, d.Observer, keyTarget, d.Target.String(),
				keySide, d.Side.String(), keyVerdict, d.Verdict.String(), keyReason, d.Reason)
		default:
			next = min(next, outvotedAfter-(now-since))
		}
	}
	for o := range odd {
		if !present[o] {
			delete(odd, o)
		}
	}
	return next
}
