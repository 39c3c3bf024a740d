//go:build conformance

package conformance

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// netnsPrefix starts the name of every namespace. The pid after it tells whose it is,
// so that what a killed run left can be removed.
const netnsPrefix = "qconf-"

// Addresses in the namespace. They look public, since validators distrust private
// ones, and nothing leaves the namespace.
const (
	rootAddr   = "53.0.0.1"
	parentAddr = "53.0.0.2"
	childAddr  = "53.0.0.3"

	unboundAddr = "53.0.0.21"
	subnetAddr  = "53.0.0.22" // unbound again, that tells who asks
	namedAddr   = "53.0.0.23"

	clientAddr   = "53.0.0.100"
	euClientAddr = "53.1.0.9" // in the cluster's network
	usClientAddr = "53.2.0.9"
)

// world is one namespace: every server has an address on its loopback.
type world struct {
	t  *testing.T
	ns string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	requireTools(t, "ip")
	if os.Getuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("network namespaces need root")
		}
		t.Skip("network namespaces need root")
	}
	removeLeftovers(t)
	w := &world{t: t, ns: fmt.Sprintf("%s%d", netnsPrefix, os.Getpid())}
	run(t, "ip", "netns", "add", w.ns)
	t.Cleanup(func() { run(t, "ip", "netns", "del", w.ns) })
	run(t, "ip", "-n", w.ns, "link", "set", "lo", "up")
	for _, addr := range []string{rootAddr, parentAddr, childAddr, unboundAddr, subnetAddr, namedAddr, clientAddr, euClientAddr, usClientAddr} {
		w.address(addr)
	}
	return w
}

// address gives the namespace an IPv4 address and the IPv6 address like it.
func (w *world) address(addr string) {
	w.t.Helper()
	run(w.t, "ip", "-n", w.ns, "addr", "add", addr+"/32", "dev", "lo")
	run(w.t, "ip", "-n", w.ns, "addr", "add", six(addr)+"/128", "dev", "lo", "nodad")
}

// six is the IPv6 address of who has an IPv4 address: 2a00:53::1 for 53.0.0.1.
func six(addr string) string {
	p := strings.Split(addr, ".")
	return fmt.Sprintf("2a00:53:%s:%s::%s", p[1], p[2], p[3])
}

// removeLeftovers deletes the namespaces of runs that are dead, and what runs in them.
func removeLeftovers(t *testing.T) {
	t.Helper()
	for line := range strings.Lines(run(t, "ip", "netns", "list")) {
		ns, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		owner, ours := strings.CutPrefix(ns, netnsPrefix)
		pid, err := strconv.Atoi(owner)
		if !ours || err != nil || syscall.Kill(pid, 0) == nil {
			continue
		}
		for _, inside := range strings.Fields(run(t, "ip", "netns", "pids", ns)) {
			if p, err := strconv.Atoi(inside); err == nil {
				_ = syscall.Kill(p, syscall.SIGKILL) // gone meanwhile is as good
			}
		}
		run(t, "ip", "netns", "del", ns)
	}
}

// start starts a server in the namespace. ip replaces itself by it.
func (w *world) start(name string, args ...string) *process {
	w.t.Helper()
	return start(w.t, name, append([]string{"ip", "netns", "exec", w.ns}, args...)...)
}

// command runs a tool in the namespace and returns what it prints.
func (w *world) command(bound time.Duration, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(w.t.Context(), bound)
	defer cancel()
	cmd := exec.CommandContext(ctx, "ip", append([]string{"netns", "exec", w.ns}, args...)...)
	var out, talk bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &talk
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, talk.String())
	}
	return out.String(), nil
}

// inside runs f on a thread that is in the namespace: sockets that f opens stay there.
func (w *world) inside(f func() error) error {
	runtime.LockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer func() { _ = home.Close() }() // only read
	there, err := os.Open("/run/netns/" + w.ns)
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer func() { _ = there.Close() }() // only read
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("enter %s: %w", w.ns, err)
	}
	ferr := f()
	// A thread that cannot go back stays locked and ends with its goroutine.
	if err := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("leave %s: %w", w.ns, err)
	}
	runtime.UnlockOSThread()
	return ferr
}

// ask asks a server on port 53 from one of the client's addresses; what does not fit
// is asked again over TCP.
func (w *world) ask(from, server string, m *dns.Msg, timeout time.Duration) (*dns.Msg, error) {
	reply, err := w.askBy("udp", from, server, m, timeout)
	if err == nil && reply.Truncated {
		reply, err = w.askBy("tcp", from, server, m, timeout)
	}
	return reply, err
}

func (w *world) askBy(network, from, server string, m *dns.Msg, timeout time.Duration) (*dns.Msg, error) {
	var conn *dns.Conn
	c := dns.Client{Net: network, Timeout: timeout, UDPSize: dns.DefaultMsgSize}
	c.Dialer = &net.Dialer{Timeout: timeout, LocalAddr: &net.UDPAddr{IP: net.ParseIP(from)}}
	if network == "tcp" {
		c.Dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
	}
	if err := w.inside(func() (err error) {
		conn, err = c.Dial(net.JoinHostPort(server, "53"))
		return err
	}); err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }() // nothing is buffered
	reply, _, err := c.ExchangeWithConn(m, conn)
	return reply, err
}

// resolves asks a resolver a question once, with DNSSEC records.
func (w *world) resolves(from, resolver, name string, typ uint16) (*dns.Msg, error) {
	m := new(dns.Msg)
	m.SetQuestion(name, typ)
	m.SetEdns0(1232, true)
	return w.ask(from, resolver, m, 10*time.Second)
}

// until waits until a server answers a question with NOERROR.
func (w *world) until(p *process, server, name string, typ uint16) {
	w.t.Helper()
	eventually(w.t, patience, p.name+" answers", func(context.Context) error {
		select {
		case <-p.done:
			w.t.Fatalf("%s ended:\n%s", p.name, p.tail(30))
		default:
		}
		m := new(dns.Msg)
		m.SetQuestion(name, typ)
		reply, err := w.ask(clientAddr, server, m, time.Second)
		if err != nil {
			return err
		}
		if reply.Rcode != dns.RcodeSuccess || len(reply.Answer) == 0 {
			return fmt.Errorf("%s with %d records", dns.RcodeToString[reply.Rcode], len(reply.Answer))
		}
		return nil
	})
}

// file writes a file into a folder of the test and returns its path.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := t.TempDir() + "/" + name
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}
