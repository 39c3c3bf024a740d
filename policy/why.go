package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

// why says, for people, what the rotation changes and because of what.
func (v view) why(rc statestore.RotationChange, candidates []string, last statestore.Rotation) string {
	if last.Number == 0 {
		return "first rotation"
	}
	now, before := poolClusters(rc.V4, rc.V6), poolClusters(last.V4, last.V6)
	slices.Sort(now)
	slices.Sort(before)
	var parts []string
	pin := v.pinOf(rc.Service)
	switch held := v.held(rc.Service); {
	case held && !slices.Equal(now, before):
		parts = append(parts, fmt.Sprintf("pinned to %s by %s: %s", pin.Cluster, pin.By, pin.Reason))
	case pin != nil && !held && slices.Contains(before, pin.Cluster):
		parts = append(parts, fmt.Sprintf("the pin to %s has no effect", pin.Cluster))
	}
	for _, c := range before {
		if slices.Contains(now, c) {
			continue
		}
		if text := v.whyOut(rc.Service, c, candidates); text != "" {
			parts = append(parts, text)
		}
	}
	for _, c := range now {
		if !slices.Contains(before, c) {
			parts = append(parts, c+" joins")
		}
	}
	for _, p := range []struct {
		family    string
		now, last statestore.Pool
	}{{"IPv4", rc.V4, last.V4}, {"IPv6", rc.V6, last.V6}} {
		switch {
		case p.now.AllDown != "" && p.now.AllDown != p.last.AllDown:
			parts = append(parts, "no "+p.family+" candidate is up: "+string(p.now.AllDown))
		case p.now.AllDown == "" && p.last.AllDown != "":
			parts = append(parts, p.family+" has a candidate again")
		}
	}
	if len(parts) == 0 {
		parts = v.whyShares(rc, last)
	}
	if len(parts) == 0 && !sameRotation(rc, last) {
		return "endpoints or weights changed"
	}
	return strings.Join(parts, ", ")
}

// whyOut says why the cluster left the service's answers. It is empty for one that
// is fine and only makes way for the pinned one.
func (v view) whyOut(service, cluster string, candidates []string) string {
	sides := map[health.Side]int{}
	if c := v.spec.Clusters[cluster]; c != nil {
		for _, a := range c.Endpoints() {
			sides[v.verdict(health.Target{Service: service, Cluster: cluster, Endpoint: a}).Side]++
		}
	}
	switch {
	case !slices.Contains(candidates, cluster):
		return cluster + " is no candidate any more"
	case v.drained(cluster, service):
		return cluster + " is drained"
	case sides[health.Up] > 0 && v.held(service):
		return ""
	case sides[health.Up] > 0:
		return fmt.Sprintf("%s has %d of %d endpoints up, min_healthy is %d",
			cluster, sides[health.Up], len(v.spec.Clusters[cluster].Endpoints()), v.spec.Services[service].MinHealthy)
	case sides[health.Down] == 0:
		return cluster + " is not judged yet"
	}
	return cluster + " is down"
}

// whyShares says which clusters take more or fewer clients because of what they
// report, where the same clusters answer as before.
func (v view) whyShares(rc statestore.RotationChange, last statestore.Rotation) []string {
	var parts []string
	said := map[string]bool{}
	for _, p := range []struct{ now, last statestore.Pool }{{rc.V4, last.V4}, {rc.V6, last.V6}} {
		for _, s := range p.now.Shares {
			i := slices.IndexFunc(p.last.Shares, func(o statestore.Share) bool { return o.Cluster == s.Cluster })
			if i < 0 || said[s.Cluster] {
				continue
			}
			was := p.last.Shares[i]
			reported, ok := v.reported(s.Cluster)
			switch {
			case s.Spill > was.Spill:
				parts = append(parts, fmt.Sprintf("%s reports %d of %d and passes %d%% of its clients on", s.Cluster, reported, v.spec.Clusters[s.Cluster].Capacity, s.Spill))
			case s.Spill < was.Spill && s.Spill > 0:
				parts = append(parts, fmt.Sprintf("%s passes only %d%% of its clients on", s.Cluster, s.Spill))
			case s.Spill < was.Spill:
				parts = append(parts, s.Cluster+" keeps its clients again")
			case s.Weight != was.Weight && ok && s.Weight == reported:
				parts = append(parts, fmt.Sprintf("%s reports a capacity of %d", s.Cluster, reported))
			case s.Weight != was.Weight:
				parts = append(parts, fmt.Sprintf("the weight of %s becomes %d", s.Cluster, s.Weight))
			case !slices.Equal(s.Endpoints, was.Endpoints):
				parts = append(parts, v.whyEndpoints(rc.Service, s, was))
			default:
				continue
			}
			said[s.Cluster] = true
		}
	}
	return parts
}

// whyEndpoints says which of a cluster's endpoints came and went.
func (v view) whyEndpoints(service string, now, was statestore.Share) string {
	var parts []string
	for _, a := range was.Endpoints {
		switch {
		case slices.Contains(now.Endpoints, a):
		case !slices.Contains(v.spec.Clusters[now.Cluster].Endpoints(), a):
			parts = append(parts, fmt.Sprintf("%s is no address of %s any more", a, now.Cluster))
		case v.verdict(health.Target{Service: service, Cluster: now.Cluster, Endpoint: a}).Side == health.Down:
			parts = append(parts, fmt.Sprintf("%s of %s is down", a, now.Cluster))
		default:
			parts = append(parts, fmt.Sprintf("%s of %s is not judged yet", a, now.Cluster))
		}
	}
	came := slices.DeleteFunc(slices.Clone(now.Endpoints), func(a netip.Addr) bool { return slices.Contains(was.Endpoints, a) })
	for _, a := range came {
		parts = append(parts, fmt.Sprintf("%s of %s joins", a, now.Cluster))
	}
	if len(parts) == 0 {
		return "the endpoints of " + now.Cluster + " changed order"
	}
	return strings.Join(parts, ", ")
}
