//go:build !linux

package controller

import "time"

// bootClock returns monotonic time.
func bootClock() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}
