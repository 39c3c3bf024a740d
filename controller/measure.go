package controller

import (
	"context"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/statestore"
)

const (
	// measuredFor is how long what an observer measured counts: three reports may get
	// lost before it is missed.
	measuredFor = 20 * time.Second

	// measuredEvery spaces looks at what observers measured. Only addresses that
	// changed are looked at sooner: clients may be waiting for them.
	measuredEvery = time.Second

	// maxNamed bounds the addresses one observer may name for a cluster. It is above
	// what a cluster may have in both families, so that agreement decides.
	maxNamed = 4 * statestore.MaxResolved
)

// Measurement is what an observer measured lately, all of it: what it leaves out it
// does not know any more.
type Measurement struct {
	RTT      map[netip.Addr]statestore.Duration `json:"rtt,omitempty"`      // smoothed, by endpoint
	Resolved map[string]Resolved                `json:"resolved,omitempty"` // by cluster
	Capacity map[string]float64                 `json:"capacity,omitempty"` // by cluster; see statestore.CapacityFrom
}

// Resolved is what the observer's resolver says of a cluster's hostname.
type Resolved struct {
	Hostname string       `json:"hostname"`
	Addrs    []netip.Addr `json:"addrs"`
}

// Measure takes what the node called from measured; the transport has authenticated
// it. It is kept for this leadership only, and for measuredFor: nodes repeat it.
func (c *Controller) Measure(_ context.Context, from string, m Measurement) error {
	t := c.leading()
	if t == nil {
		return ErrNotLeading
	}
	st := c.cfg.Store.State()
	if member := st.Members[from]; member == nil || !member.Observes {
		return fmt.Errorf("measurement of %s: %w", from, ErrNotObserver)
	}
	if t.measure(known(st, health.ObserverID(from), m)) {
		select {
		case t.arrived <- struct{}{}:
		default: // the loop has not seen the one before
		}
	}
	return nil
}

// known keeps of m what the spec asks observers to measure, in the shape that policy
// takes: no node can make the leader hold, or conclude from, what nobody configured.
func known(st *statestore.State, from health.ObserverID, m Measurement) policy.Measurement {
	out := policy.Measurement{
		Observer: from,
		RTT:      map[netip.Addr]time.Duration{}, Resolved: map[string]policy.Resolved{}, Capacity: map[string]float64{},
	}
	for name, cl := range st.Spec.Clusters {
		for _, a := range cl.Endpoints() {
			if rtt := m.RTT[a].D(); rtt > 0 {
				out.RTT[a] = rtt
			}
		}
		if r, ok := m.Resolved[name]; ok && cl.Hostname != "" && strings.EqualFold(r.Hostname, cl.Hostname) {
			if addrs := distinct(r.Addrs); len(addrs) > 0 {
				out.Resolved[name] = policy.Resolved{Hostname: cl.Hostname, Addrs: addrs}
			}
		}
		if v, ok := m.Capacity[name]; ok && cl.CapacityFrom != nil && v >= 0 && !math.IsInf(v, 0) {
			out.Capacity[name] = v
		}
	}
	return out
}

// distinct returns the valid addresses once each, sorted, and no more than maxNamed.
func distinct(addrs []netip.Addr) []netip.Addr {
	var out []netip.Addr
	for _, a := range addrs {
		if a.IsValid() {
			out = append(out, a.Unmap().WithZone(""))
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	out = slices.Compact(out)
	return slices.Clip(out[:min(len(out), maxNamed)])
}

// measured is what one observer said, and when on the leader's clock.
type measured struct {
	policy.Measurement
	at time.Duration
}

// measure keeps m in place of what the observer said before, and reports whether that
// cannot wait for the next round: addresses or a capacity changed. Round trips can.
func (t *tenure) measure(m policy.Measurement) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return false
	}
	was := t.said[m.Observer]
	t.said[m.Observer] = measured{m, t.clock()}
	moved := !maps.EqualFunc(was.Resolved, m.Resolved, func(a, b policy.Resolved) bool {
		return a.Hostname == b.Hostname && slices.Equal(a.Addrs, b.Addrs)
	})
	t.moved = t.moved || moved
	t.unconcluded = t.unconcluded || moved || !maps.Equal(was.Capacity, m.Capacity)
	return t.unconcluded
}

// untilConcluded is how long until what observers measured may be looked at again.
func (t *tenure) untilConcluded() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.untilConcludedLocked(t.clock())
}

func (t *tenure) untilConcludedLocked(now time.Duration) time.Duration {
	every := measuredEvery
	if t.moved {
		every = batchWindow // all observers see the same change
	}
	return max(every-(now-t.concluded), 0)
}

// conclude returns what observers measured lately, by name, and for how long this leader
// has listened; ok is false when it is too soon to look again, and wait then says for
// how long the loop may sleep. Who has been quiet for too long is forgotten.
func (t *tenure) conclude() (ms []policy.Measurement, listening, wait time.Duration, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock()
	if wait := t.untilConcludedLocked(now); wait > 0 {
		if !t.unconcluded {
			wait = replan
		}
		return nil, 0, wait, false
	}
	t.concluded, t.moved, t.unconcluded = now, false, false
	for id, m := range t.said {
		if now-m.at > measuredFor {
			delete(t.said, id)
			continue
		}
		ms = append(ms, m.Measurement)
	}
	slices.SortFunc(ms, func(a, b policy.Measurement) int { return strings.Compare(string(a.Observer), string(b.Observer)) })
	return ms, now - t.listens, replan, true
}

// commitMeasured commits what follows from what observers measured and returns how
// long the loop may sleep at most.
func (c *Controller) commitMeasured(ctx context.Context, t *tenure, back map[string]held) time.Duration {
	ms, listening, next, ok := t.conclude()
	if !ok {
		return next
	}
	var plan []policy.Proposal
	st := c.cfg.Store.State()
	t.spaced.forget(c.cfg.Clock())
	for _, p := range policy.Measured(st, ms, listening) {
		if _, is := p.Command.(statestore.MeasureLatency); is {
			if since := c.cfg.Clock() - t.ranked; since < policy.LatencyEvery {
				next = min(next, policy.LatencyEvery-since)
				continue
			}
			t.ranked = c.cfg.Clock()
		}
		if wait := t.spaced.wait(st, p, c.cfg.Clock()); wait > 0 {
			next = min(next, wait)
			continue
		}
		plan = append(plan, p)
	}
	return min(next, c.commitAll(ctx, plan, back))
}
