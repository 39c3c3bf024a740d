// Package dev is the demo: real nodes and fake clusters on this machine.
//
// Each node is the code path of `quorate server` from a node.yaml written here,
// with a store, mutual TLS and TCP ports of its own. The demo needs no root, no
// network and no file that exists before, and removes what it made when it ends.
// It breaks only what a person asks it to break.
package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/cmd/quorate/dev/database"
	"github.com/quorate/quorate/cmd/quorate/dev/tour"
	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/consensus/mesh"
)

// Config says what the demo is to be.
type Config struct {
	Nodes        int
	Version      string
	ContextsPath string    // where the client finds the demo
	Out          io.Writer // banner or JSON line
	Err          io.Writer // what happens while it runs
	JSON         bool      // one line for scripts instead of the banner
	Scenario     string    // plays it and ends; empty: runs until it is told to end
	Log          *slog.Logger

	stage func(*tour.Config) // changes what a scenario sees; tests plant failures
}

// installation is the demo's name in certificates.
const installation = "dev.quorate.test"

// maxNodes is how many regions the demo knows.
var maxNodes = len(sites)

// Demo is a running demo.
type Demo struct {
	cfg      Config
	dir      string
	nodes    []*demoNode
	clusters []*fakeCluster
	faults   *faults
	users    []demoUser
	data     *database.Set

	sayMu sync.Mutex // serialises what is told to people
}

// Run runs a demo until ctx ends.
func Run(ctx context.Context, cfg Config) (err error) {
	if cfg.Nodes < 1 || cfg.Nodes > maxNodes {
		return fmt.Errorf("%w: --nodes must be 1 to %d, is %d", ErrUsage, maxNodes, cfg.Nodes)
	}
	if err := cfg.checkScenario(); err != nil {
		return err
	}
	d := &Demo{cfg: cfg, faults: newFaults()}
	if d.dir, err = os.MkdirTemp("", "quorate-dev-"); err != nil {
		return fmt.Errorf("make the demo's folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(d.dir)) }()
	bound := sync.OnceFunc(takeTurn(ctx))
	defer bound()
	if err := d.prepare(); err != nil {
		return err
	}
	defer func() {
		for _, c := range d.clusters {
			c.down()
		}
	}()
	defer d.stopNodes()
	for _, n := range d.nodes {
		if err := n.start(ctx); err != nil {
			return err
		}
	}
	bound()
	if err := d.settle(ctx); err != nil {
		return err
	}
	defer d.startFeeding(ctx)()
	if d.cfg.Scenario != "" {
		return d.play(ctx)
	}
	socket := filepath.Join(d.dir, "control.sock")
	control, err := net.Listen("unix", socket)
	if err != nil {
		return fmt.Errorf("listen for orders: %w", err)
	}
	forget, err := d.remember(socket)
	if err != nil {
		return errors.Join(err, control.Close())
	}
	defer func() { err = errors.Join(err, forget()) }()
	if err := d.announce(); err != nil {
		return errors.Join(err, control.Close())
	}
	return d.serveControl(ctx, control)
}

// prepare makes clusters, certificates and node.yaml files.
func (d *Demo) prepare() error {
	var err error
	d.clusters = placeClusters(sites[:3])
	if err = openServers(d.clusters, func(c *fakeCluster) *fakeServer { return c.web }, firstWebPort); err != nil {
		return err
	}
	if err = d.openData(); err != nil {
		return err
	}
	ports, err := choosePorts(d.cfg.Nodes)
	if err != nil {
		return err
	}
	authority, err := mesh.NewAuthority(installation, time.Now())
	if err != nil {
		return err
	}
	names := map[string]string{} // peer address -> node
	for i, p := range ports {
		names[fmt.Sprintf("127.0.0.1:%d", p.peer)] = sites[i].node
	}
	for i, p := range ports {
		s := sites[i]
		dir := filepath.Join(d.dir, s.node)
		var peers []int
		for j, other := range ports {
			if j != i {
				peers = append(peers, other.peer)
			}
		}
		id := mesh.Identity{Installation: installation, Name: s.node, Role: mesh.RoleVoter}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		if err := mesh.IssueTo(filepath.Join(dir, "mesh"), authority, id, time.Now()); err != nil {
			return err
		}
		path := filepath.Join(d.dir, s.node+".yaml")
		if err := writeFile(path, nodeYAML(s, dir, p, peers, d.cfg.Nodes)); err != nil {
			return err
		}
		cfg, errs, _ := config.LoadNode(path)
		if len(errs) > 0 {
			return fmt.Errorf("the demo's own node.yaml is wrong:\n%s", config.Format(errs))
		}
		d.nodes = append(d.nodes, &demoNode{name: s.node, region: s.region, ports: p, cfg: cfg, demo: d, peers: names})
	}
	for _, name := range []string{"alice", "bob", "carol"} {
		u, err := newUser(d.dir, name)
		if err != nil {
			return err
		}
		d.users = append(d.users, u)
	}
	return nil
}

// settle waits for a leader, lets the users in, applies the spec and returns when
// every node answers.
func (d *Demo) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	first := d.nodes[0]
	if err := first.waitMembers(ctx, len(d.nodes)); err != nil {
		return err
	}
	for _, u := range d.users {
		if err := first.admin(ctx, u.put()); err != nil {
			return fmt.Errorf("let %s in: %w", u.name, err)
		}
	}
	if err := first.apply(ctx, specYAML(d.clusters, len(d.nodes))); err != nil {
		return fmt.Errorf("apply the demo's spec: %w", err)
	}
	for _, n := range d.nodes {
		if err := n.waitAnswering(ctx); err != nil {
			return err
		}
	}
	return nil
}

// settleTimeout bounds the start; it takes about two seconds.
const settleTimeout = 30 * time.Second

func (d *Demo) stopNodes() {
	var wg sync.WaitGroup
	for _, n := range d.nodes {
		wg.Go(n.kill)
	}
	wg.Wait()
}

// remember writes the context by which the client finds the demo, and returns
// what takes it away again.
func (d *Demo) remember(socket string) (forget func() error, err error) {
	contexts, err := config.LoadContexts(d.cfg.ContextsPath)
	if err != nil {
		return nil, err
	}
	demo := &config.DemoContext{
		Control: socket, Previous: contexts.Current,
		Users: map[string]string{}, DNS: map[string]string{}, APIs: map[string]string{},
	}
	var running *config.Context // a demo before this one, found again after it
	if before, ok := contexts.Contexts[contextName]; ok && before.Demo != nil {
		if demo.Previous == contextName {
			demo.Previous = before.Demo.Previous
		}
		if answers(before.Demo.Control) {
			running = &before
			d.say("another demo runs; until this one ends, every verb talks to this one")
		}
	}
	if demo.Previous == contextName {
		demo.Previous = ""
	}
	c := config.Context{TokenFile: d.users[0].file, Demo: demo}
	for _, n := range d.nodes {
		c.Addr = append(c.Addr, n.apiURL())
		demo.DNS[n.name], demo.APIs[n.name] = n.dnsAddr(), n.apiURL()
	}
	for _, u := range d.users {
		demo.Users[u.name] = u.file
	}
	if contexts.Contexts == nil {
		contexts.Contexts = map[string]config.Context{}
	}
	contexts.Contexts[contextName] = c
	contexts.Current = contextName
	if err := config.SaveContexts(d.cfg.ContextsPath, contexts); err != nil {
		return nil, err
	}
	return func() error { return d.forget(socket, running) }, nil
}

// answers reports whether a demo listens on its control socket; one that crashed
// left only the name behind.
func answers(socket string) bool {
	conn, err := net.DialTimeout("unix", socket, time.Second)
	if err != nil {
		return false
	}
	_ = conn.Close() // only asked whether somebody is there
	return true
}

// contextName is the demo's context.
const contextName = "dev"

// forget takes the demo's context away, unless another demo has replaced it, and
// gives its place back to the demo before it if that still runs.
func (d *Demo) forget(socket string, before *config.Context) error {
	contexts, err := config.LoadContexts(d.cfg.ContextsPath)
	if err != nil {
		return err
	}
	c, ok := contexts.Contexts[contextName]
	if !ok || c.Demo == nil || c.Demo.Control != socket {
		return nil
	}
	if before != nil && answers(before.Demo.Control) {
		contexts.Contexts[contextName] = *before
		return config.SaveContexts(d.cfg.ContextsPath, contexts)
	}
	delete(contexts.Contexts, contextName)
	if contexts.Current == contextName {
		contexts.Current = ""
		if _, ok := contexts.Contexts[c.Demo.Previous]; ok {
			contexts.Current = c.Demo.Previous
		}
	}
	return config.SaveContexts(d.cfg.ContextsPath, contexts)
}

// say tells people what happened, with its time.
func (d *Demo) say(format string, args ...any) {
	d.sayMu.Lock()
	defer d.sayMu.Unlock()
	fmt.Fprintf(d.cfg.Err, "%s  %s\n", time.Now().UTC().Format("15:04:05Z"), fmt.Sprintf(format, args...))
}

// demoUsers are the people of the demo as the console knows them.
func (d *Demo) demoUsers() *api.Demo {
	var users []api.DemoUser
	for _, u := range d.users {
		users = append(users, api.DemoUser{Name: u.name, Groups: u.groups})
	}
	return &api.Demo{Users: users}
}

func (d *Demo) leader() string {
	for _, n := range d.nodes {
		if running := n.running(); running != nil {
			if name, ok := running.Raft().Leader(); ok {
				return name
			}
		}
	}
	return "none"
}

func (d *Demo) clusterList() string {
	var parts []string
	for _, c := range d.clusters {
		parts = append(parts, c.name+" "+c.addr.String())
	}
	return strings.Join(parts, "   ")
}
