//go:build integration

package cluster

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The networks that the flooding host owns: whoever answers them reaches it. It takes
// connections of silentNet, and drops what comes for forgedNet.
const (
	floodAddr = "10.77.0.200"
	forgedNet = "10.128.0.0/9"
	silentNet = "10.64.0.0/10"
)

// floodVar holds the flood that a process of this test binary is to make.
const floodVar = "QUORATE_FLOOD"

// flood is what is sent at nodes, by a process of its own at a low priority: two cores
// carry the nodes, the legal client and the flood.
type flood struct {
	Targets []netip.Addr
	Rate    int // packets a second in all, from random addresses
	Silent  int // connections that say nothing, in all; one that was closed comes again
	Seed    uint64
}

// flooded is what was sent.
type flooded struct {
	Packets, Malformed, Unsent   uint64
	Opened, Closed, NotConnected uint64
}

// floodHost adds the host that floods come from, and the way back to it.
func (in *installation) floodHost() *host {
	in.t.Helper()
	h := in.addHost("flood", floodAddr)
	run(in.t, "ip", "-n", h.ns, "route", "add", "local", silentNet, "dev", "lo")
	for _, n := range in.nodes {
		for _, network := range []string{forgedNet, silentNet} {
			run(in.t, "ip", "-n", n.ns, "route", "add", network, "via", floodAddr)
		}
	}
	return h
}

// start floods from a host until the function it returns is called, which tells what
// was sent.
func (f flood) start(t *testing.T, from *host) (stop func() flooded) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	text, err := json.Marshal(f)
	require.NoError(t, err)
	cmd := exec.Command("ip", "netns", "exec", from.ns, "nice", "-n", "10", self, "-test.run", "^TestFloodProcess$", "-test.timeout", "10m")
	cmd.Env = append(os.Environ(), floodVar+"="+string(text), "GOMAXPROCS=2")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var ended sync.Once
	end := func() (said []byte) {
		ended.Do(func() {
			_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
			said, _ = io.ReadAll(out)
			_ = cmd.Wait()
		})
		return said
	}
	t.Cleanup(func() { end() })
	return func() flooded {
		said := string(end())
		line, _, _ := strings.Cut(said, "\n")
		var sent flooded
		require.NoError(t, json.Unmarshal([]byte(line), &sent), "the flood says %q", said)
		return sent
	}
}

// TestFloodProcess is the flooding process. By itself it does nothing.
func TestFloodProcess(t *testing.T) {
	text := os.Getenv(floodVar)
	if text == "" {
		t.Skip("it is run by scenarios")
	}
	var f flood
	require.NoError(t, json.Unmarshal([]byte(text), &f))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var sent flooded
	var wg sync.WaitGroup
	wg.Go(func() { f.packets(ctx, &sent) })
	for i := range f.Silent {
		wg.Go(func() { f.silent(ctx, i, &sent) })
	}
	wg.Wait()
	line, err := json.Marshal(sent)
	require.NoError(t, err)
	fmt.Println(string(line))
}

// packets sends datagrams with forged sources at the rate, a millisecond's together.
func (f flood) packets(ctx context.Context, sent *flooded) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		fmt.Fprintln(os.Stderr, "raw socket:", err)
		return
	}
	defer func() { _ = unix.Close(fd) }()
	rng := rand.New(rand.NewPCG(f.Seed, 1))
	begun, due := time.Now(), 0
	for tick := time.NewTicker(time.Millisecond); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
		}
		// What a pause of the machine kept from being sent is not made up for at once.
		want := int(time.Since(begun).Seconds() * float64(f.Rate))
		due = max(due, want-f.Rate/20)
		for ; due < want; due++ {
			to := f.Targets[rng.IntN(len(f.Targets))]
			query := randomQuery(rng)
			if rng.IntN(10) < 3 {
				query = malformed(rng, query)
				sent.Malformed++
			}
			if err := unix.Sendto(fd, forged(rng, to, query), 0, &unix.SockaddrInet4{Addr: to.As4()}); err != nil {
				sent.Unsent++
			}
			sent.Packets++
		}
	}
}

// forged is a UDP datagram to a node with its IPv4 header, whose source is anybody.
func forged(rng *rand.Rand, to netip.Addr, payload []byte) []byte {
	p := make([]byte, 28, 28+len(payload))
	p[0], p[8], p[9] = 0x45, 64, unix.IPPROTO_UDP // the kernel fills in length, id and checksum
	binary.BigEndian.PutUint32(p[12:], 10<<24|1<<23|rng.Uint32()&(1<<23-1))
	addr := to.As4()
	copy(p[16:], addr[:])
	binary.BigEndian.PutUint16(p[20:], uint16(1024+rng.IntN(60000)))
	binary.BigEndian.PutUint16(p[22:], dnsPort)
	binary.BigEndian.PutUint16(p[24:], uint16(8+len(payload)))
	return append(p, payload...) // without a UDP checksum, as IPv4 allows
}

// randomQuery asks mostly for names that are not there, now and then for one that is.
func randomQuery(rng *rand.Rand) []byte {
	q := make([]byte, 12, 64)
	binary.BigEndian.PutUint16(q, uint16(rng.Uint32()))
	q[5], q[11] = 1, 1
	label := fmt.Sprintf("%x", rng.Uint64())
	if rng.IntN(8) == 0 {
		label = "web"
	}
	for _, l := range append([]string{label}, strings.Split(zone, ".")...) {
		q = append(append(q, byte(len(l))), l...)
	}
	types := []byte{1, 28, 16, 65, 255}
	q = append(q, 0, 0, types[rng.IntN(len(types))], 0, 1)
	return append(q, 0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0)
}

// malformed spoils a query in one of the ways that parsers are attacked.
func malformed(rng *rand.Rand, q []byte) []byte {
	switch rng.IntN(8) {
	case 0: // cut off
		return q[:rng.IntN(len(q))]
	case 1: // bits flipped
		for range 1 + rng.IntN(8) {
			q[rng.IntN(len(q))] ^= 1 << rng.IntN(8)
		}
	case 2: // a name that points at itself
		return append(q[:12], 0xc0, 12, 0, 1, 0, 1)
	case 3: // a name that points ahead
		return append(q[:12], 0xc0, byte(12+rng.IntN(40)), 0, 1, 0, 1)
	case 4: // a name without end
		q = q[:12]
		for range 5 {
			q = append(append(q, 63), make([]byte, 63)...)
		}
	case 5: // counts that are not so
		binary.BigEndian.PutUint16(q[4+2*rng.IntN(4):], uint16(rng.Uint32()))
	case 6: // two OPT records
		q[11] = 2
		return append(q, q[len(q)-11:]...)
	case 7: // nothing of it is DNS
		for i := range q {
			q[i] = byte(rng.Uint32())
		}
	}
	return q
}

// silent holds one connection, again and again.
func (f flood) silent(ctx context.Context, i int, sent *flooded) {
	rng := rand.New(rand.NewPCG(f.Seed, uint64(i)))
	pause := func(d time.Duration) {
		select {
		case <-ctx.Done():
		case <-time.After(d):
		}
	}
	pause(time.Duration(rng.IntN(3000)) * time.Millisecond)
	for ctx.Err() == nil {
		from := netip.AddrFrom4([4]byte{10, byte(64 + rng.IntN(64)), byte(rng.Uint32()), byte(1 + rng.IntN(250))})
		d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), Timeout: 5 * time.Second}
		c, err := d.DialContext(ctx, "tcp4", netip.AddrPortFrom(f.Targets[i%len(f.Targets)], dnsPort).String())
		if err != nil {
			atomic.AddUint64(&sent.NotConnected, 1)
			pause(5 * time.Second)
			continue
		}
		atomic.AddUint64(&sent.Opened, 1)
		end := context.AfterFunc(ctx, func() { _ = c.Close() })
		_, _ = c.Read(make([]byte, 1)) // until it is closed
		end()
		_ = c.Close()
		atomic.AddUint64(&sent.Closed, 1)
		pause(time.Duration(3000+rng.IntN(4000)) * time.Millisecond)
	}
}
