package probe

import (
	"bufio"
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"
)

// checker runs one check of one endpoint. It holds no goroutine and, unless the
// check reuses connections, no connection between runs. Its runs never overlap.
type checker interface {
	// run makes the check within ctx, which has a deadline. What it learnt is said
	// also when the check fails. rec is nil unless somebody wants to see the phases.
	run(ctx context.Context, rec *recorder) (seen, error)
	// close drops what is kept between runs.
	close()
}

// seen is what a run learnt beside whether the endpoint is well.
type seen struct {
	expiry time.Time     // of the server's leaf certificate; zero without TLS
	rtt    time.Duration // of connecting, or the shortest echo; zero: not measured
}

// badError is a result that came from the endpoint itself.
type badError struct {
	reason Reason
	detail string
	want   string // what would have been good, for people; may be empty
}

func (e *badError) Error() string { return e.detail }

// runner makes checkers. It is shared by the schedule and Once.
type runner struct {
	dial      DialFunc
	userAgent string
	roots     *x509.CertPool // nil: the system's
	authority authorities
	// steady is the wall clock of this node's start, gone on without a step. Nil: not known.
	steady  func() time.Time
	buffers sync.Pool // of *buffer
}

// newChecker returns a checker, or why the check cannot be made on this node.
func (r *runner) newChecker(c Check, endpoint netip.Addr) (checker, error) {
	endpoint = endpoint.Unmap()
	switch {
	case c.HTTP != nil:
		return r.newHTTP("http", c.HTTP, endpoint)
	case c.HTTPS != nil:
		return r.newHTTP("https", c.HTTPS, endpoint)
	case c.TCP != nil:
		return &tcpChecker{r, c.TCP, hostPort(endpoint, c.TCP.Port)}, nil
	case c.TLS != nil:
		return r.newHandshake(c.TLS, endpoint), nil
	case c.GRPC != nil:
		return r.newGRPC(c.GRPC, endpoint)
	case c.DNS != nil:
		return r.newDNS(c.DNS, endpoint)
	case c.ICMP != nil:
		return r.newICMP(c.ICMP, endpoint)
	}
	return nil, errors.New("the check has no kind this version knows")
}

// hostPort returns the literal address to dial.
func hostPort(endpoint netip.Addr, port int) string {
	return net.JoinHostPort(endpoint.String(), strconv.Itoa(port))
}

// warn returns what makes a good result of the check degraded.
func (c *Check) warn() Warn {
	switch {
	case c.HTTP != nil:
		return c.HTTP.Warn
	case c.HTTPS != nil:
		return c.HTTPS.Warn
	case c.TLS != nil:
		return c.TLS.Warn
	}
	return Warn{}
}

// degraded returns why a good result that took so long is degraded, or "". A
// certificate goes first: it will not get better by itself.
func (w Warn) degraded(took time.Duration, expiry, now time.Time) string {
	switch {
	case w.CertExpiresAfter > 0 && !expiry.IsZero() && expiry.Sub(now) < w.CertExpiresAfter:
		return DegradedCert
	case w.MaxLatency > 0 && took > w.MaxLatency:
		return DegradedLatency
	}
	return ""
}

// outcome is a Result with what the schedule needs beside it.
type outcome struct {
	Result
	// unmeasured says that the check could not be made for a reason of this node:
	// it is no evidence against the endpoint.
	unmeasured bool
	// reached says that the endpoint, or a host on the way, answered.
	reached bool
}

// measure runs c under the timeout of check and says how it ended.
func measure(ctx context.Context, c checker, check *Check, rec *recorder) outcome {
	ctx, cancel := context.WithTimeout(ctx, check.Timeout)
	defer cancel()
	start := time.Now()
	saw, err := c.run(ctx, rec)
	o := outcome{Result: Result{
		At: start.Round(0), Took: time.Since(start), OK: err == nil, Reason: ReasonOK, CertExpiry: saw.expiry, RTT: saw.rtt,
	}}
	if err == nil {
		o.reached = true
		o.Degraded = check.warn().degraded(o.Took, saw.expiry, start)
		return o
	}
	o.Reason, o.Detail = classify(ctx, err), excerpt(err.Error())
	o.unmeasured = ownFault(err)
	var bad *badError
	o.reached = errors.As(err, &bad)
	rec.fail(err)
	return o
}

// buffer is what a run borrows to read into.
type buffer struct {
	body   []byte // what a response holds, at most maxBody
	in     bounded
	reader *bufio.Reader // of in; nil until HTTP/1 needs it
}

// borrow returns an empty buffer to give back.
func (r *runner) borrow() *buffer {
	b, _ := r.buffers.Get().(*buffer) // nil: the pool is empty
	b = cmp.Or(b, &buffer{})
	b.body = b.body[:0]
	return b
}

// giveBack ends the use of b and of everything in it.
func (r *runner) giveBack(b *buffer) {
	b.in = bounded{} // holds no connection
	r.buffers.Put(b)
}

// link is a connection for the time of a run: it fails when the run's time is over.
type link struct {
	net.Conn
	stop func() bool
}

// connect dials addr for the run of ctx and returns how long it took.
func (r *runner) connect(ctx context.Context, rec *recorder, network, addr string) (link, time.Duration, error) {
	rec.start("connect")
	start := time.Now()
	conn, err := r.dial(ctx, network, addr)
	if err != nil {
		return link{}, 0, err
	}
	took := max(time.Since(start), 1) // zero would say that it was not measured
	if rec != nil {
		rec.ok(fmt.Sprintf("%s %s from %s", network, addr, conn.LocalAddr()))
	}
	l := link{Conn: conn}
	l.begin(ctx)
	return l, took, nil
}

// Read tells a firewall that closes in the middle from a fault of this node.
func (l link) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	return n, afterwards(err)
}

// begin makes the connection fail when ctx ends.
func (l *link) begin(ctx context.Context) {
	deadline, _ := ctx.Deadline() // zero: none
	conn := l.Conn
	_ = conn.SetDeadline(deadline) // fails only on a closed connection, as all that follows will
	l.stop = context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
}

// end makes the connection outlive the run, and reports whether it does.
func (l *link) end() bool { return l.stop() && l.Conn.SetDeadline(time.Time{}) == nil }

// drop closes the connection.
func (l *link) drop() {
	l.stop()
	_ = l.Close() // whatever it was for is done or has failed
}
