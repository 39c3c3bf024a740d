// Package probe runs checks against endpoints on a schedule and turns their
// results into this observer's votes.
//
// It promises that a probe never overlaps itself, that no idle check holds a
// goroutine, that a wall-clock step changes nothing, and that a node which is
// blind, stalled or stale votes unknown rather than down (G9, G10). It measures
// and never judges: verdicts are made elsewhere from the votes of all observers.
package probe

import (
	"context"
	"log/slog"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/health"
)

// Config is what a Prober needs. The zero value works, with no canaries.
type Config struct {
	Node           string // spreads starts differently on each observer
	Version        string // sent as User-Agent quorate/VERSION
	MaxConcurrency int    // probes at once; zero: 200
	Policy         AddressPolicy
	Source         Source

	// Canaries are addresses this node must be able to reach, by DNS query or
	// TCP connect, to believe its own failures. Empty: not used.
	Canaries []netip.AddrPort
	// PeersReachable reports whether any other node was heard from lately. When
	// none was and every target of every other cluster fails too, this node is
	// blind. It is called from the probing loop and must not block. Nil: not used.
	PeersReachable func() bool

	// WrapDial wraps how probes and canaries connect. Nil: as they are.
	WrapDial func(next DialFunc) DialFunc

	Log        *slog.Logger          // nil: none
	Registerer prometheus.Registerer // nil: no metrics
}

// Prober runs a plan and holds the votes that follow from it.
type Prober struct {
	cfg Config
}

// New returns a Prober with an empty plan that does nothing until Run.
func New(cfg Config) *Prober { return &Prober{cfg: cfg} }

// Run probes until ctx is done, waits for the probes under way and returns nil.
func (p *Prober) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// SetPlan replaces the plan. Probes that stay keep what they have seen; those
// that are gone are not started again, and their votes, samples and metrics go.
// It may be called at any time, from any goroutine, and does not block.
func (p *Prober) SetPlan(plan Plan) {}

// Votes returns a copy of the current votes, one for every target of the plan.
func (p *Prober) Votes() map[health.Target]health.Vote { return nil }

// Changed returns a channel that is closed at the next change of a vote.
func (p *Prober) Changed() <-chan struct{} { return nil }

// Samples returns the last results of each check of a target, or nil.
func (p *Prober) Samples(t health.Target) []CheckResults { return nil }

// Status says what this observer thinks of itself.
func (p *Prober) Status() Status { return Status{} }

// Status is an observer's opinion of itself.
type Status struct {
	Blind   bool
	Stalled bool      // until every probe has run again
	Since   time.Time // wall clock, of the latest change; zero when well from the start
	Reason  string    // for people; empty when well
	Probes  int
	Running int
}

// Once runs one check of one endpoint outside the schedule, under the check's
// own timeout. It changes no vote and no metric.
func (p *Prober) Once(ctx context.Context, check Check, endpoint netip.Addr) Result { return Result{} }
