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
func Select(t *Table, q Query) (a Answer, tr Trace) {
	// The results are named so that they are filled in where the caller finds them:
	// copying them is what costs most.
	tr.table, tr.query, tr.asked = t, q, Canonical(q.Name)
	tr.run()
	return tr.answer, tr
}

// run fills in the answer.
func (tr *Trace) run() {
	t, q, a, name := tr.table, &tr.query, &tr.answer, tr.asked
	a.Owner = name
	for {
		n, wild, zone := t.layout.find(name)
		if zone < 0 {
			if len(a.Chain) > 0 {
				a.Kind = NoError // the alias leaves our data; who asks goes on elsewhere
			}
			return
		}
		a.Owner, a.Zone = name, t.Zones[zone]
		tr.node, tr.wild = n, wild
		if n == nil {
			a.Kind = NameError
			return
		}
		if n.target == "" || q.Type == TypeCNAME || q.Type == TypeANY {
			tr.at(n)
			return
		}
		a.Chain = append(a.Chain, Alias{Owner: name, Set: n.sets[0]})
		a.Kind = NoError
		name = n.target
		if len(a.Chain) == maxChain || slices.ContainsFunc(a.Chain, func(c Alias) bool { return c.Owner == name }) {
			return
		}
	}
}

// at answers from a name that exists and is not an alias for this query.
func (tr *Trace) at(n *node) {
	t, a, typ := tr.table, &tr.answer, tr.query.Type
	a.Kind = NoData
	switch {
	case n.empty():
	case typ == TypeANY:
		a.Set = hinfo
	case n.service != noService && t.services.at(n.service).routes(typ):
		tr.routed(t.services.at(n.service))
		return
	case n.srv != noService && typ == TypeSRV:
		tr.port(t.services.at(n.srv))
		return
	case n.apex && typ == TypeSOA:
		a.Set = a.Zone.SOA
	case n.apex && typ == TypeNS:
		a.Set = a.Zone.NS
		a.Additional = t.layout.zones[n.zone].glue
	default:
		a.Set = n.set(typ)
	}
	if a.Set != nil {
		a.Kind = NoError
	}
}

// routes reports whether the service answers a type by its rotation.
func (s *service) routes(typ uint16) bool {
	return typ == TypeA || typ == TypeAAAA || typ == TypeHTTPS && s.https != nil
}

func (s *service) pool(typ uint16) *pool {
	switch typ {
	case TypeAAAA:
		return &s.v6
	case TypeHTTPS:
		return s.https
	}
	return &s.v4
}

// routed answers with the addresses of a service.
func (tr *Trace) routed(s *service) {
	q, a := &tr.query, &tr.answer
	tr.service = s
	if s.stale(q, a) {
		return
	}
	p := s.pool(q.Type)
	pl, scope := tr.table.planOf(s, p, q)
	tr.pool, tr.plan = p, pl
	a.Kind, a.AllDown, a.Scope = pl.kind, pl.allDown, scope
	if pl.kind != NoError {
		if s.side != nil && pl.kind == ServFail {
			a.Withheld = s.side.why()
		}
		return
	}
	a.Set, a.Clusters = p.pick(pl, q)
}

// stale says what a node that is cut off says of a service, and reports whether that
// is all it says.
func (s *service) stale(q *Query, a *Answer) bool {
	a.Service = s.name
	after := s.onStale.After.D()
	if after <= 0 || q.Stale <= after {
		return false
	}
	a.Stale = true
	switch s.onStale.Answer {
	case statestore.StaleServFail:
		a.Kind = ServFail
		return true
	case statestore.StaleRefuse:
		a.Kind = Refused
		return true
	}
	return false
}

// port answers with the SRV record of a service: it is there while the service
// answers anybody.
func (tr *Trace) port(s *service) {
	a := &tr.answer
	tr.service = s
	if s.stale(&tr.query, a) {
		return
	}
	if d := s.side; d != nil && d.cluster(s.onStale.Answer) == "" {
		if a.Kind = d.kind(s.onStale.Answer); a.Kind == ServFail {
			a.Withheld = d.why()
		}
		return
	}
	a.Kind, a.Set = NoError, s.srv
}
