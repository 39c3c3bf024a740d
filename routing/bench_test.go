package routing

import (
	"fmt"
	"net/netip"
	"slices"
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

// BenchmarkUpdateOneOfTenThousand compiles one changed service among 10,000: the
// table follows an entry of the log.
func BenchmarkUpdateOneOfTenThousand(b *testing.B) {
	before, after := entries(b, 10000)
	table, err := Update(nil, before, Local{Geo: world(b)})
	require.NoError(b, err)
	for b.Loop() {
		if _, err := Update(table, after, table.local); err != nil {
			b.Fatal(err)
		}
	}
}

// entries returns two states of a log with n services: web lost a cluster in between.
func entries(t require.TestingT, n int) (before, after *statestore.State) {
	st := geoState()
	sp := st.Spec
	delete(sp.Services, "db")
	delete(st.Services, "db")
	for i := range n - len(sp.Services) {
		name := fmt.Sprintf("s%05d", i)
		sp.Services[name], st.Services[name] = testService(statestore.Weighted, name), st.Services["web"]
	}
	var rotations []statestore.RotationChange
	for name, run := range st.Services {
		rotations = append(rotations, statestore.RotationChange{Service: name, V4: run.Rotation.V4, V6: run.Rotation.V6})
	}
	store := statestore.NewStore()
	apply := func(cmd statestore.Command) {
		data, err := statestore.Encode(cmd, statestore.Meta{Actor: "test"})
		require.NoError(t, err)
		require.NoError(t, store.Apply(store.State().Index+1, 1, data).Err)
	}
	apply(statestore.Initialize{Installation: "test"})
	apply(statestore.ApplySpec{Spec: sp, Rotations: rotations, Source: "test"})
	before = store.State()
	web := st.Services["web"].Rotation
	left := slices.DeleteFunc(slices.Clone(web.V4.Shares), func(sh statestore.Share) bool { return sh.Cluster == "us" })
	apply(statestore.DrainCluster{Cluster: "us", Services: []string{"web"}, Reason: "test", Rotations: []statestore.RotationChange{
		{Service: "web", V4: statestore.Pool{Shares: left}, V6: web.V6},
	}})
	return before, store.State()
}
