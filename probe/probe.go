// Package probe runs checks against endpoints on a schedule and turns their
// results into this observer's votes. Beside votes it measures what the leader has
// to agree on before it counts: round trips to endpoints, the addresses of hostnames
// and the capacities that clusters report.
//
// It promises that a probe never overlaps itself, that no idle check holds a
// goroutine, that a wall-clock step changes nothing, and that a node which is
// blind, stalled or stale votes unknown rather than down (G9, G10). It measures
// and never judges: verdicts are made elsewhere from the votes of all observers.
package probe

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"net/netip"
	"sync"
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
	// TCP connect, to believe its own failures. Empty: not used. They come from the
	// node's own file, so Policy does not apply to them.
	Canaries []netip.AddrPort
	// PeersReachable reports whether any other node was heard from lately. When
	// none was and every target of every other cluster fails too, this node is
	// blind. It is called from the probing loop and must not block. Nil: not used.
	PeersReachable func() bool

	// Resolvers answer for the hostnames of clusters and of URLs. Empty: the system's.
	Resolvers []netip.AddrPort
	// Secret returns what a secret of this node holds, such as a CA in PEM. It is
	// called whenever a check is made, from any goroutine. Nil: there are none.
	Secret func(name string) ([]byte, error)

	// WrapDial wraps how probes and canaries connect. Nil: as they are.
	WrapDial func(next DialFunc) DialFunc

	// Clock is monotonic time, suspend included. Nil: the system's. Tests that run
	// on virtual time set it.
	Clock func() time.Duration

	Log        *slog.Logger          // nil: none
	Registerer prometheus.Registerer // nil: no metrics
}

// Prober runs a plan and holds the votes that follow from it.
type Prober struct {
	cfg        Config
	log        *slog.Logger
	metrics    *metrics
	runner     runner
	canaryDial DialFunc
	planned    chan struct{} // holds one token: next was set
	survey     *survey
	rtt        rttTable

	// Tests replace these to run in virtual time.
	measure    func(ctx context.Context, p Probe, c checker) outcome
	newChecker func(c Check, endpoint netip.Addr) (checker, error)
	bootTime   func() time.Duration

	mu      sync.Mutex // guards what follows
	next    Plan
	targets map[health.Target]TargetPlan // of the plan that runs
	samples map[ProbeID]*ring
	votes   map[health.Target]health.Vote
	shown   map[health.Target]health.Vote // a copy of votes that never changes; nil: none was asked for since they did
	changed chan struct{}                 // closed and replaced when votes change
	status  Status
}

// New returns a Prober with an empty plan that does nothing until Run.
func New(cfg Config) *Prober {
	cfg.MaxConcurrency = cmp.Or(max(cfg.MaxConcurrency, 0), defaultConcurrency)
	wrap := cfg.WrapDial
	if wrap == nil {
		wrap = func(next DialFunc) DialFunc { return next }
	}
	p := &Prober{
		cfg:     cfg,
		log:     cmp.Or(cfg.Log, slog.New(slog.DiscardHandler)),
		metrics: newMetrics(cfg.Registerer),
		runner: runner{
			dial:      telling(wrap(NewDialer(&cfg.Policy, cfg.Source)), cfg.Source),
			userAgent: "quorate/" + cmp.Or(cfg.Version, "dev"),
			authority: authorities{secret: cfg.Secret},
		},
		canaryDial: wrap(NewDialer(nil, cfg.Source)),
		planned:    make(chan struct{}, 1),
		bootTime:   bootTime,
		votes:      map[health.Target]health.Vote{},
		changed:    make(chan struct{}),
	}
	if cfg.Clock != nil {
		p.bootTime = cfg.Clock
	}
	started, boot := time.Now().Round(0), p.bootTime()
	p.runner.steady = func() time.Time { return started.Add(p.bootTime() - boot) }
	p.rtt.smoothed = map[netip.Addr]time.Duration{}
	// Resolvers are of the node's own file, so the policy does not apply to them.
	names := newResolver(&p.cfg, p.canaryDial)
	p.survey = newSurvey(cfg.Node, p.log, names, &capacityReader{dial: p.runner.dial, resolver: names, userAgent: p.runner.userAgent})
	p.newChecker = p.runner.newChecker
	p.measure = func(ctx context.Context, pr Probe, c checker) outcome {
		return measure(ctx, c, &pr.Check, nil)
	}
	return p
}

// Run probes until ctx is done, waits for the probes under way and returns nil.
// It is called once.
func (p *Prober) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { p.survey.run(ctx) })
	newLoop(ctx, p).run()
	wg.Wait()
	return nil
}

// SetPlan replaces the plan. Probes that stay keep what they have seen; those
// that are gone are not started again, and their votes, samples and metrics go.
// It may be called at any time, from any goroutine, and does not block.
func (p *Prober) SetPlan(plan Plan) {
	p.survey.setPlan(plan)
	p.mu.Lock()
	p.next = plan
	p.mu.Unlock()
	select {
	case p.planned <- struct{}{}:
	default: // the loop has not taken the plan before; it will take this one
	}
}

// takePlan returns the plan that was set last.
func (p *Prober) takePlan() Plan {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.next
}

// adopted notes that plan runs and forgets the samples of probes not in it.
func (p *Prober) adopted(plan Plan, probes map[ProbeID]*probeState) {
	targets := make(map[health.Target]TargetPlan, len(plan.Targets))
	for _, t := range plan.Targets {
		targets[t.Target] = t
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.targets = targets
	samples := make(map[ProbeID]*ring, len(probes))
	for id, s := range probes {
		samples[id] = s.samples
	}
	p.samples = samples
	p.rtt.keep(plan)
}

// keep remembers a result for people.
func (p *Prober) keep(samples *ring, res Result, reason uint8) {
	p.mu.Lock()
	defer p.mu.Unlock()
	samples.add(res, reason)
}

// publish makes the loop's votes and status visible.
func (l *loop) publish(now time.Time) {
	p := l.p
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status.Probes, p.status.Running = len(l.probes), l.running
	p.status.Backlog, p.status.Late = l.waiting, l.late
	if l.blind != p.status.Blind || l.stalled != p.status.Stalled {
		p.status.Blind, p.status.Stalled, p.status.Since = l.blind, l.stalled, now.Round(0).UTC()
		switch {
		case l.blind:
			p.status.Reason = l.whyBlind()
		case l.stalled:
			p.status.Reason = "it stood still"
		default:
			p.status.Reason = ""
		}
	}
	if len(l.changed) == 0 {
		return
	}
	for t, v := range l.changed {
		if v == nil {
			delete(p.votes, t)
			continue
		}
		p.votes[t] = *v
	}
	// Not cleared: one that was ever large is as slow to walk when it is empty.
	l.changed = map[health.Target]*health.Vote{}
	p.shown = nil
	close(p.changed)
	p.changed = make(chan struct{})
}

// Votes returns the current votes, one for every target of the plan. The map is
// shared and never changes: who wants to change it makes a copy.
func (p *Prober) Votes() map[health.Target]health.Vote {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown == nil {
		p.shown = maps.Clone(p.votes)
	}
	return p.shown
}

// Changed returns a channel that is closed at the next change of a vote. Take it
// before Votes, or a change in between is missed.
func (p *Prober) Changed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed
}

// Samples returns the last results of each check of a target, in the order of
// the plan, or nil for a target that is not probed.
func (p *Prober) Samples(t health.Target) []CheckResults {
	p.mu.Lock()
	defer p.mu.Unlock()
	plan, ok := p.targets[t]
	if !ok {
		return nil
	}
	var out []CheckResults
	for _, needs := range [][]Need{plan.All, plan.Any} {
		for _, n := range needs {
			out = append(out, CheckResults{n.Check, n.Probe, p.samples[n.Probe].list()})
		}
	}
	return out
}

// Status is an observer's opinion of itself.
type Status struct {
	Blind   bool      // its failures say nothing: all its votes are unknown
	Stalled bool      // it stood still and some probe has not run since
	Since   time.Time // wall clock, of the latest change; zero when well from the start
	Reason  string    // for people, of the latest change; empty when well
	Probes  int
	Running int

	Backlog int           // probes that are due and wait, for MaxConcurrency or for the pace of rechecks
	Late    time.Duration // how late the oldest of them is
}

// Status says what this observer thinks of itself.
func (p *Prober) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status
}
