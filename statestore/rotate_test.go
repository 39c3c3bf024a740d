package statestore

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
)

// down has two regions vote the cluster down for web.
func (r *rig) down(cluster string) {
	r.t.Helper()
	r.cast("eu-1", health.Down, web(cluster))
	r.cast("us-1", health.Down, web(cluster))
}

func TestRotate(t *testing.T) {
	r := running(t)
	r.down("eu")
	r.must(r.rotate("dr", "us"))
	rot := r.st().Services["web"].Rotation
	require.Equal(t, uint64(2), rot.Number)
	require.Equal(t, r.index, rot.Index)
	require.Equal(t, r.st().Now, rot.At)
	require.Equal(t, "ann", rot.By)
	require.Equal(t, r.st().Now.Add(30*time.Second), rot.Clears, "the longest TTL that was given out")
	require.Equal(t, r.index, r.st().TableIndex)
	require.Equal(t, []Loss{{"eu", r.st().Now}}, r.st().Losses)
	e := r.lastEvent()
	require.Equal(t, "rotation.changed", e.Type)
	require.Equal(t, "web answers v4 dr 1, us 1: test", e.Text)
	require.Contains(t, string(e.Detail), `"left":["eu"]`)

	count, table := r.st().Audit.Count, r.st().TableIndex
	r.must(r.rotate("dr", "us"))
	require.Equal(t, uint64(2), r.st().Services["web"].Rotation.Number, "the same rotation is no new one")
	require.Equal(t, count, r.st().Audit.Count)
	require.Equal(t, table, r.st().TableIndex)
}

func TestG5EmptyRotationIsRefused(t *testing.T) {
	r := running(t)
	require.ErrorIs(t, r.do(r.rotate()), ErrEmptyRotation)
	require.Len(t, r.st().Services["web"].Rotation.V4.Shares, 3)
}

func TestAnEmptyPoolIsRefusedForEachFamilyWithAnAddress(t *testing.T) {
	r := running(t)
	sp := testSpec()
	sp.Clusters["eu"].IPv6 = append(sp.Clusters["eu"].IPv6, eu6)
	require.ErrorIs(t, r.do(ApplySpec{Base: 1, Spec: sp}), ErrEmptyRotation)
	both := change("dr", "eu", "us")
	both.V6.Shares = []Share{{Cluster: "eu", Weight: 1, Endpoints: sp.Clusters["eu"].IPv6}}
	require.NoError(t, r.do(ApplySpec{Base: 1, Spec: sp, Rotations: []RotationChange{both}}))
}

func TestAllDownModes(t *testing.T) {
	for _, tt := range []struct {
		mode AllDownMode
		pool Pool
		want *Refusal
	}{
		{ServeLast, Pool{AllDown: ServeLast}, ErrEmptyRotation},
		{ServeLast, Pool{AllDown: ServeLast, Shares: pool("eu").Shares}, nil},
		{ServeAll, Pool{AllDown: ServeAll, Shares: pool("dr", "eu", "us").Shares}, nil},
		{NoData, Pool{AllDown: NoData}, nil},
		{ServFail, Pool{AllDown: ServFail}, nil},
		{ServFail, Pool{AllDown: NoData}, ErrInvalid},
		{Sorry, Pool{AllDown: Sorry}, nil},
	} {
		t.Run(string(tt.mode), func(t *testing.T) {
			r := running(t)
			sp := testSpec()
			sp.Safety.Changes.Causes = 0
			sp.Services["web"].OnAllDown = OnAllDown{Mode: tt.mode, Sorry: append(sp.Clusters["eu"].IPv4, us4)}
			r.must(ApplySpec{Base: 1, Spec: sp})
			r.allVote(health.Down)
			c := r.rotate()
			c.V4 = tt.pool
			err := r.do(c)
			if tt.want == nil {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, tt.want)
		})
	}
}

func TestARotationMadeNowAnswersWithNothingThatIsDown(t *testing.T) {
	r := running(t)
	r.down("eu")
	require.ErrorIs(t, r.do(r.rotate("dr", "eu")), ErrStale)
}

func TestG11ARotationMayNotTakeWhatIsUpBelowTheFloor(t *testing.T) {
	r := running(t)
	sp := testSpec()
	sp.Safety.MinServingClusters = 2
	sp.Safety.Changes.Causes = 0
	r.must(ApplySpec{Base: 1, Spec: sp})
	r.must(r.rotate("dr", "us")) // eu is up; the floor still holds.
	err := r.do(r.rotate("us"))
	require.ErrorIs(t, err, ErrFloor)
	require.ErrorContains(t, err, "would take out what is up and leave 1 serving, the floor is 2")
	r.down("dr")
	r.must(r.rotate("us")) // What is down serves nobody: the floor is no reason to answer with it.
}

func TestG11BudgetCountsCauses(t *testing.T) {
	r := running(t)
	sp := testSpec()
	api := *sp.Services["web"]
	api.Names = []string{"api"}
	sp.Services["api"] = &api
	both := change("dr", "eu", "us")
	both.Service = "api"
	r.must(ApplySpec{Base: 1, Spec: sp, Rotations: []RotationChange{both}})
	r.allVote(health.Up)

	r.down("eu")
	r.must(r.rotate("dr", "us"))
	lost := both
	lost.V4 = pool("dr", "us")
	r.must(Rotate{RotationChange: lost, Basis: r.st().Basis("api")}) // The same cluster: the same cause.

	r.down("us")
	err := r.do(r.rotate("dr"))
	require.ErrorIs(t, err, ErrBudget)
	require.ErrorContains(t, err, "taking out us would be 2 clusters lost within 10m0s (with eu, us), the budget is 1")

	require.NoError(t, r.doMeta(Tick{}, Meta{Elapsed: 10 * time.Minute}))
	r.must(r.rotate("dr")) // The window has passed, in log time.
}

func TestADrainedClusterIsNoLossOfAutomation(t *testing.T) {
	r := running(t)
	r.must(DrainCluster{Cluster: "eu", Reason: "upgrade", Rotations: []RotationChange{change("dr", "us")}})
	require.Empty(t, r.st().Losses)
	r.down("us")
	r.must(r.rotate("dr"))
	require.Len(t, r.st().Losses, 1)
}

func TestFreezeStopsAutomationAndNotPeople(t *testing.T) {
	for _, service := range []string{"web", ""} {
		t.Run("service="+service, func(t *testing.T) {
			r := running(t)
			r.must(FreezeService{Service: service, Reason: "incident", For: time.Minute})
			_, frozen := r.st().Frozen("web")
			require.True(t, frozen)
			require.NotZero(t, r.st().FreezeVersion("web"))
			require.True(t, r.st().Deadlines())
			r.down("eu")
			require.ErrorIs(t, r.do(r.rotate("dr", "us")), ErrFrozen)
			r.must(DrainCluster{Cluster: "eu", Reason: "it burns", Rotations: []RotationChange{change("dr", "us")}})
			require.NoError(t, r.doMeta(ThawService{Service: service, Expired: true}, Meta{Actor: "automation", Elapsed: time.Minute}))
			_, frozen = r.st().Frozen("web")
			require.False(t, frozen)
			require.Zero(t, r.st().FreezeVersion("web"))
		})
	}
}

func TestDrain(t *testing.T) {
	r := running(t)
	r.must(DrainCluster{Cluster: "eu", Reason: "upgrade", For: time.Hour, Rotations: []RotationChange{change("dr", "us")}})
	c := r.st().Clusters["eu"]
	require.True(t, c.Drain.Covers("web"))
	require.Equal(t, r.st().Now.Add(time.Hour), c.Drain.Until)
	require.NotZero(t, c.DrainVersion)
	require.True(t, r.st().Deadlines())
	require.Equal(t, []string{"dr", "us"}, r.st().Serving("web"))
	require.Contains(t, string(r.lastEvent().Detail), `"rotations":[{"service":"web"`)

	require.ErrorIs(t, r.do(r.rotate("dr", "eu", "us")), ErrStale, "automation brings nothing drained back")
	version := c.DrainVersion
	require.NoError(t, r.doMeta(UndrainCluster{Cluster: "eu", Expired: true, Rotations: []RotationChange{change("dr", "eu", "us")}}, Meta{Actor: "automation", Elapsed: time.Hour}))
	c = r.st().Clusters["eu"]
	require.Nil(t, c.Drain)
	require.Greater(t, c.DrainVersion, version)
	require.False(t, r.st().Deadlines())
}

func TestG11DrainNeverTakesTheLastServingCluster(t *testing.T) {
	r := running(t)
	sp := testSpec()
	sp.Safety.MaxDrained = 0
	sp.Safety.Changes.Causes = 0
	r.must(ApplySpec{Base: 1, Spec: sp})
	r.must(DrainCluster{Cluster: "eu", Reason: "x", Rotations: []RotationChange{change("dr", "us")}})
	r.down("dr")
	r.must(r.rotate("us"))
	err := r.do(DrainCluster{Cluster: "us", Reason: "x", Rotations: []RotationChange{{Service: "web", V4: Pool{AllDown: ServeLast, Shares: pool("us").Shares}}}})
	require.ErrorIs(t, err, ErrFloor)
	require.ErrorContains(t, err, "web would be served by 0, the floor is 1")
	r.must(DrainCluster{Cluster: "dr", Reason: "it is down anyway"})
}

func TestDrainOfOneService(t *testing.T) {
	r := running(t)
	sp := testSpec()
	api := *sp.Services["web"]
	api.Names = []string{"api"}
	sp.Services["api"] = &api
	both := change("dr", "eu", "us")
	both.Service = "api"
	r.must(ApplySpec{Base: 1, Spec: sp, Rotations: []RotationChange{both}})
	r.must(DrainCluster{Cluster: "eu", Services: []string{"api"}, Reason: "x", Rotations: []RotationChange{{Service: "api", V4: pool("dr", "us")}}})
	require.True(t, r.st().Services["web"].Rotation.V4.has("eu"))

	// The service goes, and with it the drain: without a service it would cover all.
	r.must(ApplySpec{Base: 2, Spec: testSpec()})
	require.Nil(t, r.st().Clusters["eu"].Drain)
}

func TestAJoinTokenEndsOnAQuietLog(t *testing.T) {
	r := running(t)
	require.False(t, r.st().Deadlines())
	r.must(PutJoinToken{ID: "j", Hash: [32]byte{1}, Role: Voter, For: time.Hour})
	require.True(t, r.st().Deadlines(), "without a tick log time stands still")
	require.NoError(t, r.doMeta(Tick{}, Meta{Elapsed: time.Hour}))
	require.False(t, r.st().Deadlines(), "an ended token needs no more ticks")
}
