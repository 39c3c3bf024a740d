package probe

import (
	"container/heap"
	"context"
	"encoding/binary"
	"hash/fnv"
	"sync"
	"time"

	"github.com/quorate/quorate/health"
)

const (
	// beat is the longest the loop sleeps: stale votes are noticed that late.
	beat = 500 * time.Millisecond
	// stallGap is the gap between two turns of the loop that counts as standing
	// still: three beats, more than a loaded machine needs, less than the shortest
	// observer lease.
	stallGap = 3 * beat
	// defaultConcurrency is how many probes run at once unless Config says otherwise.
	defaultConcurrency = 200
)

// probeState is one probe as the loop sees it. Only the loop touches it.
type probeState struct {
	probe   Probe
	checker checker // nil: the check cannot be made, see unmeasured
	h       hysteresis
	targets []*targetState
	series  []*series
	host    *host
	samples *ring         // guarded by Prober.mu
	phase   time.Duration // of its start within the interval

	due     time.Time
	at      int       // in the heap, -1: not
	recheck bool      // due is a recheck, not a regular start
	waiting bool      // for the pace, since wanted; due is its regular start
	queued  bool      // in pace.extras, waiting or not
	wanted  time.Time // of a recheck that waits

	running bool
	cancel  context.CancelFunc // of the run under way
	gone    bool               // no longer in the plan

	completed  time.Time     // the last run that counts ended
	unmeasured Reason        // not empty: the last run failed for a reason of this node
	staleAfter time.Duration // the longest that a target asks for
	failing    bool          // the last run reached nobody
	certExpiry time.Time
	degraded   degradation
}

// targetState is one target as the loop sees it.
type targetState struct {
	plan    TargetPlan
	cluster *clusterState
	place   *place
	all     []*probeState // in the order of plan.All
	any     []*probeState
	vote    health.Vote

	fresh time.Time // after which the vote has to be looked at again
	at    int       // in loop.fresh, -1: not
}

// clusterState is what tells a lost cluster from a lost network.
type clusterState struct {
	probes map[*probeState]struct{}
	alive  time.Time // when a host of it last answered anything
}

// failing reports whether every probe of the cluster last reached nobody.
func (c *clusterState) failing() bool {
	for s := range c.probes {
		if !s.failing {
			return false
		}
	}
	return true
}

// finished is one run that ended.
type finished struct {
	s     *probeState
	epoch uint64
	o     outcome
}

// loop is the one scheduler. It starts runs, takes their results and keeps the
// votes; all its state belongs to the goroutine of Run.
type loop struct {
	p     *Prober
	ctx   context.Context
	start time.Time // anchors the grid of starts

	probes   map[ProbeID]*probeState
	targets  map[health.Target]*targetState
	clusters map[string]*clusterState
	places   map[placeKey][]*targetState

	heap    dueHeap
	pace    pace
	fresh   freshHeap
	running int
	wg      sync.WaitGroup
	results chan finished

	canary        canaryWatch
	canaryResults chan bool
	isolated      time.Time // not zero: since when everything and every peer failed
	away          bool      // no peer could be heard at the last sweep, and there are no canaries
	blind         bool      // what votes were last computed with
	held          map[*probeState]struct{}

	epoch   uint64 // grows when what runs under way see stops counting
	seen    time.Time
	boot    time.Duration
	swept   time.Time
	stalled bool
	waiting int           // starts that were due at the last sweep
	late    time.Duration // of the oldest of them

	changed  map[health.Target]*health.Vote // to publish; nil: remove
	opinions []opinion                      // scratch of recomputeOne
}

func newLoop(ctx context.Context, p *Prober) *loop {
	now := time.Now()
	l := &loop{
		p: p, ctx: ctx, start: now, seen: now, swept: now,
		probes:  map[ProbeID]*probeState{},
		results: make(chan finished, p.cfg.MaxConcurrency), // so that no run waits for the loop
		held:    map[*probeState]struct{}{},
		changed: map[health.Target]*health.Vote{},

		canaryResults: make(chan bool, 1),
	}
	l.canary.due = now
	l.boot = p.bootTime()
	return l
}

// run turns until ctx is done.
func (l *loop) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	l.adopt(l.p.takePlan(), time.Now())
	for {
		now := l.wake()
		l.startCanaries(now)
		l.startDue(now)
		if now.Sub(l.swept) >= beat {
			l.sweep(now)
		}
		l.publish(now)
		timer.Reset(l.sleep(now))
		select {
		case <-l.ctx.Done():
			l.stop()
			return
		case <-timer.C:
		case f := <-l.results:
			l.finish(f, l.wake())
		case answered := <-l.canaryResults:
			now := l.wake()
			if answered && l.canary.failed > 0 {
				l.beginAnew()
			}
			l.canary.end(answered, now)
			l.retryHeld(now)
		case <-l.p.planned:
			l.adopt(l.p.takePlan(), l.wake())
			l.seen, l.boot = time.Now(), l.p.bootTime() // to take up a large plan is no standstill
		}
		l.updateBlind(time.Now())
	}
}

// stop waits for everything under way; ctx is done, so it is short.
func (l *loop) stop() {
	l.wg.Wait()
	for _, s := range l.probes {
		if s.checker != nil {
			s.checker.close()
		}
	}
	for len(l.results) > 0 {
		if f := <-l.results; f.s.gone && f.s.checker != nil {
			f.s.checker.close()
		}
	}
}

// sleep returns how long nothing is due.
func (l *loop) sleep(now time.Time) time.Duration {
	next := l.swept.Add(beat)
	if l.running < l.p.cfg.MaxConcurrency {
		if len(l.heap) > 0 && l.heap[0].due.Before(next) {
			next = l.heap[0].due
		}
		if len(l.pace.extras) > 0 && l.pace.look.Before(next) {
			next = l.pace.look
		}
	}
	if len(l.p.cfg.Canaries) > 0 && !l.canary.running && l.canary.due.Before(next) {
		next = l.canary.due
	}
	return max(next.Sub(now), 0)
}

func (l *loop) startCanaries(now time.Time) {
	if len(l.p.cfg.Canaries) == 0 || l.canary.running || l.canary.due.After(now) {
		return
	}
	l.canary.begin(now)
	l.wg.Go(func() { l.canaryResults <- askCanaries(l.ctx, l.p.canaryDial, l.p.cfg.Canaries) })
}

// finish takes the result of a run.
func (l *loop) finish(f finished, now time.Time) {
	s, o := f.s, f.o
	l.running--
	s.running, s.cancel = false, nil
	if s.gone {
		if s.checker != nil {
			s.checker.close()
		}
		return
	}
	if !o.unmeasured {
		l.noteReach(s, o.reached, now)
	}
	cut := f.epoch != l.epoch
	aside := !o.OK && (l.isBlind() || cut)
	if aside && l.isBlind() {
		o.Reason = ReasonCanary
	}
	if !o.CertExpiry.IsZero() && !o.CertExpiry.Equal(s.certExpiry) {
		s.certExpiry = o.CertExpiry
		l.showExpiry(s)
	}
	reason := reasonIndex(o.Reason)
	for _, k := range s.series {
		k.observe(reason, o.Took, now)
	}
	l.p.keep(s.samples, o.Result, reason)
	l.p.rtt.add(s.probe.Endpoint, o.RTT)

	if o.Reason == ReasonDenied && s.unmeasured != ReasonDenied {
		l.p.log.Warn("this node may not probe the address; votes that need it are unknown", keyProbe, s.probe.Names[0].String(), keyErr, o.Detail)
	}
	s.unmeasured = ""
	switch {
	case o.unmeasured:
		s.unmeasured = o.Reason
	case !aside:
		if s.outdated(now) {
			s.h.doubt(ReasonStale)
			s.degraded.run = 0
		}
		s.completed = now
		fresh := s.h.run == 0 || s.h.runOK
		l.turn(s, s.h.add(o.OK, o.Reason, now), now)
		if o.OK {
			s.degraded.add(o.Degraded, s.h.fall, s.h.rise)
		}
		if !o.OK && fresh && s.h.run > 0 {
			l.canary.ask(now) // by the time fall is reached we want to know
		}
	}
	l.schedule(s, !o.unmeasured && s.h.suspect() && !l.isBlind(), now)
	if o.reached && len(l.held) > 0 {
		l.retryHeld(now)
	}
	l.recompute(s.targets, now)
}

// slot returns the next start of s on its grid after now. Starts that were
// missed are not made up for.
func (l *loop) slot(s *probeState, now time.Time) time.Time {
	first := l.start.Add(s.phase)
	if first.After(now) {
		return first
	}
	n := now.Sub(first)/s.probe.Check.Interval + 1
	return first.Add(n * s.probe.Check.Interval)
}

// phaseOf spreads probes over the interval, differently on each node.
func phaseOf(node string, id ProbeID, interval time.Duration) time.Duration {
	h := fnv.New128a()
	_, _ = h.Write([]byte(node + "\x00" + string(id))) // a hash never fails
	return time.Duration(binary.BigEndian.Uint64(h.Sum(nil)) % uint64(interval))
}

// turn gives s the side its run has reached and reports whether it did. Down waits
// for evidence that this node is not the sick party (G9).
func (l *loop) turn(s *probeState, reached health.Side, now time.Time) bool {
	delete(l.held, s)
	switch {
	case reached == health.Up, reached == health.Down && l.believes(s):
		s.h.turn(reached)
		return true
	case reached == health.Down:
		l.held[s] = struct{}{}
		l.canary.ask(now)
	}
	return false
}

// retryHeld looks again at the probes that wait for evidence.
func (l *loop) retryHeld(now time.Time) {
	for s := range l.held {
		if l.turn(s, s.h.reached(), now) {
			l.recompute(s.targets, now)
		}
	}
}

// wake returns the time, having looked whether the loop stood still since it was
// last asked. If it did, what was seen before is doubted, runs under way do not
// count, and what is overdue takes its next turn instead of all at once.
func (l *loop) wake() time.Time {
	boot, now := l.p.bootTime(), time.Now()
	gap := max(now.Sub(l.seen), boot-l.boot)
	l.seen, l.boot = now, boot
	if gap > stallGap {
		l.resume(gap, now)
	}
	return now
}

// resume goes on after the loop stood still for gap.
func (l *loop) resume(gap time.Duration, now time.Time) {
	l.p.log.Warn("observer stood still; its votes are unknown until it has probed again", keyGap, gap)
	l.stalled = true
	l.doubt(ReasonStalled, now)
	for _, s := range l.heap {
		if s.due.Before(now) {
			s.due, s.recheck = l.slot(s, now), false
		}
		s.waiting = false
	}
	heap.Init(&l.heap)
	l.canary.ask(now)
}

// doubt withholds every probe's side until a new result confirms it.
func (l *loop) doubt(why Reason, now time.Time) {
	l.epoch++
	clear(l.held)
	for _, s := range l.probes {
		s.h.doubt(why)
		s.degraded.run = 0
	}
	l.recomputeAll(now)
}

// sweep looks at what time alone changes.
func (l *loop) sweep(now time.Time) {
	l.swept = now
	l.heedPeers()
	l.retryHeld(now)
	l.checkIsolation()
	l.updateBlind(now)
	if l.stalled {
		l.stalled = false
		for _, s := range l.probes {
			l.stalled = l.stalled || !s.h.sure && s.h.why == ReasonStalled
		}
	}
	l.recomputeStale(now)
	l.waiting, l.late = l.backlog(now)
	l.p.metrics.backlog.Set(float64(l.waiting))
	l.p.metrics.late.Set(l.late.Seconds())
}
