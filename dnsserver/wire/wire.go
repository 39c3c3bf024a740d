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
	*names            // shared while they are the same
	blocks  [][]entry // by number of the name
	serials []uint32  // of the zones
}

// zone is what a zone answers alike at all its names.
type zone struct {
	name      []byte // in wire format
	noData    *Variant
	nameError *Variant
	any       *Variant
	anySet    *routing.RRset // what any answers with
}

// entry is what one name is answered with. Memory is what a lookup costs when there are
// many names, so it lies together.
type entry struct {
	below *Variant // names below that do not exist; nil: the general path knows
	more  *[]typed // all of them, where room is not enough
	n     int      // in room
	room  [4]typed // the first one stands for all types without one
}

// types are the answers by type; none where the general path answers.
func (e *entry) types() []typed {
	if e.more != nil {
		return *e.more
	}
	return e.room[:e.n]
}

// typed is the answers for one type: that of everybody, or those that a draw or the
// client decides among. Without any, the general path answers.
type typed struct {
	typ   uint16
	after time.Duration // the general path answers when no leader was heard for longer; 0: never
	one   *Variant
	drawn *drawn
	from  *byClient
}

// plan is how answers divide all draws, in order.
type plan []part

type part struct {
	last    uint64   // the highest draw
	variant *Variant // nil: the general path answers
}

// drawn is a plan for everybody.
type drawn struct {
	plan
	room [8]part // for it, where it is enough
}

// byClient is the choice among several plans, or what no plan can say.
type byClient struct {
	choice   routing.Choice
	ones     []*Variant // by number of the plan: its only answer; nil: it has more
	plans    []plan
	variants []*Variant // by number of the choice
}

// Variant is one prebuilt answer. What most queries need of it is one cache line.
type Variant struct {
	form // what follows the question may be in room
	Labels
	Zone   int32 // number in the routing table; -1: none
	Kind   routing.Kind
	Rcode  uint8
	rare   *rare                  // nil: there is nothing of it
	signed atomic.Pointer[signed] // nil: nothing is
	room   [16]byte               // an address and what stands before it
}

// rare is what few variants have.
type rare struct {
	more
	rest   []byte  // what follows the question, where it is too long for room
	source *source // where there is something to sign
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
	form
	rest  []byte
	from  time.Time
	until time.Time
	keys  any
}

// good reports whether the signatures may be given out: they are valid, and not due to be
// replaced.
func (s *signed) good(now time.Time) bool { return !now.Before(s.from) && now.Before(s.until) }

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

// ZoneName returns the name of a zone in wire format, nil of none. It need not be where
// the question's name is: an alias may lead into another zone.
func (t *Table) ZoneName(number int32) []byte {
	if number < 0 {
		return nil
	}
	return t.zones[number].name
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
	s = Served{Name: buf[HeaderSize:p.nameEnd], Type: p.qtype, EDNS: p.edns, DO: p.do}
	if s.Variant = t.find(s.Name, &p, q); s.Variant == nil {
		return s, false
	}
	v := s.Variant
	f, rest, extra := &v.form, v.room[:min(int(v.size), len(v.room))], (*more)(nil)
	if r := v.rare; r != nil {
		if extra = &r.more; r.rest != nil {
			rest = r.rest
		}
	}
	if v.Signed && ofSignatures(p.qtype) {
		s.Variant = nil
		return s, false
	}
	if v.Signed && p.do {
		sig := v.signed.Load()
		if sig == nil || !sig.good(q.Now) || sig.keys != q.Keys(int(v.Zone)) {
			return s, false
		}
		f, rest, extra = &sig.form, sig.rest, nil
	}
	size := p.end + len(rest)
	if p.edns {
		size += OPTSize
		if extra != nil {
			size += len(extra.options)
		}
	}
	limit := q.Limit
	if !q.Stream {
		if limit = min(limit, p.limit); p.qtype == routing.TypeANY {
			limit = min(limit, ANYLimit(n))
		}
	}
	if size > limit || size > len(buf) {
		s.Variant = nil
		return s, false
	}
	f.write(buf, &p, rest)
	if extra != nil {
		extra.patch(buf[p.end:p.end+len(rest)], p.nameEnd-HeaderSize-int(f.name), t.serials, v.Zone)
	}
	if p.edns {
		writeOPT(buf[p.end+len(rest):], p.do, extra)
	}
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

func (t *Table) entry(at int) *entry { return &t.blocks[at>>blockBits][at&(blockSize-1)] }

// choose returns the variant of a name for a type and a client.
func (t *Table) choose(e *entry, qtype uint16, q *Query) *Variant {
	types := e.types()
	if len(types) == 0 {
		return nil
	}
	at := &types[0]
	for i := 1; i < len(types); i++ {
		if types[i].typ == qtype {
			at = &types[i]
			break
		}
	}
	if at.after > 0 && q.Stale > at.after {
		return nil
	}
	switch {
	case at.one != nil:
		return at.one
	case at.drawn != nil:
		return at.drawn.draw(q.Draw())
	case at.from != nil:
		return t.byClient(at.from, q)
	}
	return nil
}

// byClient returns the variant of a client.
func (t *Table) byClient(from *byClient, q *Query) *Variant {
	rq := routing.Query{Client: q.Client}
	number := from.choice.Plan(t.routing, &rq)
	if one := from.ones[number]; one != nil {
		return one
	}
	if p := from.plans[number]; len(p) > 0 {
		return p.draw(q.Draw())
	}
	rq.Draw, rq.Stale = q.Draw(), q.Stale
	if number, ok := from.choice.Choose(t.routing, &rq); ok {
		return from.variants[number]
	}
	return nil
}

// draw returns the variant that a draw falls to.
func (p plan) draw(draw uint64) *Variant {
	i := 0
	for p[i].last < draw {
		i++
	}
	return p[i].variant
}
