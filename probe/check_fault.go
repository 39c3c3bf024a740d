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
	"strings"
	"syscall"
)

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
	case ownFault(err):
		return ReasonOther // also where the system calls it a timeout, as EAGAIN
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

// ownError is a fault of this node: the endpoint may be well.
type ownError struct {
	what string
	err  error
}

func (e *ownError) Error() string { return fmt.Sprintf("%s: %v", e.what, e.err) }
func (e *ownError) Unwrap() error { return e.err }

// filteredError says that a firewall on the way refuses the endpoint.
type filteredError struct{ err error }

func (e *filteredError) Error() string {
	return fmt.Sprintf("a firewall on the way refuses it: %v", e.err)
}

// afterwards tells what was read from a connected socket apart from what this node
// says to itself: after the first packet, only ICMPv6 of a firewall reads as EACCES.
func afterwards(err error) error {
	if errors.Is(err, syscall.EACCES) {
		return &filteredError{err}
	}
	return err
}

// ownFault reports whether err is a fault of this node.
func ownFault(err error) bool {
	var (
		denied *DeniedError
		own    *ownError
		bad    *badError
	)
	if errors.As(err, &denied) || errors.As(err, &own) {
		return true
	}
	if errors.As(err, &bad) {
		return false
	}
	for _, own := range []error{
		syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, // this node has no more of something
		syscall.EADDRNOTAVAIL,              // the source address is not ours, or its ports are used up
		syscall.EADDRINUSE, syscall.EAGAIN, // the ports are used up, as bind and connect of a UDP socket say it
		syscall.EINVAL,                // our routing table drops it (blackhole), or the source address leads nowhere
		syscall.ENETDOWN,              // our interface is down
		syscall.EPERM, syscall.EACCES, // our own firewall or confinement
		syscall.EAFNOSUPPORT, syscall.EPROTONOSUPPORT, // no IPv6, or no ping sockets, in this kernel
	} {
		if errors.Is(err, own) {
			return true
		}
	}
	return false
}

// telling wraps next so that what this node's own routing table says is told
// apart from what a router says: a node without IPv6 must not vote every IPv6
// endpoint down, while a withdrawn prefix or a closed firewall must count.
// The table is asked as a probe from source asks it: rules may route by that.
func telling(next DialFunc, source Source) DialFunc {
	lookUp := NewDialer(nil, source)
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		// "Administratively prohibited" of ICMPv6 reads as EACCES; over IPv4 only this
		// node itself says so.
		prohibited := errors.Is(err, syscall.EACCES) && isIPv6(addr)
		if err == nil || !prohibited && !errors.Is(err, syscall.ENETUNREACH) && !errors.Is(err, syscall.EHOSTUNREACH) {
			return conn, err
		}
		// Connecting a UDP socket looks up the route and sends nothing.
		probe, routeErr := lookUp(context.WithoutCancel(ctx), "udp", addr)
		switch {
		case routeErr != nil && prohibited:
			return nil, &ownError{"this node may not reach it", err}
		case routeErr != nil:
			return nil, &ownError{"this node has no route", err}
		}
		_ = probe.Close() // nothing was sent
		if prohibited && network != "icmp" {
			return nil, &filteredError{err}
		}
		return nil, err
	}
}

// isIPv6 reports whether addr, "IP:PORT", is of IPv6.
func isIPv6(addr string) bool {
	a, err := netip.ParseAddrPort(addr)
	return err == nil && a.Addr().Unmap().Is6()
}

// maxDetail bounds Result.Detail, in bytes.
const maxDetail = 200

// excerpt returns s escaped to printable ASCII and cut to maxDetail bytes: it
// comes from outside and ends up on terminals and pages.
func excerpt(s string) string { return escaped(s, maxDetail) }

// escaped returns s escaped to printable ASCII and cut to limit bytes.
func escaped(s string, limit int) string {
	if len(s) > limit {
		s = s[:limit]
	}
	q := strconv.QuoteToASCII(s)
	q = strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`) // nothing quotes it
	if len(q) <= limit {
		return q
	}
	return q[:limit-3] + "..."
}
