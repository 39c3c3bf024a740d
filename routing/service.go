package routing

import (
	"cmp"
	"net/netip"
	"time"

	"github.com/quorate/quorate/statestore"
)

// service is the prepared answers of one service. It is immutable and shared by
// all tables in which nothing about the service changed.
type service struct {
	name     string
	policy   statestore.PolicyType
	onStale  statestore.OnStale
	changing bool   // the TTL is that of a service with a suspect target or an open cutover
	rotation uint64 // number
	side     *side  // nil: stateless
	records  int    // in one answer of each type, at most
	view     *view
	v4, v6   pool
	https    *pool  // nil: no HTTPS records
	srv      *RRset // nil: no SRV record
}

// maker prepares the answers of one service.
type maker struct {
	name    string
	sp      *statestore.Spec
	spec    *statestore.Service
	view    *view
	latency map[string]map[netip.Addr]statestore.Duration
	weights map[string]int // by candidate; nil until somebody asks
	service *service
}

// makeService prepares the answers of a service. A service that was never judged
// counts as one without a rotation.
func (t *Table) makeService(name string, v *view) *service {
	sp, run := t.state.Spec, t.state.Services[name]
	spec := sp.Services[name]
	if run == nil {
		run = &statestore.ServiceState{}
	}
	changing := t.state.Suspect(name) || run.Ownership != nil && run.Ownership.Open != ""
	s := &service{name: name, policy: spec.Policy.Type, onStale: spec.OnStale, changing: changing, rotation: run.Rotation.Number, view: v}
	s.side = sideOf(spec, run, t.local, name)
	m := &maker{name: name, sp: sp, spec: spec, view: v, latency: t.state.Latency, service: s}
	s.v4 = m.pool(TypeA, run.Rotation.V4)
	s.v6 = m.pool(TypeAAAA, run.Rotation.V6)
	s.records = s.v4.records() + s.v6.records()
	if spec.HTTPSRecord != nil {
		https := m.pool(TypeHTTPS, bothFamilies(run.Rotation.V4, run.Rotation.V6))
		s.https = &https
		s.records += https.records()
	}
	s.srv = srvSet(spec)
	return s
}

func (m *maker) pool(typ uint16, from statestore.Pool) pool {
	if m.service.side != nil {
		return m.ownedPool(typ, from)
	}
	return m.sharedPool(typ, from)
}

// ttl is that of answers that name a cluster; "" is none.
func (m *maker) ttl(cluster string) uint32 {
	ttl := m.spec.TTL
	if o := m.spec.Overrides[cluster]; o != nil && o.TTL != nil {
		ttl = *o.TTL
	}
	if m.service.changing {
		return seconds(ttl.Changing)
	}
	return seconds(ttl.Normal)
}

// set prepares the records of a type for some addresses, or nil where none fits.
func (m *maker) set(typ uint16, cluster string, addrs []netip.Addr) *RRset {
	if typ == TypeHTTPS {
		return httpsSet(m.ttl(cluster), m.spec.HTTPSRecord.ALPN, addrs, m.spec.Answer.Addresses)
	}
	return addressSet(typ, m.ttl(cluster), addrs, m.spec.Answer.Addresses)
}

// addresses are a cluster's that records of a type are made of.
func addresses(cl *statestore.Cluster, typ uint16) []netip.Addr {
	switch {
	case cl == nil:
		return nil
	case typ == TypeAAAA:
		return cl.IPv6
	case typ == TypeHTTPS:
		return cl.Endpoints()
	}
	return cl.IPv4
}

// offers returns all candidates' addresses that records of a type are made of, in
// policy order.
func (m *maker) offers(typ uint16) []statestore.Share {
	var shares []statestore.Share
	for _, c := range m.view.candidates {
		if addrs := addresses(m.sp.Clusters[c], typ); len(addrs) > 0 {
			shares = append(shares, statestore.Share{Cluster: c, Weight: m.weight(c), Endpoints: addrs})
		}
	}
	return shares
}

// weight is a cluster's while no rotation says one: what policy would give it, but
// for what clusters report, since a report by itself changes no table.
func (m *maker) weight(cluster string) int {
	if m.weights == nil {
		m.weights = m.sp.Weights(m.name, m.view.candidates, func(string) (int, bool) { return 0, false })
	}
	return m.weights[cluster]
}

// bothFamilies is the part of a rotation that HTTPS records name. A family that has
// something up is not mixed with one that has not.
func bothFamilies(v4, v6 statestore.Pool) statestore.Pool {
	up4, up6 := v4.AllDown == "" && len(v4.Shares) > 0, v6.AllDown == "" && len(v6.Shares) > 0
	switch {
	case up4 && !up6:
		return v4
	case up6 && !up4:
		return v6
	}
	out := statestore.Pool{AllDown: cmp.Or(v4.AllDown, v6.AllDown)}
	for _, sh := range v4.Shares {
		for _, o := range v6.Shares {
			if o.Cluster == sh.Cluster {
				sh.Endpoints = append(sh.Endpoints[:len(sh.Endpoints):len(sh.Endpoints)], o.Endpoints...)
			}
		}
		out.Shares = append(out.Shares, sh)
	}
	for _, sh := range v6.Shares {
		if !hasCluster(v4.Shares, sh.Cluster) {
			out.Shares = append(out.Shares, sh)
		}
	}
	return out
}

func hasCluster(shares []statestore.Share, cluster string) bool {
	for _, sh := range shares {
		if sh.Cluster == cluster {
			return true
		}
	}
	return false
}

// same reports whether two preparations of a service answer every query alike.
func (s *service) same(o *service) bool {
	return s.name == o.name && s.policy == o.policy && s.onStale == o.onStale && s.changing == o.changing &&
		s.rotation == o.rotation && s.records == o.records && s.view == o.view && sameSide(s.side, o.side) &&
		s.v4.same(&o.v4) && s.v6.same(&o.v6) && sameSet(s.srv, o.srv) &&
		(s.https == nil) == (o.https == nil) && (s.https == nil || s.https.same(o.https))
}

func sameSet(a, b *RRset) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.TTL == b.TTL && a.Text[0] == b.Text[0]
}

func seconds(d statestore.Duration) uint32 {
	return uint32(min(max(0, d.D()/time.Second), 1<<31-1)) // RFC 2181 8: 31 bits
}
