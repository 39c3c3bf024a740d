//go:build !linux

package probe

import "syscall"

// bindLate does nothing: a bound socket takes its port at once.
func bindLate(_, _ string, _ syscall.RawConn) error { return nil }
