package routing

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/quorate/quorate/routing/geo"
	"github.com/quorate/quorate/statestore"
)

// places is what clients are made from.
type places struct {
	geo      *geo.Index
	regions  map[string]*statestore.Region
	clusters []clusterPlace // sorted by name
}

type clusterPlace struct {
	name, region string
	cidrs        []netip.Prefix
}

func placesOf(sp *statestore.Spec, index *geo.Index) places {
	p := places{geo: index, regions: sp.Regions}
	for _, name := range sortedKeys(sp.Clusters) {
		if c := sp.Clusters[name]; c != nil {
			p.clusters = append(p.clusters, clusterPlace{name, c.Region, c.CIDRs})
		}
	}
	return p
}

func (p places) same(o places) bool {
	return p.geo == o.geo && len(p.regions) == len(o.regions) && !slices.ContainsFunc(sortedKeys(p.regions), func(name string) bool {
		r, ok := o.regions[name]
		return !ok || !sameRegion(p.regions[name], r)
	}) && slices.EqualFunc(p.clusters, o.clusters, func(a, b clusterPlace) bool {
		return a.name == b.name && a.region == b.region && slices.Equal(a.cidrs, b.cidrs)
	})
}

func sameRegion(a, b *statestore.Region) bool {
	if a == nil || b == nil {
		return a == b
	}
	if (a.Coordinates == nil) != (b.Coordinates == nil) || (a.Coordinates != nil && *a.Coordinates != *b.Coordinates) {
		return false
	}
	return slices.Equal(a.Countries, b.Countries)
}

// makeClients cuts all addresses up by the clusters' CIDRs and, beside them, by GeoIP.
func makeClients(from places) *clients {
	c := &clients{from: from, inside: map[string]uint32{}, sample: map[string]netip.Prefix{}}
	c.regions = sortedKeys(from.regions)
	for _, cl := range from.clusters {
		c.regions = append(c.regions, cl.region)
	}
	slices.Sort(c.regions)
	c.regions = slices.DeleteFunc(slices.Compact(c.regions), func(r string) bool { return r == "" })
	m := newMapper(c)
	m.class(nobody, nowhere)
	for _, r := range c.regions {
		c.inside[r] = m.number(class{region: r, near: m.near(r, position{}, false)})
	}
	m.cut()
	c.spans = makeSpans(m.spans)
	return c
}

const (
	nobody  = -1 // no cluster
	nowhere = -1 // no place
)

// mapper makes the classes and networks of clients.
type mapper struct {
	out       *clients
	places    []geo.Place
	countries map[string]string // region by country
	positions []position        // by region
	placed    []bool
	numbers   map[class]uint32
	known     map[[2]int]uint32 // classes by cluster and place
	spans     []span            // in no order
}

func newMapper(c *clients) *mapper {
	m := &mapper{
		out: c, places: c.from.geo.Places(), countries: map[string]string{},
		numbers: map[class]uint32{}, known: map[[2]int]uint32{},
	}
	for _, name := range c.regions {
		r := c.from.regions[name]
		at, ok := regionPosition(r)
		m.positions, m.placed = append(m.positions, at), append(m.placed, ok)
		if r == nil {
			continue
		}
		for _, country := range r.Countries {
			if _, taken := m.countries[country]; !taken { // plan refuses two regions of one country
				m.countries[country] = name
			}
		}
	}
	return m
}

func (m *mapper) number(c class) uint32 {
	n, ok := m.numbers[c]
	if !ok {
		n = uint32(len(m.out.classes))
		m.numbers[c] = n
		m.out.classes = append(m.out.classes, c)
	}
	return n
}

// class returns the number of the class of clients in a cluster's CIDRs, at a place.
func (m *mapper) class(cluster, place int) uint32 {
	key := [2]int{cluster, place}
	if n, ok := m.known[key]; ok {
		return n
	}
	var c class
	var at position
	var located bool
	if place != nowhere {
		p := m.places[place]
		c.country, c.continent = p.Country, p.Continent
		if p.Located {
			at, located = positionOf(p.Latitude, p.Longitude), true
		}
	}
	switch {
	case cluster != nobody:
		c.cluster, c.region = m.out.from.clusters[cluster].name, m.out.from.clusters[cluster].region
		located = false // it is where its cluster is, whoever the network is registered with
	case m.countries[c.country] != "":
		c.region = m.countries[c.country]
	case located:
		c.region = m.nearest(at)
	}
	c.near = m.near(c.region, at, located)
	n := m.number(c)
	m.known[key] = n
	return n
}

// nearest returns the region whose coordinates are nearest; of equal ones the first.
func (m *mapper) nearest(at position) string {
	best := -1
	for i, ok := range m.placed {
		if ok && (best < 0 || at.apart(m.positions[i]) < at.apart(m.positions[best])) {
			best = i
		}
	}
	if best < 0 {
		return ""
	}
	return m.out.regions[best]
}

// near ranks the regions for a client that counts as in one of them. Where the
// client itself cannot be placed, its region's coordinates are its own.
func (m *mapper) near(region string, at position, located bool) string {
	own, in := slices.BinarySearch(m.out.regions, region)
	if !located && in && m.placed[own] {
		at, located = m.positions[own], true
	}
	var b strings.Builder
	for i := range m.out.regions {
		b.WriteByte(byte(min(m.nearer(i, own, in, at, located), 255)))
	}
	return b.String()
}

// nearer counts the regions that are nearer than number i.
func (m *mapper) nearer(i, own int, in bool, at position, located bool) int {
	switch {
	case in && i == own:
		return 0
	case !located:
		return 1
	case !m.placed[i]:
		return 1 + len(m.placed)
	}
	n := 1
	for j := range m.positions {
		if m.placed[j] && j != i && (!in || j != own) && at.apart(m.positions[j]) < at.apart(m.positions[i]) {
			n++
		}
	}
	return n
}
