package consensus_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/consensus"
	"github.com/quorate/quorate/consensus/consensustest"
)

func TestAnIsolatedLeaderCommitsNothingAndNoAckIsLost(t *testing.T) { // G6, G7
	synctest.Test(t, func(t *testing.T) {
		c := consensustest.New(t, 5, consensustest.Options{})
		old := c.WaitLeader()
		c.Propose(old, token(0))
		c.Settle()
		c.Isolate(old)
		before := c.Store(old).State().Index
		_, err := c.Node(old).Propose(t.Context(), token(1), consensus.Origin{Actor: "cut off"})
		require.Error(t, err)

		leader := c.WaitLeader(c.Others(old)...)
		for i := 10; i < 30; i++ {
			c.Propose(leader, token(i))
		}
		require.Equal(t, before, c.Store(old).State().Index, "the minority applied something")
		_, err = c.Node(old).Propose(t.Context(), token(2), consensus.Origin{Actor: "cut off"})
		require.ErrorIs(t, err, consensus.ErrNoLeader)
		require.False(t, c.Node(old).Health().Quorum)

		c.Net.Heal()
		c.Settle()
		for i := 10; i < 30; i++ {
			require.Contains(t, c.Store(old).State().Tokens, fmt.Sprintf("t%d", i))
		}
		require.NotContains(t, c.Store(old).State().Tokens, "t1")
	})
}

func TestAMinorityOfTwoInFiveProposesNothing(t *testing.T) { // G6
	synctest.Test(t, func(t *testing.T) {
		c := consensustest.New(t, 5, consensustest.Options{})
		leader := c.WaitLeader()
		small := []string{leader, c.Follower(leader)}
		big := c.Others(small...)
		c.Split(small, big)
		next := c.WaitLeader(big...)
		for _, name := range small {
			_, err := c.Node(name).Propose(t.Context(), token(1), consensus.Origin{Actor: "ann"})
			require.ErrorIs(t, err, consensus.ErrNoLeader)
		}
		c.Propose(next, token(2))
		c.Net.Heal()
		c.Settle()
		require.NotContains(t, c.Store(leader).State().Tokens, "t1")
	})
}

func TestARetryWithTheSameRequestRunsOnce(t *testing.T) { // G8
	synctest.Test(t, func(t *testing.T) {
		c := consensustest.New(t, 3, consensustest.Options{})
		leader := c.WaitLeader()
		follower := c.Follower(leader)
		c.Propose(leader, token(0))
		origin := consensus.Origin{Actor: "ann", Request: "r1", Issued: time.Now()}

		// The request arrives and commits; its answer never comes back.
		c.Net.Drop(leader, follower)
		ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
		_, err := c.Node(follower).Propose(ctx, token(1), origin)
		cancel()
		require.ErrorIs(t, err, consensus.ErrUnknownOutcome)
		c.Until("commit", func() bool { return c.Store(leader).State().Tokens["t1"] != nil })

		c.Net.Heal()
		c.WaitLeader()
		events := c.Store(leader).State().Audit.Count
		res, err := c.Node(follower).Propose(t.Context(), token(1), origin)
		require.NoError(t, err)
		require.NoError(t, res.Err, "the first outcome is remembered, not refused as existing")
		c.Settle()
		require.Equal(t, events, c.Store(leader).State().Audit.Count, "the retry changed something")
	})
}

func TestADoubtIsUnknownAndNeverTriedAgainWithoutARequest(t *testing.T) { // G8
	synctest.Test(t, func(t *testing.T) {
		c := consensustest.New(t, 3, consensustest.Options{})
		leader := c.WaitLeader()
		c.Isolate(leader)
		_, err := c.Node(leader).Propose(t.Context(), token(1), consensus.Origin{Actor: "ann"})
		require.ErrorIs(t, err, consensus.ErrUnknownOutcome)
	})
}

func TestAProposalOutlivesTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := consensustest.New(t, 3, consensustest.Options{})
		leader := c.WaitLeader()
		follower := c.Follower(leader)
		c.Kill(leader)
		res, err := c.Node(follower).Propose(t.Context(), token(1), consensus.Origin{Actor: "ann", Request: "r", Issued: time.Now()})
		require.NoError(t, err)
		require.NoError(t, res.Err)
	})
}

// A leader that is cut off has taken the write and cannot say so; the next one has
// it soon after it was elected, not when a timeout ends.
func TestAProposalFollowsTheLeadershipAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := consensustest.New(t, 3, consensustest.Options{Profile: consensus.LAN()})
		leader := c.WaitLeader()
		follower := c.Follower(leader)
		c.Propose(follower, token(1)) // connected
		c.Isolate(leader)
		start := time.Now()
		res, err := c.Node(follower).Propose(t.Context(), token(2), consensus.Origin{Actor: "ann", Request: "r", Issued: time.Now()})
		took := time.Since(start)
		require.NoError(t, err)
		require.NoError(t, res.Err)
		c.Net.Heal()
		c.Settle()
		require.Less(t, took, 5*time.Second)
	})
}

func TestAKilledLeaderIsReplacedWithinTwoSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var worst, sum time.Duration
		const rounds = 30
		c := consensustest.New(t, 3, consensustest.Options{})
		for range rounds {
			leader := c.WaitLeader()
			time.Sleep(time.Duration(rand.IntN(3000)) * time.Millisecond)
			start := time.Now()
			c.Kill(leader)
			next := c.WaitLeader()
			took := time.Since(start)
			worst, sum = max(worst, took), sum+took
			c.Propose(next, freeze(start))
			c.Propose(next, thaw())
			c.Restart(leader)
			c.Until("rejoin", func() bool { return c.Store(leader).State().Index == c.Store(next).State().Index })
		}
		t.Logf("re-election: mean %s, worst %s", sum/rounds, worst)
		require.Less(t, worst, 2500*time.Millisecond)
	})
}

func TestASilentLeaderIsReplaced(t *testing.T) { // a cut, not a reset: nothing refuses
	synctest.Test(t, func(t *testing.T) {
		c := consensustest.New(t, 3, consensustest.Options{})
		for range 5 {
			leader := c.WaitLeader()
			start := time.Now()
			c.Isolate(leader)
			c.WaitLeader(c.Others(leader)...)
			require.Less(t, time.Since(start), 8*time.Second)
			c.Net.Heal()
			c.WaitLeader()
		}
	})
}

func TestARejoiningNodeDisturbsNobody(t *testing.T) { // SYN-6
	synctest.Test(t, func(t *testing.T) {
		c := consensustest.New(t, 3, consensustest.Options{})
		leader := c.WaitLeader()
		follower := c.Follower(leader)
		term := c.Node(leader).Health().Term
		c.Isolate(follower)
		time.Sleep(time.Minute)
		c.Net.Heal()
		time.Sleep(10 * time.Second)
		require.Equal(t, leader, c.WaitLeader())
		require.Equal(t, term, c.Node(leader).Health().Term)
	})
}

func TestAOneWayLossLeavesALeaderThatWorks(t *testing.T) { // Cloudflare 2020-11, etcd #9333
	synctest.Test(t, func(t *testing.T) {
		c := consensustest.New(t, 3, consensustest.Options{})
		leader := c.WaitLeader()
		deaf := c.Follower(leader)
		term := c.Node(leader).Health().Term
		for _, other := range c.Others(deaf) {
			c.Net.Drop(other, deaf)
		}
		time.Sleep(time.Minute)
		c.Propose(leader, token(1))
		require.LessOrEqual(t, c.Node(leader).Health().Term, term+1)
		c.Net.Heal()
		c.WaitLeader()
		c.Settle()
	})
}

func TestAFollowerThatWasAwayCatchesUp(t *testing.T) { // P-10, I16
	synctest.Test(t, func(t *testing.T) {
		c := consensustest.New(t, 3, consensustest.Options{})
		leader := c.WaitLeader()
		away := c.Follower(leader)
		for round := range 5 {
			c.Isolate(away)
			for i := range 100 {
				c.Propose(leader, token(round*100+i))
			}
			start := time.Now()
			c.Net.Heal()
			c.Settle()
			require.Less(t, time.Since(start), 30*time.Second)
		}
	})
}

func TestNoAckIsLostWhileNodesComeAndGo(t *testing.T) { // G7, G15, I4, I8
	synctest.Test(t, func(t *testing.T) {
		seed := rand.Uint64()
		rnd := rand.New(rand.NewPCG(seed, 1))
		t.Logf("seed %d", seed)
		c := consensustest.New(t, 5, consensustest.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		var mu sync.Mutex
		acked := map[string]bool{}
		for w := range 3 {
			wg.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					id := (w+1)*100000 + i
					node := fmt.Sprintf("n%d", w+1)
					res, err := c.Node(node).Propose(ctx, token(id), consensus.Origin{
						Actor: node, Request: fmt.Sprint(id), Issued: time.Now(),
					})
					if err == nil && res.Err == nil {
						mu.Lock()
						acked[fmt.Sprintf("t%d", id)] = true
						mu.Unlock()
					}
					time.Sleep(250 * time.Millisecond)
				}
			})
		}
		for range 12 {
			switch rnd.IntN(3) {
			case 0:
				c.Isolate(c.Names()[rnd.IntN(5)])
			case 1:
				k := 1 + rnd.IntN(4)
				c.Split(c.Names()[:k], c.Names()[k:])
			case 2:
				c.Net.Drop(c.Names()[rnd.IntN(5)], c.Names()[rnd.IntN(5)])
			}
			time.Sleep(time.Duration(rnd.IntN(4000)) * time.Millisecond)
			c.Net.Heal()
			c.Restart([]string{"n4", "n5"}[rnd.IntN(2)])
			time.Sleep(time.Duration(rnd.IntN(4000)) * time.Millisecond)
		}
		cancel()
		wg.Wait()
		c.WaitLeader()
		c.Propose("n1", token(1))
		c.Settle()
		for id := range acked {
			require.Contains(t, c.Store("n5").State().Tokens, id)
		}
		t.Logf("%d acknowledged", len(acked))
		require.Greater(t, len(acked), 100)
	})
}

func TestLinearizableReadsSeeWhatWasAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := consensustest.New(t, 3, consensustest.Options{})
		leader := c.WaitLeader()
		reader := c.Follower(leader)
		for i := range 20 {
			res := c.Propose(leader, token(i))
			index, err := c.Node(reader).ReadIndex(t.Context())
			require.NoError(t, err)
			require.GreaterOrEqual(t, index, res.Index)
			require.Contains(t, c.Store(reader).State().Tokens, fmt.Sprintf("t%d", i))
		}
		c.Isolate(reader)
		_, err := c.Node(reader).ReadIndex(t.Context())
		require.Error(t, err)
		require.False(t, errors.Is(err, consensus.ErrUnknownOutcome))
	})
}
