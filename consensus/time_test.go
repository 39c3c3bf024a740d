package consensus_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/consensus"
	"github.com/quorate/quorate/consensus/consensustest"
	"github.com/quorate/quorate/statestore"
)

// logTime proposes a tick at a node and returns log time after it.
func logTime(c *consensustest.Cluster, node string) time.Time {
	c.Propose(node, statestore.Tick{})
	return c.Store(node).State().Now
}

func TestLogTimeIsUnclampedOnAQuietLog(t *testing.T) { // M_CLAMP
	synctest.Test(t, func(t *testing.T) {
		c := consensustest.New(t, 3, consensustest.Options{})
		leader := c.WaitLeader()
		for _, quiet := range []time.Duration{time.Second, time.Minute, 4 * time.Minute} {
			before := logTime(c, leader)
			time.Sleep(quiet)
			require.InDelta(t, quiet, logTime(c, leader).Sub(before), float64(100*time.Millisecond))
		}
	})
}

func TestLogTimeCountsQuietTimeAcrossAChangeOfLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := consensustest.New(t, 3, consensustest.Options{})
		leader := c.WaitLeader()
		before, start := logTime(c, leader), time.Now()
		time.Sleep(5 * time.Minute)
		c.Kill(leader)
		next := c.WaitLeader()
		after := logTime(c, next)
		require.InDelta(t, time.Since(start), after.Sub(before), float64(500*time.Millisecond))
	})
}

func TestLogTimeNeverRunsBackAndNeverFasterAcrossLeaders(t *testing.T) { // G10
	synctest.Test(t, func(t *testing.T) {
		c := consensustest.New(t, 3, consensustest.Options{})
		leader := c.WaitLeader()
		last, start := logTime(c, leader), time.Now()
		first := last
		for range 20 {
			switch len(c.Up()) {
			case 3:
				c.Kill(leader)
			default:
				c.Restart(leader)
			}
			time.Sleep(700 * time.Millisecond)
			next := c.WaitLeader()
			now := logTime(c, next)
			require.False(t, now.Before(last))
			last = now
			if len(c.Up()) == 3 {
				leader = next
			}
		}
		require.InDelta(t, time.Since(start), last.Sub(first), float64(500*time.Millisecond))
	})
}

func TestManyProposalsAtOnceCountNoInstantTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Entries are stamped long before the one before them is applied.
		c := consensustest.New(t, 3, consensustest.Options{Latency: 40 * time.Millisecond})
		leader := c.WaitLeader()
		start := time.Now()
		c.Propose(leader, statestore.Tick{}) // else log time also takes the idle time before
		before := logTime(c, leader)
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				for range 5 {
					_, err := c.Node(leader).Propose(context.Background(), statestore.Tick{}, consensus.Origin{Actor: "ann"})
					require.NoError(t, err)
					time.Sleep(3 * time.Millisecond)
				}
			})
		}
		wg.Wait()
		took := time.Since(start)
		passed := logTime(c, leader).Sub(before)
		require.InDelta(t, took, passed, float64(250*time.Millisecond))
		require.LessOrEqual(t, passed, time.Since(start))
	})
}

func TestARestartedInstallationTakesTheWallClockDifference(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		step := time.Duration(0)
		c := consensustest.New(t, 3, consensustest.Options{Config: func(_ string, cfg *consensus.Config) {
			cfg.Wall = func() time.Time { return time.Now().Add(step) }
		}})
		before := logTime(c, c.WaitLeader())
		restart := func() {
			for _, name := range c.Names() {
				c.Kill(name)
			}
			time.Sleep(time.Minute)
			for _, name := range c.Names() {
				c.Restart(name)
			}
			c.WaitLeader()
			c.Until("replay", func() bool { return c.Store("n1").State().Index > 0 })
			c.Settle()
		}
		restart()
		after := logTime(c, c.WaitLeader())
		require.InDelta(t, time.Minute, after.Sub(before), float64(5*time.Second))
		step = -time.Hour
		restart()
		require.False(t, logTime(c, c.WaitLeader()).Before(after), "log time ran back with the wall clock")
	})
}

func TestReportedAgeIsNeverBelowTheTrueAge(t *testing.T) { // I11
	synctest.Test(t, func(t *testing.T) {
		c := consensustest.New(t, 3, consensustest.Options{})
		leader := c.WaitLeader()
		followers := c.Others(leader)
		time.Sleep(5 * time.Second)
		for _, f := range followers {
			require.Less(t, c.Node(f).LastContact(), time.Second, "a healthy follower is fresh")
		}
		require.Zero(t, c.Node(leader).LastContact())

		// From here on the leader reaches only one follower, then none.
		c.Isolate(followers[0])
		time.Sleep(3 * time.Second)
		require.GreaterOrEqual(t, c.Node(followers[0]).LastContact(), 3*time.Second)
		require.Less(t, c.Node(followers[1]).LastContact(), time.Second)

		// The old leader and a nonvoting side: heartbeats go on for a moment after the
		// quorum is lost, and must not count for longer than the lease.
		cut := time.Now()
		c.Isolate(leader)
		for range 40 {
			time.Sleep(100 * time.Millisecond)
			age := time.Since(cut)
			if age > consensus.LAN().Lease {
				require.GreaterOrEqual(t, c.Node(leader).LastContact(), age, "at %s", age)
			}
			require.GreaterOrEqual(t, c.Node(followers[0]).LastContact(), age+3*time.Second)
		}
		require.False(t, c.Node(leader).IsLeader())
		require.False(t, c.Node(leader).Health().Quorum)
		c.Net.Heal()
		c.WaitLeader()
		time.Sleep(3 * time.Second) // connections that hang give up first
		require.Less(t, c.Node(followers[0]).LastContact(), time.Second)
	})
}

func TestAFollowerOfALeaderWithoutQuorumGrowsStale(t *testing.T) { // I11
	synctest.Test(t, func(t *testing.T) {
		c := consensustest.New(t, 5, consensustest.Options{})
		leader := c.WaitLeader()
		follower := c.Follower(leader)
		small := []string{leader, follower}
		time.Sleep(3 * time.Second)
		c.Split(small, c.Others(small...))
		cut := time.Now()
		for range 50 {
			time.Sleep(50 * time.Millisecond)
			if age := time.Since(cut); age > 2*consensus.LAN().Lease {
				require.GreaterOrEqual(t, c.Node(follower).LastContact(), age-consensus.LAN().Lease, "at %s", age)
			}
		}
	})
}

func TestALeaderWhoseDiskHangsLeadsNobodyOnceItsQuorumIsGone(t *testing.T) { // I11, A1
	synctest.Test(t, func(t *testing.T) {
		opts, stores := withFaults()
		c := consensustest.New(t, 5, opts)
		leader := c.WaitLeader()
		follower := c.Follower(leader)
		small := []string{leader, follower}
		time.Sleep(3 * time.Second)
		// raft's main loop hangs in the write, so it does not look at its lease; its
		// heartbeats go on.
		release := stores[leader].freeze()
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, err := c.Node(leader).Propose(context.Background(), statestore.Tick{}, consensus.Origin{Actor: "ann"})
			require.Error(t, err)
		}()
		time.Sleep(100 * time.Millisecond)
		c.Split(small, c.Others(small...))
		cut := time.Now()
		for range 40 {
			time.Sleep(100 * time.Millisecond)
			if age := time.Since(cut); age > 2*consensus.LAN().Lease {
				require.Equal(t, "leader", c.Node(leader).Health().State, "raft itself does not notice")
				require.GreaterOrEqual(t, c.Node(leader).LastContact(), age-consensus.LAN().Lease)
				require.GreaterOrEqual(t, c.Node(follower).LastContact(), age-consensus.LAN().Lease, "at %s", age)
				require.False(t, c.Node(leader).IsLeader())
				require.False(t, c.Node(follower).Health().Quorum && age > 3*time.Second)
			}
		}
		<-done
		release()
	})
}
