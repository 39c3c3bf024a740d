package routing

import (
	"fmt"
	"maps"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/routing/geo"
	"github.com/quorate/quorate/statestore"
)

// BenchmarkSelect picks an answer of a weighted service.
func BenchmarkSelect(b *testing.B) {
	table := compile(b, testState())
	q := query("web.gslb.test.", "A")
	for b.Loop() {
		q.Draw = mix(q.Draw)
		Select(table, q)
	}
}

// world is a GeoIP index of 300,000 networks of which no two neighbours are at one
// place.
func world(tb testing.TB) *geo.Index {
	tb.Helper()
	at := []geo.Place{
		{Country: "GB", Continent: "EU", Located: true, Latitude: 51.5, Longitude: -0.1},
		{Country: "US", Continent: "NA", Located: true, Latitude: 40.7, Longitude: -74},
		{Country: "DE", Continent: "EU", Located: true, Latitude: 52.5, Longitude: 13.4},
		{Country: "JP", Continent: "AS", Located: true, Latitude: 35.7, Longitude: 139.7},
		{Country: "BR", Continent: "SA", Located: true, Latitude: -23.5, Longitude: -46.6},
	}
	entries := make([]geo.Entry, 300_000)
	for i := range entries {
		n := mix(uint64(i)) % uint64(len(at))
		addr := netip.AddrFrom4([4]byte{byte(11 + i>>14), byte(i >> 6), byte(i << 2), 0})
		entries[i] = geo.Entry{Prefix: netip.PrefixFrom(addr, 22), Place: at[n]}
	}
	index, err := geo.New(entries, "2026-10-07")
	require.NoError(tb, err)
	return index
}

// geoState is testState with regions on the map and web by policy geo.
func geoState() *statestore.State {
	st := testState()
	st.Spec.Regions = map[string]*statestore.Region{
		"eu-west": {Coordinates: &statestore.Coordinates{Latitude: 53.3, Longitude: -6.3}, Countries: []string{"GB", "IE"}},
		"us-east": {Coordinates: &statestore.Coordinates{Latitude: 39, Longitude: -77}},
	}
	st.Spec.Services["web"].Policy = statestore.Policy{Type: statestore.Geo}
	return st
}

// BenchmarkSelectGeo picks an answer by the place of the client, out of 300,000
// networks: each query is of another one.
func BenchmarkSelectGeo(b *testing.B) {
	table, err := Update(nil, geoState(), Local{Geo: world(b)})
	require.NoError(b, err)
	clients := make([]netip.Addr, 1<<14)
	for i := range clients {
		n := mix(uint64(i))
		clients[i] = netip.AddrFrom4([4]byte{byte(11 + n%18), byte(n >> 8), byte(n >> 16), byte(n >> 24)})
	}
	q := query("web.gslb.test.", "A")
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		q.Client = clients[i&(len(clients)-1)]
		Select(table, q)
		i++
	}
}

// BenchmarkSelectSticky hashes the client's network for two clusters.
func BenchmarkSelectSticky(b *testing.B) {
	st := testState()
	st.Spec.Services["web"].Policy.Sticky = true
	table := compile(b, st)
	q := query("web.gslb.test.", "A")
	b.ReportAllocs()
	for b.Loop() {
		Select(table, q)
	}
}

// BenchmarkLocate finds out who is where, out of 300,000 networks.
func BenchmarkLocate(b *testing.B) {
	from := placesOf(geoState().Spec, world(b))
	b.ReportAllocs()
	for b.Loop() {
		makeClients(from)
	}
}

// BenchmarkUpdateOneOfTenThousand compiles one changed service among 10,000.
func BenchmarkUpdateOneOfTenThousand(b *testing.B) {
	st := geoState()
	for i := range 10000 - len(st.Spec.Services) {
		name := fmt.Sprintf("s%05d", i)
		st.Spec.Services[name] = testService(statestore.Weighted, name)
		run := *st.Services["web"]
		st.Services[name] = &run
	}
	table, err := Update(nil, st, Local{Geo: world(b)})
	require.NoError(b, err)
	states := make([]*statestore.State, 2)
	for i := range states {
		next := *st
		next.Services = maps.Clone(st.Services)
		run := *st.Services["web"]
		run.Rotation.Number = uint64(10 + i)
		next.Services["web"] = &run
		next.TableIndex += uint64(i)
		states[i] = &next
	}
	i := 0
	for b.Loop() {
		if table, err = Update(table, states[i&1], table.local); err != nil {
			b.Fatal(err)
		}
		i++
	}
}
