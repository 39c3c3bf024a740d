package api

import (
	"sync"
	"time"
)

// Rates of the token buckets. A person with a console and a script stays far
// below; a loop gone wild is slowed before it costs DNS a core.
const (
	requestRate  = 100
	requestBurst = 400

	// A wrong token costs one of these, per address, so that guessing is slow and
	// nobody can lock another one out.
	failureRate  = 1
	failureBurst = 20

	// A refused act on a cutover costs one of these, per person: each is put on
	// record, and a loop gone wild must not push all other records out of history.
	refusalRate  = 0.2
	refusalBurst = 30

	// Each check that a person runs by hand costs one of these, per person: enough to
	// look at a large cluster, too little to load it.
	probeRate  = 5
	probeBurst = 100

	// A what-if or a replay costs one of these, per person: each looks at every
	// service and all that is recorded.
	whatIfRate  = 1
	whatIfBurst = 30

	// maxBuckets bounds memory; the fullest buckets are forgotten first.
	maxBuckets = 4096
)

// limiter is a set of token buckets by key.
type limiter struct {
	rate, burst float64

	mu      sync.Mutex // protects buckets
	buckets map[string]bucket
}

type bucket struct {
	tokens float64
	at     time.Time
}

func newLimiter(rate, burst float64) *limiter {
	return &limiter{rate: rate, burst: burst, buckets: map[string]bucket{}}
}

// take takes n tokens and reports whether they were there, and else how long
// until they are. With n zero it only asks for one.
func (l *limiter) take(key string, n float64, now time.Time) (bool, time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, ok := l.buckets[key]
	if !ok {
		l.makeRoomLocked(now)
		b = bucket{tokens: l.burst, at: now}
	}
	b.tokens = min(l.burst, b.tokens+now.Sub(b.at).Seconds()*l.rate)
	b.at = now
	need := max(n, 1)
	if b.tokens < need {
		l.buckets[key] = b
		return false, time.Duration((need - b.tokens) / l.rate * float64(time.Second))
	}
	b.tokens -= n
	l.buckets[key] = b
	return true, 0
}

func (l *limiter) makeRoomLocked(now time.Time) {
	if len(l.buckets) < maxBuckets {
		return
	}
	for k, b := range l.buckets {
		if b.tokens+now.Sub(b.at).Seconds()*l.rate >= l.burst {
			delete(l.buckets, k)
		}
	}
	if len(l.buckets) >= maxBuckets {
		clear(l.buckets)
	}
}
