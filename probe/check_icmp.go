package probe

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// icmpChecker sends echo requests and counts the replies.
type icmpChecker struct {
	r      *runner
	addr   string
	v6     bool
	count  int
	enough int // replies that make it good
}

const (
	// echoGap is the pause between two requests of a run: a burst would measure the
	// rate limits on the way.
	echoGap = 100 * time.Millisecond
	// maxEchoes bounds the requests of a run.
	maxEchoes = 100
	// echoNonce is the size of the random part of each request, which a reply must
	// repeat: the kernel may hand over replies from elsewhere.
	echoNonce = 16
)

func (r *runner) newICMP(check *ICMPCheck, endpoint netip.Addr) (checker, error) {
	count := max(check.Count, 1)
	if count > maxEchoes || check.MaxLoss < 0 || check.MaxLoss >= 1 {
		return nil, fmt.Errorf("count: must be at most %d, is %d; max_loss must be 0 or more and below 1, is %g", maxEchoes, count, check.MaxLoss)
	}
	const slip = 1e-9 // 0.3 of 10 is 3
	return &icmpChecker{
		r: r, addr: hostPort(endpoint, 0), v6: endpoint.Is6(),
		count: count, enough: count - int(float64(count)*check.MaxLoss+slip),
	}, nil
}

func (c *icmpChecker) run(ctx context.Context, rec *recorder) (seen, error) {
	l, _, err := c.r.connect(ctx, rec, "icmp", c.addr)
	if err != nil {
		return seen{}, err
	}
	defer l.drop()
	rec.start("read")
	e := &echoes{icmpChecker: c, conn: l.Conn, sent: make([]time.Time, c.count)}
	_, _ = rand.Read(e.nonce[:]) // crypto/rand never fails
	err = e.exchange(ctx)
	if err == nil && rec != nil {
		rec.ok(fmt.Sprintf("%d replies to %d of %d echo requests, the fastest in %s", e.replies, e.next, c.count, e.best))
	}
	return seen{rtt: e.best}, err
}

func (c *icmpChecker) close() {}

// echoes is one run.
type echoes struct {
	*icmpChecker
	conn    net.Conn
	nonce   [echoNonce]byte
	sent    []time.Time // by sequence number; zero: not sent, or answered
	next    int         // to send
	replies int
	best    time.Duration
}

// exchange sends requests and reads replies until there are enough, or ctx ends.
func (e *echoes) exchange(ctx context.Context) error {
	deadline, _ := ctx.Deadline()
	gap := min(echoGap, time.Until(deadline)/time.Duration(2*e.count))
	var buf [1500]byte
	for e.replies < e.enough {
		until := deadline
		if e.next < e.count {
			if err := e.send(); err != nil {
				return err
			}
			if e.next < e.count {
				until = earlier(until, time.Now().Add(gap))
			}
		}
		if err := e.read(ctx, buf[:], until); err != nil {
			if ctx.Err() == nil && e.next < e.count && errors.Is(err, os.ErrDeadlineExceeded) {
				continue // time for the next
			}
			return e.explain(err)
		}
	}
	return nil
}

// send sends the next request.
func (e *echoes) send() error {
	var kind icmp.Type = ipv4.ICMPTypeEcho
	if e.v6 {
		kind = ipv6.ICMPTypeEchoRequest
	}
	// The kernel fills in id and, over IPv6, checksum.
	m := icmp.Message{Type: kind, Body: &icmp.Echo{Seq: e.next, Data: e.nonce[:]}}
	b, err := m.Marshal(nil)
	if err != nil {
		return fmt.Errorf("make echo request: %w", err)
	}
	e.sent[e.next] = time.Now()
	if _, err := e.conn.Write(b); err != nil {
		// The socket is not connected: what a router says is not told here.
		if errors.Is(err, syscall.ENETUNREACH) || errors.Is(err, syscall.EHOSTUNREACH) {
			return &ownError{"this node has no route", err}
		}
		return fmt.Errorf("send echo request: %w", err)
	}
	e.next++
	return nil
}

// read takes replies until the time is over or there are enough of them.
func (e *echoes) read(ctx context.Context, buf []byte, until time.Time) error {
	if err := e.conn.SetReadDeadline(until); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return os.ErrDeadlineExceeded // which the line above may have undone
	}
	for e.replies < e.enough {
		n, err := e.conn.Read(buf)
		if err != nil {
			return err
		}
		seq, ok := e.parse(buf[:n])
		if !ok || seq >= e.next || e.sent[seq].IsZero() {
			continue
		}
		took := max(time.Since(e.sent[seq]), 1)
		e.sent[seq] = time.Time{} // a second reply to it counts for nothing
		e.replies++
		if e.best == 0 || took < e.best {
			e.best = took
		}
	}
	return nil
}

// parse returns the sequence number of a reply to this run.
func (e *echoes) parse(b []byte) (int, bool) {
	proto, kind := 1, icmp.Type(ipv4.ICMPTypeEchoReply)
	if e.v6 {
		proto, kind = 58, ipv6.ICMPTypeEchoReply
	}
	m, err := icmp.ParseMessage(proto, b)
	if err != nil || m.Type != kind {
		return 0, false
	}
	echo, ok := m.Body.(*icmp.Echo)
	return echoSeq(echo), ok && bytes.Equal(echo.Data, e.nonce[:])
}

func echoSeq(e *icmp.Echo) int {
	if e == nil {
		return 0
	}
	return e.Seq
}

// explain says how many replies there were when the time was over.
func (e *echoes) explain(err error) error {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("read echo reply: %w", err)
	}
	text := fmt.Sprintf("%d replies to %d echo requests, %d are needed", e.replies, e.next, e.enough)
	if e.replies == 0 {
		return fmt.Errorf("%s: %w", text, err)
	}
	return &badError{ReasonTimeout, text, ""}
}
