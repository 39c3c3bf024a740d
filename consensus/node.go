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
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
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
	// may return the same listener. A Node closes the listeners it took.
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
	Offset    time.Duration // its wall clock is ahead of this node's by so much; 0 if unknown
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

// Node is one member's part in consensus.
type Node struct {
	cfg     Config
	id      raft.ServerID
	log     *slog.Logger
	raftLog *raftLog
	metrics *metrics
	rpc     *rpc
	stamp   *stamp
	contact *contact

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup

	current  atomic.Pointer[session] // nil while raft restarts, and for ever once parked
	reign    atomic.Pointer[reign]   // nil while this node does not lead
	parked   atomic.Pointer[string]
	parkedCh chan struct{} // closed when parked
	restarts chan string   // asks for a restart of raft, with the reason

	leader   atomic.Pointer[leaderView]
	leaderMu sync.Mutex // serialises changes of leader

	changeMu sync.Mutex // on the leader: one change of membership at a time
	wantMu   sync.Mutex // guards wanted
	wanted   map[raft.ServerID]bool
}

// leaderView is who leads, and a channel closed when it is no longer so.
type leaderView struct {
	name    string // empty: nobody known
	changed chan struct{}
}

// Open starts a node. It fails only for a Config that cannot work; when the disk
// or raft does not start, the node it returns is parked, and Health says why.
func Open(cfg Config) (*Node, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	n := &Node{
		cfg:      cfg,
		id:       raft.ServerID(ServerID(cfg.Name, cfg.Nonce)),
		log:      cfg.Log,
		raftLog:  &raftLog{log: cfg.Log, name: "raft"},
		stamp:    newStamp(cfg.Clock, cfg.Wall, cfg.Profile.Lease),
		contact:  newContact(cfg.Clock()),
		ctx:      ctx,
		cancel:   cancel,
		parkedCh: make(chan struct{}),
		restarts: make(chan string, 1),
		wanted:   map[raft.ServerID]bool{},
	}
	n.leader.Store(&leaderView{changed: make(chan struct{})})
	n.metrics = newMetrics(n, cfg.Registerer)
	n.rpc = newRPC(n)
	n.rpc.handle(methodPropose, n.servePropose)
	n.rpc.handle(methodRead, n.serveRead)
	n.rpc.handle(methodPing, n.servePing)
	n.rpc.handle(methodMembers, n.serveMembers)
	s, err := n.openSession()
	if err != nil {
		n.park(err)
	} else {
		n.current.Store(s)
	}
	raftListener, rpcListener := cfg.Links.Listener(ProtoRaft), cfg.Links.Listener(ProtoRPC)
	n.wg.Go(func() { n.acceptRaft(raftListener) })
	n.wg.Go(func() { n.accept(rpcListener, n.rpc.serve) })
	n.wg.Go(func() {
		<-ctx.Done()
		_ = errors.Join(raftListener.Close(), rpcListener.Close()) // nobody accepts any more
		n.rpc.close()
	})
	if s != nil {
		s.start()
		n.wg.Go(func() { n.supervise(s) })
	}
	return n, nil
}

// complete returns cfg with its defaults.
func (cfg Config) complete() (Config, error) {
	switch {
	case cfg.Name == "" || cfg.Nonce == "" || strings.Contains(cfg.Name, "/") || len(cfg.Name)+len(cfg.Nonce) > 200:
		return cfg, fmt.Errorf("open consensus: name and nonce must be set, short and without slash, are %q and %q", cfg.Name, cfg.Nonce)
	case cfg.Store == nil || cfg.Links == nil || cfg.PeerName == nil || cfg.Addr == nil:
		return cfg, errors.New("open consensus: store, links, peer name and addr must be set")
	case cfg.Dir == "" && cfg.Storage == nil:
		return cfg, errors.New("open consensus: directory must be set")
	}
	if cfg.Profile == (Profile{}) {
		cfg.Profile = WAN()
	}
	if err := cfg.Profile.Validate(); err != nil {
		return cfg, fmt.Errorf("open consensus: %w", err)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Clock == nil {
		cfg.Clock = bootClock
	}
	if cfg.Wall == nil {
		cfg.Wall = time.Now
	}
	return cfg, nil
}

// Close hands leadership over if it can, leaves the network and stops everything
// the node started. Handlers and duties must return when their context ends.
func (n *Node) Close() error {
	if s := n.session(); s != nil && n.IsLeader() {
		// A planned stop costs the others no election. Whether it worked does not
		// matter: they would elect one anyway.
		ctx, cancel := context.WithTimeout(n.ctx, n.cfg.Profile.Election)
		_ = s.handOver(ctx, "")
		cancel()
	}
	n.cancel()
	n.wg.Wait()
	return nil
}

func (n *Node) session() *session { return n.current.Load() }

// park ends this node's part in consensus for the life of the process.
func (n *Node) park(reason error) {
	text := reason.Error()
	if !n.parked.CompareAndSwap(nil, &text) {
		return
	}
	close(n.parkedCh)
	n.log.Error("consensus parked; dns goes on", keyErr, reason)
}

// Parked says why consensus has stopped on this node; empty while it runs.
func (n *Node) Parked() string {
	if p := n.parked.Load(); p != nil {
		return *p
	}
	return ""
}

// stopped is why this node cannot serve.
func (n *Node) stopped() error {
	switch reason := n.Parked(); {
	case reason != "":
		return fmt.Errorf("%w: %s", ErrParked, reason)
	case n.ctx.Err() != nil:
		return ErrClosed
	}
	return fmt.Errorf("%w: raft restarts", ErrNotLeader)
}

// restart asks for a restart of raft.
func (n *Node) restart(reason string) {
	select {
	case n.restarts <- reason:
	default: // one is asked for already
	}
}

// Leader returns the name of the leader this node follows, or is.
func (n *Node) Leader() (name string, ok bool) {
	name = n.leader.Load().name
	return name, name != ""
}

// LeaderChanged returns a channel that is closed when Leader, or whether this node
// leads, next changes. Take it before asking.
func (n *Node) LeaderChanged() <-chan struct{} { return n.leader.Load().changed }

// setLeader publishes who leads. again wakes the waiters even if the name stays.
func (n *Node) setLeader(name string, again bool) {
	n.leaderMu.Lock()
	defer n.leaderMu.Unlock()
	old := n.leader.Load()
	if old.name == name && !again {
		return
	}
	n.leader.Store(&leaderView{name: name, changed: make(chan struct{})})
	close(old.changed)
	if old.name == name {
		return
	}
	if name != "" && name != n.cfg.Name {
		n.metrics.leaderChanges.Inc()
	}
	if n.ctx.Err() == nil { // closing, a node loses sight of the leader and nothing has changed
		n.log.Info("leader changed", keyLeader, name, keyWas, old.name)
	}
}

// IsLeader reports whether this node leads and holds its lease.
func (n *Node) IsLeader() bool {
	r := n.reign.Load()
	return r != nil && !r.over() && n.LastContact() == 0
}

// Handle registers the handler of a method. Names starting with "consensus." are
// this package's own.
func (n *Node) Handle(method string, h Handler) { n.rpc.handle(method, h) }

// Call asks the named node, which may be this one: that needs no network. The
// error is ErrUnreachable when the request was certainly not delivered.
func (n *Node) Call(ctx context.Context, node, method string, body []byte) ([]byte, error) {
	return n.rpc.call(ctx, node, method, body)
}

// CallLeader asks the leader, once, waiting for one to be known.
func (n *Node) CallLeader(ctx context.Context, method string, body []byte) ([]byte, error) {
	leader, err := n.awaitLeader(ctx)
	if err != nil {
		return nil, err
	}
	return n.rpc.call(ctx, leader, method, body)
}

// Handler answers one RPC. from is the authenticated name of the caller. A
// statestore.Refusal it returns reaches the caller as the same Refusal, and the
// errors of this package keep their identity; of other errors only the text.
type Handler func(ctx context.Context, from string, body []byte) ([]byte, error)
