package consensus

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// methodPing is asked by the leader of every member, several times a lease, and
// now and then by everybody of everybody.
const methodPing = "consensus.ping"

// ping says what the caller is and echoes the clock of the called, so that both
// ends can tell ages that are never below the true ones: the caller counts from
// when it sent, the called from when it had last answered.
type ping struct {
	Leads     bool          `json:"leads,omitempty"`
	Term      uint64        `json:"term"`
	Lease     bool          `json:"lease,omitempty"` // the leader holds its lease
	Last      uint64        `json:"last"`            // end of the caller's log
	Applied   uint64        `json:"applied"`         // index of the caller's state
	Life      int64         `json:"life"`            // echo of pong.Life
	Clock     time.Duration `json:"clock"`           // echo of pong.Clock; with Life
	Voters    int           `json:"voters,omitempty"`
	Reachable int           `json:"reachable,omitempty"`
}

type pong struct {
	ID    string        `json:"id"`
	Term  uint64        `json:"term"`
	Loyal bool          `json:"loyal,omitempty"` // follows the caller in the caller's term
	Quiet time.Duration `json:"quiet"`           // since raft heard the caller, when loyal
	Last  uint64        `json:"last"`
	Life  int64         `json:"life"`
	Clock time.Duration `json:"clock"`
	Wall  time.Time     `json:"wall"` // of the called, to show; decides nothing
}

// contact is what a node knows of the others. All instants are of Config.Clock.
type contact struct {
	life int64 // tells this process from earlier ones of the node

	mu        sync.Mutex // guards what follows
	peers     map[raft.ServerID]*peer
	heard     time.Duration // a leader certainly held its lease then, and this node has all it knew
	behind    horizon       // what this node must apply before a later contact counts
	voters    int           // what the leader said last
	reachable int
}

// horizon is a contact with a leader whose state this node has not caught up with.
// The zero value is none.
type horizon struct {
	at    time.Duration // a leader certainly held its lease then
	index uint64        // of its state
}

// heardLocked takes in that a leader, whose state was at index, held its lease at
// the instant at. While this node's own state is behind, the contact is kept for
// when it no longer is: a node that answers what others gave up seconds ago must
// not call itself up to date (I11). The caller holds mu.
func (c *contact) heardLocked(at time.Duration, index, applied uint64) {
	c.caughtUpLocked(applied)
	switch {
	case applied >= index:
		c.heard, c.behind = max(c.heard, at), horizon{}
	case c.behind == horizon{}:
		// The oldest is kept, so that a steady stream of entries cannot put off
		// for ever the moment at which this node counts as having caught up.
		c.behind = horizon{at, index}
	}
}

// caughtUpLocked counts the contact that waited for this state. The caller holds mu.
func (c *contact) caughtUpLocked(applied uint64) {
	if c.behind.index != 0 && applied >= c.behind.index {
		c.heard, c.behind = max(c.heard, c.behind.at), horizon{}
	}
}

// peer is one other member.
type peer struct {
	busy    bool          // a ping is under way
	asked   time.Duration // when the last one was sent
	seen    time.Duration // it answered one sent then
	ever    bool          // it ever answered
	up      bool          // it answered lately, as logged last
	refused bool          // the last ping failed at once: its raft is gone
	life    int64
	clock   time.Duration
	offset  time.Duration // its wall clock is ahead of ours by so much, give or take half a round trip

	loyal     time.Duration // raft on it certainly followed us then
	loyalTerm uint64
	last      uint64        // end of its log
	moved     time.Duration // when that changed last
}

func newContact(now time.Duration) *contact {
	return &contact{life: time.Now().UnixNano(), peers: map[raft.ServerID]*peer{}, heard: now}
}

func (c *contact) peerLocked(id raft.ServerID, now time.Duration) *peer {
	p := c.peers[id]
	if p == nil {
		p = &peer{moved: now, asked: -time.Hour}
		c.peers[id] = p
	}
	return p
}

// forget drops peers that are no longer members.
func (c *contact) forget(keep []raft.Server) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.peers {
		if !slices.ContainsFunc(keep, func(s raft.Server) bool { return s.ID == id }) {
			delete(c.peers, id)
		}
	}
}

// pingEvery is how often the leader asks each member: often enough that a lease
// outlives one lost answer, and no more often, since it is what an idle node does.
func (p Profile) pingEvery() time.Duration { return p.Lease * 2 / 5 }

// gossipEvery is how often everybody asks everybody, for reachability alone.
func (p Profile) gossipEvery() time.Duration { return 2 * p.Heartbeat }

// reachableFor is how long a peer counts as reachable after it answered.
func (p Profile) reachableFor() time.Duration { return 2*p.gossipEvery() + p.Heartbeat }

// pingAll asks those whose turn it is, each on its own goroutine, so that a peer
// that does not answer delays no other.
func (s *session) pingAll(servers []raft.Server, leads bool) {
	n := s.n
	now := n.cfg.Clock()
	_, leader := s.raft.LeaderWithID()
	every := n.cfg.Profile.gossipEvery()
	silent := leader != "" && !leads && time.Since(s.raft.LastContact()) > n.cfg.Profile.Lease/2
	n.contact.mu.Lock()
	defer n.contact.mu.Unlock()
	for _, srv := range servers {
		if srv.ID == n.id {
			continue
		}
		p := n.contact.peerLocked(srv.ID, now)
		if p.busy || (!leads && now-p.asked < every && !(silent && srv.ID == leader)) {
			continue
		}
		p.busy, p.asked = true, now
		s.wg.Go(func() { s.ping(srv, p) })
	}
}

func (s *session) ping(srv raft.Server, p *peer) {
	n := s.n
	// An answer that takes longer than the lease proves nothing, and waiting for it
	// only delays the next try after a cut heals.
	ctx, cancel := context.WithTimeout(s.ctx, n.cfg.Profile.Lease)
	defer cancel()
	term := s.raft.CurrentTerm()
	leads := s.raft.State() == raft.Leader
	q := ping{Leads: leads, Term: term, Last: s.raft.LastIndex(), Applied: n.cfg.Store.State().Index}
	if leads {
		q.Voters, q.Reachable = n.quorum(s)
		q.Lease = n.leaseAge(s) <= n.cfg.Profile.Lease
	}
	n.contact.mu.Lock()
	q.Life, q.Clock = p.life, p.clock
	n.contact.mu.Unlock()
	sent, wall := n.cfg.Clock(), n.cfg.Wall()
	a, err := n.ping(ctx, srv, q)
	took := n.cfg.Clock() - sent
	n.contact.mu.Lock()
	p.busy = false
	// Refused, reset, or answered by a node whose raft has ended.
	p.refused = err != nil && ctx.Err() == nil &&
		(!errors.As(err, new(*remoteError)) || errors.Is(err, ErrParked) || errors.Is(err, ErrNotLeader))
	if err == nil {
		p.seen, p.ever, p.life, p.clock = sent, true, a.Life, a.Clock
		if !a.Wall.IsZero() { // an older release does not tell
			p.offset = a.Wall.Sub(wall.Round(0).Add(took / 2))
		}
		if a.Last != p.last {
			p.last, p.moved = a.Last, n.cfg.Clock()
		}
		if leads && a.Loyal && a.Term == term {
			p.loyal, p.loyalTerm = sent-a.Quiet, term
		}
	}
	was := p.up
	p.up = p.ever && n.cfg.Clock()-p.seen < n.cfg.Profile.reachableFor()
	up := p.up
	n.contact.mu.Unlock()
	switch {
	case up == was || n.ctx.Err() != nil:
	case up:
		n.log.Info("member reachable", keyPeer, srv.ID)
	default:
		n.log.Warn("member unreachable", keyPeer, srv.ID, keyErr, err)
	}
}

func (n *Node) ping(ctx context.Context, srv raft.Server, q ping) (pong, error) {
	body, err := json.Marshal(q)
	if err != nil {
		return pong{}, err
	}
	name, _ := SplitServerID(string(srv.ID))
	out, err := n.rpc.call(ctx, name, methodPing, body)
	if err != nil {
		return pong{}, err
	}
	var a pong
	if err := json.Unmarshal(out, &a); err != nil {
		return pong{}, err
	}
	if a.ID != string(srv.ID) {
		// Another life of the name answers: the member meant is gone.
		return pong{}, &remoteError{text: "answered as " + a.ID}
	}
	return a, nil
}

// servePing answers a ping, and takes from a leader's what makes this node fresh.
func (n *Node) servePing(_ context.Context, from string, body []byte) ([]byte, error) {
	var q ping
	if err := json.Unmarshal(body, &q); err != nil {
		return nil, err
	}
	s := n.session()
	if s == nil {
		return nil, n.stopped()
	}
	now := n.cfg.Clock()
	a := pong{
		ID: string(n.id), Term: s.raft.CurrentTerm(), Last: s.raft.LastIndex(),
		Life: n.contact.life, Clock: now, Wall: n.cfg.Wall(),
	}
	_, id := s.raft.LeaderWithID()
	leader, _ := SplitServerID(string(id))
	if q.Leads && leader == from && q.Term == a.Term && s.raft.State() == raft.Follower {
		a.Loyal = true
		a.Quiet = time.Since(s.raft.LastContact())
		if q.Lease && q.Life == n.contact.life {
			n.contact.mu.Lock()
			n.contact.heardLocked(q.Clock, q.Applied, n.cfg.Store.State().Index)
			n.contact.voters, n.contact.reachable = q.Voters, q.Reachable
			n.contact.mu.Unlock()
			n.stamp.mark(q.Clock, q.Last)
		}
	}
	return json.Marshal(a)
}

// leaseAge returns how long ago, at most, a quorum followed this leader.
func (n *Node) leaseAge(s *session) time.Duration {
	term := s.raft.CurrentTerm()
	now := n.cfg.Clock()
	var followed []time.Duration
	n.contact.mu.Lock()
	defer n.contact.mu.Unlock()
	for _, srv := range s.raft.GetConfiguration().Configuration().Servers {
		switch p := n.contact.peers[srv.ID]; {
		case srv.Suffrage != raft.Voter:
		case srv.ID == n.id:
			followed = append(followed, now)
		case p == nil || p.loyalTerm != term:
			followed = append(followed, n.contact.heard-time.Hour)
		default:
			followed = append(followed, p.loyal)
		}
	}
	if len(followed) == 0 {
		return now - n.contact.heard
	}
	slices.Sort(followed)
	// With v voters, the quorum is v/2+1: that many are at or after this one.
	held := followed[len(followed)-(len(followed)/2+1)]
	n.contact.heard = max(n.contact.heard, held)
	return now - n.contact.heard
}

// quorum counts voters, and those this leader reaches.
func (n *Node) quorum(s *session) (voters, reachable int) {
	for _, srv := range s.raft.GetConfiguration().Configuration().Servers {
		if srv.Suffrage != raft.Voter {
			continue
		}
		voters++
		if srv.ID == n.id || n.reaches(srv.ID) {
			reachable++
		}
	}
	return voters, reachable
}

// reaches reports whether a peer answered within a few pings of this leader.
func (n *Node) reaches(id raft.ServerID) bool {
	n.contact.mu.Lock()
	defer n.contact.mu.Unlock()
	p := n.contact.peers[id]
	return p != nil && p.ever && n.cfg.Clock()-p.seen < 2*n.cfg.Profile.Heartbeat
}

// LastContact returns the time since this node last heard a leader that held its
// lease and whose state this node has; never less than the true time (I11). It is zero on a leader that holds
// it, and counts from Open where none was heard yet. On a follower it is a few
// pings at least, since what the leader said is counted from before it said it.
func (n *Node) LastContact() time.Duration {
	if s := n.session(); s != nil && s.raft.State() == raft.Leader {
		if age := n.leaseAge(s); age > n.cfg.Profile.Lease {
			return age
		}
		return 0
	}
	n.contact.mu.Lock()
	defer n.contact.mu.Unlock()
	n.contact.caughtUpLocked(n.cfg.Store.State().Index)
	return n.cfg.Clock() - n.contact.heard
}
