package controller

import (
	"context"
	"errors"
	"fmt"
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

// batchWindow is how long changes gather before they become one log entry. A
// fault is seen by all observers within it, and an entry costs a disk write and
// a round trip on every node.
const batchWindow = 50 * time.Millisecond

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
	nonce, echoed := t.hear(id, r)
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
	case o != nil && !o.Silent && r.Seq > held && r.Prev < held && !r.Full && !r.heartbeat():
		// An answer was lost, and its votes have changed since. It knows what it sent
		// as held, and sends what is new: all of its votes would take longer still,
		// and answers get lost where they take long.
		return reply, nil
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
	p, err := t.enqueue(statestore.VoteBatch{Observer: id, Seq: r.Seq, Prev: r.Prev, Full: r.Full, Votes: r.Votes, Recorded: true})
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
	// Its lease counts from when a nonce was issued: not from before a slow commit.
	reply.Nonce = t.issue()
	if o == nil || o.Seq < r.Seq {
		reply.NeedFull = true
		return reply, nil
	}
	// The votes hold from here: only that this leader was heard may be missing.
	c.confirm(t, st, id, o.Seq, t.hasEchoed(id), &reply)
	return reply, nil
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
