//go:build integration

package cluster

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"
)

// liar is a DNS server that answers whatever it is told to.
type liar struct {
	conn   *net.UDPConn
	answer atomic.Pointer[netip.Addr] // nil: an empty answer
	mute   atomic.Bool
	late   atomic.Int64 // nanoseconds
	loses  atomic.Int64 // one query of so many; 0: none
	done   chan struct{}
}

func newLiar(t *testing.T, h *host) *liar {
	t.Helper()
	l := &liar{done: make(chan struct{})}
	require.NoError(t, h.inside(func() (err error) {
		l.conn, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(h.addr, dnsPort)))
		return err
	}))
	go l.serve(t)
	t.Cleanup(func() {
		_ = l.conn.Close() // ends serve
		<-l.done
	})
	return l
}

func (l *liar) serve(t *testing.T) {
	defer close(l.done)
	buf := make([]byte, 1500)
	var answering sync.WaitGroup
	defer answering.Wait()
	for heard := int64(1); ; heard++ {
		n, from, err := l.conn.ReadFromUDPAddrPort(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		var q dnsmessage.Message
		if err := q.Unpack(buf[:n]); err != nil || l.mute.Load() {
			continue
		}
		if loses := l.loses.Load(); loses > 0 && heard%loses == 0 {
			continue
		}
		m := dnsmessage.Message{Header: dnsmessage.Header{ID: q.ID, Response: true, Authoritative: true}, Questions: q.Questions}
		if addr := l.answer.Load(); addr != nil {
			m.Answers = []dnsmessage.Resource{{
				Header: dnsmessage.ResourceHeader{Name: q.Questions[0].Name, Class: dnsmessage.ClassINET, TTL: 5},
				Body:   &dnsmessage.AResource{A: addr.As4()},
			}}
		}
		wire, err := m.Pack()
		if err != nil {
			t.Errorf("liar: %v", err)
			return
		}
		late := time.Duration(l.late.Load())
		answering.Go(func() {
			<-time.After(late)
			_, _ = l.conn.WriteToUDPAddrPort(wire, from) // the client may be gone
		})
	}
}

// A check that nobody has seen fail is no check: each kind of bad answer is
// planted once, and must be found.
func TestTheCheckerFindsPlantedAnswers(t *testing.T) {
	right, other := netip.MustParseAddr("10.77.0.21"), netip.MustParseAddr("10.77.0.22")
	tests := []struct {
		name  string
		plant func(o *observation, l *liar)
		want  string // part of what is found; empty: nothing is
	}{
		{"right answers pass", func(*observation, *liar) {}, ""},
		{"an address never committed is wrong", func(_ *observation, l *liar) { l.answer.Store(&other) }, "10.77.0.22] was not committed"},
		{"an address is wrong once it was replaced", func(o *observation, _ *liar) { o.truth.Commit([]netip.Addr{other}, time.Now()) }, "10.77.0.21] was not committed"},
		{"an answer without an address is empty", func(_ *observation, l *liar) { l.answer.Store(nil) }, "NOERROR with 0 addresses"},
		{"silence is missing", func(_ *observation, l *liar) { l.mute.Store(true) }, "no answer"},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			server, clientHost := w.addHost("liar", "10.77.0.11"), w.addHost("client", "10.77.0.100")
			l := newLiar(t, server)
			l.answer.Store(&right)
			addr := netip.AddrPortFrom(server.addr, dnsPort).String()
			eventually(t, settle, "the new network carries packets", func(ctx context.Context) error {
				_, err := askFrom(ctx, clientHost, addr, 100*time.Millisecond)
				return err
			})
			o := newObservation(t, clientHost, map[string]string{"liar": addr})
			o.truth.Commit([]netip.Addr{right}, time.Now())
			o.begin()
			pause(t, time.Second)
			tt.plant(o, l)
			pause(t, grace+queryTimeout)
			found := o.end("PLANTED", tt.name)
			if tt.want == "" {
				require.Empty(t, found)
				return
			}
			require.NotEmpty(t, found, "case %d: the planted answer was not found", i)
			require.Contains(t, found[0], tt.want)
		})
	}
}

// pause lets traffic flow for d.
func pause(t *testing.T, d time.Duration) {
	t.Helper()
	stays(t, d, "the test goes on", func(ctx context.Context) error { return ctx.Err() })
}
