package statestore

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// ResolveDetail is Event.Detail of "cluster.resolved".
type ResolveDetail struct {
	Hostname  string           `json:"hostname"`
	Addrs     []netip.Addr     `json:"addrs"`
	Added     []netip.Addr     `json:"added,omitempty"`
	Removed   []netip.Addr     `json:"removed,omitempty"`
	Rotations []RotationDetail `json:"rotations,omitempty"`
}

func (c ResolveCluster) apply(st *State, at entry) (record, error) {
	old, ok := st.Spec.Clusters[c.Cluster]
	switch {
	case !ok:
		return record{}, refuse(ErrNotFound, "cluster %s: not found", c.Cluster)
	case old.Hostname == "" || old.Hostname != c.Hostname:
		return record{}, refuse(ErrStale, "cluster %s: is named by %q now, not by %q", c.Cluster, old.Hostname, c.Hostname)
	}
	next, err := c.resolved(old)
	if err != nil {
		return record{}, err
	}
	detail := ResolveDetail{Hostname: c.Hostname, Addrs: c.Addrs}
	detail.Added, detail.Removed = notIn(next.Endpoints(), old.Endpoints()), notIn(old.Endpoints(), next.Endpoints())
	if len(detail.Added) == 0 && len(detail.Removed) == 0 {
		return record{}, nil
	}
	spec := *st.Spec
	spec.Clusters = with(spec.Clusters, c.Cluster, next)
	if err := st.checkStateful(&spec); err != nil {
		return record{}, err
	}
	prior := *st
	st.Spec = &spec
	st.respec(&prior, at)
	if detail.Rotations, err = st.installConcluded(c.Rotations, at, prior.Spec); err != nil {
		return record{}, err
	}
	if err := st.standing(); err != nil {
		return record{}, refuse(ErrStale, "cluster %s: %s; the entry must carry a rotation for it", c.Cluster, err)
	}
	st.TableIndex = at.index
	return record{
		kind: "cluster.resolved", subject: "clusters/" + c.Cluster, detail: detail,
		text: fmt.Sprintf("%s (%s) is %s", c.Cluster, c.Hostname, joined(c.Addrs)),
	}, nil
}

// resolved returns the cluster with the addresses of the command.
func (c ResolveCluster) resolved(old *Cluster) (*Cluster, error) {
	bad := func(format string, args ...any) error {
		return refuse(ErrInvalid, "cluster %s: addresses of %s: %s", c.Cluster, c.Hostname, fmt.Sprintf(format, args...))
	}
	if len(c.Addrs) == 0 {
		return nil, bad("must not be empty; the last ones stay until there are others")
	}
	next := *old
	next.IPv4, next.IPv6 = nil, nil
	for i, a := range c.Addrs {
		switch {
		case !a.IsValid() || a.Is4In6() || a.Zone() != "" || a.IsUnspecified() || a.IsMulticast():
			return nil, bad("must be IPv4 or IPv6 addresses of hosts, is %s", a)
		case i > 0 && a.Compare(c.Addrs[i-1]) <= 0:
			return nil, bad("must be sorted and each there once, %s comes after %s", a, c.Addrs[i-1])
		case a.Is4():
			next.IPv4 = append(next.IPv4, a)
		default:
			next.IPv6 = append(next.IPv6, a)
		}
	}
	if n := max(len(next.IPv4), len(next.IPv6)); n > maxResolved {
		return nil, bad("must be at most %d of a family, is %d", maxResolved, n)
	}
	return &next, nil
}

// installConcluded checks and installs the rotations that a conclusion of automation
// carries: it may do no more than a Rotate may (G11).
func (st *State) installConcluded(changes []RotationChange, at entry, prior *Spec) ([]RotationDetail, error) {
	for _, ch := range changes {
		if _, ok := st.Services[ch.Service]; !ok {
			return nil, refuse(ErrNotFound, "service %s: not found", ch.Service)
		}
		if f, ok := st.Frozen(ch.Service); ok {
			return nil, refuse(ErrFrozen, "service %s: automation is frozen by %s: %s", ch.Service, f.By, f.Reason)
		}
		if err := st.checkFloor(ch); err != nil {
			return nil, err
		}
		if err := st.chargeBudget(ch, at); err != nil {
			return nil, err
		}
	}
	return st.installRotations(changes, at, prior)
}

// notIn returns the addresses of a that are not in b.
func notIn(a, b []netip.Addr) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(a), func(addr netip.Addr) bool { return slices.Contains(b, addr) })
}

func joined(addrs []netip.Addr) string {
	var texts []string
	for _, a := range addrs {
		texts = append(texts, a.String())
	}
	return strings.Join(texts, ", ")
}
