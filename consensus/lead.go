package consensus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/hashicorp/raft"
)

// maxFailures is how often duties may fail in one term before the node stops
// leading: a leader that does nothing is worse than none (consul #5047).
const maxFailures = 3

// reign is one uninterrupted leadership of this node.
type reign struct {
	term  uint64
	ready chan struct{} // closed once everything of earlier terms is applied here
	lost  chan struct{} // closed when it is over
}

func (r *reign) over() bool { return isClosed(r.lost) }

// watchLeadership drains raft's leadership signals and does nothing else: raft
// drops signals nobody takes, and whoever acts on them may be busy (A7).
func (s *session) watchLeadership() {
	defer s.n.endReign()
	for {
		select {
		case leads := <-s.raft.LeaderCh():
			// A second true says that leadership was lost and won in between.
			s.n.endReign()
			if leads {
				s.beginReign()
			}
		case <-s.stop:
			return
		}
	}
}

func (s *session) beginReign() {
	n := s.n
	term := s.raft.CurrentTerm()
	if s.raft.State() != raft.Leader {
		return // lost already; false follows
	}
	r := &reign{term: term, ready: make(chan struct{}), lost: make(chan struct{})}
	n.reign.Store(r)
	n.metrics.leaderChanges.Inc()
	n.log.Info("leading", keyTerm, term)
	s.noteLeader()
	n.setLeader(n.leader.Load().name, true)
	s.wg.Go(func() {
		err := s.wait(s.ctx, s.raft.Barrier(0))
		if err != nil || r.over() {
			return // lost, or the node closes; either ends the reign
		}
		n.stamp.lead(term)
		close(r.ready)
	})
}

func (n *Node) endReign() {
	r := n.reign.Swap(nil)
	if r == nil {
		return
	}
	n.stamp.follow()
	close(r.lost)
	n.log.Info("no longer leading", keyTerm, r.term)
	n.setLeader(n.leader.Load().name, true)
}

// awaitReign returns this node's term once it leads and may propose in it.
func (n *Node) awaitReign(ctx context.Context) (uint64, error) {
	r := n.reign.Load()
	if r == nil {
		return 0, ErrNotLeader
	}
	select {
	case <-r.ready:
		return r.term, nil
	case <-r.lost:
		return 0, ErrNotLeader
	case <-n.ctx.Done():
		return 0, ErrClosed
	case <-ctx.Done():
		return 0, fmt.Errorf("%w: %w", ErrNotLeader, ctx.Err())
	}
}

// Lead runs duties whenever this node leads, until ctx or the node ends. Duties start once
// everything committed before this term is applied here; their context ends with
// the leadership, and they must then return. Duties that fail or return early are
// started again after a heartbeat, and after three failures in one term leadership
// is given up by restarting raft, so that another node may do better.
func (n *Node) Lead(ctx context.Context, duties func(ctx context.Context, term uint64) error) error {
	for {
		r := n.nextReign(ctx)
		if r == nil {
			return cmp.Or(ctx.Err(), ErrClosed)
		}
		select {
		case <-r.ready:
			n.leadOnce(ctx, r, duties)
		case <-r.lost:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// nextReign waits for a reign that is not over; nil when ctx or the node ends.
func (n *Node) nextReign(ctx context.Context) *reign {
	for {
		changed := n.LeaderChanged()
		if r := n.reign.Load(); r != nil && !r.over() {
			return r
		}
		select {
		case <-changed:
		case <-n.ctx.Done():
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// leadOnce runs duties until the reign is over or ctx ends.
func (n *Node) leadOnce(ctx context.Context, r *reign, duties func(context.Context, uint64) error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-r.lost:
			cancel()
		case <-stop:
		}
	}()
	defer func() { close(stop); <-watched }()
	for failures := 1; ; failures++ {
		err := runDuties(ctx, r.term, duties)
		if ctx.Err() != nil || r.over() {
			return
		}
		n.log.Warn("leader duties failed", keyTerm, r.term, keyFailures, failures, keyErr, err)
		if failures == maxFailures {
			n.restart(fmt.Sprintf("leader duties failed %d times in term %d: %v", failures, r.term, err))
			select {
			case <-r.lost:
			case <-ctx.Done():
			}
			return
		}
		if n.pause(ctx, n.cfg.Profile.Heartbeat) != nil {
			return
		}
	}
}

func runDuties(ctx context.Context, term uint64, duties func(context.Context, uint64) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	if err := duties(ctx, term); err != nil {
		return err
	}
	return errors.New("duties returned while leading")
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
