package controller

import (
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

// tenure is what one leadership knows of the observers, of active sides and of
// who has stopped answering with them.
type tenure struct {
	term  uint64
	lease time.Duration
	clock func() time.Duration
	wake  chan struct{} // holds one: something to flush
	plan  chan struct{} // holds one: something to decide

	// arrived holds one: something was measured that the deciding loop looks at as soon
	// as it may. ranked and spaced are the loop's own: when round trips were last
	// committed, and how soon others may be.
	arrived chan struct{}
	ranked  time.Duration
	spaced  spacing

	mu      sync.Mutex
	ended   bool
	nonce   uint64                   // issued last
	issued  map[uint64]time.Duration // nonces that may still prove freshness
	fresh   map[health.ObserverID]time.Duration
	echoed  map[health.ObserverID]bool // has echoed a nonce since begin
	begin   time.Duration              // of the tenure, or of the end of the last stall
	queue   []*pending
	confirm map[health.ObserverID]uint64

	looked time.Duration                       // at active sides, last
	down   map[string]time.Duration            // since when the active side of a service is unwell
	spoke  map[health.ObserverID]time.Duration // when each observer was heard last, fresh or not
	acks   map[string]map[string]uint64        // epoch by member and cutover

	said        map[health.ObserverID]measured
	listens     time.Duration // since when, without a stall
	concluded   time.Duration // when that was looked at last
	unconcluded bool          // addresses or capacities changed since
	moved       bool          // addresses did
}

// pending is a batch on its way into the log. done closes once err is set.
type pending struct {
	batch statestore.VoteBatch
	done  chan struct{}
	err   error
}

func newTenure(term uint64, lease time.Duration, clock func() time.Duration, firstNonce uint64) *tenure {
	t := &tenure{
		term: term, lease: lease, clock: clock, nonce: firstNonce,
		wake: make(chan struct{}, 1), plan: make(chan struct{}, 1), arrived: make(chan struct{}, 1), ranked: clock(), spaced: spacing{},
		looked: clock(), down: map[string]time.Duration{}, spoke: map[health.ObserverID]time.Duration{}, acks: map[string]map[string]uint64{},
		said: map[health.ObserverID]measured{}, listens: clock(),
	}
	t.resetLocked()
	return t
}

// resetLocked forgets every proof of freshness: each observer has a whole lease to
// prove itself anew.
func (t *tenure) resetLocked() {
	t.begin = t.clock()
	t.issued = map[uint64]time.Duration{}
	t.fresh = map[health.ObserverID]time.Duration{}
	t.echoed = map[health.ObserverID]bool{}
	t.confirm = map[health.ObserverID]uint64{}
}

// end fails whoever still waits.
func (t *tenure) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	for _, p := range t.queue {
		p.err = ErrNotLeading
		close(p.done)
	}
	t.queue = nil
}

// signal makes the flusher look.
func (t *tenure) signal() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// hear notes a report and issues the next nonce. echoed reports whether the
// observer has shown, in this tenure, that it hears this leader now.
func (t *tenure) hear(from health.ObserverID, r Report) (nonce uint64, echoed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock()
	if last, known := t.spoke[from]; !known || now-last > heardFor {
		t.replan() // an approved cutover may wait for it
	}
	t.spoke[from] = now
	// Freshness counts from when the nonce was issued, not from when the report
	// came: a report that was held up on the way proves nothing newer.
	if at, known := t.issued[r.Nonce]; known {
		t.fresh[from] = max(t.fresh[from], at)
		t.echoed[from] = true
	}
	for n, at := range t.issued {
		if now-at > t.lease {
			delete(t.issued, n)
		}
	}
	return t.issueLocked(now), t.echoed[from]
}

// issue issues the next nonce.
func (t *tenure) issue() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.issueLocked(t.clock())
}

func (t *tenure) issueLocked(now time.Duration) uint64 {
	t.nonce++
	t.issued[t.nonce] = now
	return t.nonce
}

// expired returns the observers among ids whose lease is over, in order.
func (t *tenure) expired(ids []health.ObserverID) []health.ObserverID {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock()
	var out []health.ObserverID
	for _, id := range ids {
		if now-max(t.fresh[id], t.begin) > t.lease {
			out = append(out, id)
		}
	}
	return out
}

// enqueue puts a batch into the next entry.
func (t *tenure) enqueue(b statestore.VoteBatch) (*pending, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return nil, ErrNotLeading
	}
	p := &pending{batch: b, done: make(chan struct{})}
	t.queue = append(t.queue, p)
	t.signal()
	return p, nil
}

// waiting returns the sequence number of the observer's last batch in the queue.
func (t *tenure) waiting(id health.ObserverID) (seq uint64, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range slices.Backward(t.queue) {
		if p.batch.Observer == id {
			return p.batch.Seq, true
		}
	}
	return 0, false
}

// confirmed notes that the observer's votes up to seq hold in this term.
func (t *tenure) confirmed(id health.ObserverID, seq uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return
	}
	t.confirm[id] = seq
	t.signal()
}

// take empties the queues. An entry holds one batch an observer; what else it
// sent stays for the next.
func (t *tenure) take() ([]*pending, map[health.ObserverID]uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var queue, later []*pending
	taken := map[health.ObserverID]bool{}
	for _, p := range t.queue {
		if taken[p.batch.Observer] {
			later = append(later, p)
			continue
		}
		taken[p.batch.Observer] = true
		queue = append(queue, p)
	}
	confirm := t.confirm
	t.queue, t.confirm = later, map[health.ObserverID]uint64{}
	if len(later) > 0 {
		t.signal()
	}
	return queue, confirm
}

// counts reports whether the observer's votes count in this term already. A state
// of an earlier term says nothing of it: the first entry of a term sets all aside.
func (t *tenure) counts(st *statestore.State, id health.ObserverID) bool {
	return st.Term >= t.term && st.Observers[id].Counts()
}

// hasEchoed reports whether the observer has shown that it hears this leader.
func (t *tenure) hasEchoed(id health.ObserverID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.echoed[id]
}
