package statestore

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
)

func TestSeveralClustersAreDrainedAtOnce(t *testing.T) {
	r := placed(t)
	c := r.drainAll("dr", "us")
	c.For = time.Hour
	r.must(c)
	require.Equal(t, []string{"eu"}, r.answers("web"))
	require.Equal(t, []string{"eu"}, r.answers("near"))
	for _, name := range []string{"dr", "us"} {
		require.Equal(t, r.st().Now.Add(time.Hour), r.st().Clusters[name].Drain.Until)
	}
	require.NotEqual(t, r.st().Clusters["dr"].DrainVersion, r.st().Clusters["us"].DrainVersion)
	require.Empty(t, r.st().Losses)
	require.True(t, r.st().Deadlines())
	e := r.lastEvent()
	require.Equal(t, "cluster.drained", e.Type)
	require.Equal(t, "clusters", e.Subject)
	require.Equal(t, "dr, us drained of all services: the sea rises", e.Text)
	require.Contains(t, string(e.Detail), `{"clusters":["dr","us"],"until":"`)

	r.must(UndrainCluster{Cluster: "us", Rotations: r.after(func(st *State) { st.setDrain("us", st.Clusters["us"], nil) })})
	require.Equal(t, []string{"eu", "us"}, r.answers("web"))
	require.NotNil(t, r.st().Clusters["dr"].Drain, "each ends by itself")
}

func TestADrainOfSeveralIsOfTheServicesItNames(t *testing.T) {
	r := placed(t)
	c := r.drainAll("dr", "us")
	c.Services = []string{"web", "web"}
	c.Rotations = c.Rotations[1:]
	require.Equal(t, "web", c.Rotations[0].Service)
	r.must(c)
	require.Equal(t, []string{"dr", "eu", "us"}, r.answers("near"))
	require.Equal(t, []string{"web"}, r.st().Clusters["us"].Drain.Services)
}

func TestDrainsAreJudgedWithAllOfThemOut(t *testing.T) {
	tests := []struct {
		name   string
		edit   func(*Spec)
		before func(*rig)
		cmd    func(*rig) Command
		want   *Refusal
		text   string
	}{
		{"no cluster", nil, nil, func(*rig) Command { return DrainClusters{Reason: "x"} }, ErrInvalid, "drain: must name a cluster"},
		{"unsorted", nil, nil, func(r *rig) Command { return r.drainAll("us", "dr") }, ErrInvalid, "clusters must be sorted and each there once, is us, dr"},
		{"one twice", nil, nil, func(r *rig) Command { return r.drainAll("us", "us") }, ErrInvalid, "each there once"},
		{"an unknown one among them", nil, nil, func(*rig) Command { return DrainClusters{Clusters: []string{"dr", "mars"}, Reason: "x"} }, ErrNotFound, "cluster mars: not found"},
		{"no reason", nil, nil, func(*rig) Command { return DrainClusters{Clusters: []string{"dr", "us"}} }, ErrInvalid, "clusters dr, us: a drain must have a reason"},
		{"a negative time", nil, nil, func(*rig) Command { return DrainClusters{Clusters: []string{"dr"}, Reason: "x", For: -1} }, ErrInvalid, "cluster dr: a drain must not last -1ns"},
		{"an unknown service", nil, nil, func(*rig) Command {
			return DrainClusters{Clusters: []string{"dr"}, Services: []string{"no"}, Reason: "x"}
		}, ErrNotFound, "service no: not found"},
		{"without the rotation", nil, nil, func(*rig) Command { return DrainClusters{Clusters: []string{"dr", "us"}, Reason: "x"} }, ErrStale, "near would go on answering with it; plan the drain again"},
		{"the second of them stays", nil, nil, func(r *rig) Command {
			c := r.drainAll("dr", "us")
			c.Rotations = r.drainAll("dr").Rotations
			return c
		}, ErrStale, "us is drained"},
		{"more than may be", func(sp *Spec) { sp.Safety.MaxDrained = 1 }, nil, func(r *rig) Command { return r.drainAll("dr", "us") }, ErrMaxDrained, "clusters dr, us: max_drained: 2 clusters would be drained, the limit is 1"},
		{"with one that is out already", nil, func(r *rig) { r.must(r.drainAll("dr")) }, func(r *rig) Command {
			return DrainClusters{Clusters: []string{"eu", "us"}, Reason: "x"}
		}, ErrFloor, "max_drained: 3 clusters would be drained, the limit is 2; min_serving_clusters: near would be served by 0, the floor is 1; min_serving_clusters: web would be served by 0, the floor is 1"},
		{"neither alone breaks the floor", nil, func(r *rig) {
			r.turn("web", "eu", health.Down)
			r.must(r.auto("web"))
		}, func(r *rig) Command { return r.drainAll("dr", "us") }, ErrFloor, "clusters dr, us: min_serving_clusters: web would be served by 0, the floor is 1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var edits []func(*Spec)
			if tt.edit != nil {
				edits = append(edits, tt.edit)
			}
			r := placed(t, edits...)
			if tt.before != nil {
				tt.before(r)
			}
			r.refuses(tt.cmd(r), tt.want, tt.text)
		})
	}
}

func TestDrainingAgainCountsAClusterOnce(t *testing.T) {
	r := placed(t)
	r.must(r.drainAll("dr", "us"), r.drainAll("dr", "us"))
	require.Equal(t, "the sea rises", r.st().Clusters["dr"].Drain.Reason)
}
