package consensus

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// storeDeadline is how long one access to the store may take: far above any
// healthy fsync, and well below what an operator would call a hang.
const storeDeadline = 5 * time.Second

// guard stands between raft and its store. raft lets a leader whose write hangs
// lead for ever, since heartbeats run beside it (hashicorp/raft #503), and panics
// where a stable write fails. So each access has a deadline; after the first one
// missed, or the first write that fails, the store is poisoned: this handle is
// never used again, because the late write may still land and would overwrite
// what raft wrote since. fail is told why, once.
type guard struct {
	store    *Storage
	deadline time.Duration
	fail     func(reason error) // must not block
	receive  func([]*raft.Log)  // told of entries before they are written; nil: nobody

	// running is set once raft runs: then a failing access ends the goroutine that
	// made it, where raft would panic. The transport is closed by then (fail).
	running atomic.Bool

	once   sync.Once
	poison atomic.Pointer[error]
	stuck  sync.WaitGroup // accesses that have not come back
}

func newGuard(s *Storage, deadline time.Duration, fail func(error)) *guard {
	return &guard{store: s, deadline: deadline, fail: fail}
}

// errPoisoned is what a poisoned store answers.
var errPoisoned = errors.New("store is poisoned")

func (g *guard) poisoned() error {
	if p := g.poison.Load(); p != nil {
		return *p
	}
	return nil
}

func (g *guard) poisonWith(reason error) error {
	g.once.Do(func() {
		err := fmt.Errorf("%w: %w", errPoisoned, reason)
		g.poison.Store(&err)
		g.fail(reason)
	})
	return g.poisoned()
}

// access runs f with the deadline.
func (g *guard) access(what string, f func() error) error {
	if err := g.poisoned(); err != nil {
		return err
	}
	done := make(chan error, 1)
	g.stuck.Add(1)
	go func() {
		defer g.stuck.Done()
		done <- f()
	}()
	timer := time.NewTimer(g.deadline)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return g.poisonWith(fmt.Errorf("%s took longer than %s", what, g.deadline))
	}
}

// write is access for what must not fail.
func (g *guard) write(what string, f func() error) error {
	err := g.access(what, f)
	if err != nil && g.poisoned() == nil {
		err = g.poisonWith(fmt.Errorf("%s: %w", what, err))
	}
	return err
}

// end ends the calling raft goroutine: the caller would panic on the error.
func (g *guard) end(err error) error {
	if g.running.Load() {
		runtime.Goexit()
	}
	return err
}

// FirstIndex implements raft.LogStore.
func (g *guard) FirstIndex() (i uint64, err error) {
	return g.index("read first index of raft log", g.store.Log.FirstIndex)
}

// LastIndex implements raft.LogStore.
func (g *guard) LastIndex() (i uint64, err error) {
	return g.index("read last index of raft log", g.store.Log.LastIndex)
}

func (g *guard) index(what string, f func() (uint64, error)) (uint64, error) {
	type answer struct{ i uint64 }
	got := make(chan answer, 1)
	err := g.access(what, func() error {
		i, err := f()
		got <- answer{i}
		return err
	})
	if err != nil {
		return 0, err
	}
	return (<-got).i, nil
}

// GetLog implements raft.LogStore. A missing entry is an ordinary answer: the
// follower then gets a snapshot.
func (g *guard) GetLog(index uint64, l *raft.Log) error {
	got := make(chan *raft.Log, 1) // a late read must not touch l
	err := g.access("read raft log", func() error {
		var e raft.Log
		err := g.store.Log.GetLog(index, &e)
		got <- &e
		return err
	})
	switch {
	case err == nil:
		*l = *<-got
		return nil
	case errors.Is(err, raft.ErrLogNotFound):
		return raft.ErrLogNotFound // raft compares with ==
	}
	return g.end(g.poisonWith(fmt.Errorf("read raft log at %d: %w", index, err)))
}

// StoreLog implements raft.LogStore.
func (g *guard) StoreLog(l *raft.Log) error { return g.StoreLogs([]*raft.Log{l}) }

// StoreLogs implements raft.LogStore.
func (g *guard) StoreLogs(logs []*raft.Log) error {
	if g.receive != nil {
		g.receive(logs)
	}
	return g.write("write raft log", func() error { return g.store.Log.StoreLogs(logs) })
}

// DeleteRange implements raft.LogStore.
func (g *guard) DeleteRange(from, to uint64) error {
	return g.write("cut raft log", func() error { return g.store.Log.DeleteRange(from, to) })
}

// Set implements raft.StableStore.
func (g *guard) Set(key, val []byte) error {
	return g.stable(func() error { return g.store.Stable.Set(key, val) })
}

// SetUint64 implements raft.StableStore.
func (g *guard) SetUint64(key []byte, val uint64) error {
	return g.stable(func() error { return g.store.Stable.SetUint64(key, val) })
}

func (g *guard) stable(f func() error) error {
	if err := g.write("write term or vote", f); err != nil {
		return g.end(err)
	}
	return nil
}

// Get implements raft.StableStore. raft knows the text "not found", so errors go
// through as they are.
func (g *guard) Get(key []byte) ([]byte, error) {
	got := make(chan []byte, 1)
	err := g.access("read term or vote", func() error {
		b, err := g.store.Stable.Get(key)
		got <- b
		return err
	})
	if err != nil {
		return nil, err
	}
	return <-got, nil
}

// GetUint64 implements raft.StableStore.
func (g *guard) GetUint64(key []byte) (uint64, error) {
	return g.index("read term or vote", func() (uint64, error) { return g.store.Stable.GetUint64(key) })
}

// close closes the store, now or, when an access is stuck in it, once that has
// come back: closing under it would hang too.
func (g *guard) close() error {
	if g.store.Close == nil {
		return nil
	}
	if g.poisoned() != nil {
		go func() {
			g.stuck.Wait()
			_ = g.store.Close() // nobody is left to tell
		}()
		return nil
	}
	g.stuck.Wait()
	return g.store.Close()
}
