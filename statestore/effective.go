package statestore

import (
	"maps"
	"net/netip"
	"slices"
)

// MaxResolved is the most addresses of a family that a hostname may stand for. Each
// is a target of every service there, and an answer holds few.
const MaxResolved = 16

// WithAddresses returns the spec with the addresses that from has for the clusters
// that are named by the same hostname in both: the effective spec of one as people
// write it. A hostname that from does not know has none. The receiver itself is
// returned when that changes nothing.
func (sp *Spec) WithAddresses(from *Spec) *Spec {
	next := sp
	for name, c := range sp.Clusters {
		if c == nil || c.Hostname == "" {
			continue
		}
		known := Cluster{}
		if old := from.Clusters[name]; old != nil && old.Hostname == c.Hostname {
			known = *old
		}
		if slices.Equal(c.IPv4, known.IPv4) && slices.Equal(c.IPv6, known.IPv6) {
			continue
		}
		if next == sp {
			clone := *sp
			clone.Clusters = maps.Clone(sp.Clusters)
			next = &clone
		}
		named := *c
		named.IPv4, named.IPv6 = known.IPv4, known.IPv6
		next.Clusters[name] = &named
	}
	return next
}

// Resolved returns the spec with other addresses of a cluster, which it must have.
func (sp *Spec) Resolved(cluster string, addrs []netip.Addr) *Spec {
	next, c := *sp, *sp.Clusters[cluster]
	c.IPv4, c.IPv6 = nil, nil
	for _, a := range addrs {
		if a.Is4() {
			c.IPv4 = append(c.IPv4, a)
		} else {
			c.IPv6 = append(c.IPv6, a)
		}
	}
	next.Clusters = with(sp.Clusters, cluster, &c)
	return &next
}

// sameAddresses refuses a spec that was planned with other addresses of a hostname
// than those that are agreed on now: its rotations would not stand. One without any
// was planned with none.
func sameAddresses(planned, effective *Spec) error {
	for _, name := range sortedKeys(planned.Clusters) {
		c := planned.Clusters[name]
		if c == nil || c.Hostname == "" || len(c.IPv4)+len(c.IPv6) == 0 {
			continue
		}
		if now := effective.Clusters[name]; !slices.Equal(c.IPv4, now.IPv4) || !slices.Equal(c.IPv6, now.IPv6) {
			return refuse(ErrStalePlan, "spec: was planned with other addresses of %s (%s); plan again", name, c.Hostname)
		}
	}
	return nil
}

// declared returns the spec as people write it: without the addresses that
// hostnames stand for. A revision keeps it so, since those change without one.
func (sp *Spec) declared() *Spec { return sp.WithAddresses(&Spec{}) }
