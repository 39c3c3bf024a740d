package probe

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const okReply = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// A kept connection that the server has closed is no failure of the endpoint, and a
// response to nothing on it is none either.
func TestAKeptConnectionThatIsGoneIsReplaced(t *testing.T) {
	request := func(in *bufio.Reader) bool {
		_, err := http.ReadRequest(in)
		return err == nil
	}
	tests := []struct {
		name  string
		serve func(c net.Conn, in *bufio.Reader)
		conns int // after three runs
	}{
		{"it is kept", func(c net.Conn, in *bufio.Reader) {
			for request(in) {
				_, _ = io.WriteString(c, okReply)
			}
		}, 1},
		{"the server closes it", func(c net.Conn, in *bufio.Reader) {
			if request(in) {
				_, _ = io.WriteString(c, okReply)
			}
		}, 3},
		{"the server closes it at the next request", func(c net.Conn, in *bufio.Reader) {
			if request(in) {
				_, _ = io.WriteString(c, okReply)
				request(in)
			}
		}, 3},
		{"the server says that it will close it", func(c net.Conn, in *bufio.Reader) {
			for request(in) {
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
			}
		}, 3},
		{"a body that was not read to its end", func(c net.Conn, in *bufio.Reader) {
			for request(in) {
				_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", maxBody+1, strings.Repeat("x", maxBody+1))
			}
		}, 3},
		{"interim responses are passed over", func(c net.Conn, in *bufio.Reader) {
			for request(in) {
				_, _ = io.WriteString(c, "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"+okReply)
			}
		}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			conns := 0
			p := New(Config{WrapDial: func(DialFunc) DialFunc {
				return func(context.Context, string, string) (net.Conn, error) {
					conns++
					// A real connection: it takes a request although nobody reads it.
					ln, err := net.Listen("tcp", "127.0.0.1:0")
					if err != nil {
						return nil, err
					}
					defer ln.Close()
					here, err := net.Dial("tcp", ln.Addr().String())
					if err != nil {
						return nil, err
					}
					there, err := ln.Accept()
					if err != nil {
						return nil, err
					}
					go func() {
						defer there.Close()
						tt.serve(there, bufio.NewReader(there))
					}()
					return here, nil
				}
			}})
			check := httpCheck(80, func(h *HTTPCheck) { h.Reuse = true })
			c, err := p.newChecker(check, loopback)
			require.NoError(t, err)
			defer c.close()
			for range 3 {
				o := measure(t.Context(), c, &check, nil)
				require.True(t, o.OK, "%s: %s", o.Reason, o.Detail)
			}
			require.Equal(t, tt.conns, conns)
		})
	}
}

// What a server says to an idle connection is no response to the next request.
func TestAnIdleTimeoutIsNoFailure(t *testing.T) {
	dials := 0
	p := New(Config{WrapDial: func(DialFunc) DialFunc {
		return func(context.Context, string, string) (net.Conn, error) {
			dials++
			here, there := net.Pipe()
			in := bufio.NewReader(there)
			go func() {
				_, _ = http.ReadRequest(in)
				_, _ = io.WriteString(there, okReply)
				go func() { _, _ = http.ReadRequest(in) }() // so that the next one can be sent
				_, _ = io.WriteString(there, "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
			}()
			return here, nil
		}
	}})
	check := httpCheck(80, func(h *HTTPCheck) { h.Reuse = true })
	c, err := p.newChecker(check, loopback)
	require.NoError(t, err)
	defer c.close()
	for range 2 {
		o := measure(t.Context(), c, &check, nil)
		require.True(t, o.OK, "%s: %s", o.Reason, o.Detail)
		require.NotNil(t, c.(*httpChecker).kept)
	}
	require.Equal(t, 2, dials)
}

// A connection that is kept for ever would go on saying that all is well while nobody
// new gets in, or is shown a certificate that has run out.
func TestAKeptConnectionIsNotKeptForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := true
		p := New(Config{WrapDial: func(DialFunc) DialFunc {
			return func(context.Context, string, string) (net.Conn, error) {
				if !open {
					return nil, syscall.ECONNREFUSED
				}
				here, there := net.Pipe()
				go func() {
					in := bufio.NewReader(there)
					for {
						if _, err := http.ReadRequest(in); err != nil {
							return
						}
						_, _ = io.WriteString(there, okReply)
					}
				}()
				return here, nil
			}
		}})
		check := httpCheck(80, func(h *HTTPCheck) { h.Reuse = true })
		c, err := p.newChecker(check, loopback)
		require.NoError(t, err)
		defer c.close()
		for range 3 {
			require.True(t, measure(t.Context(), c, &check, nil).OK)
			time.Sleep(10 * time.Second)
		}
		open = false // to new connections; the one that is there goes on
		require.True(t, measure(t.Context(), c, &check, nil).OK)
		time.Sleep(time.Minute)
		require.Equal(t, ReasonRefused, measure(t.Context(), c, &check, nil).Reason)
	})
}

// A new connection that ends without a response is the server's doing.
func TestANewConnectionIsTriedOnce(t *testing.T) {
	dials := 0
	p := New(Config{WrapDial: func(DialFunc) DialFunc {
		return func(context.Context, string, string) (net.Conn, error) {
			dials++
			here, there := net.Pipe()
			go func() {
				_, _ = http.ReadRequest(bufio.NewReader(there))
				_ = there.Close()
			}()
			return here, nil
		}
	}})
	r := p.Once(t.Context(), httpCheck(80, func(h *HTTPCheck) { h.Reuse = true }), loopback)
	require.Equal(t, ReasonOther, r.Reason)
	require.Contains(t, r.Detail, "closed the connection without a response")
	require.Equal(t, 1, dials)
}

func TestAKeptConnectionOfHTTP2(t *testing.T) {
	certs := newCertificates(t)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.RemoteAddr+strings.Repeat("x", maxBody-100))
	}))
	srv.EnableHTTP2 = true
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{certs.leaf(time.Now().Add(time.Hour), "127.0.0.1")}}
	srv.StartTLS()
	p := localProber(certs.pool)
	check := Check{Timeout: 10 * time.Second, HTTPS: &HTTPCheck{Port: portOf(t, srv.Listener.Addr()), Reuse: true}}
	c, err := p.newChecker(check, loopback)
	require.NoError(t, err)
	var first *stream
	for i := range 10 { // more than the window of a connection that is not renewed
		o := measure(t.Context(), c, &check, nil)
		require.True(t, o.OK, "run %d: %s", i, o.Detail)
		require.Equal(t, i == 0, o.RTT > 0, "connecting is measured when it is done")
		require.False(t, o.CertExpiry.IsZero())
		kept := c.(*httpChecker).kept
		require.NotNil(t, kept.h2)
		if first == nil {
			first = kept
		}
		require.Same(t, first, kept)
	}
	srv.CloseClientConnections()
	o := measure(t.Context(), c, &check, nil)
	require.True(t, o.OK, o.Detail)
	require.NotSame(t, first, c.(*httpChecker).kept)
	srv.Close()
	require.Equal(t, ReasonRefused, measure(t.Context(), c, &check, nil).Reason)
	c.close()
}

// Tens of thousands of idle checks must cost no goroutines and no buffers.
func TestAnIdleCheckHoldsNoGoroutine(t *testing.T) {
	certs := newCertificates(t)
	port := answeringTLS(t, certs)
	p := localProber(certs.pool)
	check := Check{Timeout: 10 * time.Second, HTTPS: &HTTPCheck{Port: port, Reuse: true}}
	before := runtime.NumGoroutine()
	const n = 50
	for range n {
		c, err := p.newChecker(check, loopback)
		require.NoError(t, err)
		defer c.close()
		require.True(t, measure(t.Context(), c, &check, nil).OK)
		require.NotNil(t, c.(*httpChecker).kept)
	}
	// One goroutine a connection is the server's, and a few are Eventually's.
	require.Eventually(t, func() bool { return runtime.NumGoroutine() < before+n+n/2 }, 10*time.Second, time.Millisecond)
}

// answeringTLS serves HTTP/1 over TLS with one goroutine a connection.
func answeringTLS(t *testing.T, certs *certificates) int {
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certs.leaf(time.Now().Add(time.Hour), "127.0.0.1")}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				in := bufio.NewReader(conn)
				for {
					if _, err := http.ReadRequest(in); err != nil {
						return
					}
					if _, err := io.WriteString(conn, okReply); err != nil {
						return
					}
				}
			}()
		}
	}()
	return portOf(t, ln.Addr())
}

func TestTheRequestIsSentAsItWasWritten(t *testing.T) {
	v6 := netip.IPv6Loopback()
	tests := []struct {
		name   string
		scheme string
		check  HTTPCheck
		want   string
	}{
		{"the least", "http", HTTPCheck{Port: 80}, "GET / HTTP/1.1\r\nHost: [::1]\r\nConnection: close\r\nUser-Agent: q\r\n\r\n"},
		{"another port", "https", HTTPCheck{Port: 8443, Reuse: true}, "GET / HTTP/1.1\r\nHost: [::1]:8443\r\nUser-Agent: q\r\n\r\n"},
		{"a host", "https", HTTPCheck{Port: 443, Host: "a.example", Reuse: true}, "GET / HTTP/1.1\r\nHost: a.example\r\nUser-Agent: q\r\n\r\n"},
		{
			"headers", "http",
			HTTPCheck{Port: 80, Reuse: true, Headers: map[string]string{"b": "2", "A": "1", "host": "h", "content-length": "9", "transfer-encoding": "chunked"}},
			"GET / HTTP/1.1\r\nHost: h\r\nA: 1\r\nB: 2\r\nUser-Agent: q\r\n\r\n",
		},
		{"a connection of one's own", "http", HTTPCheck{Port: 80, Headers: map[string]string{"connection": "Upgrade"}}, "GET / HTTP/1.1\r\nHost: [::1]\r\nConnection: Upgrade\r\nUser-Agent: q\r\n\r\n"},
		{"no body of a post", "http", HTTPCheck{Port: 80, Method: "POST", Reuse: true}, "POST / HTTP/1.1\r\nHost: [::1]\r\nContent-Length: 0\r\nUser-Agent: q\r\n\r\n"},
		{"what may not stand in a path", "http", HTTPCheck{Port: 80, Path: "/ä b?q=x y", Reuse: true}, "GET /%C3%A4%20b?q=x%20y HTTP/1.1\r\nHost: [::1]\r\nUser-Agent: q\r\n\r\n"},
		{"an escaped path", "http", HTTPCheck{Port: 80, Path: "/a%2Fb", Reuse: true}, "GET /a%2Fb HTTP/1.1\r\nHost: [::1]\r\nUser-Agent: q\r\n\r\n"},
		{"two slashes are no host", "http", HTTPCheck{Port: 80, Path: "//a/b", Reuse: true}, "GET //a/b HTTP/1.1\r\nHost: [::1]\r\nUser-Agent: q\r\n\r\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := newHTTPRequest(tt.scheme, &tt.check, v6, "q")
			require.NoError(t, err)
			require.Equal(t, tt.want, string(r.h1))
		})
	}
	for _, path := range []string{"a", "http://other.example/", "mailto:x", "/a\nb", "/%zz"} {
		_, err := newHTTPRequest("http", &HTTPCheck{Port: 80, Path: path}, v6, "q")
		require.Error(t, err, path)
	}
}

// The header block of HTTP/2 must not depend on what was sent before it.
func TestTheHeaderBlockIsTheSameEachTime(t *testing.T) {
	r, err := newHTTPRequest("https", &HTTPCheck{Port: 443, Host: "a.example", Headers: map[string]string{"X-A": "1", "Connection": "x"}}, netip.IPv6Loopback(), "q")
	require.NoError(t, err)
	d := hpack.NewDecoder(4096, nil)
	for range 2 {
		fields, err := d.DecodeFull(r.h2())
		require.NoError(t, err)
		var got []string
		for _, f := range fields {
			got = append(got, f.Name+"="+f.Value)
		}
		require.Equal(t, []string{":method=GET", ":scheme=https", ":authority=a.example", ":path=/", "user-agent=q", "x-a=1"}, got)
	}
	fresh, err := hpack.NewDecoder(4096, nil).DecodeFull(r.h2())
	require.NoError(t, err)
	require.Len(t, fresh, 6)
}

func FuzzReadResponse(f *testing.F) {
	f.Add([]byte(okReply))
	f.Add([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nA: b\r\n\r\n"))
	f.Add([]byte("HTTP/1.0 100 \r\n\r\n"))
	x, err := newExpectation(&HTTPExpect{JSON: map[string]string{"$.a[*]": "b"}, MaxBody: 100})
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, b []byte) {
		r := &runner{}
		buf := r.borrow()
		buf.in = bounded{from: iotest.HalfReader(bytes.NewReader(b)), left: maxHeader, over: errLongHeader}
		buf.reader = bufio.NewReader(&buf.in)
		resp, err := readResponse(&httpRequest{like: &http.Request{Method: "GET"}}, buf, nil)
		if err != nil {
			return
		}
		_ = x.judge(t.Context(), resp, buf, time.Now(), nil)
		if len(buf.body) > 101 {
			t.Errorf("%d bytes read", len(buf.body))
		}
	})
}

func FuzzReadHTTP2(f *testing.F) {
	var good bytes.Buffer
	fr := http2.NewFramer(&good, nil)
	require.NoError(f, fr.WriteSettings())
	require.NoError(f, fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true, BlockFragment: headerBlock([]hpack.HeaderField{{Name: ":status", Value: "200"}})}))
	require.NoError(f, fr.WriteData(1, true, []byte("ok")))
	f.Add(good.Bytes())
	f.Add([]byte(okReply))
	f.Fuzz(func(t *testing.T, b []byte) {
		h := newH2(struct {
			io.Reader
			io.Writer
		}{bytes.NewReader(b), io.Discard})
		if err := h.send(nil, nil); err != nil {
			t.Fatal(err)
		}
		resp, err := h.response(&httpRequest{method: "GET"}, nil)
		if err != nil {
			return
		}
		body, err := io.ReadAll(io.LimitReader(resp.body, maxBody))
		if errors.Is(err, io.EOF) || len(body) > len(b) {
			t.Errorf("%d bytes of %d: %v", len(body), len(b), err)
		}
	})
}
