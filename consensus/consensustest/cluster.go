// Package consensustest runs consensus nodes in memory, for tests: a network that
// can be cut, stores that survive a restart, and the helpers scenarios need. It
// works inside a testing/synctest bubble and outside.
package consensustest

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/consensus"
	"github.com/quorate/quorate/statestore"
)

// Options shape a Cluster. The zero value is three or more voters of the LAN
// profile with stores in memory.
type Options struct {
	Profile   consensus.Profile // zero: LAN
	Nonvoters int               // that many of the nodes, the last by name, do not vote
	Disk      bool              // real stores in t.TempDir
	Idle      bool              // bootstrap nothing
	Latency   time.Duration     // of every link, one way
	Log       *slog.Logger      // nil discards

	// Storage may wrap the store of a node each time raft starts on it.
	Storage func(name string, s *consensus.Storage) *consensus.Storage
	// Config may change a node's configuration before it is opened.
	Config func(name string, cfg *consensus.Config)
}

// Cluster is a set of nodes named n1, n2 and so on. It is used from one goroutine.
type Cluster struct {
	Net   *Network
	t     testing.TB
	opts  Options
	names []string
	nodes map[string]*member
	start time.Time
}

type member struct {
	nonce string
	disk  *consensus.Storage // in memory; nil with Options.Disk
	dir   string
	node  *consensus.Node // nil while it is down
	store *statestore.Store
}

// New brings up n nodes and, unless Idle, bootstraps them and waits for a leader.
// They are closed when the test ends.
func New(t testing.TB, n int, opts Options) *Cluster {
	t.Helper()
	if opts.Profile == (consensus.Profile{}) {
		opts.Profile = consensus.LAN()
	}
	c := &Cluster{Net: NewNetwork(), t: t, opts: opts, nodes: map[string]*member{}, start: time.Now()}
	c.Net.Latency = opts.Latency
	var voters []consensus.Server
	for i := range n {
		name := fmt.Sprintf("n%d", i+1)
		c.Add(name, "a")
		if i < n-opts.Nonvoters {
			voters = append(voters, consensus.Server{Name: name, Nonce: "a"})
		}
	}
	t.Cleanup(c.Close)
	if opts.Idle {
		return c
	}
	for _, v := range voters {
		require.NoError(t, c.Node(v.Name).Bootstrap(voters))
	}
	leader := c.WaitLeader()
	for _, name := range c.names[n-opts.Nonvoters:] {
		require.NoError(t, c.Node(leader).AddNonvoter(t.Context(), name, "a"))
	}
	return c
}

// Add brings up one more node with an empty store. It is not a member yet.
func (c *Cluster) Add(name, nonce string) {
	c.t.Helper()
	m := &member{nonce: nonce}
	if c.opts.Disk {
		m.dir = filepath.Join(c.t.TempDir(), name)
	} else {
		mem := raft.NewInmemStore()
		m.disk = &consensus.Storage{Log: mem, Stable: mem, Snapshots: raft.NewInmemSnapshotStore()}
	}
	if c.nodes[name] == nil {
		c.names = append(c.names, name)
	}
	c.nodes[name] = m
	c.up(name)
}

func (c *Cluster) up(name string) {
	c.t.Helper()
	m := c.nodes[name]
	m.store = statestore.NewStore()
	cfg := consensus.Config{
		Name: name, Nonce: m.nonce, Dir: m.dir, Store: m.store,
		Links: c.Net.Links(name), PeerName: PeerName,
		Addr:    func(name string) string { return name },
		Profile: c.opts.Profile,
		Clock:   func() time.Duration { return time.Since(c.start) },
		Log:     c.opts.Log,
	}
	if m.disk != nil {
		cfg.Storage = func() (*consensus.Storage, error) {
			s := *m.disk
			if c.opts.Storage != nil {
				return c.opts.Storage(name, &s), nil
			}
			return &s, nil
		}
	}
	if c.opts.Config != nil {
		c.opts.Config(name, &cfg)
	}
	node, err := consensus.Open(cfg)
	require.NoError(c.t, err)
	m.node = node
}

// Node returns a node that is up.
func (c *Cluster) Node(name string) *consensus.Node {
	c.t.Helper()
	require.NotNil(c.t, c.nodes[name].node, "%s is down", name)
	return c.nodes[name].node
}

// Store returns a node's replicated state.
func (c *Cluster) Store(name string) *statestore.Store { return c.nodes[name].store }

// Names lists all nodes, up or not, in the order they were added.
func (c *Cluster) Names() []string { return slices.Clone(c.names) }

// Up lists the nodes that are up.
func (c *Cluster) Up() []string {
	return slices.DeleteFunc(c.Names(), func(name string) bool { return c.nodes[name].node == nil })
}

// Others lists all nodes but these.
func (c *Cluster) Others(but ...string) []string {
	return slices.DeleteFunc(c.Names(), func(name string) bool { return slices.Contains(but, name) })
}

// Kill ends a node as kill -9 would: the others see its connections reset, and it
// hands nothing over.
func (c *Cluster) Kill(name string) {
	c.t.Helper()
	c.Net.Down(name)
	require.NoError(c.t, c.Node(name).Close())
	c.nodes[name].node = nil
}

// Stop closes a node in order.
func (c *Cluster) Stop(name string) {
	c.t.Helper()
	require.NoError(c.t, c.Node(name).Close())
	c.Net.Down(name)
	c.nodes[name].node = nil
}

// Restart brings a node back on the store it had, with an empty state.
func (c *Cluster) Restart(name string) {
	c.t.Helper()
	if c.nodes[name].node != nil {
		c.Kill(name)
	}
	c.up(name)
}

// Close ends all nodes.
func (c *Cluster) Close() {
	for _, name := range c.Up() {
		c.Kill(name)
	}
}

// Isolate cuts a node off from all others, both ways.
func (c *Cluster) Isolate(name string) { c.Net.Isolate(name, c.names...) }

// Split cuts every link between the two sides.
func (c *Cluster) Split(a, b []string) {
	for _, x := range a {
		c.Net.Isolate(x, b...)
	}
}

// Until polls until ok, or fails the test after a minute.
func (c *Cluster) Until(what string, ok func() bool) {
	c.t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			require.FailNow(c.t, "timed out: "+what, "%s", c.describe())
		}
	}
}

func (c *Cluster) describe() (s string) {
	for _, name := range c.Up() {
		s += fmt.Sprintf("%s %+v\n", name, c.nodes[name].node.Health())
	}
	return s
}

// WaitLeader waits until one of the nodes, of all that are up by default, leads,
// holds its lease, and all of them follow it. It returns its name.
func (c *Cluster) WaitLeader(among ...string) string {
	c.t.Helper()
	if len(among) == 0 {
		among = c.Up()
	}
	var leader string
	c.Until("a leader", func() bool {
		i := slices.IndexFunc(among, func(name string) bool { return c.nodes[name].node.IsLeader() })
		if i < 0 {
			return false
		}
		leader = among[i]
		for _, name := range among {
			h := c.nodes[name].node.Health()
			if h.Parked == "" && h.Voters > 0 && h.Leader != leader {
				return false
			}
		}
		return true
	})
	return leader
}

// Follower returns a node that is up and not the leader.
func (c *Cluster) Follower(leader string) string {
	c.t.Helper()
	for _, name := range c.Up() {
		if name != leader {
			return name
		}
	}
	require.FailNow(c.t, "no follower")
	return ""
}

// Propose proposes at a node and fails the test unless it commits and is done.
func (c *Cluster) Propose(name string, cmd statestore.Command) statestore.Result {
	c.t.Helper()
	res, err := c.Node(name).Propose(context.Background(), cmd, consensus.Origin{Actor: "test"})
	require.NoError(c.t, err)
	require.NoError(c.t, res.Err)
	return res
}

// Settle waits until the nodes, all that are up by default, have applied the same
// index, and fails the test unless their states are then equal (I8).
func (c *Cluster) Settle(names ...string) {
	c.t.Helper()
	if len(names) == 0 {
		names = c.Up()
	}
	// The states are kept as they were found equal: entries may go on coming.
	states := make([]*statestore.State, len(names))
	c.Until("equal indexes", func() bool {
		for i, name := range names {
			states[i] = c.Store(name).State()
		}
		first := states[0].Index
		return first > 0 && !slices.ContainsFunc(states, func(st *statestore.State) bool { return st.Index != first })
	})
	for i, name := range names {
		require.Equal(c.t, states[0].Hash(), states[i].Hash(), "%s and %s", names[0], name)
	}
}
