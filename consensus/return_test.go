package consensus_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/consensus/consensustest"
)

// However long a node was away, raft's own pauses between failures must not pile
// up: it answers from what the others gave up for as long as they last.
func TestANodeThatWasAwayLongCatchesUpSoon(t *testing.T) { // I16
	ways := map[string]struct {
		leave, back func(*consensustest.Cluster, string)
	}{
		"cut off": {
			func(c *consensustest.Cluster, name string) { c.Isolate(name) },
			func(c *consensustest.Cluster, _ string) { c.Net.Heal() },
		},
		"refused": {
			func(c *consensustest.Cluster, name string) { c.Net.Refuse(name) },
			func(c *consensustest.Cluster, _ string) { c.Net.Heal() },
		},
		"dead": {
			func(c *consensustest.Cluster, name string) { c.Kill(name) },
			func(c *consensustest.Cluster, name string) { c.Restart(name) },
		},
	}
	for way, w := range ways {
		for _, away := range []time.Duration{5 * time.Second, 11 * time.Second, time.Minute, 10 * time.Minute} {
			t.Run(way+" for "+away.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := consensustest.New(t, 3, consensustest.Options{})
					leader := c.WaitLeader()
					name := c.Follower(leader)
					w.leave(c, name)
					c.Propose(leader, token(1))
					time.Sleep(away)
					start := time.Now()
					w.back(c, name)
					c.Until("the node has what it missed", func() bool {
						return c.Store(name).State().Index >= c.Store(leader).State().Index
					})
					require.Less(t, time.Since(start), time.Second)
				})
			})
		}
	}
}

// A node that is reached again calls itself up to date only once it is.
func TestANodeThatTrailsDoesNotCallItselfFresh(t *testing.T) { // I11
	synctest.Test(t, func(t *testing.T) {
		c := consensustest.New(t, 3, consensustest.Options{})
		leader := c.WaitLeader()
		away := c.Follower(leader)
		time.Sleep(5 * time.Second)
		for round := range 10 {
			c.Net.Refuse(away)
			before := time.Now()
			time.Sleep(10 * time.Second)
			c.Propose(leader, token(round))
			missed := c.Store(leader).State().Index
			c.Net.Heal()
			for c.Store(away).State().Index < missed {
				require.GreaterOrEqual(t, c.Node(away).LastContact(), 10*time.Second,
					"%s after the heal", time.Since(before)-10*time.Second)
				time.Sleep(time.Millisecond)
			}
			c.Until("it is fresh again", func() bool { return c.Node(away).LastContact() < time.Second })
		}
	})
}
