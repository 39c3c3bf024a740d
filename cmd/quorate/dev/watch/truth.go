package watch

import (
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Truth knows which addresses a name may be answered with now: those of the
// committed rotation, and for a grace those of the one before, since a commit
// reaches each node in its own time.
type Truth struct {
	grace time.Duration

	mu    sync.Mutex // guards what follows
	sets  []committed
	holds map[string]hold // by node
}

// committed is one committed set of addresses and when it was replaced.
type committed struct {
	addrs []netip.Addr
	from  time.Time
	until time.Time // zero: current
}

// hold is a time in which a node was cut off.
type hold struct {
	since time.Time
	until time.Time // zero: still
}

// NewTruth returns a truth that allows nothing yet. A replaced answer stays right
// for grace.
func NewTruth(grace time.Duration) *Truth {
	return &Truth{grace: grace, holds: map[string]hold{}}
}

// Commit says that from now on the name is answered with addrs. It does nothing
// when that is so already.
func (t *Truth) Commit(addrs []netip.Addr, now time.Time) {
	addrs = slices.Clone(addrs)
	slices.SortFunc(addrs, netip.Addr.Compare)
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.sets); n > 0 {
		if slices.Equal(t.sets[n-1].addrs, addrs) {
			return
		}
		t.sets[n-1].until = now
	}
	t.sets = append(t.sets, committed{addrs: addrs, from: now})
}

// Hold says that node is cut off: what was right when it was stays right for it
// until Release.
func (t *Truth) Hold(node string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.holds[node] = hold{since: now}
}

// Release ends a hold; the node has the grace from now to catch up.
func (t *Truth) Release(node string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h, ok := t.holds[node]; ok {
		h.until = now
		t.holds[node] = h
	}
}

// Allows reports whether node may answer with exactly these addresses to a
// question of that time.
func (t *Truth) Allows(node string, addrs []netip.Addr, asked time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	h, held := t.holds[node]
	held = held && (h.until.IsZero() || asked.Sub(h.until) <= t.grace)
	for _, s := range t.sets {
		over := !s.until.IsZero() && asked.Sub(s.until) > t.grace
		if held && !s.until.Add(t.grace).Before(h.since) {
			over = false // it was right when the node was cut off
		}
		if over {
			continue
		}
		if !slices.ContainsFunc(addrs, func(a netip.Addr) bool { return !slices.Contains(s.addrs, a) }) {
			return true
		}
	}
	return false
}
