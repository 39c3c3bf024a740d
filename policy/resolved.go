package policy

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/quorate/quorate/statestore"
)

// resolutions returns the address sets that the regions agree on and that are others
// than those in force. Each carries the rotations of the services that it takes an
// address from. A service gets no more than one such entry a round: the next one
// rests on what this one leaves.
func resolutions(st *statestore.State, e electorate) []Proposal {
	var plan []Proposal
	touched := map[string]bool{}
	for _, cluster := range sortedKeys(st.Spec.Clusters) {
		c := st.Spec.Clusters[cluster]
		if c.Hostname == "" {
			continue
		}
		agreed, regions := e.agree(cluster, c)
		if len(agreed) == 0 || sameSet(agreed, c.Endpoints()) {
			continue // the last good set stays; the usual case must cost nothing per service
		}
		addresses, carried := settle(st, cluster, agreed)
		if sameSet(addresses, c.Endpoints()) || slices.ContainsFunc(carried, func(rc statestore.RotationChange) bool { return touched[rc.Service] }) {
			continue
		}
		for _, rc := range carried {
			touched[rc.Service] = true
		}
		plan = append(plan, Proposal{
			Subject: "clusters/" + cluster,
			Reason:  fmt.Sprintf("%s is %s as seen from %s", c.Hostname, joinAddrs(addresses), strings.Join(regions, ", ")),
			Command: statestore.ResolveCluster{Cluster: cluster, Hostname: c.Hostname, Addrs: addresses, Rotations: carried},
		})
	}
	return plan
}

// agree returns the addresses that the cluster's hostname stands for, sorted, and the
// regions that report any. An address comes when a majority of the reporting regions
// see it, and goes when a majority of them do not; a region sees what a majority of
// its reporting observers see. Where voices are level, it stays as it was. No
// addresses: too few regions report, or they agree on none.
func (e electorate) agree(cluster string, c *statestore.Cluster) (addresses []netip.Addr, regions []string) {
	seen := map[netip.Addr]int{}
	missed := map[netip.Addr]int{}
	for _, region := range sortedKeys(e) {
		observers := 0
		by := map[netip.Addr]int{}
		for _, a := range c.Endpoints() {
			by[a] = 0 // so that it can be missed
		}
		for _, m := range e[region] {
			r, ok := m.Resolved[cluster]
			if !ok || r.Hostname != c.Hostname || len(r.Addrs) == 0 {
				continue
			}
			observers++
			for _, a := range unique(r.Addrs) {
				by[a]++
			}
		}
		if observers == 0 {
			continue
		}
		regions = append(regions, region)
		for a, n := range by {
			switch {
			case 2*n > observers:
				seen[a]++
			case 2*n < observers:
				missed[a]++
			}
		}
	}
	if !e.enough(len(regions)) {
		return nil, regions
	}
	had := c.Endpoints()
	for _, a := range had {
		if 2*missed[a] <= len(regions) {
			addresses = append(addresses, a)
		}
	}
	came := slices.SortedFunc(maps.Keys(seen), netip.Addr.Compare)
	for _, a := range came {
		if 2*seen[a] > len(regions) && !slices.Contains(had, a) {
			addresses = append(addresses, a)
		}
	}
	return limited(addresses), regions
}

// unique returns the addresses that may be answered, each once.
func unique(addresses []netip.Addr) []netip.Addr {
	var out []netip.Addr
	for _, a := range addresses {
		a = a.Unmap()
		if a.IsValid() && a.Zone() == "" && !a.IsUnspecified() && !a.IsMulticast() && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

// limited returns the first addresses of each family, sorted: those that stay before
// those that come.
func limited(addresses []netip.Addr) []netip.Addr {
	var out []netip.Addr
	n := map[bool]int{}
	for _, a := range addresses {
		if n[a.Is4()]++; n[a.Is4()] <= statestore.MaxResolved {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}

// settle returns the addresses to commit and the rotations of the services whose
// rotation does not stand with them. What may not change now (a person froze the
// service, or the change budget is spent) keeps its addresses: they are dropped once
// it may.
func settle(st *statestore.State, cluster string, agreed []netip.Addr) ([]netip.Addr, []statestore.RotationChange) {
	held := agreed
	for range len(st.Spec.Services) + 1 { // each round holds another service, or ends
		next := *st
		next.Spec = st.Spec.Resolved(cluster, held)
		v := view{st: st, spec: next.Spec}
		var carried []statestore.RotationChange
		causes := recentLosses(st)
		var keep []netip.Addr
		for _, service := range servicesOf(st, []string{cluster}) {
			if next.Stands(service) == nil {
				continue
			}
			rc, last := v.rotation(service), v.last(service)
			counted, covered := charge(st, causes, lost(st, rc, last))
			if _, frozen := st.Frozen(service); frozen || !covered {
				keep = append(keep, answered(last, cluster)...)
				continue
			}
			causes = counted
			carried = append(carried, rc)
		}
		with := limited(slices.Concat(keep, slices.DeleteFunc(slices.Clone(held), func(a netip.Addr) bool { return slices.Contains(keep, a) })))
		if len(keep) == 0 || sameSet(with, held) {
			return held, carried
		}
		held = with
	}
	return held, nil
}

// answered returns the cluster's endpoints that a rotation answers with.
func answered(r statestore.Rotation, cluster string) []netip.Addr {
	var all []netip.Addr
	for _, s := range slices.Concat(r.V4.Shares, r.V6.Shares) {
		if s.Cluster == cluster {
			all = append(all, s.Endpoints...)
		}
	}
	return all
}

func sameSet(a, b []netip.Addr) bool {
	sorted := func(s []netip.Addr) []netip.Addr {
		return slices.Compact(slices.SortedFunc(slices.Values(s), netip.Addr.Compare))
	}
	return slices.Equal(sorted(a), sorted(b))
}

func joinAddrs(addresses []netip.Addr) string {
	texts := make([]string, len(addresses))
	for i, a := range addresses {
		texts[i] = a.String()
	}
	return strings.Join(texts, ", ")
}
