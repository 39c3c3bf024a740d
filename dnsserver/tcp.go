package dnsserver

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"
)

const (
	maxTCP          = 1024
	maxTCPPerPrefix = 128

	// tcpIdle is how long a connection may wait between messages; tcpIdleFull once
	// half of all connections are taken (RFC 7766 6.2.3).
	tcpIdle     = 10 * time.Second
	tcpIdleFull = 2 * time.Second
	// tcpMessage bounds reading one message and writing what answers it: a client
	// that sends an octet at a time, or never reads, is closed.
	tcpMessage = 2 * time.Second
	// maxTCPQuery is far above any query; a longer one closes the connection.
	maxTCPQuery = 8192
	// acceptPause is how long accepting waits after an error such as "too many open files".
	acceptPause = 50 * time.Millisecond
)

// serveTCP accepts connections until the listener is closed, and waits for theirs
// to end. One above a limit is closed at once: waiting would make the queue the
// attacker's.
func (s *Server) serveTCP(ctx context.Context, l *net.TCPListener) {
	var wg sync.WaitGroup
	defer wg.Wait()
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
		release, why := s.conns.take(c, client.Addr())
		if release == nil {
			s.metrics.refused.WithLabelValues(why).Inc()
			_ = c.Close()
			continue
		}
		wg.Go(func() {
			defer release()
			s.serveConn(c, client)
		})
	}
}

// serveConn answers the queries of one connection in order. Answers to queries
// that arrived together are sent together (RFC 7766 6.2.1.1).
func (s *Server) serveConn(c net.Conn, client netip.AddrPort) {
	r := bufio.NewReaderSize(c, 2048)
	w := bufio.NewWriterSize(c, 2048)
	var buf []byte
	for {
		idle := tcpIdle
		if s.conns.pressed() {
			idle = tcpIdleFull
		}
		query, err := readMessage(c, r, &buf, idle)
		if err != nil {
			return
		}
		reply := s.respondSafely(s.request(s.shared, s.cfg.Table(), client, TCP), query)
		if reply == nil {
			return // not a query: nothing good follows
		}
		if err := c.SetWriteDeadline(time.Now().Add(tcpMessage)); err != nil {
			return
		}
		if err := writeMessage(w, reply); err != nil {
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
// octet, then the whole of it must come within tcpMessage.
func readMessage(c net.Conn, r *bufio.Reader, buf *[]byte, idle time.Duration) ([]byte, error) {
	if err := c.SetReadDeadline(time.Now().Add(idle)); err != nil {
		return nil, err
	}
	if _, err := r.Peek(1); err != nil {
		return nil, err
	}
	if err := c.SetReadDeadline(time.Now().Add(tcpMessage)); err != nil {
		return nil, err
	}
	var prefix [2]byte
	if _, err := io.ReadFull(r, prefix[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint16(prefix[:]))
	if n < headerSize || n > maxTCPQuery {
		return nil, errors.New("message has an impossible length")
	}
	if cap(*buf) < n {
		*buf = make([]byte, n)
	}
	_, err := io.ReadFull(r, (*buf)[:n])
	return (*buf)[:n], err
}

func writeMessage(w *bufio.Writer, reply []byte) error {
	var prefix [2]byte
	binary.BigEndian.PutUint16(prefix[:], uint16(len(reply)))
	if _, err := w.Write(prefix[:]); err != nil {
		return err
	}
	_, err := w.Write(reply)
	return err
}

// whole reports whether another whole message has been read already.
func whole(r *bufio.Reader) bool {
	if r.Buffered() < 2 {
		return false
	}
	prefix, err := r.Peek(2)
	return err == nil && r.Buffered() >= 2+int(binary.BigEndian.Uint16(prefix))
}
