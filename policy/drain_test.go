package policy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

func rules(bs []Blocker) []string {
	names := []string{}
	for _, b := range bs {
		names = append(names, b.Rule)
	}
	return names
}

func TestCheckDrain(t *testing.T) {
	floor := func(n int) func(*statestore.Spec) {
		return func(sp *statestore.Spec) { sp.Safety.MinServingClusters = n }
	}
	tests := []struct {
		name    string
		edit    func(*statestore.Spec)
		down    []string
		drained []string
		cluster string
		want    []string
	}{
		{"one of three may go", floor(1), nil, nil, "eu", []string{}},
		{"an unknown cluster", floor(1), nil, nil, "mars", []string{RuleUnknownCluster}},
		{"the last one that serves never", floor(1), []string{"us", "ap"}, nil, "eu", []string{RuleLastServing}},
		{"one that is down serves nothing", floor(1), []string{"eu"}, nil, "eu", []string{}},
		{"the floor is judged on what is left", floor(3), nil, nil, "eu", []string{RuleMinServing}},
		{"max_drained", floor(1), nil, []string{"us"}, "eu", []string{RuleMaxDrained}},
		{"all broken rules at once", floor(2), nil, []string{"us"}, "eu", []string{RuleMinServing, RuleMaxDrained}},
		{"drained already", floor(3), nil, []string{"eu"}, "eu", []string{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := upWorld(t)
			w.all(health.Down, tt.down...)
			for _, c := range tt.drained {
				w.do(statestore.DrainCluster{Cluster: c, Reason: "test", Rotations: DrainRotations(w.st(), c, nil)})
			}
			spec := clone(w.st().Spec, tt.edit)
			w.do(applyOf(w.st(), spec))
			w.settle()
			got := CheckDrain(w.st(), tt.cluster, nil)
			require.Equal(t, tt.want, rules(got), "%+v", got)

			// Apply agrees: nothing that passes here is refused there, or the other way round.
			err := w.try(statestore.DrainCluster{Cluster: tt.cluster, Reason: "test", Rotations: DrainRotations(w.st(), tt.cluster, nil)})
			require.Equal(t, len(tt.want) == 0, err == nil, "%v", err)
		})
	}
}

func TestCheckDrainNamesUnknownServices(t *testing.T) {
	w := upWorld(t)
	require.Equal(t, []string{RuleUnknownService}, rules(CheckDrain(w.st(), "eu", []string{"web", "wbe"})))
}

func TestADrainMovesOnlyWhatItCovers(t *testing.T) {
	w := upWorld(t, func(sp *statestore.Spec) { sp.Services["api"] = testService("api") })
	changes := DrainRotations(w.st(), "eu", []string{"api"})
	require.Len(t, changes, 1)
	require.Equal(t, "api", changes[0].Service)
	impact := DrainImpact(w.st(), "eu", []string{"api"})
	require.Len(t, impact, 1)
	require.Equal(t, "api", impact[0].Service)
}

func TestDrainImpactShowsSharesAndOverload(t *testing.T) {
	w := upWorld(t, func(sp *statestore.Spec) {
		sp.Clusters["eu"].Capacity, sp.Clusters["us"].Capacity, sp.Clusters["ap"].Capacity = 50, 30, 20
	})
	impact := DrainImpact(w.st(), "eu", nil)
	require.Len(t, impact, 1)
	im := impact[0]
	require.Equal(t, []ClusterShare{{"ap", 20}, {"eu", 50}, {"us", 30}}, im.Before)
	require.Equal(t, []ClusterShare{{"ap", 40}, {"us", 60}}, im.After)
	require.True(t, im.Moves)
	require.Equal(t, 30*time.Second, im.Clears)
	require.Equal(t, []string{"ap would be at 200% of its capacity", "us would be at 200% of its capacity"}, im.Warnings)
}

func TestFailoverSharesAreTheFirstOfTheOrder(t *testing.T) {
	w := upWorld(t, web(func(s *statestore.Service) {
		s.Policy = statestore.Policy{Type: statestore.Failover, Order: []string{"us", "eu", "ap"}}
	}))
	im := DrainImpact(w.st(), "us", nil)[0]
	require.Equal(t, []ClusterShare{{"us", 100}, {"eu", 0}, {"ap", 0}}, im.Before)
	require.Equal(t, []ClusterShare{{"eu", 100}, {"ap", 0}}, im.After)
}

func TestUndrainBringsBackWhatIsUp(t *testing.T) {
	w := upWorld(t)
	w.do(statestore.DrainCluster{Cluster: "eu", Reason: "test", Rotations: DrainRotations(w.st(), "eu", nil)})
	require.Len(t, UndrainRotations(w.st(), "eu"), 1)
	require.True(t, UndrainImpact(w.st(), "eu")[0].Moves)
	w.all(health.Down, "eu")
	require.Empty(t, UndrainRotations(w.st(), "eu"), "it is down: nothing moves")
}

func TestFailoverAnswersWithOneClusterHoweverManyAnAnswerMayName(t *testing.T) {
	svc := &statestore.Service{Policy: statestore.Policy{Type: statestore.Failover}, Answer: statestore.Answer{Clusters: 2}}
	pool := statestore.Pool{Shares: []statestore.Share{{Cluster: "eu", Weight: 1}, {Cluster: "us", Weight: 1}}}
	require.Equal(t, []ClusterShare{{"eu", 100}, {"us", 0}}, Shares(svc, pool, statestore.Pool{}))
}
