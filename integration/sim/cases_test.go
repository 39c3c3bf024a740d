package sim

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/consensus"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/routing"
	"github.com/quorate/quorate/statestore"
)

// The cases are incidents of systems like this one, from their public reports.

// GitHub, 2018-10-21: a region was cut off for 43 s and two sides wrote.
func TestGitHubARegionIsCutOffFor43Seconds(t *testing.T) {
	run(t, options{nodes: 3}, func(t *testing.T, i *installation) {
		i.raft.Isolate("n1")
		i.nodes["n1"].sight.mistake("us", health.Down) // it sees nothing outside of its region
		i.nodes["n1"].sight.mistake("ap", health.Down)
		i.nodes["n2"].sight.mistake("eu", health.Down)
		i.nodes["n3"].sight.mistake("eu", health.Down)
		time.Sleep(43 * time.Second)
		for _, name := range []string{"n2", "n3"} {
			require.Equal(t, []string{"ap", "us"}, i.nodes[name].inRotation("web"), name)
			require.Equal(t, []string{"us", "ap"}, i.nodes[name].inRotation("shop"), name)
		}
		require.Equal(t, []string{"ap", "eu", "us"}, i.nodes["n1"].inRotation("web"), "it decides nothing alone")
		for _, n := range i.all() {
			n.sight.clear()
		}
		i.finish()
		i.until("eu to be back", func() bool {
			return i.everywhere(func(n *node) bool { return len(n.inRotation("web")) == 3 })
		})
		require.Equal(t, uint64(1), i.nodes["n1"].verdicts()[target("web", "us")], "us was never down")
		require.Equal(t, uint64(3), i.nodes["n1"].verdicts()[target("web", "eu")], "up, down, up")
	})
}

// k8gb, split brain: the secondary region alone lost reach to the primary.
func TestK8gbOneRegionLosesReachToThePrimary(t *testing.T) { // G1, G9
	run(t, options{nodes: 3}, func(t *testing.T, i *installation) {
		before := i.state("n1").Index
		i.nodes["n2"].sight.mistake("eu", health.Down)
		time.Sleep(10 * time.Minute)
		require.Zero(t, i.watch.entries(before, statestore.KindRotate))
		for _, n := range i.all() {
			require.Equal(t, []string{"eu"}, n.answers("shop"), n.name)
			odd := policy.Disagreements(n.view.State())
			require.Len(t, odd, 2, "shop and web")
			require.Equal(t, health.ObserverID("n2"), odd[0].Observer)
		}
	})
}

// AWS us-east-1, 2025-10: one enactor was delayed and applied an old plan over a
// newer one.
func TestAWSADelayedNodeNeverGoesBack(t *testing.T) { // G2
	run(t, options{}, func(t *testing.T, i *installation) {
		late := i.follower()
		other := i.raft.Others(late.name)[0]
		late.hold()
		i.must(other, statestore.PutToken{ID: "t", User: "ann", Groups: []string{"ops"}, Hash: [32]byte{1}})
		time.Sleep(time.Second) // the entry that was under way
		held := late.tables.index()
		for range 10 {
			i.must(other, statestore.DrainCluster{Cluster: "eu", Reason: "upgrade", Rotations: policy.DrainRotations(i.state(other), "eu", nil)})
			i.must(other, statestore.UndrainCluster{Cluster: "eu", Rotations: policy.UndrainRotations(i.state(other), "eu")})
		}
		i.must(other, statestore.DrainCluster{Cluster: "us", Reason: "upgrade", Rotations: policy.DrainRotations(i.state(other), "us", nil)})
		time.Sleep(20 * time.Second)
		require.Equal(t, held, late.tables.index(), "it answers what it has")
		require.Equal(t, []string{"ap", "eu"}, i.nodes[other].inRotation("web"))
		late.release()
		i.settle()
		require.Equal(t, []string{"ap", "eu"}, late.inRotation("web"))
		require.Equal(t, i.nodes[other].tables.index(), late.tables.index())
	})
}

// orchestrator #1296: a leader that could not commit left its cool-down behind.
func TestOrchestratorAnUncommittedIntentLeavesNothing(t *testing.T) {
	run(t, options{}, func(t *testing.T, i *installation) {
		old := i.leader().name
		i.raft.Isolate(old)
		ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond) // within its lease it appends
		defer cancel()
		_, err := i.raft.Node(old).Propose(ctx, statestore.FreezeService{Reason: "failover"}, consensus.Origin{Actor: "alice"})
		require.ErrorIs(t, err, consensus.ErrUnknownOutcome)
		i.leader(i.raft.Others(old)...)
		i.must(i.raft.Others(old)[0], statestore.DrainCluster{Cluster: "eu", Reason: "upgrade", Rotations: policy.DrainRotations(i.state(i.raft.Others(old)[0]), "eu", nil)})
		i.finish()
		for _, n := range i.all() {
			require.Empty(t, n.view.State().Freezes, n.name)
			require.Equal(t, []string{"ap", "us"}, n.inRotation("web"), n.name)
		}
	})
}

// Cloudflare, 2020-11, and etcd #9333: a node that sends and hears nothing stood
// for election for ever.
func TestCloudflareInboundOnlyIsDropped(t *testing.T) {
	run(t, options{}, func(t *testing.T, i *installation) {
		leader, deaf := i.leader(), i.follower()
		term := i.raft.Node(leader.name).Health().Term
		for _, o := range i.raft.Others(deaf.name) {
			i.raft.Net.Drop(o, deaf.name)
		}
		time.Sleep(5 * time.Minute)
		require.Equal(t, leader, i.leader(i.raft.Others(deaf.name)...), "the leader is stable")
		require.Equal(t, term, i.raft.Node(leader.name).Health().Term, "the term is bounded")
		i.cluster("eu", health.Down)
		i.until("the others to decide", func() bool { return leader.side("eu") == health.Down })
		i.finish()
		require.LessOrEqual(t, i.raft.Node(leader.name).Health().Term, term+1)
	})
}

func TestADeafLeaderIsReplacedOnce(t *testing.T) {
	run(t, options{}, func(t *testing.T, i *installation) {
		deaf := i.leader()
		term := i.raft.Node(deaf.name).Health().Term
		for _, o := range i.raft.Others(deaf.name) {
			i.raft.Net.Drop(o, deaf.name)
		}
		time.Sleep(2 * time.Minute)
		next := i.leader(i.raft.Others(deaf.name)...)
		require.NotEqual(t, deaf, next)
		require.LessOrEqual(t, i.raft.Node(next.name).Health().Term, term+3)
		i.finish()
	})
}

// Facebook, 2021-10: every link between the sites was gone, and DNS withdrew
// itself.
func TestFacebookAllLinksAreCut(t *testing.T) { // G5, G6
	run(t, options{}, func(t *testing.T, i *installation) {
		before := i.watch.entries(0)
		for _, n := range i.all() {
			i.raft.Isolate(n.name)
		}
		i.cluster("eu", health.Down) // and nobody may decide so
		time.Sleep(10 * time.Minute)
		require.LessOrEqual(t, i.watch.entries(0), before+1, "one vote may have been under way")
		for _, n := range i.all() {
			require.Greater(t, i.raft.Node(n.name).LastContact(), 9*time.Minute, n.name)
			require.Equal(t, health.Up, n.side("eu"), n.name)
			require.NotEmpty(t, n.answers("web"), n.name)
		}
		i.finish()
		i.until("what all see to be decided", func() bool {
			return i.everywhere(func(n *node) bool { return n.side("eu") == health.Down && len(n.inRotation("web")) == 2 })
		})
	})
}

// Kuadrant dns-operator #148: two clusters went sick in the same tick, and both
// were taken out by decisions that did not see each other.
func TestKuadrantTwoClustersInTheSameTick(t *testing.T) { // G11
	run(t, options{}, func(t *testing.T, i *installation) {
		before := i.state("n1").Index
		i.clusters(health.Down, "eu", "us")
		i.until("ap alone to serve", func() bool {
			return i.everywhere(func(n *node) bool { return len(n.inRotation("web")) == 1 && len(n.inRotation("shop")) == 1 })
		})
		st := i.state("n1")
		require.Equal(t, []string{"ap"}, i.nodes["n1"].inRotation("web"))
		require.Equal(t, st.Services["web"].Targets[target("web", "eu")].Verdict.Index, st.Services["web"].Targets[target("web", "us")].Verdict.Index, "one entry turned both")
		require.Equal(t, 2, i.watch.entries(before, statestore.KindRotate), "one decision a service")
		i.cluster("ap", health.Down)
		time.Sleep(time.Minute)
		require.Equal(t, health.Down, i.nodes["n1"].side("ap"))
		require.Equal(t, []string{"ap"}, i.nodes["n1"].inRotation("web"), "the last one stays")
		require.Empty(t, i.state("n1").Freezes)
	})
}

// external-dns #2858: an empty list of clusters deleted every record.
func TestExternalDNSAnEmptyClusterListIsRefused(t *testing.T) { // G13
	run(t, options{nodes: 3}, func(t *testing.T, i *installation) {
		empty := spec()
		empty.Clusters = map[string]*statestore.Cluster{}
		st := i.state("n1")
		findings := policy.CheckSpec(st, empty)
		require.NotEmpty(t, findings.Blockers)
		var named string
		for _, b := range findings.Blockers {
			named += b.Reason + "\n"
		}
		require.Contains(t, named, "web")
		require.Contains(t, named, "shop")
		err := i.propose("n1", statestore.ApplySpec{Base: st.Revision, Source: "empty", Spec: empty, Rotations: policy.DiffSpec(st, empty).Rotations})
		require.ErrorAs(t, err, new(*statestore.Refusal), "whoever skips plan meets Apply")
		i.settle()
		for _, n := range i.all() {
			require.Equal(t, st.Revision, n.view.State().Revision)
			require.Equal(t, []string{"ap", "eu", "us"}, n.inRotation("web"))
		}
	})
}

// PowerDNS #12789: with every group down the answer was the union of all groups.
func TestPowerDNSOrderedGroupsAllDown(t *testing.T) { // G5, I9
	tests := []struct {
		name string
		mode statestore.AllDownMode
		want []string
	}{
		{"the last ones go on in order", statestore.ServeLast, []string{"eu"}},
		{"all go on in order when that was declared", statestore.ServeAll, []string{"eu"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sp := spec()
			sp.Services["shop"].OnAllDown.Mode = tt.mode
			run(t, options{nodes: 3, spec: sp}, func(t *testing.T, i *installation) {
				i.clusters(health.Down, "eu", "us", "ap")
				i.until("all to be down", func() bool {
					return i.everywhere(func(n *node) bool {
						return n.side("ap") == health.Down && n.view.State().Services["shop"].Rotation.V4.AllDown == tt.mode
					})
				})
				i.settle()
				for _, n := range i.all() {
					require.Equal(t, tt.want, n.answers("shop"), "%s: one group, never a union", n.name)
				}
			})
		})
	}
}

func TestOrderedGroupsGoDownOneByOneToTheLast(t *testing.T) {
	run(t, options{nodes: 3}, func(t *testing.T, i *installation) {
		for _, c := range []string{"eu", "us", "ap"} {
			i.cluster(c, health.Down)
			time.Sleep(10 * time.Second)
		}
		for _, n := range i.all() {
			require.Equal(t, []string{"ap"}, n.answers("shop"), n.name)
			require.Equal(t, statestore.ServeLast, n.view.State().Services["shop"].Rotation.V4.AllDown)
		}
	})
}

// A vote outlives its observer in the state. The leader that did not hear it
// itself must not count it.
func TestANewLeaderDoesNotCountVotesOfADeadObserver(t *testing.T) { // I2
	run(t, options{}, func(t *testing.T, i *installation) {
		old := i.leader()
		others := i.raft.Others(old.name)
		dead, second, next, last := i.nodes[others[0]], i.nodes[others[1]], i.nodes[others[2]], i.nodes[others[3]]
		dead.sight.mistake("eu", health.Down)
		second.sight.mistake("eu", health.Down)
		time.Sleep(time.Second)
		require.Equal(t, health.Up, old.side("eu"), "two of five")
		dead.kill()
		require.NoError(t, i.raft.Node(old.name).TransferLeader(t.Context(), next.name))
		require.Equal(t, next, i.leader())
		next.sight.mistake("eu", health.Down)
		time.Sleep(time.Second) // well within the lease of the dead one
		require.False(t, next.view.State().Observers[health.ObserverID(dead.name)].Counts())
		require.Equal(t, health.Up, next.side("eu"), "two of five, and a dead one")
		last.sight.mistake("eu", health.Down)
		i.until("three of five", func() bool { return next.side("eu") == health.Down })
	})
}

func TestOneNodeAloneAnswersTheLastCommittedTable(t *testing.T) { // G5
	run(t, options{nodes: 3}, func(t *testing.T, i *installation) {
		i.cluster("eu", health.Down)
		i.until("eu to be out", func() bool {
			return i.everywhere(func(n *node) bool { return len(n.inRotation("web")) == 2 })
		})
		i.settle()
		served := i.nodes["n2"].tables.index()
		for _, n := range i.all() {
			n.kill()
		}
		i.nodes["n2"].restart()
		require.Equal(t, served, i.nodes["n2"].tables.index(), "before Raft has said anything")
		time.Sleep(time.Minute)
		require.Equal(t, served, i.nodes["n2"].tables.index())
		require.Equal(t, []string{"us"}, i.nodes["n2"].answers("shop"))
		i.finish()
	})
}

// answers lists the clusters in one answer of the node.
func (n *node) answers(service string) []string {
	a, _ := routing.Select(n.tables.table.Load(), routing.Query{Name: service + "." + zone, Type: routing.TypeA})
	return a.Clusters
}

// counting counts the observers whose votes count, as the node has it.
func (n *node) counting() (count int) {
	for _, o := range n.view.State().Observers {
		if o.Counts() {
			count++
		}
	}
	return count
}
