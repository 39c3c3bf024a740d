package dnsserver

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"
)

// netTCP answers DNS over TCP by means of package net, a goroutine a connection:
// where there is no event loop for the system.
type netTCP struct {
	s *Server

	mu   sync.Mutex // guards what follows
	open map[net.Conn]struct{}
	end  time.Time // when the last query is read; zero: not soon
}

// tcpLast is how long queries are still read at the end: those that have come, since
// a read whose deadline is over returns nothing of them.
const tcpLast = 100 * time.Millisecond

// serve accepts connections until ctx is done and waits for theirs to end. One
// above a limit is closed at once: waiting would make the queue the attacker's.
func (t *netTCP) serve(ctx context.Context, listeners []*net.TCPListener) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, l := range listeners {
		wg.Go(func() { t.accept(ctx, l, &wg) })
	}
	<-ctx.Done()
	for _, l := range listeners {
		_ = l.Close() // ends accept
	}
	t.stop()
}

func (t *netTCP) accept(ctx context.Context, l *net.TCPListener, wg *sync.WaitGroup) {
	for {
		c, err := l.AcceptTCP()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(acceptPause):
			}
			continue
		}
		client := c.RemoteAddr().(*net.TCPAddr).AddrPort()
		prefix := network(client.Addr())
		if why := t.s.conns.take(prefix, 0); why != "" {
			t.s.metrics.refused.WithLabelValues(why).Inc()
			_ = c.Close() // nothing was sent
			continue
		}
		t.keep(c)
		wg.Go(func() {
			defer t.s.conns.release(prefix)
			defer t.drop(c)
			t.serveConn(ctx, c, client)
		})
	}
}

func (t *netTCP) keep(c net.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open[c] = struct{}{}
}

func (t *netTCP) drop(c net.Conn) {
	_ = c.Close() // whatever was to be sent is sent
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, c)
}

// stop ends the waiting for queries, tcpLast from now.
func (t *netTCP) stop() {
	end := t.last()
	t.mu.Lock()
	defer t.mu.Unlock()
	for c := range t.open {
		_ = c.SetReadDeadline(end) // a closed one needs none
	}
}

// last is when the last query is read. From the first call on it is settled.
func (t *netTCP) last() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.end.IsZero() {
		t.end = time.Now().Add(tcpLast)
	}
	return t.end
}

// serveConn answers the queries of one connection in order. Answers to queries
// that arrived together are sent together (RFC 7766 6.2.1.1).
func (t *netTCP) serveConn(ctx context.Context, c net.Conn, client netip.AddrPort) {
	r := bufio.NewReaderSize(c, 2048)
	w := bufio.NewWriterSize(c, 2048)
	defer func() { _ = w.Flush() }() // what was answered before the end is sent
	var buf, framed []byte
	for {
		query, err := t.readMessage(ctx, c, r, &buf)
		if err != nil {
			return
		}
		reply := t.s.Respond(t.s.current().table, query, client, TCP)
		if reply == nil {
			return // nothing good follows
		}
		if err := c.SetWriteDeadline(time.Now().Add(t.s.times.message)); err != nil {
			return
		}
		framed = appendMessage(framed[:0], reply)
		if _, err := w.Write(framed); err != nil {
			return
		}
		if !whole(r) {
			if err := w.Flush(); err != nil {
				return
			}
		}
	}
}

// readMessage reads one length-prefixed message. Idle time counts until its first
// octet, then the whole of it must come within the time for a message.
func (t *netTCP) readMessage(ctx context.Context, c net.Conn, r *bufio.Reader, buf *[]byte) ([]byte, error) {
	if err := c.SetReadDeadline(time.Now().Add(t.s.tcpIdle())); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		if err := c.SetReadDeadline(t.last()); err != nil { // stop may have come before the one above
			return nil, err
		}
	}
	if _, err := r.Peek(1); err != nil {
		return nil, err
	}
	if err := c.SetReadDeadline(time.Now().Add(t.s.times.message)); err != nil {
		return nil, err
	}
	var prefix [prefixSize]byte
	if _, err := io.ReadFull(r, prefix[:]); err != nil {
		return nil, err
	}
	n, possible := messageLength(prefix[:])
	if !possible {
		return nil, errors.New("message has an impossible length")
	}
	if cap(*buf) < n {
		*buf = make([]byte, n)
	}
	_, err := io.ReadFull(r, (*buf)[:n])
	return (*buf)[:n], err
}

// whole reports whether another whole message has been read already.
func whole(r *bufio.Reader) bool {
	if r.Buffered() < prefixSize {
		return false
	}
	prefix, err := r.Peek(prefixSize)
	if err != nil {
		return false
	}
	n, _ := messageLength(prefix)
	return r.Buffered() >= prefixSize+n
}
