//go:build conformance

package conformance

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
)

// patience bounds every wait for a server to start or to end.
const patience = 30 * time.Second

// process is a server that a test started. It ends with the test, by its pid.
type process struct {
	name string
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed when it has ended
}

// start starts a server that stays in the foreground.
func start(t *testing.T, name string, args ...string) *process {
	t.Helper()
	p := &process{name: name, log: filepath.Join(t.TempDir(), "log"), done: make(chan struct{})}
	out, err := os.Create(p.log)
	require.NoError(t, err)
	p.cmd = exec.Command(args[0], args[1:]...)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	// In a group of its own, so that its children end with it.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	require.NoError(t, p.cmd.Start())
	_ = out.Close() // the process has its own
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // it is ended by a signal
	}()
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			t.Logf("end of the log of %s:\n%s", name, p.tail(30))
		}
	})
	return p
}

// stop ends the server and its children.
func (p *process) stop() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGTERM) // it may have ended by itself
	select {
	case <-p.done:
	case <-time.After(5 * time.Second):
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // and what it left behind
	<-p.done
}

// kill ends the server as kill -9 does.
func (p *process) kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // it may have ended by itself
	<-p.done
}

func (p *process) text() string {
	text, _ := os.ReadFile(p.log) // only for people
	return string(text)
}

func (p *process) tail(lines int) string {
	all := strings.Split(strings.TrimSpace(p.text()), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// eventually waits until f returns nil.
func eventually(t *testing.T, bound time.Duration, what string, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("not within %v: %s: %v", bound, what, err)
		case <-tick.C:
		}
	}
}

// answersAt waits until a server answers a question with NOERROR.
func (p *process) answersAt(t *testing.T, at, name string, typ uint16) {
	t.Helper()
	m := new(dns.Msg)
	m.SetQuestion(name, typ)
	eventually(t, patience, p.name+" answers", func(ctx context.Context) error {
		select {
		case <-p.done:
			t.Fatalf("%s ended:\n%s", p.name, p.tail(30))
		default:
		}
		c := dns.Client{Timeout: time.Second}
		reply, _, err := c.ExchangeContext(ctx, m, at)
		if err != nil {
			return err
		}
		if reply.Rcode != dns.RcodeSuccess {
			return fmt.Errorf("%s", dns.RcodeToString[reply.Rcode])
		}
		return nil
	})
}

// freeAddr finds a port of the loopback that is free for UDP and TCP.
func freeAddr(t *testing.T) (addr string, port int) {
	t.Helper()
	for range 20 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		port := l.Addr().(*net.TCPAddr).Port
		p, err := net.ListenPacket("udp", l.Addr().String())
		_ = l.Close() // nothing was accepted
		if err == nil {
			_ = p.Close() // nothing was sent
			return fmt.Sprintf("127.0.0.1:%d", port), port
		}
	}
	t.Fatal("no port is free for UDP and TCP")
	return "", 0
}

// writeZones writes each zone's master file as NAME.zone, without the last dot.
func writeZones(t *testing.T, zones []*zoneFile) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, z := range zones {
		write(t, filepath.Join(dir, z.name+"zone"), z.master(z.sets))
	}
	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
}

// startNSD serves the zones with NSD and returns where.
func startNSD(t *testing.T, zones []*zoneFile, files string) string {
	t.Helper()
	addr, port := freeAddr(t)
	var conf strings.Builder
	conf.WriteString(nsdConf(t.TempDir(), fmt.Sprintf("127.0.0.1@%d", port)))
	for _, z := range zones {
		fmt.Fprintf(&conf, "zone:\n  name: %q\n  zonefile: %q\n", z.name, filepath.Join(files, z.name+"zone"))
	}
	path := filepath.Join(t.TempDir(), "nsd.conf")
	write(t, path, conf.String())
	start(t, "nsd", "nsd", "-d", "-c", path).answersAt(t, addr, zones[len(zones)-1].name, dns.TypeSOA)
	return addr
}

// nsdConf is NSD without limits, users or files outside dir.
func nsdConf(dir string, listen ...string) string {
	var b strings.Builder
	b.WriteString("server:\n")
	for _, at := range listen {
		fmt.Fprintf(&b, "  ip-address: %s\n", at)
	}
	fmt.Fprintf(&b, "  username: \"\"\n  chroot: \"\"\n  database: \"\"\n  server-count: 1\n  zonesdir: %q\n", dir)
	for key, file := range map[string]string{"pidfile": "pid", "zonelistfile": "zone.list", "xfrdfile": "xfrd.state", "cookie-secret-file": "cookies"} {
		fmt.Fprintf(&b, "  %s: %q\n", key, filepath.Join(dir, file))
	}
	fmt.Fprintf(&b, "  xfrdir: %q\n", dir)
	b.WriteString("  minimal-responses: yes\n  rrl-ratelimit: 0\n  rrl-whitelist-ratelimit: 0\nremote-control:\n  control-enable: no\n")
	return b.String()
}

// startKnot serves the zones with Knot and returns where.
func startKnot(t *testing.T, zones []*zoneFile, files string) string {
	t.Helper()
	addr, port := freeAddr(t)
	dir := t.TempDir()
	var conf strings.Builder
	fmt.Fprintf(&conf, `server:
  rundir: %q
  listen: 127.0.0.1@%d
  udp-workers: 2
  tcp-workers: 2
  background-workers: 2
database:
  storage: %q
log:
  - target: stderr
    any: warning
template:
  - id: default
    storage: %q
    zonefile-load: whole
    journal-content: none
    semantic-checks: off
zone:
`, dir, port, dir, files)
	for _, z := range zones {
		fmt.Fprintf(&conf, "  - domain: %s\n    file: %q\n", z.name, z.name+"zone")
	}
	path := filepath.Join(t.TempDir(), "knot.conf")
	write(t, path, conf.String())
	p := start(t, "knot", "knotd", "-c", path)
	for _, z := range zones {
		p.answersAt(t, addr, z.name, dns.TypeSOA)
	}
	return addr
}
