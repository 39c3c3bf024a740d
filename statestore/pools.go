package statestore

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/quorate/quorate/health"
)

// strictness says how much of a rotation is held against the state.
type strictness int

const (
	structural strictness = iota // of the spec alone: an older rotation that still stands
	judged                       // and nothing in it drained or down: one that is made now
)

// checkPools refuses a rotation that names what is not there, or nothing (G5).
func (st *State) checkPools(ch RotationChange, how strictness) error {
	candidates := st.Spec.Candidates(ch.Service)
	if o := st.Ownership(ch.Service); o != nil {
		if err := st.checkActive(ch, o.Active, how); err != nil {
			return err
		}
		candidates = []string{o.Active}
	}
	if how == judged {
		if err := st.checkPin(ch); err != nil {
			return err
		}
	}
	if err := st.checkPool(ch.Service, "v4", ch.V4, candidates, ipv4, how); err != nil {
		return err
	}
	return st.checkPool(ch.Service, "v6", ch.V6, candidates, ipv6, how)
}

// ipv4 and ipv6 return a cluster's addresses of one family.
func ipv4(c *Cluster) []netip.Addr { return c.IPv4 }
func ipv6(c *Cluster) []netip.Addr { return c.IPv6 }

// AllSpill is the Spill, in percent, of a cluster that keeps no client.
const AllSpill = 100

func (st *State) checkPool(service, family string, p Pool, candidates []string, addrs func(*Cluster) []netip.Addr, how strictness) error {
	s := st.Spec.Services[service]
	bad := func(format string, args ...any) error {
		return refuse(ErrInvalid, "service %s: rotation %s: %s", service, family, fmt.Sprintf(format, args...))
	}
	possible := slices.ContainsFunc(candidates, func(n string) bool { return len(addrs(st.Spec.Clusters[n])) > 0 })
	if p.AllDown != "" && p.AllDown != s.OnAllDown.Mode {
		return bad("says %s, the service's on_all_down is %s", p.AllDown, s.OnAllDown.Mode)
	}
	// Only a mode the owner chose answers without a cluster.
	bare := p.AllDown == NoData || p.AllDown == ServFail || p.AllDown == Sorry
	if len(p.Shares) == 0 && possible && !bare {
		return refuse(ErrEmptyRotation, "service %s: rotation %s: must not be empty, %s has an address", service, family, strings.Join(candidates, " or "))
	}
	weight, full := 0, 0
	var seen []string
	for _, sh := range p.Shares {
		switch {
		case !slices.Contains(candidates, sh.Cluster):
			return bad("%s is no candidate", sh.Cluster)
		case slices.Contains(seen, sh.Cluster):
			return bad("%s is there twice", sh.Cluster)
		case sh.Weight < 0:
			return bad("%s has the weight %d", sh.Cluster, sh.Weight)
		case sh.Spill < 0 || sh.Spill > AllSpill:
			return bad("%s has the spill %d, it must be 0 to %d", sh.Cluster, sh.Spill, AllSpill)
		case len(sh.Endpoints) == 0:
			return refuse(ErrEmptyRotation, "service %s: rotation %s: %s has no endpoint", service, family, sh.Cluster)
		}
		seen = append(seen, sh.Cluster)
		weight += sh.Weight
		if sh.Spill == AllSpill {
			full++
		}
		for i, addr := range sh.Endpoints {
			if !slices.Contains(addrs(st.Spec.Clusters[sh.Cluster]), addr) {
				return bad("%s is no endpoint of %s", addr, sh.Cluster)
			}
			if slices.Contains(sh.Endpoints[:i], addr) {
				return bad("%s is there twice", addr)
			}
		}
		if how == judged && p.AllDown == "" && st.Ownership(service) == nil {
			if err := st.checkShare(service, family, sh); err != nil {
				return err
			}
		}
	}
	switch {
	case len(p.Shares) == 0:
	case s.Policy.Type != Failover && weight == 0: // Equals share by weight, under each policy but failover.
		return bad("no cluster has a weight")
	case full == len(p.Shares):
		return bad("every cluster sends all of its clients on")
	}
	if how == judged && p.AllDown != "" {
		for _, n := range candidates {
			if st.anyIs(health.Up, service, n, addrs) && !st.Clusters[n].Drain.Covers(service) {
				return refuse(ErrStale, "service %s: rotation %s: says %s, but %s is up", service, family, p.AllDown, n)
			}
		}
	}
	return nil
}

// checkShare refuses a share that answers with what is drained or down now.
func (st *State) checkShare(service, family string, sh Share) error {
	if st.Clusters[sh.Cluster].Drain.Covers(service) {
		return refuse(ErrStale, "service %s: rotation %s: %s is drained", service, family, sh.Cluster)
	}
	for _, addr := range sh.Endpoints {
		ts := st.target(health.Target{Service: service, Cluster: sh.Cluster, Endpoint: addr})
		if ts != nil && ts.Verdict.Side == health.Down {
			return refuse(ErrStale, "service %s: rotation %s: %s of %s is down", service, family, addr, sh.Cluster)
		}
	}
	return nil
}

// anyIs reports whether an address of the cluster has that verdict for the service.
func (st *State) anyIs(side health.Side, service, cluster string, addrs func(*Cluster) []netip.Addr) bool {
	return slices.ContainsFunc(addrs(st.Spec.Clusters[cluster]), func(a netip.Addr) bool {
		ts := st.target(health.Target{Service: service, Cluster: cluster, Endpoint: a})
		return ts != nil && ts.Verdict.Side == side
	})
}

func (p Pool) has(cluster string) bool {
	return slices.ContainsFunc(p.Shares, func(s Share) bool { return s.Cluster == cluster })
}

// Equal reports whether two pools answer the same.
func (p Pool) Equal(q Pool) bool {
	return p.AllDown == q.AllDown && slices.EqualFunc(p.Shares, q.Shares, func(a, b Share) bool {
		return a.Cluster == b.Cluster && a.Weight == b.Weight && a.Spill == b.Spill && slices.Equal(a.Endpoints, b.Endpoints)
	})
}
