package probe

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
)

var loopback = netip.MustParseAddr("127.0.0.1")

// localProber may reach loopback.
func localProber(roots *x509.CertPool) *Prober {
	p := New(Config{Version: "1.2.3", Policy: AddressPolicy{Allow: prefixes("127.0.0.0/8 ::1/128")}})
	p.runner.roots = roots
	return p
}

func portOf(t *testing.T, addr net.Addr) int {
	t.Helper()
	tcp, ok := addr.(*net.TCPAddr)
	require.True(t, ok)
	return tcp.Port
}

func httpCheck(port int, edit func(*HTTPCheck)) Check {
	h := &HTTPCheck{Port: port, Method: "GET", Path: "/healthz?deep=1"}
	if edit != nil {
		edit(h)
	}
	return Check{Name: "h", Interval: time.Second, Timeout: 10 * time.Second, Fall: 3, Rise: 2, HTTP: h}
}

func TestHTTPCheck(t *testing.T) {
	var redirected atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "ok %s %s %s %s %s", r.Method, r.Host, r.UserAgent(), r.Header.Get("X-Probe"), r.URL.RawQuery)
	})
	mux.HandleFunc("/teapot", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusTeapot) })
	mux.HandleFunc("/redirect", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/landing", http.StatusFound) })
	mux.HandleFunc("/landing", func(w http.ResponseWriter, r *http.Request) { redirected.Add(1) })
	mux.HandleFunc("/huge", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x", maxBody)+"needle")
		for r.Context().Err() == nil { // for ever
			if _, err := io.WriteString(w, strings.Repeat("y", 4096)); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/edge", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x", maxBody-6)+"needle")
	})
	mux.HandleFunc("/loris", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "o")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	mux.HandleFunc("/short", func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nok")
			_ = conn.Close()
		}
	})
	mux.HandleFunc("/rude", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "\x1b[31m<script>\x00"+strings.Repeat("é", 400))
	})
	mux.HandleFunc("/header", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Big", strings.Repeat("x", 2*maxHeader))
	})
	srv := httptest.NewServer(mux)
	defer srv.Close()
	port := portOf(t, srv.Listener.Addr())
	p := localProber(nil)

	path := func(path string) func(*HTTPCheck) { return func(h *HTTPCheck) { h.Path = path } }
	body := func(path, re string) func(*HTTPCheck) {
		return func(h *HTTPCheck) { h.Path, h.Expect.BodyRegex = path, re }
	}
	status := func(path string, ranges ...StatusRange) func(*HTTPCheck) {
		return func(h *HTTPCheck) { h.Path, h.Expect.Status = path, ranges }
	}
	tests := []struct {
		name   string
		edit   func(*HTTPCheck)
		reason Reason
		detail string
	}{
		{"a good response", nil, ReasonOK, ""},
		{"the request is as configured", func(h *HTTPCheck) {
			h.Method, h.Host, h.Headers = "POST", "web.gslb.example.com", map[string]string{"x-probe": "q"}
			h.Expect.BodyRegex = `^ok POST web\.gslb\.example\.com quorate/1\.2\.3 q deep=1$`
		}, ReasonOK, ""},
		{"without a host the address stands in the header", func(h *HTTPCheck) {
			h.Expect.BodyRegex = fmt.Sprintf(`^ok GET 127\.0\.0\.1:%d `, port)
		}, ReasonOK, ""},
		{"a user agent of one's own", func(h *HTTPCheck) {
			h.Headers, h.Expect.BodyRegex = map[string]string{"User-Agent": "me"}, ` me `
		}, ReasonOK, ""},
		{"an unexpected status", path("/teapot"), ReasonStatus, "status 418"},
		{"an expected odd status", status("/teapot", StatusRange{200, 200}, StatusRange{410, 418}), ReasonOK, ""},
		{"a status beside the range", status("/teapot", StatusRange{410, 417}), ReasonStatus, "status 418"},
		{"a redirect is not followed", path("/redirect"), ReasonStatus, "status 302"},
		{"a redirect may be what is expected", status("/redirect", StatusRange{300, 399}), ReasonOK, ""},
		{"a body that does not match", body("/healthz", "ready"), ReasonBody, "body does not match, begins: ok GET"},
		{"what lies behind 64 KiB is not read", body("/huge", "needle"), ReasonBody, "begins: xxx"},
		{"an endless body is not waited for", path("/huge"), ReasonOK, ""},
		{"the end of 64 KiB is read", body("/edge", "needle$"), ReasonOK, ""},
		{"a body that never ends in time", path("/loris"), ReasonTimeout, "read body after 1 bytes"},
		{"a body cut short", path("/short"), ReasonBody, "read body after 2 bytes"},
		{"an excerpt is escaped", body("/rude", "ready"), ReasonBody, `begins: \x1b[31m<script>\x00\u00e9`},
		{"a header without end", path("/header"), ReasonOther, "header"},
		{"a HEAD request has no body to wait for", func(h *HTTPCheck) { h.Method = "HEAD" }, ReasonOK, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := httpCheck(port, tt.edit)
			if tt.reason == ReasonTimeout {
				c.Timeout = 150 * time.Millisecond
			}
			r := p.Once(t.Context(), c, loopback)
			require.Equal(t, tt.reason, r.Reason, r.Detail)
			require.Equal(t, tt.reason == ReasonOK, r.OK)
			require.Contains(t, r.Detail, tt.detail)
			require.LessOrEqual(t, len(r.Detail), maxDetail)
			require.Regexp(t, `^[ -~]*$`, r.Detail)
			require.Less(t, r.Took, c.Timeout+time.Second)
		})
	}
	require.Zero(t, redirected.Load())
}

func TestHTTPReuse(t *testing.T) {
	var conns atomic.Int64
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "ok") }))
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			conns.Add(1)
		}
	}
	srv.Start()
	defer srv.Close()
	p := localProber(nil)
	for _, reuse := range []bool{false, true} {
		conns.Store(0)
		c, err := p.newChecker(httpCheck(portOf(t, srv.Listener.Addr()), func(h *HTTPCheck) { h.Reuse = reuse }), loopback)
		require.NoError(t, err)
		for range 3 {
			require.True(t, measure(t.Context(), c, &Check{Timeout: 10 * time.Second}, nil).OK)
		}
		c.close()
		require.Equal(t, map[bool]int64{false: 3, true: 1}[reuse], conns.Load(), "reuse %v", reuse)
	}
}

// An endpoint that swallows packets must not collect dials and handshakes.
func TestNothingIsLeftOfARunThatTimedOut(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	for _, reuse := range []bool{false, true} {
		dialEnded := make(chan struct{})
		blackHole := New(Config{WrapDial: func(DialFunc) DialFunc {
			return func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				close(dialEnded)
				return nil, ctx.Err()
			}
		}})
		c := Check{Timeout: 100 * time.Millisecond, HTTPS: &HTTPCheck{Port: portOf(t, silent.Addr()), Reuse: reuse}}
		require.Equal(t, ReasonTimeout, blackHole.Once(t.Context(), c, loopback).Reason)
		select {
		case <-dialEnded:
		case <-time.After(5 * time.Second):
			t.Fatal("it is still dialling")
		}
		require.Equal(t, ReasonTimeout, localProber(nil).Once(t.Context(), c, loopback).Reason)
		conn, err := silent.Accept()
		require.NoError(t, err)
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(5*time.Second)))
		_, err = io.Copy(io.Discard, conn)
		require.NoError(t, err, "the connection is closed, not left in its handshake")
		require.NoError(t, conn.Close())
	}
}

// certificates makes leaves of one test CA.
type certificates struct {
	t    testing.TB
	key  *ecdsa.PrivateKey
	ca   *x509.Certificate
	pool *x509.CertPool
}

func newCertificates(t testing.TB) *certificates {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	require.NoError(t, err)
	ca, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	return &certificates{t, key, ca, pool}
}

func (c *certificates) leaf(notAfter time.Time, names ...string) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(c.t, err)
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: notAfter,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, n := range names {
		if ip := net.ParseIP(n); ip != nil {
			tmpl.IPAddresses = append(tmpl.IPAddresses, ip)
			continue
		}
		tmpl.DNSNames = append(tmpl.DNSNames, n)
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, c.ca, &key.PublicKey, c.key)
	require.NoError(c.t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func TestHTTPSCheck(t *testing.T) {
	certs := newCertificates(t)
	later := time.Now().Add(30 * time.Minute).Truncate(time.Second)
	past := time.Now().Add(-time.Minute).Truncate(time.Second)
	good := certs.leaf(later, "web.example.com")
	expired := certs.leaf(past, "old.example.com")
	byAddr := certs.leaf(later, "127.0.0.1")
	var sni atomic.Value
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "%s host=%s", r.Proto, r.Host) }))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.EnableHTTP2 = true
	srv.TLS = &tls.Config{
		Certificates: []tls.Certificate{byAddr}, // for clients that send no name
		GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
			sni.Store(h.ServerName)
			if h.ServerName == "old.example.com" {
				return &expired, nil
			}
			return &good, nil
		},
	}
	srv.StartTLS()
	defer srv.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts by backlog and says nothing
	require.NoError(t, err)
	defer silent.Close()
	port := portOf(t, srv.Listener.Addr())

	tests := []struct {
		name   string
		port   int
		host   string
		tls    *TLSCheck
		roots  *x509.CertPool
		reason Reason
		detail string
		sni    string
		expiry time.Time
	}{
		{"a good certificate", port, "web.example.com", nil, certs.pool, ReasonOK, "", "web.example.com", later},
		{"the port of a host is not part of the name", port, "web.example.com:443", nil, certs.pool, ReasonOK, "", "web.example.com", later},
		{"a server name of its own", port, "other.example.net", &TLSCheck{ServerName: "web.example.com", Verify: true}, certs.pool, ReasonOK, "", "web.example.com", later},
		{"a certificate for another name", port, "other.example.net", nil, certs.pool, ReasonTLS, "other.example.net", "other.example.net", later},
		{"another name without verification", port, "other.example.net", &TLSCheck{}, certs.pool, ReasonOK, "", "other.example.net", later},
		{"an expired certificate", port, "old.example.com", nil, certs.pool, ReasonTLS, "expired", "old.example.com", past},
		{"an expired certificate without verification", port, "old.example.com", &TLSCheck{}, certs.pool, ReasonOK, "", "old.example.com", past},
		{"an unknown authority", port, "web.example.com", nil, x509.NewCertPool(), ReasonTLS, "unknown authority", "web.example.com", later},
		{"without a name the address is verified and no name sent", port, "", nil, certs.pool, ReasonOK, "", "", later},
		{"no TLS at all", portOf(t, plain.Listener.Addr()), "web.example.com", nil, certs.pool, ReasonTLS, "", "", time.Time{}},
		{"a handshake that hangs", portOf(t, silent.Addr()), "web.example.com", nil, certs.pool, ReasonTimeout, "", "", time.Time{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sni.Store("")
			h := &HTTPCheck{Port: tt.port, Path: "/", Host: tt.host, TLS: tt.tls, Expect: HTTPExpect{BodyRegex: `^HTTP/2\.0 host=`}}
			c := Check{Timeout: 10 * time.Second, HTTPS: h}
			if tt.reason == ReasonTimeout {
				c.Timeout = 200 * time.Millisecond
			}
			r := localProber(tt.roots).Once(t.Context(), c, loopback)
			require.Equal(t, tt.reason, r.Reason, r.Detail)
			require.Contains(t, r.Detail, tt.detail)
			require.Equal(t, tt.sni, sni.Load())
			require.True(t, tt.expiry.Equal(r.CertExpiry), "expiry %s, want %s", r.CertExpiry, tt.expiry)
		})
	}
}

func TestTCPCheck(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	p := localProber(nil)
	check := func(port int) Check { return Check{Timeout: 10 * time.Second, TCP: &TCPCheck{Port: port}} }

	require.True(t, p.Once(t.Context(), check(portOf(t, ln.Addr())), loopback).OK)
	r := p.Once(t.Context(), check(portOf(t, closed.Addr())), loopback)
	require.Equal(t, ReasonRefused, r.Reason, r.Detail)
	denied := New(Config{}).Once(t.Context(), check(portOf(t, ln.Addr())), loopback)
	require.Equal(t, ReasonDenied, denied.Reason)
	require.Contains(t, denied.Detail, "127.0.0.1 is loopback and not listed in observer.allow")
	require.Equal(t, ReasonOther, p.Once(t.Context(), Check{}, loopback).Reason, "no kind")
}

// A check that this node cannot make is its own fault, whoever wrote it.
func TestACheckThatCannotBeMadeIsUnknown(t *testing.T) {
	tests := []struct {
		name string
		edit func(*HTTPCheck)
	}{
		{"pattern", func(h *HTTPCheck) { h.Expect.BodyRegex = "(" }},
		{"path", func(h *HTTPCheck) { h.Path = "no slash" }},
		{"method", func(h *HTTPCheck) { h.Method = "GE T" }},
		{"host", func(h *HTTPCheck) { h.Host = "a b" }},
		{"header name", func(h *HTTPCheck) { h.Headers = map[string]string{"a b": ""} }},
		{"header value", func(h *HTTPCheck) { h.Headers = map[string]string{"a": "x\ny"} }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := httpCheck(80, tt.edit)
				p := launch(t, Config{}, newWorld(), TargetChecks{Target: webEU, All: []Check{c}})
				time.Sleep(time.Minute)
				require.Equal(t, health.Unknown, p.Votes()[webEU].Side)
				require.Equal(t, "other", p.Votes()[webEU].Reason)
			})
		})
	}
}

// A node without a route must not vote down, a router that says so may count.
func TestOnlyThisNodesMissingRouteIsItsOwnFault(t *testing.T) {
	dial := telling(func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Err: syscall.ENETUNREACH}
	}, Source{})
	_, err := dial(t.Context(), "tcp", "127.0.0.1:80") // routed here, so somebody else said it
	require.ErrorIs(t, err, syscall.ENETUNREACH)
	require.False(t, ownFault(err))
	_, err = dial(t.Context(), "tcp", "[fe80::1%no-such-link]:80")
	require.ErrorIs(t, err, syscall.ENETUNREACH)
	require.True(t, ownFault(err))

	// "Prohibited" is this node's own over IPv4, and a firewall's over IPv6.
	prohibited := telling(func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Err: syscall.EACCES}
	}, Source{})
	for addr, own := range map[string]bool{"127.0.0.1:80": true, "[::1]:80": false, "[fe80::1%no-such-link]:80": true} {
		_, err = prohibited(t.Context(), "tcp", addr)
		require.Equal(t, own, ownFault(err), "%s: %v", addr, err)
	}
}

func TestWhoseFaultAFailureIs(t *testing.T) {
	tests := []struct {
		name string
		err  error
		own  bool
	}{
		{"refused", syscall.ECONNREFUSED, false},
		{"reset", syscall.ECONNRESET, false},
		{"a router says no host", syscall.EHOSTUNREACH, false},
		{"a router says no network", syscall.ENETUNREACH, false},
		{"no route here", &ownError{"no route", syscall.ENETUNREACH}, true},
		{"no file descriptor left", syscall.EMFILE, true},
		{"the source address is not ours", syscall.EADDRNOTAVAIL, true},
		{"no UDP port is left to connect from", syscall.EAGAIN, true},
		{"no port is left to bind", syscall.EADDRINUSE, true},
		{"our routing table drops it", syscall.EINVAL, true},
		{"our interface is down", syscall.ENETDOWN, true},
		{"our own firewall", syscall.EPERM, true},
		{"our own policy", &DeniedError{Why: "x"}, true},
		{"timeout", context.DeadlineExceeded, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.own, ownFault(fmt.Errorf("dial: %w", tt.err)))
		})
	}
}

// refusingConn takes what is written and then fails as a connection does that a
// firewall refuses.
type refusingConn struct{ net.Conn }

func (refusingConn) Read([]byte) (int, error) {
	return 0, &net.OpError{Op: "read", Err: syscall.EACCES}
}
func (refusingConn) Write(b []byte) (int, error)      { return len(b), nil }
func (refusingConn) Close() error                     { return nil }
func (refusingConn) SetDeadline(time.Time) error      { return nil }
func (refusingConn) SetReadDeadline(time.Time) error  { return nil }
func (refusingConn) SetWriteDeadline(time.Time) error { return nil }

// Over IPv6 "administratively prohibited" of a firewall reads as if this node had
// forbidden itself; on an established connection it never has.
func TestAFirewallThatClosesInTheMiddleIsTheEndpointsFault(t *testing.T) {
	p := New(Config{WrapDial: func(DialFunc) DialFunc {
		return func(context.Context, string, string) (net.Conn, error) { return refusingConn{}, nil }
	}})
	for name, check := range map[string]Check{
		"http":  {HTTP: &HTTPCheck{Port: 1}},
		"https": {HTTPS: &HTTPCheck{Port: 1}},
		"tcp":   {TCP: &TCPCheck{Port: 1, Expect: "x"}},
		"tls":   {TLS: &HandshakeCheck{Port: 1}},
		"grpc":  {GRPC: &GRPCCheck{Port: 1}},
		"dns":   {DNS: &DNSCheck{Port: 1, Name: "a.example.", Type: "A"}},
	} {
		check.Timeout = time.Minute
		c, err := p.newChecker(check, netip.MustParseAddr("2001:db8::1"))
		require.NoError(t, err)
		o := measure(t.Context(), c, &check, nil)
		require.False(t, o.OK)
		require.False(t, o.unmeasured, "%s: %s", name, o.Detail)
		require.Contains(t, o.Detail, "a firewall on the way refuses it", name)
	}
}

// A dialler of the schedule reaches a real server, and the schedule sees it go.
func TestTheScheduleProbesRealServers(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "ok") }))
	var dialled atomic.Int64
	p := New(Config{
		Policy: AddressPolicy{Allow: prefixes("127.0.0.0/8")},
		WrapDial: func(next DialFunc) DialFunc {
			return func(ctx context.Context, network, addr string) (net.Conn, error) {
				dialled.Add(1)
				return next(ctx, network, addr)
			}
		},
	})
	web := target("web", "eu", "127.0.0.1")
	c := httpCheck(portOf(t, srv.Listener.Addr()), nil)
	c.Interval, c.Recheck, c.Fall = 100*time.Millisecond, 100*time.Millisecond, 2
	p.SetPlan(BuildPlan([]TargetChecks{{Target: web, All: []Check{c}}}))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	require.Eventually(t, func() bool { return p.Votes()[web].Reason == "ok" }, 10*time.Second, time.Millisecond)
	require.NotZero(t, dialled.Load())
	srv.Close()
	require.Eventually(t, func() bool { return p.Votes()[web].Reason == "refused" }, 10*time.Second, time.Millisecond)
	cancel()
	require.NoError(t, <-done)
}
