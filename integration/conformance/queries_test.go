//go:build conformance

package conformance

import (
	"math/rand/v2"
	"strings"

	"github.com/miekg/dns"
)

// question is one query, as all servers get it.
type question struct {
	name string // as it is spelled
	typ  uint16
	edns bool
	size uint16
	do   bool
}

func (q question) String() string {
	s := q.name + " " + dns.Type(q.typ).String()
	if q.edns {
		s += " +edns"
	}
	if q.do {
		s += " +do"
	}
	return s
}

// message makes the query.
func (q question) message(id uint16) *dns.Msg {
	m := &dns.Msg{MsgHdr: dns.MsgHdr{Id: id}, Question: []dns.Question{{Name: q.name, Qtype: q.typ, Qclass: dns.ClassINET}}}
	if q.edns {
		m.SetEdns0(q.size, q.do)
	}
	return m
}

// asker draws the questions about one zone.
type asker struct {
	generator
	names []string
}

// ask draws the questions about a zone: what is there, what could be, and what
// lies around it.
func ask(z *zoneFile, seed uint64, number, count int) []question {
	a := asker{generator{rand.New(rand.NewPCG(seed+1, uint64(number))), z}, append(z.names(), z.name)}
	questions := make([]question, 0, count)
	for range count {
		q := question{name: a.spell(a.where()), edns: a.IntN(2) == 0}
		q.typ = a.what(q.name)
		if q.edns {
			q.size, q.do = []uint16{512, 1232, 4096, 0}[a.IntN(4)], a.IntN(3) == 0
		}
		if _, ok := dns.IsDomainName(q.name); !ok {
			q.name = z.name // what was put together became too long
		}
		questions = append(questions, q)
	}
	return questions
}

// where draws a name to ask for.
func (a *asker) where() string {
	name := a.names[a.IntN(len(a.names))]
	switch a.IntN(20) {
	case 0, 1: // below something
		return a.label() + "." + name
	case 2:
		return "p.q.r." + name
	case 3, 4: // above something: an empty non-terminal, or another zone's, or nobody's
		if up, end := dns.NextLabel(name, 0); !end {
			return name[up:]
		}
	case 5: // directly in the zone
		return a.label() + "." + a.z.name
	case 6: // beside something
		if up, end := dns.NextLabel(name, 0); !end {
			return a.label() + "." + name[up:]
		}
	case 12: // what a DNAME renames
		if a.IntN(4) == 0 {
			return a.label() + ".old." + a.owner() + "." + a.z.name
		}
	case 7, 8, 9: // what a wildcard may match
		if rest, ok := strings.CutPrefix(name, "*."); ok {
			return strings.Repeat(a.label()+".", 1+a.IntN(2)) + rest
		}
	case 10:
		return []string{a.z.name, "test.", ".", "x" + a.z.name, "elsewhere.example."}[a.IntN(5)]
	case 11:
		if len(a.z.cuts) > 0 {
			return a.z.cuts[a.IntN(len(a.z.cuts))]
		}
	}
	return name
}

func (a *asker) label() string { return labels[a.IntN(len(labels))] }

// what draws a type: usually one that is there.
func (a *asker) what(name string) uint16 {
	there := a.z.sets[strings.ToLower(name)]
	if len(there) > 0 && a.IntN(3) > 0 {
		return there[a.IntN(len(there))].typ
	}
	switch a.IntN(12) {
	case 0:
		return []uint16{dns.TypeSOA, dns.TypeNS, dns.TypeDS, dns.TypeCNAME}[a.IntN(4)]
	case 1:
		return dns.TypeDS
	case 2:
		return uint16(256 + a.IntN(65000))
	case 3:
		return kinds[a.IntN(len(kinds))].typ
	case 4:
		if a.IntN(3) == 0 {
			return dns.TypeANY
		}
	case 5:
		return dns.TypeCNAME
	}
	return kinds[a.IntN(common)].typ
}

// spell changes the case of letters, as resolvers do against forgers.
func (a *asker) spell(name string) string {
	if a.IntN(3) > 0 {
		return name
	}
	b := []byte(name)
	for i, c := range b {
		if c >= 'a' && c <= 'z' && a.IntN(2) == 0 {
			b[i] = c - 'a' + 'A'
		}
	}
	return string(b)
}
