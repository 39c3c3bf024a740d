package routing

import (
	"net/netip"

	"github.com/quorate/quorate/routing/geo"
	"github.com/quorate/quorate/statestore"
)

// Local is what a node knows beside the state: what its own disk says. The zero
// value is a node that knows nothing more.
type Local struct {
	// Geo is this node's GeoIP file. Nodes that answer from the same build answer
	// alike. Nil: clients are known by the clusters' CIDRs alone.
	Geo *geo.Index

	// Withheld is why this node answers nobody for a service, by service. It must not
	// answer with an epoch that a restart could take back, nor with a lower one than
	// it has answered with before (G2).
	Withheld map[string]string

	// Active is the cluster that this node itself last answered with, by service. It
	// counts while the service is unconfirmed.
	Active map[string]string
}

// side is what a stateful service answers with, and why nobody is answered.
type side struct {
	active      string
	epoch       uint64
	generation  uint64
	next        uint64 // reserved by the cutover that is under way; 0: none is
	open        string // cutover
	unconfirmed bool
	withheld    string // why this node answers nobody
	known       string // unconfirmed: what this node last answered with; empty: unknown
}

// sideOf returns nil for a stateless service. One that has no active side, which
// Apply never makes, answers nobody.
func sideOf(spec *statestore.Service, run *statestore.ServiceState, local Local, name string) *side {
	o := run.Ownership
	if spec.Stateful == nil && o == nil {
		return nil
	}
	d := &side{withheld: local.Withheld[name]}
	if o == nil {
		return d
	}
	d.active, d.epoch, d.generation, d.next, d.open, d.unconfirmed = o.Active, o.Epoch, o.Generation, o.Next, o.Open, o.Unconfirmed
	if d.unconfirmed {
		d.known = local.Active[name]
	}
	return d
}

// moving reports whether a cutover has taken the active side out of answers.
func (d *side) moving() bool { return d.next > 0 }

// cluster is whose addresses are the answer; empty: nobody's.
func (d *side) cluster(stale statestore.StaleAnswer) string {
	switch {
	case d.moving() || d.withheld != "":
		return ""
	case !d.unconfirmed:
		return d.active
	case d.known != "":
		return d.known
	case stale == statestore.StaleServFail || stale == statestore.StaleRefuse:
		return ""
	}
	return d.active
}

// kind is what is said when nobody is answered.
func (d *side) kind(stale statestore.StaleAnswer) Kind {
	if d.unconfirmed && !d.moving() && d.withheld == "" && stale == statestore.StaleRefuse {
		return Refused
	}
	return ServFail
}

// why says in a few words why nobody is answered.
func (d *side) why() string {
	switch {
	case d.moving():
		return "a cutover is under way"
	case d.unconfirmed:
		return "the active side is not confirmed"
	}
	return "withheld on this node"
}

// ownedPool prepares the one answer of a stateful service: every client gets the
// same cluster, and while nobody may be answered everybody gets the same refusal.
func (m *maker) ownedPool(typ uint16, from statestore.Pool) pool {
	p := pool{typ: typ, clusters: 1, limit: m.spec.Answer.Addresses, family: len(m.offers(typ)) > 0}
	d := m.service.side
	cluster := d.cluster(m.spec.OnStale.Answer)
	pl := plan{kind: NoData} // a resolver that asks for IPv6 in vain must not give up IPv4
	switch {
	case !p.family:
	case cluster == "":
		pl.kind = d.kind(m.spec.OnStale.Answer)
	default:
		if m.addPick(&p, statestore.Share{Cluster: cluster, Endpoints: m.endpoints(typ, cluster, from)}, false) == 0 {
			one := []rank{{picks: []int{0}, sums: []uint64{1}}}
			pl = plan{kind: NoError, first: one, then: one, simple: true}
		}
	}
	p.plans = []plan{pl}
	return p
}

// endpoints are those the rotation names, and never another cluster's: all of the
// cluster's own where the rotation is of another one.
func (m *maker) endpoints(typ uint16, cluster string, from statestore.Pool) []netip.Addr {
	for _, sh := range from.Shares {
		if sh.Cluster == cluster && len(sh.Endpoints) > 0 {
			return sh.Endpoints
		}
	}
	return addresses(m.sp.Clusters[cluster], typ)
}

// sameSide reports whether two sides answer and explain alike.
func sameSide(a, b *side) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// Epoch is how far a table has come with a stateful service.
type Epoch struct {
	Service     string
	Generation  uint64
	Epoch       uint64 // the one reserved, while a cutover is under way
	Active      string // as the state says
	Answers     string // cluster that is answered with; empty: nobody
	Cutover     string // open; empty: none
	Moving      bool   // from the entry that reserved Epoch until it is published or aborted
	Unconfirmed bool
	Withheld    string // why this node answers nobody; empty: it does
}

// Epochs returns the stateful services of the table, sorted by name.
func (t *Table) Epochs() []Epoch {
	var list []Epoch
	for _, s := range t.services.all() {
		if s.side != nil {
			list = append(list, s.epoch())
		}
	}
	return list
}

// Epoch returns how far the table has come with a service; false if it is none of
// the stateful ones.
func (t *Table) Epoch(service string) (Epoch, bool) {
	s := t.service(service)
	if s == nil || s.side == nil {
		return Epoch{}, false
	}
	return s.epoch(), true
}

func (s *service) epoch() Epoch {
	d := s.side
	return Epoch{
		Service: s.name, Generation: d.generation, Epoch: max(d.epoch, d.next), Active: d.active,
		Answers: d.cluster(s.onStale.Answer), Cutover: d.open,
		Moving: d.moving(), Unconfirmed: d.unconfirmed, Withheld: d.withheld,
	}
}
