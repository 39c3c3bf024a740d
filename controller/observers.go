package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

// Report is what an observer tells the leader: a heartbeat when Votes is empty
// and Full is false ("my votes up to Seq still hold"), else changes since Prev.
type Report struct {
	Seq   uint64                        `json:"seq"`
	Prev  uint64                        `json:"prev,omitempty"`
	Full  bool                          `json:"full,omitempty"`
	Votes map[health.Target]health.Vote `json:"votes,omitempty"`

	Nonce      uint64    `json:"nonce"` // the last one this leader sent; 0: none yet
	TableIndex uint64    `json:"table_index"`
	Version    string    `json:"version"`
	Clock      time.Time `json:"clock"` // the observer's wall clock, to show; decides nothing
}

// heartbeat reports whether the report carries no votes.
func (r Report) heartbeat() bool { return !r.Full && len(r.Votes) == 0 }

// Reply answers a Report. Seq is what the state holds of the observer.
type Reply struct {
	Nonce    uint64 `json:"nonce"`
	NeedFull bool   `json:"need_full,omitempty"`
	Seq      uint64 `json:"seq"`

	// Again asks to hear Nonce echoed at once: this leader has not confirmed the
	// observer yet, and each second until then is one without a verdict.
	Again bool `json:"again,omitempty"`
}

// Exchange sends r through call, and once more when the leader asks to hear its
// nonce. Nodes send their reports through it.
func Exchange(ctx context.Context, r Report, call func(context.Context, Report) (Reply, error)) (Reply, error) {
	reply, err := call(ctx, r)
	if err != nil || !reply.Again || reply.NeedFull {
		return reply, err
	}
	return call(ctx, Report{
		Seq: reply.Seq, Nonce: reply.Nonce,
		TableIndex: r.TableIndex, Version: r.Version, Clock: r.Clock,
	})
}

// Contact is what the leader heard of an observer last.
type Contact struct {
	Heard      time.Duration // ago
	TableIndex uint64
	Version    string
	Offset     time.Duration // of its wall clock; positive: it is ahead
}

// batchWindow is how long changes gather before they become one log entry. A
// fault is seen by all observers within it, and an entry costs a disk write and
// a round trip on every node.
const batchWindow = 50 * time.Millisecond

// tenure is what one leadership knows of the observers.
type tenure struct {
	term  uint64
	lease time.Duration
	clock func() time.Duration
	wake  chan struct{} // holds one: something to flush

	mu       sync.Mutex
	ended    bool
	nonce    uint64                   // issued last
	issued   map[uint64]time.Duration // nonces that may still prove freshness
	fresh    map[health.ObserverID]time.Duration
	echoed   map[health.ObserverID]bool // has echoed a nonce since begin
	begin    time.Duration              // of the tenure, or of the end of the last stall
	contacts map[health.ObserverID]contact
	queue    []*pending
	confirm  map[health.ObserverID]uint64
}

type contact struct {
	at         time.Duration
	tableIndex uint64
	version    string
	offset     time.Duration
}

// pending is a batch on its way into the log. done closes once err is set.
type pending struct {
	batch statestore.VoteBatch
	done  chan struct{}
	err   error
}

func newTenure(term uint64, lease time.Duration, clock func() time.Duration, firstNonce uint64) *tenure {
	t := &tenure{term: term, lease: lease, clock: clock, wake: make(chan struct{}, 1), nonce: firstNonce}
	t.contacts = map[health.ObserverID]contact{}
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
func (t *tenure) hear(from health.ObserverID, r Report, wall time.Time) (nonce uint64, echoed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock()
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
	t.nonce++
	t.issued[t.nonce] = now
	ct := contact{at: now, tableIndex: r.TableIndex, version: r.Version}
	if !r.Clock.IsZero() {
		ct.offset = r.Clock.Sub(wall)
	}
	t.contacts[from] = ct
	return t.nonce, t.echoed[from]
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

// Report takes a report of the node called from, which the transport has
// authenticated. A report with votes returns once they are committed; an error
// then leaves the outcome unknown, and the observer sends again.
func (c *Controller) Report(ctx context.Context, from string, r Report) (Reply, error) {
	t := c.leading()
	if t == nil {
		return Reply{}, ErrNotLeading
	}
	id := health.ObserverID(from)
	st := c.cfg.Store.State()
	if m := st.Members[from]; m == nil || !m.Observes {
		return Reply{}, fmt.Errorf("report of %s: %w", from, ErrNotObserver)
	}
	nonce, echoed := t.hear(id, r, time.Now())
	o := st.Observers[id]
	held := uint64(0)
	if o != nil {
		held = o.Seq
	}
	reply := Reply{Nonce: nonce, Seq: held}
	expect, queued := t.waiting(id)
	if !queued {
		expect = held
	}
	switch {
	case r.Full && r.Seq > expect && !echoed:
		// A full set confirms, so it must be one that answers this leader: an older
		// one may have been on its way for long.
		reply.NeedFull = true
		return reply, nil
	case r.Full && r.Seq > expect, !r.heartbeat() && r.Prev == expect && r.Seq > r.Prev && o != nil && !o.Silent:
		return c.commit(ctx, t, id, r, reply)
	case !r.Full && !r.heartbeat() && r.Seq == held && holds(st, id, r.Votes):
		// It was committed after its sender gave up waiting.
	case o == nil || o.Silent || r.Seq != held || !r.heartbeat():
		reply.NeedFull = !queued
		return reply, nil
	}
	c.confirm(t, st, id, held, echoed, &reply)
	return reply, nil
}

// holds reports whether the state has exactly these votes of the observer. Votes
// on targets that a newer spec dropped do not matter.
func holds(st *statestore.State, id health.ObserverID, votes map[health.Target]health.Vote) bool {
	for t, v := range votes {
		if ts, ok := st.Target(t); ok && ts.Votes[id].Side != v.Side {
			return false
		}
	}
	return true
}

// commit waits until the report's votes are in the log.
func (c *Controller) commit(ctx context.Context, t *tenure, id health.ObserverID, r Report, reply Reply) (Reply, error) {
	p, err := t.enqueue(statestore.VoteBatch{Observer: id, Seq: r.Seq, Prev: r.Prev, Full: r.Full, Votes: r.Votes})
	if err != nil {
		return Reply{}, err
	}
	if !t.counts(c.cfg.Store.State(), id) && t.hasEchoed(id) {
		t.confirmed(id, r.Seq) // in the same flush, after its votes
	}
	select {
	case <-ctx.Done():
		return Reply{}, fmt.Errorf("votes %d of %s: %w", r.Seq, id, ctx.Err())
	case <-p.done:
	}
	if p.err != nil {
		return Reply{}, fmt.Errorf("votes %d of %s: %w", r.Seq, id, p.err)
	}
	st := c.cfg.Store.State()
	o := st.Observers[id]
	if o != nil {
		reply.Seq = o.Seq
	}
	if o == nil || o.Seq < r.Seq {
		reply.NeedFull = true
		return reply, nil
	}
	// The votes hold from here: only that this leader was heard may be missing.
	c.confirm(t, st, id, o.Seq, t.hasEchoed(id), &reply)
	return reply, nil
}

func (t *tenure) hasEchoed(id health.ObserverID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.echoed[id]
}

// confirm has the observer counted in this term once it has echoed a nonce of it.
func (c *Controller) confirm(t *tenure, st *statestore.State, id health.ObserverID, seq uint64, echoed bool, reply *Reply) {
	switch {
	case t.counts(st, id):
	case echoed:
		t.confirmed(id, seq)
	default:
		reply.Again = true
	}
}

// flushVotes turns what gathered in a window into one entry of votes and one of
// confirmations, until ctx is done.
func (c *Controller) flushVotes(ctx context.Context, t *tenure) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.wake:
		}
		if !wait(ctx, batchWindow) {
			return
		}
		queue, confirm := t.take()
		if len(queue) > 0 {
			c.castVotes(ctx, queue)
		}
		// After the votes: they may be what an unconfirmed observer's sequence
		// number has come to.
		if len(confirm) > 0 {
			c.confirmObservers(ctx, t, confirm)
		}
	}
}

// castVotes commits the batches and tells who waits.
func (c *Controller) castVotes(ctx context.Context, queue []*pending) {
	cmd := statestore.CastVotes{Batches: make([]statestore.VoteBatch, len(queue))}
	for i, p := range queue {
		cmd.Batches[i] = p.batch
	}
	err := c.propose(ctx, cmd, c.actor)
	var refused *statestore.Refusal
	if errors.As(err, &refused) {
		err = nil // each waiter sees from the state whether its batch is in
	}
	for _, p := range queue {
		p.err = err
		close(p.done)
	}
}

func (c *Controller) confirmObservers(ctx context.Context, t *tenure, confirm map[health.ObserverID]uint64) {
	st := c.cfg.Store.State()
	for id, seq := range confirm {
		o := st.Observers[id]
		if o == nil || o.Silent || t.counts(st, id) || o.Seq != seq || !t.hasEchoed(id) {
			delete(confirm, id) // done meanwhile, or not true any more; the next heartbeat tells
		}
	}
	if len(confirm) == 0 {
		return
	}
	if err := c.propose(ctx, statestore.ConfirmObservers{Observers: confirm}, c.actor); err != nil && ctx.Err() == nil {
		c.log.Warn("observers not confirmed", keyErr, err)
	}
}

// Contacts returns what this leader heard of each observer, by name. It is empty
// on other nodes.
func (c *Controller) Contacts() map[string]Contact {
	out := map[string]Contact{}
	t := c.leading()
	if t == nil {
		return out
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock()
	for id, ct := range t.contacts {
		out[string(id)] = Contact{Heard: now - ct.at, TableIndex: ct.tableIndex, Version: ct.version, Offset: ct.offset}
	}
	return out
}
