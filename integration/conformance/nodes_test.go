//go:build conformance

package conformance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
)

// members are the nodes and where they answer.
var members = []struct{ name, region, addr string }{
	{"eu-1", "eu-west", "53.0.0.11"},
	{"us-1", "us-east", "53.0.0.12"},
	{"ap-1", "ap-south", "53.0.0.13"},
}

// sites are the clusters, each with the network whose clients count as inside it.
var sites = []struct{ name, region, addr, network string }{
	{"eu", "eu-west", "53.0.1.1", "53.1.0.0/24"},
	{"us", "us-east", "53.0.1.2", "53.2.0.0/24"},
}

// nodeNames are the name servers of a zone, with their addresses.
func nodeNames(zone string) map[string]string {
	names := map[string]string{}
	for _, m := range members {
		names["ns-"+m.name+"."+zone] = m.addr
	}
	return names
}

// node is one `quorate server`.
type node struct {
	*process
	w      *world
	name   string
	addr   string
	yaml   string
	socket string
	args   []string
}

// quorate runs a command of the built binary that must work.
func (n *node) quorate(args ...string) string {
	n.w.t.Helper()
	out, err := n.w.command(45*time.Second, n.command(args...)...)
	require.NoErrorf(n.w.t, err, "%s: quorate %s\n%s", n.name, strings.Join(args, " "), out)
	return out
}

// command reaches the binary without anybody's contexts, tokens or addresses.
func (n *node) command(args ...string) []string {
	return append([]string{
		"env", "XDG_CONFIG_HOME=" + n.yaml + ".config", "XDG_CACHE_HOME=" + n.yaml + ".cache",
		"QUORATE_ADDR=unix:" + n.socket, "QUORATE_TOKEN_FILE=", n.args[0],
	}, args...)
}

func (n *node) run() {
	n.process = n.w.start(n.name, n.command(n.args[1:]...)...)
}

// nodes is an installation of three that serves the zones of a tree.
func nodes(tr *tree) []*node {
	w, t := tr.w, tr.w.t
	t.Helper()
	bin, err := filepath.Abs("../../bin/quorate")
	require.NoError(t, err)
	require.FileExists(t, bin, "run: make build")
	for _, s := range sites {
		w.address(s.addr)
		w.site(s.addr)
	}
	var secrets strings.Builder
	for _, z := range tr.zones {
		if z.signed() {
			fmt.Fprintf(&secrets, "  %s-ksk: { file: %s }\n  %s-zsk: { file: %s }\n", z.label(), z.ksk, z.label(), z.zsk)
		}
	}
	var all []*node
	for _, m := range members {
		w.address(m.addr)
		dir := t.TempDir()
		sockets, err := os.MkdirTemp("", fmt.Sprintf("%s%d-", netnsPrefix, os.Getpid())) // a socket's path must be short
		require.NoError(t, err)
		t.Cleanup(func() { _ = os.RemoveAll(sockets) }) // the system's temporary folder
		n := &node{w: w, name: m.name, addr: m.addr, yaml: filepath.Join(dir, "node.yaml"), socket: filepath.Join(sockets, "api")}
		n.args = []string{bin, "server", "-c", n.yaml, "--socket", n.socket}
		write(t, n.yaml, fmt.Sprintf(`node: { name: %s, region: %s }
data_dir: %s
dns: { listen: ["%[4]s:53", "[%[5]s]:53"], advertise: { ipv4: [%[4]s], ipv6: ["%[5]s"] } }
api: { listen: "%[4]s:7653" }
peer: { listen: "%[4]s:7654", advertise: "%[4]s:7654", profile: lan }
secrets:
%[6]slog: { format: text, level: info }
`, m.name, m.region, filepath.Join(dir, "data"), m.addr, six(m.addr), secrets.String()))
		all = append(all, n)
	}
	first := all[0]
	first.quorate("init", "-c", first.yaml)
	first.run()
	eventually(t, patience, "the first node leads", func(context.Context) error { return first.leads(1) })
	for i, n := range all[1:] {
		token := strings.TrimSpace(first.quorate("members", "token"))
		n.quorate("join", fmt.Sprintf("%s@%s:7654", token, first.addr), "-c", n.yaml)
		n.run()
		eventually(t, patience, n.name+" is a voter", func(context.Context) error { return first.leads(i + 2) })
	}
	first.quorate("apply", "-f", file(t, "spec.yaml", spec(tr)), "--reason", "first spec")
	// A cluster without a verdict is left out once another one has one.
	targets := len(tr.zones) * len(sites) * 2 // of both families
	eventually(t, patience, "every target is up", func(context.Context) error {
		if up := strings.Count(first.text(), `"target went up"`); up < targets {
			return fmt.Errorf("%d are up, of %d", up, targets)
		}
		return nil
	})
	for _, n := range all {
		for _, z := range tr.zones {
			w.until(n.process, n.addr, "web."+z.name, dns.TypeA)
		}
	}
	return all
}

// leads reports whether the installation has a leader and so many members.
func (n *node) leads(count int) error {
	out, err := n.w.command(10*time.Second, n.command("members", "-o", "name")...)
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	if got := len(strings.Fields(out)); got != count {
		return fmt.Errorf("%d members", got)
	}
	return nil
}

// pause stops a node as a hung machine does; resume lets it go on.
func (n *node) pause()  { _ = syscall.Kill(-n.cmd.Process.Pid, syscall.SIGSTOP) }
func (n *node) resume() { _ = syscall.Kill(-n.cmd.Process.Pid, syscall.SIGCONT) }

// site answers health checks.
func (w *world) site(addr string) {
	w.t.Helper()
	for _, at := range []string{addr, six(addr)} {
		var ln net.Listener
		require.NoError(w.t, w.inside(func() (err error) {
			ln, err = new(net.ListenConfig).Listen(context.Background(), "tcp", net.JoinHostPort(at, "8080"))
			return err
		}))
		server := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), ReadHeaderTimeout: 5 * time.Second}
		done := make(chan struct{})
		go func() {
			defer close(done)
			if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
				w.t.Errorf("site %s: %v", at, err)
			}
		}()
		w.t.Cleanup(func() {
			_ = server.Close() // whoever probes hears of it
			<-done
		})
	}
}

// bigCount records of a hundred octets fit no UDP answer.
const bigCount = 40

// dsData is the data of a DS record.
func dsData(ds []string) string {
	return strings.Join(strings.Fields(ds[0])[4:], " ")
}

// spec serves every zone alike: static data of many kinds and a routed name.
func spec(tr *tree) string {
	var b strings.Builder
	b.WriteString("version: 1\ndefaults:\n  ttl: { normal: 5s, changing: 1s }\n  check: { interval: 2s, timeout: 1500ms, fall: 5, rise: 1, recheck: 500ms }\nzones:\n")
	for _, z := range tr.zones {
		fmt.Fprintf(&b, "  %s:\n    soa: { negative_ttl: 5s }\n", strings.TrimSuffix(z.name, "."))
		if z.signed() {
			fmt.Fprintf(&b, "    dnssec: { mode: on, algorithm: %s, denial: %s, ksk: { secret: %s-ksk }, zsk: { secret: %[3]s-zsk } }\n", z.algorithm, z.denial, z.label())
		}
		b.WriteString(`    records:
      "@":             { MX: ["10 mail"], TXT: ["\"v=spf1 -all\""], CAA: ["0 issue \"ca.example.net\""] }
      mail:            { A: [53.0.1.9], AAAA: ["2a00:53:1::9"] }
      www:             { A: [53.0.1.5, 53.0.1.6], AAAA: ["2a00:53:1::5"], TXT: ["\"first\"", "\"second\""] }
      alias:           { CNAME: [www] }
      chain:           { CNAME: [alias] }
      routed:          { CNAME: [web] }
      other:           { CNAME: [www.plain.example.] }
      "*.wild":        { A: [53.0.1.7], TXT: ["\"any\""] }
      "*.alias.wild":  { CNAME: [www] }
      host.deep.ent:   { A: [53.0.1.8] }
      _443._tcp.www:   { TLSA: ["3 1 1 0000000000000000000000000000000000000000000000000000000000000001"] }
      sub:             { NS: [ns.sub] }
      ns.sub:          { A: [53.0.0.3], AAAA: ["2a00:53:0:0::3"] }
      ns.secure:       { A: [53.0.0.3], AAAA: ["2a00:53:0:0::3"] }
`)
		fmt.Fprintf(&b, "      secure:          { NS: [ns.secure], DS: [%q] }\n      big:\n        TXT:\n", dsData(z.secure))
		for i := range bigCount {
			fmt.Fprintf(&b, "          - \"\\\"%02d %s\\\"\"\n", i, strings.Repeat("x", 96))
		}
	}
	b.WriteString("clusters:\n")
	for _, s := range sites {
		fmt.Fprintf(&b, "  %s: { region: %s, ipv4: [%s], ipv6: [%q], cidrs: [%s] }\n", s.name, s.region, s.addr, six(s.addr), s.network)
	}
	b.WriteString("services:\n")
	for _, z := range tr.zones {
		fmt.Fprintf(&b, "  web-%s:\n    zone: %s\n    names: [web]\n    policy: { type: weighted, affinity: local }\n    check: { http: { port: 8080, path: /healthz } }\n", z.label(), strings.TrimSuffix(z.name, "."))
	}
	return b.String()
}
