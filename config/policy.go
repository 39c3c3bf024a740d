package config

import (
	"slices"
	"strings"

	"github.com/quorate/quorate/statestore"
)

// policyKeys are the keys that not every type of policy has. The others go with any.
var policyKeys = map[string][]string{"failover": {"order"}, "weighted": {"weights", "sticky"}, "geo": {"map", "sticky"}, "latency": {"sticky"}}

func (b *specBuilder) policy(s *statestore.Service, v *value, candidates []string) {
	p := v.child("policy")
	if !p.fine() {
		return
	}
	kind := p.child("type")
	if !kind.fine() {
		return
	}
	typ := get[string](p, "type")
	s.Policy.Type = statestore.PolicyType(typ)
	if a := statestore.Affinity(get[string](p, "affinity")); a != "none" {
		s.Policy.Affinity = a
	}
	for _, k := range []string{"order", "weights", "map", "sticky"} {
		if p.set(k) && !slices.Contains(policyKeys[typ], k) && (k != "sticky" || get[string](p, k) == clientSubnet) {
			b.c.errorf(p.keyAt[k], join(p.path, k), "not allowed with type %q (allowed: %s)", typ, strings.Join(slices.Concat(policyKeys[typ], []string{"affinity", "spillover"}), ", "))
			p.child(k).bad = true
		}
	}
	switch s.Policy.Type {
	case statestore.Failover:
		b.order(s, p, candidates)
	case statestore.Weighted:
		b.weights(s, p, candidates)
	case statestore.Geo:
		b.regionMap(s, p, candidates)
	}
	b.spillover(s, p, candidates)
	s.Policy.Sticky = get[string](p, "sticky") == clientSubnet
}

// clientSubnet is the only thing that can be sticky.
const clientSubnet = "client_subnet"

// regionMap fills in which regions take which places. A place has one region.
func (b *specBuilder) regionMap(s *statestore.Service, p *value, candidates []string) {
	m := p.child("map")
	if !p.set("map") || !m.fine() {
		return
	}
	regions := map[string]bool{}
	for _, c := range candidates {
		regions[b.spec.Clusters[c].Region] = true
	}
	if all := b.root.child("regions"); all != nil {
		for _, r := range all.keys {
			regions[r] = true
		}
	}
	taken := map[string]string{} // place -> region
	s.Policy.Map = map[string][]string{}
	for _, region := range slices.Sorted(slices.Values(m.keys)) {
		places := m.fields[region]
		nearest := places.s.kind == scalarKind
		switch {
		case !places.fine():
			continue
		case region == "default" && !nearest:
			b.errorf(places, "must be nearest, which is what happens to all others, is a list")
			continue
		case region == "default":
			continue
		case nearest:
			b.errorf(places, "must be a list of places, is nearest; only default may say that")
			continue
		case !regions[region] && len(candidates) > 0:
			known := keysOf(regions)
			b.keyErrorf(m, region, "must be the region of a candidate, or one of regions, is %s; %s", quote(region), suggest(region, firstNames(known)))
			continue
		}
		b.once(places)
		for _, item := range places.items {
			place, ok := valueOf[string](item)
			if !ok || !item.fine() {
				continue
			}
			if other, twice := taken[place]; twice {
				b.errorf(item, "must be in one region, is %s in %s and %s", place, other, region)
				continue
			}
			taken[place] = region
			s.Policy.Map[region] = append(s.Policy.Map[region], place)
		}
	}
	if len(s.Policy.Map) == 0 {
		s.Policy.Map = nil
	}
}

func (b *specBuilder) spillover(s *statestore.Service, p *value, candidates []string) {
	v := p.child("spillover")
	if !p.set("spillover") || !v.fine() {
		return
	}
	s.Policy.Spillover = &statestore.Spillover{Order: list[string](v, "order"), At: get[float64](v, "at")}
	b.once(v.child("order"))
	if len(candidates) > 0 {
		for _, item := range itemsOf(v.child("order")) {
			b.candidate(item, candidates)
		}
	}
	if s.Policy.Type == statestore.Weighted && s.Policy.Affinity == statestore.NoAffinity && !p.child("affinity").bad {
		b.c.errorf(p.keyAt["spillover"], v.path, "must stand with affinity under type weighted, where else no cluster comes after another, is without")
	}
	switch to := v.child("to"); {
	case !v.set("to"):
	case v.set("order"):
		b.c.errorf(v.keyAt["to"], join(v.path, "to"), "must not stand next to order, is a second declaration")
	case to.fine() && s.Policy.Type == statestore.Failover:
		b.errorf(to, "must not be set with type failover, whose order says which is next, is %s", to.text)
	}
}

func (b *specBuilder) order(s *statestore.Service, p *value, candidates []string) {
	if !p.set("order") {
		b.c.errorf(p.at, join(p.path, "order"), "must list the candidates, best first, is missing; candidates are %s", strings.Join(candidates, ", "))
		return
	}
	order := p.child("order")
	if !order.fine() {
		return
	}
	b.once(order)
	s.Policy.Order = list[string](p, "order")
	if len(candidates) == 0 {
		return
	}
	for _, item := range order.items {
		b.candidate(item, candidates)
	}
	var missing []string
	for _, c := range candidates {
		if !slices.Contains(s.Policy.Order, c) {
			missing = append(missing, c)
		}
	}
	if len(missing) > 0 && !anyBad(order) {
		b.errorf(order, "must list all candidates, is without %s", strings.Join(missing, ", "))
	}
}

// candidate reports a name that is no candidate of the service.
func (b *specBuilder) candidate(item *value, candidates []string) {
	n, ok := item.v.(string)
	if !ok || !item.fine() || slices.Contains(candidates, n) {
		return
	}
	if b.known("clusters", n) {
		b.errorf(item, "must be a candidate of the service (%s), is %s, which clusters leaves out", strings.Join(candidates, ", "), quote(n))
		return
	}
	b.errorf(item, "must be a candidate of the service (%s), is %s", strings.Join(candidates, ", "), quote(n))
}

// weights fills in the weight of every candidate, or leaves them to capacities. A
// partial declaration is refused, since what it means for the others is a guess.
func (b *specBuilder) weights(s *statestore.Service, p *value, candidates []string) {
	if !p.set("weights") {
		b.capacities(p, candidates)
		return
	}
	w := p.child("weights")
	if !w.fine() || len(candidates) == 0 {
		return
	}
	rest, hasRest := 0, w.set("default")
	if hasRest {
		rest = get[int](w, "default")
	}
	s.Policy.Weights = map[string]int{}
	var missing []string
	for _, c := range candidates {
		switch {
		case w.set(c):
			s.Policy.Weights[c] = get[int](w, c)
		case hasRest:
			s.Policy.Weights[c] = rest
		default:
			missing = append(missing, c)
		}
	}
	wrong := false
	for _, k := range w.keys {
		if k != "default" && !slices.Contains(candidates, k) {
			wrong = true
			b.keyErrorf(w, k, "must be a candidate of the service (%s) or default, is %s", strings.Join(candidates, ", "), quote(k))
		}
		wrong = wrong || w.child(k).bad
	}
	switch {
	case wrong:
	case len(missing) > 0:
		b.errorf(w, "must give all candidates a weight or have default, is without %s", strings.Join(missing, ", "))
	case !slices.ContainsFunc(candidates, func(c string) bool { return s.Policy.Weights[c] > 0 }):
		b.errorf(w, "must give a candidate a weight above 0, is 0 for all")
	}
}

// capacities checks what counts without weights: the capacity of each candidate, as
// reported or declared, or nobody's.
func (b *specBuilder) capacities(p *value, candidates []string) {
	var without []string
	for _, c := range candidates {
		if b.spec.Clusters[c].Capacity == 0 {
			without = append(without, c)
		}
	}
	if len(without) > 0 && len(without) < len(candidates) {
		b.c.errorf(p.at, p.path, "must have a capacity in all candidate clusters, in none, or weights, is without in %s", strings.Join(without, ", "))
	}
}
