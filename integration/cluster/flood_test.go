//go:build integration

package cluster

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	dnsclient "github.com/quorate/quorate/dnsserver/client"
)

const (
	// floodRate is ten times what the legal clients ask.
	floodRate = 15000
	legalRate = floodRate / 10 / 3 // of each node

	silentConnections = 10000

	// memoryLimit is limits.memory of every node.
	memoryLimit = 256 << 20
)

// pulse is what shows that the control plane of a node goes on.
type pulse struct {
	probes, applied float64 // probes completed; index of the last applied entry
	leaders         float64 // leaders seen come
	rotation        uint64  // of web
	up              int     // its targets
}

func (n *node) pulse(ctx context.Context) (pulse, error) {
	text, err := n.metrics(ctx)
	if err != nil {
		return pulse{}, err
	}
	s, _, err := n.service(ctx, "web")
	return pulse{
		probes: sumOf(text, "quorate_probe_results_total"), applied: sumOf(text, "quorate_raft_applied_index"),
		leaders: sumOf(text, "quorate_raft_leader_changes_total"), rotation: s.Rotation, up: s.TargetsUp,
	}, err
}

// metrics reads the metrics over the socket.
func (n *node) metrics(ctx context.Context) (string, error) {
	hc := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", n.socket)
		},
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://node/metrics", nil)
	if err != nil {
		return "", err
	}
	resp, err := hc.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }() // it is read whole
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

// sumOf adds up a metric over its labels.
func sumOf(text, name string) float64 {
	sum := 0.0
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndexByte(rest, ' ')+1:]), 64)
		if err == nil {
			sum += v
		}
	}
	return sum
}

// beats says what of a node's control plane did not go on between two pulses, with
// writes made meanwhile. Each of three targets of both services is probed each second.
func beats(node string, before, after pulse, took time.Duration, writes int) []string {
	var problems []string
	if want := 6 * took.Seconds() * 0.8; after.probes-before.probes < want {
		problems = append(problems, fmt.Sprintf("%s completed %.0f probes in %s, want %.0f", node, after.probes-before.probes, took, want))
	}
	if after.applied-before.applied < float64(writes) {
		problems = append(problems, fmt.Sprintf("%s applied %.0f entries, of %d writes", node, after.applied-before.applied, writes))
	}
	if after.leaders != before.leaders {
		problems = append(problems, fmt.Sprintf("%s saw another leader", node))
	}
	if after.rotation != before.rotation || after.up != before.up {
		problems = append(problems, fmt.Sprintf("%s: rotation %d with %d up became %d with %d: a false verdict", node, before.rotation, before.up, after.rotation, after.up))
	}
	return problems
}

// peak is the most memory that a process has held since it began.
func peak(pid int) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(rest), " kB"))
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("process %d has no VmHWM", pid)
}

func withinMemory(node string, bytes int) []string {
	if bytes <= memoryLimit {
		return nil
	}
	return []string{fmt.Sprintf("%s held %d MiB, limits.memory is %d", node, bytes>>20, memoryLimit>>20)}
}

// A flood of random names, from random sources, with malformed packets, and of
// connections that say nothing, delays no legal query, over UDP or TCP; memory stays
// bounded, and probes, votes and commits go on.
func TestAFloodIsANonEvent(t *testing.T) {
	in := install(t, weighted)
	from := in.floodHost()
	begun := time.Now()
	before := map[*node]pulse{}
	for _, n := range in.nodes {
		p, err := n.pulse(t.Context())
		require.NoError(t, err)
		before[n] = p
	}
	var targets []netip.Addr
	var clients []*legal
	for _, n := range in.nodes {
		targets = append(targets, n.addr)
		clients = append(clients, askLegally(t, in.client, n.name, n.server(), legalRate, in.sites["eu"].addr, in.sites["us"].addr, in.sites["ap"].addr))
	}
	stop := flood{Targets: targets, Rate: floodRate, Silent: silentConnections, Seed: 5}.start(t, from)

	// Meanwhile: writes through every node, and legal queries over TCP.
	writes, overTCP := 0, 0
	var slowest, slowestTCP time.Duration
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		for _, n := range in.nodes {
			slowest = max(slowest, in.writeThrough(n, 5*time.Second))
			writes += 2 // it is undone
			asked := time.Now()
			r, err := in.askTCP(t.Context(), n)
			require.NoError(t, err, "a legal query over TCP to %s", n.name)
			require.Equal(t, "NOERROR", r.Rcode)
			slowestTCP = max(slowestTCP, time.Since(asked))
			overTCP++
		}
	}
	var problems []string
	for _, n := range in.nodes {
		after, err := n.pulse(t.Context())
		require.NoError(t, err)
		problems = append(problems, beats(n.name, before[n], after, time.Since(begun), writes)...)
	}
	took := time.Since(begun)

	// A verdict still turns while the flood goes on.
	in.sites["eu"].down()
	in.moved(in.nodes, "us", "ap")
	in.sites["eu"].up()
	in.moved(in.nodes, "eu", "us", "ap")

	for i, n := range in.nodes {
		s, found := clients[i].judge()
		problems = append(problems, found...)
		held, err := peak(n.cmd.Process.Pid)
		require.NoError(t, err)
		problems = append(problems, withinMemory(n.name, held)...)
		fmt.Printf("MEASURED %-38s %s: %d legal queries, %d lost, p99 of the worst window %s, slowest %s, memory %d MiB\n",
			t.Name(), n.name, s.asked, s.lost, s.p99.Round(10*time.Microsecond), s.worst.Round(10*time.Microsecond), held>>20)
	}
	sent := stop()
	fmt.Printf("MEASURED %-38s in %s: %+v; slowest write %s; %d queries over TCP, slowest %s\n",
		t.Name(), took.Round(time.Second), sent, slowest.Round(time.Millisecond), overTCP, slowestTCP.Round(time.Millisecond))
	require.Greater(t, sent.Packets, uint64(took.Seconds()*floodRate/2), "the flood was none")
	require.Greater(t, sent.Malformed, sent.Packets/5)
	require.Greater(t, sent.Opened, uint64(silentConnections))
	require.Empty(t, problems)
}

// askTCP asks a node over a connection made for it.
func (in *installation) askTCP(ctx context.Context, n *node) (r *dnsclient.Reply, err error) {
	err = in.client.inside(func() error {
		r, err = dnsclient.Query(ctx, n.server(), webName, "A", dnsclient.Options{TCP: true, Timeout: queryTimeout})
		return err
	})
	return r, err
}
