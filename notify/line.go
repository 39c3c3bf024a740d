package notify

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/statestore"
)

// Bounds on what is kept for one receiver.
const (
	maxWaiting  = 4096 // events that wait; more stay in the state until there is room
	maxTogether = 4    // requests at once, each of another subject
)

// The cursor is committed after something was told. That it also is after so many
// other events, or so long, keeps it within the history that the state holds.
const (
	maxPassed    = 1000
	longestQuiet = 24 * time.Hour // of log time
)

// How long an event is tried.
const (
	firstWait   = time.Second
	longestWait = time.Minute    // between two tries
	keepTrying  = 24 * time.Hour // of log time, from the event on
	betweenLog  = time.Minute    // of warnings about one receiver
)

// line is what one receiver still has to be told: a queue a subject, so that an
// event that is not taken holds up those of its own subject only. It keeps indices;
// the events themselves stay in the state.
type line struct {
	receiver string
	ctx      context.Context // done when the receiver or the leadership is gone
	stop     context.CancelFunc
	slots    chan struct{}

	mu      sync.Mutex
	read    uint64 // events up to it were looked at
	noted   uint64 // the cursor that was proposed last
	queues  map[string][]uint64
	waiting int
	dirty   bool      // the cursor is worth an entry once it has moved
	passed  int       // events looked at since noted
	notedAt time.Time // log time
	warned  time.Time
}

func newLine(ctx context.Context, receiver string, after uint64) *line {
	l := &line{receiver: receiver, slots: make(chan struct{}, maxTogether), read: after, noted: after, queues: map[string][]uint64{}}
	l.ctx, l.stop = context.WithCancel(ctx)
	return l
}

// read queues the events that the receiver is to be told, as far as there is room.
func (t *tenure) read(l *line, st *statestore.State) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if lost(st, l.read) {
		t.log.Warn("events were dropped from history before a receiver was told them", keyReceiver, l.receiver, keyAfter, l.read, keyBefore, st.Events[0].Index)
		t.metrics.failed(l.receiver, reasonHistory)
		l.read = st.Events[0].Index - 1
	}
	for _, e := range st.Events[position(st, l.read+1):] {
		if l.waiting >= maxWaiting {
			break
		}
		l.read = e.Index
		l.passed++
		if !wanted(st, l.receiver, e) {
			continue
		}
		queue := l.queues[e.Subject]
		l.queues[e.Subject] = append(queue, e.Index)
		l.waiting++
		if len(queue) == 0 {
			t.wg.Go(func() { t.tellSubject(l, e.Subject, e.Index) })
		}
	}
	if l.passed >= maxPassed || st.Now.Sub(l.notedAt) >= longestQuiet {
		l.dirty = true
		signal(t.moved)
	}
}

// position returns where the first event of at least that index is.
func position(st *statestore.State, index uint64) int {
	i, _ := slices.BinarySearchFunc(st.Events, index, func(e statestore.Event, n uint64) int { return cmp.Compare(e.Index, n) })
	return i
}

// lost reports whether events after index are not in the state any more.
func lost(st *statestore.State, index uint64) bool {
	return uint64(len(st.Events)) < st.Audit.Count && len(st.Events) > 0 && index+1 < st.Events[0].Index
}

// tellSubject tells the events of one subject in order, from index on, until none
// waits.
func (t *tenure) tellSubject(l *line, subject string, index uint64) {
	for more := true; more; {
		t.tell(l, index)
		if l.ctx.Err() != nil {
			return
		}
		index, more = l.next(subject)
		signal(t.moved)
		signal(t.room)
	}
}

// next takes the event that was told off the queue and returns the one after it.
func (l *line) next(subject string) (index uint64, more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dirty = true
	l.waiting--
	queue := l.queues[subject][1:]
	if len(queue) == 0 {
		delete(l.queues, subject)
		return 0, false
	}
	l.queues[subject] = queue
	return queue[0], true
}

// due returns the cursor when it is to be committed: every event up to it was told,
// given up or not for this receiver.
func (l *line) due(now time.Time) (uint64, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	cursor := l.read
	for _, queue := range l.queues {
		cursor = min(cursor, queue[0]-1)
	}
	if cursor <= l.noted || !l.dirty {
		return 0, false
	}
	l.noted, l.notedAt, l.dirty, l.passed = cursor, now, false, 0
	return cursor, true
}

// again makes the cursor due once more.
func (l *line) again() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.noted, l.dirty = l.noted-1, true
}

// tell sends one event until it is taken, or given up.
func (t *tenure) tell(l *line, index uint64) {
	for pause := firstWait; !t.try(l, index) && wait(l.ctx, pause); {
		pause = min(2*pause, longestWait)
	}
}

// try sends an event once, and reports whether that was the last time.
func (t *tenure) try(l *line, index uint64) bool {
	select {
	case l.slots <- struct{}{}:
	case <-l.ctx.Done():
		return true
	}
	defer func() { <-l.slots }()
	st := t.cfg.Store.State()
	hook := webhook(st, l.receiver)
	if hook == nil {
		return false // the line ends soon, unless the receiver comes back at once
	}
	i := position(st, index)
	if i == len(st.Events) || st.Events[i].Index != index {
		t.metrics.failed(l.receiver, reasonHistory)
		t.log.Error("event dropped from history before its receiver took it", keyReceiver, l.receiver, keyIndex, index)
		return true
	}
	e := st.Events[i]
	reason, err := t.send(l.ctx, l.receiver, hook, st, e)
	if reason == "" || l.ctx.Err() != nil {
		return true
	}
	t.metrics.failed(l.receiver, reason)
	if st.Now.Sub(e.At) >= keepTrying {
		t.metrics.failed(l.receiver, reasonExpired)
		t.log.Error("event given up: its receiver did not take it for a day", keyReceiver, l.receiver, keyIndex, index, keyType, e.Type, keySubject, e.Subject, keyErr, err)
		return true
	}
	if reason != reasonSecret && l.warn(time.Now()) { // of a secret send has warned
		t.log.Warn("receiver did not take an event; it is tried again", keyReceiver, l.receiver, keyIndex, index, keyType, e.Type, keySubject, e.Subject, keyErr, err)
	}
	return false
}

// warn reports whether it is time for a line about the receiver.
func (l *line) warn(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.warned.IsZero() && now.Sub(l.warned) < betweenLog {
		return false
	}
	l.warned = now
	return true
}
