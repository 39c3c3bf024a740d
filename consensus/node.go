// Package consensus runs one Raft node: its store, its transport, membership,
// and the small request/response RPC nodes talk to each other with.
//
// A nil error from Propose means committed and applied on this node; a timeout
// means unknown, never "no". A node that cannot go on (stalled or failing disk,
// an entry it does not understand) parks: it closes its links first, so that the
// others elect a leader without it, and the rest of the process lives on.
// The package knows no rule of the domain, and nothing here is needed to answer
// DNS.
package consensus

import (
	"context"
	"errors"

	"log/slog"
	"net"
	"strings"

	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/statestore"
)

// Protocols of Links, as negotiated by ALPN.
const (
	ProtoRaft = "quorate-raft"
	ProtoRPC  = "quorate-rpc"
)

var (
	// ErrNoLeader is returned when no leader was known for as long as the caller
	// could wait. Nothing was proposed.
	ErrNoLeader = errors.New("no leader")

	// ErrUnknownOutcome is returned when a proposal may or may not be committed.
	// Propose again with the same request id to find out; it runs at most once.
	ErrUnknownOutcome = errors.New("outcome unknown")

	// ErrParked is returned by a node that has stopped taking part in consensus;
	// Health says why.
	ErrParked = errors.New("consensus is parked on this node")

	// ErrClosed is returned after Close.
	ErrClosed = errors.New("node closed")

	// ErrNotLeader is returned by what only a leader can do.
	ErrNotLeader = errors.New("not the leader")

	// ErrUnreachable is returned by Call when the request was certainly not
	// delivered.
	ErrUnreachable = errors.New("peer unreachable")

	// ErrUnsafe is returned when a change of membership would endanger the quorum.
	ErrUnsafe = errors.New("change would endanger the quorum")
)

// Links connects nodes by name. mesh.Mesh is the one in production,
// consensustest.Network the one in memory.
type Links interface {
	// Dial connects to the named peer at addr and verifies that it is that peer.
	Dial(ctx context.Context, proto, name, addr string) (net.Conn, error)
	// Listener returns the listener of a protocol; every call with one protocol
	// may return the same listener. Closing it is left to the owner of the Links.
	Listener(proto string) net.Listener
}

// Config configures a Node. Name, Nonce, Store, Links, PeerName and Addr are
// required.
type Config struct {
	Name  string // name of this node, as in its certificate
	Nonce string // tells lives of a name apart: a voter never restarts with an empty log under its old id

	// Dir holds raft.db and the snapshots. Storage overrides it, for tests; it is
	// called at every (re)start of raft.
	Dir     string
	Storage func() (*Storage, error)

	Store    *statestore.Store        // the replicated state; only this node applies to it
	Links    Links                    // connections to the other nodes
	PeerName func(net.Conn) string    // authenticated name of the peer of an accepted connection
	Addr     func(name string) string // host:port of a member, asked at every dial; "" if unknown
	Profile  Profile                  // zero: WAN

	// OnApply is called after each applied entry, in order, on the applying
	// goroutine: the LKG journal. OnRestore is called after a snapshot replaced
	// the whole state. Neither may block; nil means none.
	OnApply   func(index, term uint64, data []byte)
	OnRestore func(st *statestore.State)

	// Clock returns monotonic time, suspend included; nil means CLOCK_BOOTTIME.
	// Wall is the wall clock; nil means time.Now.
	Clock func() time.Duration
	Wall  func() time.Time

	Log        *slog.Logger          // nil discards
	Registerer prometheus.Registerer // nil means no metrics
}

// Origin says who proposes.
type Origin struct {
	Actor   string    // user name, "automation", or "node/NAME"
	Request string    // request id; empty means a retry could run twice, so Propose never retries
	Issued  time.Time // when the request id was made
}

// Health is what a node knows of its own part in consensus.
type Health struct {
	Parked      string        // why consensus has stopped on this node; empty while it runs
	Removed     bool          // the node is no longer a member
	State       string        // leader, follower, candidate or parked
	Leader      string        // name of the leader; empty when none is known
	Term        uint64        // current term
	Commit      uint64        // highest index known to be committed
	Applied     uint64        // index of the entry applied last
	LastContact time.Duration // see Node.LastContact
	Quorum      bool          // a leader that holds its lease was heard lately
	Voters      int           // in the latest configuration
	Reachable   int           // voters the leader reaches, itself included; as of LastContact
	Tolerance   int           // how many voters more may be lost; 0 without quorum
	Warnings    []string      // such as an even number of voters
}

// Server is one member of the Raft configuration.
type Server struct {
	Name      string
	Nonce     string
	Voter     bool
	Leader    bool
	Reachable bool          // answered this node lately; itself always
	Seen      time.Duration // since this node heard it last; negative: never
	Behind    uint64        // entries it is known to trail this node by; 0 if unknown or ahead
}

// ID returns Raft's ServerID.
func (s Server) ID() string { return ServerID(s.Name, s.Nonce) }

// ServerID joins a node's name and nonce to Raft's ServerID.
func ServerID(name, nonce string) string { return name + "/" + nonce }

// SplitServerID is the inverse of ServerID.
func SplitServerID(id string) (name, nonce string) {
	name, nonce, _ = strings.Cut(id, "/")
	return name, nonce
}

// Handler answers one RPC. from is the authenticated name of the caller. A
// statestore.Refusal it returns reaches the caller as the same Refusal, and the
// errors of this package keep their identity; of other errors only the text.
type Handler func(ctx context.Context, from string, body []byte) ([]byte, error)
