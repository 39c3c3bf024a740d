package routing

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/quorate/quorate/routing/geo"
	"github.com/quorate/quorate/statestore"
)

// view is how a service tells its clients apart: the classes, gathered into groups
// that its policy, affinity and residency treat alike. It does not depend on health,
// and services that ask for the same share it.
type view struct {
	candidates []string // in policy order
	groups     []uint32 // by class; nil: every client is of the one group
	list       []group
}

// group is how clients of some classes see the candidates.
type group struct {
	class   uint32   // one of them
	region  string   // for latency
	rules   []string // the places of the residency rules that hold, sorted
	allowed []bool   // by candidate; nil: all
	tiers   []uint8  // affinity, by candidate; nil: none
	ranks   []int64  // of the policy, by candidate; lowest first. Those of latency come from the measurements
}

// unmeasured is above every round trip: an endpoint that nobody in the region has
// measured comes after those that somebody has, nearest first.
const unmeasured = math.MaxInt64 >> 1

// groupOf returns the number of the group of a class.
func (v *view) groupOf(class uint32) uint32 {
	if v.groups == nil {
		return 0
	}
	return v.groups[class]
}

// candidate returns the number of a candidate, or -1.
func (v *view) candidate(cluster string) int { return slices.Index(v.candidates, cluster) }

// allows reports whether residency lets the group have a candidate; -1 is a cluster
// that is none any more.
func (g *group) allows(candidate int) bool {
	switch {
	case g.allowed == nil:
		return true
	case candidate < 0:
		return false
	}
	return g.allowed[candidate]
}

// viewer makes the views of one spec's services, each once.
type viewer struct {
	spec    *statestore.Spec
	clients *clients
	before  map[string]*view // those of an earlier table with the same clients
	made    map[string]*view
}

// of returns the view of a service. A stateful one answers everybody alike.
func (vr *viewer) of(name string) *view {
	key := vr.key(name)
	if v := vr.made[key]; v != nil {
		return v
	}
	v := vr.before[key]
	if v == nil {
		v = vr.make(name)
	}
	vr.made[key] = v
	return v
}

// key names all that a view is made from, beside the clients.
func (vr *viewer) key(name string) string {
	s := vr.spec.Services[name]
	var b strings.Builder
	fmt.Fprintf(&b, "%s\x00%s\x00%q\x00", s.Policy.Type, s.Policy.Affinity, s.Policy.Order)
	for _, c := range vr.spec.Candidates(name) {
		fmt.Fprintf(&b, "%s\x01%s\x00", c, vr.spec.Clusters[c].Region)
	}
	for _, m := range []map[string][]string{s.Policy.Map, s.Residency} {
		for _, k := range sortedKeys(m) {
			fmt.Fprintf(&b, "%s %q\x00", k, m[k])
		}
		b.WriteByte(2)
	}
	return b.String()
}

func (vr *viewer) make(name string) *view {
	s := vr.spec.Services[name]
	v := &view{candidates: vr.spec.Ordered(name)}
	if !s.ByClient() {
		v.list = []group{vr.group(s, v.candidates, 0)}
		return v
	}
	v.groups = make([]uint32, len(vr.clients.classes))
	numbers := map[string]uint32{}
	for i := range vr.clients.classes {
		g := vr.group(s, v.candidates, uint32(i))
		key := g.key()
		n, ok := numbers[key]
		if !ok {
			n = uint32(len(v.list))
			numbers[key] = n
			v.list = append(v.list, g)
		}
		v.groups[i] = n
	}
	if len(v.list) == 1 {
		v.groups = nil
	}
	return v
}

// place is the position in an order; what is not in it comes after all that is.
func place(order []string, cluster string) int {
	if i := slices.Index(order, cluster); i >= 0 {
		return i
	}
	return len(order)
}

func (vr *viewer) group(s *statestore.Service, candidates []string, number uint32) group {
	c := vr.clients.classes[number]
	g := group{class: number}
	if s.Policy.Type == statestore.Latency {
		g.region = c.region
	}
	g.reside(s.Residency, c, candidates)
	if s.Policy.Affinity != statestore.NoAffinity && s.Stateful == nil {
		g.tiers = make([]uint8, len(candidates))
	}
	g.ranks = make([]int64, len(candidates))
	for i, name := range candidates {
		region := vr.spec.Clusters[name].Region
		if g.tiers != nil {
			g.tiers[i] = tier(s.Policy.Affinity, c, name, region)
		}
		switch s.Policy.Type {
		case statestore.Failover:
			g.ranks[i] = int64(place(s.Policy.Order, name))
		case statestore.Geo:
			g.ranks[i] = vr.geoRank(s.Policy.Map, c, region)
		case statestore.Latency:
			g.ranks[i] = unmeasured + vr.nearness(c, region)
		}
	}
	return g
}

// reside narrows the candidates to those that every rule of the client's places
// allows.
func (g *group) reside(rules map[string][]string, c class, candidates []string) {
	for _, place := range sortedKeys(rules) {
		if !c.in(place) {
			continue
		}
		g.rules = append(g.rules, place)
		if g.allowed == nil {
			g.allowed = make([]bool, len(candidates))
			for i := range g.allowed {
				g.allowed[i] = true
			}
		}
		for i, name := range candidates {
			g.allowed[i] = g.allowed[i] && slices.Contains(rules[place], name)
		}
	}
}

// tier is the affinity's rank: the client's own cluster, those of its region, others.
func tier(a statestore.Affinity, c class, cluster, region string) uint8 {
	const own, regional, other = 0, 1, 2
	t := uint8(other)
	switch {
	case c.cluster == cluster:
		t = own
	case c.region != "" && c.region == region:
		t = regional
	}
	if a == statestore.RemoteAffinity {
		return other - t
	}
	return t
}

// The ranks of policy geo. Below the regions that the map gives a country or a
// continent to are the others by nearness.
const (
	ofCountry   = 0
	ofContinent = 1
	byNearness  = 2
)

func (vr *viewer) geoRank(m map[string][]string, c class, region string) int64 {
	rank := byNearness + vr.nearness(c, region)
	for _, place := range m[region] {
		switch {
		case !c.in(place):
		case geo.IsContinent(place):
			rank = min(rank, ofContinent)
		default:
			rank = ofCountry
		}
	}
	return rank
}

// nearness is how many regions are nearer to the client.
func (vr *viewer) nearness(c class, region string) int64 {
	if i, ok := slices.BinarySearch(vr.clients.regions, region); ok {
		return int64(c.near[i])
	}
	return math.MaxUint8 // a cluster without a region
}

// key is equal for groups that are treated alike. Nearness counts by its order only,
// so that what lies between regions without candidates makes no group.
func (g *group) key() string {
	sorted := slices.Clone(g.ranks)
	slices.Sort(sorted)
	sorted = slices.Compact(sorted)
	b := fmt.Appendf(nil, "%q%q%v", g.region, g.rules, g.tiers) // the rules say who is allowed
	for _, r := range g.ranks {
		at, _ := slices.BinarySearch(sorted, r)
		b = binary.BigEndian.AppendUint16(b, uint16(at))
		if r < byNearness {
			b = append(b, 'm') // by the map: the trace says so
		}
	}
	return string(b)
}
