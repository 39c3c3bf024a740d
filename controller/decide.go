package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/statestore"
)

const (
	// replan is how often the loop looks without being told: a lost signal then
	// costs time only.
	replan = 5 * time.Second

	// inFlight bounds proposals under way at once. A lost cluster turns all its
	// services, and one round trip after the other would take minutes on a WAN.
	inFlight = 64

	// The same conclusion is tried again after retryFirst, then after twice as
	// long each time. A refusal is an entry in the log too: a plan that can never
	// be applied must not fill it.
	retryFirst   = 500 * time.Millisecond
	retryLost    = 2 * time.Second // at most, when it was not committed
	retryRefused = 30 * time.Second
)

// held is a conclusion that was not applied.
type held struct {
	until time.Duration // it is not proposed again before
	delay time.Duration
}

// backOff holds what was not applied, by keyOf: of what the state leads to and of what
// observers measured, which are not looked at in the same rounds.
type backOff struct{ planned, measured map[string]held }

// decide commits what policy concludes, until ctx is done.
func (c *Controller) decide(ctx context.Context, t *tenure) {
	back := backOff{map[string]held{}, map[string]held{}}
	for ctx.Err() == nil {
		changed := c.cfg.Store.Changed() // before State, so that nothing is missed
		t.rest(ctx, changed, c.round(ctx, t, back))
	}
}

// rest waits until there is something to decide, at most for d. What observers
// measured is looked at no sooner than it may be.
func (t *tenure) rest(ctx context.Context, changed <-chan struct{}, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	over := t.clock() + d
	for {
		select {
		case <-t.arrived:
			timer.Reset(min(t.untilConcluded(), max(over-t.clock(), 0)))
			continue
		case <-ctx.Done():
		case <-changed:
		case <-t.plan:
		case <-timer.C:
		}
		return
	}
}

// round commits one plan, then what follows from what observers measured, and
// returns how long the loop may sleep at most.
func (c *Controller) round(ctx context.Context, t *tenure, back backOff) time.Duration {
	st := c.cfg.Store.State()
	waits, next := t.waits(st)
	next = min(next, c.commitAll(ctx, policy.Plan(st, waits), back.planned))
	if ctx.Err() != nil {
		return 0
	}
	// From a fresh read: what was just committed is part of what it stands on.
	return min(next, c.commitMeasured(ctx, t, back.measured))
}

// commitAll commits the conclusions that do not wait for another try, and returns how
// long the loop may sleep at most.
func (c *Controller) commitAll(ctx context.Context, plan []policy.Proposal, back map[string]held) time.Duration {
	next := replan
	now := c.cfg.Clock()
	var ready []policy.Proposal
	planned := map[string]bool{}
	for _, p := range plan {
		key := keyOf(p)
		planned[key] = true
		if h, waits := back[key]; waits && h.until > now {
			next = min(next, h.until-now)
			continue
		}
		ready = append(ready, p)
	}
	for key := range back {
		if !planned[key] {
			delete(back, key) // its cause is gone, and with it what refused it
		}
	}
	for i, err := range c.proposeAll(ctx, ready) {
		p, key := ready[i], keyOf(ready[i])
		if err == nil {
			delete(back, key)
			c.metrics.done(p)
			continue
		}
		if ctx.Err() != nil {
			return 0
		}
		limit := retryLost
		var refusal *statestore.Refusal
		if errors.As(err, &refusal) {
			limit = retryRefused
		}
		h := back[key]
		h.delay = min(max(2*h.delay, retryFirst), limit)
		h.until = c.cfg.Clock() + h.delay
		back[key] = h
		next = min(next, max(h.until-c.cfg.Clock(), 0))
		c.blocked(ctx, p, err)
	}
	return next
}

// keyOf tells conclusions apart: one drawn from something else is another.
func keyOf(p policy.Proposal) string {
	body, err := json.Marshal(p.Command)
	if err != nil {
		return p.Subject // plain data always encodes
	}
	return fmt.Sprint(p.Command.Kind(), p.Subject, string(body))
}

// proposeAll commits proposals side by side and returns an error for each. A
// freeze goes last, so that it does not refuse what the budget still covered.
func (c *Controller) proposeAll(ctx context.Context, ps []policy.Proposal) []error {
	errs := make([]error, len(ps))
	var wg sync.WaitGroup
	slots := make(chan struct{}, inFlight)
	for i, p := range ps {
		if _, freezes := p.Command.(statestore.FreezeService); freezes {
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			errs[i] = c.propose(ctx, p.Command, statestore.Automation)
		})
	}
	wg.Wait()
	for i, p := range ps {
		if _, freezes := p.Command.(statestore.FreezeService); freezes {
			errs[i] = c.propose(ctx, p.Command, statestore.Automation)
		}
	}
	return errs
}

// blocked deals with a proposal that was not applied.
func (c *Controller) blocked(ctx context.Context, p policy.Proposal, err error) {
	var refusal *statestore.Refusal
	switch {
	case errors.Is(err, statestore.ErrStale), errors.Is(err, statestore.ErrFrozen),
		errors.Is(err, statestore.ErrDecided), errors.Is(err, statestore.ErrEvidence):
		return // ordinary: somebody else was first
	case errors.Is(err, statestore.ErrBudget):
		c.metrics.refused(p, "budget")
		f := policy.BudgetFreeze(c.cfg.Store.State(), nil)
		if _, frozen := c.cfg.Store.State().Freezes[""]; frozen {
			return
		}
		if err := c.propose(ctx, f.Command, statestore.Automation); err != nil && ctx.Err() == nil {
			c.log.Error("automation exceeds its budget and could not be frozen", keyErr, err)
		}
	case errors.As(err, &refusal):
		c.metrics.refused(p, refusal.Code)
		c.log.Warn("conclusion refused", keySubject, p.Subject, keyReason, p.Reason, keyErr, err)
	default:
		c.metrics.refused(p, "unavailable")
		c.log.Warn("conclusion not committed", keySubject, p.Subject, keyReason, p.Reason, keyErr, err)
	}
}
