package dnsserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// tcpSend and tcpReceive bound what the kernel holds for one connection: one whose
	// client acknowledges nothing would else grow to megabytes.
	tcpSend    = 64 << 10
	tcpReceive = 32 << 10
)

// serveTCP answers the connections of all listeners until ctx is done, one event
// loop a reader, and returns once all have ended: queries that have come by then are
// answered. Without epoll it is served by package net.
func (s *Server) serveTCP(ctx context.Context, listeners []*net.TCPListener) {
	if len(listeners) == 0 {
		return
	}
	fds, loops, err := s.tcpLoops(listeners)
	if err != nil {
		s.log.Warn("dns over tcp is served without epoll", keyErr, err)
		(&netTCP{s: s, open: map[net.Conn]struct{}{}}).serve(ctx, listeners)
		return
	}
	for _, l := range listeners {
		_ = l.Close() // ours stay open; the runtime's poller need not wake up for them
	}
	var wg sync.WaitGroup
	for _, l := range loops {
		wg.Go(l.run)
	}
	<-ctx.Done()
	for _, l := range loops {
		l.told.Store(true)
		l.wakeUp()
	}
	wg.Wait()
	closeLoops(fds, loops)
}

// tcpLoops makes the event loops and the sockets at which they accept. Nothing is
// kept when one cannot be made.
func (s *Server) tcpLoops(listeners []*net.TCPListener) (fds []int, loops []*tcpLoop, err error) {
	fds, err = duplicate(listeners)
	for range s.cfg.Readers {
		if err != nil {
			break
		}
		var l *tcpLoop
		if l, err = newTCPLoop(s, fds); err == nil {
			loops = append(loops, l)
		}
	}
	if err != nil {
		closeLoops(fds, loops)
		return nil, nil, err
	}
	for _, l := range loops {
		l.peers = loops
	}
	return fds, loops, nil
}

func closeLoops(fds []int, loops []*tcpLoop) {
	for _, l := range loops {
		l.close()
	}
	for _, fd := range fds {
		_ = unix.Close(fd) // nothing was written to it
	}
}

// duplicate returns descriptors of our own of the listeners' sockets.
func duplicate(listeners []*net.TCPListener) ([]int, error) {
	var fds []int
	for _, l := range listeners {
		raw, err := l.SyscallConn()
		if err != nil {
			return fds, err
		}
		var fd int
		var ferr error
		if err := raw.Control(func(theirs uintptr) { fd, ferr = unix.FcntlInt(theirs, unix.F_DUPFD_CLOEXEC, 0) }); err != nil || ferr != nil {
			return fds, errors.Join(err, ferr)
		}
		fds = append(fds, fd)
		// All of these are inherited by what is accepted, and save a call for each.
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, tcpSend)
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, tcpReceive)
	}
	return fds, nil
}

// newTCPLoop makes a loop that waits at the listeners.
func newTCPLoop(s *Server, listeners []int) (*tcpLoop, error) {
	l := &tcpLoop{s: s, listeners: listeners, start: time.Now(), times: s.times, worker: s.newWorker(s.metrics.counters.shard(), TCP), epoll: -1, wake: -1}
	for q := range l.queues {
		l.queues[q] = tcpQueue{none, none}
	}
	var err error
	if l.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("epoll_create1: %w", err)
	}
	if l.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		l.close()
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	if errno := l.watch(unix.EPOLL_CTL_ADD, l.wake, unix.EPOLLIN, wakeSlot, 0); errno != 0 {
		l.close()
		return nil, fmt.Errorf("epoll_ctl: %w", errno)
	}
	if errno := l.listen(); errno != 0 {
		l.close()
		return nil, fmt.Errorf("epoll_ctl: %w", errno)
	}
	return l, nil
}

func (l *tcpLoop) close() {
	for _, fd := range []int{l.epoll, l.wake} {
		if fd >= 0 {
			_ = unix.Close(fd) // nothing is lost with it
		}
	}
}

// wakeUp has the loop see what it was told. It may be called from another goroutine.
func (l *tcpLoop) wakeUp() {
	_, _ = unix.Write(l.wake, []byte{7: 1}) // a counter that is full wakes up as well; any order of octets is above 0
}

// listen has the loop told of new connections: one loop of all for each.
func (l *tcpLoop) listen() syscall.Errno {
	for i, fd := range l.listeners {
		if errno := l.watch(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN|unix.EPOLLEXCLUSIVE, firstListener-int32(i), 0); errno != 0 {
			return errno
		}
	}
	return 0
}

func (l *tcpLoop) unlisten() {
	for _, fd := range l.listeners {
		l.watch(unix.EPOLL_CTL_DEL, fd, 0, 0, 0)
	}
}
