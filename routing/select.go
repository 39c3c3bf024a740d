package routing

import (
	"slices"
	"strings"

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

// run fills in the answer (RFC 1034 4.3.2).
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
		if n != nil && q.Type == TypeDS && n.above != nil && n.name == name {
			n, zone = n.above, n.above.zone // the upper zone answers for the DS (RFC 4035 3.1.4.1)
			if n.over != nil {
				n = n.over
			}
		}
		a.Owner, a.Zone, a.Wild = name, t.Zones[zone], ""
		tr.node, tr.wild = n, wild
		switch {
		case n == nil:
			a.Kind = NameError
			return
		case n.cut != nil && (q.Type != TypeDS || n.name != name):
			tr.delegated(n)
			return
		case n.rename != "" && n.name != name:
			if name = tr.renamed(n); name == "" {
				return
			}
			if q.Type == TypeCNAME { // the alias made is the answer, and not followed
				a.Owner, a.Wild = name, ""
				return
			}
		case n.target == "" || q.Type == TypeCNAME || q.Type == TypeANY:
			if wild {
				a.Wild = n.name
			}
			tr.at(n)
			return
		default:
			alias := Alias{Owner: name, Set: n.sets[0]}
			if wild {
				alias.Wild = n.name
			}
			a.Chain, a.Kind = append(a.Chain, alias), NoError
			name = n.target
		}
		if tr.links() >= maxChain || slices.ContainsFunc(a.Chain, func(c Alias) bool { return c.Owner == name && c.Set.Type == TypeCNAME }) {
			a.Owner, a.Wild = name, ""
			return
		}
	}
}

// links is how many CNAMEs were followed.
func (tr *Trace) links() (n int) {
	for _, c := range tr.answer.Chain {
		if c.Set.Type == TypeCNAME {
			n++
		}
	}
	return n
}

// delegated refers to the name servers of a child zone (RFC 1034 4.3.2 3b).
func (tr *Trace) delegated(n *node) {
	a := &tr.answer
	a.Kind, a.Owner, a.Set, a.DS, a.Additional = Delegation, n.name, n.cut.ns, n.cut.ds, n.cut.glue
}

// renamed follows a DNAME: it and the CNAME made from it become links of the chain
// (RFC 6672 3.1). It returns the new name, or "" where that would be too long.
func (tr *Trace) renamed(n *node) string {
	a := &tr.answer
	set := n.set(TypeDNAME)
	a.Chain = append(a.Chain, Alias{Owner: n.name, Set: set})
	to := strings.TrimSuffix(a.Owner, n.name) + n.rename
	if n.rename == "." {
		to = strings.TrimSuffix(a.Owner, n.name)
	}
	wire, err := packName(nil, to)
	if err != nil {
		a.Kind = NameTooLong
		return ""
	}
	a.Kind = NoError
	a.Chain = append(a.Chain, Alias{Owner: a.Owner, Set: &RRset{Type: TypeCNAME, TTL: set.TTL, Rdata: [][]byte{wire}, Text: []string{to}}})
	return to
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
