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
	if err := c.check(); err != nil {
		return record{}, err
	}
	spec := st.Spec.Resolved(c.Cluster, c.Addrs)
	next := spec.Clusters[c.Cluster]
	detail := ResolveDetail{Hostname: c.Hostname, Addrs: c.Addrs}
	detail.Added, detail.Removed = notIn(next.Endpoints(), old.Endpoints()), notIn(old.Endpoints(), next.Endpoints())
	if len(detail.Added) == 0 && len(detail.Removed) == 0 {
		return record{}, nil
	}
	if err := st.checkStateful(spec); err != nil {
		return record{}, err
	}
	prior := *st
	st.Spec = spec
	st.respec(&prior, at)
	var err error
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

// check refuses addresses that no cluster may have.
func (c ResolveCluster) check() error {
	bad := func(format string, args ...any) error {
		return refuse(ErrInvalid, "cluster %s: addresses of %s: %s", c.Cluster, c.Hostname, fmt.Sprintf(format, args...))
	}
	if len(c.Addrs) == 0 {
		return bad("must not be empty; the last ones stay until there are others")
	}
	v4, v6 := 0, 0
	for i, a := range c.Addrs {
		switch {
		case !a.IsValid() || a.Is4In6() || a.Zone() != "" || a.IsUnspecified() || a.IsMulticast():
			return bad("must be IPv4 or IPv6 addresses of hosts, is %s", a)
		case i > 0 && a.Compare(c.Addrs[i-1]) <= 0:
			return bad("must be sorted and each there once, %s comes after %s", a, c.Addrs[i-1])
		case a.Is4():
			v4++
		default:
			v6++
		}
	}
	if n := max(v4, v6); n > MaxResolved {
		return bad("must be at most %d of a family, is %d", MaxResolved, n)
	}
	return nil
}

// installConcluded checks and installs the rotations that a conclusion of automation
// carries: it may do no more than a Rotate may (G11).
func (st *State) installConcluded(changes []RotationChange, at entry, prior *Spec) ([]RotationDetail, error) {
	for _, ch := range changes {
		if _, ok := st.Services[ch.Service]; !ok {
			return nil, refuse(ErrNotFound, "service %s: not found", ch.Service)
		}
		if err := st.checkFrozen(ch.Service); err != nil {
			return nil, err
		}
		if err := st.checkBounds(ch, at); err != nil {
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
