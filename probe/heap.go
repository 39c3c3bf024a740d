package probe

// dueHeap orders probes by when they are due; equal times by identity, so that
// a run can be repeated. It implements heap.Interface.
type dueHeap []*probeState

func (h dueHeap) Len() int { return len(h) }

func (h dueHeap) Less(i, j int) bool {
	if !h[i].due.Equal(h[j].due) {
		return h[i].due.Before(h[j].due)
	}
	return h[i].probe.ID < h[j].probe.ID
}

func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

// Push appends x, a *probeState.
func (h *dueHeap) Push(x any) {
	s := x.(*probeState)
	s.at = len(*h)
	*h = append(*h, s)
}

// Pop removes the last element.
func (h *dueHeap) Pop() any {
	old := *h
	s := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	s.at = -1
	return s
}
