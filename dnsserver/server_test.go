package dnsserver

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/dnsserver/client"
	"github.com/quorate/quorate/routing"
)

func query(t *testing.T, server, name, qtype string, opts client.Options) *client.Reply {
	t.Helper()
	opts.Timeout = 5 * time.Second
	r, err := client.Query(t.Context(), server, name, qtype, opts)
	require.NoError(t, err)
	return r
}

func TestUDPAndTCPAnswerOnOnePort(t *testing.T) {
	s := start(t, testConfig(testTable(t)), "127.0.0.1:0")
	server := s.Addrs()[0].String()
	udp := query(t, server, "web.gslb.test", "A", client.Options{NSID: true})
	require.Equal(t, ips("192.0.2.1"), udp.Addresses)
	require.Equal(t, "NOERROR", udp.Rcode)
	require.Equal(t, 20*time.Second, udp.TTL)
	require.Equal(t, "eu-1", udp.NSID)
	require.False(t, udp.TCP)
	tcp := query(t, server, "web.gslb.test", "A", client.Options{TCP: true})
	require.Equal(t, udp.Addresses, tcp.Addresses)
	require.True(t, tcp.TCP)
}

func TestATruncatedAnswerComesOverTCP(t *testing.T) {
	s := start(t, testConfig(testTable(t)), "127.0.0.1:0")
	r := query(t, s.Addrs()[0].String(), "big.gslb.test.", "A", client.Options{NoEDNS: true})
	require.Len(t, r.Addresses, 60)
	require.True(t, r.TCP)
}

// TestTheReplyLeavesFromTheAddressAsked: a connected socket takes no packet from
// another address, so an answer proves its source (miekg/dns #95).
func TestTheReplyLeavesFromTheAddressAsked(t *testing.T) {
	s := start(t, testConfig(testTable(t)), "0.0.0.0:0")
	port := s.Addrs()[0].Port()
	for _, host := range []string{"127.0.0.1", "127.0.0.2", "127.1.2.3"} {
		t.Run(host, func(t *testing.T) {
			if l, err := net.Listen("tcp4", host+":0"); err != nil {
				t.Skipf("the host has no %s: %v", host, err)
			} else {
				require.NoError(t, l.Close())
			}
			r := query(t, fmt.Sprintf("%s:%d", host, port), "web.gslb.test.", "A", client.Options{})
			require.Equal(t, ips("192.0.2.1"), r.Addresses)
		})
	}
}

func TestTheReplyLeavesFromTheAddressAskedV6(t *testing.T) {
	l, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Skipf("the host has no IPv6: %v", err)
	}
	require.NoError(t, l.Close())
	s := start(t, testConfig(testTable(t)), "[::]:0")
	r := query(t, fmt.Sprintf("[::1]:%d", s.Addrs()[0].Port()), "web.gslb.test.", "A", client.Options{})
	require.Equal(t, ips("192.0.2.1"), r.Addresses)
}

func TestBothWildcardsByHandAndByColon(t *testing.T) {
	got, err := listenAddrs([]string{":5353"})
	require.NoError(t, err)
	require.Equal(t, []address{{AddrPort: netip.MustParseAddrPort("0.0.0.0:5353")}, {netip.MustParseAddrPort("[::]:5353"), true}}, got)
	_, err = listenAddrs([]string{"localhost:53"})
	require.EqualError(t, err, `listen "localhost:53": must be IP:PORT`)
}

func TestABindErrorIsOneClearLine(t *testing.T) {
	tcp, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer tcp.Close() //nolint:errcheck // a test's
	s := New(Config{Listen: []string{"127.0.0.1:0", tcp.Addr().String()}})
	require.EqualError(t, s.Run(t.Context()), "listen tcp "+tcp.Addr().String()+": address already in use")
	require.Empty(t, s.Addrs(), "none is kept when one is missing")

	udp := udpOnly(t)
	s = New(Config{Listen: []string{udp.LocalAddr().String()}})
	require.EqualError(t, s.Bind(), "listen udp "+udp.LocalAddr().String()+": address already in use")
}

// udpOnly binds a UDP port that is free for TCP, so that only UDP can be in the way.
func udpOnly(t *testing.T) net.PacketConn {
	t.Helper()
	for {
		udp, err := net.ListenPacket("udp4", "127.0.0.1:0")
		require.NoError(t, err)
		t.Cleanup(func() { _ = udp.Close() })
		if tcp, err := net.Listen("tcp4", udp.LocalAddr().String()); err == nil {
			require.NoError(t, tcp.Close())
			return udp
		}
	}
}

func TestTwoServersDoNotShareAPort(t *testing.T) {
	s := start(t, testConfig(testTable(t)), "127.0.0.1:0")
	err := New(Config{Listen: []string{s.Addrs()[0].String()}}).Bind()
	require.ErrorContains(t, err, "address already in use")
}

func TestListeningNowhereWaitsForTheEnd(t *testing.T) {
	s := New(Config{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, s.Run(ctx))
	require.Empty(t, s.Addrs())
}

// TestG5AnswersWithoutQuorum: a node that has heard no leader for a year answers on.
func TestG5AnswersWithoutQuorum(t *testing.T) {
	cfg := testConfig(testTable(t))
	cfg.Age = func() time.Duration { return 365 * 24 * time.Hour }
	s := start(t, cfg, "127.0.0.1:0")
	for _, name := range []string{"web.gslb.test.", "db.gslb.test.", "www.gslb.test."} {
		r := query(t, s.Addrs()[0].String(), name, "A", client.Options{})
		require.Equal(t, "NOERROR", r.Rcode)
		require.NotEmpty(t, r.Addresses)
		require.True(t, r.Stale)
	}
}

func TestATableSwapNeverGivesAnEmptyAnswer(t *testing.T) {
	var table atomic.Pointer[routing.Table]
	table.Store(testTable(t))
	cfg := testConfig(nil)
	cfg.Table = table.Load
	s := start(t, cfg, "127.0.0.1:0")
	c, err := client.Dial(t.Context(), s.Addrs()[0].String())
	require.NoError(t, err)
	defer c.Close() //nolint:errcheck // a test's
	seen := map[string]bool{}
	for i := range 200 {
		st := testState()
		st.TableIndex += uint64(i)
		if i%2 == 1 {
			web := st.Services["web"]
			web.Rotation.Number, web.Rotation.V4.Shares = 2, web.Rotation.V4.Shares[1:]
		}
		next, err := routing.Update(table.Load(), st, routing.Local{})
		require.NoError(t, err)
		table.Store(next)
		r, err := c.Query(t.Context(), "web.gslb.test.", "A", client.Options{})
		require.NoError(t, err)
		require.Len(t, r.Addresses, 1)
		seen[r.Addresses[0].String()] = true
	}
	require.Len(t, seen, 2)
}

func TestAPanicDoesNotEndTheServer(t *testing.T) {
	var bad atomic.Bool
	bad.Store(true)
	cfg := testConfig(testTable(t))
	cfg.Draw = func() uint64 {
		if bad.Load() {
			panic("planted")
		}
		return 0
	}
	s := start(t, cfg, "127.0.0.1:0")
	server := s.Addrs()[0].String()
	for _, tcp := range []bool{false, true} {
		require.Equal(t, "SERVFAIL", query(t, server, "web.gslb.test.", "A", client.Options{TCP: tcp}).Rcode)
	}
	bad.Store(false)
	for _, tcp := range []bool{false, true} {
		require.Equal(t, "NOERROR", query(t, server, "web.gslb.test.", "A", client.Options{TCP: tcp}).Rcode)
	}
	require.EqualValues(t, 2, counted(t, s.metrics.panics))
}

func TestAFloodStartsNoGoroutines(t *testing.T) {
	s := start(t, testConfig(testTable(t)), "127.0.0.1:0")
	server := s.Addrs()[0].String()
	query(t, server, "web.gslb.test.", "A", client.Options{})
	before := runtime.NumGoroutine()
	c, err := net.Dial("udp4", server)
	require.NoError(t, err)
	defer c.Close() //nolint:errcheck // a test's
	wire, err := newQuery("web.gslb.test.", dns.TypeA).Pack()
	require.NoError(t, err)
	most := 0
	for i := range 20000 {
		_, err := c.Write(wire)
		require.NoError(t, err)
		if i%100 == 0 {
			most = max(most, runtime.NumGoroutine())
		}
	}
	require.Less(t, most, before+10, "a few of the server's own may have started late")
	require.Eventually(t, func() bool { // the first ones may find the queue full
		r, err := client.Query(t.Context(), server, "web.gslb.test.", "A", client.Options{Timeout: 200 * time.Millisecond})
		return err == nil && r.Rcode == "NOERROR"
	}, 10*time.Second, time.Millisecond)
}

func TestPipelinedQueriesAreAnsweredInOrder(t *testing.T) {
	s := start(t, testConfig(testTable(t)), "127.0.0.1:0")
	c, err := net.Dial("tcp4", s.Addrs()[0].String())
	require.NoError(t, err)
	defer c.Close() //nolint:errcheck // a test's
	require.NoError(t, c.SetDeadline(time.Now().Add(5*time.Second)))
	const n = 50
	var out []byte
	for i := range n {
		q := newQuery("web.gslb.test.", dns.TypeA)
		q.Id = uint16(i)
		wire, err := q.Pack()
		require.NoError(t, err)
		out = append(binary.BigEndian.AppendUint16(out, uint16(len(wire))), wire...)
	}
	// All but the last octet: the answers to whole queries must not wait for it.
	_, err = c.Write(out[:len(out)-1])
	require.NoError(t, err)
	for i := range n {
		if i == n-1 {
			_, err = c.Write(out[len(out)-1:])
			require.NoError(t, err)
		}
		m := readTCP(t, c)
		require.EqualValues(t, i, m.Id)
		require.Len(t, m.Answer, 1)
	}
}

func readTCP(t *testing.T, c io.Reader) *dns.Msg {
	t.Helper()
	var prefix [2]byte
	_, err := io.ReadFull(c, prefix[:])
	require.NoError(t, err)
	buf := make([]byte, binary.BigEndian.Uint16(prefix[:]))
	_, err = io.ReadFull(c, buf)
	require.NoError(t, err)
	m := new(dns.Msg)
	require.NoError(t, m.Unpack(buf))
	return m
}
