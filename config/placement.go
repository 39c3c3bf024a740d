package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/quorate/quorate/statestore"
)

// placement fills in what says beside the policy which client gets what. The
// service's TTL and checks are there already.
func (b *specBuilder) placement(name string, s *statestore.Service, v *value, candidates []string) {
	b.residency(s, v, candidates)
	b.minHealthy(s, v, candidates)
	b.overrides(name, s, v, candidates)
	if r := v.child("https_record"); v.set("https_record") && r.fine() {
		b.once(r.child("alpn"))
		s.HTTPSRecord = &statestore.HTTPSRecord{ALPN: list[string](r, "alpn")}
	}
	if r := v.child("srv"); v.set("srv") && r.fine() {
		s.SRV = &statestore.SRVRecord{Port: get[int](r, "port"), Proto: get[string](r, "proto")}
		if len(name) > maxSRVKey {
			b.errorf(r, "must belong to a service whose key has at most %d characters, since _ comes before it in a label of 63, is %d", maxSRVKey, len(name))
		}
	}
	b.located(s, v, candidates)
}

// maxSRVKey leaves room for the underscore in a DNS label.
const maxSRVKey = 62

// selected reports whether cluster, which stands at item, is a candidate: unknown
// ones are errors, others have no effect until the selector picks them.
func (b *specBuilder) selected(at place, path, cluster string, candidates []string) (known, picked bool) {
	switch {
	case !b.known("clusters", cluster):
		b.c.errorf(at, path, "must be a cluster, is %s", b.unknown("clusters", cluster))
		return false, false
	case len(candidates) > 0 && !slices.Contains(candidates, cluster):
		b.c.warnf(at, path, "%s is no candidate of the service (%s), so this has no effect", cluster, strings.Join(candidates, ", "))
		return true, false
	}
	return true, true
}

func (b *specBuilder) residency(s *statestore.Service, v *value, candidates []string) {
	m := v.child("residency")
	if !m.fine() || !m.given {
		return
	}
	for _, place := range m.keys {
		only := m.fields[place]
		if !only.fine() {
			continue
		}
		b.once(only)
		var picked []string
		wrong := anyBad(only)
		for _, item := range only.items {
			n, ok := valueOf[string](item)
			if !ok || !item.fine() {
				continue
			}
			known, in := b.selected(item.at, item.path, n, candidates)
			wrong = wrong || !known
			if in {
				picked = append(picked, n)
			}
		}
		switch {
		case wrong || len(candidates) == 0:
		case len(picked) == 0:
			b.errorf(only, "must name a candidate of the service (%s), is without: nobody in %s would get an answer", strings.Join(candidates, ", "), place)
		case len(picked) == 1:
			b.c.warnf(only.at, only.path, "%s is the only one: when it is out, clients in %s get no other", picked[0], place)
		}
		if s.Residency == nil {
			s.Residency = map[string][]string{}
		}
		s.Residency[place] = picked
	}
}

// minHealthy compares with the endpoints there are; a hostname's are not known here.
func (b *specBuilder) minHealthy(s *statestore.Service, v *value, candidates []string) {
	at := v.child("min_healthy")
	n := get[int](v, "min_healthy")
	if !v.set("min_healthy") || !at.fine() || n == 1 {
		return
	}
	s.MinHealthy = n
	most := map[string]int{}
	for _, c := range candidates {
		cl := b.spec.Clusters[c]
		if cl.Hostname != "" {
			return
		}
		most["ipv4"] = max(most["ipv4"], len(cl.IPv4))
		most["ipv6"] = max(most["ipv6"], len(cl.IPv6))
	}
	if len(candidates) == 0 {
		return
	}
	if all := max(most["ipv4"], most["ipv6"]); n > all {
		b.errorf(at, "must be at most the endpoints of a family that a candidate has, %d, is %d", all, n)
		return
	}
	for _, family := range []string{"ipv4", "ipv6"} {
		if 0 < most[family] && most[family] < n {
			b.c.warnf(at.at, at.path, "no candidate has more than %d of %s: there all it has must be up", most[family], family)
		}
	}
}

func (b *specBuilder) overrides(name string, s *statestore.Service, v *value, candidates []string) {
	m := v.child("overrides")
	if !m.fine() || !m.given {
		return
	}
	sc := b.scopeOf(name, s, v)
	for _, cluster := range m.keys {
		o := m.fields[cluster]
		if !o.fine() {
			continue
		}
		_, picked := b.selected(m.keyAt[cluster], o.path, cluster, candidates)
		out := &statestore.ClusterOverride{Host: b.host(o.child("host"), sc)}
		if w, ok := valueOf[int](o.child("weight")); ok {
			out.Weight = &w
			if s.Policy.Type == statestore.Failover {
				b.c.errorf(o.keyAt["weight"], join(o.path, "weight"), "must not stand with policy failover, where order decides, is a weight")
			}
		}
		if o.set("ttl") {
			t := b.ttlOver(s.TTL, o.child("ttl"))
			out.TTL = &t
		}
		if host := o.child("host"); host.fine() && host.given && !slices.ContainsFunc(slices.Concat(s.Checks.All, s.Checks.Any), named) {
			b.c.warnf(host.at, host.path, "no check of the service sends a host, so this has no effect")
		}
		if !picked {
			continue
		}
		if s.Overrides == nil {
			s.Overrides = map[string]*statestore.ClusterOverride{}
		}
		s.Overrides[cluster] = out
	}
	b.allZero(s, m, candidates)
}

// named reports whether a check sends the name of a host.
func named(c *statestore.Check) bool {
	return c.HTTP != nil || c.HTTPS != nil || c.TLS != nil || c.GRPC != nil
}

// allZero refuses overrides that leave no candidate a weight.
func (b *specBuilder) allZero(s *statestore.Service, m *value, candidates []string) {
	for _, c := range candidates {
		weight := 1
		if s.Policy.Weights != nil {
			weight = s.Policy.Weights[c]
		}
		if o := s.Overrides[c]; o != nil && o.Weight != nil {
			weight = *o.Weight
		}
		if weight > 0 {
			return
		}
	}
	if len(candidates) > 0 && len(s.Overrides) > 0 && m.fine() {
		b.errorf(m, "must leave a candidate a weight above 0, is 0 for all")
	}
}

// located warns about a policy that asks where clients are of a spec that says too
// little about it.
func (b *specBuilder) located(s *statestore.Service, v *value, candidates []string) {
	p := v.child("policy")
	if s.Policy.Type == statestore.Geo {
		kind := p.child("type")
		var without []string
		for _, c := range candidates {
			region := b.spec.Clusters[c].Region
			if r := b.spec.Regions[region]; (r == nil || r.Coordinates == nil) && region != "" && !slices.Contains(without, region) {
				without = append(without, region)
			}
		}
		if len(without) > 0 && !b.badRegions() {
			slices.Sort(without)
			for i, region := range without {
				for _, known := range slices.Sorted(maps.Keys(b.spec.Regions)) {
					// Names of regions are much alike: us-east is no slip for sa-east.
					if b.spec.Regions[region] == nil && distance(region, known) == 1 {
						without[i] = fmt.Sprintf("%s (did you mean %s?)", region, known)
					}
				}
			}
			b.c.warnf(kind.at, kind.path, "no coordinates in regions for %s: nobody is near there", strings.Join(without, ", "))
		}
	}
	if affinity := p.child("affinity"); s.Policy.Affinity != statestore.NoAffinity && len(b.spec.Regions) == 0 &&
		!slices.ContainsFunc(candidates, func(c string) bool { return len(b.spec.Clusters[c].CIDRs) > 0 }) {
		b.c.warnf(affinity.at, affinity.path, "no candidate has cidrs and there are no regions: no client is local to anything")
	}
	if at := p.child("spillover").child("at"); s.Policy.Spillover != nil && s.Policy.Spillover.At > 0 &&
		!slices.ContainsFunc(candidates, func(c string) bool { cl := b.spec.Clusters[c]; return cl.CapacityFrom != nil && cl.Capacity > 0 }) {
		b.c.warnf(at.at, at.path, "no candidate has both capacity and capacity_from, so none says what it has left")
	}
}

// badRegions reports whether something about the regions was reported.
func (b *specBuilder) badRegions() bool {
	m := b.root.child("regions")
	if m == nil {
		return false
	}
	return m.bad || slices.ContainsFunc(m.keys, func(k string) bool {
		c := m.fields[k].child("coordinates")
		return m.fields[k].bad || c != nil && (c.bad || anyBad(c))
	})
}
