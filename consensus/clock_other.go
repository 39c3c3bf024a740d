//go:build !linux

package consensus

import "time"

// bootClock is the process's monotonic clock; elsewhere than on Linux it may stand
// still during suspend.
func bootClock() time.Duration { return time.Since(processStart) }

// processStart is the base of bootClock.
var processStart = time.Now()
