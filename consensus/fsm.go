package consensus

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/statestore"
)

// maxRestores is how often in a row the same snapshot may be installed before the
// node parks: a leader and a follower whose logs do not meet would go on for ever
// (hashicorp/raft #697).
const maxRestores = 3

// fsm adapts statestore.Store to raft.FSM.
type fsm struct {
	n    *Node
	fail func(reason error) // must not block

	parked   atomic.Bool
	restored uint64 // index of the snapshot restored last; only raft's FSM goroutine uses it
	restores int    // how often in a row
}

// Apply applies one entry. What it returns, a statestore.Result, is the response
// of the proposal's future.
func (f *fsm) Apply(l *raft.Log) any {
	if f.parked.Load() {
		return statestore.Result{Index: l.Index, Err: ErrParked}
	}
	store := f.n.cfg.Store
	replayed := l.Index <= store.State().Index
	f.n.stamp.applied(l)
	res := store.Apply(l.Index, l.Term, l.Data)
	if errors.Is(res.Err, statestore.ErrUndecodable) {
		// Going on without the entry would serve what the others do not.
		f.park(res.Err)
		return res
	}
	f.restores = 0
	if !replayed && f.n.cfg.OnApply != nil {
		f.n.cfg.OnApply(l.Index, l.Term, l.Data)
	}
	return res
}

func (f *fsm) park(reason error) {
	f.parked.Store(true)
	f.fail(reason)
}

// StoreConfiguration implements raft.ConfigurationStore: raft then counts changes
// of membership as applied, and a snapshot may follow one at once.
func (f *fsm) StoreConfiguration(uint64, raft.Configuration) {}

// Snapshot hands out the state of the moment, which is immutable.
func (f *fsm) Snapshot() (raft.FSMSnapshot, error) {
	if f.parked.Load() {
		return nil, ErrParked
	}
	return snapshot{f.n.cfg.Store.State()}, nil
}

// Restore replaces the state with a snapshot, unless it has all of that already:
// raft restarted inside the process, and going back would show in every answer.
func (f *fsm) Restore(r io.ReadCloser) error {
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		return fmt.Errorf("read snapshot: %w", err)
	}
	st, err := statestore.ReadSnapshotHeader(bufio.NewReader(bytes.NewReader(data)))
	if err != nil {
		return fmt.Errorf("read snapshot: %w", err)
	}
	f.restores++
	if st.Index != f.restored {
		f.restored, f.restores = st.Index, 1
	}
	if f.restores > maxRestores {
		f.park(fmt.Errorf("snapshot of index %d was installed %d times in a row", st.Index, f.restores))
		return ErrParked
	}
	store := f.n.cfg.Store
	if now := store.State(); now.Generation >= st.Generation && now.Index >= st.Index && now.Installation == st.Installation {
		return nil
	}
	if err := store.Restore(bytes.NewReader(data)); err != nil {
		return err
	}
	f.n.stamp.restored()
	if f.n.cfg.OnRestore != nil {
		f.n.cfg.OnRestore(store.State())
	}
	return nil
}

type snapshot struct{ st *statestore.State }

func (s snapshot) Persist(sink raft.SnapshotSink) error {
	if err := statestore.WriteSnapshot(sink, s.st); err != nil {
		return errors.Join(fmt.Errorf("write snapshot: %w", err), sink.Cancel())
	}
	return sink.Close()
}

func (s snapshot) Release() {}
