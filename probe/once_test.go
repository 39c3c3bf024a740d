package probe

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
)

// phasesText writes the names of phases, "!" behind a failed one.
func phasesText(phases []Phase) string {
	var all []string
	for _, p := range phases {
		if !p.OK {
			p.Name += "!"
		}
		all = append(all, p.Name)
	}
	return strings.Join(all, ", ")
}

func TestOnceSaysWhatEachPhaseSaw(t *testing.T) {
	certs := newCertificates(t)
	later := time.Now().Add(30 * time.Minute).UTC()
	serve := func(h2 bool) int {
		srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "not <b>\x1b[31mready</b>"+strings.Repeat("é", 4000))
		}))
		srv.EnableHTTP2 = h2
		srv.TLS = &tls.Config{Certificates: []tls.Certificate{certs.leaf(later, "web.example.com")}}
		srv.StartTLS()
		t.Cleanup(srv.Close)
		return portOf(t, srv.Listener.Addr())
	}
	h1, h2 := serve(false), serve(true)
	truncating := serveDNS(t, func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg).SetReply(q)
		_, m.Truncated = w.RemoteAddr().(*net.UDPAddr)
		_ = w.WriteMsg(m)
	})
	web := func(port int, expect HTTPExpect) Check {
		return Check{Timeout: 10 * time.Second, HTTPS: &HTTPCheck{Port: port, Path: "/h", Host: "web.example.com", Expect: expect}}
	}
	tests := []struct {
		name   string
		check  Check
		phases string
		texts  map[int]string // what a phase's text holds
	}{
		{
			"all is well over HTTP/1.1", web(h1, HTTPExpect{}), "resolve, connect, tls, send, first byte, read, match",
			map[int]string{
				0: "127.0.0.1", 1: fmt.Sprintf("tcp 127.0.0.1:%d from 127.0.0.1:", h1),
				2: `TLS 1.3, ALPN http/1.1, certificate`, 3: "GET /h HTTP/1.1 to web.example.com", 4: "HTTP/1.1 200 OK", 5: "8021 bytes", 6: "status 200",
			},
		},
		{
			"all is well over HTTP/2", web(h2, HTTPExpect{}), "resolve, connect, tls, send, first byte, read, match",
			map[int]string{2: `ALPN h2, certificate "" for web.example.com, issued by "CN=test CA", until ` + later.Format(time.RFC3339), 4: "HTTP/2.0 200 OK"},
		},
		{
			"a wrong status", web(h1, HTTPExpect{Status: []StatusRange{{201, 201}, {300, 399}}}), "resolve, connect, tls, send, first byte, match!",
			map[int]string{5: "status 200; expected: status 201, 300-399"},
		},
		{
			"a wrong body", web(h1, HTTPExpect{BodyRegex: "^ready"}), "resolve, connect, tls, send, first byte, read, match!",
			map[int]string{6: `body does not match, begins: not <b>\x1b[31mready</b>`},
		},
		{
			"a wrong certificate",
			Check{Timeout: 10 * time.Second, HTTPS: &HTTPCheck{Port: h1, Host: "x.example.com"}},
			"resolve, connect, tls!",
			map[int]string{2: "shown: certificate"},
		},
		{"a handshake alone", Check{Timeout: 10 * time.Second, TLS: &HandshakeCheck{Port: h1}}, "resolve, connect, tls", nil},
		{"nobody listens", Check{Timeout: 10 * time.Second, TCP: &TCPCheck{Port: 1}}, "resolve, connect!", map[int]string{1: "refused"}},
		{
			"a truncated DNS answer",
			Check{Timeout: 10 * time.Second, DNS: &DNSCheck{Port: truncating, Name: "a.example.", Type: "A", RCode: "NXDOMAIN"}},
			"resolve, connect, send, read, connect, send, read, match!",
			map[int]string{1: "udp 127.0.0.1", 3: "truncated: true", 4: "tcp 127.0.0.1", 7: "rcode NOERROR; expected: rcode NXDOMAIN"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := localProber(certs.pool).Once(t.Context(), tt.check, loopback)
			require.Equal(t, tt.phases, phasesText(a.Phases))
			require.Equal(t, !strings.HasSuffix(tt.phases, "!"), a.OK, a.Detail)
			for i, text := range tt.texts {
				require.Contains(t, a.Phases[i].Text, text)
			}
			var sum time.Duration
			for _, p := range a.Phases {
				require.LessOrEqual(t, len(p.Text), maxPhaseText)
				require.Regexp(t, `^[ -~]*$`, p.Text)
				sum += p.Took
			}
			require.LessOrEqual(t, sum, a.Took+time.Second)
		})
	}
}

// The schedule asks for no phases, and pays for none.
func TestPhasesCostNothingUnlessAskedFor(t *testing.T) {
	var none *recorder
	require.Zero(t, testing.AllocsPerRun(100, func() {
		none.start("connect")
		none.fail(nil)
	}))
	require.Nil(t, none)
}
