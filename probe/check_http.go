package probe

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"time"
)

// maxBody is how much of a response is read, and maxHeader of its header: an
// endpoint must not be able to fill this node's memory.
const (
	maxBody   = 64 << 10
	maxHeader = 64 << 10
)

// httpChecker makes one request and judges the response. Redirects are never
// followed: an endpoint must not be able to send this node elsewhere.
type httpChecker struct {
	r          *runner
	check      *HTTPCheck
	addr       string
	url        *url.URL
	serverName string // SNI and what the certificate must name; empty on http
	body       *regexp.Regexp
	kept       *http.Transport // nil: a new connection each time
}

func (r *runner) newHTTP(scheme string, check *HTTPCheck, endpoint netip.Addr) (checker, error) {
	u, err := url.ParseRequestURI(cmp.Or(check.Path, "/"))
	if err != nil {
		return nil, fmt.Errorf("path: %w", err)
	}
	u.Scheme, u.Host = scheme, hostPort(endpoint, check.Port)
	if scheme == "http" && check.Port == 80 || scheme == "https" && check.Port == 443 {
		// As a client would write it, without the port.
		u.Host = strings.TrimSuffix(u.Host, u.Host[strings.LastIndexByte(u.Host, ':'):])
	}
	if err := check.sendable(); err != nil {
		return nil, err
	}
	c := &httpChecker{r: r, check: check, addr: hostPort(endpoint, check.Port), url: u}
	if check.Expect.BodyRegex != "" {
		if c.body, err = regexp.Compile(check.Expect.BodyRegex); err != nil {
			return nil, fmt.Errorf("body_regex: %w", err)
		}
	}
	if scheme == "https" {
		host := check.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		if check.TLS != nil {
			host = cmp.Or(check.TLS.ServerName, host)
		}
		// An address as server name is verified but never sent (RFC 6066 section 3).
		c.serverName = cmp.Or(host, endpoint.Unmap().String())
	}
	if check.Reuse {
		c.kept = c.transport()
	}
	return c, nil
}

// sendable returns what net/http would refuse to send: it must not look like a
// failure of the endpoint.
func (h *HTTPCheck) sendable() error {
	if _, err := http.NewRequest(cmp.Or(h.Method, http.MethodGet), "http://host/", nil); err != nil {
		return err
	}
	if strings.ContainsFunc(h.Host, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '/' || r == '@' }) {
		return fmt.Errorf("host %q cannot be sent", h.Host)
	}
	for k, v := range h.Headers {
		if k == "" || strings.ContainsFunc(k, notTokenRune) || strings.ContainsFunc(v, controlRune) {
			return fmt.Errorf("header %q cannot be sent", k)
		}
	}
	return nil
}

// notTokenRune reports whether r may not stand in a header's name (RFC 9110 section 5.6.2).
func notTokenRune(r rune) bool {
	return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
}

// controlRune reports whether r may not stand in a header's value (RFC 9110 section 5.5).
func controlRune(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// transport returns a transport that reaches the endpoint whatever the URL says.
// It gives up dialling and shaking hands with the request it does so for.
func (c *httpChecker) transport() *http.Transport {
	return &http.Transport{
		Proxy: nil, // a probe sees what it sees itself
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return c.r.dial(ctx, network, c.addr)
		},
		TLSClientConfig:        c.tlsConfig(),
		ForceAttemptHTTP2:      true,
		DisableCompression:     true, // the pattern is matched against what was sent
		MaxIdleConnsPerHost:    1,
		MaxResponseHeaderBytes: maxHeader,
	}
}

func (c *httpChecker) tlsConfig() *tls.Config {
	if c.serverName == "" {
		return nil
	}
	verify := c.check.TLS == nil || c.check.TLS.Verify
	return &tls.Config{
		ServerName: c.serverName,
		// VerifyConnection does the verifying, so that the expiry of a certificate
		// that is refused is known too.
		InsecureSkipVerify: true,
		VerifyConnection: func(cs tls.ConnectionState) error {
			if !verify {
				return nil
			}
			opts := x509.VerifyOptions{Roots: c.r.roots, DNSName: c.serverName, Intermediates: x509.NewCertPool()}
			for _, cert := range cs.PeerCertificates[1:] {
				opts.Intermediates.AddCert(cert)
			}
			if _, err := cs.PeerCertificates[0].Verify(opts); err != nil {
				return &certificateError{cs.PeerCertificates[0].NotAfter, err}
			}
			return nil
		},
	}
}

// certificateError is a certificate that does not verify.
type certificateError struct {
	expiry time.Time
	err    error
}

func (e *certificateError) Error() string { return e.err.Error() }
func (e *certificateError) Unwrap() error { return e.err }

func (c *httpChecker) run(ctx context.Context) (time.Time, error) {
	rt := c.kept
	if rt == nil {
		rt = c.transport()
		defer rt.CloseIdleConnections()
	}
	// The trace runs on the transport's goroutines, so it only touches an atomic.
	var handshaking atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		TLSHandshakeStart: func() { handshaking.Store(true) },
		TLSHandshakeDone:  func(_ tls.ConnectionState, err error) { handshaking.Store(err != nil) },
	})
	req, err := http.NewRequestWithContext(ctx, cmp.Or(c.check.Method, http.MethodGet), c.url.String(), nil)
	if err != nil {
		return time.Time{}, err
	}
	req.Host = c.check.Host
	req.Header.Set("User-Agent", c.r.userAgent)
	for k, v := range c.check.Headers {
		if strings.EqualFold(k, "Host") {
			req.Host = cmp.Or(c.check.Host, v)
			continue
		}
		req.Header.Set(k, v)
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		var cert *certificateError
		if errors.As(err, &cert) {
			return cert.expiry, &badError{ReasonTLS, cert.Error()}
		}
		if handshaking.Load() && classify(ctx, err) == ReasonOther && !ownFault(err) {
			return time.Time{}, &badError{ReasonTLS, "tls handshake: " + err.Error()}
		}
		return time.Time{}, err
	}
	defer resp.Body.Close()
	var expiry time.Time
	if resp.TLS != nil && len(resp.TLS.PeerCertificates) > 0 {
		expiry = resp.TLS.PeerCertificates[0].NotAfter
	}
	return expiry, c.judge(ctx, resp)
}

// judge reads the response and returns what is wrong with it.
func (c *httpChecker) judge(ctx context.Context, resp *http.Response) error {
	if !expected(c.check.Expect.Status, resp.StatusCode) {
		return &badError{ReasonStatus, fmt.Sprintf("status %d", resp.StatusCode)}
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return nil // what follows is not a body
	}
	// Read also when nothing is matched: an endpoint that sends headers and then
	// hangs is not well.
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		if classify(ctx, err) == ReasonTimeout {
			return fmt.Errorf("read body after %d bytes: %w", len(body), err)
		}
		return &badError{ReasonBody, fmt.Sprintf("read body after %d bytes: %v", len(body), err)}
	}
	if c.body != nil && !c.body.Match(body) {
		return &badError{ReasonBody, fmt.Sprintf("body does not match, begins: %.80s", body)}
	}
	return nil
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

func (c *httpChecker) close() {
	if c.kept != nil {
		c.kept.CloseIdleConnections()
	}
}
