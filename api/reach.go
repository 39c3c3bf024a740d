package api

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/routing"
	"github.com/quorate/quorate/statestore"
)

const (
	// maxMoves bounds the clients that are listed of a service; all are counted.
	maxMoves = 50

	// maxSample bounds the clients that are asked, regions first, and maxQuestions the
	// questions that they ask together of a table, so that a plan of thousands of
	// services takes no longer than people wait. No fewer than minSample are asked.
	maxSample    = 256
	minSample    = 8
	maxQuestions = 40_000

	// maxObserved bounds the networks that asked for a service lately and are asked for
	// once more: whoever asks more than a two hundredth is among them.
	maxObserved = 200
)

// reach compares what a sample of clients, and those who asked lately, get from two
// tables, for those services of the earlier table that are shown. A service without
// any change is left out; so is one that is new, since nobody was answered before.
func reach(before, after *routing.Table, tr traffic, shown func(service string) bool) apitype.ClientReach {
	old, next := before.State().Spec, after.State().Spec
	services := slices.DeleteFunc(sortedKeys(old.Services), func(name string) bool { return !shown(name) })
	most := maxQuestions / max(1, len(services)) // questions for one service
	clients := sampled(before, after, most)
	out := apitype.ClientReach{Sampled: len(clients), Services: []apitype.ServiceReach{}}
	pickedThen, pickedNow := old.Picks(), next.Picks()
	for _, name := range services {
		was, is := old.Services[name], next.Services[name]
		r := comparison{
			before: before, after: after, name: askedOf(old, next, name),
			types: typesOf(endpoints(old, pickedThen(name)), endpoints(next, pickedNow(name))),
			alike: !was.ByClient() && !is.ByClient(),
			reach: apitype.ServiceReach{Service: name, Moves: []apitype.ClientMove{}},
		}
		for _, client := range clients {
			r.ask(client, 0)
		}
		r.observe(tr, most-len(clients))
		if r.reach.Moved+r.reach.Lost > 0 {
			out.Services = append(out.Services, r.reach)
		}
	}
	return out
}

// comparison asks two tables for one service.
type comparison struct {
	before, after *routing.Table
	name          string
	types         []uint16 // A first
	alike         bool     // every client gets what the first one gets

	asked bool
	last  difference
	reach apitype.ServiceReach
}

// difference is what changes for a client.
type difference struct {
	change        change
	before, after string
	part          float64 // of its queries that get another answer
}

// ask adds a client, and returns what changes for it. percent is its part of the
// queries, if it asked lately.
func (r *comparison) ask(client routing.SampleClient, percent float64) difference {
	if !r.asked || !r.alike {
		r.last, r.asked = r.compare(client), true
	}
	if r.alike && percent > 0 {
		return r.last // it was told already
	}
	r.reach.Sampled++
	switch r.last.change {
	case unchanged:
		return r.last
	case lost:
		r.reach.Lost++
	case moved:
		r.reach.Moved++
	}
	if len(r.reach.Moves) < maxMoves {
		r.reach.Moves = append(r.reach.Moves, apitype.ClientMove{
			Client: client.Name, Region: client.Region, Percent: percent, Before: r.last.before, After: r.last.after,
		})
	}
	return r.last
}

// observe adds the networks that asked lately, most of them at most.
func (r *comparison) observe(tr traffic, most int) {
	sum := tr.service[r.reach.Service]
	if sum == nil || len(sum.networks) == 0 {
		return
	}
	networks := sum.networks[:min(len(sum.networks), maxObserved, max(1, most))]
	o := &apitype.ObservedReach{Seconds: tr.hour.Seconds(), Networks: len(networks), MissingNodes: orEmpty(tr.untold)}
	all := uint64(0)
	for i, n := range sum.networks {
		all += n.Queries
		if i < len(networks) {
			o.Queries += n.Queries
		}
	}
	if o.Queries == 0 {
		return
	}
	o.CoveredPercent = 100 * float64(o.Queries) / float64(max(all, o.Queries))
	for _, n := range networks {
		percent := 100 * float64(n.Queries) / float64(o.Queries)
		switch d := r.ask(r.before.Client(n.Prefix), percent); d.change {
		case lost:
			o.LostPercent += percent
		case moved:
			o.MovedPercent += percent * d.part
		}
	}
	r.reach.Observed = o
}

// change is what becomes of a client's answer.
type change uint8

const (
	unchanged change = iota
	moved
	lost // it had one, and has none
)

// compare asks both tables for a client, and tells the first difference.
func (r *comparison) compare(client routing.SampleClient) difference {
	for _, typ := range r.types {
		was, wasKind := r.before.Shares(r.name, typ, client)
		is, isKind := r.after.Shares(r.name, typ, client)
		if wasKind == isKind && slices.Equal(was, is) {
			continue
		}
		d := difference{change: moved, before: sharesText(was, wasKind), after: sharesText(is, isKind), part: 1}
		switch {
		case wasKind == routing.NoError && isKind != routing.NoError:
			d.change = lost
		case wasKind == routing.NoError:
			d.part = movedPart(was, is)
		}
		return d
	}
	return difference{}
}

// movedPart is the part of the answers that name a cluster less than before: 0 to 1.
func movedPart(was, is []routing.Share) float64 {
	less, all := 0.0, 0.0
	for _, s := range was {
		now := 0.0
		for _, o := range is {
			if o.Cluster == s.Cluster {
				now = o.Percent
			}
		}
		less, all = less+max(0, s.Percent-now), all+s.Percent
	}
	if all == 0 {
		return 1 // there was no answer that named one
	}
	return less / all
}

// sampled are the clients that stand for the regions and networks of either table,
// regions first, no more than most unless that is very few.
func sampled(before, after *routing.Table, most int) []routing.SampleClient {
	clients := slices.Clone(routing.Sample(before))
	known := make(map[string]bool, len(clients))
	for _, c := range clients {
		known[c.Name] = true
	}
	for _, c := range routing.Sample(after) {
		if !known[c.Name] {
			clients = append(clients, c)
		}
	}
	return clients[:min(len(clients), maxSample, max(minSample, most))]
}

// askedOf is the name that clients are supposed to ask of a service: one that it
// keeps, if there is any.
func askedOf(old, next *statestore.Spec, service string) string {
	svc := old.Services[service]
	asked := ""
	for _, n := range svc.Names {
		full := fqdn(n, svc.Zone)
		if asked == "" {
			asked = full
		}
		if now := next.Services[service]; now != nil && slices.ContainsFunc(now.Names, func(m string) bool { return fqdn(m, now.Zone) == full }) {
			return full
		}
	}
	return asked
}

// endpoints are the addresses of some clusters.
func endpoints(sp *statestore.Spec, clusters []string) []netip.Addr {
	var out []netip.Addr
	for _, c := range clusters {
		out = append(append(out, sp.Clusters[c].IPv4...), sp.Clusters[c].IPv6...)
	}
	return out
}

// typesOf are the address types that are answered with any of the addresses: A first.
func typesOf(addresses ...[]netip.Addr) []uint16 {
	var types []uint16
	all := slices.Concat(addresses...)
	if slices.ContainsFunc(all, netip.Addr.Is4) {
		types = append(types, routing.TypeA)
	}
	if slices.ContainsFunc(all, netip.Addr.Is6) {
		types = append(types, routing.TypeAAAA)
	}
	return types
}

// sharesText says what a client gets: clusters, with their parts where it is not all
// of the answers, or the response code.
func sharesText(shares []routing.Share, kind routing.Kind) string {
	if kind != routing.NoError || len(shares) == 0 {
		return kind.String()
	}
	parts := make([]string, len(shares))
	for i, s := range shares {
		parts[i] = cmp.Or(s.Cluster, string(statestore.Sorry))
		if s.Percent < 99.5 {
			parts[i] += fmt.Sprintf(" %.0f%%", s.Percent)
		}
	}
	return strings.Join(parts, ", ")
}
