package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/consensus"
	"github.com/quorate/quorate/statestore"
)

// Seed is left by `quorate init` for the first start of the first node.
type Seed struct {
	Installation string               `json:"installation"`
	Token        *statestore.PutToken `json:"token,omitempty"` // of the first person
}

// WriteSeed leaves seed in a data directory.
func WriteSeed(dataDir string, seed Seed) error {
	return writeJSON(filepath.Join(dataDir, seedFile), seed)
}

// bootstrapRetry is how often a node that has no log looks again for the others.
const bootstrapRetry = 200 * time.Millisecond

// bootstrap brings a node without a log into one: the first node of an
// installation starts it alone (seed), nodes whose certificates were made
// beforehand start it together (bootstrap.expect), and a node that joined just
// waits for the leader to reach it. It ends when this node's installation is
// initialized.
func (n *Node) bootstrap(ctx context.Context) error {
	var seed Seed
	seeded, err := readJSON(n.dir.join(seedFile), &seed)
	if err != nil {
		return err
	}
	for ctx.Err() == nil && !n.raft.HasState() {
		switch {
		case seeded:
			err = n.raft.Bootstrap([]consensus.Server{{Name: n.cfg.Name, Nonce: n.id.Nonce, Voter: true}})
		case n.cfg.Peer.Expect > 0 && n.cfg.Voter:
			err = n.bootstrapTogether(ctx)
		default:
			return nil
		}
		if err != nil {
			n.log.Debug("not bootstrapped yet", keyErr, err)
		}
		sleep(ctx, bootstrapRetry)
	}
	return n.initialize(ctx, seed, seeded)
}

// bootstrapTogether starts the installation once all expected voters answer. Only
// the first by name does it, and only while no other has a log: a second
// bootstrap would fork the installation.
func (n *Node) bootstrapTogether(ctx context.Context) error {
	servers := []consensus.Server{{Name: n.cfg.Name, Nonce: n.id.Nonce, Voter: true}}
	for _, addr := range n.cfg.Peer.Join {
		if addr == n.cfg.Peer.Advertise {
			continue
		}
		g, err := n.hello(ctx, addr)
		if err != nil {
			return err
		}
		if g.Started {
			return fmt.Errorf("%s is part of an installation already; this node waits to be let in", g.Name)
		}
		if g.Voter && !slices.ContainsFunc(servers, func(s consensus.Server) bool { return s.Name == g.Name }) {
			servers = append(servers, consensus.Server{Name: g.Name, Nonce: g.Nonce, Voter: true})
		}
	}
	if len(servers) != n.cfg.Peer.Expect {
		return fmt.Errorf("bootstrap.expect is %d, %d voters answer", n.cfg.Peer.Expect, len(servers))
	}
	slices.SortFunc(servers, func(a, b consensus.Server) int { return strings.Compare(a.Name, b.Name) })
	if servers[0].Name != n.cfg.Name {
		return fmt.Errorf("%s bootstraps", servers[0].Name)
	}
	return n.raft.Bootstrap(servers)
}

// initialize writes the first entries of a new installation, from whichever node
// leads it.
func (n *Node) initialize(ctx context.Context, seed Seed, seeded bool) error {
	for ctx.Err() == nil && n.view.State().Installation == "" {
		if n.raft.IsLeader() {
			if err := n.initializeOnce(ctx, seed, seeded); err != nil && ctx.Err() == nil {
				n.log.Warn("installation not initialized yet", keyErr, err)
			}
		}
		sleep(ctx, bootstrapRetry)
	}
	if !seeded || ctx.Err() != nil {
		return nil
	}
	// The seed is removed last: a crash before this repeats what is refused as done.
	if seed.Token != nil && n.view.State().Tokens[seed.Token.ID] == nil {
		if res, err := n.propose(ctx, *seed.Token); err != nil {
			return err
		} else if res.Err != nil && !errors.Is(res.Err, statestore.ErrExists) {
			return res.Err
		}
	}
	return os.Remove(n.dir.join(seedFile))
}

func (n *Node) initializeOnce(ctx context.Context, seed Seed, seeded bool) error {
	installation := n.mesh.Identity().Installation
	if seeded && seed.Installation != installation {
		return fmt.Errorf("the seed is of installation %q, the certificate of %q", seed.Installation, installation)
	}
	trust := n.mesh.Trust()
	if len(trust) == 0 {
		return errors.New("no CA is trusted")
	}
	ca, err := trustedCA(trust[0])
	if err != nil {
		return err
	}
	res, err := n.propose(ctx, statestore.Initialize{Installation: installation, CA: ca})
	if err != nil {
		return err
	}
	return res.Err
}

// propose commits a command in this node's own name.
func (n *Node) propose(ctx context.Context, cmd statestore.Command) (statestore.Result, error) {
	return n.raft.Propose(ctx, cmd, consensus.Origin{Actor: "node/" + n.cfg.Name})
}

// sleep waits for d or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("marshal %T: %v", v, err)) // plain data always marshals
	}
	return b
}

func parseGreeting(from string, body []byte) (greeting, error) {
	var g greeting
	if err := json.Unmarshal(body, &g); err != nil {
		return g, fmt.Errorf("read greeting of %s: %w", from, err)
	}
	if g.Name != from {
		return g, fmt.Errorf("%s greets as %q", from, g.Name)
	}
	return g, nil
}
