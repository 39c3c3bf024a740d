package consensus

import (
	"fmt"
	"time"

	"github.com/hashicorp/raft"
)

// watchdog is what the session's loop remembers between two looks.
type watchdog struct {
	hasty  bool // raft runs with the short election timeouts
	member bool // this node was a member once

	told time.Duration // when the members' metrics were set last, by Config.Clock
}

const (
	// frozenAfter is in elections: a follower that acknowledges nothing for so long
	// while it answers is wedged (hashicorp/raft #611, #612).
	frozenAfter = 10

	// stuckAfter is in elections: a leadership transfer takes one at most, so a flag
	// that still stands is never cleared (hashicorp/raft #696).
	stuckAfter = 3

	// longLog is in snapshot thresholds: far past where a snapshot was due.
	longLog = 8
)

// run looks after raft until the session ends.
func (s *session) run() {
	s.watch.hasty = true // raftConfig starts so
	ticker := time.NewTicker(s.n.cfg.Profile.pingEvery())
	defer ticker.Stop()
	for {
		s.look()
		select {
		case <-ticker.C:
		case <-s.kick:
		case <-s.stop:
			return
		}
	}
}

func (s *session) look() {
	n := s.n
	_, id := s.raft.LeaderWithID()
	name, _ := SplitServerID(string(id))
	n.setLeader(name, false)
	servers := s.raft.GetConfiguration().Configuration().Servers
	leads := s.raft.State() == raft.Leader
	n.contact.forget(servers)
	s.pingAll(servers, leads)
	s.pace(id)
	if leads {
		n.leaseAge(s) // moves contact.heard on, for when leadership ends
		s.watchFollowers(servers)
		s.promote(servers)
	}
	s.watchTransfer()
	s.watchMembership(servers)
	if now := n.cfg.Clock(); now-s.watch.told >= n.cfg.Profile.Heartbeat || s.watch.told == 0 {
		s.watch.told = now // a gauge that is a heartbeat old is young enough
		n.metrics.members(n, servers)
	}
}

// pace chooses raft's election timeouts: steady while a leader is heard, hasty
// before the first and once its raft is certainly gone (nothing heard for a lease,
// and its port refuses or its process says so). By then the leader's own lease has run out or will
// never be used again, so the haste takes nothing from it; a leader that is only
// slow or cut off gets the whole heartbeat. Pre-vote keeps a hasty follower that
// errs from disturbing the others.
func (s *session) pace(leader raft.ServerID) {
	p := s.n.cfg.Profile
	hasty := s.watch.hasty
	switch {
	case leader == "" || leader == s.n.id:
		hasty = hasty && leader == ""
	case time.Since(s.raft.LastContact()) < p.Lease:
		hasty = false
	default:
		s.n.contact.mu.Lock()
		peer := s.n.contact.peers[leader]
		hasty = hasty || (peer != nil && peer.refused)
		s.n.contact.mu.Unlock()
	}
	if hasty == s.watch.hasty {
		return
	}
	s.watch.hasty = hasty
	conf := p.steady()
	if hasty {
		conf = p.hasty()
	}
	if err := s.raft.ReloadConfig(conf); err != nil {
		s.n.log.Warn("raft timeouts not changed", keyErr, err)
	}
}

// watchFollowers restarts raft when a follower answers but its log stands still
// below what is committed.
func (s *session) watchFollowers(servers []raft.Server) {
	n := s.n
	now := n.cfg.Clock()
	commit := s.raft.CommitIndex()
	limit := frozenAfter * n.cfg.Profile.Election
	n.contact.mu.Lock()
	defer n.contact.mu.Unlock()
	for _, srv := range servers {
		p := n.contact.peers[srv.ID]
		if p == nil {
			continue
		}
		if p.last >= commit || now-p.seen > n.cfg.Profile.Heartbeat {
			p.moved = now // nothing to catch up with, or not there to do so
			continue
		}
		if now-p.moved > limit {
			p.moved = now
			n.restart(fmt.Sprintf("follower %s answers but its log stands at %d, below %d, for %s", srv.ID, p.last, commit, limit))
		}
	}
}

// watchTransfer restarts raft when proposals meet a leadership transfer that
// should be long over.
func (s *session) watchTransfer() {
	since := time.Duration(s.transferStuck.Load())
	if since == 0 || s.n.cfg.Clock()-since < stuckAfter*s.n.cfg.Profile.Election {
		return
	}
	s.transferStuck.Store(0)
	if s.raft.State() == raft.Leader {
		s.n.restart("leadership transfer does not end")
	}
}

// watchMembership notices that this node was removed.
func (s *session) watchMembership(servers []raft.Server) {
	switch in := memberOf(servers, s.n.id); {
	case in:
		s.watch.member = true
	case s.watch.member && len(servers) > 0:
		s.watch.member = false
		s.n.log.Warn("no longer a member", keyID, string(s.n.id))
	}
}

func memberOf(servers []raft.Server, id raft.ServerID) bool {
	for _, srv := range servers {
		if srv.ID == id {
			return true
		}
	}
	return false
}
