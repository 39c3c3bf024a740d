package routing

import (
	"iter"
	"math"
	"math/bits"
	"slices"
	"strings"
	"time"
)

// Prepared is all that a name is answered with for one type, and how one of it is
// chosen for a query. It stands for every table with the same names that shares the
// service it is of: see ChangedServices.
type Prepared struct {
	Choice

	// Answers are what Choose numbers; one whose Zone is nil is never chosen. Their Scope
	// and Stale are not filled in: those depend on the client and on the node's age.
	Answers []Answer

	// Service is the number of the service that the answers change with, or -1.
	Service int
}

// Choice tells which of the prepared answers a query gets. The zero value always
// chooses the first one.
type Choice struct {
	service *service // nil: none is asked
	pool    *pool    // nil: there is one answer
	view    *view
	byGroup []uint32 // as the pool's
}

// The answers that name no cluster have these numbers, after those of the picks.
const (
	chosenNoData = iota
	chosenServFail
	chosenRefused
	chosenKinds
)

// kindNumber is the number of an answer without records.
func kindNumber(k Kind) int {
	switch k {
	case NoData:
		return chosenNoData
	case ServFail:
		return chosenServFail
	}
	return chosenRefused
}

// Choose returns the number of the answer to q, whose Name and Type are those that
// were prepared. It reports false where none of them is the answer: several clusters
// are named at once, or the node is cut off for longer than the service wants. It is
// what Select chooses by, and allocates nothing.
func (c *Choice) Choose(t *Table, q *Query) (number int, ok bool) {
	if after := c.After(); after > 0 && q.Stale > after {
		return 0, false
	}
	p := c.pool
	if p == nil {
		return 0, true
	}
	pl := &p.plans[c.Plan(t, q)]
	if pl.kind != NoError {
		return len(p.picks) + kindNumber(pl.kind), true
	}
	return p.choose(pl, q)
}

// Plan returns the number of the plan that holds for a client.
func (c *Choice) Plan(t *Table, q *Query) int {
	if c.byGroup == nil {
		return 0
	}
	return int(c.byGroup[c.view.groupOf(t.clients.find(q).class())])
}

// After is how long a node may have heard no leader for the choice to stand; 0:
// however long.
func (c *Choice) After() time.Duration {
	if c.service == nil {
		return 0
	}
	return c.service.onStale.After.D()
}

// Draws are all draws up to a bound.
type Draws struct {
	Last   uint64 // the highest draw that gets this answer, and that the ones before do not
	Number int
}

// Plans returns for each plan how its answers divide all draws, in order: what Choose
// comes to, for who has it all in one place. A plan that does not go by the draw alone
// has none.
func (c *Choice) Plans() [][]Draws {
	if c.pool == nil {
		return [][]Draws{{{Last: math.MaxUint64}}}
	}
	plans := make([][]Draws, len(c.pool.plans))
	for i := range plans {
		plans[i] = c.pool.draws(&c.pool.plans[i])
	}
	return plans
}

func (p *pool) draws(pl *plan) []Draws {
	switch {
	case pl.kind != NoError:
		return []Draws{{Last: math.MaxUint64, Number: len(p.picks) + kindNumber(pl.kind)}}
	case pl.simple:
		return []Draws{{Last: math.MaxUint64, Number: pl.first[0].picks[0]}}
	case p.clusters > 1 || p.sticky:
		return nil
	}
	r := &pl.first[0]
	total := r.sums[len(r.sums)-1]
	var list []Draws
	for k, i := range r.picks {
		if p.picks[i].spill > 0 {
			return nil
		}
		last := uint64(math.MaxUint64)
		if sum := r.sums[k]; sum == 0 {
			continue // the first ones have no weight
		} else if sum < total {
			// drawn takes the upper half of draw x total: the highest draw for which that is
			// below sum is the one before sum x 2^64 / total, rounded up.
			quotient, rest := bits.Div64(sum, 0, total)
			if last = quotient; rest == 0 {
				last--
			}
		}
		if len(list) > 0 && last <= list[len(list)-1].Last {
			continue // no weight
		}
		list = append(list, Draws{Last: last, Number: i})
	}
	return list
}

// choose returns the one pick of an answer, or false where it takes several.
func (p *pool) choose(pl *plan, q *Query) (int, bool) {
	if pl.simple {
		return pl.first[0].picks[0], true
	}
	if p.clusters == 1 && !p.sticky {
		r := &pl.first[0]
		if i := r.picks[drawn(r.sums, q.Draw)]; p.picks[i].spill <= 0 {
			return i, true
		}
	}
	var key uint64
	if p.sticky {
		key = stickyKey(clientAddr(q))
	}
	var room [8]int
	chosen := p.walk(pl, q.Draw, key, room[:0])
	return chosen[0], len(chosen) == 1
}

// Prepare returns what a name is answered with for a type. It reports false for what
// is not prepared: referrals to other zones, and names that a DNAME makes too long.
func (t *Table) Prepare(name string, typ uint16) (Prepared, bool) {
	// Whoever asks, the way to the name's own data is the same, so that any query finds it.
	a, tr := Select(t, Query{Name: name, Type: typ})
	switch {
	case a.Kind == Delegation || a.Kind == NameTooLong || a.Zone == nil:
		return Prepared{}, false
	case tr.service == nil:
		return Prepared{Answers: []Answer{a}, Service: noService}, true
	}
	p := Prepared{Choice: Choice{service: tr.service, pool: tr.pool, view: tr.service.view}}
	p.Service, _ = slices.BinarySearch(t.layout.services, tr.service.name)
	a.Scope, a.Stale = 0, false
	if tr.pool == nil {
		p.Answers = []Answer{a}
		return p, true
	}
	p.byGroup = tr.pool.byGroup
	bare := a
	bare.Set, bare.Clusters, bare.Withheld = nil, nil, ""
	p.Answers = make([]Answer, len(tr.pool.picks)+chosenKinds)
	for i := range tr.pool.picks {
		p.Answers[i] = bare
		p.Answers[i].Kind, p.Answers[i].Set, p.Answers[i].Clusters = NoError, tr.pool.picks[i].set, tr.pool.picks[i].clusters
	}
	for i := range tr.pool.plans {
		pl := &tr.pool.plans[i]
		if pl.kind == NoError {
			continue
		}
		b := bare
		b.Kind, b.AllDown = pl.kind, pl.allDown
		if tr.service.side != nil && pl.kind == ServFail {
			b.Withheld = tr.service.side.why()
		}
		p.Answers[len(tr.pool.picks)+kindNumber(pl.kind)] = b
	}
	return p, true
}

// Names yields all names that exist, sorted: those of records, services and zones,
// and what is above them in its zone.
func (t *Table) Names() iter.Seq[string] {
	return slices.Values(sortedKeys(t.layout.names))
}

// Answered returns the types that a name has answers of its own for, sorted; all other
// types are answered alike. Those of an alias are its target's.
func (t *Table) Answered(name string) []uint16 {
	n, _, _ := t.layout.find(name)
	types := []uint16{TypeANY}
	if n != nil && (n.above != nil || n.cut != nil) {
		types = append(types, TypeDS) // another zone's to answer
	}
	for range maxChain + 1 {
		if n == nil {
			break
		}
		types = append(types, t.typesAt(n)...)
		if n.target == "" {
			break
		}
		n, _, _ = t.layout.find(n.target)
	}
	slices.Sort(types)
	return slices.Compact(types)
}

// typesAt are the types that somebody may be answered with at a name.
func (t *Table) typesAt(n *node) []uint16 {
	var types []uint16
	if n.apex {
		types = append(types, TypeSOA, TypeNS)
	}
	if n.service != noService {
		for _, typ := range []uint16{TypeA, TypeAAAA, TypeHTTPS} {
			if t.services.at(n.service).routes(typ) {
				types = append(types, typ)
			}
		}
	}
	if n.srv != noService {
		types = append(types, TypeSRV)
	}
	for _, s := range n.sets {
		types = append(types, s.Type)
	}
	return types
}

// Unknown returns a name that does not exist, directly below one that does.
func (t *Table) Unknown(name string) string {
	for label := "-"; ; label += "-" {
		if below := label + "." + strings.TrimPrefix(name, "."); t.layout.names[below] == nil {
			return below
		}
	}
}

// SameNames reports whether two tables have the same names and static records, so
// that they differ in services, serials and who is where alone.
func (t *Table) SameNames(o *Table) bool { return t.layout == o.layout }

// ChangedServices yields the numbers of the services that are prepared otherwise than
// in a table with the same names.
func (t *Table) ChangedServices(prev *Table) iter.Seq[int] {
	return func(yield func(int) bool) {
		for b, block := range t.services.blocks {
			old := prev.services.blocks[b]
			if &block[0] == &old[0] {
				continue // shared
			}
			for k := range block {
				if block[k].service != old[k].service && !yield(b<<blockBits+k) {
					return
				}
			}
		}
	}
}
