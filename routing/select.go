package routing

import (
	"slices"

	"github.com/quorate/quorate/statestore"
)

// maxChain is how many aliases are followed inside our own data. A longer chain is
// a mistake or a loop; what was followed is answered.
const maxChain = 8

// Select picks the answer to a query. It is total: what the table does not hold is
// a NameError in our zones and Refused outside them. The trace tells how.
func Select(t *Table, q Query) (Answer, Trace) {
	name := Canonical(q.Name)
	tr := Trace{table: t, query: q, asked: name}
	a := Answer{Owner: name}
	for {
		n, wild, zone := t.layout.find(name)
		if zone < 0 {
			if len(a.Chain) > 0 {
				a.Kind = NoError // the alias leaves our data; who asks goes on elsewhere
			}
			break
		}
		a.Owner, a.Zone = name, t.Zones[zone]
		tr.node, tr.wild = n, wild
		if n == nil {
			a.Kind = NameError
			break
		}
		if n.target == "" || q.Type == TypeCNAME || q.Type == TypeANY {
			t.at(n, q, &a, &tr)
			break
		}
		a.Chain = append(a.Chain, Alias{Owner: name, Set: n.sets[0]})
		a.Kind = NoError
		name = n.target
		if len(a.Chain) == maxChain || slices.ContainsFunc(a.Chain, func(c Alias) bool { return c.Owner == name }) {
			break
		}
	}
	tr.answer = a
	return a, tr
}

// at answers from a name that exists and is not an alias for this query.
func (t *Table) at(n *node, q Query, a *Answer, tr *Trace) {
	a.Kind = NoData
	switch {
	case n.empty():
	case q.Type == TypeANY:
		a.Set = hinfo
	case n.service != noService && (q.Type == TypeA || q.Type == TypeAAAA):
		t.routed(t.services[n.service], q, a, tr)
		return
	case n.apex && q.Type == TypeSOA:
		a.Set = a.Zone.SOA
	case n.apex && q.Type == TypeNS:
		a.Set = a.Zone.NS
		a.Additional = t.layout.zones[n.zone].glue
	default:
		a.Set = n.set(q.Type)
	}
	if a.Set != nil {
		a.Kind = NoError
	}
}

// routed answers with the addresses of a service.
func (t *Table) routed(s *service, q Query, a *Answer, tr *Trace) {
	tr.service = s
	a.Service = s.name
	if after := s.onStale.After.D(); after > 0 && q.Stale > after {
		a.Stale = true
		switch s.onStale.Answer {
		case statestore.StaleServFail:
			a.Kind = ServFail
			return
		case statestore.StaleRefuse:
			a.Kind = Refused
			return
		}
	}
	p := &s.v4
	if q.Type == TypeAAAA {
		p = &s.v6
	}
	tr.pool = p
	a.Kind, a.AllDown = p.kind, p.allDown
	if p.kind != NoError {
		if s.side != nil && p.kind == ServFail {
			a.Withheld = s.side.why()
		}
		return
	}
	pk := p.pick(q.Draw)
	a.Set, a.Clusters = pk.set, pk.clusters
}
