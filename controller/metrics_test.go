package controller

import (
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/statestore"
)

func TestMetricsFollowTheState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, os := settled(t)
		defer l.resign()
		reg := prometheus.NewPedanticRegistry()
		reg.MustRegister(l.ctl.metrics)
		problems, err := testutil.GatherAndLint(reg)
		require.NoError(t, err)
		require.Empty(t, problems)

		go os["ap-1"].vote(health.Down, "eu")
		os["us-1"].vote(health.Down, "eu")
		synctest.Wait()
		l.person(statestore.FreezeService{Service: "web", Reason: "look"})
		require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP quorate_automatic_changes_total Changes that this node's automation committed.
# TYPE quorate_automatic_changes_total counter
quorate_automatic_changes_total{reason="rotate",service="web"} 1
# HELP quorate_cluster_drained 1 while the cluster is drained, for some or all services.
# TYPE quorate_cluster_drained gauge
quorate_cluster_drained{cluster="eu"} 0
quorate_cluster_drained{cluster="us"} 0
# HELP quorate_config_revision Number of the spec's revision in force.
# TYPE quorate_config_revision gauge
quorate_config_revision 1
# HELP quorate_observer_disagreement_ratio Part of the counted votes on the cluster that contradict the verdict.
# TYPE quorate_observer_disagreement_ratio gauge
quorate_observer_disagreement_ratio{cluster="eu"} 0.3333333333333333
quorate_observer_disagreement_ratio{cluster="us"} 0
# HELP quorate_service_configured_targets Endpoints the service could answer with.
# TYPE quorate_service_configured_targets gauge
quorate_service_configured_targets{service="web"} 2
# HELP quorate_service_frozen 1 while automation is frozen for the service.
# TYPE quorate_service_frozen gauge
quorate_service_frozen{service="web"} 1
# HELP quorate_service_serving_targets Endpoints in rotation whose verdict is up.
# TYPE quorate_service_serving_targets gauge
quorate_service_serving_targets{service="web"} 1
# HELP quorate_votes Observers by what the quorum counts them as voting.
# TYPE quorate_votes gauge
quorate_votes{cluster="eu",service="web",state="down"} 2
quorate_votes{cluster="eu",service="web",state="unknown"} 0
quorate_votes{cluster="eu",service="web",state="up"} 1
quorate_votes{cluster="us",service="web",state="down"} 0
quorate_votes{cluster="us",service="web",state="unknown"} 0
quorate_votes{cluster="us",service="web",state="up"} 3
`), "quorate_automatic_changes_total", "quorate_cluster_drained", "quorate_config_revision", "quorate_observer_disagreement_ratio",
			"quorate_service_configured_targets", "quorate_service_frozen", "quorate_service_serving_targets", "quorate_votes"))
	})
}

func TestMetricsOfWhatIsRemovedVanish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := settled(t)
		defer l.resign()
		reg := prometheus.NewPedanticRegistry()
		reg.MustRegister(l.ctl.metrics)
		count := func() int {
			n, err := testutil.GatherAndCount(reg, "quorate_target_state")
			require.NoError(t, err)
			return n
		}
		require.Equal(t, 10, count(), "two clusters, five states")
		spec := labSpec()
		delete(spec.Clusters, "eu")
		l.person(statestore.ApplySpec{Base: 1, Source: "test", Spec: spec, Rotations: policy.DiffSpec(l.st(), spec).Rotations})
		require.Equal(t, 5, count())
	})
}

func TestDrainMetricsAreThereWhileDrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := settled(t)
		defer l.resign()
		reg := prometheus.NewPedanticRegistry()
		reg.MustRegister(l.ctl.metrics)
		expires := func() int {
			n, err := testutil.GatherAndCount(reg, "quorate_drain_expires_timestamp_seconds")
			require.NoError(t, err)
			return n
		}
		require.Zero(t, expires())
		l.person(statestore.DrainCluster{Cluster: "eu", Reason: "upgrade", For: time.Hour, Rotations: policy.DrainRotations(l.st(), "eu", nil)})
		require.Equal(t, 1, expires())
	})
}

func TestAuditCountsOnlyGrow(t *testing.T) {
	l := New(Config{Name: "eu-1", Store: statestore.NewStoreAt(&statestore.State{
		Spec:   &statestore.Spec{},
		Events: []statestore.Event{{Index: 1, Type: "a"}, {Index: 2, Type: "b"}, {Index: 3, Type: "a"}},
	})}).metrics
	ch := make(chan prometheus.Metric, 100)
	l.Collect(ch)
	require.Equal(t, map[string]int{"a": 2, "b": 1}, maps.Clone(l.audited))
	l.store = statestore.NewStoreAt(&statestore.State{Spec: &statestore.Spec{}, Events: []statestore.Event{{Index: 3, Type: "a"}, {Index: 4, Type: "a"}}})
	l.Collect(ch)
	require.Equal(t, map[string]int{"a": 3, "b": 1}, l.audited, "pruned events stay counted, counted ones are not counted again")
}
