package probe

import (
	"time"

	"golang.org/x/sys/unix"
)

// bootTime returns the time since boot, suspend included. Go's monotonic clock
// stands still while a machine sleeps, so a suspended node would not know.
func bootTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0 // never seen; then only the monotonic clock tells
	}
	return time.Duration(ts.Nano())
}
