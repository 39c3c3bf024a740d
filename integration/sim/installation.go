// Package sim runs whole installations in memory and in virtual time: the real
// Raft library, state machine, controller, policy, routing and reports, wired as
// cmd/quorate/node wires them, with scripted votes and a network that can be cut.
//
// Every installation is watched while it runs, by rules of its own (watch.go).
// A scenario therefore asserts only what is special about it.
package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/consensus"
	"github.com/quorate/quorate/consensus/consensustest"
	"github.com/quorate/quorate/controller"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/statestore"
)

// regions are where the nodes n1, n2 and so on are, one each.
var regions = []string{"eu", "us", "ap", "sa", "af"}

// options shape an installation. The zero value is five voters on a LAN that
// serve spec().
type options struct {
	nodes   int // 0: 5
	spec    *statestore.Spec
	profile consensus.Profile
	storage func(node string, s *consensus.Storage) *consensus.Storage
	probers bool // real probers on a world of their own, instead of scripted votes
}

// installation is a running installation. It belongs to the test's goroutine.
type installation struct {
	t     *testing.T
	raft  *consensustest.Cluster
	opts  options
	nodes map[string]*node
	start time.Time
	watch *watch
	world *world

	// ended stops what accompanies the installation.
	ended  context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// run runs a scenario on a settled installation: every cluster is up and every
// node answers.
func run(t *testing.T, opts options, scenario func(t *testing.T, i *installation)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		scenario(t, assemble(t, opts))
	})
}

// assemble brings an installation up and waits until it has settled.
func assemble(t *testing.T, opts options) *installation {
	t.Helper()
	if opts.nodes == 0 {
		opts.nodes = len(regions)
	}
	if opts.spec == nil {
		opts.spec = spec()
	}
	if opts.profile == (consensus.Profile{}) {
		opts.profile = consensus.LAN()
	}
	i := &installation{t: t, opts: opts, nodes: map[string]*node{}, start: time.Now(), watch: newWatch(t), world: newWorld()}
	i.ended, i.cancel = context.WithCancel(context.Background())
	for k := range opts.nodes {
		n := &node{i: i, name: fmt.Sprintf("n%d", k+1), region: regions[k]}
		n.sight, n.tables.node, n.tables.swapped = newSight(), n, make(chan struct{}, 1)
		i.nodes[n.name] = n
	}
	i.raft = consensustest.New(t, opts.nodes, consensustest.Options{
		Profile: opts.profile,
		Storage: opts.storage,
		Config: func(name string, cfg *consensus.Config) {
			n, store := i.nodes[name], cfg.Store
			cfg.Wall = n.wall
			cfg.OnApply = func(index, term uint64, data []byte) {
				i.watch.applied(name, index, term, data, store.State())
				n.heldUp()
			}
		},
	})
	t.Cleanup(i.close) // before consensustest's own
	for _, n := range i.all() {
		n.wire()
	}
	i.setUp()
	i.wg.Go(func() { i.client(i.ended) })
	return i
}

// setUp commits members and spec and waits until every node serves it.
func (i *installation) setUp() {
	i.t.Helper()
	first := "n1"
	i.must(first, statestore.Initialize{Installation: "sim", CA: statestore.TrustedCA{Fingerprint: "f", PEM: "p"}})
	for k, n := range i.all() {
		i.must(first, statestore.UpsertMember{Member: statestore.Member{
			Name: n.name, Nonce: "a", Region: n.region, Role: statestore.Voter, Peer: n.name + ":7654",
			DNS:     statestore.Advertise{IPv4: []netip.Addr{netip.AddrFrom4([4]byte{198, 51, 100, byte(k + 1)})}},
			Version: "1.0.0", Supports: statestore.SupportedLevel, Observes: true,
		}})
	}
	i.must(first, statestore.ApplySpec{
		Source: "sim", Spec: i.opts.spec,
		Rotations: policy.DiffSpec(i.state(first), i.opts.spec).Rotations,
	})
	for _, n := range i.all() {
		n.sight.open(i.opts.spec) // an observer votes on what it knows of
	}
	i.until("everything to be up and served", func() bool {
		return i.everywhere(func(n *node) bool { return i.allUp(n) && n.tables.index() == n.view.State().TableIndex })
	})
	i.settle()
}

// close ends everything.
func (i *installation) close() {
	i.cancel()
	i.wg.Wait()
	for _, n := range i.all() {
		if n.up() {
			n.kill()
		}
	}
}

// finish heals everything, brings every node back and waits until all agree;
// then nothing that was acknowledged may be missing (G7).
func (i *installation) finish() {
	i.t.Helper()
	i.raft.Net.Heal()
	for _, n := range i.all() {
		n.release()
		if !n.up() {
			n.restart()
		}
	}
	i.raft.WaitLeader()
	i.settle()
	for _, n := range i.all() {
		i.watch.checkAcknowledged(n.name, n.view.State())
	}
}

// all returns every node, up or not, by name.
func (i *installation) all() []*node {
	var ns []*node
	for k := range len(i.nodes) {
		ns = append(ns, i.nodes[fmt.Sprintf("n%d", k+1)])
	}
	return ns
}

// running returns the nodes that are up.
func (i *installation) running() []*node {
	return slices.DeleteFunc(i.all(), func(n *node) bool { return !n.up() })
}

// everywhere reports whether ok holds on every running node.
func (i *installation) everywhere(ok func(n *node) bool) bool {
	return !slices.ContainsFunc(i.running(), func(n *node) bool { return !ok(n) })
}

// state returns what the named node knows.
func (i *installation) state(name string) *statestore.State { return i.nodes[name].view.State() }

// until polls in virtual time until ok, for a minute at most.
func (i *installation) until(what string, ok func() bool) {
	i.t.Helper()
	i.raft.Until(what, ok)
}

// settle waits until every running node has applied the same and serves it.
func (i *installation) settle() {
	i.t.Helper()
	i.raft.Settle()
	i.until("tables of the newest state", func() bool {
		return i.everywhere(func(n *node) bool { return n.tables.index() == n.view.State().TableIndex })
	})
}

// leader returns the node that leads, waiting for one among the named, or all
// that are up.
func (i *installation) leader(among ...string) *node {
	i.t.Helper()
	return i.nodes[i.raft.WaitLeader(among...)]
}

// follower returns a running node that does not lead.
func (i *installation) follower() *node {
	i.t.Helper()
	return i.nodes[i.raft.Follower(i.leader().name)]
}

// must proposes at a node; it has to be done.
func (i *installation) must(node string, cmd statestore.Command) {
	i.t.Helper()
	i.until(fmt.Sprintf("%T to be done", cmd), func() bool {
		err := i.propose(node, cmd)
		require.False(i.t, err != nil && errors.As(err, new(*statestore.Refusal)), "%T: %v", cmd, err)
		return err == nil
	})
}

// propose proposes once, as a person would, and remembers what was acknowledged.
func (i *installation) propose(node string, cmd statestore.Command) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	res, err := i.raft.Node(node).Propose(ctx, cmd, consensus.Origin{Actor: "alice"})
	if err == nil {
		err = res.Err
	}
	if err == nil {
		i.watch.acknowledge(cmd)
	}
	return err
}

// cluster switches a cluster for every observer that is not blind to it.
func (i *installation) cluster(name string, side health.Side) { i.clusters(side, name) }

// clusters switches several in the same instant.
func (i *installation) clusters(side health.Side, names ...string) {
	for _, name := range names {
		i.world.set(name, side)
	}
	for _, n := range i.all() {
		n.sight.set(side, names...)
	}
}

// allUp reports whether the node holds every verdict to be up.
func (i *installation) allUp(n *node) bool {
	st := n.view.State()
	for _, t := range i.opts.spec.Targets() {
		if ts, ok := st.Target(t); !ok || ts.Verdict.Side != health.Up {
			return false
		}
	}
	return true
}

// side returns the verdict on web at a cluster as the node has it.
func (n *node) side(cluster string) health.Side {
	ts, ok := n.view.State().Target(target("web", cluster))
	require.True(n.i.t, ok)
	return ts.Verdict.Side
}

// inRotation lists the clusters a service answers with, as the node has it.
func (n *node) inRotation(service string) []string {
	var names []string
	for _, s := range n.view.State().Services[service].Rotation.V4.Shares {
		names = append(names, s.Cluster)
	}
	return names
}

// verdicts returns the number of every verdict as the node has it.
func (n *node) verdicts() map[health.Target]uint64 {
	numbers := map[health.Target]uint64{}
	for t, ts := range policy.TargetStates(n.view.State()) {
		numbers[t] = ts.Verdict.Number
	}
	return numbers
}

// split cuts every link between the named nodes and the rest.
func (i *installation) split(side ...string) { i.raft.Split(side, i.raft.Others(side...)) }

// methodReport carries reports to the leader, as in cmd/quorate/node.
const methodReport = "observer.report"

// askLeader calls a method of the leader with JSON bodies.
func askLeader(ctx context.Context, r *consensus.Node, req controller.Report) (reply controller.Reply, err error) {
	body, err := json.Marshal(req)
	if err != nil {
		return reply, err
	}
	out, err := r.CallLeader(ctx, methodReport, body)
	if err != nil {
		return reply, err
	}
	return reply, json.Unmarshal(out, &reply)
}
