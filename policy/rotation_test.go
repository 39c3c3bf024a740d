package policy

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

func TestRotationFollowsTheVerdicts(t *testing.T) {
	failover := web(func(s *statestore.Service) {
		s.Policy = statestore.Policy{Type: statestore.Failover, Order: []string{"us", "eu", "ap"}}
	})
	mode := func(m statestore.AllDownMode) func(*statestore.Spec) {
		return web(func(s *statestore.Service) { s.OnAllDown.Mode = m })
	}
	none := func(*statestore.Spec) {}
	tests := []struct {
		name string
		edit func(*statestore.Spec)
		down []string // one after the other
		want []string
		mode statestore.AllDownMode
	}{
		{"all up, all in, by name", none, nil, []string{"ap", "eu", "us"}, ""},
		{"a cluster that is down leaves", none, []string{"eu"}, []string{"ap", "us"}, ""},
		{"failover keeps its order", failover, nil, []string{"us", "eu", "ap"}, ""},
		{"failover keeps the order of who is left", failover, []string{"us"}, []string{"eu", "ap"}, ""},
		{"nothing up: the last one stays", none, []string{"eu", "us", "ap"}, []string{"ap"}, statestore.ServeLast},
		{"nothing up: all when asked to", mode(statestore.ServeAll), []string{"eu", "us", "ap"}, []string{"ap", "eu", "us"}, statestore.ServeAll},
		{"nodata is a mode and never an empty pool", mode(statestore.NoData), []string{"eu", "us", "ap"}, []string{"ap"}, statestore.NoData},
		{"so is servfail", mode(statestore.ServFail), []string{"us", "ap", "eu"}, []string{"eu"}, statestore.ServFail},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := upWorld(t, tt.edit)
			for _, c := range tt.down {
				w.all(health.Down, c)
				w.settle()
			}
			got, mode := w.pool("web")
			require.Equal(t, tt.want, got)
			require.Equal(t, tt.mode, mode)
		})
	}
}

func TestNeverJudgedClustersStayOutUnlessNothingElseCanAnswer(t *testing.T) {
	w := newWorld(t, testSpec(), regions...)
	got, _ := w.pool("web")
	require.Equal(t, []string{"ap", "eu", "us"}, got, "a new service answers with all")

	w.all(health.Up, "eu")
	w.settle()
	got, _ = w.pool("web")
	require.Equal(t, []string{"eu"}, got, "one is up: the unjudged ones wait")

	w.all(health.Down, "eu")
	w.settle()
	got, mode := w.pool("web")
	require.Equal(t, []string{"ap", "us"}, got, "it is down: better an unjudged one than a dead one")
	require.Empty(t, mode)
}

func TestANewCheckAloneBringsNothingBack(t *testing.T) {
	w := upWorld(t)
	w.all(health.Down, "eu")
	w.settle()
	spec := clone(w.st().Spec, web(func(s *statestore.Service) {
		check := *s.Checks.All[0]
		check.TCP = &statestore.TCPCheck{Port: 8080}
		s.Checks.All = []*statestore.Check{&check}
	}))
	w.do(applyOf(w.st(), spec))
	w.settle()
	got, _ := w.pool("web")
	require.Equal(t, []string{"ap", "us"}, got)
}

func TestANewCheckAloneMovesNothing(t *testing.T) {
	w := upWorld(t)
	spec := clone(w.st().Spec, web(func(s *statestore.Service) {
		check := *s.Checks.All[0]
		check.TCP = &statestore.TCPCheck{Port: 8080}
		s.Checks.All = []*statestore.Check{&check}
	}))
	w.do(applyOf(w.st(), spec))
	number := w.st().Services["web"].Rotation.Number
	for _, c := range []string{"us", "eu", "ap"} { // as the first probes of the new check end
		w.all(health.Up, c)
		w.settle()
		got, _ := w.pool("web")
		require.Equal(t, []string{"ap", "eu", "us"}, got, "%s is judged up first, the others only are not judged yet", c)
	}
	require.Equal(t, number, w.st().Services["web"].Rotation.Number)

	w.all(health.Down, "eu")
	w.settle()
	got, _ := w.pool("web")
	require.Equal(t, []string{"ap", "us"}, got, "what the new check finds down leaves")
}

func TestTheReasonOfARotationCallsNothingDownThatWasNeverJudged(t *testing.T) {
	w := newWorld(t, testSpec(), regions...)
	w.all(health.Up, "eu")
	w.settle()
	require.Equal(t, "ap is not judged yet, us is not judged yet", w.st().Services["web"].Rotation.Reason)
}

func TestAllDownRecovers(t *testing.T) {
	w := upWorld(t)
	w.all(health.Down, "eu", "us", "ap")
	w.settle()
	got, mode := w.pool("web")
	require.Equal(t, []string{"ap", "eu", "us"}, got, "all lost at once, all kept: nobody is better")
	require.Equal(t, statestore.ServeLast, mode)
	w.all(health.Up, "us")
	w.settle()
	got, mode = w.pool("web")
	require.Equal(t, []string{"us"}, got)
	require.Empty(t, mode)
}

func TestFamiliesAreJudgedApart(t *testing.T) {
	w := upWorld(t, func(sp *statestore.Spec) { sp.Clusters["eu"].IPv6 = addrs("2001:db8::10", "2001:db8::11") })
	six := health.Target{Service: "web", Cluster: "eu", Endpoint: addrs("2001:db8::10")[0]}
	for o := range w.st().Members {
		votes := map[health.Target]health.Vote{}
		for target := range TargetStates(w.st()) {
			votes[target] = health.Vote{Side: health.Up, Since: epoch}
		}
		votes[six] = health.Vote{Side: health.Down, Since: epoch}
		w.voteFull(o, votes)
	}
	w.settle()
	r := w.st().Services["web"].Rotation
	require.Len(t, r.V4.Shares, 3, "IPv4 is not touched")
	require.Equal(t, []statestore.Share{{Cluster: "eu", Weight: 1, Endpoints: addrs("2001:db8::11")}}, r.V6.Shares, "only endpoints that are up answer")
}

func TestWeights(t *testing.T) {
	capacity := func(sp *statestore.Spec) {
		sp.Clusters["eu"].Capacity, sp.Clusters["us"].Capacity, sp.Clusters["ap"].Capacity = 100, 50, 20
	}
	weights := func(m map[string]int) func(*statestore.Spec) {
		return web(func(s *statestore.Service) { s.Policy.Weights = m })
	}
	tests := []struct {
		name string
		edit func(*statestore.Spec)
		down []string
		want map[string]int
	}{
		{"equal when nothing is declared", func(*statestore.Spec) {}, nil, map[string]int{"ap": 1, "eu": 1, "us": 1}},
		{"capacity when all declare it", capacity, nil, map[string]int{"ap": 20, "eu": 100, "us": 50}},
		{"a capacity that some leave out counts for none", func(sp *statestore.Spec) { sp.Clusters["eu"].Capacity = 100 }, nil, map[string]int{"ap": 1, "eu": 1, "us": 1}},
		{"weights win", weights(map[string]int{"ap": 1, "eu": 3, "us": 0}), nil, map[string]int{"ap": 1, "eu": 3, "us": 0}},
		{"weight 0 stands by while another is in", weights(map[string]int{"ap": 0, "eu": 3, "us": 0}), []string{"us"}, map[string]int{"ap": 0, "eu": 3}},
		{"weight 0 shares equally when it is all there is", weights(map[string]int{"ap": 0, "eu": 3, "us": 0}), []string{"eu"}, map[string]int{"ap": 1, "us": 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := upWorld(t, tt.edit)
			w.all(health.Down, tt.down...)
			w.settle()
			got := map[string]int{}
			for _, s := range w.st().Services["web"].Rotation.V4.Shares {
				got[s.Cluster] = s.Weight
			}
			require.Equal(t, tt.want, got)
		})
	}
}

func TestADrainedClusterDoesNotComeBackBecauseTheOthersDie(t *testing.T) {
	w := upWorld(t)
	w.do(statestore.DrainCluster{Cluster: "eu", Reason: "upgrade", Rotations: DrainRotations(w.st(), "eu", nil)})
	w.all(health.Down, "us", "ap")
	w.settle()
	got, mode := w.pool("web")
	require.Equal(t, []string{"ap", "us"}, got, "a person took eu out")
	require.Equal(t, statestore.ServeLast, mode)
}

func TestReasonsNameClusterAndCause(t *testing.T) {
	w := upWorld(t)
	reason := func() string { return w.st().Services["web"].Rotation.Reason }
	w.all(health.Down, "eu")
	w.settle()
	require.Equal(t, "eu is down", reason())
	w.all(health.Up, "eu")
	w.settle()
	require.Equal(t, "eu joins", reason())
	w.do(statestore.DrainCluster{Cluster: "us", Reason: "upgrade", Rotations: DrainRotations(w.st(), "us", nil)})
	require.Equal(t, "us is drained", reason())
}
