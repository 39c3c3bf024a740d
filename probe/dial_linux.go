package probe

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// bindLate makes a socket that is bound to an address take its port when it
// connects. A port taken at once is taken for all destinations, and a few hundred
// probes a second would use them up.
func bindLate(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1) // without it, ports run out sooner
	})
}
