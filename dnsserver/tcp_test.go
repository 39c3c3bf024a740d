package dnsserver

import (
	"io"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/dnsserver/client"
)

// closedAfter serves one end of a pipe, hands the other to what the client does,
// and returns how long it took until the server closed it.
func closedAfter(t *testing.T, s *Server, does func(c net.Conn)) time.Duration {
	t.Helper()
	ours, theirs := net.Pipe()
	start := time.Now()
	var took time.Duration
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.serveConn(ours, someClient)
		took = time.Since(start)
		_ = ours.Close()
	}()
	acted := make(chan struct{})
	go func() {
		defer close(acted)
		does(theirs)
	}()
	<-done
	_ = theirs.Close()
	<-acted
	return took
}

func TestTCPDeadlines(t *testing.T) {
	wire, err := newQuery("web.gslb.test.", dns.TypeA).Pack()
	require.NoError(t, err)
	framed := append([]byte{0, byte(len(wire))}, wire...)
	slow := func(c net.Conn) { // an octet a second
		for _, b := range framed {
			if _, err := c.Write([]byte{b}); err != nil {
				return
			}
			time.Sleep(time.Second)
		}
	}
	tests := []struct {
		name string
		max  int
		does func(net.Conn)
		want time.Duration
	}{
		{"an idle one is closed after 10 s", 100, func(net.Conn) {}, tcpIdle},
		{"under pressure after 2 s", 1, func(net.Conn) {}, tcpIdleFull},
		{"an octet a second is closed after 2 s", 100, slow, tcpMessage},
		{"one that never reads is closed after 2 s", 100, func(c net.Conn) { _, _ = c.Write(framed) }, tcpMessage},
		{"a response ends it", 100, func(c net.Conn) {
			bad := append([]byte(nil), framed...)
			bad[4] |= 0x80
			_, _ = c.Write(bad)
		}, 0},
		{"an impossible length ends it", 100, func(c net.Conn) { _, _ = c.Write([]byte{0xff, 0xff}) }, 0},
		{"idle counts from the last answer", 100, func(c net.Conn) {
			time.Sleep(5 * time.Second)
			_, _ = c.Write(framed)
			_, _ = io.ReadFull(c, make([]byte, 2+16+len(wire)))
		}, 5*time.Second + tcpIdle},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := testConfig(testTable(t))
				cfg.MaxTCP = tt.max
				s := New(cfg)
				a, b := net.Pipe()
				release, _ := s.conns.take(a, someClient.Addr())
				defer release()
				defer b.Close() //nolint:errcheck // a test's
				require.Equal(t, tt.want, closedAfter(t, s, tt.does))
			})
		})
	}
}

func TestConnectionLimits(t *testing.T) {
	cs := newConnections(4, 2)
	take := func(addr string) (func(), string) {
		a, _ := net.Pipe()
		return cs.take(a, netip.MustParseAddr(addr))
	}
	first, _ := take("192.0.2.1")
	_, _ = take("192.0.2.200")
	release, why := take("::ffff:192.0.2.3")
	require.Nil(t, release)
	require.Equal(t, "prefix", why, "a /24 counts as one client, mapped or not")
	_, _ = take("2001:db8:0:aa00::1")
	_, _ = take("2001:db8:0:aaff::1")
	release, why = take("198.51.100.1")
	require.Nil(t, release)
	require.Equal(t, "full", why)
	require.True(t, cs.pressed())
	first()
	release, why = take("2001:db8:0:aa11::1")
	require.Nil(t, release)
	require.Equal(t, "prefix", why, "a /56 counts as one client")
	release, _ = take("198.51.100.1")
	require.NotNil(t, release)
}

func TestAConnectionAboveTheLimitIsClosedAndUDPGoesOn(t *testing.T) {
	cfg := testConfig(testTable(t))
	cfg.MaxTCPPerPrefix = 1
	s := start(t, cfg, "127.0.0.1:0")
	server := s.Addrs()[0].String()
	first, err := net.Dial("tcp4", server)
	require.NoError(t, err)
	defer first.Close() //nolint:errcheck // a test's
	_, err = first.Write([]byte{0})
	require.NoError(t, err)
	second, err := net.Dial("tcp4", server)
	require.NoError(t, err)
	defer second.Close() //nolint:errcheck // a test's
	require.NoError(t, second.SetDeadline(time.Now().Add(time.Second)))
	_, err = second.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, "NOERROR", query(t, server, "web.gslb.test.", "A", client.Options{}).Rcode)
}
