package api

import (
	"maps"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/api/console"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

func TestTheCardSaysWhetherTheWholeSiteIsDown(t *testing.T) {
	r := newStatefulRig(t)
	r.down(3, "eu")
	require.Equal(t, 201, r.as("alice", "POST", "/v1/cutovers", `{"service":"orders-db","kind":"emergency","reason":"eu is gone"}`).status)
	st := *r.store.State()
	co := st.Cutovers["CUT-1"]
	require.Equal(t, "The front door of eu is down too: looks like the whole site.", extent(&st, co))

	st.Clusters = nil // no front door is probed
	require.Equal(t, "Down on eu too: shop, web. It looks like the whole site.", extent(&st, co))
	st.Services = maps.Clone(st.Services)
	st.Services["shop"] = &statestore.ServiceState{}
	require.Equal(t, "Down on eu too: web; not down: shop.", extent(&st, co))
	st.Services["web"] = &statestore.ServiceState{}
	require.Equal(t, "Not down on eu: shop, web. It looks like this service only.", extent(&st, co))
	spec := *st.Spec
	spec.Services = map[string]*statestore.Service{"orders-db": spec.Services["orders-db"]}
	st.Spec = &spec
	require.Contains(t, extent(&st, co), "nobody can tell")
	require.Equal(t, "a, b, c, d, e and 2 more", few([]string{"a", "b", "c", "d", "e", "f", "g"}))
}

func TestTheCardShowsTheSidesThatPeopleSign(t *testing.T) {
	r := newStatefulRig(t)
	r.down(3, "eu")
	st := *r.store.State()
	require.Equal(t, console.State("down"), sideState(&st, "orders-db", "eu"))
	spec := *st.Spec
	spec.Clusters = maps.Clone(spec.Clusters)
	eu := *spec.Clusters["eu"]
	eu.IPv4 = append(slices.Clone(eu.IPv4), netip.MustParseAddr("192.0.2.99")) // nobody has judged it
	spec.Clusters["eu"] = &eu
	st.Spec = &spec
	require.Equal(t, health.Unknown, st.SideOf("orders-db", "eu"))
	require.Equal(t, console.State("unknown"), sideState(&st, "orders-db", "eu"), "as the evidence has it")
	require.Equal(t, console.Unknown, sideState(&st, "no", "eu"))
}
