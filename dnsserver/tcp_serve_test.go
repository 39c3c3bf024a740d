package dnsserver

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/dnsserver/client"
	"github.com/quorate/quorate/routing"
)

// tcpService is a server whose TCP side runs one way or the other.
type tcpService struct {
	*Server
	addr string
	stop context.CancelFunc
	done chan struct{}
}

// bothTCP runs a test against the way of this system and against package net.
func bothTCP(t *testing.T, test func(t *testing.T, s tcpService)) {
	ways := map[string]func(*Server, context.Context, []*net.TCPListener){
		"system": (*Server).serveTCP,
		"net": func(s *Server, ctx context.Context, l []*net.TCPListener) {
			(&netTCP{s: s, open: map[net.Conn]struct{}{}}).serve(ctx, l)
		},
	}
	for name, serve := range ways {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp4", "127.0.0.1:0")
			require.NoError(t, err)
			ctx, stop := context.WithCancel(context.Background())
			s := tcpService{New(testConfig(testTable(t))), l.Addr().String(), stop, make(chan struct{})}
			go func() {
				defer close(s.done)
				serve(s.Server, ctx, []*net.TCPListener{l.(*net.TCPListener)})
			}()
			t.Cleanup(func() {
				stop()
				<-s.done
			})
			test(t, s)
		})
	}
}

// emptied waits until the server has no connection.
func (s tcpService) emptied(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { return s.conns.open.Load() == 0 }, 5*time.Second, time.Millisecond)
	s.conns.mu.Lock()
	defer s.conns.mu.Unlock()
	require.Empty(t, s.conns.byPrefix)
}

func TestTCPAnswersInOrder(t *testing.T) {
	bothTCP(t, func(t *testing.T, s tcpService) {
		c := dialTCP(t, s.addr, "127.0.0.1")
		for _, n := range []int{1, 3, 5000} {
			exchange(t, c, n)
		}
	})
}

func TestTCPAnswersFromWhatIsPublished(t *testing.T) {
	bothTCP(t, func(t *testing.T, s tcpService) {
		st := testState()
		st.Services["web"].Rotation.V4.Shares[0].Endpoints = ips("192.0.2.99")
		st.Services["web"].Rotation.V4.Shares = st.Services["web"].Rotation.V4.Shares[:1]
		table, err := routing.Update(nil, st, routing.Local{})
		require.NoError(t, err)
		s.Publish(table)
		reply, err := client.Query(t.Context(), s.addr, "web."+zone, "A", client.Options{TCP: true})
		require.NoError(t, err)
		require.Equal(t, ips("192.0.2.99"), reply.Addresses)
	})
}

func TestTCPAnswersAQueryThatComesByOctets(t *testing.T) {
	bothTCP(t, func(t *testing.T, s tcpService) {
		c := dialTCP(t, s.addr, "127.0.0.1")
		require.NoError(t, c.SetNoDelay(true))
		for _, octet := range numbered(t, 2) {
			_, err := c.Write([]byte{octet})
			require.NoError(t, err)
		}
		answers(t, c, 2)
	})
}

func TestTCPAnswersAHalfClosedConnection(t *testing.T) {
	bothTCP(t, func(t *testing.T, s tcpService) {
		c := dialTCP(t, s.addr, "127.0.0.1")
		_, err := c.Write(numbered(t, 300))
		require.NoError(t, err)
		require.NoError(t, c.CloseWrite())
		answers(t, c, 300)
		_, err = c.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
		s.emptied(t)
	})
}

func TestTCPForgetsAConnectionThatIsReset(t *testing.T) {
	bothTCP(t, func(t *testing.T, s tcpService) {
		for _, sent := range []int{0, 1, 9, 31} { // nothing, and parts of messages
			c := dialTCP(t, s.addr, "127.0.0.1")
			_, err := c.Write(numbered(t, 2)[:sent])
			require.NoError(t, err)
			require.NoError(t, c.SetLinger(0))
			require.NoError(t, c.Close())
		}
		s.emptied(t)
		exchange(t, dialTCP(t, s.addr, "127.0.0.1"), 1)
	})
}

// A client that asks and never reads costs what one connection may, and holds up
// nobody.
func TestTCPGoesOnBesideAClientThatNeverReads(t *testing.T) {
	bothTCP(t, func(t *testing.T, s tcpService) {
		deaf := dialTCP(t, s.addr, "127.0.0.1")
		many := numbered(t, 60000)
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			for { // until the server has had enough
				if _, err := deaf.Write(many); err != nil {
					return
				}
			}
		}()
		exchange(t, dialTCP(t, s.addr, "127.0.0.1"), 1000)
		<-gone
		s.othersGone(t)
	})
}

// othersGone waits until only the test's other connection is left.
func (s tcpService) othersGone(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { return s.conns.open.Load() <= 1 }, 5*time.Second, time.Millisecond)
}

// What has come when the server stops is answered; nobody waits for what may come.
func TestTCPAnswersWhatIsInFlightAtTheEnd(t *testing.T) {
	bothTCP(t, func(t *testing.T, s tcpService) {
		idle := dialTCP(t, s.addr, "127.0.0.1")
		exchange(t, idle, 1)
		var conns []*net.TCPConn
		for range 20 {
			conns = append(conns, dialTCP(t, s.addr, "127.0.0.1"))
			exchange(t, conns[len(conns)-1], 1) // it was accepted
		}
		for _, c := range conns {
			_, err := c.Write(numbered(t, 100))
			require.NoError(t, err)
		}
		s.stop()
		for i, c := range conns {
			if i%2 == 0 {
				answers(t, c, 100)
				_, err := c.Read(make([]byte, 1))
				require.ErrorIs(t, err, io.EOF)
			}
		}
		select {
		case <-s.done:
		case <-time.After(5 * time.Second):
			t.Fatal("the server does not end")
		}
	})
}

// 10,000 clients that connect and say nothing, from many networks: they get all
// connections there are, and neither UDP nor who asks over TCP is kept out.
func TestTCPAnswersBesideTenThousandSilentConnections(t *testing.T) {
	const silent, dialers = 10000, 20
	s := start(t, testConfig(testTable(t)), "127.0.0.1:0")
	server := s.Addrs()[0].String()
	conns := make([]net.Conn, silent)
	var wg sync.WaitGroup
	for d := range dialers {
		wg.Go(func() {
			for i := d; i < silent; i += dialers {
				conns[i] = dialTCP(t, server, fmt.Sprintf("127.1.%d.1", i%200))
			}
		})
	}
	for range 20 {
		exchange(t, dialTCP(t, server, "127.0.0.1"), 3)
		require.False(t, query(t, server, "web.gslb.test.", "A", client.Options{}).TCP)
	}
	wg.Wait()
	require.LessOrEqual(t, s.conns.open.Load(), int64(maxTCP))
	exchange(t, dialTCP(t, server, "127.0.0.1"), 3)
}
