package consensus

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/statestore"
)

// stamp measures log time: how much of it each entry adds.
//
// Time runs from a base, the instant of the entry before. While this node leads,
// that is when it stamped its own last entry; stamping and enqueueing happen in
// one critical section, so that entries reach the log in the order of their stamps
// and no instant counts twice. When it takes over, the base is when it received the
// last entry that it applied, if that entry was fresh then. (When it applied it can
// be an election later.) One that came late, out of a log being replayed or after a
// partition, says nothing about when it was stamped: the base is then unknown, and
// the next entry takes the difference of the wall clocks and says so (Meta.Rebased).
type stamp struct {
	clock func() time.Duration
	wall  func() time.Time
	limit time.Duration // an entry stamped this long ago at most is fresh

	gate chan struct{} // holds one token: taken while stamping and enqueueing

	mu       sync.Mutex // guards what follows
	term     uint64     // in which this node stamps; 0: it does not lead
	base     instant    // of the entry stamped last in term
	last     instant    // of the entry applied last
	lastWall time.Time  // the stamping node's wall clock at the entry applied last; zero: unknown
	owed     time.Duration
	marks    []mark
	received map[uint64]instant // by index, of entries received and not applied yet
}

// instant is a reading of the clock that may be unknown.
type instant struct {
	at    time.Duration
	known bool
}

// mark says that the leader's log ended at index, at or after at. What comes above
// index was therefore stamped after at.
type mark struct {
	at    time.Duration
	index uint64
}

const (
	// maxMarks covers several seconds of the leader's pings.
	maxMarks = 64

	// maxReceived bounds what is remembered of entries that are never applied. A node
	// that receives more than this ahead of applying is catching up, and what it
	// receives is not fresh anyway.
	maxReceived = 4096
)

func newStamp(clock func() time.Duration, wall func() time.Time, limit time.Duration) *stamp {
	s := &stamp{clock: clock, wall: wall, limit: limit, gate: make(chan struct{}, 1), received: map[uint64]instant{}}
	s.gate <- struct{}{}
	return s
}

// mark records what the leader said of its log.
func (s *stamp) mark(at time.Duration, index uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.marks) == maxMarks {
		s.marks = s.marks[1:]
	}
	s.marks = append(s.marks, mark{at, index})
}

// receive notes that entries came for this node's log, just now.
func (s *stamp) receive(logs []*raft.Log) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	for _, l := range logs {
		if l.Type != raft.LogCommand {
			continue
		}
		if len(s.received) >= maxReceived {
			clear(s.received)
		}
		s.received[l.Index] = instant{now, l.Term == s.term || s.freshLocked(l.Index, now)}
	}
}

// applied notes that an entry was applied.
func (s *stamp) applied(l *raft.Log) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = s.received[l.Index] // unknown when it came in an earlier life
	delete(s.received, l.Index)
	s.lastWall = l.AppendedAt
}

func (s *stamp) freshLocked(index uint64, now time.Duration) bool {
	for i := len(s.marks) - 1; i >= 0; i-- {
		if m := s.marks[i]; m.index < index {
			return now-m.at <= s.limit
		}
	}
	return false
}

// restored notes that a snapshot replaced the state: nothing says when its last
// entry was.
func (s *stamp) restored() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last, s.lastWall = instant{}, time.Time{}
}

// lead starts stamping in term. Everything of earlier terms is applied.
func (s *stamp) lead(term uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.term, s.base, s.owed = term, s.last, 0
}

// follow ends stamping. What was stamped and never committed left no time in the
// log, so the next term starts from the last entry applied.
func (s *stamp) follow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.term = 0
}

// next stamps m. The returned func takes it back, for an entry that certainly
// never reached the log.
func (s *stamp) next(st *statestore.State, term uint64, m *statestore.Meta) (undo func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	m.Wall, m.Elapsed, m.Rebased = s.wall(), 0, false
	before := s.base
	switch {
	case s.base.known:
		m.Elapsed = now - s.base.at + s.owed
		s.owed = 0
	case st.Now.IsZero():
		m.Rebased = true // the first entry of the log starts its time
	default:
		m.Rebased = true
		since := s.lastWall
		if since.IsZero() {
			since = st.Now
		}
		m.Elapsed = m.Wall.Round(0).Sub(since.Round(0))
	}
	s.base = instant{now, true}
	elapsed := m.Elapsed
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case s.term != term:
		case before.known:
			s.owed += elapsed // the next entry makes up for it
		default:
			s.base = instant{}
		}
	}
}
