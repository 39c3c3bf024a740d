package dnsserver

import "time"

// none is the end of a queue.
const none int32 = -1

// Connections wait in one of three queues, for something else each. All of a queue
// may wait as long, so the first of a queue is the first whose time is over.
const (
	waitFirst   = iota // for the first whole message: nothing was asked yet
	waitNext           // for another message
	waitRest           // for the rest of a message, or to take answers
	waitNothing        // in no queue
)

// tcpQueue is a list of connections by their slots, in the order of since.
type tcpQueue struct{ first, last int32 }

// tcpPlace is a connection's place in its queue.
type tcpPlace struct {
	queue      uint8
	prev, next int32
	since      time.Duration // by the loop's clock
}

// enqueue puts a connection at the end of a queue; it leaves the one it is in.
func (l *tcpLoop) enqueue(slot int32, queue uint8) {
	l.dequeue(slot)
	q, p := &l.queues[queue], &l.conns[slot].tcpPlace
	*p = tcpPlace{queue: queue, prev: q.last, next: none, since: l.now}
	if q.last == none {
		q.first = slot
	} else {
		l.conns[q.last].next = slot
	}
	q.last = slot
}

func (l *tcpLoop) dequeue(slot int32) {
	p := &l.conns[slot].tcpPlace
	if p.queue == waitNothing {
		return
	}
	q := &l.queues[p.queue]
	if p.prev == none {
		q.first = p.next
	} else {
		l.conns[p.prev].next = p.next
	}
	if p.next == none {
		q.last = p.prev
	} else {
		l.conns[p.next].prev = p.prev
	}
	p.queue = waitNothing
}

// allowed is how long connections may be in a queue.
func (l *tcpLoop) allowed(queue int) time.Duration {
	if queue == waitRest {
		return l.times.message
	}
	return l.s.tcpIdle()
}

// expire closes the connections whose time is over.
func (l *tcpLoop) expire() {
	for queue := range l.queues {
		allowed := l.allowed(queue)
		for slot := l.queues[queue].first; slot != none; slot = l.queues[queue].first {
			if l.now-l.conns[slot].since < allowed {
				break
			}
			l.giveUp(slot)
		}
	}
}

// untilNext is how long nothing expires; below 0: for ever.
func (l *tcpLoop) untilNext() time.Duration {
	next := time.Duration(-1)
	sooner := func(d time.Duration) {
		if d = max(d, 0); next < 0 || d < next {
			next = d
		}
	}
	for queue, q := range l.queues {
		if q.first != none {
			sooner(l.conns[q.first].since + l.allowed(queue) - l.now)
		}
	}
	if l.resume > 0 {
		sooner(l.resume - l.now)
	}
	return next
}
