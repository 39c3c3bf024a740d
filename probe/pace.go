package probe

import (
	"container/heap"
	"context"
	"math"
	"net/netip"
	"time"
)

const (
	// paceWindow is over how long starts are counted: a second, and what starts may
	// drift apart on their way.
	paceWindow = 1100 * time.Millisecond
	// minExtraRate is how many rechecks a second are always allowed: as many as a
	// small installation needs to see a loss at once.
	minExtraRate = 50
	// minHostRate is how many starts a second each host may get.
	minHostRate = 20
	// paceBeat is how often rechecks that wait for their host are looked at.
	paceBeat = 20 * time.Millisecond
)

// window remembers the last starts, to hold them to a number in any paceWindow.
type window struct {
	starts []time.Time // a ring as long as that number
	next   int         // the oldest, zero while there are fewer
}

// full reports whether one more start has to wait, and until when.
func (w *window) full(now time.Time) (time.Time, bool) {
	oldest := w.starts[w.next]
	if oldest.IsZero() {
		return time.Time{}, false
	}
	until := oldest.Add(paceWindow)
	return until, until.After(now)
}

// add counts a start, whether there was room or not.
func (w *window) add(now time.Time) {
	w.starts[w.next] = now
	w.next = (w.next + 1) % len(w.starts)
}

// resize makes the window hold n starts and keeps the latest.
func (w *window) resize(n int) {
	if len(w.starts) == n {
		return
	}
	var kept []time.Time
	for i := range w.starts { // oldest first
		if at := w.starts[(w.next+i)%len(w.starts)]; !at.IsZero() {
			kept = append(kept, at)
		}
	}
	kept = kept[max(len(kept)-n, 0):]
	w.starts, w.next = make([]time.Time, n), len(kept)%n
	copy(w.starts, kept)
}

// host is one endpoint's share of the pace.
type host struct {
	window window
	steady float64 // starts a second by the intervals of its probes
}

// pace bounds how often anything is asked. A regular start never waits for it:
// what was planned is the steady rate. Rechecks do, so that the loss of many
// targets at once starts no storm: the starts of any second are never more than
// twice the steady rate, to all hosts together and to each. What does not come to
// its recheck is asked again at its regular time.
type pace struct {
	all    window
	hosts  map[netip.Addr]*host
	extras []*probeState // rechecks that wait, in the order they came; see probeState.waiting
	look   time.Time     // when to look at them next
}

// adopt makes the pace that of the probes.
func (p *pace) adopt(probes map[ProbeID]*probeState) {
	old := p.hosts
	p.hosts = make(map[netip.Addr]*host, len(old))
	var steady float64
	for _, s := range probes {
		if s.checker == nil {
			continue
		}
		h := p.hosts[s.probe.Endpoint]
		if h == nil {
			if h = old[s.probe.Endpoint]; h == nil {
				h = &host{}
			}
			h.steady = 0
			p.hosts[s.probe.Endpoint] = h
		}
		s.host = h
		rate := 1 / s.probe.Check.Interval.Seconds()
		h.steady += rate
		steady += rate
	}
	for _, h := range p.hosts {
		h.window.resize(roomFor(max(2*h.steady, minHostRate), h.steady))
	}
	p.all.resize(roomFor(max(2*steady, steady+minExtraRate), steady))
}

// roomFor returns how many starts a window may hold for a recheck to be let in.
// Regular starts do not wait, and come unevenly: what more than the mean may still
// come is left free for them.
func roomFor(limit, steady float64) int {
	return max(int(limit-2*math.Sqrt(steady)), 1)
}

// holds reports whether a recheck of s has to wait. all says that every other one
// has to as well.
func (p *pace) holds(s *probeState, now time.Time) (held, all bool) {
	if _, full := p.all.full(now); full {
		return true, true
	}
	_, full := s.host.window.full(now)
	return full, false
}

// startDue starts what is due, oldest first, as far as there is room.
func (l *loop) startDue(now time.Time) {
	for len(l.heap) > 0 && l.running < l.p.cfg.MaxConcurrency && !l.heap[0].due.After(now) {
		s := heap.Pop(&l.heap).(*probeState)
		if s.recheck {
			if held, _ := l.pace.holds(s, now); held {
				l.hold(s, now)
				continue
			}
		}
		l.startRun(s, now)
	}
	if len(l.pace.extras) > 0 && !l.pace.look.After(now) {
		l.startExtras(now)
	}
}

// hold makes the recheck of s wait, at most until its regular start.
func (l *loop) hold(s *probeState, now time.Time) {
	s.wanted = s.due
	s.waiting, s.recheck = true, false
	if !s.queued {
		s.queued = true
		l.pace.extras = append(l.pace.extras, s)
	}
	s.due = l.slot(s, now)
	heap.Push(&l.heap, s)
	if l.pace.look.Before(now) {
		l.pace.look = now.Add(paceBeat)
	}
}

// startExtras starts the rechecks that the pace lets through, oldest first.
func (l *loop) startExtras(now time.Time) {
	p := &l.pace
	var kept []*probeState
	for i, s := range p.extras {
		if !s.waiting { // its regular start came first, or it is gone
			s.queued = false
			continue
		}
		held, all := p.holds(s, now)
		if all || l.running >= l.p.cfg.MaxConcurrency {
			kept = append(kept, p.extras[i:]...)
			break
		}
		if held {
			kept = append(kept, s)
			continue
		}
		s.queued = false
		heap.Remove(&l.heap, s.at)
		l.startRun(s, now)
	}
	p.extras = kept
	p.look = now.Add(paceBeat)
	if until, full := p.all.full(now); full && until.After(p.look) {
		p.look = until
	}
}

// startRun starts a run of s, which is not in the heap.
func (l *loop) startRun(s *probeState, now time.Time) {
	l.pace.all.add(now)
	s.host.window.add(now)
	s.waiting = false
	ctx, cancel := context.WithCancel(l.ctx)
	s.running, s.cancel = true, cancel
	l.running++
	probe, c, epoch := s.probe, s.checker, l.epoch
	// A goroutine a run: to grow its stack anew is 3 % of what a probe costs, and
	// workers would hold theirs while nothing is due.
	l.wg.Go(func() {
		defer cancel()
		l.results <- finished{s, epoch, l.p.measure(ctx, probe, c)}
	})
}

// schedule puts s in the heap for its next start: soon when the next result is
// wanted soon, else in its turn.
func (l *loop) schedule(s *probeState, soon bool, now time.Time) {
	s.due, s.recheck = l.slot(s, now), false
	if c := &s.probe.Check; soon && c.Recheck < c.Interval {
		// Also when that is past its next turn: a second look too soon after the first
		// would see the same.
		s.due, s.recheck = now.Add(c.Recheck), true
	}
	heap.Push(&l.heap, s)
}

// backlog returns how many starts wait for room or for the pace, and how late the
// oldest of them is.
func (l *loop) backlog(now time.Time) (n int, late time.Duration) {
	count := func(since time.Time) {
		n++
		late = max(late, now.Sub(since))
	}
	var below func(i int)
	below = func(i int) { // the due part of the heap is a tree at its root
		if i >= len(l.heap) || l.heap[i].due.After(now) {
			return
		}
		if s := l.heap[i]; !s.waiting {
			count(s.due)
		}
		below(2*i + 1)
		below(2*i + 2)
	}
	below(0)
	for _, s := range l.pace.extras {
		if s.waiting {
			count(s.wanted)
		}
	}
	return n, late
}
