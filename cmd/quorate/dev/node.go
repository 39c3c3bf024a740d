package dev

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/api/client"
	"github.com/quorate/quorate/cmd/quorate/node"
	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/consensus"
	dnsclient "github.com/quorate/quorate/dnsserver/client"
	"github.com/quorate/quorate/probe"
	"github.com/quorate/quorate/statestore"
)

// demoNode is one node of the demo, running or not.
type demoNode struct {
	name   string
	region string
	ports  ports
	cfg    *config.Node
	demo   *Demo
	peers  map[string]string // peer address -> node

	mu     sync.Mutex // guards what follows
	node   *node.Node // nil: not running
	cancel context.CancelFunc
	done   chan struct{} // closed when the run has ended
}

func (n *demoNode) dnsAddr() string { return fmt.Sprintf("127.0.0.1:%d", n.ports.dns) }
func (n *demoNode) socket() string  { return filepath.Join(n.demo.dir, n.name+".sock") }
func (n *demoNode) apiURL() string  { return fmt.Sprintf("http://127.0.0.1:%d", n.ports.api) }

// running returns the node while it runs, else nil.
func (n *demoNode) running() *node.Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.node
}

// start opens and runs the node. It does nothing when the node runs.
func (n *demoNode) start(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.node != nil {
		return nil
	}
	d := n.demo
	log := d.cfg.Log
	if log == nil {
		log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	opened, err := node.Open(n.cfg, node.Options{
		Version: d.cfg.Version,
		Socket:  n.socket(),
		WrapProbe: func(next probe.DialFunc) probe.DialFunc {
			return d.faults.probeDial(n.name, d.clusters, next)
		},
		WrapPeer: func(next node.DialFunc) node.DialFunc {
			return d.faults.peerDial(n.name, n.peers, next)
		},
		Demo: d.demoUsers(),
		Log:  log,
	})
	if err != nil {
		return fmt.Errorf("start %s: %w", n.name, err)
	}
	// The node outlives the order that started it.
	runCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	n.node, n.cancel, n.done = opened, cancel, done
	go func() {
		defer close(done)
		if err := opened.Run(runCtx); err != nil {
			d.say("%s: %v", n.name, err)
		}
	}()
	return nil
}

// kill ends the node and waits for it. It does nothing when the node does not run.
func (n *demoNode) kill() {
	n.mu.Lock()
	cancel, done := n.cancel, n.done
	n.node, n.cancel = nil, nil
	n.mu.Unlock()
	if cancel == nil {
		return
	}
	cancel()
	<-done
}

// waitMembers returns when the node sees all n members in the installation.
func (n *demoNode) waitMembers(ctx context.Context, members int) error {
	for len(n.running().Store().State().Members) < members {
		if ctx.Err() != nil {
			return fmt.Errorf("no quorum of %d nodes within %s", members, settleTimeout)
		}
		pause(ctx)
	}
	return nil
}

// admin proposes a command in the demo's own name.
func (n *demoNode) admin(ctx context.Context, cmd statestore.Command) error {
	res, err := n.running().Raft().Propose(ctx, cmd, consensus.Origin{Actor: "dev"})
	if err != nil {
		return err
	}
	return res.Err
}

// apply applies a spec's text through the node's API, as `quorate apply` does.
func (n *demoNode) apply(ctx context.Context, source string) error {
	c, err := client.New(client.Options{Addrs: []string{"unix:" + n.socket()}})
	if err != nil {
		return err
	}
	plan, err := c.Plan(ctx, apitype.PlanRequest{Source: source, Name: "demo.yaml"})
	if err != nil {
		return err
	}
	_, err = c.Apply(ctx, plan.Items[0].ID, apitype.ApplyRequest{Source: source, Reason: "the demo's start"}, "")
	return err
}

// waitAnswering returns when the node answers the demo's services.
func (n *demoNode) waitAnswering(ctx context.Context) error {
	for _, name := range []string{webName, ordersName} {
		for {
			reply, err := dnsclient.Query(ctx, n.dnsAddr(), name+"."+Zone, "A", dnsclient.Options{Timeout: time.Second})
			if err == nil && len(reply.Addresses) > 0 {
				break
			}
			if ctx.Err() != nil {
				return fmt.Errorf("%s does not answer %s within %s", n.name, name, settleTimeout)
			}
			pause(ctx)
		}
	}
	return nil
}

// pause waits a moment between two tries.
func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(20 * time.Millisecond):
	}
}
