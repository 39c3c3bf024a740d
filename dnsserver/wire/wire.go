// Package wire holds prebuilt answers by name, type and client class, in wire format,
// and turns ordinary queries into them in place.
//
// A Table answers exactly what the message builder that it was made with answers, or
// says that a query is not its own: the general path takes what is unusual. It is
// immutable but for signatures, shares with the table before it what did not change,
// takes no lock and allocates nothing. It knows nothing of sockets: bytes come in and
// bytes go out.
package wire

import (
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/routing"
)

// Table is the prebuilt answers of one routing table.
type Table struct {
	routing *routing.Table
	*names             // shared while they are the same
	blocks  [][]*entry // by number of the name
	serials []uint32   // of the zones
}

// zone is what a zone answers alike at all its names.
type zone struct {
	octets    uint8 // of its name
	noData    *Variant
	nameError *Variant
	any       *Variant
	anySet    *routing.RRset // what any answers with
}

// entry is what one name is answered with. Memory is what a lookup costs when there are
// many names, so it lies together.
type entry struct {
	below *Variant // names below that do not exist; nil: the general path knows
	types []typed  // the first one stands for all types without one
	room  [5]typed // for types, where it is enough
}

// typed is the answers for one type. Without plans, the general path answers.
type typed struct {
	typ   uint16
	after time.Duration // the general path answers when no leader was heard for longer; 0: never
	plan  plan          // of all clients, where from is nil
	from  *byClient
}

// plan is how answers divide all draws, in order. Without parts, the choice decides.
type plan []part

type part struct {
	last    uint64   // the highest draw
	variant *Variant // nil: the general path answers
}

// byClient is the choice among several plans, or what no plan can say.
type byClient struct {
	choice   routing.Choice
	plans    []plan
	variants []*Variant // by number of the choice
}

// Variant is one prebuilt answer.
type Variant struct {
	form form
	Labels
	Kind   routing.Kind
	Rcode  uint8
	suffix uint8                  // octets of the zone's name
	Zone   int32                  // number in the routing table; -1: none
	signed atomic.Pointer[signed] // nil: nothing is
	source *source                // nil: many names share it
	room   [32]byte               // for what follows the question, where it is enough
}

// source is where a variant comes from, for who signs it: a prepared answer.
type source struct {
	name   string
	typ    uint16
	number int
}

// Labels are what the maker of a message wants to know again whenever it is sent.
type Labels struct {
	Answer  uint32 // by its own count; 0: none
	Service uint32 // likewise
	Signed  bool   // who asks with DO gets signatures
}

// signed is an answer with its signatures.
type signed struct {
	form  form
	until time.Time
	keys  any
}

// Maker makes the messages that a table holds: it is the general path's own builder.
type Maker interface {
	// Message returns the whole message that answers a question, without an OPT record,
	// and the options that one has. A nil message: the general path must answer, since it
	// depends on more.
	Message(name string, qtype uint16, a routing.Answer) (msg, options []byte)

	// Labels returns what to keep with the answer.
	Labels(a routing.Answer) Labels
}

// Query is one query's circumstances.
type Query struct {
	Client netip.Addr // unmapped
	Stale  time.Duration
	Draw   func() uint64 // asked where chance decides
	Limit  int           // most octets of an answer
	Stream bool          // the client's own limits do not count: TCP
	Now    time.Time     // for signatures

	// Keys returns the keys that a zone is signed with now, by its number, to compare with
	// those of Variant.Sign.
	Keys func(zone int) any
}

// Served is what was answered.
type Served struct {
	Variant *Variant
	Name    []byte // of the question, in the packet
	Type    uint16
	Size    int // of the answer, which is in the packet's place
	EDNS    bool
	DO      bool
}

// Routing returns the table that the answers are of.
func (t *Table) Routing() *routing.Table { return t.routing }

// Answer turns the query in buf[:n] into its answer, in place; buf has room for
// what Query.Limit allows. It reports false, and leaves the query as it is, where
// the general path must answer: Served then names the variant, if it is one that only
// lacks fresh signatures.
func (t *Table) Answer(buf []byte, n int, q *Query) (s Served, ok bool) {
	p, ok := parse(buf[:n])
	if !ok {
		return Served{}, false
	}
	s = Served{Name: buf[headerSize:p.nameEnd], Type: p.qtype, EDNS: p.edns, DO: p.do}
	if s.Variant = t.find(s.Name, &p, q); s.Variant == nil {
		return s, false
	}
	f := &s.Variant.form
	if s.Variant.Signed && (p.do || ofSignatures(p.qtype)) {
		sig := s.Variant.signed.Load()
		if sig == nil || !q.Now.Before(sig.until) || !p.do || sig.keys != q.Keys(int(s.Variant.Zone)) {
			return s, false
		}
		f = &sig.form
	}
	size := p.end + len(f.rest)
	if p.edns {
		size += optSize
		if f.more != nil {
			size += len(f.more.options)
		}
	}
	limit := q.Limit
	if !q.Stream {
		if limit = min(limit, p.limit); p.qtype == routing.TypeANY {
			limit = min(limit, 2*n) // who asks with a forged address gains nothing by ANY
		}
	}
	if size > limit || size > len(buf) {
		s.Variant = nil
		return s, false
	}
	f.write(buf, &p, t.serials, s.Variant.Zone)
	s.Size = size
	return s, true
}

// find returns the variant that answers, or nil.
func (t *Table) find(name []byte, p *question, q *Query) *Variant {
	if at := t.index.find(name); at >= 0 {
		return t.choose(t.entry(at), p.qtype, q)
	}
	// The nearest name above it that exists knows (RFC 4592 3.3.1). Nothing exists that
	// has more labels than the longest name there is.
	labels, from := p.labels, 0
	for labels > 0 {
		from += 1 + int(name[from])
		if labels--; labels > t.index.labels {
			continue
		}
		if at := t.index.find(name[from:]); at >= 0 {
			return t.entry(at).below
		}
	}
	return t.refused
}

func (t *Table) entry(at int) *entry { return t.blocks[at>>blockBits][at&(blockSize-1)] }

// choose returns the variant of a name for a type and a client.
func (t *Table) choose(e *entry, qtype uint16, q *Query) *Variant {
	if len(e.types) == 0 {
		return nil
	}
	at := &e.types[0]
	for i := range e.types[1:] {
		if e.types[i+1].typ == qtype {
			at = &e.types[i+1]
			break
		}
	}
	if at.after > 0 && q.Stale > at.after {
		return nil
	}
	p := at.plan
	if len(p) == 1 {
		return p[0].variant
	}
	var rq routing.Query
	if at.from != nil {
		rq.Client = q.Client
		p = at.from.plans[at.from.choice.Plan(t.routing, &rq)]
		if len(p) == 1 {
			return p[0].variant
		}
	}
	if len(p) > 0 {
		draw, i := q.Draw(), 0
		for p[i].last < draw {
			i++
		}
		return p[i].variant
	}
	if at.from == nil {
		return nil
	}
	rq.Draw, rq.Stale = q.Draw(), q.Stale
	if number, ok := at.from.choice.Choose(t.routing, &rq); ok {
		return at.from.variants[number]
	}
	return nil
}
