package statestore

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
)

// placementStory is a rig after one of everything that placement does, in the order
// of a bad day.
func placementStory(t testing.TB) *rig {
	r := placed(t)
	sp := placedEdited(everything)
	sp.Retention.Events = Duration(24 * time.Hour)
	r.must(ApplySpec{Base: 1, Spec: sp, Source: "# everything", Rotations: r.after(func(st *State) { respecified(st, sp) })})
	r.allVote(health.Up)
	r.must(r.auto("web"))
	r.must(rtt("eu", us4, 80), rtt("us", us4, 2), rtt("ap", lb[0], 15))
	r.must(r.resolve(lb[0], lb[1], lb[3]))
	b := r.vote("us-1", health.Up, target("web", "dr", lb[1]))
	b.Recorded = true
	b.Votes[target("web", "dr", lb[1])] = health.Vote{Side: health.Up, Since: start, Degraded: "latency"}
	r.must(CastVotes{Batches: []VoteBatch{b}})
	r.must(ReportCapacity{Cluster: "eu", Capacity: 10})
	spilling := r.auto("near")
	spilling.V4.Shares[1].Spill = 50
	r.must(spilling, r.pin("web", "us", time.Hour))
	r.turn("web", "us", health.Down)
	r.must(r.auto("web"))
	r.turn("web", "us", health.Up)
	r.must(r.auto("web"))
	require.ErrorIs(t, r.request("q1", time.Hour, time.Second, r.pin("db", "us", 0)), ErrStateful)
	require.NoError(t, r.request("q2", time.Hour, time.Second, r.drainAll("dr", "eu")))
	require.ErrorIs(t, r.do(r.drainAll("us")), ErrFloor)
	require.NoError(t, r.doMeta(Tick{}, Meta{Elapsed: time.Hour}))
	ended := r.unpin("web")
	ended.Expired = true
	require.NoError(t, r.doAs("automation", ended))
	r.must(UndrainCluster{Cluster: "eu", Rotations: r.after(func(st *State) { st.setDrain("eu", st.Clusters["eu"], nil) })})
	r.must(r.pin("near", "eu", 0))
	r.must(r.resolve(lb[2]))
	r.must(ReportCapacity{Cluster: "eu", Stale: true}, ReportCapacity{Cluster: "us", Capacity: 30})
	r.must(rtt("ap", lb[2], 14))
	r.term++
	r.must(Tick{})
	return r
}

func TestThePlacementStoryHasEachKind(t *testing.T) {
	r := placementStory(t)
	done := map[Kind]int{}
	for _, data := range r.log {
		done[Kind(data[1])]++
	}
	for k := KindOverride; k <= KindMeasureLatency; k++ {
		require.NotZero(t, done[k], "kind %d", k)
	}
	st := r.st()
	require.NotNil(t, st.Services["near"].Override)
	require.NotNil(t, st.Clusters["us"].Reported)
	require.NotEmpty(t, st.Latency)
	require.NotNil(t, st.Clusters["dr"].Drain)
	require.NoError(t, st.VerifyAudit())
}
