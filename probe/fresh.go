package probe

import (
	"container/heap"
	"time"
)

// freshHeap orders targets by when their vote has to be looked at again because
// what it rests on may have grown stale. It implements heap.Interface.
type freshHeap []*targetState

func (h freshHeap) Len() int           { return len(h) }
func (h freshHeap) Less(i, j int) bool { return h[i].fresh.Before(h[j].fresh) }

func (h freshHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

// Push appends x, a *targetState.
func (h *freshHeap) Push(x any) {
	t := x.(*targetState)
	t.at = len(*h)
	*h = append(*h, t)
}

// Pop removes the last element.
func (h *freshHeap) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	t.at = -1
	return t
}

// lookAgain makes the vote on t be computed again after until; zero: time alone
// does not change it. A later time than the one noted before is not noted: it
// moves with every result, and looking too early costs less than moving it.
func (l *loop) lookAgain(t *targetState, until time.Time) {
	switch {
	case until.IsZero():
	case t.at < 0:
		t.fresh = until
		heap.Push(&l.fresh, t)
	case until.Before(t.fresh):
		t.fresh = until
		heap.Fix(&l.fresh, t.at)
	}
}

// recomputeStale computes the votes that time may have changed.
func (l *loop) recomputeStale(now time.Time) {
	for len(l.fresh) > 0 && l.fresh[0].fresh.Before(now) {
		t := heap.Pop(&l.fresh).(*targetState)
		l.recomputeOne(t, now)
	}
}
