// Package api serves /v1, its event stream and the console over HTTP.
//
// Any node takes any request: reads are answered from this node's state and say
// how old it is, writes are forwarded by Proposer. The package promises that no
// GET changes anything, that every act has an actor and a request id, that a
// timed-out write is reported as unknown, and that no secret is ever answered,
// logged or measured after the one time it is made. It never judges health and
// never decides an answer: policy and routing do.
package api

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/routing"
	"github.com/quorate/quorate/statestore"
)

// Errors a Proposer returns, wrapped or as they are.
var (
	ErrNoLeader       = errors.New("no leader: a majority of voters is not reachable")
	ErrUnknownOutcome = errors.New("outcome unknown: the write may or may not have been committed")
)

// Origin is who asks for a command, and under which request id.
type Origin struct {
	Actor   string
	Request string
	Issued  time.Time // when the request id was made
}

// Store is the replicated state as this node has it. *statestore.Store is one.
type Store interface {
	State() *statestore.State
	Changed() <-chan struct{}
}

// Proposer commits commands from any node. A nil error means that the command
// is applied on this node; Result.Err is then the state machine's refusal.
type Proposer interface {
	Propose(ctx context.Context, cmd statestore.Command, o Origin) (statestore.Result, error)
}

// QuorumView is what this node knows of the quorum now.
type QuorumView struct {
	HasQuorum bool          // a leader that holds its lease was heard lately
	Leader    string        // empty: none known
	Stale     time.Duration // since such a leader was heard; 0 on the leader
	Voters    int
	VotersUp  int // as the leader reaches them, itself included; 0: it has not told yet
	Tolerates int // how many voters more may be lost; 0 too while that is not known
	Servers   []RaftServer

	// Trouble says why this node alone takes no part, and what to do; empty: it does.
	Trouble string
}

// RaftServer is one server of the Raft configuration.
type RaftServer struct {
	Name      string
	Voter     bool
	Reachable bool
	Awaited   bool          // not heard yet by a node that has only just started
	LastSeen  time.Duration // since it was heard; negative: never or not known
	Trails    uint64        // entries behind
	Offset    time.Duration // its wall clock is ahead of this node's by so much
}

// Decoded is what the decoder makes of a spec's text.
type Decoded struct {
	Spec     *statestore.Spec
	Unused   []apitype.FieldError // keys that have no behaviour in this version: plan refuses them
	Errors   []apitype.FieldError // all of them; Spec is nil when there is one
	Warnings []string             // what works but is probably not meant
}

// JoinSecret is a freshly made join token.
type JoinSecret struct {
	ID    string
	Token string // what a person hands to the joining node
	Hash  [32]byte
}

// Config is what a Server needs. Node, Store, Proposer, Quorum,
// Table and Decode are required; a nil optional function makes its endpoint answer 501.
type Config struct {
	Node    string // this node's name
	Version string // release of the binary

	Store    Store
	Proposer Proposer

	// IsNoLeader and IsUnknownOutcome classify a Proposer's errors. Nil: errors.Is
	// with ErrNoLeader and ErrUnknownOutcome.
	IsNoLeader       func(error) bool
	IsUnknownOutcome func(error) bool

	// ReadIndex returns an index once this node's state holds everything committed
	// before the call. Nil: linearizable reads are refused.
	ReadIndex func(ctx context.Context) (uint64, error)

	Quorum func() QuorumView

	// Table is what DNS answers from; nil before the first one is loaded.
	Table func() *routing.Table

	Decode func(name string, source []byte) Decoded

	// Bound reports whether the sockets this node should serve DNS on are bound.
	// Nil: they are.
	Bound func() bool

	// Acknowledged returns the members that have stopped answering with the source of
	// a cutover under way, and whether this node leads and so knows. Nil: not told.
	Acknowledged func(cutover string) (nodes []string, leads bool)

	// Probe runs the checks of a service at a cluster once on this node, within ctx.
	// The request names what the state has; an error is why this node cannot. Nil:
	// this node does not probe.
	Probe func(ctx context.Context, r apitype.ProbeRequest) (apitype.ProbeReport, error)

	// Backlog returns how many due checks of this node wait, and how late the oldest of
	// them is. Nil: none.
	Backlog func() (waiting int, late time.Duration)

	// MissingSecrets says which secrets that the spec names this node cannot resolve, and
	// why. Nil: none.
	MissingSecrets func() []string

	// ZoneKeys is what this node has to sign a zone with. Nil: nothing.
	ZoneKeys func(zone string) ZoneKeys

	// Traffic is what clients asked this node's DNS for lately. Nil: not told.
	Traffic func() Traffic

	// Call sends a small request to a node, which hands it to its Server.Peer.
	// Nil: explain and probe are of this node only.
	Call func(ctx context.Context, node, method string, body []byte) ([]byte, error)

	MintJoinToken func() (JoinSecret, error)
	RemoveMember  func(ctx context.Context, name, reason string, o Origin) error // from Raft and state; nil: state only
	RollCA        func(ctx context.Context, o Origin) error
	NodeConfig    func() string // node.yaml as in force, secrets masked
	LogLevel      *slog.LevelVar

	// Reload reads node.yaml and the files it names again, and returns what was read;
	// the error says what was refused. Nil: not supported.
	Reload func() (read []string, err error)

	// Refused is what this node was told to read and cannot, for people. Nil: nothing.
	Refused func() []string

	// SocketGroup is a group whose members are admin on the local socket, beside
	// root and this process's own user. Empty: "quorate".
	SocketGroup string

	// Demo lets people in without login, as one of its users. Only dev sets it.
	Demo *Demo

	Log        *slog.Logger          // nil: discarded
	Registerer prometheus.Registerer // nil: no metrics
	Gatherer   prometheus.Gatherer   // for /metrics; nil: answered with 404
	Now        func() time.Time      // nil: time.Now
}

// Demo is the login of a demo: everybody is Users[0] until they switch.
type Demo struct {
	Users []DemoUser
}

// DemoUser is one person of a demo.
type DemoUser struct {
	Name   string
	Groups []string
}

// PeerMethod is the method name under which Call reaches a node's Server.Peer.
const PeerMethod = "api.explain"
