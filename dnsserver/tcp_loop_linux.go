package dnsserver

import (
	"encoding/binary"
	"math"
	"net/netip"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"
)

const (
	// tcpRead is how much is read from one connection at once: then it is the others'
	// turn.
	tcpRead = 16 << 10
	// tcpFlush is how much is answered before it is sent: more saves no calls, and is
	// what a client that does not read makes us keep.
	tcpFlush = 16 << 10
	// tcpEvents is how many events are taken at once, tcpAccepts how many connections.
	tcpEvents  = 128
	tcpAccepts = 64
	// keptBuffers is how many unused buffers a loop keeps.
	keptBuffers = 64

	// tcpSpared is how many connections are looked at to find one that may be closed.
	tcpSpared = 8
	// tcpLent is how many connections above all there may be for an instant, until other
	// loops have made room for them.
	tcpLent = 64
	// At the end, up to tcpEndAccepts waiting connections of a listener are taken, and
	// each connection is read up to tcpEndReads times: more than their queues hold.
	tcpEndAccepts = 4096
	tcpEndReads   = 8

	// tcpYield is how long a busy loop keeps others from its processor. Beyond 10 ms the
	// runtime would take it away in the middle of a call, and poll every 20 microseconds
	// for the next time.
	tcpYield = 5 * time.Millisecond

	// Slots that are no connection's: the listeners' count down from firstListener.
	firstListener int32 = -1
	wakeSlot      int32 = math.MinInt32
)

// tcpLoop is one event loop: one goroutine, which answers all connections that it
// has accepted.
//
// A connection that waits has no buffer. All read into one and write from one; only
// the beginning of a message, and answers that the kernel did not take, are kept with
// the connection: tcpRead and a query, and tcpFlush and an answer, at most. While any
// answers are kept, nothing is read.
type tcpLoop struct {
	s         *Server
	times     tcpTimes
	epoll     int
	wake      int
	listeners []int

	// Other goroutines write these, before they wake the loop up.
	told  atomic.Bool  // to end
	owes  atomic.Int32 // connections that make room for those of other loops
	held  atomic.Int32 // connections; only read by others
	peers []*tcpLoop   // all loops

	start   time.Time
	now     time.Duration // since start, read once a turn
	resume  time.Duration // when accepting goes on; 0: it does
	yielded time.Duration // when other goroutines were let run
	ending  bool

	conns  []tcpConn // by slot
	free   []int32   // slots
	spare  [][]byte  // buffers
	queues [waitNothing]tcpQueue

	worker *worker

	events [tcpEvents]unix.EpollEvent
	in     [maxTCPQuery + prefixSize + tcpRead]byte
	out    [tcpFlush + prefixSize + dns.MaxMsgSize]byte
}

// tcpConn is one connection. A slot is used again, for another life.
type tcpConn struct {
	tcpPlace
	fd     int // -1: no connection
	life   int32
	client netip.AddrPort
	prefix netip.Prefix
	in     []byte // read and not answered
	out    []byte // answered and not sent
	ended  bool   // nothing more comes, or is wanted: close it once out is sent
}

// run answers until the loop was woken up and every connection has ended.
func (l *tcpLoop) run() {
	for !l.done() {
		n := l.wait(l.untilNext())
		l.now = time.Since(l.start)
		l.turn(n)
		if l.now-l.yielded > tcpYield {
			runtime.Gosched()
			l.yielded = l.now
		}
	}
}

// done reports whether the loop was told to end and nobody takes answers any more.
func (l *tcpLoop) done() bool { return l.ending && l.queues[waitRest].first == none }

// turn deals with the first n events, and with what time has brought.
func (l *tcpLoop) turn(n int) {
	l.worker.begin(l.s.current(), l.s.cfg.Age())
	for i := range n {
		l.event(l.events[i])
	}
	l.worker.end()
	if l.resume > 0 && l.now >= l.resume && !l.ending {
		l.resume = 0
		if l.listen() != 0 {
			l.pause()
		}
	}
	l.expire()
}

func (l *tcpLoop) event(e unix.EpollEvent) {
	switch {
	case e.Fd == wakeSlot:
		l.woken()
	case e.Fd <= firstListener:
		l.accept(l.listeners[firstListener-e.Fd], tcpAccepts)
	default:
		// The connection may have been closed since, by another event of this turn.
		if c := &l.conns[e.Fd]; c.fd < 0 || c.life != e.Pad {
			return
		}
		l.serve(e.Fd)
	}
}

// accept takes the connections that wait at a listener, up to a number.
func (l *tcpLoop) accept(listener, limit int) {
	for range limit {
		fd, client, errno := acceptOn(listener)
		switch errno {
		case 0:
		case unix.EINTR, unix.ECONNABORTED, unix.EPROTO:
			continue
		case unix.EAGAIN:
			return
		default: // "too many open files" and the like
			l.pause()
			return
		}
		l.open(fd, client)
	}
}

// open takes a connection, unless it is above a limit: then it is closed at once,
// since waiting would make the queue the attacker's.
func (l *tcpLoop) open(fd int, client netip.AddrPort) {
	prefix := network(client.Addr())
	if why := l.take(prefix); why != "" {
		l.s.metrics.refused.WithLabelValues(why).Inc()
		closeSocket(fd)
		return
	}
	slot := l.slot()
	c := &l.conns[slot]
	c.fd, c.client, c.prefix = fd, client, prefix
	l.held.Add(1)
	l.enqueue(slot, waitFirst)
	if errno := l.watch(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN, slot, c.life); errno != 0 {
		l.finish(slot)
		return
	}
	l.receive(slot) // its query has often come already
}

// take counts a connection. When there are too many in all, one that asks nothing
// makes room: whoever only opens connections keeps nobody out.
func (l *tcpLoop) take(prefix netip.Prefix) (refused string) {
	why := l.s.conns.take(prefix, 0)
	if why != tcpFull {
		return why
	}
	lent := 0
	if !l.makeRoom() {
		if !l.askOthers() {
			return why
		}
		lent = tcpLent
	}
	l.s.metrics.refused.WithLabelValues(why).Inc()
	return l.s.conns.take(prefix, lent)
}

// askOthers has the loop with most connections make room for one.
func (l *tcpLoop) askOthers() bool {
	var most *tcpLoop
	for _, p := range l.peers {
		if p != l && p.held.Load() > 0 && (most == nil || p.held.Load() > most.held.Load()) {
			most = p
		}
	}
	if most == nil {
		return false
	}
	most.owes.Add(1)
	most.wakeUp()
	return true
}

// woken does what other goroutines have told the loop.
func (l *tcpLoop) woken() {
	_, _ = unix.Read(l.wake, make([]byte, 8)) // what it says is in the fields
	for n := l.owes.Swap(0); n > 0 && l.makeRoom(); n-- {
	}
	if l.told.Load() {
		l.end()
	}
}

// makeRoom closes a connection that has not asked anything for longest: never
// anything, or else nothing since its last answer (RFC 7766 6.2.3), or else the one that
// has been at one message for longest. One whose query has come by now is spared.
func (l *tcpLoop) makeRoom() bool {
	for _, queue := range []uint8{waitFirst, waitNext, waitRest} {
		for range tcpSpared {
			slot := l.queues[queue].first
			if slot == none {
				break
			}
			c := &l.conns[slot]
			life, since := c.life, c.since
			l.serve(slot)
			if c.life != life {
				return true
			}
			if c.queue == queue && c.since == since {
				l.giveUp(slot)
				return true
			}
		}
	}
	return false
}

// slot returns a slot without a connection.
func (l *tcpLoop) slot() int32 {
	if n := len(l.free); n > 0 {
		slot := l.free[n-1]
		l.free = l.free[:n-1]
		return slot
	}
	l.conns = append(l.conns, tcpConn{fd: -1, tcpPlace: tcpPlace{queue: waitNothing}})
	return int32(len(l.conns) - 1)
}

// pause stops accepting for a while.
func (l *tcpLoop) pause() {
	l.unlisten()
	l.resume = l.now + acceptPause
}

// serve goes on with a connection of which there is news.
func (l *tcpLoop) serve(slot int32) {
	c := &l.conns[slot]
	if len(c.out) == 0 {
		l.receive(slot)
		return
	}
	if !l.send(slot, c.out) || len(c.out) > 0 {
		return
	}
	if c.ended {
		l.finish(slot)
		return
	}
	if errno := l.watch(unix.EPOLL_CTL_MOD, c.fd, unix.EPOLLIN, slot, c.life); errno != 0 {
		l.abort(slot)
		return
	}
	n := copy(l.in[:], c.in)
	l.answer(slot, n, true)
}

// receive reads once, and answers what is whole. It reports whether anything came
// and more may: the connection is open.
func (l *tcpLoop) receive(slot int32) bool {
	c := &l.conns[slot]
	had := copy(l.in[:], c.in)
	n, errno := readFrom(c.fd, l.in[had:had+tcpRead])
	switch {
	case errno == unix.EAGAIN:
		return false
	case errno != 0 || n == 0:
		l.finish(slot)
		return false
	}
	life := c.life
	l.answer(slot, had+n, had == 0)
	return c.life == life
}

// answer answers the whole messages among the first n octets of l.in, and keeps the
// rest. fresh says that the first message begins in this turn.
func (l *tcpLoop) answer(slot int32, n int, fresh bool) {
	c := &l.conns[slot]
	at, out := 0, l.out[:0]
	for n-at >= prefixSize && len(c.out) == 0 {
		size, possible := messageLength(l.in[at:])
		if !possible {
			c.ended = true
			break
		}
		if n-at < prefixSize+size {
			break
		}
		answered := false
		if out, answered = l.answerOne(out, l.in[at+prefixSize:at+prefixSize+size], c.client); !answered {
			c.ended = true
			break
		}
		at += prefixSize + size
		if len(out) >= tcpFlush {
			if !l.send(slot, out) {
				return
			}
			out = out[:0]
		}
	}
	if len(out) > 0 && !l.send(slot, out) {
		return
	}
	if c.ended {
		l.keep(&c.in, nil)
	} else {
		l.keep(&c.in, l.in[at:n])
	}
	switch {
	case len(c.out) > 0:
	case c.ended || l.ending:
		l.finish(slot)
	case len(c.in) == 0:
		l.enqueue(slot, waitNext)
	case fresh || at > 0:
		l.enqueue(slot, waitRest) // else it is there already, since the message began
	}
}

// answerOne appends the answer to one query, with its length before it, to a part of
// l.out that ends before tcpFlush: any answer has room. It reports false where silence
// is right: nothing good follows on that connection.
func (l *tcpLoop) answerOne(out, query []byte, client netip.AddrPort) (with []byte, ok bool) {
	end := len(out) + prefixSize
	defer func() {
		if r := recover(); r != nil {
			l.s.panicked(r)
			with, ok = appendMessage(out, bare(query, dns.RcodeServerFailure)), true
		}
	}()
	_, sample := l.worker.due(1)
	var start time.Time
	if sample > 0 {
		start = time.Now()
	}
	room := out[end : end+dns.MaxMsgSize]
	size, ok := l.s.fast(l.worker, room, copy(room, query), client.Addr(), sample)
	switch {
	case !ok:
		w := l.worker
		reply := l.s.respondSafely(request{w.from.table, w.query.Stale, client, TCP, w.shard, sample}, query)
		if w.unsigned != nil {
			l.s.signPrepared(w.from, w.unsigned)
		}
		return appendMessage(out, reply), reply != nil
	case size == 0:
		return out, false
	}
	if sample > 0 {
		l.worker.timed(sample, TCP, start)
	}
	with = out[:end+size]
	binary.BigEndian.PutUint16(with[len(out):], uint16(size))
	return with, true
}

// send sends octets of a connection and keeps those that the kernel does not take. It
// returns false when the connection is gone.
func (l *tcpLoop) send(slot int32, b []byte) bool {
	c := &l.conns[slot]
	n, errno := writeTo(c.fd, b)
	if errno != 0 {
		l.finish(slot)
		return false
	}
	blocked := len(c.out) > 0
	l.keep(&c.out, b[n:])
	if len(c.out) > 0 && !blocked {
		l.enqueue(slot, waitRest)
		if errno := l.watch(unix.EPOLL_CTL_MOD, c.fd, unix.EPOLLOUT, slot, c.life); errno != 0 {
			l.abort(slot)
			return false
		}
	}
	return true
}

// keep makes a connection's buffer hold b, which may be a part of it. An empty one is
// given back.
func (l *tcpLoop) keep(buf *[]byte, b []byte) {
	switch {
	case len(b) > 0 && *buf == nil && len(l.spare) > 0:
		*buf = l.spare[len(l.spare)-1]
		l.spare = l.spare[:len(l.spare)-1]
		fallthrough
	case len(b) > 0:
		*buf = append((*buf)[:0], b...)
	case *buf != nil:
		if len(l.spare) < keptBuffers && cap(*buf) <= tcpFlush {
			l.spare = append(l.spare, (*buf)[:0])
		}
		*buf = nil
	}
}

// finish closes a connection. What the kernel took is sent.
func (l *tcpLoop) finish(slot int32) {
	closeSocket(l.conns[slot].fd)
	l.forget(slot)
}

// abort closes a connection whose client takes nothing: nothing is kept for it.
func (l *tcpLoop) abort(slot int32) {
	reset(l.conns[slot].fd)
	l.forget(slot)
}

// giveUp closes a connection that has waited long enough.
func (l *tcpLoop) giveUp(slot int32) {
	if l.conns[slot].queue == waitRest {
		l.abort(slot)
	} else {
		l.finish(slot)
	}
}

func (l *tcpLoop) forget(slot int32) {
	l.dequeue(slot)
	c := &l.conns[slot]
	l.s.conns.release(c.prefix)
	l.held.Add(-1)
	l.keep(&c.in, nil)
	l.keep(&c.out, nil)
	*c = tcpConn{fd: -1, life: c.life + 1, tcpPlace: tcpPlace{queue: waitNothing}}
	l.free = append(l.free, slot)
}

// end stops accepting, answers what has come, and closes every connection that need
// not take answers first: those get the time of a message.
func (l *tcpLoop) end() {
	if l.ending {
		return
	}
	for _, fd := range l.listeners {
		l.accept(fd, tcpEndAccepts)
	}
	l.unlisten()
	l.resume = 0 // accepting may have paused
	for slot := range l.conns {
		c := &l.conns[slot]
		for range tcpEndReads {
			if c.fd < 0 || len(c.out) > 0 || !l.receive(int32(slot)) {
				break
			}
		}
		if c.fd >= 0 && len(c.out) == 0 {
			l.finish(int32(slot))
		}
	}
	l.ending = true
}
