// Package routingtest draws states, GeoIP files and clients for property tests of
// what is answered: by routing itself, and by what must agree with it.
//
// What it draws is what a state may hold: a rotation that is empty only where
// on_all_down declares it or no candidate has the family. The addresses it draws lie
// close together, so that networks, CIDRs and clients meet.
package routingtest

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/routing"
	"github.com/quorate/quorate/routing/geo"
	"github.com/quorate/quorate/statestore"
)

// Zone is the zone of all services.
const Zone = "gslb.test."

// World is a state and the GeoIP file of the node that answers from it.
type World struct {
	State   *statestore.State
	Entries []geo.Entry // of Geo
	Geo     *geo.Index
}

// places are those that networks are drawn at. SA is a country here and a continent in
// a spec, and the last one is known by its coordinates alone.
var places = []geo.Place{
	{Country: "GB", Continent: "EU", Located: true, Latitude: 51.5, Longitude: -0.1},
	{Country: "DE", Continent: "EU"},
	{Country: "US", Continent: "NA", Located: true, Latitude: 40.7, Longitude: -74},
	{Country: "SA", Continent: "AS", Located: true, Latitude: 24.7, Longitude: 46.7},
	{Country: "BR", Continent: "SA", Located: true, Latitude: -23.5, Longitude: -46.6},
	{Located: true, Latitude: 35.7, Longitude: 139.7},
	{Continent: "EU"},
}

var regionNames = []string{"ap", "eu", "us"}

// Draw draws a world of up to five clusters and three services.
func Draw(rt *rapid.T) World {
	w := World{Entries: drawEntries(rt)}
	var err error
	if w.Geo, err = geo.New(w.Entries, "2026-10-07"); err != nil {
		rt.Fatalf("index of drawn entries: %v", err)
	}
	st := &statestore.State{
		Generation: 1, Index: 9, TableIndex: 9, Revision: 1,
		Spec: &statestore.Spec{
			Zones:    map[string]*statestore.Zone{Zone: {NSTTL: seconds(3600), SOA: statestore.SOA{NegativeTTL: seconds(30)}}},
			Clusters: drawClusters(rt), Services: map[string]*statestore.Service{}, Regions: drawRegions(rt),
		},
		Services:  map[string]*statestore.ServiceState{},
		Clusters:  map[string]*statestore.ClusterState{},
		Observers: map[health.ObserverID]*statestore.Observer{},
		Latency:   drawLatency(rt),
	}
	for i := range rapid.IntRange(1, 3).Draw(rt, "services") {
		name := fmt.Sprintf("s%d", i)
		st.Spec.Services[name] = drawService(rt, st.Spec, name)
		st.Services[name] = &statestore.ServiceState{Rotation: DrawRotation(rt, st.Spec, name, uint64(i)+1)}
	}
	w.State = st
	return w
}

func seconds(n int) statestore.Duration { return statestore.Duration(time.Duration(n) * time.Second) }

func drawEntries(rt *rapid.T) []geo.Entry {
	var list []geo.Entry
	if rapid.Bool().Draw(rt, "geo file") {
		drawNetworks(rt, netip.MustParsePrefix("10.0.0.0/22"), 5, &list)
		drawNetworks(rt, netip.MustParsePrefix("2001:db8::/52"), 5, &list)
	}
	return list
}

// drawNetworks cuts a network into places, with holes.
func drawNetworks(rt *rapid.T, p netip.Prefix, depth int, to *[]geo.Entry) {
	switch what := rapid.IntRange(0, 6).Draw(rt, "cut"); {
	case what == 0:
	case what < 3 || depth == 0:
		*to = append(*to, geo.Entry{Prefix: p, Place: rapid.SampledFrom(places).Draw(rt, "place")})
	default:
		low, high := geo.Halves(p)
		drawNetworks(rt, low, depth-1, to)
		drawNetworks(rt, high, depth-1, to)
	}
}

func drawRegions(rt *rapid.T) map[string]*statestore.Region {
	regions := map[string]*statestore.Region{}
	countries := []string{"BR", "DE", "GB", "SA", "US"}
	for i, name := range regionNames {
		if !rapid.Bool().Draw(rt, "region is declared") {
			continue
		}
		r := &statestore.Region{}
		if rapid.Bool().Draw(rt, "region has coordinates") {
			r.Coordinates = &[]statestore.Coordinates{{Latitude: 35, Longitude: 139}, {Latitude: 53.3, Longitude: -6.3}, {Latitude: 39, Longitude: -77}}[i]
		}
		for len(countries) > 0 && rapid.Bool().Draw(rt, "one more country") {
			r.Countries, countries = append(r.Countries, countries[0]), countries[1:]
		}
		regions[name] = r
	}
	return regions
}

func drawClusters(rt *rapid.T) map[string]*statestore.Cluster {
	clusters := map[string]*statestore.Cluster{}
	cidrs := []string{"10.0.0.0/24", "10.0.1.128/25", "10.0.2.64/26", "2001:db8::/56", "2001:db8:0:100::/60"}
	for i := range rapid.IntRange(1, 5).Draw(rt, "clusters") {
		c := &statestore.Cluster{Region: rapid.SampledFrom(regionNames).Draw(rt, "region")}
		for e := range rapid.IntRange(0, 2).Draw(rt, "v4") {
			c.IPv4 = append(c.IPv4, netip.AddrFrom4([4]byte{192, 0, byte(i), byte(e)}))
		}
		for e := range rapid.IntRange(0, 2).Draw(rt, "v6") {
			c.IPv6 = append(c.IPv6, netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 13: byte(i), 15: byte(e)}))
		}
		for len(cidrs) > 0 && rapid.IntRange(0, 2).Draw(rt, "one more cidr") > 0 {
			c.CIDRs, cidrs = append(c.CIDRs, netip.MustParsePrefix(cidrs[0])), cidrs[1:]
		}
		clusters[fmt.Sprintf("c%d", i)] = c
	}
	return clusters
}

func drawLatency(rt *rapid.T) map[string]map[netip.Addr]statestore.Duration {
	out := map[string]map[netip.Addr]statestore.Duration{}
	for _, region := range regionNames {
		if !rapid.Bool().Draw(rt, "measured from") {
			continue
		}
		out[region] = map[netip.Addr]statestore.Duration{}
		for i := range rapid.IntRange(0, 5).Draw(rt, "measured") {
			ms := rapid.IntRange(1, 3).Draw(rt, "rtt")
			at := byte(rapid.IntRange(0, 1).Draw(rt, "endpoint"))
			out[region][netip.AddrFrom4([4]byte{192, 0, byte(i), at})] = statestore.Duration(time.Duration(rapid.IntRange(1, 3).Draw(rt, "other rtt")) * time.Millisecond)
			out[region][netip.AddrFrom4([4]byte{192, 0, byte(i), 0})] = statestore.Duration(time.Duration(ms) * time.Millisecond)
		}
	}
	return out
}

func drawService(rt *rapid.T, sp *statestore.Spec, name string) *statestore.Service {
	s := &statestore.Service{
		Zone: Zone, Names: []string{name},
		TTL:       statestore.TTL{Normal: seconds(30), Changing: seconds(5)},
		OnStale:   statestore.OnStale{After: seconds(30), Answer: rapid.SampledFrom([]statestore.StaleAnswer{statestore.StaleKeep, statestore.StaleServFail, statestore.StaleRefuse}).Draw(rt, "on_stale")},
		OnAllDown: statestore.OnAllDown{Mode: rapid.SampledFrom([]statestore.AllDownMode{statestore.ServeLast, statestore.ServeAll, statestore.NoData, statestore.ServFail, statestore.Sorry}).Draw(rt, "on_all_down"), Sorry: []netip.Addr{netip.MustParseAddr("198.51.100.1")}},
		Answer:    statestore.Answer{Clusters: rapid.SampledFrom([]int{1, 1, 2, 3}).Draw(rt, "per answer"), Addresses: rapid.IntRange(1, 4).Draw(rt, "addresses")},
	}
	all := slices.Sorted(maps.Keys(sp.Clusters))
	p := &s.Policy
	p.Type = rapid.SampledFrom([]statestore.PolicyType{statestore.Failover, statestore.Weighted, statestore.Geo, statestore.Latency}).Draw(rt, "policy")
	p.Affinity = rapid.SampledFrom([]statestore.Affinity{statestore.NoAffinity, statestore.NoAffinity, statestore.LocalAffinity, statestore.RemoteAffinity}).Draw(rt, "affinity")
	p.Sticky = rapid.Bool().Draw(rt, "sticky")
	if p.Type == statestore.Failover {
		p.Order = rapid.Permutation(all).Draw(rt, "order")
	}
	if p.Type == statestore.Geo && rapid.Bool().Draw(rt, "with a map") {
		p.Map = map[string][]string{"eu": {"EU"}, "us": {"NA", "SA"}, "ap": {"GB"}}
	}
	if rapid.Bool().Draw(rt, "spillover") {
		p.Spillover = &statestore.Spillover{At: 0.5}
		if rapid.Bool().Draw(rt, "in an order") {
			p.Spillover.Order = rapid.Permutation(all).Draw(rt, "spillover order")
		}
	}
	if rapid.IntRange(0, 2).Draw(rt, "residency") == 0 {
		s.Residency = map[string][]string{}
		for _, place := range []string{"EU", "GB", "SA"} {
			if rapid.Bool().Draw(rt, "a rule") {
				s.Residency[place] = slices.Sorted(slices.Values(all[:rapid.IntRange(1, len(all)).Draw(rt, "allowed")]))
			}
		}
	}
	if rapid.Bool().Draw(rt, "https") {
		s.HTTPSRecord = &statestore.HTTPSRecord{ALPN: []string{"h2", "h3"}}
	}
	if rapid.Bool().Draw(rt, "srv") {
		s.SRV = &statestore.SRVRecord{Port: 443, Proto: "tcp"}
	}
	if rapid.Bool().Draw(rt, "an override") {
		s.Overrides = map[string]*statestore.ClusterOverride{all[0]: {TTL: &statestore.TTL{Normal: seconds(15), Changing: seconds(3)}}}
	}
	return s
}

// DrawRotation draws what a service's rotation may be.
func DrawRotation(rt *rapid.T, sp *statestore.Spec, name string, number uint64) statestore.Rotation {
	pool := func(of func(*statestore.Cluster) []netip.Addr) statestore.Pool {
		var all []statestore.Share
		for _, c := range sp.Ordered(name) {
			if e := of(sp.Clusters[c]); len(e) > 0 {
				all = append(all, statestore.Share{
					Cluster: c, Endpoints: e[:rapid.IntRange(1, len(e)).Draw(rt, "up")],
					Weight: rapid.SampledFrom([]int{0, 1, 1, 3, 10}).Draw(rt, "weight"),
					Spill:  rapid.SampledFrom([]int{0, 0, 0, 25, 100}).Draw(rt, "spill"),
				})
			}
		}
		if len(all) == 0 {
			return statestore.Pool{}
		}
		all = rapid.SliceOfNDistinct(rapid.SampledFrom(all), 1, len(all), func(s statestore.Share) string { return s.Cluster }).Draw(rt, "in rotation")
		slices.SortFunc(all, func(a, b statestore.Share) int {
			return slices.Index(sp.Ordered(name), a.Cluster) - slices.Index(sp.Ordered(name), b.Cluster)
		})
		if rapid.IntRange(0, 5).Draw(rt, "up at all") > 0 {
			return statestore.Pool{Shares: all}
		}
		mode := sp.Services[name].OnAllDown.Mode
		if mode != statestore.ServeLast && mode != statestore.ServeAll {
			all = nil
		}
		return statestore.Pool{Shares: all, AllDown: mode}
	}
	return statestore.Rotation{
		Number: number,
		V4:     pool(func(c *statestore.Cluster) []netip.Addr { return c.IPv4 }),
		V6:     pool(func(c *statestore.Cluster) []netip.Addr { return c.IPv6 }),
	}
}

// DrawAddr draws an address of a client: near the networks, and anywhere.
func DrawAddr(rt *rapid.T) netip.Addr {
	low := rapid.Uint16().Draw(rt, "low")
	switch rapid.IntRange(0, 5).Draw(rt, "where") {
	case 0:
		return netip.AddrFrom4([4]byte{rapid.Byte().Draw(rt, "high"), 0, byte(low >> 8), byte(low)})
	case 1, 2:
		return netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 6: byte(low >> 8 & 0xf), 7: byte(low), 15: 1})
	}
	return netip.AddrFrom4([4]byte{10, 0, byte(low >> 8 & 3), byte(low)})
}

// DrawQuery draws a question of a client for a name of a service.
func DrawQuery(rt *rapid.T, st *statestore.State) routing.Query {
	service := rapid.SampledFrom(slices.Sorted(maps.Keys(st.Spec.Services))).Draw(rt, "service")
	types := []uint16{routing.TypeA, routing.TypeA, routing.TypeAAAA}
	if st.Spec.Services[service].HTTPSRecord != nil {
		types = append(types, routing.TypeHTTPS)
	}
	q := routing.Query{
		Name:   service + "." + Zone,
		Type:   rapid.SampledFrom(types).Draw(rt, "type"),
		Client: DrawAddr(rt),
		Draw:   rapid.Uint64().Draw(rt, "draw"),
	}
	if rapid.Bool().Draw(rt, "ecs") {
		addr := DrawAddr(rt)
		q.Subnet = netip.PrefixFrom(addr, rapid.SampledFrom([]int{0, 16, 24, 25, 32, 48, 56}).Draw(rt, "bits"))
		if q.Subnet = q.Subnet.Masked(); !q.Subnet.IsValid() {
			q.Subnet = netip.PrefixFrom(addr, 24).Masked()
		}
	}
	return q
}
