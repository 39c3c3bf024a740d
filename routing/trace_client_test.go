package routing

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/statestore"
)

func TestPlacementTraces(t *testing.T) {
	steps := func(edit func(*statestore.State, *statestore.Service), q Query) map[string]Step {
		_, tr := Select(placedTable(t, edit), q)
		out := map[string]Step{}
		for _, s := range tr.Steps() {
			out[s.Step] = s
		}
		return out
	}
	q := query("web.gslb.test.", "A")
	q.Client = netip.MustParseAddr("81.2.69.142")
	got := steps(nil, q)
	require.Equal(t, Step{"client", "81.2.69.142 (query source; no ECS) -> GB -> EU -> region eu-west", "geo file 2026-10-07"}, got["client"])
	require.Equal(t, Step{"rank", "eu, then us, then ap", "nearest to region eu-west"}, got["rank"])
	require.Equal(t, Step{"answer", "A 192.0.2.10, 192.0.2.11  TTL 30", "eu has the lowest rank"}, got["answer"])

	got = steps(both(leave("eu"), func(_ *statestore.State, s *statestore.Service) { s.Residency = map[string][]string{"EU": {"eu"}} }), q)
	require.Equal(t, Step{"rank", "eu", "nearest to region eu-west; residency EU leaves out ap, us; no cluster that residency allows is in rotation: on_all_down serve_last, of those alone"}, got["rank"])
	require.Equal(t, "eu by residency", got["answer"].Note)

	got = steps(func(st *statestore.State, s *statestore.Service) {
		s.Policy = statestore.Policy{Type: statestore.Weighted, Sticky: true}
		st.Services["web"].Override = &statestore.Override{Cluster: "dr", By: "alice"}
	}, q)
	require.Equal(t, "ap = eu = us", got["rank"].Text)
	require.Contains(t, got["state"].Note, "pinned to dr by alice, without effect")
	require.Contains(t, got["answer"].Note, ": its network (/24) sticks to it")

	q.Name, q.Subnet = "db.gslb.test.", netip.MustParsePrefix("10.8.3.0/24")
	got = steps(nil, q)
	require.Equal(t, Step{"client", "81.2.69.142 (ECS 10.8.3.0/24) -> cluster eu -> region eu-west", "policy failover answers every client alike"}, got["client"])
	require.NotContains(t, got, "rank")

	q.Subnet, q.Client = netip.Prefix{}, netip.MustParseAddr("203.0.113.1")
	require.Equal(t, "203.0.113.1 (query source; no ECS) -> not in geo file 2026-10-07", steps(nil, q)["client"].Text)

	local := func(_ *statestore.State, s *statestore.Service) {
		s.Policy = statestore.Policy{Type: statestore.Weighted, Affinity: statestore.LocalAffinity, Sticky: true}
	}
	q.Name, q.Client = "web.gslb.test.", netip.IPv4Unspecified()
	got = steps(local, q)
	require.Equal(t, "any client (no address given)", got["client"].Text)
	require.Contains(t, got["rank"].Note, "affinity local: nobody knows where the client is; by weight")
	q.Subnet = netip.MustParsePrefix("10.8.3.0/24")
	require.Equal(t, "any resolver (ECS 10.8.3.0/24) -> cluster eu -> region eu-west", steps(local, q)["client"].Text)
}

func TestTheTraceSaysWhoStandsBy(t *testing.T) {
	table := placedTable(t, func(st *statestore.State, s *statestore.Service) {
		s.Policy.Affinity = statestore.LocalAffinity
		s.Policy.Spillover = &statestore.Spillover{Order: []string{"ap", "us", "eu"}}
		for i := range st.Services["web"].Rotation.V4.Shares {
			if sh := &st.Services["web"].Rotation.V4.Shares[i]; sh.Cluster != "eu" {
				sh.Weight = 1
			}
		}
	})
	q := query("web.gslb.test.", "A")
	q.Client = netip.MustParseAddr("81.2.69.142")
	_, tr := Select(table, q)
	steps := map[string]Step{}
	for _, s := range tr.Steps() {
		steps[s.Step] = s
	}
	require.Contains(t, steps["state"].Text, "eu (stands by)")
	require.Equal(t, "ap, then us", steps["rank"].Text)
	require.Equal(t, "affinity local: no cluster of its own or its region is in rotation with a weight; its best cluster is out or stands by: spillover.order", steps["rank"].Note)
}
