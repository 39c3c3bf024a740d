package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/probe"
	"github.com/quorate/quorate/statestore"
)

// Detection is one interval, two rechecks, the batch window and two commits.
func TestAFaultReachesEveryAnswerInAboutASecond(t *testing.T) {
	run(t, options{nodes: 3, probers: true}, func(t *testing.T, i *installation) {
		for range 20 {
			time.Sleep(2345 * time.Millisecond)
			start := time.Now()
			i.cluster("eu", health.Down)
			i.until("eu to leave", func() bool {
				return i.everywhere(func(n *node) bool { return len(n.inRotation("web")) == 2 && len(n.inRotation("shop")) == 2 })
			})
			require.Less(t, time.Since(start), 1600*time.Millisecond)
			i.cluster("eu", health.Up)
			i.until("eu to be back", func() bool {
				return i.everywhere(func(n *node) bool { return len(n.inRotation("web")) == 3 && len(n.inRotation("shop")) == 3 })
			})
		}
	})
}

// Cloudflare's leap second and Redis Sentinel's TILT: a clock that jumped and a
// process that stood still made a checker act on what it had not seen.
func TestSentinelAnObserverThatStoodStillAbstainsAndReturns(t *testing.T) { // G9, G10
	run(t, options{nodes: 3, probers: true}, func(t *testing.T, i *installation) {
		tilted, before := i.follower(), i.nodes["n1"].verdicts()
		index := i.state("n1").Index
		tilted.standStill(20 * time.Second)
		tilted.step(time.Hour)
		time.Sleep(19 * time.Second)
		tilted.step(-time.Hour - 5*time.Second)
		abstained := false
		for range 200 { // 20 s
			time.Sleep(100 * time.Millisecond)
			ts, _ := i.state("n1").Target(target("web", "eu"))
			v := ts.Votes[health.ObserverID(tilted.name)]
			require.NotEqual(t, health.Down, v.Side)
			abstained = abstained || v.Side == health.Unknown && v.Reason == string(probe.ReasonStalled)
		}
		require.True(t, abstained)
		ts, _ := i.state("n1").Target(target("web", "eu"))
		require.Equal(t, health.Up, ts.Votes[health.ObserverID(tilted.name)].Side, "it is back by itself")
		require.Equal(t, before, i.nodes["n1"].verdicts())
		require.Zero(t, i.watch.entries(index, statestore.KindRotate))
	})
}
