package routing

import (
	"slices"
	"sort"
	"strings"
)

// Types returns every type of record that a name can have for some client, sorted,
// and whether the name exists in our zones: an empty non-terminal does, without
// types, and what is below a cut or a DNAME does not. A wildcard is asked by its own
// name ("*.a.example."). At a cut these are the types of the upper zone, at an apex
// those of its own.
func (t *Table) Types(name string) (types []uint16, exists bool) {
	name = Canonical(name)
	n := t.layout.names[name]
	if n == nil || n.over != nil {
		return nil, false
	}
	return t.typesOf(n), true
}

// TypesIn is Types as one zone has them. It differs from Types at the apex of a zone
// below one of our zones, where the upper one has NS, and DS if the lower is signed.
func (t *Table) TypesIn(zone, name string) (types []uint16, exists bool) {
	zone, name = Canonical(zone), Canonical(name)
	n := t.layout.names[name]
	if n != nil && n.above != nil && t.layout.zones[n.above.zone].name == zone {
		n = n.above
	}
	if n == nil || n.over != nil || t.layout.zones[n.zone].name != zone {
		return nil, false
	}
	return t.typesOf(n), true
}

func (t *Table) typesOf(n *node) []uint16 {
	var types []uint16
	switch {
	case n.apex:
		types = append(types, TypeSOA)
		if t.layout.zones[n.zone].ns != nil {
			types = append(types, TypeNS)
		}
	case t.layout.child(n):
		types = append(types, TypeNS)
	}
	if n.service != noService {
		s := t.services.at(n.service)
		for _, typ := range []uint16{TypeA, TypeAAAA, TypeHTTPS} {
			if s.routes(typ) && s.pool(typ).answers() {
				types = append(types, typ)
			}
		}
	}
	if n.srv != noService && t.services.at(n.srv).srv != nil {
		types = append(types, TypeSRV)
	}
	for _, s := range n.sets {
		if n.cut == nil || s.Type == TypeNS || s.Type == TypeDS {
			types = append(types, s.Type)
		}
	}
	slices.Sort(types)
	return slices.Compact(types)
}

// child reports whether a node is what a zone has at the apex of a zone of ours below it.
func (l *layout) child(n *node) bool {
	at := l.names[n.name]
	return at != nil && at.above == n
}

// answers reports whether the pool has records for anybody.
func (p *pool) answers() bool {
	return p.family || slices.ContainsFunc(p.plans, func(pl plan) bool { return pl.kind == NoError })
}

// Neighbours returns the names around a name in the canonical order (RFC 4034 6.1) of
// its zone's authoritative names with data, cuts and wildcards among them: the last
// one that is not after it, which is itself where it has data, and the first one
// after it, which is the apex after the last. Both are empty out of our zones.
func (t *Table) Neighbours(name string) (before, after string) {
	name = Canonical(name)
	z := t.layout.zoneOf(name)
	if z < 0 {
		return "", ""
	}
	return t.layout.zones[z].around(name)
}

// NeighboursIn is Neighbours as one zone has them, for names at or below the apex of a
// zone of ours that is below it.
func (t *Table) NeighboursIn(zone, name string) (before, after string) {
	z := t.layout.zoneOf(Canonical(zone))
	if z < 0 || t.layout.zones[z].name != Canonical(zone) {
		return "", ""
	}
	return t.layout.zones[z].around(Canonical(name))
}

func (zl *zoneLayout) around(name string) (before, after string) {
	key := sortKey(name)
	i := sort.Search(len(zl.keys), func(i int) bool { return zl.keys[i] > key })
	if i == 0 {
		return "", "" // before the apex: not in the zone
	}
	return zl.owners[i-1], zl.owners[i%len(zl.owners)]
}

// chain puts the authoritative names with data of each zone in canonical order.
func (l *layout) chain() {
	for _, n := range l.names {
		if n.above != nil && n.above.over == nil {
			l.zones[n.above.zone].own(n.name)
		}
		if n.over == nil && !n.empty() {
			l.zones[n.zone].own(n.name)
		}
	}
	for i := range l.zones {
		sort.Sort((*byKey)(&l.zones[i]))
	}
}

func (zl *zoneLayout) own(name string) {
	zl.owners, zl.keys = append(zl.owners, name), append(zl.keys, sortKey(name))
}

// byKey sorts the owners of a zone.
type byKey zoneLayout

func (b *byKey) Len() int           { return len(b.keys) }
func (b *byKey) Less(i, j int) bool { return b.keys[i] < b.keys[j] }
func (b *byKey) Swap(i, j int) {
	b.keys[i], b.keys[j] = b.keys[j], b.keys[i]
	b.owners[i], b.owners[j] = b.owners[j], b.owners[i]
}

// sortKey is a string that orders as a canonical name does (RFC 4034 6.1): its labels
// from the last to the first, a name before what is below it. A label ends in a zero
// octet, and the octets 0 and 1 in it are told apart after a 1.
func sortKey(name string) string {
	wire, err := packName(make([]byte, 0, len(name)+1), name)
	if err != nil {
		return name // no such name is in a table
	}
	var starts []int
	for at := 0; wire[at] != 0; at += int(wire[at]) + 1 {
		starts = append(starts, at)
	}
	var b strings.Builder
	b.Grow(len(wire))
	for _, at := range slices.Backward(starts) {
		for _, c := range wire[at+1 : at+1+int(wire[at])] {
			if c <= 1 {
				b.WriteByte(1)
				c++
			}
			b.WriteByte(c)
		}
		b.WriteByte(0)
	}
	return b.String()
}
