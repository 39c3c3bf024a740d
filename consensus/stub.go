package consensus

import (
	"context"
	"time"

	"github.com/quorate/quorate/statestore"
)

// Node is one member's part in consensus.
type Node struct{}

// Storage is what raft keeps on disk.
type Storage struct{}

// Open starts a node. It fails only for a Config that cannot work; when the disk
// or raft does not start, the node it returns is parked, and Health says why.
// Register every Handler before the first peer may call.
func Open(cfg Config) (*Node, error) { return nil, ErrClosed }

// Close leaves the network and stops everything the node started.
func (n *Node) Close() error { return nil }

// Propose commits a command, through the leader wherever that is. A nil error
// means committed and applied on this node; Result.Err is then nil or a Refusal.
// When ctx ends after the leader answered but before this node applied the entry,
// the outcome is known: the Result is returned, with a nil error.
//
// With a request id a proposal whose outcome is unknown is tried again until ctx
// ends, which executes it at most once; without one ErrUnknownOutcome is returned
// at once.
func (n *Node) Propose(ctx context.Context, cmd statestore.Command, o Origin) (statestore.Result, error) {
	return statestore.Result{}, ErrClosed
}

// ReadIndex returns when this node has applied everything that was acknowledged
// anywhere before the call, and the index that covers it.
func (n *Node) ReadIndex(ctx context.Context) (uint64, error) { return 0, ErrClosed }

// Handle registers the handler of a method. Names starting with "consensus." are
// this package's own.
func (n *Node) Handle(method string, h Handler) {}

// Call asks the named node, which may be this one: that needs no network.
func (n *Node) Call(ctx context.Context, node, method string, body []byte) ([]byte, error) {
	return nil, ErrClosed
}

// CallLeader asks the leader, once. It waits for one to be known.
func (n *Node) CallLeader(ctx context.Context, method string, body []byte) ([]byte, error) {
	return nil, ErrClosed
}

// Lead runs duties whenever this node leads, until ctx ends. Duties start once
// everything committed before this term is applied; their context ends with the
// leadership, and they must then return. Duties that fail are started again, and
// after three failures in one term leadership is given up by restarting raft.
func (n *Node) Lead(ctx context.Context, duties func(ctx context.Context, term uint64) error) error {
	return ErrClosed
}

// Leader returns the name of the leader this node follows, or is.
func (n *Node) Leader() (name string, ok bool) { return "", false }

// LeaderChanged returns a channel that is closed when Leader next changes.
func (n *Node) LeaderChanged() <-chan struct{} { return nil }

// IsLeader reports whether this node leads and holds its lease.
func (n *Node) IsLeader() bool { return false }

// LastContact returns the time since this node last heard a leader that held its
// lease; never less than the true time. It is zero on a leader that holds it, and
// counts from Open where none was heard yet.
func (n *Node) LastContact() time.Duration { return 0 }

// Health says how this node's part in consensus is doing.
func (n *Node) Health() Health { return Health{} }

// Servers lists the latest Raft configuration, sorted by name.
func (n *Node) Servers() []Server { return nil }

// Bootstrap starts an installation with these voters, of which this node must be
// one. It is refused once the node has any state.
func (n *Node) Bootstrap(voters []Server) error { return ErrClosed }

// HasState reports whether this node was ever bootstrapped or joined.
func (n *Node) HasState() bool { return false }

// AddVoter adds a node, through the leader: as nonvoter until it has caught up,
// then promoted. It returns once the node is added; promotion goes on by itself,
// for as long as State.Members wants the node to vote.
func (n *Node) AddVoter(ctx context.Context, name, nonce string) error { return ErrClosed }

// AddNonvoter adds a node that will not vote, through the leader.
func (n *Node) AddNonvoter(ctx context.Context, name, nonce string) error { return ErrClosed }

// Remove takes a member out, through the leader. It is named by NAME, or by
// NAME/NONCE where a name has two. ErrUnsafe when the rest could not keep quorum,
// or when three voters or more would become fewer than three.
func (n *Node) Remove(ctx context.Context, name string) error { return ErrClosed }

// TransferLeader hands leadership to the named voter, or to the one furthest
// along when name is empty.
func (n *Node) TransferLeader(ctx context.Context, name string) error { return ErrClosed }

// CheckStore opens the store under dir read-only and verifies it. A damaged file
// may panic or hang it: run it in a process of its own, with a deadline.
func CheckStore(dir string) error { return nil }

// Quarantine moves the store under dir aside and returns where to. The node must
// then join under a new nonce.
func Quarantine(dir string, now time.Time) (string, error) { return "", nil }
