package api

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/routing"
	"github.com/quorate/quorate/statestore"
)

// wideSpec is a spec of many services over ten clusters in five regions, placed by
// client, with networks of their own.
func wideSpec(services int) *statestore.Spec {
	spec := testSpec()
	template := *spec.Services["web"]
	spec.Services = map[string]*statestore.Service{}
	spec.Clusters = map[string]*statestore.Cluster{}
	spec.Regions = map[string]*statestore.Region{}
	for i := range 10 {
		region := fmt.Sprintf("region-%d", i%5)
		spec.Regions[region] = &statestore.Region{Coordinates: &statestore.Coordinates{Latitude: float64(10 * (i % 5)), Longitude: float64(20 * (i % 5))}}
		spec.Clusters[fmt.Sprintf("c%d", i)] = &statestore.Cluster{
			ID: i + 1, Region: region, Labels: map[string]string{"tier": fmt.Sprint(i % 2)},
			IPv4:  []netip.Addr{netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)})},
			IPv6:  []netip.Addr{netip.MustParseAddr(fmt.Sprintf("2001:db8::%d", i+1))},
			CIDRs: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i), 0, 0}), 16)},
		}
	}
	for i := range services {
		svc := template
		svc.Names = []string{fmt.Sprintf("s%d", i)}
		svc.Clusters = statestore.Selector{Match: "tier in (0,1)"}
		switch i % 3 {
		case 0:
			svc.Policy = statestore.Policy{Type: statestore.Geo, Affinity: statestore.LocalAffinity}
		case 1:
			svc.Policy = statestore.Policy{Type: statestore.Weighted, Sticky: true}
		}
		spec.Services[fmt.Sprintf("s%d", i)] = &svc
	}
	return spec
}

// newWideServices is a rig with many services, all up and in rotation.
func newWideServices(t testing.TB, services int) *rig {
	r := newRig(t)
	r.apply1(wideSpec(services))
	r.votes(2, true, nil)
	r.settle()
	table := r.table()
	r.server.cfg.Table = func() *routing.Table { return table }
	return r
}

func TestAPlanOfManyServicesListsAFewMoves(t *testing.T) {
	r := newWideServices(t, 30)
	spec := wideSpec(30)
	delete(spec.Clusters, "c9")
	spec.Regions["region-0"].Coordinates.Latitude = 80
	p := r.server.plan(t.Context(), &call{st: r.store.State()}, spec, "x", nil)
	require.Equal(t, 15, p.Clients.Sampled, "five regions and ten networks")
	require.NotEmpty(t, p.Clients.Services)
	for _, s := range p.Clients.Services {
		require.LessOrEqual(t, len(s.Moves), maxMoves)
		require.Equal(t, min(maxMoves, s.Moved+s.Lost), len(s.Moves))
	}
	require.Len(t, p.Matches, 30)
}

func BenchmarkPlan(b *testing.B) {
	r := newWideServices(b, 1000)
	spec := wideSpec(1000)
	delete(spec.Clusters, "c9")
	c := &call{st: r.store.State()}
	var p apitype.Plan
	for b.Loop() {
		p = r.server.plan(b.Context(), c, spec, "x", nil)
	}
	b.ReportMetric(float64(p.Clients.Sampled), "clients")
}
