// Package lkg keeps the last known good state on a node's disk, so that the node
// answers DNS before Raft opens, without quorum, and after a crash.
//
// A base file is a snapshot; a journal holds the log entries applied since. The
// floor file holds what this node must never go below again. Appending never
// blocks the one who applies: a failing disk is reported and costs freshness
// after the next crash, nothing else.
package lkg

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/statestore"
)

// The files in the directory. The previous pair is kept, so that a base that
// turns out damaged costs nothing: its predecessor and both journals reach as far.
const (
	baseName    = "lkg.base"
	journalName = "lkg.journal"
	floorName   = "lkg.floor"
	prevSuffix  = ".prev"
	tempSuffix  = ".tmp"
)

const (
	// flushEvery bounds what a crash loses: DNS may be one flush older after it.
	flushEvery = 100 * time.Millisecond

	// journalLimit is where the journal is folded into a new base. Replaying it
	// takes about as long as reading a base of this size.
	journalLimit = 16 << 20

	// pendingLimit bounds memory while the disk hangs or fails. Past it the journal
	// has a hole, and only a new base mends that.
	pendingLimit = 64 << 20

	// retryEvery spaces attempts on a disk that fails.
	retryEvery = 5 * time.Second
)

// ErrBelowFloor is a state of a generation this node has already gone beyond.
var ErrBelowFloor = errors.New("state is of an older generation than this node has served")

// File is the last known good state in one directory.
type File struct {
	dir string
	log *slog.Logger

	limit int64         // of the journal; smaller in tests
	wake  chan struct{} // holds one: something is to be written

	// mu guards what Append and Rebase hand to Run. Nobody holds it over I/O.
	mu      sync.Mutex
	pending []record
	bytes   int               // in pending
	last    uint64            // index of the entry appended last
	life    life              // whose entries these are
	hole    bool              // pending was dropped: only a base mends that
	rebase  *statestore.State // the base to write next; nil: none asked for
	err     error             // of the last write

	// Owned by Run, and by Load before it.
	journal *os.File
	size    int64
	broken  bool // the journal may have a hole or a torn end: write a base instead
	owed    bool // the last write failed and must be tried again

	floorMu sync.Mutex // held while the floor is written
	floor   floorFile
	durable atomic.Pointer[Floor] // as it is on disk
}

// life tells histories of entries apart: within one, an index means one entry.
type life struct {
	installation string
	generation   uint64
}

func lifeOf(st *statestore.State) life { return life{st.Installation, st.Generation} }

// Open opens or creates the files in dir. One process at a time may use it.
func Open(dir string, log *slog.Logger) (*File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open last known good state: %w", err)
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	// Nothing is ever appended behind a record that may be torn: the first write is
	// a base.
	f := &File{dir: dir, log: log, limit: journalLimit, wake: make(chan struct{}, 1), broken: true}
	floor, err := f.floor.open(filepath.Join(dir, floorName))
	if err != nil {
		return nil, fmt.Errorf("open last known good state: %w", err)
	}
	if floor.Generation == 0 && len(floor.Services) == 0 && f.hasBase() {
		f.floor.lost = true // every base has raised it
	}
	f.durable.Store(floor)
	return f, nil
}

// hasBase reports whether an earlier run has left a state.
func (f *File) hasBase() bool {
	for _, name := range []string{baseName, baseName + prevSuffix} {
		if _, err := os.Stat(f.path(name)); err == nil {
			return true
		}
	}
	return false
}

func (f *File) path(name string) string { return filepath.Join(f.dir, name) }

// Load returns the newest state that can be put together, or nil when there is
// none. It falls back on the previous base when the current one is damaged, and
// ends a journal at its first bad record. Call it before the first Append.
func (f *File) Load() (*statestore.State, error) {
	st, err := f.loadBase()
	if err != nil {
		return nil, err
	}
	if st != nil {
		store := statestore.NewStoreAt(st)
		f.replay(store, f.path(journalName+prevSuffix))
		f.replay(store, f.path(journalName))
		st = store.State()
		if floor := f.Floor(); st.Generation < floor.Generation {
			return nil, fmt.Errorf("load last known good state of generation %d in %s, floor %d: %w", st.Generation, f.dir, floor.Generation, ErrBelowFloor)
		}
	}
	if st == nil {
		return nil, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last, f.life = st.Index, lifeOf(st)
	return st, nil
}

// loadBase reads the newest base that is whole; nil when there is none at all.
func (f *File) loadBase() (*statestore.State, error) {
	var errs []error
	for _, name := range []string{baseName, baseName + prevSuffix} {
		st, err := readBase(f.path(name))
		switch {
		case err == nil:
			return st, nil
		case errors.Is(err, fs.ErrNotExist):
			continue
		}
		f.log.Error("last known good state is damaged, trying the one before", keyFile, f.path(name), keyErr, err)
		errs = append(errs, fmt.Errorf("%s: %w", name, err))
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("load last known good state in %s: %w", f.dir, errors.Join(errs...))
	}
	return nil, nil
}

func readBase(path string) (*statestore.State, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // Only read from.
	return statestore.ReadSnapshot(bufio.NewReader(file))
}

// replay applies a journal's records as far as they follow on from the state.
func (f *File) replay(store *statestore.Store, path string) {
	data, err := os.ReadFile(path)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			f.log.Error("journal of the last known good state cannot be read", keyFile, path, keyErr, err)
		}
		return
	}
	for len(data) > 0 {
		r, rest, err := parseRecord(data)
		if err != nil {
			f.log.Warn("journal of the last known good state ends early", keyFile, path, keyBytes, len(data), keyErr, err)
			return
		}
		data = rest
		if r.index <= store.State().Index {
			continue
		}
		if r.prev != store.State().Index {
			f.log.Warn("journal of the last known good state has a hole", keyFile, path, keyIndex, r.index, keyAfter, store.State().Index)
			return
		}
		if res := store.Apply(r.index, r.term, r.data); errors.Is(res.Err, statestore.ErrUndecodable) {
			f.log.Error("journal of the last known good state was written by a newer quorate", keyFile, path, keyIndex, r.index, keyErr, res.Err)
			return
		}
	}
}

// Append adds an applied log entry. It copies data, and never blocks or fails.
func (f *File) Append(index, term uint64, data []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if index <= f.last {
		return // Replayed by Raft: it is in the base or the journal.
	}
	f.stir()
	f.pending = append(f.pending, record{prev: f.last, index: index, term: term, data: append([]byte(nil), data...)})
	f.last = index
	f.bytes += len(data)
	if f.bytes > pendingLimit {
		// The next record's predecessor is then missing, which replay would notice.
		f.pending, f.bytes, f.hole = nil, 0, true
	}
}

// Rebase makes st the base. Call it after Store.Restore, before the next Append:
// the journal holds only what came entry by entry. It does not block. A state
// that the files are beyond already, such as Raft's own snapshot at start, is
// passed over.
func (f *File) Rebase(st *statestore.State) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if lifeOf(st) == f.life && st.Index <= f.last {
		return
	}
	f.rebase, f.last, f.life = st, st.Index, lifeOf(st)
	f.pending, f.bytes = nil, 0
	f.stir()
}

// Run writes what was appended, until ctx ends; then it flushes once more. The
// journal is folded into a new base, made from current, when it has grown long.
// A failing disk never ends it.
func (f *File) Run(ctx context.Context, current func() *statestore.State) {
	for ctx.Err() == nil {
		// Nothing to write costs nothing: Run sleeps until something is appended, and
		// gathers what follows within flushEvery into the same write.
		wait := flushEvery
		if f.owed {
			wait = retryEvery
		} else {
			select {
			case <-ctx.Done():
			case <-f.wake:
			}
		}
		pause(ctx, wait)
		f.flushAndReport(current)
	}
	f.flushAndReport(current) // what came while the last write was under way
}

func (f *File) flushAndReport(current func() *statestore.State) {
	err := f.flush(current)
	f.owed = err != nil
	f.report(err)
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// stir wakes Run.
func (f *File) stir() {
	select {
	case f.wake <- struct{}{}:
	default: // it is awake, or about to be
	}
}

// report keeps the outcome of a write, and logs when it changes.
func (f *File) report(err error) {
	f.mu.Lock()
	was := f.err
	f.err = err
	f.mu.Unlock()
	switch {
	case err != nil && was == nil:
		f.log.Error("last known good state cannot be written; DNS goes on from memory", keyDir, f.dir, keyErr, err)
	case err == nil && was != nil:
		f.log.Info("last known good state is written again", keyDir, f.dir)
	}
}

// Err returns the last write's error; nil when it succeeded.
func (f *File) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// Close closes the files. Call it after Run has returned.
func (f *File) Close() error {
	var err error
	if f.journal != nil {
		err = f.journal.Close()
		f.journal = nil
	}
	return errors.Join(err, f.floor.close())
}
