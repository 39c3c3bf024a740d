//go:build integration

package cluster

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"
)

// What a flood may do to legal queries. One that the kernel's full queue drops is
// asked again by every resolver; more than a few would be a service that is down.
const (
	legalP99  = 50 * time.Millisecond
	legalLost = 0.001 // of them

	// legalWindow is over what the 99th percentile is taken.
	legalWindow = 2 * time.Second
)

// legal is one client that asks one node at a steady rate over UDP, answered or not. It
// times from handing a query to the kernel to the kernel's having the answer: how late a
// busy machine lets the client run is not the node's delay.
type legal struct {
	node    string
	conn    *net.UDPConn
	rate    int
	allowed []netip.Addr

	mu      sync.Mutex // guards what follows
	sent    []time.Time
	took    []time.Duration // by query; negative: no answer
	begun   time.Time
	wrong   []string
	running sync.WaitGroup
	stop    context.CancelFunc
}

// askLegally starts a client.
func askLegally(t *testing.T, from *host, node, server string, rate int, allowed ...netip.Addr) *legal {
	t.Helper()
	l := &legal{node: node, rate: rate, allowed: allowed, begun: time.Now()}
	require.NoError(t, from.inside(func() error {
		c, err := net.Dial("udp", server)
		if err != nil {
			return err
		}
		l.conn = c.(*net.UDPConn)
		raw, err := l.conn.SyscallConn()
		if err != nil {
			return err
		}
		cerr := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1) })
		return errors.Join(cerr, err)
	}))
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	l.running.Go(func() { l.ask(ctx) })
	l.running.Go(func() { l.hear() })
	t.Cleanup(l.end)
	return l
}

// end stops asking, and waits for the last answers.
func (l *legal) end() {
	if l.stop == nil {
		return
	}
	l.stop()
	_ = l.conn.SetReadDeadline(time.Now().Add(queryTimeout))
	l.running.Wait()
	_ = l.conn.Close()
	l.stop = nil
}

func (l *legal) ask(ctx context.Context) {
	q := dnsmessage.Message{Questions: []dnsmessage.Question{{
		Name: dnsmessage.MustNewName(webName + "."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET,
	}}}
	wire, err := q.Pack()
	if err != nil {
		panic(err) // the name is ours
	}
	every := time.Second / time.Duration(l.rate)
	for next := time.Now(); ; next = next.Add(every) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(next)):
		}
		l.mu.Lock()
		binary.BigEndian.PutUint16(wire, uint16(len(l.sent)))
		l.sent = append(l.sent, time.Now())
		l.took = append(l.took, -1)
		l.mu.Unlock()
		_, _ = l.conn.Write(wire) // refused while nobody is there: it has no answer
	}
}

func (l *legal) hear() {
	buf, control := make([]byte, 1500), make([]byte, 64)
	for {
		n, nc, _, _, err := l.conn.ReadMsgUDPAddrPort(buf, control)
		var m dnsmessage.Message
		switch {
		case err == nil:
		case isTimeout(err):
			return
		default:
			continue // refused
		}
		if err := m.Unpack(buf[:n]); err != nil {
			l.complain("%v", err)
			continue
		}
		l.heard(m, stamp(control[:nc]))
	}
}

// stamp is when the kernel had a datagram, from what came with it.
func stamp(control []byte) time.Time {
	if len(control) < unix.SizeofCmsghdr+16 {
		return time.Now()
	}
	// A timespec: seconds and nanoseconds, words each.
	at := control[unix.SizeofCmsghdr:]
	return time.Unix(int64(binary.NativeEndian.Uint64(at)), int64(binary.NativeEndian.Uint64(at[8:])))
}

func isTimeout(err error) bool {
	e, ok := err.(net.Error)
	return ok && e.Timeout()
}

func (l *legal) heard(m dnsmessage.Message, now time.Time) {
	l.mu.Lock()
	// Ids are the last 16 bits of the query's number.
	at := len(l.sent) - 1 - int(uint16(len(l.sent)-1)-m.ID)
	if at >= 0 && l.took[at] < 0 {
		l.took[at] = max(0, now.Round(0).Sub(l.sent[at].Round(0))) // both by the wall clock
	}
	l.mu.Unlock()
	if m.RCode != dnsmessage.RCodeSuccess || len(m.Answers) == 0 {
		l.complain("answers %s with %d records", m.RCode, len(m.Answers))
	}
	for _, r := range m.Answers {
		if a, ok := r.Body.(*dnsmessage.AResource); !ok || !slices.Contains(l.allowed, netip.AddrFrom4(a.A)) {
			l.complain("answers %v", r.Body)
		}
	}
}

func (l *legal) complain(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wrong = append(l.wrong, l.node+" "+fmt.Sprintf(format, args...))
}

// legalSum is what a client saw.
type legalSum struct {
	asked, lost int
	p99, worst  time.Duration // of the worst window; of all
}

// judge says how it went, and what of it must not be. It ends the client.
func (l *legal) judge() (legalSum, []string) {
	l.end()
	l.mu.Lock()
	defer l.mu.Unlock()
	s := legalSum{asked: len(l.took)}
	problems := slices.Clone(l.wrong[:min(len(l.wrong), 3)])
	size := max(1, int(legalWindow.Seconds()*float64(l.rate)))
	for window := range slices.Chunk(l.took, size) {
		answered := slices.DeleteFunc(slices.Clone(window), func(d time.Duration) bool { return d < 0 })
		s.lost += len(window) - len(answered)
		if len(answered) == 0 || len(window) < size {
			continue // the last one is short
		}
		slices.Sort(answered)
		s.p99 = max(s.p99, answered[len(answered)*99/100])
		s.worst = max(s.worst, answered[len(answered)-1])
	}
	if s.p99 > legalP99 {
		problems = append(problems, fmt.Sprintf("%s: the 99th percentile of a window is %s, must be at most %s", l.node, s.p99, legalP99))
	}
	if float64(s.lost) > legalLost*float64(s.asked) {
		problems = append(problems, fmt.Sprintf("%s: %d of %d legal queries have no answer", l.node, s.lost, s.asked))
	}
	return s, problems
}
