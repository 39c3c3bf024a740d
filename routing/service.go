package routing

import (
	"math/bits"
	"net/netip"
	"slices"
	"sort"
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
	records  int    // in one answer of each family, at most
	v4, v6   pool
}

// pool is the prepared answers of one address family.
type pool struct {
	kind     Kind // NoError, NoData or ServFail; Refused for an unconfirmed service that wants it
	allDown  statestore.AllDownMode
	fallback bool // no rotation was committed: all candidates stand in (G5)
	sorry    bool
	family   bool // a candidate has an address of the family
	picks    []pick
	sums     []uint64 // weighted: running totals of the weights; nil: the first pick always
	clusters int      // clusters in an answer
	limit    int      // addresses in an answer
}

// pick is one cluster's prepared answer.
type pick struct {
	clusters []string // one name; empty for a sorry address
	weight   int
	set      *RRset
}

// makeService prepares the answers of a service. A nil running side counts as one
// without a rotation.
func makeService(name string, sp *statestore.Spec, run *statestore.ServiceState, suspect bool, local Local) *service {
	spec := sp.Services[name]
	if run == nil {
		run = &statestore.ServiceState{}
	}
	changing := suspect || run.Ownership != nil && run.Ownership.Open != ""
	s := &service{name: name, policy: spec.Policy.Type, onStale: spec.OnStale, changing: changing, rotation: run.Rotation.Number}
	s.side = sideOf(spec, run, local, name)
	ttl := seconds(spec.TTL.Normal)
	if changing {
		ttl = seconds(spec.TTL.Changing)
	}
	if s.side != nil {
		s.v4 = s.makeOwnedPool(sp, TypeA, ttl, run.Rotation.V4)
		s.v6 = s.makeOwnedPool(sp, TypeAAAA, ttl, run.Rotation.V6)
	} else {
		s.v4 = makePool(name, sp, TypeA, ttl, run.Rotation.V4)
		s.v6 = makePool(name, sp, TypeAAAA, ttl, run.Rotation.V6)
	}
	s.records = s.v4.records() + s.v6.records()
	return s
}

func makePool(name string, sp *statestore.Spec, typ uint16, ttl uint32, from statestore.Pool) pool {
	spec := sp.Services[name]
	p := pool{allDown: from.AllDown, clusters: max(1, spec.Answer.Clusters), limit: spec.Answer.Addresses}
	all := candidateShares(name, sp, typ)
	p.family = len(all) > 0
	if spec.Policy.Type == statestore.Failover {
		p.clusters = 1 // never a union of groups
	}
	switch {
	case from.AllDown == statestore.NoData && p.family:
		p.kind = NoData
		return p
	case from.AllDown == statestore.ServFail && p.family:
		p.kind = ServFail
		return p
	case from.AllDown == statestore.Sorry && p.family:
		p.kind, p.sorry = NoData, true
		if set := addressSet(typ, ttl, spec.OnAllDown.Sorry, p.limit); set != nil {
			p.kind, p.picks = NoError, []pick{{set: set}}
		}
		return p
	}
	shares := from.Shares
	if len(shares) == 0 && p.family {
		shares, p.fallback = all, true
	}
	for _, sh := range shares {
		if set := addressSet(typ, ttl, sh.Endpoints, p.limit); set != nil {
			p.picks = append(p.picks, pick{clusters: []string{sh.Cluster}, weight: max(0, sh.Weight), set: set})
		}
	}
	if len(p.picks) == 0 {
		p.kind = NoData // no candidate has an address of the family
		return p
	}
	p.kind = NoError
	if spec.Policy.Type != statestore.Failover {
		p.sums = runningSums(p.picks)
	}
	return p
}

// candidateShares returns all candidates' addresses of a family, in policy order.
func candidateShares(name string, sp *statestore.Spec, typ uint16) []statestore.Share {
	spec := sp.Services[name]
	names := sp.Candidates(name)
	rank := func(c string) int {
		if i := slices.Index(spec.Policy.Order, c); i >= 0 {
			return i
		}
		return len(spec.Policy.Order)
	}
	slices.SortStableFunc(names, func(a, b string) int { return rank(a) - rank(b) })
	var shares []statestore.Share
	for _, c := range names {
		cl := sp.Clusters[c]
		if cl == nil {
			continue
		}
		addrs := cl.IPv4
		if typ == TypeAAAA {
			addrs = cl.IPv6
		}
		if len(addrs) > 0 {
			shares = append(shares, statestore.Share{Cluster: c, Weight: spec.Policy.Weights[c], Endpoints: addrs})
		}
	}
	return shares
}

// addressSet prepares at most limit addresses of the type's family (0: all), or nil.
func addressSet(typ uint16, ttl uint32, addrs []netip.Addr, limit int) *RRset {
	set := &RRset{Type: typ, TTL: ttl}
	for _, a := range addrs {
		if a = a.Unmap().WithZone(""); a.Is4() != (typ == TypeA) {
			continue
		}
		if limit > 0 && len(set.Rdata) == limit {
			break
		}
		set.Rdata, set.Text = append(set.Rdata, a.AsSlice()), append(set.Text, a.String())
	}
	if len(set.Rdata) == 0 {
		return nil
	}
	return set
}

// runningSums returns the running totals of the weights. When none has a weight,
// all have the same.
func runningSums(picks []pick) []uint64 {
	sums := make([]uint64, len(picks))
	var total uint64
	for i := range picks {
		total += uint64(picks[i].weight)
		sums[i] = total
	}
	if total == 0 {
		for i := range picks {
			sums[i] = uint64(i) + 1
		}
	}
	return sums
}

// pick returns the answer that draw chooses. Only an answer of several clusters allocates.
func (p *pool) pick(draw uint64) pick {
	switch {
	case p.sums == nil || len(p.picks) == 1:
		return p.picks[0]
	case p.clusters == 1:
		return p.picks[drawn(p.sums, draw)]
	}
	return p.pickSeveral(draw)
}

// drawn returns which running total the draw falls below.
func drawn(sums []uint64, draw uint64) int {
	at, _ := bits.Mul64(draw, sums[len(sums)-1]) // uniform in [0, total)
	return sort.Search(len(sums), func(i int) bool { return at < sums[i] })
}

// pickSeveral draws clusters without putting back, then takes their addresses in
// turn, so that the limit leaves each cluster its part.
func (p *pool) pickSeveral(draw uint64) pick {
	left := slices.Clone(p.picks)
	var chosen []pick
	for len(chosen) < p.clusters && len(left) > 0 {
		i := drawn(runningSums(left), draw)
		chosen = append(chosen, left[i])
		left = slices.Delete(left, i, i+1)
		draw = mix(draw)
	}
	out := pick{set: &RRset{Type: chosen[0].set.Type, TTL: chosen[0].set.TTL}}
	for _, c := range chosen {
		out.clusters = append(out.clusters, c.clusters...)
	}
	for i, more := 0, true; more; i++ {
		more = false
		for _, c := range chosen {
			if i >= len(c.set.Rdata) || (p.limit > 0 && len(out.set.Rdata) == p.limit) {
				continue
			}
			out.set.Rdata = append(out.set.Rdata, c.set.Rdata[i])
			out.set.Text = append(out.set.Text, c.set.Text[i])
			more = true
		}
	}
	return out
}

// mix turns one draw into the next (splitmix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb
	return x ^ (x >> 31)
}

// same reports whether two preparations of a service answer every query alike.
func (s *service) same(o *service) bool {
	return s.name == o.name && s.policy == o.policy && s.onStale == o.onStale && s.changing == o.changing &&
		s.rotation == o.rotation && sameSide(s.side, o.side) && s.v4.same(&o.v4) && s.v6.same(&o.v6)
}

func (p *pool) same(o *pool) bool {
	return p.kind == o.kind && p.allDown == o.allDown && p.fallback == o.fallback && p.sorry == o.sorry && p.family == o.family &&
		p.clusters == o.clusters && p.limit == o.limit && slices.Equal(p.sums, o.sums) &&
		slices.EqualFunc(p.picks, o.picks, func(a, b pick) bool {
			return a.weight == b.weight && slices.Equal(a.clusters, b.clusters) && a.set.TTL == b.set.TTL && slices.Equal(a.set.Text, b.set.Text)
		})
}

// records is how many records one answer of the pool has at most.
func (p *pool) records() int {
	n := 0
	for _, pk := range p.picks {
		n = max(n, len(pk.set.Rdata))
	}
	return n
}

func seconds(d statestore.Duration) uint32 {
	return uint32(min(max(0, d.D()/time.Second), 1<<31-1)) // RFC 2181 8: 31 bits
}
