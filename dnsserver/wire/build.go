package wire

import (
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/quorate/quorate/routing"
)

const (
	blockBits = 5
	blockSize = 1 << blockBits
)

// names is what tables with the same names share.
type names struct {
	index    *index
	list     []string        // by number
	services map[int][]int32 // names whose answers change with a service
	zones    []zone          // by number of the routing table's zones
	refused  *Variant        // for names in no zone
}

// Build makes the table of a routing table from an earlier one, which may be nil, and
// shares with it what did not change: with the same names, a service that changed costs
// its own names.
func Build(prev *Table, t *routing.Table, m Maker) *Table {
	w := &Table{routing: t, serials: make([]uint32, len(t.Zones))}
	for i, z := range t.Zones {
		w.serials[i] = z.Serial
	}
	b := builder{table: t, maker: m}
	if prev != nil && prev.routing.SameNames(t) {
		w.names, w.blocks = prev.names, slices.Clone(prev.blocks)
		b.names = w.names
		for service := range t.ChangedServices(prev.routing) {
			for _, number := range w.names.services[service] {
				at := int(number) >> blockBits
				if &w.blocks[at][0] == &prev.blocks[at][0] {
					w.blocks[at] = slices.Clone(w.blocks[at])
				}
				e := &w.blocks[at][number&(blockSize-1)]
				*e = entry{}
				b.entry(e, w.names.list[number])
			}
		}
		return w
	}
	b.all(w)
	return w
}

// builder makes the entries of one table.
type builder struct {
	table *routing.Table
	maker Maker
	names *names
	uses  []int // services of the entry that is being made
}

// all makes every entry.
func (b *builder) all(w *Table) {
	list := slices.Collect(b.table.Names())
	b.names = &names{index: makeIndex(len(list)), list: list, services: map[int][]int32{}}
	b.names.refused = b.outside()
	b.names.zones = make([]zone, len(b.table.Zones))
	for i, z := range b.table.Zones {
		b.names.zones[i].name, _, _ = spell(z.Name)
		b.names.zones[i] = b.zone(i, z)
	}
	w.names = b.names
	for number, name := range list {
		if number&(blockSize-1) == 0 {
			w.blocks = append(w.blocks, make([]entry, 0, min(blockSize, len(list)-number)))
		}
		last := &w.blocks[len(w.blocks)-1]
		*last = append(*last, entry{})
		b.entry(&(*last)[len(*last)-1], name)
		for _, s := range b.uses {
			if got := b.names.services[s]; len(got) == 0 || got[len(got)-1] != int32(number) {
				b.names.services[s] = append(got, int32(number))
			}
		}
		if octets, _, ok := spell(name); ok {
			b.names.index.add(octets, number)
		}
	}
}

// spell returns a name in wire format, and in capitals as a question spells it: a
// message made for that compresses owners to the question's name, which the client
// spells, and never names in records, whose case is ours. It reports false for a name
// that nobody can ask for by another spelling of the same octets, such as \097.
func spell(name string) (octets []byte, question string, ok bool) {
	octets = make([]byte, MaxName+1)
	n, err := dns.PackDomainName(name, octets, 0, nil, false)
	if err != nil {
		return nil, "", false
	}
	octets = octets[:n]
	if back, _, err := dns.UnpackDomainName(octets, 0); err != nil || routing.Canonical(back) != name {
		return nil, "", false
	}
	capitals := slices.Clone(octets)
	for i, c := range capitals {
		if 'a' <= c && c <= 'z' {
			capitals[i] = c - ('a' - 'A')
		}
	}
	question, _, err = dns.UnpackDomainName(capitals, 0)
	return octets, question, err == nil
}

// entry makes what one name is answered with.
func (b *builder) entry(e *entry, name string) {
	b.uses = b.uses[:0]
	octets, question, ok := spell(name)
	if !ok {
		return
	}
	at := asked{name: name, question: question, octets: len(octets)}
	types := b.table.Answered(name)
	for at.typ = privateUse; slices.Contains(types, at.typ); at.typ++ {
	}
	list := []typed{b.typed(at)}
	for _, typ := range types {
		at.typ = typ
		list = append(list, b.typed(at))
	}
	if len(list) > len(e.room) {
		e.more = &list
	} else {
		e.n = copy(e.room[:], list)
	}
	if p, ok := b.table.Prepare(b.table.Unknown(name), routing.TypeA); ok {
		if a := &p.Answers[0]; a.Kind == routing.NameError && len(a.Chain) == 0 {
			e.below = b.names.zones[b.zoneNumber(a.Zone)].nameError
		}
	}
}

// privateUse are types that stand for all that have no records (RFC 6895 3.1).
const privateUse = 65280

// asked is a question that answers are made for.
type asked struct {
	name     string
	question string
	octets   int
	typ      uint16
}

// typed makes the answers of a name for one type.
func (b *builder) typed(at asked) typed {
	p, ok := b.table.Prepare(at.name, at.typ)
	if !ok {
		return typed{typ: at.typ}
	}
	if p.Service >= 0 {
		b.uses = append(b.uses, p.Service)
	}
	variants := make([]*Variant, len(p.Answers))
	for i := range p.Answers {
		variants[i] = b.variant(at, i, &p.Answers[i])
	}
	out := typed{typ: at.typ, after: p.After()}
	var plans []plan
	for _, draws := range p.Plans() {
		var pl plan
		for _, d := range draws {
			pl = append(pl, part{last: d.Last, variant: variants[d.Number]})
		}
		plans = append(plans, slices.Clip(pl))
	}
	ones := make([]*Variant, len(plans))
	for i, pl := range plans {
		if len(pl) == 1 {
			ones[i] = pl[0].variant
		}
	}
	switch {
	case len(plans) == 1 && len(plans[0]) == 1:
		out.one = ones[0]
	case len(plans) == 1 && plans[0] != nil:
		out.drawn = &drawn{}
		out.drawn.plan = append(out.drawn.room[:0], plans[0]...)
	default:
		out.from = &byClient{choice: p.Choice, ones: ones, plans: plans, variants: variants}
	}
	return out
}

// variant makes one answer, or takes the one that its zone has for all names. It
// returns nil for one that depends on more than the question.
func (b *builder) variant(at asked, number int, a *routing.Answer) *Variant {
	if a.Zone == nil {
		return nil
	}
	zone := b.zoneNumber(a.Zone)
	if len(a.Chain) == 0 {
		shared := &b.names.zones[zone]
		switch {
		case a.Kind == routing.NoData:
			return shared.noData
		case a.Kind == routing.NameError:
			return shared.nameError
		case at.typ == routing.TypeANY && a.Set == shared.anySet:
			return shared.any
		}
	}
	v := b.make(at, zone, a, false)
	if v != nil && v.Signed {
		v.uncommon().source = &source{at.name, at.typ, number}
	}
	return v
}

// make makes the message of an answer and takes it apart.
func (b *builder) make(at asked, zone int, a *routing.Answer, shared bool) *Variant {
	msg, options := b.maker.Message(at.question, at.typ, *a)
	if msg == nil {
		return nil
	}
	v := &Variant{Labels: b.maker.Labels(*a), Kind: a.Kind, Rcode: msg[3] & 0xf, Zone: int32(zone)}
	f, rest, m, err := formOf(msg, at.octets)
	if err != nil {
		return nil
	}
	if v.form = f; len(rest) <= len(v.room) {
		v.size = uint8(copy(v.room[:], rest))
	} else {
		v.uncommon().rest = rest
	}
	if !shared {
		m.moved = nil // only names of this length get it
	}
	if m.options = options; len(m.options)+len(m.serials)+len(m.moved) > 0 {
		v.uncommon().more = m
	}
	return v
}

// uncommon makes room for what few variants have.
func (v *Variant) uncommon() *rare {
	if v.rare == nil {
		v.rare = &rare{}
	}
	return v.rare
}

// zone makes what a zone answers alike at all names, for the name of a wildcard in it.
func (b *builder) zone(number int, z *routing.Zone) zone {
	name := "*." + z.Name
	octets, question, ok := spell(name)
	if !ok {
		return b.names.zones[number] // too long: the general path answers
	}
	at := asked{name: name, question: question, octets: len(octets), typ: privateUse}
	out := zone{
		name: b.names.zones[number].name, noData: b.make(at, number, &routing.Answer{Kind: routing.NoData, Zone: z, Owner: name}, true),
		nameError: b.make(at, number, &routing.Answer{Kind: routing.NameError, Zone: z, Owner: name}, true),
	}
	if p, ok := b.table.Prepare(z.Name, routing.TypeANY); ok && p.Answers[0].Set != nil {
		at.typ, out.anySet = routing.TypeANY, p.Answers[0].Set
		out.any = b.make(at, number, &routing.Answer{Kind: routing.NoError, Zone: z, Owner: name, Set: out.anySet}, true)
	}
	return out
}

// outside makes the answer for names in no zone.
func (b *builder) outside() *Variant {
	const name = "x."
	return b.make(asked{name: name, question: strings.ToUpper(name), octets: len("\x01x\x00"), typ: privateUse}, -1, &routing.Answer{Kind: routing.Refused, Owner: name}, true)
}

// zoneNumber is the number of a zone of the table.
func (b *builder) zoneNumber(z *routing.Zone) int {
	at, _ := slices.BinarySearchFunc(b.table.Zones, z.Name, func(z *routing.Zone, name string) int { return strings.Compare(z.Name, name) })
	return at
}

// Source returns the question, spelled as for Maker.Message, and the answer that a
// variant was made of; false for one that many names share, and for one of another
// table.
func (t *Table) Source(v *Variant) (question string, qtype uint16, a routing.Answer, ok bool) {
	if v.rare == nil || v.rare.source == nil {
		return "", 0, a, false
	}
	from := v.rare.source
	_, question, _ = spell(from.name)
	p, ok := t.routing.Prepare(from.name, from.typ)
	if !ok || from.number >= len(p.Answers) {
		return "", 0, a, false
	}
	return question, from.typ, p.Answers[from.number], true
}

// Sign keeps the message that answers a variant's question with signatures, for those
// who ask with DO, while the time is from from to until and the zone's keys are those. It
// does not keep one that says a serial: that is another one in the next table.
func (v *Variant) Sign(msg []byte, from, until time.Time, keys any) {
	f, rest, m, err := formOf(msg, int(v.name))
	if err == nil && len(m.serials) == 0 && v.rare != nil && v.rare.source != nil {
		v.signed.Store(&signed{form: f, rest: rest, from: from, until: until, keys: keys})
	}
}
