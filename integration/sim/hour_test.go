package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/consensus"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

func TestAHealthyHourWritesAlmostNothing(t *testing.T) {
	run(t, options{profile: consensus.WAN()}, func(t *testing.T, i *installation) {
		before := i.state("n1").Index
		time.Sleep(time.Hour)
		require.LessOrEqual(t, i.watch.entries(before), 2)
		i.settle()
	})
}

// An hour in which everything breaks that may, one after the other. What nobody
// may see is a verdict that turns because of it.
func TestFiveVotersForAnHour(t *testing.T) { // G2, G6, G7, G10, G15
	run(t, options{profile: consensus.WAN()}, func(t *testing.T, i *installation) {
		token := 0
		write := func(at string) error {
			token++
			return i.propose(at, statestore.PutToken{ID: fmt.Sprint("t", token), User: "ann", Groups: []string{"ops"}, Hash: [32]byte{1}})
		}
		faults := []struct {
			name string
			do   func() (minority []string)
		}{
			{"nothing", func() []string { return nil }},
			{"the leader alone", func() []string { l := i.leader().name; i.raft.Isolate(l); return []string{l} }},
			{"a follower alone", func() []string { f := i.follower().name; i.raft.Isolate(f); return []string{f} }},
			{"three and two, the leader with the three", func() []string {
				return cutOff(i, i.raft.Others(i.leader().name)[:2]...)
			}},
			{"three and two, the leader with the two", func() []string {
				l := i.leader().name
				return cutOff(i, l, i.raft.Others(l)[0])
			}},
			{"a follower hears nothing", func() []string {
				f := i.follower().name
				for _, o := range i.raft.Others(f) {
					i.raft.Net.Drop(o, f)
				}
				return nil
			}},
			{"the leader is not heard", func() []string {
				l := i.leader().name
				for _, o := range i.raft.Others(l) {
					i.raft.Net.Drop(l, o)
				}
				return []string{l}
			}},
			{"the leader is killed", func() []string { i.leader().kill(); return nil }},
			{"a follower is killed", func() []string { i.follower().kill(); return nil }},
			{"two are killed", func() []string { i.leader().kill(); i.follower().kill(); return nil }},
			{"the leader's wall clock is an hour ahead", func() []string { i.leader().step(time.Hour); return nil }},
			{"the leader's wall clock falls back 5 s", func() []string { i.leader().step(-5 * time.Second); return nil }},
			{"a wall clock is ten years ahead", func() []string { i.follower().step(10 * 365 * 24 * time.Hour); return nil }},
			{"the leader stood still for 20 s", func() []string { i.leader().stall(20 * time.Second); return nil }},
			{"a node applies nothing", func() []string { i.follower().hold(); return nil }},
		}
		numbers := i.nodes["n1"].verdicts()
		for round := 0; time.Since(i.start) < time.Hour; round++ {
			f := faults[round%len(faults)]
			minority := f.do()
			time.Sleep(25 * time.Second) // the old leader's lease is over, a new one leads
			index := map[string]uint64{}
			for _, name := range minority {
				index[name] = i.state(name).Index
				require.Error(t, write(name), "%s: written at %s", f.name, name)
			}
			majority := i.raft.Others(minority...)
			for _, name := range majority {
				if i.nodes[name].up() {
					_ = write(name) // may fail during the fault; what is acknowledged must stay
				}
			}
			time.Sleep(50 * time.Second)
			for _, name := range minority {
				require.Equal(t, index[name], i.state(name).Index, "%s: a minority went on", f.name)
			}
			i.finish()
			require.NoError(t, write("n1"), "after %s", f.name)
			i.until("all observers to count again", func() bool {
				return i.everywhere(func(n *node) bool { return n.counting() == len(i.nodes) })
			})
			for _, n := range i.all() {
				require.Equal(t, numbers, n.verdicts(), "%s turned a verdict at %s", f.name, n.name)
				require.Equal(t, []string{"ap", "eu", "us"}, n.inRotation("web"))
			}
		}
	})
}

// cutOff parts the named nodes from the rest and returns them.
func cutOff(i *installation, names ...string) []string {
	i.split(names...)
	return names
}

func TestAPartitionedMajorityDecidesAndTheMinorityDoesNot(t *testing.T) { // G6
	for _, leaderInMinority := range []bool{false, true} {
		t.Run(fmt.Sprint("leader in the minority ", leaderInMinority), func(t *testing.T) {
			run(t, options{}, func(t *testing.T, i *installation) {
				leader := i.leader().name
				minority := i.raft.Others(leader)[:2]
				if leaderInMinority {
					minority = append([]string{leader}, i.raft.Others(leader)[0])
				}
				majority := i.raft.Others(minority...)
				i.split(minority...)
				time.Sleep(5 * time.Second) // the old leader's lease is over
				i.cluster("eu", health.Down)
				i.until("the majority to decide", func() bool {
					return i.nodes[majority[0]].side("eu") == health.Down && len(i.nodes[majority[0]].inRotation("web")) == 2
				})
				time.Sleep(time.Minute)
				for _, name := range minority {
					require.Equal(t, health.Up, i.nodes[name].side("eu"), name)
					require.Greater(t, i.raft.Node(name).LastContact(), 50*time.Second, "%s knows that it is cut off", name)
				}
				i.finish()
				for _, n := range i.all() {
					require.Equal(t, []string{"ap", "us"}, n.inRotation("web"), n.name)
				}
			})
		})
	}
}

func TestTwoOfFiveRegionsTurnNothing(t *testing.T) { // G1
	run(t, options{}, func(t *testing.T, i *installation) {
		before := i.nodes["n1"].verdicts()
		i.nodes["n1"].sight.mistake("eu", health.Down)
		i.nodes["n2"].sight.mistake("eu", health.Down)
		for _, name := range []string{"n4", "n5"} { // silent, and still of the five
			i.nodes[name].kill()
		}
		time.Sleep(time.Minute)
		require.Equal(t, before, i.nodes["n1"].verdicts())
		require.False(t, i.state("n1").Observers["n5"].Counts())
		i.nodes["n3"].sight.mistake("eu", health.Down)
		i.until("three of five to turn it", func() bool { return i.nodes["n1"].side("eu") == health.Down })
	})
}

func TestWallClocksEndNothingEarly(t *testing.T) { // G10
	run(t, options{}, func(t *testing.T, i *installation) {
		i.must("n1", statestore.FreezeService{Reason: "window", For: time.Minute})
		start := time.Now()
		for _, n := range i.all() {
			n.step(time.Hour)
		}
		time.Sleep(25 * time.Second)
		for _, n := range i.all() {
			n.step(-time.Hour - 5*time.Second)
		}
		time.Sleep(25 * time.Second)
		require.Contains(t, i.state("n1").Freezes, "", "it lasts a minute whatever clocks on walls say")
		i.until("the thaw", func() bool { return len(i.state("n1").Freezes) == 0 })
		require.InDelta(t, 60, time.Since(start).Seconds(), 12, "a tick late at most")
	})
}

func TestALeaderThatStoodStillHasEverybodyConfirmAnew(t *testing.T) {
	run(t, options{}, func(t *testing.T, i *installation) {
		before, numbers := i.state("n1").Index, i.nodes["n1"].verdicts()
		i.leader().stall(20 * time.Second)
		time.Sleep(10 * time.Second)
		require.Zero(t, i.watch.entries(before, statestore.KindObserverSilent), "its own stall is nobody's silence")
		require.NotZero(t, i.watch.entries(before, statestore.KindConfirmObservers))
		require.Equal(t, 5, i.nodes["n1"].counting())
		require.Equal(t, numbers, i.nodes["n1"].verdicts())
	})
}

// A region whose observer is dead keeps its place among the five, and its last
// vote says nothing any more.
func TestASilentObserverIsNotCounted(t *testing.T) { // G1
	run(t, options{}, func(t *testing.T, i *installation) {
		leader := i.leader()
		others := i.raft.Others(leader.name)
		dead, second, third, fourth := i.nodes[others[0]], i.nodes[others[1]], i.nodes[others[2]], i.nodes[others[3]]
		term := i.raft.Node(leader.name).Health().Term
		dead.sight.mistake("eu", health.Down)
		second.sight.mistake("eu", health.Down)
		time.Sleep(time.Second)
		dead.kill()
		time.Sleep(10 * time.Second) // its lease is over
		require.True(t, leader.view.State().Observers[health.ObserverID(dead.name)].Silent)
		third.sight.mistake("eu", health.Down)
		time.Sleep(time.Minute)
		require.Equal(t, health.Up, leader.side("eu"), "two of five, and a silent one")
		require.Equal(t, term, i.raft.Node(leader.name).Health().Term, "no election had a part in it")
		fourth.sight.mistake("eu", health.Down)
		i.until("three of five", func() bool { return leader.side("eu") == health.Down })
		dead.restart()
		i.until("it to return by itself", func() bool {
			return leader.view.State().Observers[health.ObserverID(dead.name)].Counts()
		})
	})
}
