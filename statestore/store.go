package statestore

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Store holds the current State and moves it on entry by entry. State and
// Changed may be called from anywhere; Apply and Restore are serialised.
type Store struct {
	current atomic.Pointer[version]
	mu      sync.Mutex // held by writers
}

// version is a state and the channel that closes when there is a newer one.
type version struct {
	state   *State
	changed chan struct{}
}

// Result is what became of an entry.
type Result struct {
	Index uint64

	// Err is nil when the command took effect, a *Refusal when the state forbids
	// it, and wraps ErrUndecodable when this build cannot read it.
	Err error
}

// NewStore returns a store of the empty state.
func NewStore() *Store { return NewStoreAt(emptyState()) }

// NewStoreAt returns a store that begins at st, such as one read from a snapshot.
func NewStoreAt(st *State) *Store {
	own := *st
	own.Events = slices.Clip(own.Events) // Two stores from one state must not share what they append.
	s := &Store{}
	s.current.Store(&version{&own, make(chan struct{})})
	return s
}

// State returns the current state; never nil.
func (s *Store) State() *State { return s.current.Load().state }

// Changed returns a channel that closes when the state that is current now is
// replaced. To miss nothing, take it before State.
func (s *Store) Changed() <-chan struct{} { return s.current.Load().changed }

func (s *Store) swap(st *State) {
	old := s.current.Swap(&version{st, make(chan struct{})})
	close(old.changed)
}

// Apply applies the log entry at index.
//
// A command that the state forbids is refused: Result.Err says why, and nothing
// but the log position, log time and the memory of the request id changes, on
// every replica; the refusal of a person's act on a cutover is audited. An entry
// that does not decode changes nothing at all; the raft adapter then parks consensus
// on this node. An entry at or below the state's index is in the state already and
// is passed over.
func (s *Store) Apply(index, term uint64, data []byte) Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.State()
	if index <= st.Index {
		return Result{Index: index}
	}
	next, err := st.apply(index, term, data)
	if next != nil {
		s.swap(next)
	}
	return Result{Index: index, Err: err}
}

// Restore reads a snapshot, builds a new state from it, and only then makes it
// current. A snapshot that does not read whole leaves the state as it is.
func (s *Store) Restore(r io.Reader) error {
	st, err := ReadSnapshot(r)
	if err != nil {
		return fmt.Errorf("restore state: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.swap(st)
	return nil
}

// entry is what a command knows of the log entry it came in.
type entry struct {
	index uint64
	now   time.Time // log time of this entry
	meta  Meta
}

// record is what a command says of the change it made; apply completes it to an Event.
type record struct {
	kind    string // Event.Type; empty: nothing changed
	subject string
	text    string
	detail  any
}

// also returns one record of both: an entry has no more than one.
func (r record) also(other record) record {
	switch {
	case other.kind == "":
		return r
	case r.kind == "":
		return other
	}
	r.text += "; " + other.text
	return r
}

// apply returns the state after the entry. A nil state says that the entry could
// not be read.
func (st *State) apply(index, term uint64, data []byte) (*State, error) {
	cmd, meta, body, err := decode(data)
	if err != nil && !errors.Is(err, errSkipped) {
		return nil, fmt.Errorf("index %d: %w", index, err)
	}
	framed := st.frame(index, term, meta)
	at := entry{index: index, now: framed.Now, meta: meta}
	lost := framed.voidSignatures(st, at)
	next, rec, err := framed.obey(cmd, body, at)
	if rec = rec.also(lost); rec.kind != "" {
		if err := next.audit(at, rec); err != nil {
			// The record is ours and always encodes; a replica on which it does not
			// must not go on alone.
			return nil, fmt.Errorf("index %d: audit record: %w: %w", index, err, ErrUndecodable)
		}
	}
	return next, err
}

// obey returns the state after the command, and what goes on record. Of a refused
// one only the memory of its request is left and, where a person acted on a
// cutover, a record. A nil command is one that this node may skip.
func (st *State) obey(cmd Command, body []byte, at entry) (*State, record, error) {
	next := *st
	if cmd == nil {
		return &next, record{}, nil
	}
	if settled, err := st.remembered(cmd.Kind(), body, at.meta); settled {
		return &next, record{}, err
	}
	rec, err := cmd.apply(&next, at)
	if err != nil {
		next, rec = *st, record{}
		var refusal *Refusal
		if asRefusal(err, &refusal) {
			rec = next.refusal(cmd, refusal)
		}
	}
	next.remember(cmd.Kind(), body, at, err)
	return &next, rec, err
}

// frame returns the state with what every entry moves, whether its command is
// done, refused or skipped: log position, log time, and the votes set aside when
// a term begins.
func (st *State) frame(index, term uint64, m Meta) *State {
	next := *st
	next.Index = index
	next.Now = logTime(st.Now, m)
	if term > st.Term {
		next.Term = term
		next.unconfirmAll()
	}
	return &next
}
