package dnsserver

import (
	"slices"

	"github.com/miekg/dns"

	"github.com/quorate/quorate/dnsserver/dnssec"
	"github.com/quorate/quorate/routing"
)

// denier makes the NSEC sets of one zone.
type denier struct {
	table *routing.Table
	zone  *dnssec.Zone
	ttl   uint32 // that of negative answers (RFC 9077)
}

func (m *message) denier(z *dnssec.Zone, zone *routing.Zone) denier {
	return denier{m.table, z, zone.Negative.TTL}
}

// types returns what the NSEC set of a name lists: every type that the name can have
// for anybody, so that a resolver that answers from it (RFC 8198) never denies what
// another client gets, or what is there a moment later.
func (d denier) types(name string, denied uint16) []uint16 {
	types, _ := d.table.TypesIn(d.zone.Name, name)
	return d.zone.Types(name, types, denied)
}

// matching returns the NSEC set at owner by itself, with the types that it has, or that
// wild gives it.
func (d denier) matching(owner, wild string, denied uint16) dnssec.Set {
	from := owner
	if wild != "" {
		from = wild
	}
	return dnssec.Matching(owner, d.ttl, d.types(from, denied))
}

// nothing returns the NSEC set by which compact denial says that a name is not there
// (RFC 9824 3.1).
func (d denier) nothing(name string) dnssec.Set {
	return dnssec.Matching(name, d.ttl, []uint16{dns.TypeNXNAME})
}

// chained returns the NSEC set at or before name in the zone's chain.
func (d denier) chained(name string, denied uint16) dnssec.Set {
	before, after := d.table.NeighboursIn(d.zone.Name, name)
	if before != name {
		denied = 0
	}
	return dnssec.NSEC(before, after, d.ttl, d.types(before, denied))
}

// own returns the NSEC set that owner is answered with who is asked for it: of what a
// wildcard gives in a chain, the wildcard's.
func (d denier) own(owner, wild string) dnssec.Set {
	switch {
	case d.zone.Compact:
		return d.matching(owner, wild, 0)
	case wild != "":
		return d.chained(wild, 0)
	}
	return d.chained(owner, 0)
}

// at returns the set of the zone's way of denial at a name that has data.
func (d denier) at(name string, denied uint16) dnssec.Set {
	if d.zone.Compact {
		return d.matching(name, "", denied)
	}
	return d.chained(name, denied)
}

// deny proves that what was asked for is not there.
func (b *signing) deny(z *dnssec.Zone) {
	a, qtype := &b.m.answer, b.m.Question[0].Qtype
	d := b.m.denier(z, a.Zone)
	switch {
	case z.Compact && a.Kind == routing.NameError:
		// RFC 9824 3.1: the name is said to be there, with nothing. Who can read NXNAME
		// and says so gets the code too.
		if !b.m.edns.co {
			b.m.Rcode = dns.RcodeSuccess
		}
		b.prove(z, d.nothing(a.Owner), dnssec.Made)
	case z.Compact:
		b.prove(z, d.matching(a.Owner, a.Wild, qtype), b.m.originOf(z, a.Wild))
	case a.Kind == routing.NameError:
		// RFC 4035 3.1.3.2: neither the name nor a wildcard that would give it.
		b.prove(z, d.chained(a.Owner, 0), dnssec.Own)
		b.prove(z, d.chained("*."+d.encloser(a.Owner), 0), dnssec.Own)
	case a.Wild != "":
		// RFC 4035 3.1.3.4: not the name, and the wildcard without the type.
		b.prove(z, d.chained(a.Wild, qtype), dnssec.Own)
		b.prove(z, d.chained(a.Owner, 0), dnssec.Own)
	default:
		b.prove(z, d.chained(a.Owner, qtype), dnssec.Own) // of an empty non-terminal: the set before it
	}
}

// encloser returns the longest name above a name that is not there.
func (d denier) encloser(name string) string {
	for off, end := dns.NextLabel(name, 0); !end; off, end = dns.NextLabel(name, off) {
		if _, exists := d.table.TypesIn(d.zone.Name, name[off:]); exists {
			return name[off:]
		}
	}
	return d.zone.Name
}

// expansion proves that a wildcard was right to answer: that the name itself is not
// there (RFC 4035 3.1.3.3). With compact denial the answer is signed as the name's own.
func (b *signing) expansion(owner, wild string) {
	if wild == "" || b.err != nil {
		return
	}
	zone := zoneOf(b.m.table, owner)
	if z, ok := b.s.signed(b.m.table, zone); ok && z.Err == nil && !z.Compact {
		b.prove(z, b.m.denier(z, zone).chained(owner, 0), dnssec.Own)
	}
}

// prove adds an NSEC set, once.
func (b *signing) prove(z *dnssec.Zone, set dnssec.Set, origin dnssec.Origin) {
	if b.err != nil || slices.Contains(b.proved, set.Owner) {
		return
	}
	b.proved = append(b.proved, set.Owner)
	b.proofs = append(b.proofs, set.Records(spelled(b.m.Question[0].Name, set.Owner))...)
	b.proofs = append(b.proofs, b.signatures(z, set.Owner, set, set.TTL, origin)...)
}
