package probe

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// answering serves a short response to every request on ln, at little cost of its own.
func answering(b *testing.B, ln net.Listener) int {
	b.Cleanup(func() { _ = ln.Close() })
	const reply = "HTTP/1.1 200 OK\r\nServer: bench\r\nDate: Mon, 02 Jan 2006 15:04:05 GMT\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok"
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
					if _, err := io.WriteString(conn, reply); err != nil {
						return
					}
				}
			}()
		}
	}()
	return ln.Addr().(*net.TCPAddr).Port
}

func listen(b *testing.B) net.Listener {
	ln, err := net.Listen("tcp4", ":0")
	require.NoError(b, err)
	return ln
}

// endpoints are so many that the ports of closed connections do not run out.
const endpoints = 250

// What a run costs, the server in the same process included.
func BenchmarkCheck(b *testing.B) {
	certs := newCertificates(b)
	secure := func(alpn ...string) int {
		leaf := certs.leaf(time.Now().Add(time.Hour), "web.example.com")
		return answering(b, tls.NewListener(listen(b), &tls.Config{Certificates: []tls.Certificate{leaf}, NextProtos: alpn}))
	}
	expect := HTTPExpect{Status: []StatusRange{{200, 299}}, BodyRegex: "ok"}
	kinds := []struct {
		name  string
		check Check
	}{
		{"tcp", Check{TCP: &TCPCheck{Port: answering(b, listen(b))}}},
		{"http", Check{HTTP: &HTTPCheck{Port: answering(b, listen(b)), Path: "/healthz", Expect: expect}}},
		{"http-reuse", Check{HTTP: &HTTPCheck{Port: answering(b, listen(b)), Path: "/healthz", Expect: expect, Reuse: true}}},
		{"https", Check{HTTPS: &HTTPCheck{Port: secure("http/1.1"), Host: "web.example.com", Path: "/healthz", Expect: expect}}},
		{"https-reuse", Check{HTTPS: &HTTPCheck{Port: secure(), Host: "web.example.com", Path: "/healthz", Expect: expect, Reuse: true}}},
	}
	for _, k := range kinds {
		b.Run(k.name, func(b *testing.B) {
			p := localProber(certs.pool)
			k.check.Timeout = 10 * time.Second
			var all []checker
			for i := range endpoints {
				c, err := p.newChecker(k.check, netip.AddrFrom4([4]byte{127, 0, 1, byte(i)}))
				require.NoError(b, err)
				defer c.close()
				all = append(all, c)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if o := measure(b.Context(), all[i%endpoints], &k.check, nil); !o.OK {
					b.Fatal(o.Reason, o.Detail)
				}
			}
		})
	}
}
