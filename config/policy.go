package config

import (
	"slices"
	"strings"

	"github.com/quorate/quorate/statestore"
)

// policyKeys are the keys that belong to one type of policy. The others go with any.
var policyKeys = map[string][]string{"failover": {"order"}, "weighted": {"weights", "sticky"}, "geo": {"map"}, "latency": nil}

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
	for _, k := range []string{"order", "weights", "map"} {
		if p.set(k) && !slices.Contains(policyKeys[typ], k) {
			allowed := "allowed: " + strings.Join(policyKeys[typ], ", ")
			if len(policyKeys[typ]) == 0 {
				allowed = "it has no keys of its own"
			}
			b.c.errorf(p.keyAt[k], join(p.path, k), "not allowed with type %q (%s)", typ, allowed)
			p.child(k).bad = true
		}
	}
	s.Policy.Type = statestore.PolicyType(typ)
	switch s.Policy.Type {
	case statestore.Failover:
		b.order(s, p, candidates)
	case statestore.Weighted:
		b.weights(s, p, candidates)
	default:
		// Noted by the walk; plan refuses it. Equal weights keep the spec whole.
		s.Policy.Type = statestore.Weighted
		s.Policy.Weights = equal(candidates)
	}
}

func equal(candidates []string) map[string]int {
	w := make(map[string]int, len(candidates))
	for _, c := range candidates {
		w[c] = 1
	}
	return w
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

// weights fills in the weight of every candidate: declared, else by capacity, else
// equal. A partial declaration is refused, since what it means for the others is a
// guess.
func (b *specBuilder) weights(s *statestore.Service, p *value, candidates []string) {
	if !p.set("weights") {
		s.Policy.Weights = b.capacities(p, candidates)
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

func (b *specBuilder) capacities(p *value, candidates []string) map[string]int {
	w := make(map[string]int, len(candidates))
	var without []string
	for _, c := range candidates {
		if w[c] = b.spec.Clusters[c].Capacity; w[c] == 0 {
			without = append(without, c)
		}
	}
	switch {
	case len(without) == len(candidates):
		return equal(candidates)
	case len(without) > 0:
		b.c.errorf(p.at, p.path, "must have a capacity in all candidate clusters, in none, or weights, is without in %s", strings.Join(without, ", "))
	}
	return w
}
