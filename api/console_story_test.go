package api

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

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
