package controller

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

func TestMetricsOfACutover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, os := settled(t, db(after(10*time.Second)))
		defer l.resign()
		reg := prometheus.NewPedanticRegistry()
		reg.MustRegister(l.ctl.metrics)
		value := func(name string, labels ...string) float64 {
			t.Helper()
			families, err := reg.Gather()
			require.NoError(t, err)
			for _, f := range families {
				for _, m := range f.GetMetric() {
					var have []string
					for _, p := range m.GetLabel() {
						have = append(have, p.GetName()+"="+p.GetValue())
					}
					if f.GetName() != "quorate_"+name || strings.Join(have, " ") != strings.Join(labels, " ") {
						continue
					}
					return m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
				}
			}
			return -1
		}
		problems, err := testutil.GatherAndLint(reg)
		require.NoError(t, err)
		require.Empty(t, problems)

		require.Equal(t, 1.0, value("service_active_cluster", "cluster=eu", "service=db"))
		require.Equal(t, 0.0, value("service_active_cluster", "cluster=us", "service=db"))
		require.Equal(t, -1.0, value("service_active_cluster", "cluster=eu", "service=web"), "stateless")
		require.Equal(t, 1.0, value("service_epoch", "service=db"))
		require.Equal(t, 0.0, value("cutover_pending", "service=db"))
		require.Equal(t, 0.0, value("cutover_signatures", "service=db"))
		require.Equal(t, -1.0, value("cutover_pending_since_timestamp_seconds", "service=db"), "no value yet")
		require.Equal(t, -1.0, value("cutover_expires_timestamp_seconds", "service=db"))
		require.Equal(t, 0.0, value("gate_state", "gate=source_fenced", "service=db", "state=not_configured"))
		require.Equal(t, 0.0, value("waivers_total", "rule=source_fenced"))
		require.Equal(t, 0.0, value("cutovers_total", "from=eu", "kind=emergency", "result=done", "service=db", "to=us"))
		require.Equal(t, 0.0, value("cutover_phase_duration_seconds", "phase=fence"))

		everybody(os, health.Down, "eu")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		proposed := float64(time.Now().Unix())
		l.sign("bob")
		require.Equal(t, 1.0, value("cutover_pending", "service=db"))
		require.Equal(t, 1.0, value("cutover_signatures", "service=db"))
		require.InDelta(t, proposed, value("cutover_pending_since_timestamp_seconds", "service=db"), 1)
		require.InDelta(t, proposed+1800, value("cutover_expires_timestamp_seconds", "service=db"), 1)
		require.Equal(t, 1.0, value("gate_state", "gate=source_fenced", "service=db", "state=not_configured"))
		require.Equal(t, 1.0, value("gate_state", "gate=source_down_by_quorum", "service=db", "state=clean"))
		require.Equal(t, 0.0, value("gate_state", "gate=source_down_by_quorum", "service=db", "state=blocked"))
		require.Equal(t, 1.0, value("waivers_total", "rule=source_fenced"))

		l.sign("carol")
		require.Equal(t, -1.0, value("cutover_expires_timestamp_seconds", "service=db"), "it has begun and expires no more")
		l.acknowledge("CUT-1", "eu-1", "us-1", "ap-1")
		require.Equal(t, 0.0, value("service_active_cluster", "cluster=eu", "service=db"))
		require.Equal(t, 1.0, value("service_active_cluster", "cluster=us", "service=db"))
		require.Equal(t, 2.0, value("service_epoch", "service=db"))
		require.Equal(t, 0.0, value("cutover_pending", "service=db"))
		for range 2 { // however often it is asked
			require.Equal(t, 1.0, value("cutovers_total", "from=eu", "kind=emergency", "result=done", "service=db", "to=us"))
			require.Equal(t, 0.0, value("cutovers_total", "from=us", "kind=failback", "result=done", "service=db", "to=eu"), "the way back")
			require.Equal(t, 1.0, value("waivers_total", "rule=lag_within_rpo"))
			require.Equal(t, 1.0, value("cutover_phase_duration_seconds", "phase=approve"))
			require.Equal(t, 1.0, value("cutover_phase_duration_seconds", "phase=fence"))
		}
	})
}

func TestEndedCutoversStayCountedOncePruned(t *testing.T) {
	ended := func(id string, version uint64) *statestore.Cutover {
		return &statestore.Cutover{ID: id, Version: version, Service: "db", Source: "eu", Destination: "us", Kind: statestore.Planned, Phase: statestore.Rejected}
	}
	state := func(cutovers map[string]*statestore.Cutover) *statestore.State {
		return &statestore.State{Spec: &statestore.Spec{Services: map[string]*statestore.Service{"db": {}}}, Cutovers: cutovers}
	}
	m := New(Config{Name: "eu-1", Store: statestore.NewStoreAt(state(map[string]*statestore.Cutover{"CUT-1": ended("CUT-1", 3), "CUT-2": ended("CUT-2", 5)}))}).metrics
	count := func() int {
		ch := make(chan prometheus.Metric, 1000)
		m.Collect(ch)
		return m.cutovers.ended[ending{"db", "eu", "us", "planned", "rejected"}]
	}
	require.Equal(t, 2, count())
	m.store = statestore.NewStoreAt(state(map[string]*statestore.Cutover{"CUT-2": ended("CUT-2", 5), "CUT-3": ended("CUT-3", 9)}))
	require.Equal(t, 3, count())
}
