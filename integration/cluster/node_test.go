//go:build integration

package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/api/client"
	dnsclient "github.com/quorate/quorate/dnsserver/client"
)

const (
	dnsPort  = 53
	peerPort = 7654
)

// node is one `quorate server`, running or not.
type node struct {
	*host
	t      *testing.T
	name   string
	region string
	bin    string
	dir    string // data_dir
	yaml   string
	socket string // reaches the API whatever happens to the network
	log    string
	api    *client.Client

	cmd  *exec.Cmd     // nil: not running
	done chan struct{} // closed when it has ended
}

// newNode writes the node.yaml of a node that does not run yet.
func newNode(t *testing.T, h *host, name, region string) *node {
	t.Helper()
	bin, err := filepath.Abs("../../bin/quorate")
	require.NoError(t, err)
	require.FileExists(t, bin, "run: make build")
	root := t.TempDir()
	// A socket's path must be short, and names of tests are not.
	sockets, err := os.MkdirTemp("", fmt.Sprintf("%s%d-", netnsPrefix, os.Getpid()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(sockets) }) // the system's temporary folder
	n := &node{
		host: h, t: t, name: name, region: region, bin: bin,
		dir: filepath.Join(root, "data"), yaml: filepath.Join(root, "node.yaml"),
		socket: filepath.Join(sockets, "api"), log: filepath.Join(root, "log"),
	}
	text := fmt.Sprintf(`node: { name: %s, region: %s }
data_dir: %s
dns: { listen: ["%s:%d"], advertise: { ipv4: [%s] } }
api: { listen: "%s:7653" }
peer: { listen: "%s:%d", advertise: "%s:%d", profile: lan }
observer: { allow: [10.77.0.0/24], resolver: [%s] }
log: { format: text, level: info }
limits: { memory: %dMiB }
`, name, region, n.dir, h.addr, dnsPort, h.addr, h.addr, h.addr, peerPort, h.addr, peerPort, asks(name), memoryLimit>>20)
	require.NoError(t, os.WriteFile(n.yaml, []byte(text), 0o644))
	n.api, err = client.New(client.Options{Addrs: []string{"unix:" + n.socket}, Timeout: 10 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() && n.cmd != nil {
			status, _, _ := n.cli("status")
			votes, _, _ := n.cli("votes", "web")
			t.Logf("%s says:\n%s%s", name, status, votes)
		}
		n.kill()
		if t.Failed() {
			t.Logf("end of the log of %s:\n%s", name, n.logTail(40))
		}
	})
	return n
}

// asks is where the node resolves hostnames; nobody is there unless a scenario wants it.
func asks(name string) string {
	port, ok := resolverPorts[name]
	if !ok {
		return ""
	}
	return fmt.Sprintf("%q", netip.AddrPortFrom(netip.MustParseAddr(resolverAddr), uint16(port)))
}

// server is where the node answers DNS.
func (n *node) server() string { return netip.AddrPortFrom(n.addr, dnsPort).String() }

// start runs the node. ip replaces itself by the server, so the pid is the server's.
func (n *node) start() {
	n.t.Helper()
	require.Nil(n.t, n.cmd, "%s runs already", n.name)
	out, err := os.OpenFile(n.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(n.t, err)
	cmd := n.command(context.Background(), "server", "-c", n.yaml, "--socket", n.socket)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(n.t, cmd.Start())
	_ = out.Close() // the process has its own
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = cmd.Wait() // it is ended by a signal
	}()
	n.cmd, n.done = cmd, done
}

// kill ends the node as kill -9 does. It does nothing when the node does not run.
func (n *node) kill() {
	if n.cmd == nil {
		return
	}
	_ = n.cmd.Process.Kill() // it may have ended by itself
	<-n.done
	n.cmd = nil
}

func (n *node) signal(s os.Signal) {
	n.t.Helper()
	require.NoError(n.t, n.cmd.Process.Signal(s))
}

// command is the binary in the node's namespace.
func (n *node) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "ip", append([]string{"netns", "exec", n.ns, n.bin}, args...)...)
	// Nobody's contexts, tokens or addresses may reach it.
	cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME="+n.dir+".config", "XDG_CACHE_HOME="+n.dir+".cache",
		"QUORATE_ADDR=unix:"+n.socket, "QUORATE_TOKEN_FILE=")
	return cmd
}

// cli runs a client command against this node.
func (n *node) cli(args ...string) (stdout, stderr string, code int) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 45*time.Second)
	defer cancel()
	cmd := n.command(ctx, args...)
	var out, talk bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &talk
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		n.t.Fatalf("%s: quorate %s: %v", n.name, strings.Join(args, " "), err)
	}
	return out.String(), talk.String(), cmd.ProcessState.ExitCode()
}

// must runs a client command that must work, and returns its stdout.
func (n *node) must(args ...string) string {
	n.t.Helper()
	stdout, stderr, code := n.cli(args...)
	require.Zerof(n.t, code, "%s: quorate %s\n%s%s", n.name, strings.Join(args, " "), stdout, stderr)
	return stdout
}

// status asks the node how the installation does.
func (n *node) status(ctx context.Context) (apitype.Status, error) {
	res, err := n.api.Status(ctx)
	if err != nil {
		return apitype.Status{}, err
	}
	return res.Items[0], nil
}

// service asks the node for what is committed for a service.
func (n *node) service(ctx context.Context, name string) (apitype.Service, client.Meta, error) {
	res, err := n.api.Services(ctx, name)
	if err != nil {
		return apitype.Service{}, client.Meta{}, err
	}
	return res.Items[0], res.Meta, nil
}

// health returns the code of a health endpoint, over the socket.
func (n *node) health(ctx context.Context, path string) (int, error) {
	hc := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", n.socket)
		},
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://node"+path, nil)
	if err != nil {
		return 0, err
	}
	resp, err := hc.Do(req)
	if err != nil {
		return 0, err
	}
	_ = resp.Body.Close() // only the code matters
	return resp.StatusCode, nil
}

// ask asks the node one question from the client's namespace.
func (n *node) ask(ctx context.Context, from *host, timeout time.Duration) ([]netip.Addr, error) {
	return askFrom(ctx, from, n.server(), timeout)
}

func askFrom(ctx context.Context, from *host, server string, timeout time.Duration) ([]netip.Addr, error) {
	c, err := dialFrom(ctx, from, server)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }() // nothing was buffered
	reply, err := c.Query(ctx, webName, "A", dnsclient.Options{Timeout: timeout})
	if err != nil {
		return nil, err
	}
	return reply.Addresses, nil
}

func dialFrom(ctx context.Context, from *host, server string) (c *dnsclient.Client, err error) {
	err = from.inside(func() (err error) {
		c, err = dnsclient.Dial(ctx, server)
		return err
	})
	return c, err
}

func (n *node) logTail(lines int) string {
	text, _ := os.ReadFile(n.log) // only for people
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
