package dev

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/cmd/quorate/dev/database"
)

// site is one region of the demo: a node and a cluster.
type site struct {
	node, cluster, region string
}

// sites are the demo's regions; --nodes takes the first ones and then numbers on.
var sites = []site{
	{"eu-1", "eu", "eu-west"},
	{"us-1", "us", "us-east"},
	{"ap-1", "ap", "ap-south"},
	{"sa-1", "", "sa-east"},
	{"af-1", "", "af-south"},
}

// Zone is the zone that the demo serves.
const Zone = "gslb.test."

// The first ports that the demo tries; a taken one is skipped.
const (
	firstDNSPort  = 5301
	firstAPIPort  = 7653
	firstPeerPort = 7701
	firstWebPort  = 8880
	firstDataPort = 8008
	portsTried    = 500
)

// ports are the listeners of one node, all on 127.0.0.1.
type ports struct {
	dns, api, peer int
}

// takeTurn makes demos that start at the same moment choose and bind their ports
// one after the other: they would all find the same ones free. Where the system
// has no name that goes away with its holder, nobody waits.
func takeTurn(ctx context.Context) (done func()) {
	if runtime.GOOS != "linux" {
		return func() {}
	}
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	for {
		turn, err := (&net.ListenConfig{}).Listen(ctx, "unix", "@quorate-dev-ports")
		if err == nil {
			return func() { _ = turn.Close() } // only its name was needed
		}
		select {
		case <-ctx.Done():
			return func() {}
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// choosePorts picks free ports for n nodes, counting up from the customary ones.
// Between the choice and the node's own bind another process than a demo may take
// one; the node then says so.
func choosePorts(n int) ([]ports, error) {
	chosen := make([]ports, n)
	dns, api, peer := firstDNSPort, firstAPIPort, firstPeerPort
	for i := range chosen {
		var err error
		if chosen[i].dns, err = freePort(dns, true); err != nil {
			return nil, err
		}
		if chosen[i].api, err = freePort(api, false); err != nil {
			return nil, err
		}
		if chosen[i].peer, err = freePort(max(peer, chosen[i].api+1), false); err != nil {
			return nil, err
		}
		dns, api, peer = chosen[i].dns+1, chosen[i].api+1, chosen[i].peer+1
	}
	return chosen, nil
}

// freePort returns the first port from first on 127.0.0.1 that can be bound, for
// TCP and, with udp, for UDP too.
func freePort(first int, udp bool) (int, error) {
	for port := first; port < first+portsTried && port < 1<<16; port++ {
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			continue
		}
		free := true
		if udp {
			pc, err := net.ListenPacket("udp", addr)
			if free = err == nil; free {
				_ = pc.Close() // only asked whether it can be bound
			}
		}
		_ = ln.Close() // likewise
		if free {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port on 127.0.0.1 from %d to %d", first, first+portsTried-1)
}

// nodeYAML returns the node.yaml of one of the demo's nodes.
func nodeYAML(s site, dir string, p ports, peers []int, expect int) string {
	var join []string
	for _, peer := range peers {
		join = append(join, fmt.Sprintf("127.0.0.1:%d", peer))
	}
	return fmt.Sprintf(`# Written by the demo.
node: { name: %s, region: %s }
data_dir: %s
dns:
  listen: ["127.0.0.1:%d"]
  advertise: { ipv4: [127.0.0.1] }
api: { listen: "127.0.0.1:%d", external_url: "http://127.0.0.1:%d" }
peer:
  listen: "127.0.0.1:%d"
  advertise: "127.0.0.1:%d"
  join: [%s]
  bootstrap: { expect: %d }
  profile: lan
observer: { allow: [127.0.0.0/8, 192.0.2.0/24] }
log: { format: text, level: info }
`, s.node, s.region, strconv.Quote(dir), p.dns, p.api, p.api, p.peer, p.peer, strings.Join(quoteAll(join), ", "), expect)
}

func quoteAll(ss []string) []string {
	out := make([]string, len(ss))
	for i, s := range ss {
		out[i] = strconv.Quote(s)
	}
	return out
}

// specYAML returns the demo's spec: a stateless service over all clusters, and a
// stateful one over those that have a database. A demo of one node has one region to
// vote, which a spec must allow by name.
func specYAML(clusters []*fakeCluster, nodes int) string {
	var b strings.Builder
	b.WriteString("# Written by the demo.\nversion: 1\n")
	b.WriteString("defaults:\n  ttl: { normal: 5s, changing: 1s }\n")
	b.WriteString("  check: { interval: 1s, timeout: 500ms, fall: 3, rise: 2, recheck: 200ms }\n")
	if nodes == 1 {
		b.WriteString("  quorum: { min_votes: 1 }\n")
	}
	fmt.Fprintf(&b, "zones: { %s: {} }\nclusters:\n", strings.TrimSuffix(Zone, "."))
	var sides []string
	for _, c := range clusters {
		fmt.Fprintf(&b, "  %s: { region: %s, ipv4: [%s] }\n", c.name, c.region, c.addr)
		if c.data != nil {
			sides = append(sides, c.name)
		}
	}
	fmt.Fprintf(&b, `services:
  %s:
    policy: { type: weighted }
    check: { http: { port: %d, path: /healthz } }
  %s:                          # moves only after people approve
    stateful: { preferred: %s, approval: two-person, propose_after: 3s, cooldown: 10s, failback: { healthy_for: 5s } }
    clusters: { only: [%[5]s] }
    policy: { type: failover, order: [%[5]s] }
    check: { http: { port: %[6]d, path: %[7]s } }
`, webName, clusters[0].web.port, ordersName, sides[0], strings.Join(sides, ", "), clusters[0].data.port, database.Path)
	return b.String()
}

// writeFile writes a file of the demo's folder, readable by its owner only.
func writeFile(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o600)
}
