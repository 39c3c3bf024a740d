package routing

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/quorate/quorate/statestore"
)

// SampleClient stands for many clients: those of a region, or of a cluster's CIDR.
type SampleClient struct {
	Name   string // "region eu-west", "cluster eu 10.8.0.0/16" or "network 192.0.2.0/24"
	Region string

	// Client and Subnet are an address and network of theirs. Both are zero where none
	// is known: such a client counts as in the region.
	Client netip.Addr
	Subnet netip.Prefix
}

// Query returns the sample's question, with everything but the draw.
func (c SampleClient) Query(name string, typ uint16) Query {
	return Query{Name: name, Type: typ, Client: c.Client, Subnet: c.Subnet}
}

// Sample returns one client for each region, with a network out of the GeoIP file or
// of a cluster there, and one for each CIDR of a cluster. It is sorted: regions
// first, by name.
func Sample(t *Table) []SampleClient {
	var list []SampleClient
	c := t.clients
	for _, region := range c.regions {
		s := SampleClient{Name: "region " + region, Region: region}
		if p, ok := c.network(region); ok {
			s.Subnet, s.Client = p, p.Addr()
		}
		list = append(list, s)
	}
	for _, cl := range c.from.clusters {
		cidrs := slices.Clone(cl.cidrs)
		slices.SortFunc(cidrs, func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) })
		for _, p := range cidrs {
			p = p.Masked()
			list = append(list, SampleClient{Name: "cluster " + cl.name + " " + p.String(), Region: cl.region, Client: p.Addr(), Subnet: p})
		}
	}
	return list
}

// Client is one client of a network, as far as it is known where that is.
func (t *Table) Client(network netip.Prefix) SampleClient {
	s := SampleClient{Name: "network " + network.String(), Client: network.Addr(), Subnet: network}
	s.Region = t.clients.classes[t.clients.find(&Query{Client: s.Client}).class()].region
	return s
}

// network is a network in a region, outside of all clusters' if there is one.
func (c *clients) network(region string) (netip.Prefix, bool) {
	if p, ok := c.sample[region]; ok {
		return p, true
	}
	for _, cl := range c.from.clusters {
		if cl.region == region && len(cl.cidrs) > 0 {
			return cl.cidrs[0].Masked(), true
		}
	}
	return netip.Prefix{}, false
}

// Share is a cluster's part of the answers of some clients.
type Share struct {
	Cluster string  // empty: the sorry address
	Percent float64 // of the answers that name it; together more than 100 where answers name several
}

// Shares returns what clients like c get for a name, over all draws: exactly, by
// counting and not by trying. Sticky clients count as all networks of the sort
// together. The shares are sorted by cluster, none is 0. A name that is no service's
// has none, whatever the kind.
func (t *Table) Shares(name string, typ uint16, c SampleClient) ([]Share, Kind) {
	a, tr := Select(t, c.Query(name, typ))
	if tr.pool == nil {
		return nil, a.Kind
	}
	pl := tr.plan
	if !c.Client.IsValid() && !c.Subnet.IsValid() && tr.pool.byGroup != nil {
		pl = &tr.pool.plans[tr.pool.byGroup[tr.service.view.groupOf(t.clients.inside[c.Region])]]
	}
	if pl.kind != NoError {
		return nil, pl.kind
	}
	sum := &counting{pool: tr.pool, plan: pl, got: make([]float64, len(tr.pool.picks))}
	sum.count(pl.first, nil, nil, nil, 1)
	var shares []Share
	for i, part := range sum.got {
		if part > 0 {
			shares = append(shares, Share{strings.Join(tr.pool.picks[i].clusters, " "), 100 * part})
		}
	}
	slices.SortFunc(shares, func(a, b Share) int { return strings.Compare(a.Cluster, b.Cluster) })
	return shares, NoError
}

// counting adds up, over all ways that pool.walk may go, the part of the draws that
// name each pick.
type counting struct {
	pool *pool
	plan *plan
	got  []float64
}

// count goes on from a point of the walk that part of the draws come to: gone are the
// picks drawn so far, late those of them that spilled, named those in the answer.
func (s *counting) count(ranks []rank, gone, late, named []int, part float64) {
	left, total := s.left(ranks, gone)
	if len(named) == s.pool.clusters || len(left) == 0 {
		for _, i := range late {
			if len(named) < s.pool.clusters {
				named = append(named[:len(named):len(named)], i)
			}
		}
		for _, i := range named {
			s.got[i] += part
		}
		return
	}
	for _, i := range left {
		weight := 1 / float64(len(left))
		if total > 0 {
			weight = float64(s.pool.picks[i].weight) / float64(total)
		}
		if weight == 0 {
			continue
		}
		s.drawn(i, ranks, append(gone[:len(gone):len(gone)], i), late, named, part*weight)
	}
}

// drawn goes on once pick i is drawn, with those of its clients that stay and those
// that spill.
func (s *counting) drawn(i int, ranks []rank, gone, late, named []int, part float64) {
	spill := 0.0
	if rest, _ := s.left(s.plan.then, gone); len(named) == 0 && len(rest) > 0 {
		spill = float64(max(0, s.pool.picks[i].spill)) / statestore.AllSpill
	}
	if spill > 0 {
		s.count(s.plan.then, gone, append(late[:len(late):len(late)], i), named, part*spill)
	}
	if spill < 1 {
		s.count(ranks, gone, late, append(named[:len(named):len(named)], i), part*(1-spill))
	}
}

// left is what is left of the first rank that has something left, and its weight.
func (s *counting) left(ranks []rank, gone []int) (left []int, total uint64) {
	for _, r := range ranks {
		for _, i := range r.picks {
			if !slices.Contains(gone, i) {
				left = append(left, i)
				total += uint64(s.pool.picks[i].weight)
			}
		}
		if len(left) > 0 {
			return left, total
		}
	}
	return nil, 0
}
