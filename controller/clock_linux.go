package controller

import (
	"time"

	"golang.org/x/sys/unix"
)

// bootClock returns monotonic time that goes on while the machine is suspended.
// Go's own monotonic clock stands still then, and a leader that woke up would
// take a day-old heartbeat for a fresh one.
func bootClock() func() time.Duration {
	start := time.Now()
	return func() time.Duration {
		var ts unix.Timespec
		if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
			return time.Since(start) // kernels before 2.6.39
		}
		return time.Duration(ts.Nano())
	}
}
