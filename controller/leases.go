package controller

import (
	"context"
	"slices"
	"time"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

// Parts of the lease. The loop looks eight times a lease, so that a silent
// observer is set aside at most an eighth late; a loop that was held up for half
// a lease cannot tell whose silence it is looking at.
const (
	looksPerLease  = 8
	stallsPerLease = 2
)

// keepLeases sets observers aside whose lease is over, until ctx is done. When the
// loop itself stalled it sets all of them aside until they have confirmed anew:
// what this leader believed of their freshness may be as old as the stall.
func (c *Controller) keepLeases(ctx context.Context, t *tenure) {
	look := t.lease / looksPerLease
	last := t.clock()
	owed := false // a reset that is not committed yet
	for wait(ctx, look) {
		now := t.clock()
		if gap := now - last; gap > t.lease/stallsPerLease {
			c.log.Warn("leader stalled, observers must confirm anew", keyGap, gap)
			t.mu.Lock()
			t.resetLocked()
			t.mu.Unlock()
			owed = true
		}
		last = now
		if owed {
			owed = c.setAllAside(ctx) != nil
			last = t.clock() // a slow commit is no stall of this process
			continue
		}
		for _, id := range t.expired(observing(c.cfg.Store.State())) {
			c.setAside(ctx, id)
			last = t.clock()
		}
	}
}

// observing returns the observers whose silence would have to be recorded.
func observing(st *statestore.State) []health.ObserverID {
	var ids []health.ObserverID
	for id, o := range st.Observers {
		if !o.Silent {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

func (c *Controller) setAllAside(ctx context.Context) error {
	err := c.propose(ctx, statestore.ConfirmObservers{Reset: true, Observers: map[health.ObserverID]uint64{}}, c.actor)
	if err != nil && ctx.Err() == nil {
		c.log.Warn("observers not set aside after a stall", keyErr, err)
	}
	return err
}

func (c *Controller) setAside(ctx context.Context, id health.ObserverID) {
	if err := c.propose(ctx, statestore.ObserverSilent{Observer: id}, c.actor); err != nil && ctx.Err() == nil {
		c.log.Warn("silent observer not set aside", keyObserver, id, keyErr, err)
	}
}

// tickEvery is how late an expiry may be noticed: log time stands still between entries.
const tickEvery = 10 * time.Second

// keepTime moves log time on while something in the state has an end.
func (c *Controller) keepTime(ctx context.Context) {
	for wait(ctx, tickEvery) {
		if !c.cfg.Store.State().Deadlines() {
			continue
		}
		if err := c.propose(ctx, statestore.Tick{}, c.actor); err != nil && ctx.Err() == nil {
			c.log.Warn("log time not moved on", keyErr, err)
		}
	}
}
