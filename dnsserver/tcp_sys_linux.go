package dnsserver

import (
	"encoding/binary"
	"net/netip"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Every call here is on a socket that never blocks, so it may be raw: the scheduler
// need not know. Only wait, with a timeout, lets it know.

// watch tells epoll which events of fd to report, and under which slot and life.
func (l *tcpLoop) watch(op, fd int, events uint32, slot, life int32) syscall.Errno {
	event := unix.EpollEvent{Events: events, Fd: slot, Pad: life}
	// The kernel reads the event during the call only.
	_, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_CTL, uintptr(l.epoll), uintptr(op), uintptr(fd), uintptr(unsafe.Pointer(&event)), 0, 0)
	return errno
}

// wait waits for events: not at all, or up to a timeout (below 0: for ever). It
// returns how many there are.
func (l *tcpLoop) wait(timeout time.Duration) int {
	// The kernel fills at most len(l.events) of them, which live as long as the loop.
	events, room := uintptr(unsafe.Pointer(&l.events[0])), uintptr(len(l.events))
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(l.epoll), events, room, 0, 0, 0)
	if n == 0 && errno == 0 && timeout != 0 {
		ms := -1
		if timeout > 0 {
			ms = int((timeout + time.Millisecond - 1) / time.Millisecond)
		}
		n, _, errno = unix.Syscall6(unix.SYS_EPOLL_PWAIT, uintptr(l.epoll), events, room, uintptr(ms), 0, 0)
	}
	if errno != 0 {
		return 0 // interrupted
	}
	return int(n)
}

// acceptOn takes a connection that waits at a listener.
func acceptOn(listener int) (fd int, client netip.AddrPort, errno syscall.Errno) {
	var from unix.RawSockaddrInet6 // the longer one of both families
	size := uint32(unsafe.Sizeof(from))
	// The kernel writes at most size octets, during the call only.
	n, _, errno := unix.RawSyscall6(unix.SYS_ACCEPT4, uintptr(listener), uintptr(unsafe.Pointer(&from)), uintptr(unsafe.Pointer(&size)), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0, 0)
	if errno != 0 {
		return -1, netip.AddrPort{}, errno
	}
	port := binary.BigEndian.Uint16((*[2]byte)(unsafe.Pointer(&from.Port))[:]) // in network order
	if from.Family == unix.AF_INET6 {
		return int(n), netip.AddrPortFrom(netip.AddrFrom16(from.Addr).Unmap(), port), 0
	}
	// A sockaddr_in is shorter: its address stands where the other has its flow label.
	v4 := *(*[4]byte)(unsafe.Pointer(&from.Flowinfo))
	return int(n), netip.AddrPortFrom(netip.AddrFrom4(v4), port), 0
}

// readFrom reads what has come. 0 without an error is the end.
func readFrom(fd int, into []byte) (int, syscall.Errno) {
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&into[0])), uintptr(len(into)), unix.MSG_DONTWAIT, 0, 0)
		switch errno {
		case 0:
			return int(n), 0
		case unix.EINTR:
			continue
		}
		return 0, errno
	}
}

// writeTo sends what the kernel takes.
func writeTo(fd int, from []byte) (int, syscall.Errno) {
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&from[0])), uintptr(len(from)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
		switch errno {
		case 0:
			return int(n), 0
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			return 0, 0
		}
		return 0, errno
	}
}

func closeSocket(fd int) {
	_, _, _ = unix.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0) // it is gone whatever it says
}

// reset closes a socket and forgets what was to be sent on it, instead of keeping it
// for a client that does not take it.
func reset(fd int) {
	_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	closeSocket(fd)
}
