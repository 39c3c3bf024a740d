package sim

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/routing"
	"github.com/quorate/quorate/statestore"
)

// answersAll waits until every running node answers db with the cluster.
func (i *installation) answersAll(cluster string) {
	i.t.Helper()
	i.until("every node to answer db with "+cluster, func() bool {
		return i.everywhere(func(n *node) bool {
			clusters := n.answers("db")
			return len(clusters) == 1 && clusters[0] == cluster
		})
	})
}

// opened waits until a node shows an open cutover of db.
func (i *installation) opened(node string) *statestore.Cutover {
	i.t.Helper()
	i.until("a proposal", func() bool { return i.nodes[node].open() != nil })
	return i.nodes[node].open()
}

// GitHub, 2018-10-21: a region was cut off for 43 s, and what moved then cost a day.
func TestGitHubTheActiveRegionIsCutOffFor43Seconds(t *testing.T) {
	for _, tt := range []struct {
		hold      time.Duration
		proposals int
	}{{time.Minute, 0}, {10 * time.Second, 1}} {
		t.Run(tt.hold.String(), func(t *testing.T) {
			run(t, options{nodes: 3, spec: statefulSpec(proposeAfter(tt.hold))}, func(t *testing.T, i *installation) {
				before := i.state("n2").Index
				i.raft.Isolate("n1")
				i.nodes["n1"].sight.mistake("us", health.Down)
				i.nodes["n1"].sight.mistake("ap", health.Down)
				i.nodes["n2"].sight.mistake("eu", health.Down)
				i.nodes["n3"].sight.mistake("eu", health.Down)
				time.Sleep(43 * time.Second)
				require.Equal(t, tt.proposals, i.watch.entries(before, statestore.KindProposeCutover))
				for _, n := range i.all() {
					require.Equal(t, []string{"eu"}, n.answers("db"), n.name)
					n.sight.clear()
				}
				i.finish()
				time.Sleep(5 * time.Minute)
				require.Equal(t, tt.proposals, i.watch.entries(before, statestore.KindProposeCutover), "and no other")
				for _, n := range i.all() {
					require.Nil(t, n.open())
					for _, co := range n.view.State().Cutovers {
						require.Equal(t, statestore.Withdrawn, co.Phase)
					}
					require.Equal(t, "eu", n.view.State().Ownership("db").Active)
				}
			})
		})
	}
}

func TestAPersonMovesAServiceWhoseActiveSideDied(t *testing.T) {
	run(t, options{spec: statefulSpec(proposeAfter(10 * time.Second))}, func(t *testing.T, i *installation) {
		i.cluster("eu", health.Down)
		time.Sleep(20 * time.Second)
		i.opened("n1")
		require.NoError(t, i.signs("n1", "bob"))
		require.ErrorIs(t, i.signs("n1", "bob"), statestore.ErrSigned)
		for _, n := range i.all() {
			require.Equal(t, []string{"eu"}, n.answers("db"), "%s: held for approval", n.name)
		}
		signed := time.Now()
		require.NoError(t, i.signs("n4", "carol"))
		i.answersAll("us")
		require.Less(t, time.Since(signed), 300*time.Millisecond, "from the last signature to the answer everywhere")
		require.ErrorIs(t, i.propose("n2", statestore.ApproveCutover{ID: "CUT-1", Evidence: i.state("n2").Cutovers["CUT-1"].Digest, Reason: "late", Signer: who("dave")}), statestore.ErrDecided)

		i.cluster("eu", health.Up)
		time.Sleep(2 * time.Minute)
		for _, n := range i.all() {
			require.Equal(t, []string{"us"}, n.answers("db"), "%s: the old side is back, and nobody asked", n.name)
		}
		require.NoError(t, i.wants("n3", "alice", statestore.Back, ""))
		require.ErrorIs(t, i.signs("n3", "alice"), statestore.ErrSelfApproval)
		require.NoError(t, i.signs("n3", "bob"))
		require.NoError(t, i.signs("n5", "carol"))
		i.answersAll("eu")
		require.Equal(t, uint64(3), i.state("n1").Ownership("db").Epoch)
		i.finish()
	})
}

// The old active side comes back before, while and after the service moves.
func TestTheOldActiveSideIsNeverAnsweredAgain(t *testing.T) {
	for _, when := range []string{"before", "during", "after"} {
		t.Run(when, func(t *testing.T) {
			run(t, options{spec: statefulSpec(proposeAfter(10 * time.Second))}, func(t *testing.T, i *installation) {
				i.cluster("eu", health.Down)
				time.Sleep(20 * time.Second)
				i.opened("n1")
				require.NoError(t, i.signs("n1", "bob"))
				if when == "before" {
					i.cluster("eu", health.Up)
					time.Sleep(5 * time.Second)
					require.Nil(t, i.nodes["n1"].open(), "withdrawn")
					require.ErrorIs(t, i.signs("n1", "carol"), statestore.ErrNotFound)
					time.Sleep(time.Minute)
					i.answersAll("eu")
					return
				}
				late := i.follower()
				if when == "during" {
					late.hold() // it does not acknowledge
				}
				require.NoError(t, i.signs(i.leader().name, "carol"))
				time.Sleep(10 * time.Second)
				if when == "during" {
					require.Equal(t, statestore.Fencing, i.leader().open().Phase)
					require.Equal(t, []string{late.name}, i.leader().view.State().Waiting(i.leader().open(), i.others(late.name)))
				}
				i.cluster("eu", health.Up)
				time.Sleep(10 * time.Second)
				late.release()
				i.answersAll("us")
				time.Sleep(2 * time.Minute)
				i.answersAll("us")
				i.finish()
			})
		})
	}
}

func (i *installation) others(name string) []string { return i.raft.Others(name) }

func TestALeaderThatDiesWhileFencingIsResumed(t *testing.T) {
	run(t, options{spec: statefulSpec(proposeAfter(10 * time.Second))}, func(t *testing.T, i *installation) {
		i.cluster("eu", health.Down)
		time.Sleep(20 * time.Second)
		i.opened("n1")
		old, late := i.leader(), i.follower()
		require.NoError(t, i.signs(old.name, "bob"))
		time.Sleep(time.Second)
		late.hold()
		require.NoError(t, i.signs(old.name, "carol"))
		i.until("it to begin", func() bool { return old.open().Phase == statestore.Fencing })
		time.Sleep(time.Second)
		before := old.view.State().Index
		old.kill()
		i.leader(i.raft.Others(old.name)...)
		next := i.nodes[i.raft.Others(old.name, late.name)[0]]
		time.Sleep(10 * time.Second)
		require.Equal(t, statestore.Fencing, next.open().Phase, "%s has not acknowledged", late.name)
		late.release()
		time.Sleep(5 * time.Second)
		require.Equal(t, statestore.Fencing, next.open().Phase, "%s has not, or nobody knows that it has", old.name)
		old.restart()
		i.answersAll("us")
		require.Zero(t, i.watch.entries(before, statestore.KindBeginCutover), "from its committed step")
		require.Equal(t, uint64(2), next.view.State().Ownership("db").Epoch)
		i.finish()
	})
}

func TestAMemberThatIsGoneIsNamedAndNotWaitedFor(t *testing.T) {
	run(t, options{spec: statefulSpec(proposeAfter(10 * time.Second))}, func(t *testing.T, i *installation) {
		gone := i.follower()
		gone.kill()
		i.cluster("eu", health.Down)
		time.Sleep(30 * time.Second)
		lead := i.leader().name
		require.Equal(t, []string{gone.name}, i.opened(lead).Evidence.Unacknowledged)
		require.NoError(t, i.signs(lead, "bob"))
		require.NoError(t, i.signs(lead, "carol"))
		i.answersAll("us")
		gone.restart()
		i.finish()
		i.answersAll("us")
	})
}

func TestG6AMinorityAcceptsNoSignature(t *testing.T) {
	run(t, options{spec: statefulSpec(proposeAfter(10 * time.Second))}, func(t *testing.T, i *installation) {
		i.cluster("eu", health.Down)
		time.Sleep(20 * time.Second)
		i.opened("n1")
		cut := i.raft.Others(i.leader().name)[:2]
		i.split(cut...)
		time.Sleep(5 * time.Second)
		for _, name := range cut {
			err := i.signs(name, "bob")
			require.Error(t, err)
			require.False(t, errors.As(err, new(*statestore.Refusal)), "not known, and not refused: %v", err)
		}
		i.finish()
		require.Empty(t, i.nodes["n1"].open().Signatures, "and nothing was kept for later")
		i.answersAll("eu")
	})
}

func TestAnAbortGivesTheSourceANewEpoch(t *testing.T) {
	run(t, options{spec: statefulSpec()}, func(t *testing.T, i *installation) {
		late := i.follower()
		lead := i.leader().name
		require.NoError(t, i.wants(lead, "alice", statestore.Planned, "us"))
		require.NoError(t, i.signs(lead, "bob"))
		late.hold()
		require.NoError(t, i.signs(lead, "carol"))
		i.until("it to begin", func() bool { return i.nodes[lead].open().Phase == statestore.Fencing })
		time.Sleep(time.Second)
		require.Empty(t, i.nodes[lead].answers("db"), "nobody is answered")
		i.must(lead, statestore.AbortCutover{ID: "CUT-1", Reason: "stop", Signer: who("bob")})
		late.release()
		i.answersAll("eu")
		own := i.state(lead).Ownership("db")
		require.Equal(t, uint64(3), own.Epoch, "2 was reserved and is never used again")
		i.finish()
	})
}

func TestACutoverExpiresOnAQuietLog(t *testing.T) {
	brief := func(s *statestore.Stateful) { s.Approval.TTL = statestore.Duration(5 * time.Minute) }
	run(t, options{nodes: 3, spec: statefulSpec(brief)}, func(t *testing.T, i *installation) {
		require.NoError(t, i.wants("n1", "alice", statestore.Planned, "us"))
		co := i.opened("n1")
		time.Sleep(5*time.Minute - time.Second)
		require.Equal(t, statestore.Proposed, i.state("n1").Cutovers[co.ID].Phase)
		time.Sleep(20 * time.Second)
		require.Equal(t, statestore.Expired, i.state("n1").Cutovers[co.ID].Phase)
		require.ErrorIs(t, i.propose("n2", statestore.ApproveCutover{ID: co.ID, Evidence: co.Digest, Reason: "late", Signer: who("bob")}), statestore.ErrExpired)
		i.answersAll("eu")
	})
}

// Nothing on the way of an answer says where a stateful service is but its table.
func TestExplainAndAnswerAgreeWhileItMoves(t *testing.T) {
	run(t, options{nodes: 3, spec: statefulSpec()}, func(t *testing.T, i *installation) {
		late, lead := i.follower(), i.leader().name
		require.NoError(t, i.wants(lead, "alice", statestore.Planned, "us"))
		require.NoError(t, i.signs(lead, "bob"))
		late.hold()
		require.NoError(t, i.signs(lead, "carol"))
		time.Sleep(time.Second)
		a, _ := routing.Select(i.nodes[lead].tables.table.Load(), routing.Query{Name: "db." + zone, Type: routing.TypeA})
		require.Equal(t, routing.ServFail, a.Kind)
		require.Equal(t, []string{"eu"}, late.answers("db"), "it has not heard yet, and nobody is answered with us")
		late.release()
		i.answersAll("us")
	})
}
