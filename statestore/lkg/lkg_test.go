package lkg

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/statestore"
)

// rig is a store whose applied entries go to a File, as on a node.
type rig struct {
	t     *testing.T
	dir   string
	store *statestore.Store
	file  *File
	index uint64
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), store: statestore.NewStore()}
	r.file = r.open()
	return r
}

func (r *rig) open() *File {
	r.t.Helper()
	f, err := Open(r.dir, nil)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { _ = f.Close() })
	return f
}

// apply applies n entries and hands them to the file.
func (r *rig) apply(n int) {
	r.t.Helper()
	for range n {
		r.index += 2 // Raft keeps entries of its own in between.
		var cmd statestore.Command = statestore.FreezeService{Reason: "test"}
		if r.index == 2 {
			cmd = statestore.Initialize{Installation: "demo"}
		}
		data, err := statestore.Encode(cmd, statestore.Meta{Actor: "ann", Wall: time.Unix(1, 0), Elapsed: time.Second})
		require.NoError(r.t, err)
		require.NoError(r.t, r.store.Apply(r.index, 1, data).Err)
		r.file.Append(r.index, 1, data)
	}
}

func (r *rig) flush() {
	r.t.Helper()
	require.NoError(r.t, r.file.flush(r.store.State))
}

// reload is a restart: what a new process finds.
func (r *rig) reload() *statestore.State {
	r.t.Helper()
	_ = r.file.Close()
	r.file = r.open()
	st, err := r.file.Load()
	require.NoError(r.t, err)
	return st
}

func (r *rig) path(name string) string { return filepath.Join(r.dir, name) }

func TestAnEmptyDirectoryHoldsNothing(t *testing.T) {
	st, err := newRig(t).file.Load()
	require.NoError(t, err)
	require.Nil(t, st)
}

func TestLoadFindsTheStateThatWasFlushed(t *testing.T) {
	r := newRig(t)
	for range 5 {
		r.apply(3)
		r.flush()
	}
	st := r.reload()
	require.Equal(t, r.store.State().Index, st.Index)
	require.Equal(t, r.store.State().Hash(), st.Hash())
}

func TestAppendingGoesOnAfterARestart(t *testing.T) {
	r := newRig(t)
	r.apply(3)
	r.flush()
	r.store = statestore.NewStoreAt(r.reload())
	r.apply(3)
	r.flush()
	r.apply(2)
	r.flush()
	require.Equal(t, r.store.State().Hash(), r.reload().Hash())
}

func TestATornTailCostsOnlyItself(t *testing.T) {
	r := newRig(t)
	r.apply(1)
	r.flush()
	r.apply(1)
	r.flush()
	want := r.store.State()
	r.apply(1)
	r.flush()
	whole, err := os.ReadFile(r.path(journalName))
	require.NoError(t, err)
	first := len(record{data: nil}.append(nil))
	for cut := 1; cut < len(whole)-first; cut += 7 {
		require.NoError(t, os.WriteFile(r.path(journalName), whole[:len(whole)-cut], 0o600))
		st := r.reload()
		require.LessOrEqual(t, st.Index, want.Index)
		if st.Index == want.Index {
			require.Equal(t, want.Hash(), st.Hash(), "cut by %d", cut)
		}
	}
	// And every flipped bit is noticed.
	for i := 0; i < len(whole); i += 5 {
		bad := append([]byte(nil), whole...)
		bad[i] ^= 0x40
		require.NoError(t, os.WriteFile(r.path(journalName), bad, 0o600))
		st := r.reload()
		require.Less(t, st.Index, r.store.State().Index, "flipped a bit of byte %d", i)
	}
}

func TestNothingIsAppendedBehindATornRecord(t *testing.T) {
	r := newRig(t)
	r.apply(2)
	r.flush()
	r.apply(2)
	r.flush()
	whole, err := os.ReadFile(r.path(journalName))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(r.path(journalName), whole[:len(whole)-3], 0o600))
	r.store = statestore.NewStoreAt(r.reload())
	r.index = r.store.State().Index
	r.apply(2)
	r.flush()
	require.Equal(t, r.store.State().Hash(), r.reload().Hash())
}

func TestADamagedBaseFallsBackOnTheOneBefore(t *testing.T) {
	r := newRig(t)
	r.apply(3)
	r.flush() // A base at first.
	r.apply(3)
	r.flush() // Into the journal.
	r.file.limit = 1
	r.apply(3)
	r.flush() // Folded into a new base.
	r.file.limit = journalLimit
	r.apply(3)
	r.flush() // Into the next journal.
	base, err := os.ReadFile(r.path(baseName))
	require.NoError(t, err)
	base[len(base)/2] ^= 1
	require.NoError(t, os.WriteFile(r.path(baseName), base, 0o600))
	require.Equal(t, r.store.State().Hash(), r.reload().Hash(), "the previous base and both journals reach as far")

	require.NoError(t, os.Remove(r.path(baseName)))
	require.Equal(t, r.store.State().Hash(), r.reload().Hash(), "a crash between the renames")

	require.NoError(t, os.WriteFile(r.path(baseName), base, 0o600))
	require.NoError(t, os.WriteFile(r.path(baseName+prevSuffix), []byte("garbage\n"), 0o600))
	_, err = r.open().Load()
	require.ErrorIs(t, err, statestore.ErrSnapshotCorrupt)
}

func TestAHoleInTheJournalEndsIt(t *testing.T) {
	r := newRig(t)
	r.apply(2)
	r.flush()
	want := r.store.State()
	keep := r.file
	r.file = &File{} // Takes the entry in, and loses it.
	r.apply(1)
	r.file = keep
	r.index += 2
	r.file.mu.Lock()
	r.file.last = r.index // As if it had been appended and dropped.
	r.file.mu.Unlock()
	r.apply(1)
	r.flush()
	require.Equal(t, want.Hash(), r.reload().Hash())
}

func TestPendingIsBounded(t *testing.T) {
	r := newRig(t)
	r.apply(1)
	r.flush()
	r.file.mu.Lock()
	r.file.bytes = pendingLimit
	r.file.mu.Unlock()
	r.apply(1)
	require.Empty(t, r.file.pending)
	r.apply(1)
	r.flush()
	require.Equal(t, r.store.State().Hash(), r.reload().Hash(), "a new base mends the hole")
}

func TestRebaseAfterARestore(t *testing.T) {
	r := newRig(t)
	r.apply(4)
	r.flush()
	far := r.store.State()
	r.file.Rebase(far)
	require.Zero(t, r.file.rebase, "the files are there already")

	// Raft installs a snapshot from far ahead.
	r.index = 100
	next := *far
	next.Index = r.index
	r.store = statestore.NewStoreAt(&next)
	r.file.Rebase(&next)
	r.apply(1)
	r.flush()
	require.Equal(t, r.store.State().Hash(), r.reload().Hash())

	back := *far
	r.file.Rebase(&back)
	require.Zero(t, r.file.rebase, "an older snapshot of this history never becomes the base")
}

func TestAFailingDiskStopsNothing(t *testing.T) {
	r := newRig(t)
	r.apply(1)
	r.flush()
	r.apply(1)
	r.flush()
	require.NoError(t, os.Rename(r.dir, r.dir+".gone"))
	r.apply(1)
	r.file.limit = 1 // Folding needs the directory.
	err := r.file.flush(r.store.State)
	require.Error(t, err)
	r.file.owed = true
	r.file.report(err)
	require.Error(t, r.file.Err())
	r.apply(1)

	require.NoError(t, os.Rename(r.dir+".gone", r.dir))
	r.file.limit = journalLimit
	r.flush()
	r.file.report(nil)
	require.NoError(t, r.file.Err())
	require.Equal(t, r.store.State().Hash(), r.reload().Hash())
}

func TestRunFlushesByItselfAndOnceMoreAtTheEnd(t *testing.T) {
	r := newRig(t)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { r.file.Run(ctx, r.store.State) })
	r.apply(1)
	require.Eventually(t, func() bool {
		_, err := os.Stat(r.path(baseName))
		return err == nil
	}, 5*time.Second, 10*time.Millisecond)
	r.apply(7)
	stop()
	wg.Wait()
	require.Equal(t, r.store.State().Hash(), r.reload().Hash())
}

// What was appended while the last write was under way finds Run's context ended.
func TestRunThatIsToldToEndStillWritesWhatWaits(t *testing.T) {
	r := newRig(t)
	r.apply(3)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	r.file.Run(ctx, r.store.State)
	require.Equal(t, r.store.State().Hash(), r.reload().Hash())
}

func TestG2NothingBelowTheFloorIsLoaded(t *testing.T) {
	r := newRig(t)
	r.apply(2)
	r.flush()
	require.Equal(t, Floor{Generation: 1}, r.file.Floor(), "a base raises it to its generation")
	require.NoError(t, r.file.SetFloor(Floor{Generation: 2}))
	_, err := r.open().Load()
	require.ErrorIs(t, err, ErrBelowFloor)
}
