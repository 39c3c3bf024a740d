package routing

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/statestore"
)

func TestSelectForOneClusterDoesNotAllocate(t *testing.T) {
	sticky := func(_ *statestore.State, s *statestore.Service) { s.Policy.Sticky = true }
	spills := func(st *statestore.State, _ *statestore.Service) {
		st.Services["web"].Rotation.V4.Shares[1].Spill = 100
	}
	weighted := func(_ *statestore.State, s *statestore.Service) { s.Policy.Type = statestore.Weighted }
	for name, edit := range map[string]func(*statestore.State, *statestore.Service){"geo": nil, "weighted": weighted, "sticky": both(weighted, sticky), "spilling": spills} {
		table, q := placedTable(t, edit), query("web.gslb.test.", "A")
		q.Client = netip.MustParseAddr("81.2.69.142")
		if n := testing.AllocsPerRun(100, func() { Select(table, q) }); n != 0 {
			t.Errorf("Select of a service that is %s allocates %v times, want 0", name, n)
		}
	}
}

func TestWhoIsWhereIsSharedWhileItIsTheSame(t *testing.T) {
	st, local := placed(nil)
	table, err := Update(nil, st, local)
	require.NoError(t, err)
	next := *st
	sp := *st.Spec
	next.Spec = &sp
	again, err := Update(table, &next, local)
	require.NoError(t, err)
	require.Same(t, table.clients, again.clients, "another spec with the same regions and CIDRs")
	require.Same(t, table.service("web"), again.service("web"))
	sp2 := sp
	sp2.Clusters = map[string]*statestore.Cluster{}
	for name, c := range sp.Clusters {
		clone := *c
		clone.CIDRs = nil
		sp2.Clusters[name] = &clone
	}
	next2 := next
	next2.Spec = &sp2
	other, err := Update(again, &next2, local)
	require.NoError(t, err)
	require.NotSame(t, table.clients, other.clients)
	q := query("web.gslb.test.", "A")
	q.Client = netip.MustParseAddr("10.8.0.1")
	before, _ := Select(again, q)
	after, _ := Select(other, q)
	require.Equal(t, []string{"eu"}, before.Clusters)
	require.EqualValues(t, 16, before.Scope)
	require.NotEqualValues(t, 16, after.Scope)
}

func TestUpdateFollowsTheRoundTrips(t *testing.T) {
	rtt := func(eu, us int) map[string]map[netip.Addr]statestore.Duration {
		return map[string]map[netip.Addr]statestore.Duration{"eu-west": {
			netip.MustParseAddr("192.0.2.10"):    dur(time.Duration(eu) * time.Millisecond),
			netip.MustParseAddr("198.51.100.10"): dur(time.Duration(us) * time.Millisecond),
		}}
	}
	st, local := placed(func(st *statestore.State, s *statestore.Service) {
		s.Policy, st.Latency = statestore.Policy{Type: statestore.Latency}, rtt(10, 80)
	})
	table, err := Update(nil, st, local)
	require.NoError(t, err)
	q := query("web.gslb.test.", "A")
	q.Client = netip.MustParseAddr("81.2.69.142")
	a, _ := Select(table, q)
	require.Equal(t, []string{"eu"}, a.Clusters)
	next := *st
	next.Latency = rtt(90, 80)
	after, err := Update(table, &next, local)
	require.NoError(t, err)
	a, _ = Select(after, q)
	require.Equal(t, []string{"us"}, a.Clusters)
	require.Same(t, table.service("db"), after.service("db"), "another policy measures nothing")
}

// A table that follows an entry of the log looks only at what the state says was
// changed, and is the one that is made of the state from scratch.
func TestUpdateFollowsAnEntry(t *testing.T) {
	before, after := entries(t, 20)
	names, ok := after.ServicesSince(before)
	require.True(t, ok)
	require.Equal(t, []string{"web"}, names)
	table := compile(t, before)
	next, err := Update(table, after, table.local)
	require.NoError(t, err)
	fresh := compile(t, after)
	for _, name := range next.layout.services {
		require.True(t, next.service(name).rotation == fresh.service(name).rotation && next.service(name).v4.same(&fresh.service(name).v4), name)
		require.Equal(t, name != "web", next.service(name) == table.service(name), name)
	}
	require.Equal(t, fresh.Zones, next.Zones)

	// What the node knows itself is no entry's: everything is looked at then.
	withheld, err := Update(table, after, Local{Withheld: map[string]string{"s00001": "test"}})
	require.NoError(t, err)
	require.False(t, withheld.service("web") == table.service("web"))
}
