package routing

import (
	"cmp"
	"slices"
	"strings"
)

// ZoneSet is what a zone has of one type at one name.
type ZoneSet struct {
	Owner   string
	Type    uint16
	Set     *RRset // nil: a service decides, by client
	Service string // whose name it is; empty: none's
	Derived bool   // made from the members and the zone's own keys
}

// Sets returns what a zone of the table has, in canonical order of the names (RFC 4034
// 6.1), then by type: glue too, and the DS of zones of ours below it. It is nil for a
// zone that the table has not.
func (t *Table) Sets(zone string) []ZoneSet {
	number, ok := slices.BinarySearchFunc(t.layout.zones, Canonical(zone), func(z zoneLayout, n string) int { return strings.Compare(z.name, n) })
	if !ok {
		return nil
	}
	type keyed struct {
		key string
		set ZoneSet
	}
	var list []keyed
	for _, n := range t.layout.names {
		if n.above != nil && n.above.zone == number {
			n = n.above
		}
		if n.zone != number {
			continue
		}
		for _, s := range t.setsOf(n) {
			list = append(list, keyed{sortKey(n.name), s})
		}
	}
	slices.SortFunc(list, func(a, b keyed) int { return cmp.Or(strings.Compare(a.key, b.key), byType(a.set.Type, b.set.Type)) })
	sets := make([]ZoneSet, len(list))
	for i, k := range list {
		sets[i] = k.set
	}
	return sets
}

// byType orders types as people read a zone: SOA first, then by number.
func byType(a, b uint16) int {
	first := func(typ uint16) int {
		if typ == TypeSOA {
			return 0
		}
		return int(typ)
	}
	return cmp.Compare(first(a), first(b))
}

func (t *Table) setsOf(n *node) []ZoneSet {
	var sets []ZoneSet
	if n.apex {
		z := t.Zones[n.zone]
		sets = append(sets, ZoneSet{Owner: n.name, Type: TypeSOA, Set: z.SOA, Derived: true})
		if z.NS != nil {
			sets = append(sets, ZoneSet{Owner: n.name, Type: TypeNS, Set: z.NS, Derived: true})
		}
	}
	for _, s := range n.sets {
		sets = append(sets, ZoneSet{Owner: n.name, Type: s.Type, Set: s, Derived: n.derived && (s.Type == TypeA || s.Type == TypeAAAA)})
	}
	if n.service != noService {
		s := t.services.at(n.service)
		for _, typ := range []uint16{TypeA, TypeAAAA, TypeHTTPS} {
			if s.routes(typ) && s.pool(typ).answers() {
				sets = append(sets, ZoneSet{Owner: n.name, Type: typ, Service: s.name})
			}
		}
	}
	if n.srv != noService {
		if s := t.services.at(n.srv); s.srv != nil {
			sets = append(sets, ZoneSet{Owner: n.name, Type: TypeSRV, Set: s.srv, Service: s.name})
		}
	}
	return sets
}
