package probe

import (
	"net/netip"
	"sync"
	"time"
)

// rttWeight is the part of a new sample in the average, as 1/rttWeight: one slow
// connect among many moves it by a fifth.
const rttWeight = 5

// rttTable holds the smoothed round trip time to each endpoint.
type rttTable struct {
	mu       sync.Mutex // guards smoothed
	smoothed map[netip.Addr]time.Duration
}

// add takes a sample; zero is none.
func (t *rttTable) add(endpoint netip.Addr, sample time.Duration) {
	if sample <= 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	was, known := t.smoothed[endpoint]
	if !known {
		t.smoothed[endpoint] = sample
		return
	}
	t.smoothed[endpoint] = was + (sample-was)/rttWeight
}

// keep forgets every endpoint that is not in the plan.
func (t *rttTable) keep(plan Plan) {
	endpoints := make(map[netip.Addr]bool, len(plan.Probes))
	for i := range plan.Probes {
		endpoints[plan.Probes[i].Endpoint] = true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for e := range t.smoothed {
		if !endpoints[e] {
			delete(t.smoothed, e)
		}
	}
}

// list returns a copy.
func (t *rttTable) list() map[netip.Addr]time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make(map[netip.Addr]time.Duration, len(t.smoothed))
	for e, d := range t.smoothed {
		out[e] = d
	}
	return out
}
