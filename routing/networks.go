package routing

import (
	"cmp"
	"net/netip"
	"slices"
	"sort"

	"github.com/quorate/quorate/routing/geo"
)

// network is a network of one thing: a place, or a cluster.
type network struct {
	prefix netip.Prefix
	of     int
}

// cut makes the spans: every address is in exactly one network of it, and a network
// is as wide as it can be with one class. The length of the network that holds an
// address is therefore the right scope of what its class is answered.
func (m *mapper) cut() {
	leaves4, leaves6 := m.leaves()
	cidrs4, cidrs6 := m.cidrs()
	for _, family := range []struct {
		all           netip.Prefix
		leaves, cidrs []network
	}{
		{netip.PrefixFrom(netip.IPv4Unspecified(), 0), leaves4, cidrs4},
		{netip.PrefixFrom(netip.IPv6Unspecified(), 0), leaves6, cidrs6},
	} {
		if n, one := m.cutUp(family.all, family.leaves, family.cidrs, nowhere); one {
			m.insert(family.all, n)
		}
	}
}

func (m *mapper) leaves() (four, six []network) {
	for p, place := range m.out.from.geo.All() {
		if p.Addr().Is4() {
			four = append(four, network{p, place})
		} else {
			six = append(six, network{p, place})
		}
	}
	return four, six
}

// cidrs returns the clusters' networks, sorted and disjoint: of two that overlap,
// which plan refuses, the wider one counts.
func (m *mapper) cidrs() (four, six []network) {
	var all []network
	for i, cl := range m.out.from.clusters {
		for _, p := range cl.cidrs {
			if p.Addr().Is4In6() && p.Bits() >= 96 {
				p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
			}
			if p = p.Masked(); p.IsValid() {
				all = append(all, network{p, i})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b network) int {
		return cmp.Or(a.prefix.Addr().Compare(b.prefix.Addr()), cmp.Compare(a.prefix.Bits(), b.prefix.Bits()))
	})
	for _, n := range all {
		to := &six
		if n.prefix.Addr().Is4() {
			to = &four
		}
		if last := len(*to) - 1; last >= 0 && (*to)[last].prefix.Overlaps(n.prefix) {
			continue
		}
		*to = append(*to, n)
	}
	return four, six
}

// cutUp inserts the networks inside p, unless all of p has one class: that is
// returned, so that the caller can join it with its other half. Leaves and cidrs are
// those inside p; place is that of a leaf around p.
func (m *mapper) cutUp(p netip.Prefix, leaves, cidrs []network, place int) (n uint32, one bool) {
	if len(leaves) > 0 && leaves[0].prefix == p {
		place, leaves = leaves[0].of, nil
	}
	switch {
	case len(cidrs) > 0 && cidrs[0].prefix == p && len(leaves) == 0:
		return m.class(cidrs[0].of, place), true
	case len(cidrs) > 0 && cidrs[0].prefix == p:
		return m.cutCluster(p, leaves, cidrs[0].of, place)
	case len(cidrs) == 0 && len(leaves) == 0:
		return m.class(nobody, place), true
	}
	low, high := geo.Halves(p)
	l, c := before(leaves, high), before(cidrs, high)
	a, whole := m.cutUp(low, leaves[:l], cidrs[:c], place)
	b, also := m.cutUp(high, leaves[l:], cidrs[c:], place)
	return m.join(low, high, a, b, whole, also)
}

// cutCluster is cutUp inside a cluster's network: its clients differ by their places
// alone.
func (m *mapper) cutCluster(p netip.Prefix, leaves []network, cluster, place int) (n uint32, one bool) {
	if len(leaves) > 0 && leaves[0].prefix == p {
		place, leaves = leaves[0].of, nil
	}
	if len(leaves) == 0 {
		return m.class(cluster, place), true
	}
	low, high := geo.Halves(p)
	l := before(leaves, high)
	a, whole := m.cutCluster(low, leaves[:l], cluster, place)
	b, also := m.cutCluster(high, leaves[l:], cluster, place)
	return m.join(low, high, a, b, whole, also)
}

// join makes one of two halves that have one class, or inserts those that are whole.
func (m *mapper) join(low, high netip.Prefix, a, b uint32, whole, also bool) (n uint32, one bool) {
	if whole && also && a == b {
		return a, true
	}
	if whole {
		m.insert(low, a)
	}
	if also {
		m.insert(high, b)
	}
	return 0, false
}

func (m *mapper) insert(p netip.Prefix, n uint32) {
	m.spans = append(m.spans, span{p, located(n<<8 | uint32(p.Bits()))})
	c := m.out.classes[n]
	if c.cluster != "" || c.region == "" {
		return
	}
	if best, ok := m.out.sample[c.region]; !ok || wider(p, best) {
		m.out.sample[c.region] = p
	}
}

// wider prefers IPv4, then the network of more addresses, then the first.
func wider(p, q netip.Prefix) bool {
	if p.Addr().Is4() != q.Addr().Is4() {
		return p.Addr().Is4()
	}
	return p.Bits() < q.Bits()
}

// before counts the networks that lie before p.
func before(list []network, p netip.Prefix) int {
	return sort.Search(len(list), func(i int) bool { return list[i].prefix.Addr().Compare(p.Addr()) >= 0 })
}
