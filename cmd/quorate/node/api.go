package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/consensus"
	"github.com/quorate/quorate/statestore"
)

// apiConfig hands the API its parts.
func (n *Node) apiConfig() api.Config {
	return api.Config{
		Node:     n.cfg.Name,
		Version:  n.opts.Version,
		Store:    n.view,
		Proposer: proposer{n.raft},
		IsNoLeader: func(err error) bool {
			return errors.Is(err, consensus.ErrNoLeader) || errors.Is(err, consensus.ErrParked) || errors.Is(err, api.ErrNoLeader) ||
				errors.Is(err, errNotInitialized)
		},
		IsUnknownOutcome: func(err error) bool {
			return errors.Is(err, consensus.ErrUnknownOutcome) || errors.Is(err, api.ErrUnknownOutcome)
		},
		ReadIndex:      n.raft.ReadIndex,
		Quorum:         n.quorum,
		Table:          n.tables.table.Load,
		Decode:         decodeSpec,
		ZoneKeys:       n.zoneKeys,
		Traffic:        n.traffic,
		Call:           n.raft.Call,
		Probe:          n.probeNow,
		Backlog:        n.probeBacklog,
		MissingSecrets: n.missingSecrets,
		Acknowledged:   n.control.Acknowledged,
		MintJoinToken:  n.mintJoinToken,
		RemoveMember:   n.removeMember,
		RollCA:         n.rollCA,
		NodeConfig:     n.nodeConfig,
		Bound:          func() bool { return len(n.dns.Addrs()) >= len(n.cfg.DNS.Listen) },
		LogLevel:       n.opts.Level,
		Reload:         n.Reload,
		Refused:        n.refused,
		Demo:           n.opts.Demo,
		Log:            n.log,
	}
}

// proposer commits through Raft for the API.
type proposer struct{ raft *consensus.Node }

func (p proposer) Propose(ctx context.Context, cmd statestore.Command, o api.Origin) (statestore.Result, error) {
	return p.raft.Propose(ctx, cmd, consensus.Origin(o))
}

// quorum is what this node knows of the quorum now.
func (n *Node) quorum() api.QuorumView {
	h := n.raft.Health()
	view := api.QuorumView{
		HasQuorum: h.Quorum, Leader: h.Leader, Stale: n.age(),
		Voters: h.Voters, VotersUp: h.Reachable, Tolerates: h.Tolerance,
	}
	switch {
	case h.Parked != "":
		view.Trouble = fmt.Sprintf("%s takes no part in the quorum, DNS goes on: %s; remove the cause, then restart quorate", n.cfg.Name, h.Parked)
	case h.Removed:
		view.Trouble = n.cfg.Name + " was removed from the installation, DNS goes on with what it knew; stop it, or join it again"
	}
	for _, s := range n.raft.Servers() {
		view.Servers = append(view.Servers, serverView(s, h, time.Since(n.started)))
	}
	return view
}

// firstHearing is how long a node that has just started may wait for a member's
// first answer before it calls it unreachable.
const firstHearing = 5 * time.Second

// serverView is what a node that runs for so long knows of one server. A leader
// whose word was just heard is there, whether or not it has answered us yet.
func serverView(s consensus.Server, h consensus.Health, running time.Duration) api.RaftServer {
	v := api.RaftServer{
		Name: s.Name, Voter: s.Voter, Reachable: s.Reachable, LastSeen: s.Seen, Trails: s.Behind, Offset: s.Offset,
	}
	if h.Quorum && s.Name == h.Leader && !v.Reachable {
		v.Reachable, v.LastSeen = true, h.LastContact
	}
	v.Awaited = !v.Reachable && v.LastSeen < 0 && running < firstHearing
	return v
}

// decodeSpec reads a spec for the API as check-config does.
func decodeSpec(name string, source []byte) api.Decoded {
	result, errs := config.ParseSpec(name, source)
	if len(errs) == 0 {
		errs = CheckSpec(name, result)
	}
	if len(errs) > 0 {
		out := make([]apitype.FieldError, 0, len(errs))
		for _, e := range errs {
			out = append(out, apitype.FieldError{Pointer: e.Path, File: e.File, Line: e.Line, Column: e.Col, Message: e.Msg})
		}
		return api.Decoded{Errors: out}
	}
	d := api.Decoded{Spec: result.Spec}
	for _, u := range result.Unused {
		d.Unused = append(d.Unused, apitype.FieldError{Pointer: u.Path, File: u.File, Line: u.Line, Column: u.Col, Message: u.Msg})
	}
	for _, w := range result.Warnings {
		d.Warnings = append(d.Warnings, w.String())
	}
	return d
}
