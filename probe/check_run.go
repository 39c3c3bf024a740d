package probe

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"time"
)

// checker runs one check of one endpoint. It holds no goroutine and, unless the
// check reuses connections, no connection between runs.
type checker interface {
	// run makes the check within ctx. expiry is that of the server's leaf
	// certificate, zero without TLS, also when the check fails.
	run(ctx context.Context) (expiry time.Time, err error)
	// close drops what is kept between runs.
	close()
}

// badError is a result that came from the endpoint itself.
type badError struct {
	reason Reason
	detail string
}

func (e *badError) Error() string { return e.detail }

// runner makes checkers. It is shared by the schedule and Once.
type runner struct {
	dial      DialFunc
	userAgent string
	roots     *x509.CertPool // nil: the system's
}

// newChecker returns a checker, or why the check cannot be made on this node.
func (r *runner) newChecker(c Check, endpoint netip.Addr) (checker, error) {
	switch {
	case c.HTTP != nil:
		return r.newHTTP("http", c.HTTP, endpoint)
	case c.HTTPS != nil:
		return r.newHTTP("https", c.HTTPS, endpoint)
	case c.TCP != nil:
		return &tcpChecker{r.dial, hostPort(endpoint, c.TCP.Port)}, nil
	}
	return nil, errors.New("the check has no kind this version knows")
}

// hostPort returns the literal address to dial.
func hostPort(endpoint netip.Addr, port int) string {
	return net.JoinHostPort(endpoint.Unmap().String(), strconv.Itoa(port))
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

// measure runs c under timeout and says how it ended.
func measure(ctx context.Context, c checker, timeout time.Duration) outcome {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	start := time.Now()
	expiry, err := c.run(ctx)
	o := outcome{Result: Result{At: start.Round(0), Took: time.Since(start), OK: err == nil, Reason: ReasonOK, CertExpiry: expiry}}
	if err == nil {
		o.reached = true
		return o
	}
	o.Reason, o.Detail = classify(ctx, err), excerpt(err.Error())
	o.unmeasured = ownFault(err)
	switch o.Reason {
	case ReasonStatus, ReasonBody, ReasonTLS, ReasonLatency:
		o.reached = true
	}
	return o
}

// classify returns the reason for a failed run.
func classify(ctx context.Context, err error) Reason {
	var (
		bad     *badError
		denied  *DeniedError
		netErr  net.Error
		dnsErr  *net.DNSError
		verify  *tls.CertificateVerificationError
		record  tls.RecordHeaderError
		alert   tls.AlertError
		unknown x509.UnknownAuthorityError
	)
	switch {
	case errors.As(err, &bad):
		return bad.reason
	case errors.As(err, &denied):
		return ReasonDenied
	case errors.As(err, &dnsErr):
		return ReasonDNS
	case errors.Is(err, context.DeadlineExceeded), errors.Is(ctx.Err(), context.DeadlineExceeded),
		errors.As(err, &netErr) && netErr.Timeout():
		return ReasonTimeout
	case errors.Is(err, syscall.ECONNREFUSED):
		return ReasonRefused
	case errors.As(err, &verify), errors.As(err, &record), errors.As(err, &alert), errors.As(err, &unknown):
		return ReasonTLS
	}
	return ReasonOther
}

// noRouteError says that this node has no route to an address at all, which is
// not the same as a router on the way saying so.
type noRouteError struct{ err error }

func (e *noRouteError) Error() string { return fmt.Sprintf("this node has no route: %v", e.err) }
func (e *noRouteError) Unwrap() error { return e.err }

// ownFault reports whether err is a fault of this node.
func ownFault(err error) bool {
	var (
		denied  *DeniedError
		noRoute *noRouteError
	)
	if errors.As(err, &denied) || errors.As(err, &noRoute) {
		return true
	}
	for _, own := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL, syscall.EPERM, syscall.EACCES} {
		if errors.Is(err, own) {
			return true
		}
	}
	return false
}

// telling wraps next so that "network is unreachable" from this node's own
// routing table is told apart from a router's: a node without IPv6 must not vote
// every IPv6 endpoint down, while a withdrawn prefix must count.
func telling(next DialFunc) DialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		if err == nil || !errors.Is(err, syscall.ENETUNREACH) {
			return conn, err
		}
		// Connecting a UDP socket looks up the route and sends nothing.
		probe, routeErr := net.Dial("udp", addr)
		if routeErr != nil {
			return nil, &noRouteError{err}
		}
		_ = probe.Close() // nothing was sent
		return nil, err
	}
}

// maxDetail bounds Result.Detail, in bytes.
const maxDetail = 200

// excerpt returns s escaped to printable ASCII and cut to maxDetail bytes: it
// comes from outside and ends up on terminals and pages.
func excerpt(s string) string {
	if len(s) > maxDetail {
		s = s[:maxDetail]
	}
	q := strconv.QuoteToASCII(s)
	q = q[1 : len(q)-1]
	if len(q) <= maxDetail {
		return q
	}
	return q[:maxDetail-3] + "..."
}
