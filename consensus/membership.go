package consensus

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/statestore"
)

const (
	methodMembers = "consensus.members"

	// caughtUp is how many entries a nonvoter may trail to be promoted: a moment's
	// worth, so that the quorum it joins does not wait for it.
	caughtUp = 64

	// minVoters is where removals of voters that answer stop: with fewer, no loss is
	// survived. One that does not answer is a loss already, and its replacement may
	// need its name.
	minVoters = 3
)

// memberChange asks the leader for a change of membership.
type memberChange struct {
	Op string `json:"op"` // voter, nonvoter, remove or transfer
	ID string `json:"id"` // NAME/NONCE; for remove and transfer NAME will do; empty transfer: any
}

// Bootstrap starts an installation with these voters, of which this node must be
// one. It is refused once the node has any state.
func (n *Node) Bootstrap(voters []Server) error {
	s := n.session()
	if s == nil {
		return n.stopped()
	}
	var conf raft.Configuration
	for _, v := range voters {
		id := v.ID()
		conf.Servers = append(conf.Servers, raft.Server{Suffrage: raft.Voter, ID: raft.ServerID(id), Address: raft.ServerAddress(id)})
	}
	if !memberOf(conf.Servers, n.id) {
		return fmt.Errorf("bootstrap: %s is not among the voters", n.id)
	}
	if err := s.wait(n.ctx, s.raft.BootstrapCluster(conf)); err != nil {
		return fmt.Errorf("bootstrap: %w", err)
	}
	s.poke()
	return nil
}

// HasState reports whether this node was ever bootstrapped or joined, or has
// voted. It is false on a parked node, about whose disk nothing is certain.
func (n *Node) HasState() bool {
	s := n.session()
	return s != nil && (s.raft.LastIndex() > 0 || s.raft.CurrentTerm() > 0)
}

// AddVoter adds a node, through the leader: as nonvoter until it has caught up,
// then promoted. It returns once the node is added; promotion follows by itself,
// on this leader and, as long as State.Members wants the node to vote, on any
// later one.
func (n *Node) AddVoter(ctx context.Context, name, nonce string) error {
	return n.change(ctx, memberChange{"voter", ServerID(name, nonce)})
}

// AddNonvoter adds a node that will not vote, through the leader.
func (n *Node) AddNonvoter(ctx context.Context, name, nonce string) error {
	return n.change(ctx, memberChange{"nonvoter", ServerID(name, nonce)})
}

// Remove takes a member out, through the leader. It is named by NAME, or by
// NAME/NONCE where a name has two. ErrUnsafe when the rest could not keep quorum,
// or when three voters or more would become fewer than three.
func (n *Node) Remove(ctx context.Context, name string) error {
	return n.change(ctx, memberChange{"remove", name})
}

// TransferLeader hands leadership to the named voter, or to the one furthest
// along when name is empty.
func (n *Node) TransferLeader(ctx context.Context, name string) error {
	return n.change(ctx, memberChange{"transfer", name})
}

// change asks the leader, again while that certainly did nothing.
func (n *Node) change(ctx context.Context, c memberChange) error {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.Profile.Propose)
	defer cancel()
	body, err := json.Marshal(c)
	if err != nil {
		return err
	}
	for {
		_, err := n.CallLeader(ctx, methodMembers, body)
		if err == nil {
			return nil
		}
		if !undone(err) || errors.Is(err, ErrNoLeader) || n.Parked() != "" || n.pause(ctx, retryPause) != nil {
			return fmt.Errorf("%s %s: %w", c.Op, c.ID, err)
		}
	}
}

// serveMembers is the leader's side of a change.
func (n *Node) serveMembers(ctx context.Context, _ string, body []byte) ([]byte, error) {
	var c memberChange
	if err := json.Unmarshal(body, &c); err != nil {
		return nil, err
	}
	s := n.session()
	if s == nil {
		return nil, n.stopped()
	}
	if _, err := n.awaitReign(ctx); err != nil {
		return nil, err
	}
	if c.Op == "transfer" {
		return nil, s.handOver(ctx, c.ID)
	}
	n.changeMu.Lock()
	defer n.changeMu.Unlock()
	switch c.Op {
	case "voter", "nonvoter":
		return nil, s.add(ctx, raft.ServerID(c.ID), c.Op == "voter")
	case "remove":
		return nil, s.remove(ctx, c.ID)
	}
	return nil, fmt.Errorf("unknown change of membership %q", c.Op)
}

func (s *session) add(ctx context.Context, id raft.ServerID, vote bool) error {
	s.want(id, vote)
	for _, srv := range s.raft.GetConfiguration().Configuration().Servers {
		if srv.ID == id {
			return nil // promotion, if wanted, follows; demotion is not offered
		}
	}
	return s.committed(ctx, s.raft.AddNonvoter(id, raft.ServerAddress(id), 0, s.n.cfg.Profile.Propose))
}

// committed waits for a change of membership. Its errors say whether it may still
// happen.
func (s *session) committed(ctx context.Context, f raft.IndexFuture) error {
	err := s.wait(ctx, f)
	switch {
	case err == nil:
		s.poke()
		return nil
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrEnqueueTimeout), errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return fmt.Errorf("%w: %w", ErrNotLeader, err)
	}
	return unknown(err)
}

func (s *session) want(id raft.ServerID, vote bool) {
	s.n.wantMu.Lock()
	defer s.n.wantMu.Unlock()
	if vote {
		s.n.wanted[id] = true
	} else {
		delete(s.n.wanted, id)
	}
}

// wants reports whether id should vote.
func (n *Node) wants(id raft.ServerID) bool {
	n.wantMu.Lock()
	defer n.wantMu.Unlock()
	if n.wanted[id] {
		return true
	}
	name, nonce := SplitServerID(string(id))
	m := n.cfg.Store.State().Members[name]
	return m != nil && m.Nonce == nonce && m.Role == statestore.Voter
}

// promote gives one nonvoter that wants it and has caught up its vote.
func (s *session) promote(servers []raft.Server) {
	n := s.n
	r := n.reign.Load()
	if r == nil || !isClosed(r.ready) || !n.changeMu.TryLock() {
		return
	}
	for _, srv := range servers {
		if srv.Suffrage != raft.Nonvoter || !n.wants(srv.ID) || !s.hasCaughtUp(srv.ID) {
			continue
		}
		s.wg.Go(func() {
			defer n.changeMu.Unlock()
			err := s.committed(s.ctx, s.raft.AddVoter(srv.ID, srv.Address, 0, n.cfg.Profile.Propose))
			if err != nil {
				n.log.Warn("not promoted to voter", keyPeer, srv.ID, keyErr, err)
				return
			}
			s.want(srv.ID, false)
			n.log.Info("promoted to voter", keyPeer, srv.ID, keyTerm, r.term)
		})
		return
	}
	n.changeMu.Unlock()
}

func (s *session) hasCaughtUp(id raft.ServerID) bool {
	c := s.n.contact
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.peers[id]
	return p != nil && p.ever && s.n.cfg.Clock()-p.seen < s.n.cfg.Profile.Heartbeat &&
		p.last > 0 && p.last+caughtUp >= s.raft.LastIndex()
}

func (s *session) remove(ctx context.Context, name string) error {
	servers := s.raft.GetConfiguration().Configuration().Servers
	target, err := pick(servers, name)
	if err != nil {
		return err
	}
	if err := s.safeToRemove(servers, target); err != nil {
		return err
	}
	s.want(target.ID, false)
	return s.committed(ctx, s.raft.RemoveServer(target.ID, 0, s.n.cfg.Profile.Propose))
}

// pick finds a server by NAME/NONCE, or by NAME where that is unique.
func pick(servers []raft.Server, name string) (raft.Server, error) {
	var found []raft.Server
	for _, srv := range servers {
		if n, _ := SplitServerID(string(srv.ID)); name == n || name == string(srv.ID) {
			found = append(found, srv)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return raft.Server{}, fmt.Errorf("%w: member %s", statestore.ErrNotFound, name)
	}
	return raft.Server{}, fmt.Errorf("%s is ambiguous: name one of %s and %s", name, found[0].ID, found[1].ID)
}

// safeToRemove refuses what would leave too few voters, or too few that answer.
// Voters are never removed automatically: dead-server cleanup has shrunk quorums
// to death elsewhere (consul #5922).
func (s *session) safeToRemove(servers []raft.Server, target raft.Server) error {
	if target.Suffrage != raft.Voter {
		return nil
	}
	alive := target.ID == s.n.id || s.n.reaches(target.ID)
	voters, rest, up := 0, 0, 0
	for _, srv := range servers {
		if srv.Suffrage != raft.Voter {
			continue
		}
		voters++
		if srv.ID == target.ID {
			continue
		}
		rest++
		if srv.ID == s.n.id || s.n.reaches(srv.ID) {
			up++
		}
	}
	name, _ := SplitServerID(string(target.ID))
	switch {
	case rest == 0:
		return fmt.Errorf("%w: %s is the only voter", ErrUnsafe, name)
	case voters >= minVoters && rest < minVoters && alive:
		return fmt.Errorf("%w: %s still answers or was heard a moment ago, and without it %d voters would remain where at least %d must; "+
			"stop it and wait until `quorate members` says UNREACHABLE, or join another voter first", ErrUnsafe, name, rest, minVoters)
	case up < rest/2+1:
		return fmt.Errorf("%w: of the %d voters that would remain without %s only %d answer, %d must; bring back another voter first",
			ErrUnsafe, rest, name, up, rest/2+1)
	}
	return nil
}

// handOver transfers leadership, to anybody when name is empty. It is for people
// and for a planned stop: raft's flag for it is known to stick (watchTransfer).
func (s *session) handOver(ctx context.Context, name string) error {
	servers := s.raft.GetConfiguration().Configuration().Servers
	if name == "" {
		if len(servers) < 2 {
			return errors.New("transfer leadership: no other voter")
		}
		return s.transferred(ctx, s.raft.LeadershipTransfer())
	}
	target, err := pick(servers, name)
	switch {
	case err != nil:
		return err
	case target.Suffrage != raft.Voter:
		return fmt.Errorf("transfer leadership: %s does not vote", target.ID)
	case target.ID == s.n.id:
		return nil
	case !s.n.reaches(target.ID):
		return fmt.Errorf("transfer leadership: %w: %s", ErrUnreachable, target.ID)
	}
	return s.transferred(ctx, s.raft.LeadershipTransferToServer(target.ID, target.Address))
}

func (s *session) transferred(ctx context.Context, f raft.Future) error {
	if err := s.wait(ctx, f); err != nil {
		return fmt.Errorf("transfer leadership: %w", err)
	}
	return nil
}

// Servers lists the latest Raft configuration, sorted by id.
func (n *Node) Servers() []Server {
	s := n.session()
	if s == nil {
		return nil
	}
	_, leader := s.raft.LeaderWithID()
	now, last := n.cfg.Clock(), s.raft.LastIndex()
	var list []Server
	n.contact.mu.Lock()
	defer n.contact.mu.Unlock()
	for _, srv := range s.raft.GetConfiguration().Configuration().Servers {
		v := Server{Voter: srv.Suffrage == raft.Voter, Leader: srv.ID == leader, Seen: -1}
		v.Name, v.Nonce = SplitServerID(string(srv.ID))
		p := n.contact.peers[srv.ID]
		switch {
		case srv.ID == n.id:
			v.Reachable, v.Seen = true, 0
		case p != nil && p.ever:
			v.Seen = now - p.seen
			v.Reachable = v.Seen < n.cfg.Profile.reachableFor()
			v.Behind = last - min(last, p.last)
			v.Offset = p.offset
		}
		list = append(list, v)
	}
	slices.SortFunc(list, func(a, b Server) int { return cmp.Compare(a.ID(), b.ID()) })
	return list
}

// Health says how this node's part in consensus is doing.
func (n *Node) Health() Health {
	h := Health{
		Parked: n.Parked(), State: "parked", Applied: n.cfg.Store.State().Index,
		LastContact: n.LastContact(), Leader: n.leader.Load().name,
	}
	s := n.session()
	if s == nil {
		if h.Parked == "" {
			h.State = "restarting"
		}
		return h
	}
	servers := s.raft.GetConfiguration().Configuration().Servers
	switch s.raft.State() {
	case raft.Leader:
		h.State = "leader"
	case raft.Candidate:
		h.State = "candidate"
	default:
		h.State = "follower"
	}
	h.Removed = len(servers) > 0 && !memberOf(servers, n.id)
	h.Term, h.Commit = s.raft.CurrentTerm(), s.raft.CommitIndex()
	h.Quorum = h.Leader != "" && h.LastContact < n.quorumLimit()
	for _, srv := range servers {
		if srv.Suffrage == raft.Voter {
			h.Voters++
		}
	}
	if h.State == "leader" {
		_, h.Reachable = n.quorum(s)
	} else {
		n.contact.mu.Lock()
		h.Reachable = n.contact.reachable
		n.contact.mu.Unlock()
	}
	if h.Quorum {
		h.Tolerance = max(0, h.Reachable-(h.Voters/2+1))
	}
	h.Warnings = s.warnings(h.Voters)
	return h
}

// quorumLimit is how old the last contact may be while there is a quorum.
func (n *Node) quorumLimit() time.Duration { return 2 * n.cfg.Profile.Heartbeat }

func (s *session) warnings(voters int) []string {
	var w []string
	if voters > 0 && voters%2 == 0 {
		w = append(w, fmt.Sprintf("%d voters tolerate no more losses than %d: add or remove one", voters, voters-1))
	}
	// raft knows this without asking the disk, which may hang.
	if snapshot, err := strconv.ParseUint(s.raft.Stats()["last_snapshot_index"], 10, 64); err == nil {
		if long := s.raft.LastIndex() - min(snapshot, s.raft.LastIndex()); long > longLog*snapshotThreshold {
			w = append(w, fmt.Sprintf("%d log entries since the last snapshot: snapshots do not work", long))
		}
	}
	return w
}
