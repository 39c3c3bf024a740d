package consensus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/statestore"
)

const (
	methodPropose = "consensus.propose"
	methodRead    = "consensus.read"

	// retryPause is between two tries of a proposal that certainly did not happen.
	retryPause = 50 * time.Millisecond
)

// Propose commits a command, through the leader wherever that is. A nil error
// means committed and applied on this node; Result.Err is then nil or a Refusal.
// When ctx ends, or this node parks, after the leader answered but before this
// node applied the entry, the outcome is known all the same: the Result is
// returned, with a nil error.
//
// With a request id a proposal whose outcome is unknown is tried again until ctx
// ends, at the next leader as soon as there is one, which executes it at most
// once; without one ErrUnknownOutcome is returned
// at once. ErrNoLeader means that nothing was proposed.
func (n *Node) Propose(ctx context.Context, cmd statestore.Command, o Origin) (statestore.Result, error) {
	entry, err := statestore.Encode(cmd, statestore.Meta{Actor: o.Actor, Request: o.Request, Issued: o.Issued})
	if err != nil {
		return statestore.Result{}, err
	}
	if len(entry) > statestore.MaxEntry {
		return statestore.Result{}, fmt.Errorf("propose: entry of %d bytes, at most %d", len(entry), statestore.MaxEntry)
	}
	ctx, cancel := context.WithTimeout(ctx, n.cfg.Profile.Propose)
	defer cancel()
	res, err := n.propose(ctx, entry, o.Request != "")
	if err != nil {
		n.metrics.failed(err)
		return statestore.Result{}, err
	}
	_ = n.waitApplied(ctx, res.Index) // the outcome is known, applied here or not
	return res, nil
}

func (n *Node) propose(ctx context.Context, entry []byte, again bool) (statestore.Result, error) {
	doubt := false // an earlier try may have been committed
	for {
		leader, err := n.awaitLeader(ctx)
		if err == nil {
			var res statestore.Result
			try, end := ctx, func() {}
			if again {
				try, end = n.whileLedBy(ctx, leader)
			}
			res, err = n.proposeTo(try, leader, entry)
			end()
			switch {
			case err == nil:
				return res, nil
			case !undone(err):
				doubt = true
				if !again {
					return res, unknown(err)
				}
			}
		}
		stop := errors.Is(err, ErrNoLeader) || n.Parked() != "" || n.ctx.Err() != nil || n.pause(ctx, retryPause) != nil
		switch {
		case stop && doubt:
			return statestore.Result{}, unknown(err)
		case stop && (errors.Is(err, ErrNoLeader) || errors.Is(err, ErrParked) || errors.Is(err, ErrClosed)):
			return statestore.Result{}, err
		case stop:
			return statestore.Result{}, fmt.Errorf("%w: %w", ErrNoLeader, err)
		}
	}
}

// undone reports whether err says that nothing was proposed.
func undone(err error) bool {
	if errors.Is(err, ErrUnknownOutcome) {
		return false
	}
	for _, e := range []error{ErrNotLeader, ErrNoLeader, ErrUnreachable, ErrParked, ErrClosed, errNoMethod} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func unknown(err error) error {
	if errors.Is(err, ErrUnknownOutcome) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
}

// proposed is the leader's answer to a forwarded proposal.
type proposed struct {
	Index   uint64              `json:"index"`
	Refusal *statestore.Refusal `json:"refusal,omitempty"`
}

func (n *Node) proposeTo(ctx context.Context, leader string, entry []byte) (statestore.Result, error) {
	if leader == n.cfg.Name {
		return n.proposeHere(ctx, entry)
	}
	body, err := n.rpc.call(ctx, leader, methodPropose, entry)
	if err != nil {
		return statestore.Result{}, err
	}
	var p proposed
	if err := json.Unmarshal(body, &p); err != nil {
		return statestore.Result{}, fmt.Errorf("decode answer of %s: %w", leader, err)
	}
	res := statestore.Result{Index: p.Index}
	if p.Refusal != nil {
		res.Err = p.Refusal
	}
	return res, nil
}

// servePropose is the leader's side of a forwarded proposal.
func (n *Node) servePropose(ctx context.Context, _ string, entry []byte) ([]byte, error) {
	res, err := n.proposeHere(ctx, entry)
	if err != nil {
		return nil, err
	}
	p := proposed{Index: res.Index}
	if res.Err != nil {
		var refusal *statestore.Refusal
		if !errors.As(res.Err, &refusal) {
			return nil, unknown(res.Err)
		}
		p.Refusal = refusal
	}
	return json.Marshal(p)
}

// proposeHere stamps an entry and commits it, as the leader.
func (n *Node) proposeHere(ctx context.Context, entry []byte) (statestore.Result, error) {
	cmd, meta, err := statestore.Decode(entry)
	if err != nil {
		return statestore.Result{}, fmt.Errorf("%w: decode proposal: %w", ErrNotLeader, err)
	}
	s := n.session()
	if s == nil {
		return statestore.Result{}, n.stopped()
	}
	term, err := n.awaitReign(ctx)
	if err != nil {
		return statestore.Result{}, err
	}
	start := time.Now()
	future, undo, err := n.enqueue(ctx, s, term, cmd, meta)
	if err != nil {
		return statestore.Result{}, err
	}
	err = s.wait(ctx, future)
	switch {
	case err == nil:
		n.metrics.commit.Observe(time.Since(start).Seconds())
		s.transferStuck.Store(0)
		res, ok := future.Response().(statestore.Result)
		if !ok || errors.Is(res.Err, ErrParked) || errors.Is(res.Err, statestore.ErrUndecodable) {
			return statestore.Result{}, unknown(n.stopped())
		}
		return res, nil
	case errors.Is(err, raft.ErrLeadershipTransferInProgress):
		s.transferStuck.CompareAndSwap(0, int64(n.cfg.Clock()))
		undo()
		return statestore.Result{}, fmt.Errorf("%w: %w", ErrNotLeader, err)
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrEnqueueTimeout):
		undo()
		return statestore.Result{}, fmt.Errorf("%w: %w", ErrNotLeader, err)
	}
	// Leadership lost, store failed, node closed, or ctx ended: it may be in the log
	// of some node, and commit later.
	return statestore.Result{}, unknown(err)
}

// enqueue stamps a command and hands it to raft while nobody else does.
func (n *Node) enqueue(ctx context.Context, s *session, term uint64, cmd statestore.Command, meta statestore.Meta) (raft.ApplyFuture, func(), error) {
	select {
	case <-n.stamp.gate:
	case <-ctx.Done():
		return nil, nil, fmt.Errorf("%w: %w", ErrNotLeader, ctx.Err())
	}
	defer func() { n.stamp.gate <- struct{}{} }()
	if r := n.reign.Load(); r == nil || r.term != term {
		return nil, nil, ErrNotLeader
	}
	undo := n.stamp.next(n.cfg.Store.State(), term, &meta)
	data, err := statestore.Encode(cmd, meta)
	if err != nil {
		undo()
		return nil, nil, fmt.Errorf("%w: %w", ErrNotLeader, err)
	}
	left := storeDeadline
	if deadline, ok := ctx.Deadline(); ok {
		left = max(time.Millisecond, min(left, time.Until(deadline)))
	}
	return s.raft.Apply(data, left), undo, nil
}

// ReadIndex returns when this node has applied everything that was acknowledged
// anywhere before the call, and the index that covers it.
func (n *Node) ReadIndex(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.Profile.Propose)
	defer cancel()
	for {
		leader, err := n.awaitLeader(ctx)
		if err != nil {
			return 0, err
		}
		try, end := n.whileLedBy(ctx, leader)
		body, err := n.rpc.call(try, leader, methodRead, nil)
		end()
		if err == nil {
			var p proposed
			if err := json.Unmarshal(body, &p); err != nil {
				return 0, fmt.Errorf("decode answer of %s: %w", leader, err)
			}
			if err := n.waitApplied(ctx, p.Index); err != nil {
				return 0, fmt.Errorf("wait for index %d: %w", p.Index, err)
			}
			return p.Index, nil
		}
		if n.Parked() != "" || n.pause(ctx, retryPause) != nil {
			return 0, fmt.Errorf("read index: %w", err)
		}
	}
}

// serveRead answers with an index that covers everything acknowledged so far. It
// commits a barrier: only that proves that this node still led after the question
// came (a heartbeat already under way would also satisfy VerifyLeader).
func (n *Node) serveRead(ctx context.Context, _ string, _ []byte) ([]byte, error) {
	s := n.session()
	if s == nil {
		return nil, n.stopped()
	}
	if _, err := n.awaitReign(ctx); err != nil {
		return nil, err
	}
	if err := s.wait(ctx, s.raft.Barrier(n.cfg.Profile.Propose)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotLeader, err)
	}
	return json.Marshal(proposed{Index: n.cfg.Store.State().Index})
}

// waitApplied returns once this node has applied index.
func (n *Node) waitApplied(ctx context.Context, index uint64) error {
	for {
		changed := n.cfg.Store.Changed()
		if n.cfg.Store.State().Index >= index {
			return nil
		}
		select {
		case <-changed:
		case <-n.parkedCh:
			return n.stopped()
		case <-n.ctx.Done():
			return ErrClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// awaitLeader returns the leader's name, waiting three elections for one.
func (n *Node) awaitLeader(ctx context.Context) (string, error) {
	timer := time.NewTimer(3 * n.cfg.Profile.Election)
	defer timer.Stop()
	for {
		view := n.leader.Load()
		switch {
		case n.Parked() != "" || n.ctx.Err() != nil:
			return "", n.stopped()
		case view.name != "":
			return view.name, nil
		}
		select {
		case <-view.changed:
		case <-n.parkedCh:
		case <-n.ctx.Done():
		case <-timer.C:
			return "", ErrNoLeader
		case <-ctx.Done():
			return "", ErrNoLeader
		}
	}
}

// whileLedBy returns a context that ends when leader leads no more, as this node
// sees it: a leader that was cut off cannot say that it will not answer. end must
// be called.
func (n *Node) whileLedBy(ctx context.Context, leader string) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cancel()
		for view := n.leader.Load(); view.name == leader; view = n.leader.Load() {
			select {
			case <-view.changed:
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, func() {
		cancel()
		<-done
	}
}

// pause waits; an error says that there is no use in going on.
func (n *Node) pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-n.ctx.Done():
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}
