package dnssec

import (
	"sync/atomic"
	"time"
)

// budget bounds how many signatures a second are made. It is a bucket of burst
// tokens, refilled at a rate, in one word: the time at which it will be full again.
type budget struct {
	each  int64 // nanoseconds a token takes to come back
	burst int64 // nanoseconds that all tokens take
	full  atomic.Int64
}

func newBudget(perSecond, burst int) *budget {
	each := int64(time.Second) / int64(max(perSecond, 1))
	return &budget{each: each, burst: each * int64(max(burst, 1))}
}

// take takes a token, and reports false where there is none.
func (b *budget) take(now int64) bool {
	for {
		full := b.full.Load()
		next := max(full, now) + b.each
		if full > now+2*b.burst {
			next = now + b.each // the clock was set back: start anew
		}
		if next-now > b.burst {
			return false
		}
		if b.full.CompareAndSwap(full, next) {
			return true
		}
	}
}
