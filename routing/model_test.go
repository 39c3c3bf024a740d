package routing_test

import (
	"math"
	"net/netip"
	"slices"
	"strings"

	"github.com/quorate/quorate/routing"
	"github.com/quorate/quorate/routing/routingtest"
	"github.com/quorate/quorate/statestore"
)

// model is a second, naive answer to who gets what: it walks lists, compares
// distances in floating point and counts every way a draw may go. It shares no code
// with routing.
type model struct{ w routingtest.World }

// whereabouts is what the model knows of a client.
type whereabouts struct {
	cluster, region, country, continent string
	lat, lon                            float64
	located                             bool
}

func (m model) locate(a netip.Addr) whereabouts {
	var c whereabouts
	for _, e := range m.w.Entries {
		if e.Prefix.Contains(a) {
			c.country, c.continent, c.lat, c.lon, c.located = e.Place.Country, e.Place.Continent, e.Place.Latitude, e.Place.Longitude, e.Place.Located
		}
	}
	sp := m.w.State.Spec
	for name, cl := range sp.Clusters {
		for _, p := range cl.CIDRs {
			if p.Contains(a) {
				c.cluster, c.region, c.located = name, cl.Region, false
			}
		}
	}
	if c.cluster == "" {
		for name, r := range sp.Regions {
			if c.country != "" && slices.Contains(r.Countries, c.country) {
				c.region = name
			}
		}
		if c.region == "" && c.located {
			best := math.Inf(1)
			for name, r := range sp.Regions {
				if r.Coordinates != nil {
					if d := apart(c.lat, c.lon, *r.Coordinates); d < best {
						best, c.region = d, name
					}
				}
			}
		}
	}
	if r := sp.Regions[c.region]; !c.located && r != nil && r.Coordinates != nil {
		c.lat, c.lon, c.located = r.Coordinates.Latitude, r.Coordinates.Longitude, true
	}
	return c
}

// apart is the great circle between a place and coordinates.
func apart(lat, lon float64, c statestore.Coordinates) float64 {
	const d = math.Pi / 180
	a, b, l := lat*d, c.Latitude*d, (lon-c.Longitude)*d
	h := math.Pow(math.Sin((a-b)/2), 2) + math.Cos(a)*math.Cos(b)*math.Pow(math.Sin(l/2), 2)
	return 2 * math.Asin(math.Sqrt(h))
}

// nearness orders regions for a client: lower is nearer.
func (m model) nearness(c whereabouts, region string) float64 {
	r := m.w.State.Spec.Regions[region]
	switch {
	case region == c.region && region != "":
		return -1
	case !c.located:
		return 0
	case r == nil || r.Coordinates == nil:
		return 100
	}
	return apart(c.lat, c.lon, *r.Coordinates)
}

var continentCodes = []string{"AF", "AN", "AS", "EU", "NA", "OC", "SA"}

func (c whereabouts) in(place string) bool {
	if slices.Contains(continentCodes, place) {
		return place == c.continent
	}
	return place == c.country
}

func (c whereabouts) allowed(s *statestore.Service, cluster string) bool {
	for place, only := range s.Residency {
		if c.in(place) && !slices.Contains(only, cluster) {
			return false
		}
	}
	return true
}

// level orders the candidates for a client: lower first.
func (m model) level(s *statestore.Service, c whereabouts, cluster string, typ uint16, spilled bool) []float64 {
	cl := m.w.State.Spec.Clusters[cluster]
	tier := 2.0
	if cl.Region == c.region {
		tier = 1
	}
	if c.cluster == cluster {
		tier = 0
	}
	switch s.Policy.Affinity {
	case statestore.NoAffinity:
		tier = 0
	case statestore.RemoteAffinity:
		tier = 2 - tier
	}
	if o := s.Policy.Spillover; spilled && o != nil && len(o.Order) > 0 {
		return []float64{tier, float64(slices.Index(o.Order, cluster))}
	}
	switch s.Policy.Type {
	case statestore.Failover:
		return []float64{tier, float64(slices.Index(s.Policy.Order, cluster))}
	case statestore.Geo:
		for i, continent := range []bool{false, true} {
			for _, place := range s.Policy.Map[cl.Region] {
				if slices.Contains(continentCodes, place) == continent && c.in(place) {
					return []float64{tier, float64(i)}
				}
			}
		}
		return []float64{tier, 2, m.nearness(c, cl.Region)}
	case statestore.Latency:
		best := statestore.Duration(math.MaxInt64)
		for _, a := range addrsOf(cl, typ) {
			if d, ok := m.w.State.Latency[c.region][a]; ok {
				best = min(best, d)
			}
		}
		if best < math.MaxInt64 {
			return []float64{tier, float64(best)}
		}
		return []float64{tier, math.Inf(1), m.nearness(c, cl.Region)}
	}
	return []float64{tier}
}

func addrsOf(cl *statestore.Cluster, typ uint16) []netip.Addr {
	switch typ {
	case routing.TypeA:
		return cl.IPv4
	case routing.TypeAAAA:
		return cl.IPv6
	}
	return slices.Concat(cl.IPv4, cl.IPv6)
}

// expectation is what the model says a client gets: a kind and, over all draws, how
// often each cluster is named.
type expectation struct {
	kind    routing.Kind
	named   map[string]float64 // "": the sorry address
	allowed []string           // by residency
	offer   map[string][]netip.Addr
	first   []string // those of the lowest rank
}

func (m model) expect(service string, q routing.Query) expectation {
	a := q.Client
	if q.Subnet.IsValid() && q.Subnet.Bits() > 0 {
		a = q.Subnet.Addr()
	}
	c := m.locate(a)
	st := m.w.State
	s, rot := st.Spec.Services[service], st.Services[service].Rotation
	e := expectation{named: map[string]float64{}, offer: map[string][]netip.Addr{}}
	pool := rot.V4
	switch q.Type {
	case routing.TypeAAAA:
		pool = rot.V6
	case routing.TypeHTTPS:
		pool = united(rot.V4, rot.V6)
	}
	var have []string
	for _, name := range st.Spec.Candidates(service) {
		if len(addrsOf(st.Spec.Clusters[name], q.Type)) > 0 {
			have = append(have, name)
			if c.allowed(s, name) {
				e.allowed = append(e.allowed, name)
			}
		}
	}
	if len(have) == 0 {
		e.kind = routing.NoData
		return e
	}
	mode := pool.AllDown
	var shares []statestore.Share
	for _, sh := range pool.Shares {
		if slices.Contains(e.allowed, sh.Cluster) {
			shares = append(shares, sh)
		}
	}
	if mode != statestore.NoData && mode != statestore.ServFail && mode != statestore.Sorry && len(shares) == 0 {
		mode = s.OnAllDown.Mode
		for _, name := range e.allowed {
			shares = append(shares, statestore.Share{Cluster: name, Weight: s.Policy.Weights[name], Endpoints: addrsOf(st.Spec.Clusters[name], q.Type)})
		}
	}
	switch {
	case mode == statestore.NoData:
		e.kind = routing.NoData
		return e
	case mode == statestore.ServFail:
		e.kind = routing.ServFail
		return e
	case mode == statestore.Sorry && (len(pool.Shares) == 0 || !slices.ContainsFunc(pool.Shares, func(sh statestore.Share) bool { return slices.Contains(e.allowed, sh.Cluster) })):
		e.kind = routing.NoData
		for _, sorry := range s.OnAllDown.Sorry {
			if q.Type == routing.TypeHTTPS || sorry.Is4() == (q.Type == routing.TypeA) {
				e.kind, e.named[""], e.offer[""] = routing.NoError, 100, []netip.Addr{sorry}
			}
		}
		return e
	case len(shares) == 0:
		e.kind = routing.NoData
		return e
	}
	e.kind = routing.NoError
	if slices.ContainsFunc(shares, func(sh statestore.Share) bool { return sh.Weight > 0 }) {
		shares = slices.DeleteFunc(slices.Clone(shares), func(sh statestore.Share) bool { return sh.Weight == 0 }) // beside a weight, none is nothing
	}
	for _, sh := range shares {
		e.offer[sh.Cluster] = sh.Endpoints
	}
	by := func(spilled bool) [][]statestore.Share {
		return levels(shares, func(cluster string) []float64 { return m.level(s, c, cluster, q.Type, spilled) })
	}
	// The best of all candidates is out where no share is as good.
	best := slices.MinFunc(e.allowed, func(a, b string) int {
		return slices.Compare(m.level(s, c, a, q.Type, false), m.level(s, c, b, q.Type, false))
	})
	out := slices.Compare(m.level(s, c, by(false)[0][0].Cluster, q.Type, false), m.level(s, c, best, q.Type, false)) > 0
	n := s.Answer.Clusters
	if s.Policy.Type == statestore.Failover || q.Type == routing.TypeHTTPS {
		n = 1
	}
	for _, sh := range by(out)[0] {
		e.first = append(e.first, sh.Cluster)
	}
	spread(by(out), by(true), n, nil, nil, 100, e.named)
	return e
}

// united is what of a rotation HTTPS names.
func united(v4, v6 statestore.Pool) statestore.Pool {
	if up := v4.AllDown == "" && len(v4.Shares) > 0; up != (v6.AllDown == "" && len(v6.Shares) > 0) {
		if up {
			return v4
		}
		return v6
	}
	out := statestore.Pool{AllDown: v4.AllDown}
	if out.AllDown == "" {
		out.AllDown = v6.AllDown
	}
	for _, sh := range slices.Concat(v4.Shares, v6.Shares) {
		if i := slices.IndexFunc(out.Shares, func(o statestore.Share) bool { return o.Cluster == sh.Cluster }); i >= 0 {
			out.Shares[i].Endpoints = slices.Concat(out.Shares[i].Endpoints, sh.Endpoints)
		} else {
			out.Shares = append(out.Shares, sh)
		}
	}
	return out
}

// levels groups shares that are as good, best first.
func levels(shares []statestore.Share, of func(string) []float64) [][]statestore.Share {
	rest := slices.Clone(shares)
	slices.SortFunc(rest, func(a, b statestore.Share) int {
		if c := slices.Compare(of(a.Cluster), of(b.Cluster)); c != 0 {
			return c
		}
		return strings.Compare(a.Cluster, b.Cluster)
	})
	var out [][]statestore.Share
	for len(rest) > 0 {
		n := 1
		for n < len(rest) && slices.Equal(of(rest[n].Cluster), of(rest[0].Cluster)) {
			n++
		}
		out, rest = append(out, slices.Clone(rest[:n])), rest[n:]
	}
	return out
}

// spread adds up who is named, over all ways to draw n clusters.
func spread(now, then [][]statestore.Share, n int, named, spilled []string, part float64, to map[string]float64) {
	left := func(levels [][]statestore.Share, but ...string) []statestore.Share {
		for _, level := range levels {
			var some []statestore.Share
			for _, sh := range level {
				if !slices.Contains(slices.Concat(named, spilled, but), sh.Cluster) {
					some = append(some, sh)
				}
			}
			if len(some) > 0 {
				return some
			}
		}
		return nil
	}
	some := left(now)
	if len(named) == n || len(some) == 0 {
		for _, c := range spilled {
			if len(named) < n {
				named = append(slices.Clone(named), c)
			}
		}
		for _, c := range named {
			to[c] += part
		}
		return
	}
	total := 0.0
	for _, sh := range some {
		total += float64(sh.Weight)
	}
	for _, sh := range some {
		p := part / float64(len(some))
		if total > 0 {
			p = part * float64(sh.Weight) / total
		}
		goes := 0.0
		if len(named) == 0 && len(left(then, sh.Cluster)) > 0 {
			goes = float64(sh.Spill) / 100
		}
		if goes > 0 {
			spread(then, then, n, named, append(slices.Clone(spilled), sh.Cluster), p*goes, to)
		}
		if goes < 1 {
			spread(now, then, n, append(slices.Clone(named), sh.Cluster), spilled, p*(1-goes), to)
		}
	}
}
