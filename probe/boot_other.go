//go:build !linux

package probe

import "time"

// bootTime is not known here; the monotonic clock alone tells of a stall.
func bootTime() time.Duration { return 0 }
