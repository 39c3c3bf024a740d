package consensustest

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// window is how much one direction buffers before a writer waits, as a socket's
// buffers do.
const window = 1 << 20

// pipe returns the two ends of a connection.
func (n *Network) pipe(a, b string) (here, there *conn) {
	ab, ba := newStream(n, a, b), newStream(n, b, a)
	here = &conn{net: n, local: a, remote: b, in: ba, out: ab, read: newDeadline(), write: newDeadline()}
	there = &conn{net: n, local: b, remote: a, in: ab, out: ba, read: newDeadline(), write: newDeadline()}
	n.mu.Lock()
	n.conns[here], n.conns[there] = struct{}{}, struct{}{}
	n.mu.Unlock()
	return here, there
}

// stream is one direction of a connection. Bytes are held while its link is cut.
type stream struct {
	net      *Network
	from, to string

	mu     sync.Mutex // guards what follows
	chunks []chunk
	size   int
	closed bool          // the writer closed: EOF after the chunks
	broken bool          // reset: nothing more, either way
	wake   chan struct{} // closed when any of it changes
}

type chunk struct {
	data []byte
	at   time.Time // arrives no earlier
}

func newStream(n *Network, from, to string) *stream {
	return &stream{net: n, from: from, to: to, wake: make(chan struct{})}
}

func (s *stream) wakeLocked() {
	close(s.wake)
	s.wake = make(chan struct{})
}

func (s *stream) read(b []byte, limit *deadline) (int, error) {
	for {
		open, changed := s.net.open(s.from, s.to)
		expired, moved := limit.wait()
		s.mu.Lock()
		wake := s.wake
		var arrives <-chan time.Time
		var timer *time.Timer
		switch {
		case s.broken:
			s.mu.Unlock()
			return 0, errReset
		case isDone(expired):
			s.mu.Unlock()
			return 0, os.ErrDeadlineExceeded
		case open && len(s.chunks) > 0:
			if d := time.Until(s.chunks[0].at); d > 0 {
				timer = time.NewTimer(d)
				arrives = timer.C
				break
			}
			n := copy(b, s.chunks[0].data)
			s.size -= n
			if s.chunks[0].data = s.chunks[0].data[n:]; len(s.chunks[0].data) == 0 {
				s.chunks = s.chunks[1:]
			}
			s.wakeLocked()
			s.mu.Unlock()
			return n, nil
		case open && s.closed:
			s.mu.Unlock()
			return 0, io.EOF
		}
		s.mu.Unlock()
		select {
		case <-wake:
		case <-changed:
		case <-expired:
		case <-arrives:
		case <-moved:
		}
		if timer != nil {
			timer.Stop()
		}
	}
}

func (s *stream) write(b []byte, limit *deadline) (int, error) {
	for {
		expired, moved := limit.wait()
		s.mu.Lock()
		wake := s.wake
		switch {
		case s.broken:
			s.mu.Unlock()
			return 0, errReset
		case s.closed:
			s.mu.Unlock()
			return 0, io.ErrClosedPipe
		case isDone(expired):
			s.mu.Unlock()
			return 0, os.ErrDeadlineExceeded
		case s.size < window:
			s.chunks = append(s.chunks, chunk{append([]byte(nil), b...), time.Now().Add(s.net.Latency)})
			s.size += len(b)
			s.wakeLocked()
			s.mu.Unlock()
			return len(b), nil
		}
		s.mu.Unlock()
		select {
		case <-wake:
		case <-expired:
		case <-moved:
		}
	}
}

// end marks the stream: closed by its writer, or broken.
func (s *stream) end(broken bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.broken = s.broken || broken
	s.wakeLocked()
}

// conn is one end.
type conn struct {
	net           *Network
	local, remote string
	in, out       *stream
	read, write   *deadline
}

func (c *conn) Read(b []byte) (int, error)  { return c.in.read(b, c.read) }
func (c *conn) Write(b []byte) (int, error) { return c.out.write(b, c.write) }

// Close ends both directions: the peer reads what was sent and then EOF, and its
// writes fail.
func (c *conn) Close() error {
	c.out.end(false)
	c.in.end(true)
	c.forget()
	return nil
}

func (c *conn) reset() {
	c.out.end(true)
	c.in.end(true)
	c.forget()
}

func (c *conn) forget() {
	c.net.mu.Lock()
	delete(c.net.conns, c)
	c.net.mu.Unlock()
}

func (c *conn) LocalAddr() net.Addr  { return addr(c.local) }
func (c *conn) RemoteAddr() net.Addr { return addr(c.remote) }

func (c *conn) SetDeadline(t time.Time) error {
	c.read.set(t)
	c.write.set(t)
	return nil
}
func (c *conn) SetReadDeadline(t time.Time) error  { c.read.set(t); return nil }
func (c *conn) SetWriteDeadline(t time.Time) error { c.write.set(t); return nil }

// deadline is a point in time that can be moved and waited for.
type deadline struct {
	mu      sync.Mutex // guards what follows
	timer   *time.Timer
	expired chan struct{} // closed once the time has come
	change  chan struct{} // closed when the time was moved
}

func newDeadline() *deadline {
	return &deadline{expired: make(chan struct{}), change: make(chan struct{})}
}

func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	expired := make(chan struct{})
	d.expired = expired
	close(d.change)
	d.change = make(chan struct{})
	switch {
	case t.IsZero():
	case time.Until(t) <= 0:
		close(expired)
	default:
		d.timer = time.AfterFunc(time.Until(t), func() { close(expired) })
	}
}

// wait returns the channel of the deadline as it is now, and one closed when it moves.
func (d *deadline) wait() (expired, moved <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.expired, d.change
}

func isDone(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
