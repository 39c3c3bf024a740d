package statestore

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/quorate/quorate/health"
)

// parseSelector returns the predicate of a Kubernetes label selector; the empty
// one matches everything.
func parseSelector(s string) (func(map[string]string) bool, error) {
	if s == "" {
		return func(map[string]string) bool { return true }, nil
	}
	sel, err := labels.Parse(s)
	if err != nil {
		return nil, fmt.Errorf("label selector %q: %w", s, err)
	}
	return func(set map[string]string) bool { return sel.Matches(labels.Set(set)) }, nil
}

// LabelSet returns the labels a selector sees: the cluster's own, and "region"
// and "name" unless it sets them itself.
func (c *Cluster) LabelSet(name string) map[string]string {
	set := map[string]string{"region": c.Region, "name": name}
	maps.Copy(set, c.Labels)
	return set
}

// Candidates returns the clusters the service's selector picks, sorted. An
// unknown service has none.
func (sp *Spec) Candidates(service string) []string {
	s := sp.Services[service]
	if s == nil {
		return nil
	}
	var names []string
	if len(s.Clusters.Only) > 0 {
		for _, name := range s.Clusters.Only {
			if sp.Clusters[name] != nil {
				names = append(names, name)
			}
		}
	} else {
		picks, err := parseSelector(s.Clusters.Match)
		if err != nil {
			return nil // ApplySpec refuses such a selector.
		}
		for name, c := range sp.Clusters {
			if c != nil && (s.Clusters.Match == "" || picks(c.LabelSet(name))) {
				names = append(names, name)
			}
		}
	}
	names = slices.DeleteFunc(names, func(n string) bool { return slices.Contains(s.Clusters.Exclude, n) })
	slices.Sort(names)
	return slices.Compact(names)
}

// Picks returns Candidates with a memory: many services have one selector, which is
// then read once. The lists are shared and must not be changed, nor the spec while it
// is used.
func (sp *Spec) Picks() func(service string) []string {
	known := map[string][]string{}
	return func(service string) []string {
		s := sp.Services[service]
		if s == nil {
			return nil
		}
		key := fmt.Sprintf("%q", s.Clusters)
		list, ok := known[key]
		if !ok {
			list = sp.Candidates(service)
			known[key] = list
		}
		return list
	}
}

// Ordered returns the service's candidates, best first: in the order of a failover
// policy, then by name.
func (sp *Spec) Ordered(service string) []string {
	candidates := sp.Candidates(service)
	if len(candidates) == 0 || sp.Services[service].Policy.Type != Failover {
		return candidates
	}
	ordered := make([]string, 0, len(candidates))
	for _, c := range slices.Concat(sp.Services[service].Policy.Order, candidates) {
		if slices.Contains(candidates, c) && !slices.Contains(ordered, c) {
			ordered = append(ordered, c)
		}
	}
	return ordered
}

// ServiceTargets returns the targets of one service, sorted: its candidates'
// endpoints.
func (sp *Spec) ServiceTargets(service string) []health.Target {
	var ts []health.Target
	for _, name := range sp.Candidates(service) {
		for _, addr := range sp.Clusters[name].Endpoints() {
			ts = append(ts, health.Target{Service: service, Cluster: name, Endpoint: addr})
		}
	}
	slices.SortFunc(ts, health.CompareTargets)
	return ts
}

// frontDoors returns the front-door targets of one cluster: its endpoints, when
// it has a check of its own.
func (sp *Spec) frontDoors(cluster string) []health.Target {
	c := sp.Clusters[cluster]
	if c == nil || c.Check == nil {
		return nil
	}
	var ts []health.Target
	for _, addr := range c.Endpoints() {
		ts = append(ts, health.Target{Cluster: cluster, Endpoint: addr})
	}
	return ts
}

// Targets returns everything that is voted on, sorted: each service at each
// endpoint of its candidates, and the front doors.
func (sp *Spec) Targets() []health.Target {
	var ts []health.Target
	for name := range sp.Services {
		ts = append(ts, sp.ServiceTargets(name)...)
	}
	for name := range sp.Clusters {
		ts = append(ts, sp.frontDoors(name)...)
	}
	slices.SortFunc(ts, health.CompareTargets)
	return ts
}

// ServiceDigest returns a hash of what decides about the service: its effective
// spec and its candidate clusters. An unknown service has the empty digest.
func (sp *Spec) ServiceDigest(service string) string {
	s, ok := sp.Services[service]
	if !ok {
		return ""
	}
	clusters := map[string]*Cluster{}
	for _, name := range sp.Candidates(service) {
		clusters[name] = sp.Clusters[name]
	}
	data, err := json.Marshal(struct {
		Service  *Service            `json:"service"`
		Clusters map[string]*Cluster `json:"clusters"`
	}{s, clusters})
	if err != nil {
		return "" // Plain data always encodes.
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}
