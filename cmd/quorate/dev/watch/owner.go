package watch

import (
	"cmp"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Owner knows which addresses a stateful name may be answered with: those of the
// side that was active under an epoch current when the question was asked, and
// never an older epoch's once the same node has answered with a newer one. While a
// cutover is under way it may be withheld.
//
// A replaced side is wrong at once, without a grace: a cutover is published only
// after every node has stopped answering with it.
type Owner struct {
	grace time.Duration

	mu      sync.Mutex // guards what follows
	tenures []tenure   // by token, the current one last
	moves   []span     // when a cutover was, or may have been, under way
	settled time.Time  // when the newest token was last told as not moving
	moving  bool
	holds   map[string]hold
	newest  map[string]sighting // by node
}

// Token is the part of an ownership token that orders tenures.
type Token struct{ Generation, Epoch uint64 }

// Compare orders tokens.
func (t Token) Compare(o Token) int {
	return cmp.Or(cmp.Compare(t.Generation, o.Generation), cmp.Compare(t.Epoch, o.Epoch))
}

// Claim is what a node says of a stateful service.
type Claim struct {
	Token
	Index  uint64       // of the log entry up to which the node had read
	Addrs  []netip.Addr // of the active side
	Moving bool         // a cutover is under way
}

// tenure is the time of one token.
type tenure struct {
	token Token
	index uint64 // of the newest claim of it
	addrs []netip.Addr
	since time.Time // when the token before it was claimed last; zero: it is the first
	heard time.Time // when it was claimed last
	until time.Time // zero: current
}

// span is a time; an until of zero is not over.
type span struct{ since, until time.Time }

// sighting is the newest token that a node has answered under.
type sighting struct {
	token Token
	at    time.Time // when the first such answer had come
	last  time.Time // when the last question was asked that got one
}

// NewOwner returns an owner that allows nothing yet. A node that was cut off has
// grace to catch up, and one that lags so long to begin and end a withholding.
func NewOwner(grace time.Duration) *Owner {
	return &Owner{grace: grace, holds: map[string]hold{}, newest: map[string]sighting{}}
}

// Commit takes a node's claim. A lower token than one that was claimed before, or an
// older state of the same one, does nothing.
func (o *Owner) Commit(c Claim, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := len(o.tenures)
	if n == 0 || c.Compare(o.tenures[n-1].token) > 0 {
		t := tenure{token: c.Token}
		if n > 0 {
			t.since, o.tenures[n-1].until = o.tenures[n-1].heard, now
			o.moveLocked(now) // even if no node was asked while it was under way
		}
		o.tenures = append(o.tenures, t)
		n++
	}
	last := &o.tenures[n-1]
	if c.Compare(last.token) < 0 || c.Index < last.index {
		return
	}
	last.index, last.heard = c.Index, now
	for _, a := range c.Addrs {
		if !slices.Contains(last.addrs, a) {
			last.addrs = append(last.addrs, a)
		}
	}
	if c.Moving {
		o.moveLocked(now)
		return
	}
	if o.moving {
		o.moves[len(o.moves)-1].until, o.moving = now, false
	}
	o.settled = now
}

// moveLocked notes that a cutover is under way, since after the last time that none
// was. The caller holds mu.
func (o *Owner) moveLocked(now time.Time) {
	if o.moving {
		return
	}
	since := o.settled
	if since.IsZero() {
		since = now
	}
	o.moves, o.moving = append(o.moves, span{since: since}), true
}

// Hold says that node is cut off: what was right when it was stays right for it
// until Release.
func (o *Owner) Hold(node string, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.holds[node] = hold{since: now}
}

// Release ends a hold; the node has the grace from now to catch up.
func (o *Owner) Release(node string, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if h, ok := o.holds[node]; ok {
		h.until = now
		o.holds[node] = h
	}
}

// Allows reports whether node may have answered with exactly these addresses to a
// question of that time. An allowed answer becomes the node's newest; answered is
// when it came.
func (o *Owner) Allows(node string, addrs []netip.Addr, asked, answered time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	floor := o.newest[node]
	h, held := o.heldLocked(node, asked)
	for _, t := range o.tenures {
		if slices.ContainsFunc(addrs, func(a netip.Addr) bool { return !slices.Contains(t.addrs, a) }) {
			continue
		}
		if asked.After(floor.at) && t.token.Compare(floor.token) < 0 {
			continue // an older side after a newer one
		}
		if answered.Before(t.since.Add(-o.grace)) { // the one who claimed the token before may have lagged
			continue
		}
		current := t.until.IsZero() || !asked.After(t.until)
		if held && !t.until.Add(o.grace).Before(h.since) {
			current = true // it was right when the node was cut off
		}
		if !current {
			continue
		}
		switch {
		case t.token == floor.token:
			floor.last = later(floor.last, asked)
		case t.token.Compare(floor.token) > 0 && floor.last.After(answered):
			return false // heard of late: the older side came after it
		case t.token.Compare(floor.token) > 0:
			floor = sighting{t.token, answered, asked}
		}
		o.newest[node] = floor
		return true
	}
	return false
}

// Withheld reports whether node may have answered a question of that time with
// SERVFAIL.
func (o *Owner) Withheld(node string, asked, answered time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	h, held := o.heldLocked(node, asked)
	for _, m := range o.moves {
		late := !m.until.IsZero() && asked.Sub(m.until) > o.grace
		if held && !m.until.Add(o.grace).Before(h.since) {
			late = false
		}
		if !late && !answered.Before(m.since.Add(-o.grace)) { // a node that lags may have settled it too late
			return true
		}
	}
	return false
}

// heldLocked returns node's hold if it covers that time. The caller holds mu.
func (o *Owner) heldLocked(node string, asked time.Time) (hold, bool) {
	h, held := o.holds[node]
	return h, held && (h.until.IsZero() || asked.Sub(h.until) <= o.grace)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
