// Package controller is the leader's loop: it keeps the leases of observers,
// stores their votes in batches, hears what they measure, measures waits, hears which
// nodes have stopped answering with the source of a cutover, and commits what policy
// concludes.
//
// It runs only on a leader that has passed a barrier, and every round starts from
// a fresh read of the state, so that a missed signal costs time and never a wrong
// step. It decides nothing itself: policy judges, Apply checks. Nothing it keeps
// in memory outlives its leadership.
package controller

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/statestore"
)

// ErrNotLeading says that this node does not lead, so it may not take reports.
var ErrNotLeading = errors.New("this node is not the leader")

// ErrNotObserver says that the reporting node is no member that observes.
var ErrNotObserver = errors.New("not a member that observes")

// Store is the replicated state as this node has it. *statestore.Store is one.
type Store interface {
	State() *statestore.State
	Changed() <-chan struct{}
}

// Propose commits a command as actor. A nil error means that it is applied here
// and Result.Err is the state machine's refusal; any other means the outcome is
// unknown or it was not done.
type Propose func(ctx context.Context, cmd statestore.Command, actor string) (statestore.Result, error)

// Config is what a Controller needs. Name, Store, Propose and Lease are required.
type Config struct {
	Name       string // of this node
	Store      Store
	Propose    Propose
	Lease      time.Duration         // how long an observer may be silent; see consensus.Profile.ObserverLease
	Log        *slog.Logger          // carries the node's name; nil: none
	Registerer prometheus.Registerer // nil: none

	// Duties run beside the loop while it leads; each ends when its context does.
	Duties []func(ctx context.Context)

	// Clock is monotonic time, suspend included. Nil: the system's. Tests that
	// run on virtual time set it.
	Clock func() time.Duration
}

// Controller leads while Run runs. Its other methods may be called at any time.
type Controller struct {
	cfg     Config
	log     *slog.Logger
	actor   string // of what the leader does without concluding anything
	metrics *metrics

	mu  sync.Mutex
	led *tenure // nil: not leading
}

// New returns a Controller that leads nothing until Run.
func New(cfg Config) *Controller {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Clock == nil {
		cfg.Clock = bootClock()
	}
	c := &Controller{cfg: cfg, log: cfg.Log, actor: "node/" + cfg.Name}
	c.metrics = newMetrics(c)
	return c
}

// Run leads in term until ctx is done, and returns nil then. The caller has won
// the election and passed a barrier, so that the state holds all that earlier
// leaders committed. It must not be called twice at once.
func (c *Controller) Run(ctx context.Context, term uint64) error {
	first, err := randomNonce()
	if err != nil {
		return fmt.Errorf("lead term %d: %w", term, err)
	}
	t := newTenure(term, c.cfg.Lease, c.cfg.Clock, first)
	c.mu.Lock()
	c.led = t
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.led = nil
		c.mu.Unlock()
		t.end()
	}()

	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { c.flushVotes(ctx, t) })
	wg.Go(func() { c.keepLeases(ctx, t) })
	wg.Go(func() { c.keepTime(ctx) })
	wg.Go(func() { c.tell(ctx, t) })
	for _, duty := range c.cfg.Duties {
		wg.Go(func() { duty(ctx) })
	}
	wg.Go(func() { c.keepWaits(ctx, t) })
	c.decide(ctx, t)
	return nil
}

// leading returns the present tenure, or nil.
func (c *Controller) leading() *tenure {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.led
}

// propose commits cmd and gives back one error for both kinds of failure.
func (c *Controller) propose(ctx context.Context, cmd statestore.Command, actor string) error {
	res, err := c.cfg.Propose(ctx, cmd, actor)
	if err != nil {
		return err
	}
	return res.Err
}

// randomNonce returns the first nonce of a tenure: no earlier leader's can equal it.
func randomNonce() (uint64, error) {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return 0, fmt.Errorf("draw nonce: %w", err)
	}
	// The top bit stays clear so that counting up never wraps to zero, which
	// stands for no nonce.
	return binary.BigEndian.Uint64(b[:])>>1 | 1, nil
}

// wait waits for d; false when ctx is done first.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
