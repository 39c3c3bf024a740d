package node

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/consensus"
	"github.com/quorate/quorate/statestore"
)

// member is what this node says of itself. Its role, once recorded, is for
// operators to change.
func (n *Node) member() statestore.Member {
	m := memberOf(n.cfg, n.id.Nonce, n.role(), n.opts.Version, n.mesh.Issuer())
	m.Geo = n.places.index.Load().Build()
	return m
}

// memberOf is what a node with that node.yaml says of itself.
func memberOf(cfg *config.Node, nonce string, role statestore.MemberRole, version, issuer string) statestore.Member {
	return statestore.Member{
		Name:   cfg.Name,
		Nonce:  nonce,
		Region: cfg.Region,
		Role:   role,
		Labels: cfg.Labels,
		Peer:   cfg.Peer.Advertise,
		API:    cfg.API.ExternalURL,
		DNS: statestore.Advertise{
			Name: cfg.DNS.Advertise.Name,
			IPv4: cfg.DNS.Advertise.IPv4,
			IPv6: cfg.DNS.Advertise.IPv6,
		},
		Version:  version,
		Supports: statestore.SupportedLevel,
		CA:       issuer,
		Observes: cfg.Observer.Enabled,
	}
}

// How often a node compares what it is with what the members' table says, and how
// long it waits after that was refused: asking every second for what is not
// granted only fills the log of everybody.
const (
	memberCheck   = time.Second
	memberRefused = 30 * time.Second
)

// memberWriter remembers what it said of failed writes to the members' table.
type memberWriter struct {
	log  *slog.Logger
	said string
}

// failed logs why the table was not written and returns when to try again. What
// the installation refuses stays so until somebody acts, so it is said aloud, once.
func (w *memberWriter) failed(err error) time.Duration {
	var refused *statestore.Refusal
	if !errors.As(err, &refused) {
		w.log.Debug("members' table not updated yet", keyErr, err)
		return memberCheck
	}
	if w.said != refused.Text {
		w.said = refused.Text
		w.log.Warn("the installation refuses what this node's node.yaml says of it and goes on with the old record", keyErr, err)
	}
	return memberRefused
}

func (w *memberWriter) done() { w.said = "" }

// keepMember writes this node into the members' table, and again whenever what
// it is differs from what stands there. A removed node does not come back so.
func (n *Node) keepMember(ctx context.Context) error {
	w := memberWriter{log: n.log}
	written := false
	for ctx.Err() == nil {
		wait := memberCheck
		if !written && n.view.State().Members[n.cfg.Name] == nil {
			wait = bootstrapRetry // whoever starts an installation waits for this record
		}
		if n.mayWrite(written) {
			if err := n.writeMember(ctx); err != nil && ctx.Err() == nil {
				wait = w.failed(err)
			} else {
				w.done()
				written = true
			}
		}
		sleep(ctx, wait)
	}
	return nil
}

// mayWrite reports whether this node's record is out of date, and its to write:
// it is part of the Raft configuration and was not removed since it was written.
func (n *Node) mayWrite(written bool) bool {
	st := n.view.State()
	if st.Installation == "" {
		return false
	}
	mine := n.member()
	recorded := st.Members[n.cfg.Name]
	if recorded == nil {
		return !written && slices.ContainsFunc(n.raft.Servers(), func(s consensus.Server) bool {
			return s.Name == mine.Name && s.Nonce == mine.Nonce
		})
	}
	return recorded.Nonce == mine.Nonce && !sameMember(*recorded, mine)
}

func (n *Node) writeMember(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	res, err := n.propose(ctx, statestore.UpsertMember{Member: n.member()})
	if err != nil {
		return err
	}
	return res.Err
}

// sameMember compares what a member says of itself; when it was added is not its to say.
func sameMember(a, b statestore.Member) bool {
	return a.Name == b.Name && a.Nonce == b.Nonce && a.Region == b.Region && a.Role == b.Role &&
		maps.Equal(a.Labels, b.Labels) && a.Peer == b.Peer && a.API == b.API &&
		a.DNS.Name == b.DNS.Name && slices.Equal(a.DNS.IPv4, b.DNS.IPv4) && slices.Equal(a.DNS.IPv6, b.DNS.IPv6) &&
		a.Version == b.Version && a.Supports == b.Supports && a.CA == b.CA && a.Observes == b.Observes && a.Geo == b.Geo
}

// removeMember takes a member out of Raft and of the members' table, in that
// order: a crash between leaves a row that can be removed again, never a server
// that nobody knows.
func (n *Node) removeMember(ctx context.Context, name, reason string, o api.Origin) error {
	inRaft := slices.ContainsFunc(n.raft.Servers(), func(s consensus.Server) bool { return s.Name == name })
	if !inRaft && n.view.State().Members[name] == nil {
		return statestore.ErrNotFound
	}
	if err := n.view.State().MayRemove(name); err != nil { // before Raft, which would not take it back
		return err
	}
	if inRaft {
		if err := n.raft.Remove(ctx, name); err != nil {
			if errors.Is(err, consensus.ErrUnsafe) {
				return &statestore.Refusal{Code: statestore.ErrFloor.Code, Text: whyUnsafe(err)}
			}
			return err
		}
	}
	if n.view.State().Members[name] == nil {
		return nil
	}
	return n.commit(ctx, statestore.RemoveMember{Name: name, Reason: reason}, o, "remove")
}

// whyUnsafe is the sentence about the member, without what was called on the way
// to it: the person knows what they asked for.
func whyUnsafe(err error) string {
	if _, why, ok := strings.Cut(err.Error(), consensus.ErrUnsafe.Error()+": "); ok {
		return why
	}
	return err.Error()
}
