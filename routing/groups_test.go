package routing

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/routing/geo"
	"github.com/quorate/quorate/statestore"
)

// TestNobodyIsTakenForSomebodyElse: places see clusters in many regions in so many
// orders that there are more than 2^16 groups of clients, and each client is answered
// by its own.
func TestNobodyIsTakenForSomebodyElse(t *testing.T) {
	st := testState()
	st.Spec.Regions, st.Spec.Clusters = map[string]*statestore.Region{}, map[string]*statestore.Cluster{}
	at := func(n uint64) (latitude, longitude float64) {
		return float64(mix(n)%1700)/10 - 85, float64(mix(n)>>20%3600)/10 - 180
	}
	var shares []statestore.Share
	for i := range uint64(60) {
		name, a := fmt.Sprintf("r%02d", i), netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})
		latitude, longitude := at(i)
		st.Spec.Regions[name] = &statestore.Region{Coordinates: &statestore.Coordinates{Latitude: latitude, Longitude: longitude}}
		st.Spec.Clusters[name] = &statestore.Cluster{Region: name, IPv4: []netip.Addr{a}}
		shares = append(shares, statestore.Share{Cluster: name, Weight: 1, Endpoints: []netip.Addr{a}})
	}
	st.Spec.Services = map[string]*statestore.Service{"web": testService(statestore.Geo, "web")}
	st.Services = map[string]*statestore.ServiceState{"web": {Rotation: statestore.Rotation{Number: 1, V4: statestore.Pool{Shares: shares}}}}
	var entries []geo.Entry
	for i := range 80_000 {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(11 + i>>16), byte(i >> 8), byte(i), 0}), 24)
		latitude, longitude := at(uint64(i) + 1e6)
		entries = append(entries, geo.Entry{Prefix: p, Place: geo.Place{Country: "GB", Continent: "EU", Located: true, Latitude: latitude, Longitude: longitude}})
	}
	index, err := geo.New(entries, "2026-10-07")
	require.NoError(t, err)
	table, err := Update(nil, st, Local{Geo: index})
	require.NoError(t, err)
	require.Greater(t, len(table.service("web").view.list), 1<<16)
	for _, e := range entries {
		q := query("web.gslb.test.", "A")
		q.Client = e.Prefix.Addr()
		a, _ := Select(table, q)
		if want := table.clients.classes[table.clients.find(&q).class()].region; a.Clusters[0] != want {
			require.Equal(t, want, a.Clusters[0], "the nearest of %v", e.Place)
		}
	}
}
