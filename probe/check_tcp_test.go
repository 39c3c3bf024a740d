package probe

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// pipeProber reaches serve through memory, whatever is dialled.
func pipeProber(serve func(net.Conn)) *Prober {
	return New(Config{WrapDial: func(DialFunc) DialFunc {
		return func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			go func() {
				defer there.Close()
				serve(there)
			}()
			return here, nil
		}
	}})
}

func TestTCPSendAndExpect(t *testing.T) {
	say := func(parts ...string) func(net.Conn) {
		return func(c net.Conn) {
			for _, s := range parts {
				if _, err := io.WriteString(c, s); err != nil {
					return
				}
			}
			_, _ = io.Copy(io.Discard, c)
		}
	}
	leave := func(s string) func(net.Conn) { return func(c net.Conn) { _, _ = io.WriteString(c, s) } }
	echo := func(c net.Conn) {
		b := make([]byte, 64)
		n, _ := c.Read(b)
		_, _ = c.Write(append([]byte("+"), b[:n]...))
		_, _ = io.Copy(io.Discard, c)
	}
	deaf := func(net.Conn) { time.Sleep(time.Minute) }
	full := strings.Repeat("x", maxBody)
	tests := []struct {
		name   string
		serve  func(net.Conn)
		send   string
		expect string
		reason Reason
		detail string
	}{
		{"a greeting", say("220 mail ESMTP\r\n"), "", "220 ", ReasonOK, ""},
		{"an answer to what was sent", echo, "PING", "+PING", ReasonOK, ""},
		{"a text in two pieces", say("+PO", "NG"), "", "+PONG", ReasonOK, ""},
		{"a text in many pieces", say("x+", "P", "O", "N", "Gx"), "", "+PONG", ReasonOK, ""},
		{"nothing is expected of what was sent", say(), "QUIT", "", ReasonOK, ""},
		{"another greeting", say("554 go away\r\n"), "", "220 ", ReasonBody, `what came does not hold it, begins: 554 go away\r\n`},
		{"another greeting and the end", leave("554 go away\r\n"), "", "220 ", ReasonBody, `begins: 554 go away\r\n`},
		{"no word", leave(""), "", "220 ", ReasonBody, "closed the connection without a word"},
		{"silence", say(), "", "220 ", ReasonTimeout, ""},
		{"nobody reads", deaf, "PING", "PONG", ReasonTimeout, "send: "},
		{"a text at the end of 64 KiB", say(full[5:], "+PONG"), "", "+PONG", ReasonOK, ""},
		{"a text behind 64 KiB", say(full[4:], "+PONG"), "", "+PONG", ReasonBody, "begins: xxx"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := Check{Timeout: 3 * time.Second, TCP: &TCPCheck{Port: 1, Send: tt.send, Expect: tt.expect}}
				r := pipeProber(tt.serve).Once(t.Context(), c, loopback)
				require.Equal(t, tt.reason, r.Reason, r.Detail)
				require.Contains(t, r.Detail, tt.detail)
				require.LessOrEqual(t, r.Took, 3*time.Second)
				if strings.HasSuffix(tt.name, "64 KiB") {
					require.Zero(t, r.Took, "it does not wait for more")
				}
				time.Sleep(time.Hour) // the server ends before the test
			})
		})
	}
}

// A run ends with the node, not with its timeout.
func TestARunEndsWithItsContext(t *testing.T) {
	for name, check := range map[string]Check{
		"tcp":  {TCP: &TCPCheck{Port: 1, Expect: "x"}},
		"http": {HTTP: &HTTPCheck{Port: 1}},
		"tls":  {TLS: &HandshakeCheck{Port: 1}},
		"grpc": {GRPC: &GRPCCheck{Port: 1}},
		"dns":  {DNS: &DNSCheck{Port: 1, Name: "a.example.", Type: "A"}},
		"icmp": {ICMP: &ICMPCheck{}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				check.Timeout = time.Hour
				p := pipeProber(func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
				r := p.Once(ctx, check, loopback)
				require.Equal(t, time.Second, r.Took)
				require.Equal(t, ReasonTimeout, r.Reason, r.Detail)
			})
		})
	}
}
