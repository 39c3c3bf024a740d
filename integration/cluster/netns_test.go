//go:build integration

package cluster

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// netnsPrefix starts the name of every namespace (PREFIX PID - N - HOST) and of
// every folder for sockets. The pid tells whose it is, so that what a killed run
// left can be removed.
const netnsPrefix = "qit-"

// worlds numbers the worlds of this process.
var worlds atomic.Int64

// world is one network: hosts in namespaces of their own around one bridge.
type world struct {
	t   *testing.T
	tag string
	hub string
}

// host is one namespace with one address.
type host struct {
	ns   string
	addr netip.Addr
}

func newWorld(t *testing.T) *world {
	t.Helper()
	requireTools(t)
	removeLeftovers(t)
	w := &world{t: t, tag: fmt.Sprintf("%s%d-%d-", netnsPrefix, os.Getpid(), worlds.Add(1))}
	w.hub = w.addNamespace("hub")
	run(t, "ip", "-n", w.hub, "link", "add", "br0", "type", "bridge")
	run(t, "ip", "-n", w.hub, "link", "set", "br0", "up")
	return w
}

// requireTools skips where the tools are missing, and fails there in CI.
func requireTools(t *testing.T) {
	t.Helper()
	missing := ""
	for _, tool := range []string{"ip", "iptables"} {
		if _, err := exec.LookPath(tool); err != nil {
			missing = err.Error()
		}
	}
	if os.Getuid() != 0 {
		missing = "network namespaces need root"
	}
	switch {
	case missing == "":
	case os.Getenv("CI") != "":
		t.Fatal(missing)
	default:
		t.Skip(missing)
	}
}

// removeLeftovers deletes what runs left that are dead: namespaces, processes in
// them, and the folders of their sockets.
func removeLeftovers(t *testing.T) {
	t.Helper()
	for line := range strings.Lines(run(t, "ip", "netns", "list")) {
		ns, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !isLeftover(ns) {
			continue
		}
		for _, inside := range strings.Fields(run(t, "ip", "netns", "pids", ns)) {
			if p, err := strconv.Atoi(inside); err == nil {
				_ = syscall.Kill(p, syscall.SIGKILL) // gone meanwhile is as good
			}
		}
		run(t, "ip", "netns", "del", ns)
	}
	folders, err := filepath.Glob(filepath.Join(os.TempDir(), netnsPrefix+"*"))
	require.NoError(t, err)
	for _, f := range folders {
		if isLeftover(filepath.Base(f)) {
			require.NoError(t, os.RemoveAll(f))
		}
	}
}

// isLeftover reports whether name carries the pid of a run that is dead.
func isLeftover(name string) bool {
	rest, ours := strings.CutPrefix(name, netnsPrefix)
	owner, _, _ := strings.Cut(rest, "-")
	pid, err := strconv.Atoi(owner)
	return ours && err == nil && syscall.Kill(pid, 0) != nil
}

func (w *world) addNamespace(name string) string {
	w.t.Helper()
	ns := w.tag + name
	run(w.t, "ip", "netns", "add", ns)
	w.t.Cleanup(func() { run(w.t, "ip", "netns", "del", ns) })
	run(w.t, "ip", "-n", ns, "link", "set", "lo", "up")
	return ns
}

// addHost makes a host with addr, on the bridge.
func (w *world) addHost(name, addr string) *host {
	w.t.Helper()
	h := &host{ns: w.addNamespace(name), addr: netip.MustParseAddr(addr)}
	run(w.t, "ip", "-n", w.hub, "link", "add", "v-"+name, "type", "veth", "peer", "name", "eth0", "netns", h.ns)
	run(w.t, "ip", "-n", w.hub, "link", "set", "v-"+name, "master", "br0", "up")
	run(w.t, "ip", "-n", h.ns, "addr", "add", addr+"/24", "dev", "eth0")
	run(w.t, "ip", "-n", h.ns, "link", "set", "eth0", "up")
	return h
}

// mute drops what h sends to others; deafen drops what they send to h.
func (h *host) mute(t *testing.T, others ...*host) {
	t.Helper()
	for _, o := range others {
		run(t, "ip", "netns", "exec", h.ns, "iptables", "-w", "-A", "OUTPUT", "-d", o.addr.String(), "-j", "DROP")
	}
}

func (h *host) deafen(t *testing.T, others ...*host) {
	t.Helper()
	for _, o := range others {
		run(t, "ip", "netns", "exec", h.ns, "iptables", "-w", "-A", "INPUT", "-s", o.addr.String(), "-j", "DROP")
	}
}

// mend undoes every mute and deafen of h.
func (h *host) mend(t *testing.T) {
	t.Helper()
	run(t, "ip", "netns", "exec", h.ns, "iptables", "-w", "-F")
}

// inside runs f on a thread that is in the namespace: sockets that f opens stay
// there.
func (h *host) inside(f func() error) error {
	runtime.LockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer func() { _ = home.Close() }() // only read
	there, err := os.Open("/run/netns/" + h.ns)
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer func() { _ = there.Close() }() // only read
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("enter %s: %w", h.ns, err)
	}
	ferr := f()
	// A thread that cannot go back stays locked and ends with its goroutine.
	if err := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("leave %s: %w", h.ns, err)
	}
	runtime.UnlockOSThread()
	return ferr
}

// run runs a command that must work.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	require.NoErrorf(t, err, "%s %s: %s", name, strings.Join(args, " "), out)
	return string(out)
}
