package probe

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// httpChecker makes one request and judges the response. Redirects are never
// followed: an endpoint must not be able to send this node elsewhere. It is no
// http.Client, since that keeps two goroutines and their buffers a connection.
type httpChecker struct {
	r       *runner
	addr    string
	tls     *tlsClient // nil on http
	request httpRequest
	expect  *expectation
	reuse   bool
	kept    *stream // nil: a new connection next time
}

// stream is a connection that speaks HTTP.
type stream struct {
	link
	conn   io.ReadWriter // with TLS, if any
	h2     *h2Conn       // nil: HTTP/1
	expiry time.Time
	opened time.Time
}

// keptFor is how long a connection is kept. Without a bound it would go on saying that
// all is well while nobody new gets in, or gets another certificate: this is how
// late such a check may be. One in six starts at the default interval connects anew.
const keptFor = time.Minute

// errStale says that a kept connection turned out to be gone.
var errStale = errors.New("the kept connection is gone")

func (r *runner) newHTTP(scheme string, check *HTTPCheck, endpoint netip.Addr) (checker, error) {
	request, err := newHTTPRequest(scheme, check, endpoint, r.userAgent)
	if err != nil {
		return nil, err
	}
	expect, err := newExpectation(&check.Expect)
	if err != nil {
		return nil, err
	}
	c := &httpChecker{r: r, addr: hostPort(endpoint, check.Port), request: request, expect: expect, reuse: check.Reuse}
	if scheme == "https" {
		// What a browser offers: an endpoint that speaks one of them badly shows.
		c.tls = r.newTLS(check.TLS, check.Host, endpoint, []string{"h2", "http/1.1"})
	}
	return c, nil
}

func (c *httpChecker) run(ctx context.Context, rec *recorder) (seen, error) {
	start := time.Now()
	if s := c.kept; s != nil {
		c.kept = nil
		if start.Sub(s.opened) >= keptFor {
			s.drop()
		} else {
			s.begin(ctx)
			err := c.exchange(ctx, s, true, start, rec)
			if !errors.Is(err, errStale) || ctx.Err() != nil {
				return seen{expiry: s.expiry}, err
			}
		}
	}
	l, rtt, err := c.r.connect(ctx, rec, "tcp", c.addr)
	if err != nil {
		return seen{}, err
	}
	s := &stream{link: l, conn: l, opened: start}
	if c.tls != nil {
		var t *tls.Conn
		if t, s.expiry, err = c.tls.handshake(ctx, l, rec); err != nil {
			l.drop()
			return seen{s.expiry, rtt}, err
		}
		s.conn = t
		if t.ConnectionState().NegotiatedProtocol == "h2" {
			s.h2 = newH2(t)
		}
	}
	return seen{s.expiry, rtt}, c.exchange(ctx, s, false, start, rec)
}

// exchange makes the request on s, judges the response and drops or keeps s.
func (c *httpChecker) exchange(ctx context.Context, s *stream, kept bool, start time.Time, rec *recorder) error {
	buf := c.r.borrow()
	defer c.r.giveBack(buf)
	resp, err := c.send(ctx, s, buf, rec)
	if err == nil && kept && resp.code == http.StatusRequestTimeout {
		err = errStale // it was said to the idle connection, not to this request
	}
	if err != nil {
		s.drop()
		if kept && gone(err) {
			return errStale
		}
		return err
	}
	err = c.expect.judge(ctx, resp, buf, start, rec)
	if !c.reuse || !resp.done() || !s.end() {
		s.drop()
		return err
	}
	c.kept = s
	return err
}

// send sends the request and reads the response up to its body.
func (c *httpChecker) send(ctx context.Context, s *stream, buf *buffer, rec *recorder) (*response, error) {
	rec.start("send")
	if s.h2 != nil {
		if err := s.h2.send(c.request.h2(), nil); err != nil {
			return nil, fmt.Errorf("send request: %w", err)
		}
		if rec != nil {
			rec.ok(c.request.line("HTTP/2.0"))
		}
		return s.h2.response(&c.request, rec)
	}
	if _, err := s.conn.Write(c.request.h1); err != nil {
		return nil, fmt.Errorf("send request: %w", err)
	}
	if rec != nil {
		rec.ok(c.request.line("HTTP/1.1"))
	}
	rec.start("first byte")
	buf.in = bounded{from: s.conn, left: maxHeader, over: errLongHeader}
	if buf.reader == nil {
		buf.reader = bufio.NewReader(&buf.in)
	}
	buf.reader.Reset(&buf.in)
	return readResponse(&c.request, buf, rec)
}

// gone reports whether err is how a connection ends that the other side has closed
// before it could see the request.
func gone(err error) bool {
	return errors.Is(err, errStale) || errors.Is(err, errUnprocessed) || errors.Is(err, errNoResponse) ||
		errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

func (c *httpChecker) close() {
	if c.kept != nil {
		c.kept.drop()
	}
}

// expected reports whether code lies in a range; without ranges, 200 to 299.
func expected(ranges []StatusRange, code int) bool {
	if len(ranges) == 0 {
		return code >= 200 && code <= 299
	}
	for _, r := range ranges {
		if code >= r.Low && code <= r.High {
			return true
		}
	}
	return false
}

// method returns the method of a check.
func (h *HTTPCheck) method() string { return cmp.Or(h.Method, http.MethodGet) }
