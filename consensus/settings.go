package consensus

import (
	"cmp"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
)

// Profile holds the timeouts that depend on the network between the nodes.
// The zero value is WAN.
type Profile struct {
	Name      string
	Heartbeat time.Duration // a follower that heard no leader for this long stands for election
	Election  time.Duration // a candidate that did not win within this tries again
	Lease     time.Duration // a leader that reached no quorum within this steps down
	Transport time.Duration // deadline of one Raft RPC; snapshots get more, by size
	Propose   time.Duration // how long Propose waits when its context has no earlier deadline
}

// WAN suits regions of one planet: Consul's raft_multiplier 5.
func WAN() Profile {
	return Profile{
		Name: "wan", Heartbeat: 5 * time.Second, Election: 5 * time.Second, Lease: 2500 * time.Millisecond,
		Transport: 10 * time.Second, Propose: 20 * time.Second,
	}
}

// LAN suits nodes within a few milliseconds of each other: raft's own defaults.
func LAN() Profile {
	return Profile{
		Name: "lan", Heartbeat: time.Second, Election: time.Second, Lease: 500 * time.Millisecond,
		Transport: 3 * time.Second, Propose: 10 * time.Second,
	}
}

// Test suits nodes in one process.
func Test() Profile {
	return Profile{
		Name: "test", Heartbeat: 300 * time.Millisecond, Election: 300 * time.Millisecond, Lease: 150 * time.Millisecond,
		Transport: time.Second, Propose: 5 * time.Second,
	}
}

// ProfileNamed returns the profile called name: wan (also ""), lan or test.
func ProfileNamed(name string) (Profile, error) {
	switch cmp.Or(name, "wan") {
	case "wan":
		return WAN(), nil
	case "lan":
		return LAN(), nil
	case "test":
		return Test(), nil
	}
	return Profile{}, fmt.Errorf("timeouts: must be wan, lan or test, is %q", name)
}

// ObserverLease is how long an observer may be silent before its votes are set
// aside. It is above two elections, so that a change of leader alone silences
// nobody.
func (p Profile) ObserverLease() time.Duration { return 3 * p.Election }

// Validate checks every relation between the timeouts.
func (p Profile) Validate() error {
	switch {
	case p.Lease < 10*time.Millisecond:
		return fmt.Errorf("profile %s: lease must be at least 10ms, is %s", p.Name, p.Lease)
	case p.Heartbeat < 2*p.Lease:
		// Half a heartbeat is the margin in which a leader that lost its quorum
		// notices before the others may have elected another.
		return fmt.Errorf("profile %s: heartbeat must be at least twice the lease %s, is %s", p.Name, p.Lease, p.Heartbeat)
	case p.Election < p.Heartbeat:
		return fmt.Errorf("profile %s: election must be at least the heartbeat %s, is %s", p.Name, p.Heartbeat, p.Election)
	case p.Transport < p.Heartbeat:
		return fmt.Errorf("profile %s: transport must be at least the heartbeat %s, is %s", p.Name, p.Heartbeat, p.Transport)
	case p.Propose < 2*p.Election:
		// A proposal should outlive one change of leader.
		return fmt.Errorf("profile %s: propose must be at least two elections of %s, is %s", p.Name, p.Election, p.Propose)
	case p.ObserverLease() < 2*p.Election:
		return fmt.Errorf("profile %s: observer lease must be at least two elections of %s, is %s", p.Name, p.Election, p.ObserverLease())
	}
	return nil
}

const (
	// commitTimeout bounds how late an idle follower learns the commit index.
	commitTimeout = 50 * time.Millisecond

	// trailingLogs keeps InstallSnapshot rare: a follower that was away for this
	// many entries still catches up from the log (hashicorp/raft #697, #704).
	trailingLogs = 10240

	// snapshotThreshold and snapshotInterval bound the log and how long a restart
	// replays it.
	snapshotThreshold = 8192
	snapshotInterval  = 5 * time.Minute

	// snapshotsKept: the newest, and the one before in case it does not read.
	snapshotsKept = 2

	// maxRPCsInFlight switches pipelining off: after a rejected append it can leave
	// a follower behind for ever while heartbeats succeed (hashicorp/raft #611).
	maxRPCsInFlight = 1

	// raftProtocol is what every node speaks; there is no negotiation.
	raftProtocol = 3
)

// hasty returns the shortest election timeouts that still respect the lease.
func (p Profile) hasty() raft.ReloadableConfig { return p.reloadable(p.Lease) }

// steady returns the profile's own.
func (p Profile) steady() raft.ReloadableConfig { return p.reloadable(0) }

func (p Profile) reloadable(short time.Duration) raft.ReloadableConfig {
	return raft.ReloadableConfig{
		TrailingLogs:      trailingLogs,
		SnapshotInterval:  snapshotInterval,
		SnapshotThreshold: snapshotThreshold,
		HeartbeatTimeout:  cmp.Or(short, p.Heartbeat),
		ElectionTimeout:   cmp.Or(short, p.Election),
	}
}

// raftConfig returns raft's configuration at the start of a session.
//
// It starts hasty: nobody has heard a leader yet, and waiting the full heartbeat
// for one that may not exist only delays the first election. This is safe: terms,
// votes and pre-vote never depend on timeouts, and the leader's lease is still no
// longer than the time a follower that heard it stays loyal. Once a leader is
// known the node is steady (watchdog.go), since a short timeout under a running
// leader would turn every hiccup of the network into an election.
func (p Profile) raftConfig(id raft.ServerID) *raft.Config {
	c := raft.DefaultConfig()
	hasty := p.hasty()
	c.ProtocolVersion = raftProtocol
	c.LocalID = id
	c.HeartbeatTimeout = hasty.HeartbeatTimeout
	c.ElectionTimeout = hasty.ElectionTimeout
	c.LeaderLeaseTimeout = p.Lease
	c.CommitTimeout = commitTimeout
	c.TrailingLogs = hasty.TrailingLogs
	c.SnapshotInterval = hasty.SnapshotInterval
	c.SnapshotThreshold = hasty.SnapshotThreshold
	c.MaxAppendEntries = 64
	c.BatchApplyCh = false
	c.ShutdownOnRemove = false
	c.PreVoteDisabled = false
	c.NoLegacyTelemetry = true
	return c
}
