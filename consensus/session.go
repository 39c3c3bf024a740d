package consensus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// logCache saves reading what was just written, for slow followers.
	logCache = 512

	// drainLimit is how long Close waits for proposals under way: without their
	// answers their callers only know that they do not know.
	drainLimit = 200 * time.Millisecond

	// restartPause is in elections: long enough for the others to elect a leader
	// before this node, which had reason to stop, can stand again.
	restartPause = 2
)

// session is one life of raft inside the process. A watchdog may end it and start
// the next; a failing disk ends the last.
type session struct {
	n     *Node
	raft  *raft.Raft
	trans *transport
	guard *guard
	fsm   *fsm

	ctx    context.Context // ends with the session
	cancel context.CancelFunc
	stop   <-chan struct{} // ctx.Done()
	wg     sync.WaitGroup
	failed chan error    // why the session must end for ever
	kick   chan struct{} // asks the watchdog to look now

	pending       atomic.Int64 // futures waited for
	transferStuck atomic.Int64 // since when proposals meet a leadership transfer, by Config.Clock; 0: they do not
	watch         watchdog
}

// openSession opens the store and starts raft on it.
func (n *Node) openSession() (*session, error) {
	store, err := n.openStorage()
	if err != nil {
		return nil, err
	}
	s := &session{n: n, trans: n.newTransport(), failed: make(chan error, 1), kick: make(chan struct{}, 1)}
	s.ctx, s.cancel = context.WithCancel(n.ctx)
	s.stop = s.ctx.Done()
	fail := func(reason error) {
		// First the links: as long as heartbeats go out, nobody else is elected.
		_ = s.trans.Close() // cannot fail
		select {
		case s.failed <- reason:
		default: // the first reason counts
		}
	}
	s.guard = newGuard(store, storeDeadline, fail)
	s.guard.receive = n.stamp.receive
	s.fsm = &fsm{n: n, fail: fail}
	if err := s.startRaft(store.Snapshots); err != nil {
		s.cancel()
		_ = s.trans.Close() // cannot fail
		return nil, errors.Join(fmt.Errorf("start raft: %w", err), s.guard.close())
	}
	return s, nil
}

func (n *Node) openStorage() (*Storage, error) {
	if n.cfg.Storage != nil {
		return n.cfg.Storage()
	}
	return openStorage(n.cfg.Dir, n.raftLog)
}

// startRaft calls NewRaft on a goroutine of its own: with a bad store it panics,
// or the guard ends the goroutine.
func (s *session) startRaft(snapshots raft.SnapshotStore) error {
	logs, err := raft.NewLogCache(logCache, s.guard)
	if err != nil {
		return err
	}
	conf := s.n.cfg.Profile.raftConfig(s.n.id)
	conf.Logger = s.n.raftLog
	s.guard.running.Store(true)
	err = errors.New("store failed")
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v", p)
			}
		}()
		s.raft, err = raft.NewRaft(conf, s.fsm, logs, s.guard, snapshots, s.trans)
	}()
	<-done
	if p := s.guard.poisoned(); err != nil && p != nil {
		return p
	}
	return err
}

// start runs what accompanies raft.
func (s *session) start() {
	seen := make(chan raft.Observation, 16)
	s.raft.RegisterObserver(raft.NewObserver(seen, false, func(o *raft.Observation) bool {
		switch o.Data.(type) {
		case raft.LeaderObservation, raft.RaftState:
			return true
		}
		return false
	}))
	s.wg.Go(func() {
		for {
			select {
			case <-seen:
				s.noteLeader()
			case <-s.stop:
				return
			}
		}
	})
	s.wg.Go(s.watchLeadership)
	s.wg.Go(s.run)
}

// noteLeader publishes whom raft follows.
func (s *session) noteLeader() {
	_, id := s.raft.LeaderWithID()
	name, _ := SplitServerID(string(id))
	s.n.setLeader(name, false)
	if name != "" {
		s.poke()
	}
}

// poke asks the watchdog to look now.
func (s *session) poke() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// close ends raft. The transport goes first, so that heartbeats stop at once.
func (s *session) close() error {
	_ = s.trans.Close() // cannot fail
	for end := time.Now().Add(drainLimit); s.pending.Load() > 0 && time.Now().Before(end); {
		time.Sleep(drainLimit / 40)
	}
	s.cancel()
	err := s.raft.Shutdown().Error()
	s.wg.Wait()
	return errors.Join(err, s.guard.close())
}

// wait waits for a future of raft. A future that is not answered when raft shuts
// down leaves its goroutine behind; close waits for pending ones so that this stays
// an exception.
func (s *session) wait(ctx context.Context, f raft.Future) error {
	done := make(chan error, 1)
	s.pending.Add(1)
	go func() {
		defer s.pending.Add(-1)
		done <- f.Error()
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-s.stop:
		select {
		case err := <-done:
			return err
		default:
			return ErrClosed
		}
	}
}

// Snapshot makes raft write a snapshot now, as it does by itself once the log has
// grown.
func (n *Node) Snapshot(ctx context.Context) error {
	s := n.session()
	if s == nil {
		return n.stopped()
	}
	if err := s.wait(ctx, s.raft.Snapshot()); err != nil && !errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return fmt.Errorf("snapshot: %w", err)
	}
	return nil
}

// supervise runs one session after another until the node closes or parks.
func (n *Node) supervise(s *session) {
	for {
		var parked error
		reason := ""
		select {
		case <-n.ctx.Done():
		case parked = <-s.failed:
		case reason = <-n.restarts:
			n.log.Error("raft starts again", keyReason, reason)
		}
		n.current.Store(nil)
		if parked != nil {
			n.park(parked)
		}
		if err := s.close(); err != nil && parked == nil {
			n.log.Warn("raft did not stop cleanly", keyErr, err)
		}
		n.setLeader("", false)
		if parked != nil || n.ctx.Err() != nil || n.pause(n.ctx, restartPause*n.cfg.Profile.Election) != nil {
			return
		}
		next, err := n.openSession()
		if err != nil {
			n.park(err)
			return
		}
		s = next
		n.current.Store(s)
		s.start()
	}
}
