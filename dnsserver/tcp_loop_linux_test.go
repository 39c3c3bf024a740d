package dnsserver

import (
	"bytes"
	"encoding/binary"
	"net"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// driven is a loop whose turns and clock the test makes.
type driven struct{ *tcpLoop }

func drive(t *testing.T, max int) driven {
	t.Helper()
	cfg := testConfig(testTable(t))
	cfg.MaxTCP = max
	l, err := newTCPLoop(New(cfg), nil)
	require.NoError(t, err)
	t.Cleanup(l.close)
	return driven{l}
}

// connect opens a connection and returns its client's side.
func (d driven) connect(t *testing.T) int {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
	require.NoError(t, err)
	require.NoError(t, unix.SetsockoptInt(pair[1], unix.SOL_SOCKET, unix.SO_SNDBUF, 1)) // as little as there is
	t.Cleanup(func() { _ = unix.Close(pair[0]) })
	d.worker.begin(d.s.current(), 0)
	d.open(pair[1], someClient)
	return pair[0]
}

// next makes a turn at a time.
func (d driven) next(at time.Duration) {
	d.now = at
	d.turn(d.wait(0))
}

func TestTCPLoopDeadlines(t *testing.T) {
	const tick = 50 * time.Millisecond
	for _, tt := range tcpCases(t) {
		t.Run(tt.name, func(t *testing.T) {
			d := drive(t, tt.max)
			fd := d.connect(t)
			steps, buf := tt.steps, make([]byte, 4096)
			for at := time.Duration(0); d.s.conns.open.Load() > 0; at += tick {
				require.Less(t, at, time.Minute)
				for len(steps) > 0 && steps[0].at <= at {
					_, _ = unix.Write(fd, steps[0].send) // it may be closed by now
					steps = steps[1:]
				}
				for tt.reads {
					if n, err := unix.Read(fd, buf); n <= 0 || err != nil {
						break
					}
				}
				d.next(at)
			}
			require.Equal(t, tt.want, d.now)
		})
	}
}

// The time until something expires is what the loop sleeps: no longer, or it would be
// late, and for ever when there is nothing.
func TestTCPLoopSleepsUntilSomethingExpires(t *testing.T) {
	d := drive(t, 100)
	require.Negative(t, d.untilNext())
	d.connect(t)
	require.Equal(t, 10*time.Second, d.untilNext())
	fd := d.connect(t)
	_, err := unix.Write(fd, []byte{0})
	require.NoError(t, err)
	d.next(time.Second)
	require.Equal(t, 2*time.Second, d.untilNext())
	d.now = 2500 * time.Millisecond
	require.Equal(t, 500*time.Millisecond, d.untilNext())
	d.pause()
	require.Equal(t, acceptPause, d.untilNext())
	d.next(3 * time.Second)
	require.Equal(t, 7*time.Second, d.untilNext())
}

// tcpClient is the client's side of a driven loop's connection: it sends numbered queries
// as far as the socket takes them, and takes answers only when it is told to.
type tcpClient struct {
	fd         int
	unsent     []byte
	sent, read []byte
}

func (c *tcpClient) send() {
	if n, _ := unix.Write(c.fd, c.unsent); n > 0 {
		c.sent = append(c.sent, c.unsent[:n]...)
		c.unsent = c.unsent[n:]
	}
}

// take reads what there is and reports whether that was anything.
func (c *tcpClient) take() bool {
	buf := make([]byte, 1<<16)
	n, _ := unix.Read(c.fd, buf)
	c.read = append(c.read, buf[:max(n, 0)]...)
	return n > 0
}

// answered requires that every whole query that was sent has its answer, in order.
func (c *tcpClient) answered(t *testing.T, size int) {
	t.Helper()
	queries, r := len(c.sent)/size, bytes.NewReader(c.read)
	require.Positive(t, queries)
	for id := range queries {
		require.Equal(t, uint16(id), readAnswer(t, r).Id)
	}
	require.Zero(t, r.Len())
}

// bigQueries are numbered queries whose answers are long.
func bigQueries(t *testing.T, n int) (all []byte, size int) {
	t.Helper()
	one := framed(t, newQuery("big.gslb.test.", dns.TypeA))
	for id := range n {
		binary.BigEndian.PutUint16(one[prefixSize:], uint16(id))
		all = append(all, one...)
	}
	return all, len(one)
}

// What a connection makes the loop keep is bounded, whatever its client does, and
// nothing of it is lost.
func TestTCPLoopKeepsLittleForAClientThatNeverReads(t *testing.T) {
	d := drive(t, 100)
	queries, size := bigQueries(t, 5000)
	cl := &tcpClient{fd: d.connect(t), unsent: queries}
	for at := range 100 {
		cl.send()
		d.next(time.Duration(at))
	}
	c := &d.conns[0]
	require.NotEmpty(t, c.out)
	require.LessOrEqual(t, len(c.out), tcpFlush+dns.MaxMsgSize)
	require.LessOrEqual(t, len(c.in), tcpRead+maxTCPQuery+prefixSize)
	for cl.take() || len(c.out) > 0 { // it reads after all: everything goes on where it stopped
		d.next(time.Second)
	}
	cl.answered(t, size)
	require.EqualValues(t, 1, d.s.conns.open.Load())
}

// At the end the loop answers what has come, and stays for clients that do not take
// their answers at once, as long as they may take.
func TestTCPLoopEndsWithoutLosingAnswers(t *testing.T) {
	d := drive(t, 100)
	queries, size := bigQueries(t, 3)
	quick := &tcpClient{fd: d.connect(t), unsent: queries}
	quick.send() // the loop has not looked yet
	queries, _ = bigQueries(t, 300)
	slow, deaf := &tcpClient{fd: d.connect(t), unsent: queries}, &tcpClient{fd: d.connect(t), unsent: queries}
	slow.send()
	deaf.send()
	idle := d.connect(t)
	d.now = time.Second
	d.end()
	require.False(t, d.done())
	n, err := unix.Read(idle, make([]byte, 1))
	require.NoError(t, err)
	require.Zero(t, n, "an idle one is closed at once")
	for quick.take() || slow.take() {
		d.next(time.Second)
	}
	quick.answered(t, size)
	slow.answered(t, size)
	require.False(t, d.done(), "one has not taken its answers")
	d.next(3*time.Second - 1)
	require.False(t, d.done())
	d.next(3 * time.Second)
	require.True(t, d.done())
	require.Zero(t, d.s.conns.open.Load())
}

func TestTCPLoopMakesRoom(t *testing.T) {
	query := framed(t, newQuery("web.gslb.test.", dns.TypeA))
	d := drive(t, 3)
	asked := d.connect(t)
	_, err := unix.Write(asked, query)
	require.NoError(t, err)
	d.next(1)
	silent, late := d.connect(t), d.connect(t)
	_, err = unix.Write(silent, query) // the loop has not looked yet
	require.NoError(t, err)
	d.now = 2
	d.connect(t)
	closed := func(fd int) bool {
		for {
			n, err := unix.Read(fd, make([]byte, 4096))
			if n <= 0 {
				return err == nil
			}
		}
	}
	require.True(t, closed(late), "one that never asked makes room")
	require.False(t, closed(silent), "one whose query has come does not")
	d.now = 3
	d.connect(t) // instead of the one above
	require.False(t, closed(asked))
	d.enqueue(d.queues[waitFirst].first, waitNext) // now all have asked
	d.now = 4
	d.connect(t)
	require.True(t, closed(asked), "then the one that has been idle longest")
	require.EqualValues(t, 3, d.s.conns.open.Load())
}

// Whoever begins messages, or takes no answers, keeps nobody out either: who asked and
// waits goes first, then who has been at one message for longest.
func TestTCPLoopMakesRoomAmongTheUnfinished(t *testing.T) {
	query := framed(t, newQuery("web.gslb.test.", dns.TypeA))
	d := drive(t, 3)
	deaf := &tcpClient{fd: d.connect(t), unsent: repeat(query, 1000)}
	deaf.send()
	d.next(1)
	begun := d.connect(t)
	_, err := unix.Write(begun, query[:9])
	require.NoError(t, err)
	d.next(2)
	_, err = unix.Write(d.connect(t), query[:9])
	require.NoError(t, err)
	d.next(3)
	require.EqualValues(t, 3, d.s.conns.open.Load())
	buf := make([]byte, 4096)
	for at := range 4 {
		d.now = time.Duration(4 + at)
		fd := d.connect(t)
		require.EqualValues(t, 3, d.s.conns.open.Load())
		_, err = unix.Write(fd, query)
		require.NoError(t, err)
		d.next(d.now)
		n, err := unix.Read(fd, buf)
		require.NoError(t, err)
		require.Greater(t, n, len(query), "client %d has its answer", at)
	}
	for deaf.take() {
	}
	_, err = unix.Write(deaf.fd, query)
	require.Equal(t, unix.EPIPE, err, "closed: the oldest")
	_, err = unix.Read(begun, buf)
	require.Equal(t, unix.EAGAIN, err, "open: newer, and whoever asked in between made room")
}

// Connections are where the kernel handed them out: a loop that has none has another one
// make room.
func TestTCPLoopsMakeRoomForEachOther(t *testing.T) {
	full := drive(t, 2)
	l, err := newTCPLoop(full.s, nil)
	require.NoError(t, err)
	t.Cleanup(l.close)
	other := driven{l}
	full.peers = []*tcpLoop{full.tcpLoop, l}
	l.peers = full.peers
	full.connect(t)
	full.connect(t)
	full.next(1)
	other.connect(t)
	require.EqualValues(t, 1, l.held.Load())
	require.EqualValues(t, 3, full.s.conns.open.Load(), "for an instant")
	full.next(2)
	require.EqualValues(t, 2, full.s.conns.open.Load())
	require.EqualValues(t, 1, full.held.Load())
	require.Zero(t, full.wait(0), "it was woken up once")
	require.False(t, full.ending)
}

// An event of a turn may be of a connection that another one of it has ended, and
// whose slot is another's by now.
func TestTCPLoopDropsEventsOfAnEarlierLife(t *testing.T) {
	d := drive(t, 1)
	fd := d.connect(t)
	_, err := unix.Write(fd, []byte{0xff, 0xff})
	require.NoError(t, err)
	require.Equal(t, 1, d.wait(0))
	event := d.events[0]
	d.finish(event.Fd)
	second := d.connect(t)
	require.Equal(t, event.Fd, d.queues[waitFirst].first, "the slot is used again")
	_, err = unix.Write(second, []byte{0})
	require.NoError(t, err)
	d.event(event)
	require.Equal(t, event.Fd, d.queues[waitFirst].first, "nothing was read of the second")
}

// Ordinary queries, one by one and pipelined, are answered without an allocation.
func TestTCPLoopAllocatesNothing(t *testing.T) {
	d := drive(t, 100)
	d.s.Publish(testTable(t))
	d.s.prepare()
	fd := d.connect(t)
	one := framed(t, withEDNS(newQuery("web.gslb.test.", dns.TypeA), 1232))
	for _, queries := range [][]byte{one, repeat(one, 20)} {
		answers, buf := 0, make([]byte, 1<<16)
		allocs := testing.AllocsPerRun(200, func() {
			_, _ = unix.Write(fd, queries)
			d.next(time.Second)
			for {
				n, _ := unix.Read(fd, buf)
				if n <= 0 {
					return
				}
				answers += n
				d.next(time.Second)
			}
		})
		require.Zero(t, allocs)
		require.Greater(t, answers, 200*len(queries), "it answers")
	}
}

// The client of a connection is who connected, of either family.
func TestTCPLoopKnowsWhoConnects(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:0", "[::1]:0"} {
		t.Run(addr, func(t *testing.T) {
			ln, err := net.Listen("tcp", addr)
			if err != nil {
				t.Skipf("the host has no %s: %v", addr, err)
			}
			defer ln.Close() //nolint:errcheck // a test's
			fds, err := duplicate([]*net.TCPListener{ln.(*net.TCPListener)})
			require.NoError(t, err)
			defer unix.Close(fds[0]) //nolint:errcheck // a test's
			c, err := net.Dial("tcp", ln.Addr().String())
			require.NoError(t, err)
			defer c.Close() //nolint:errcheck // a test's
			fd, client, errno := acceptOn(fds[0])
			require.Zero(t, errno)
			closeSocket(fd)
			require.Equal(t, c.LocalAddr().(*net.TCPAddr).AddrPort(), client)
			_, _, errno = acceptOn(fds[0])
			require.Equal(t, unix.EAGAIN, errno)
		})
	}
}
