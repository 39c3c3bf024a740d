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
)

// reach compares what a sample of clients gets from two tables, for those services
// of the earlier table that are shown. A service without any change is left out; so
// is one that is new, since nobody was answered before.
func reach(before, after *routing.Table, shown func(service string) bool) apitype.ClientReach {
	old, next := before.State().Spec, after.State().Spec
	services := slices.DeleteFunc(sortedKeys(old.Services), func(name string) bool { return !shown(name) })
	clients := sampled(before, after, len(services))
	out := apitype.ClientReach{Sampled: len(clients), Services: []apitype.ServiceReach{}}
	pickedThen, pickedNow := old.Picks(), next.Picks()
	for _, name := range services {
		asked := asking{name: askedOf(old, next, name), types: typesOf(endpoints(old, pickedThen(name)), endpoints(next, pickedNow(name)))}
		was, is := old.Services[name], next.Services[name]
		alike := !was.ByClient() && !is.ByClient()
		sr := apitype.ServiceReach{Service: name, Moves: []apitype.ClientMove{}}
		var m apitype.ClientMove
		var c change
		for i, client := range clients {
			if i == 0 || !alike { // else they all get what the first one gets
				m, c = compared(before, after, asked, client)
			}
			switch c {
			case unchanged:
				continue
			case lost:
				sr.Lost++
			case moved:
				sr.Moved++
			}
			if len(sr.Moves) < maxMoves {
				m.Client, m.Region = client.Name, client.Region
				sr.Moves = append(sr.Moves, m)
			}
		}
		if sr.Moved+sr.Lost > 0 {
			out.Services = append(out.Services, sr)
		}
	}
	return out
}

// change is what becomes of a client's answer.
type change uint8

const (
	unchanged change = iota
	moved
	lost // it had one, and has none
)

// compared asks both tables for a client, and tells the first difference.
func compared(before, after *routing.Table, asked asking, client routing.SampleClient) (apitype.ClientMove, change) {
	for _, typ := range asked.types {
		was, wasKind := before.Shares(asked.name, typ, client)
		is, isKind := after.Shares(asked.name, typ, client)
		if wasKind == isKind && slices.Equal(was, is) {
			continue
		}
		m := apitype.ClientMove{Before: sharesText(was, wasKind), After: sharesText(is, isKind)}
		if wasKind == routing.NoError && isKind != routing.NoError {
			return m, lost
		}
		return m, moved
	}
	return apitype.ClientMove{}, unchanged
}

// sampled are the clients that stand for the regions and networks of either table,
// regions first, fewer where there are many services to ask for.
func sampled(before, after *routing.Table, services int) []routing.SampleClient {
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
	limit := min(maxSample, max(minSample, maxQuestions/max(1, services)))
	return clients[:min(len(clients), limit)]
}

// asking is what the clients ask for of a service: A first.
type asking struct {
	name  string
	types []uint16
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
