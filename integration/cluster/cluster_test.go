//go:build integration

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/api/client"
)

const (
	zone    = "gslb.test"
	webName = "web." + zone

	// settle bounds how long an installation may take to do what nothing hinders.
	settle = 20 * time.Second

	// pollEvery is how often a condition is looked at.
	pollEvery = 20 * time.Millisecond
)

// regions are where the nodes and the sites are.
var regions = []struct{ node, site, region string }{
	{"eu-1", "eu", "eu-west"},
	{"us-1", "us", "us-east"},
	{"ap-1", "ap", "ap-south"},
}

// installation is three nodes in three regions, three sites, and a client that
// asks the nodes throughout.
type installation struct {
	*world
	nodes    []*node
	sites    map[string]*site
	client   *host
	specPath string
	watch    *observation
}

const (
	weighted = "{ type: weighted }"
	failover = "{ type: failover, order: [eu, us, ap] }"
)

// spec is the spec that every scenario starts from. spare answers nobody: its
// freezes are the writes by which scenarios ask whether the quorum commits.
func spec(policy, more string) string {
	return fmt.Sprintf(`version: 1
defaults:
  ttl: { normal: 5s, changing: 1s }
  check: { interval: 1s, timeout: 500ms, fall: 3, rise: 2, recheck: 200ms }
zones: { %s: {} }
clusters:
  eu: { region: eu-west, ipv4: [10.77.0.21] }
  us: { region: us-east, ipv4: [10.77.0.22] }
  ap: { region: ap-south, ipv4: [10.77.0.23] }
services:
  web:
    policy: %s
    check: { http: { port: %d, path: /healthz } }
  spare:
    policy: { type: weighted }
    check: { http: { port: %d, path: /healthz } }
%s`, zone, policy, sitePort, sitePort, more)
}

// install brings up an installation as the documentation says: init on the first
// host, a token and join on the others, apply. The client asks from then on, also
// the nodes that come later.
func install(t *testing.T, policy string, later ...string) *installation {
	t.Helper()
	return installWith(t, policy, "", later...)
}

// installWith is install with more services in the spec.
func installWith(t *testing.T, policy, more string, later ...string) *installation {
	t.Helper()
	in := &installation{world: newWorld(t), sites: map[string]*site{}}
	in.client = in.addHost("client", "10.77.0.100")
	for i, r := range regions {
		s := &site{host: in.addHost(r.site, fmt.Sprintf("10.77.0.%d", 21+i)), t: t, name: r.site}
		s.up()
		t.Cleanup(s.down)
		in.sites[r.site] = s
	}
	for i, r := range regions {
		in.addNode(r.node, r.region, fmt.Sprintf("10.77.0.%d", 11+i))
	}
	servers := map[string]string{}
	for _, n := range in.nodes {
		servers[n.name] = n.server()
	}
	for i, name := range later {
		n := in.addNode(name, "sa-east", fmt.Sprintf("10.77.0.%d", 31+i))
		servers[name] = n.server()
	}
	started := in.nodes[:len(regions)]

	first := in.nodes[0]
	first.must("init", "-c", first.yaml)
	first.start()
	eventually(t, settle, "the first node leads", func(ctx context.Context) error { return in.quorate(ctx, first, 1) })
	for i, n := range started[1:] {
		in.join(n, first)
		eventually(t, settle, n.name+" is a voter", func(ctx context.Context) error { return in.quorate(ctx, first, i+2) })
	}

	in.specPath = filepath.Join(t.TempDir(), "spec.yaml")
	require.NoError(t, os.WriteFile(in.specPath, []byte(spec(policy, more)), 0o644))
	first.must("apply", "-f", in.specPath, "--reason", "first spec")
	for _, n := range started {
		eventually(t, settle, n.name+" has every site up", func(ctx context.Context) error {
			st, err := n.status(ctx)
			if err != nil {
				return err
			}
			for _, s := range st.Services {
				if s.TargetsUp != len(regions) {
					return fmt.Errorf("%s: %d targets up", s.Name, s.TargetsUp)
				}
			}
			if len(st.Services) == 0 || len(banners(st)) > 0 {
				return fmt.Errorf("services %d, banners %v", len(st.Services), st.Banners)
			}
			if policy == failover {
				return in.answersOnly(ctx, n, "eu")
			}
			return in.committed(ctx, n, "eu", "us", "ap")
		})
	}
	in.observe(servers, later)
	return in
}

// observe starts the client, and has the scenario judged at its end.
func (in *installation) observe(servers map[string]string, later []string) {
	t := in.t
	in.watch = newObservation(t, in.client, servers)
	in.watch.follow = in.followTruth
	for _, name := range later {
		in.watch.gone(name)
	}
	in.watch.begin()
	t.Cleanup(func() {
		for _, problem := range in.watch.end("SCENARIO", t.Name()) {
			t.Error(problem)
		}
	})
}

// followTruth reads what is committed from every node that can be asked.
func (in *installation) followTruth(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, n := range in.nodes {
		wg.Go(func() {
			for ctx.Err() == nil {
				if s, _, err := n.service(ctx, "web"); err == nil {
					if err := in.watch.saw(n.name, s); err != nil {
						in.t.Error(err)
					}
				}
				select {
				case <-ctx.Done():
				case <-time.After(truthEvery):
				}
			}
		})
	}
}

func (in *installation) addNode(name, region, addr string) *node {
	in.t.Helper()
	n := newNode(in.t, in.addHost(name, addr), name, region)
	in.nodes = append(in.nodes, n)
	return n
}

// join lets n in through a token that by makes, and starts it.
func (in *installation) join(n, by *node) {
	in.t.Helper()
	token := strings.TrimSpace(by.must("members", "token"))
	n.must("join", fmt.Sprintf("%s@%s:%d", token, by.addr, peerPort), "-c", n.yaml)
	n.start()
}

// joinLate lets n in while the scenario runs: it must answer as soon as it says
// that it is ready.
func (in *installation) joinLate(n, by *node) {
	in.t.Helper()
	in.watch.restarts(n.name)
	in.join(n, by)
	in.health(n, "/readyz", 200)
	in.watch.watcher.Back(n.name)
	in.caughtUp(n)
}

// kill ends nodes as kill -9 does; from here on they may be silent.
func (in *installation) kill(nodes ...*node) {
	in.t.Helper()
	for _, n := range nodes {
		in.watch.away(n.name)
		in.watch.truth.Hold(n.name, time.Now())
	}
	for _, n := range nodes {
		n.kill()
	}
}

// cut has nodes keep what they have from here on: they cannot hear of anything
// newer, and must go on answering.
func (in *installation) cut(nodes ...*node) {
	for _, n := range nodes {
		in.watch.truth.Hold(n.name, time.Now())
	}
}

// restart starts a killed node, and returns how long it took to answer.
func (in *installation) restart(n *node) time.Duration {
	in.t.Helper()
	in.watch.restarts(n.name)
	begun := time.Now()
	n.start()
	in.answering(n)
	return time.Since(begun)
}

// answering waits until a node that was away answers; from here on it must.
func (in *installation) answering(n *node) {
	in.t.Helper()
	eventually(in.t, settle, n.name+" answers", func(ctx context.Context) error {
		addrs, err := n.ask(ctx, in.client, 100*time.Millisecond)
		if err == nil && len(addrs) == 0 {
			err = errors.New("empty answer")
		}
		return err
	})
	in.watch.watcher.Back(n.name)
}

// caughtUp waits until nodes follow a leader and have all that is committed; from
// here on an older answer is wrong.
func (in *installation) caughtUp(nodes ...*node) {
	in.t.Helper()
	for _, n := range nodes {
		eventually(in.t, settle, n.name+" follows again", func(ctx context.Context) error {
			code, err := n.health(ctx, "/quorumz")
			if err == nil && code != 200 {
				err = fmt.Errorf("quorumz %d", code)
			}
			if err != nil {
				return err
			}
			s, _, err := n.service(ctx, "web")
			if err == nil && s.Rotation < in.watch.known() {
				err = fmt.Errorf("rotation %d of %d", s.Rotation, in.watch.known())
			}
			return err
		})
		in.watch.truth.Release(n.name, time.Now())
	}
}

// quorate checks that n follows a leader of so many voters, all up.
func (in *installation) quorate(ctx context.Context, n *node, voters int) error {
	st, err := n.status(ctx)
	if err == nil && (st.Installation == "" || !st.Quorum.Available || st.Quorum.Voters != voters || st.Quorum.VotersUp != voters) {
		err = fmt.Errorf("quorum %+v, want %d voters", st.Quorum, voters)
	}
	return err
}

// banners are what an operator must look at; that nodes came and the parent must
// hear of it is so in every new installation, and a cutover that waits for people is
// what a scenario has asked for.
func banners(st apitype.Status) []apitype.Banner {
	return slices.DeleteFunc(slices.Clone(st.Banners), func(b apitype.Banner) bool {
		return b.Code == "ns-changed" || b.Code == "cutover-waiting"
	})
}

// allWell checks that every voter is up and nothing must be looked at: the votes
// of all nodes count.
func (in *installation) allWell(ctx context.Context) error {
	for _, n := range in.others() {
		st, err := n.status(ctx)
		if err != nil {
			return err
		}
		if len(banners(st)) > 0 || !st.Quorum.Available || st.Quorum.VotersUp != st.Quorum.Voters {
			return fmt.Errorf("%s: quorum %+v, banners %+v", n.name, st.Quorum, st.Banners)
		}
	}
	return nil
}

// leader returns the node that the others follow.
func (in *installation) leader() *node {
	in.t.Helper()
	var found *node
	eventually(in.t, settle, "there is a leader", func(ctx context.Context) error {
		names := map[string]int{}
		for _, n := range in.nodes {
			if n.cmd == nil {
				continue
			}
			st, err := n.status(ctx)
			if err != nil {
				return err
			}
			names[st.Quorum.Leader]++
		}
		for _, n := range in.nodes {
			if names[n.name] == len(in.others()) {
				found = n
				return nil
			}
		}
		return fmt.Errorf("the nodes follow %v", names)
	})
	return found
}

// others returns the nodes that run, without some.
func (in *installation) others(without ...*node) []*node {
	return slices.DeleteFunc(slices.Clone(in.nodes), func(n *node) bool {
		return n.cmd == nil || slices.Contains(without, n)
	})
}

// committed checks that n has a rotation of web over exactly these sites.
func (in *installation) committed(ctx context.Context, n *node, sites ...string) error {
	s, _, err := n.service(ctx, "web")
	if err != nil {
		return err
	}
	var have []string
	for _, share := range s.V4 {
		if share.Percent > 0 {
			have = append(have, share.Cluster)
		}
	}
	slices.Sort(have)
	slices.Sort(sites)
	if !slices.Equal(have, sites) {
		return fmt.Errorf("%s has a rotation over %v, want %v", n.name, have, sites)
	}
	return nil
}

// answersOnly asks n often enough to see every site it answers with, and checks
// that those are among sites.
func (in *installation) answersOnly(ctx context.Context, n *node, sites ...string) error {
	var want []netip.Addr
	for _, s := range sites {
		want = append(want, in.sites[s].addr)
	}
	for range 20 {
		addrs, err := n.ask(ctx, in.client, queryTimeout)
		if err != nil {
			return err
		}
		for _, a := range addrs {
			if !slices.Contains(want, a) {
				return fmt.Errorf("%s answers %s, want only %v", n.name, a, want)
			}
		}
	}
	return nil
}

// moved waits until every node of nodes has and answers a rotation over sites.
func (in *installation) moved(nodes []*node, sites ...string) {
	in.t.Helper()
	for _, n := range nodes {
		eventually(in.t, settle, fmt.Sprintf("%s answers only %v", n.name, sites), func(ctx context.Context) error {
			if err := in.committed(ctx, n, sites...); err != nil {
				return err
			}
			return in.answersOnly(ctx, n, sites...)
		})
	}
}

// writeThrough commits a freeze of spare through n, repeating the same request
// until its outcome is known, and returns how long that took.
func (in *installation) writeThrough(n *node, limit time.Duration) time.Duration {
	in.t.Helper()
	begun := time.Now()
	key := client.NewKey()
	eventually(in.t, limit, "a write through "+n.name, func(ctx context.Context) error {
		_, err := n.api.Freeze(ctx, apitype.FreezeRequest{Service: "spare", Reason: "does the quorum commit"}, key)
		return err
	})
	took := time.Since(begun)
	key = client.NewKey()
	eventually(in.t, settle, "undo the write", func(ctx context.Context) error {
		_, err := n.api.Thaw(ctx, apitype.ThawRequest{Service: "spare", Reason: "it does"}, key)
		return err
	})
	return took
}

// eventually looks at a condition until it holds, and fails when it does not in time.
func eventually(t *testing.T, limit time.Duration, what string, f func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	var last error
	for {
		err := f(ctx)
		if err == nil {
			return
		}
		if last == nil || ctx.Err() == nil {
			last = err // the end of time itself explains nothing
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not within %s: %v", what, limit, last)
		case <-time.After(pollEvery):
		}
	}
}

// stays looks at a condition for a while, and fails when it once does not hold.
func stays(t *testing.T, d time.Duration, what string, f func(ctx context.Context) error) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); <-time.After(5 * pollEvery) {
		if err := f(t.Context()); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
}
