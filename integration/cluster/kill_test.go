//go:build integration

package cluster

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	// killRounds is how often a scenario kills a node.
	killRounds = 12

	// commitP95 and commitMax are what the LAN profile promises after a kill.
	commitP95 = 3 * time.Second
	commitMax = 8 * time.Second

	// detection is what observers need to see a cluster go, without any fault: an
	// interval, two rechecks, and the batch of votes.
	detection = 1600 * time.Millisecond
)

// durations are measurements of one thing.
type durations []time.Duration

// at returns the value that a part q of the measurements does not exceed.
func (d durations) at(q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(d))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

func (d durations) String() string {
	ms := time.Millisecond
	return fmt.Sprintf("p50 %s, p95 %s, max %s of %d", d.at(0.5).Round(ms), d.at(0.95).Round(ms), d.at(1).Round(ms), len(d))
}

// G5, G6: kill -9 of a follower disturbs nobody.
func TestKillFollower(t *testing.T) {
	in := install(t, weighted)
	killInTurn(t, in, func(round int) *node { return in.others(in.leader())[round%2] })
}

// G5, G6: after kill -9 of the leader the others answer on, and soon agree again.
func TestKillLeader(t *testing.T) {
	in := install(t, weighted)
	killInTurn(t, in, func(int) *node { return in.leader() })
}

// killInTurn kills a node a round, and at the same moment a site. It measures, from
// the kill, when the quorum commits a write again, and when the verdict on the
// site has moved the answers. The node then comes back.
func killInTurn(t *testing.T, in *installation, pick func(round int) *node) {
	var write, verdict durations
	for round := range killRounds {
		victim := pick(round)
		lost := in.sites[regions[round%len(regions)].site]
		var rest []string
		for _, r := range regions {
			if r.site != lost.name {
				rest = append(rest, r.site)
			}
		}
		survivors := in.others(victim)

		begun := time.Now()
		in.kill(victim)
		lost.down()
		wrote := make(chan time.Duration, 1)
		go func() { wrote <- in.writeThrough(survivors[0], settle) }()
		eventually(t, settle, "the site's verdict moves answers", func(ctx context.Context) error {
			return in.committed(ctx, survivors[1], rest...)
		})
		verdict = append(verdict, time.Since(begun))
		write = append(write, <-wrote)
		in.moved(survivors, rest...)

		lost.up()
		in.restart(victim)
		in.caughtUp(victim)
		in.moved(in.nodes, "eu", "us", "ap")
		// The returned node's votes count before the next is killed.
		eventually(t, settle, "all is well", in.allWell)
	}
	fmt.Printf("MEASURED %-38s kill -9 to the next committed write: %s\n", t.Name(), write)
	fmt.Printf("MEASURED %-38s kill -9 to a verdict that moved answers (site lost at the kill): %s\n", t.Name(), verdict)
	require.LessOrEqual(t, write.at(0.95), commitP95)
	require.LessOrEqual(t, write.at(1), commitMax)
	require.LessOrEqual(t, verdict.at(0.95), commitP95+detection)
	require.LessOrEqual(t, verdict.at(1), commitMax)
}

// G5: with all nodes dead, one that starts alone answers the last committed table
// within a second.
func TestKillAllStartOne(t *testing.T) {
	in := install(t, weighted)
	in.sites["eu"].down()
	in.moved(in.nodes, "us", "ap")
	pause(t, 300*time.Millisecond) // the last known good file is flushed every 100 ms

	in.kill(in.nodes...)
	alone := in.nodes[1]
	took := in.restart(alone)
	fmt.Printf("MEASURED %-38s start of the process to the first right answer: %s\n", t.Name(), took.Round(time.Millisecond))
	require.LessOrEqual(t, took, time.Second)
	require.NoError(t, in.answersOnly(t.Context(), alone, "us", "ap"))

	in.health(alone, "/readyz", 200) // DNS does not wait for the API
	in.sites["us"].down()            // it sees this, and may do nothing about it
	stays(t, 5*time.Second, "one of three changes nothing", func(ctx context.Context) error {
		if code, err := alone.health(ctx, "/readyz"); err != nil || code != 200 {
			return fmt.Errorf("readyz %d, %v", code, err)
		}
		return in.committed(ctx, alone, "us", "ap")
	})
	require.Contains(t, alone.must("status"), "NO QUORUM since")
	in.sites["us"].up()

	for _, n := range in.others(alone) {
		t.Errorf("%s runs", n.name)
	}
	in.restart(in.nodes[0])
	in.restart(in.nodes[2])
	in.caughtUp(in.nodes...)
	in.sites["eu"].up()
	in.moved(in.nodes, "eu", "us", "ap")
}
