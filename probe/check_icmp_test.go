package probe

import (
	"context"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// echoConn answers echo requests as reply says: how often, how late and with what.
type echoConn struct {
	net.Conn
	reply   func(m *icmp.Message, seq int) []echoReply
	replies chan []byte
	v6      bool

	mu       sync.Mutex // guards deadline: the end of a run sets it too
	deadline time.Time
}

type echoReply struct {
	after time.Duration
	m     *icmp.Message
}

func (c *echoConn) LocalAddr() net.Addr { return &net.UDPAddr{} }
func (c *echoConn) Close() error        { return nil }

func (c *echoConn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

func (c *echoConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	return nil
}

func (c *echoConn) Write(b []byte) (int, error) {
	proto := 1
	if c.v6 {
		proto = 58
	}
	m, err := icmp.ParseMessage(proto, b)
	if err != nil {
		return 0, err
	}
	for _, r := range c.reply(m, m.Body.(*icmp.Echo).Seq) {
		out, err := r.m.Marshal(nil)
		if err != nil {
			return 0, err
		}
		time.AfterFunc(r.after, func() { c.replies <- out })
	}
	return len(b), nil
}

func (c *echoConn) Read(b []byte) (int, error) {
	c.mu.Lock()
	timer := time.NewTimer(time.Until(c.deadline))
	c.mu.Unlock()
	defer timer.Stop()
	select {
	case m := <-c.replies:
		return copy(b, m), nil
	case <-timer.C:
		return 0, os.ErrDeadlineExceeded
	}
}

// answered returns the reply to m, after some time.
func answered(m *icmp.Message, after time.Duration) []echoReply {
	r := *m
	r.Type = ipv4.ICMPTypeEchoReply
	if m.Type == ipv6.ICMPTypeEchoRequest {
		r.Type = ipv6.ICMPTypeEchoReply
	}
	return []echoReply{{after, &r}}
}

func TestICMPCheck(t *testing.T) {
	all := func(after ...time.Duration) func(*icmp.Message, int) []echoReply {
		return func(m *icmp.Message, seq int) []echoReply {
			if d := after[seq%len(after)]; d > 0 {
				return answered(m, d)
			}
			return nil
		}
	}
	twice := func(m *icmp.Message, seq int) []echoReply {
		if seq > 0 {
			return nil
		}
		return append(answered(m, time.Millisecond), answered(m, 2*time.Millisecond)...)
	}
	forged := func(m *icmp.Message, _ int) []echoReply {
		r := *m
		r.Body = &icmp.Echo{Seq: m.Body.(*icmp.Echo).Seq, Data: make([]byte, echoNonce)}
		return answered(&r, time.Millisecond)
	}
	early := func(m *icmp.Message, _ int) []echoReply {
		r := *m
		r.Body = &icmp.Echo{Seq: 99, Data: m.Body.(*icmp.Echo).Data}
		return answered(&r, time.Millisecond)
	}
	mirror := func(m *icmp.Message, _ int) []echoReply { return []echoReply{{time.Millisecond, m}} }
	const ms = time.Millisecond
	tests := []struct {
		name    string
		reply   func(*icmp.Message, int) []echoReply
		count   int
		maxLoss float64
		reason  Reason
		detail  string
		rtt     time.Duration
		took    time.Duration
		reached bool
	}{
		{"one echo", all(20 * ms), 1, 0, ReasonOK, "", 20 * ms, 20 * ms, true},
		{"no count is one echo", all(20 * ms), 0, 0, ReasonOK, "", 20 * ms, 20 * ms, true},
		{"all of three, the fastest counts", all(30*ms, 10*ms, 20*ms), 3, 0, ReasonOK, "", 10 * ms, 220 * ms, true},
		{"enough replies end the run", all(30*ms, 10*ms, 20*ms), 3, 0.5, ReasonOK, "", 10 * ms, 110 * ms, true},
		{"as much loss as allowed", all(30*ms, 0, 20*ms), 3, 0.5, ReasonOK, "", 20 * ms, 220 * ms, true},
		{"more loss than allowed", all(30*ms, 0, 0), 3, 0.5, ReasonTimeout, "1 replies to 3 echo requests, 2 are needed", 30 * ms, time.Second, true},
		{"a tenth of ten may be lost", all(ms, ms, ms, ms, ms, ms, ms, 0, ms, ms), 10, 0.1, ReasonOK, "", ms, 9*50*ms + ms, true},
		{"no reply", all(0), 3, 0.9, ReasonTimeout, "0 replies to 3 echo requests", 0, time.Second, false},
		{"a late reply", all(300 * ms), 1, 0, ReasonOK, "", 300 * ms, 300 * ms, true},
		{"a second reply to the same request counts for nothing", twice, 2, 0, ReasonTimeout, "1 replies to 2", ms, time.Second, true},
		{"a reply without the nonce", forged, 1, 0, ReasonTimeout, "0 replies", 0, time.Second, false},
		{"a reply to what was not sent yet", early, 2, 0, ReasonTimeout, "0 replies", 0, time.Second, false},
		{"our own request is no reply", mirror, 1, 0, ReasonTimeout, "0 replies", 0, time.Second, false},
	}
	for _, tt := range tests {
		for _, addr := range []string{"192.0.2.1", "2001:db8::1"} {
			t.Run(tt.name+" "+addr, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					endpoint := netip.MustParseAddr(addr)
					p := New(Config{WrapDial: func(DialFunc) DialFunc {
						return func(_ context.Context, network, dialled string) (net.Conn, error) {
							require.Equal(t, "icmp", network)
							require.Equal(t, hostPort(endpoint, 0), dialled)
							return &echoConn{reply: tt.reply, replies: make(chan []byte, 100), v6: endpoint.Is6()}, nil
						}
					}})
					check := Check{Timeout: time.Second, ICMP: &ICMPCheck{Count: tt.count, MaxLoss: tt.maxLoss}}
					c, err := p.newChecker(check, endpoint)
					require.NoError(t, err)
					o := measure(t.Context(), c, &check, nil)
					require.Equal(t, tt.reason, o.Reason, o.Detail)
					require.Contains(t, o.Detail, tt.detail)
					require.Equal(t, tt.rtt, o.RTT)
					require.Equal(t, tt.took, o.Took)
					require.Equal(t, tt.reached, o.reached)
					require.False(t, o.unmeasured)
				})
			})
		}
	}
}

func TestAnICMPCheckThatCannotBeMade(t *testing.T) {
	for _, c := range []ICMPCheck{{Count: maxEchoes + 1}, {MaxLoss: 1}, {MaxLoss: -0.1}} {
		_, err := (&runner{}).newICMP(&c, loopback)
		require.Error(t, err, "%+v", c)
	}
}

// A node that may not ping knows nothing of the endpoint.
func TestAForbiddenPingSocketIsThisNodesFault(t *testing.T) {
	p := New(Config{WrapDial: func(DialFunc) DialFunc {
		return func(context.Context, string, string) (net.Conn, error) {
			return nil, &ownError{"this node may not ping", os.NewSyscallError("socket", syscall.EACCES)}
		}
	}})
	check := Check{Timeout: time.Second, ICMP: &ICMPCheck{}}
	for _, addr := range []string{"192.0.2.1", "2001:db8::1"} {
		c, err := p.newChecker(check, netip.MustParseAddr(addr))
		require.NoError(t, err)
		o := measure(t.Context(), c, &check, nil)
		require.True(t, o.unmeasured)
		require.Equal(t, ReasonOther, o.Reason)
		require.Contains(t, o.Detail, "this node may not ping")
	}
}

func FuzzParseEcho(f *testing.F) {
	good, err := (&icmp.Message{Type: ipv4.ICMPTypeEchoReply, Body: &icmp.Echo{Seq: 1, Data: make([]byte, echoNonce)}}).Marshal(nil)
	require.NoError(f, err)
	f.Add(good, false)
	f.Add([]byte{129, 0, 0, 0, 0, 0, 0, 1}, true)
	f.Fuzz(func(t *testing.T, b []byte, v6 bool) {
		e := &echoes{icmpChecker: &icmpChecker{v6: v6}}
		if seq, ok := e.parse(b); ok && (seq < 0 || seq > 0xffff) {
			t.Errorf("sequence number %d", seq)
		}
	})
}
