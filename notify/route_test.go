package notify

import (
	"encoding/json"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

func TestRoutes(t *testing.T) {
	addr := netip.MustParseAddr("192.0.2.10")
	detail, err := json.Marshal(statestore.VerdictsDetail{Changes: []statestore.VerdictChange{
		{Target: health.Target{Service: "web", Cluster: "eu", Endpoint: addr}}, {Target: health.Target{Service: "db", Cluster: "eu", Endpoint: addr}},
	}})
	require.NoError(t, err)
	many := statestore.Event{Type: "verdict.changed", Subject: "targets", Detail: detail}
	event := func(kind, subject string) statestore.Event { return statestore.Event{Type: kind, Subject: subject} }
	route := func(types, services []string) []statestore.Route {
		return []statestore.Route{{Types: types, Services: services, To: []string{"other", "bus"}}}
	}
	all := []string{"*"}
	tests := []struct {
		name   string
		routes []statestore.Route
		event  statestore.Event
		want   bool
	}{
		{"no route", nil, event("spec.applied", "config"), false},
		{"* takes all", route(all, nil), event("spec.applied", "config"), true},
		{"a type takes itself", route([]string{"spec.applied"}, nil), event("spec.applied", "config"), true},
		{"a type takes no other", route([]string{"cutover.signed"}, nil), event("cutover.proposed", "services/db"), false},
		{"a type is no beginning", route([]string{"cutover.re"}, nil), event("cutover.rejected", "services/db"), false},
		{"a family takes its own", route([]string{"cutover.*"}, nil), event("cutover.rejected", "services/db"), true},
		{"a family takes no other", route([]string{"cutover.*"}, nil), event("cluster.drained", "clusters/eu"), false},
		{"a service takes its own", route(all, []string{"db"}), event("cutover.proposed", "services/db"), true},
		{"a service takes what is below it", route(all, []string{"db"}), event("x.y", "services/db/eu"), true},
		{"a service takes no other", route(all, []string{"db"}), event("cutover.proposed", "services/db2"), false},
		{"a service takes nothing without one", route(all, []string{"db"}), event("spec.applied", "config"), false},
		{"a verdict entry of several services is about each", route(all, []string{"db"}), many, true},
		{"and about no other", route(all, []string{"shop"}), many, false},
		{"another receiver's route", []statestore.Route{{Types: all, To: []string{"other"}}}, event("spec.applied", "config"), false},
		{"a second route", append(route([]string{"x.y"}, nil), route(all, nil)...), event("spec.applied", "config"), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			st := &statestore.State{Spec: &statestore.Spec{Notify: statestore.Notify{Routes: tt.routes}}}
			require.Equal(t, tt.want, wanted(st, "bus", tt.event))
		})
	}
}

// A receiver hears of what happens from the revision that brings it on, and a new
// route brings no history either, whoever leads.
func TestNewRoutesBringNoHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "bus")
		narrow := hooks("bus")
		narrow.Routes[0].Types = []string{"cutover.*"}
		b.apply(narrow)
		b.event("cluster.drained", "clusters/eu")
		first := b.event("cutover.proposed", "services/db")
		b.event("cluster.drained", "clusters/us")
		b.apply(hooks("bus"))
		second := b.event("cluster.drained", "clusters/dr")
		for range 2 {
			lead(t, b.node(nil), func() { time.Sleep(2 * time.Second) })
		}
		require.ElementsMatch(t, []uint64{first, second}, b.net["bus"].ids(""))
	})
}

func TestAReceiverBeginsWithItsRevision(t *testing.T) {
	revision := func(index uint64, receivers ...string) statestore.Revision {
		return statestore.Revision{Index: index, Spec: &statestore.Spec{Notify: hooks(receivers...)}}
	}
	st := &statestore.State{Spec: &statestore.Spec{Notify: hooks("bus")}, Revisions: []statestore.Revision{
		revision(10, "bus"), revision(20, "chat"), revision(30, "bus"), revision(40, "bus", "chat"),
	}}
	require.EqualValues(t, 29, since(st, "bus"), "away in between")
	require.EqualValues(t, 39, since(st, "chat"))
	require.EqualValues(t, 0, since(st, "none"))
}
