package statestore

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// specVersion is the only version of the spec's schema there is; a spec made
// without one is of it.
const specVersion = 1

// Limits that the state holds whatever decoded the spec.
const (
	maxClusterID  = 255
	maxNameLength = 63 // a DNS label
)

// findings collects everything that is wrong with a spec, so that people see
// all of it at once.
type findings []string

func (f *findings) add(path, format string, args ...any) {
	*f = append(*f, path+": "+fmt.Sprintf(format, args...))
}

// checkSpec refuses what no state may hold. Package config has checked far more,
// with positions; this is what Apply and everything after it rely on.
func checkSpec(sp *Spec) error {
	if sp.Version > specVersion {
		return refuse(ErrFeatureLevel, "spec: version %d is not known here; run a newer quorate", sp.Version)
	}
	var f findings
	checkZones(&f, sp)
	checkDNS(&f, sp.DNS)
	checkRegions(&f, sp)
	checkClusters(&f, sp)
	checkServices(&f, sp)
	checkNotify(&f, sp)
	if s := sp.Safety; s.MinServingClusters < 0 || s.MaxDrained < 0 || s.Changes.Causes < 0 || s.Changes.Per < 0 {
		f.add("safety", "must not be negative")
	}
	if sp.Retention.Events < 0 || sp.Retention.Revisions < 0 {
		f.add("retention", "must not be negative")
	}
	for _, name := range sortedKeys(sp.Access.Roles) {
		if sp.Access.Roles[name] == nil {
			f.add("access.roles."+name, "must not be empty")
		}
	}
	if len(f) == 0 {
		return nil
	}
	slices.Sort(f)
	return refuse(ErrInvalid, "spec: %s", strings.Join(f, "; "))
}

func checkZones(f *findings, sp *Spec) {
	for _, name := range sortedKeys(sp.Zones) {
		path := "zones." + name
		switch {
		case sp.Zones[name] == nil:
			f.add(path, "must not be empty")
		case !strings.HasSuffix(name, ".") || name != strings.ToLower(name):
			f.add(path, "must be a lower-case name with a trailing dot")
		default:
			checkDNSSEC(f, path, sp.Zones[name])
		}
	}
}

func checkClusters(f *findings, sp *Spec) {
	ids := map[int]string{}
	type owned struct {
		cluster string
		prefix  netip.Prefix
	}
	var cidrs []owned
	for _, name := range sortedKeys(sp.Clusters) {
		path, c := "clusters."+name, sp.Clusters[name]
		if !validName(name) {
			f.add(path, "the name must be a DNS label")
		}
		if c == nil {
			f.add(path, "must not be empty")
			continue
		}
		switch other, taken := ids[c.ID]; {
		case c.ID < 0 || c.ID > maxClusterID:
			f.add(path+".id", "must be 1 to %d, is %d", maxClusterID, c.ID)
		case c.ID != 0 && taken:
			f.add(path+".id", "must be unique, is %d as that of clusters.%s", c.ID, other)
		}
		ids[c.ID] = name
		checkAddresses(f, path, c)
		checkHostname(f, path+".hostname", c)
		checkCapacityFrom(f, path+".capacity_from", c.CapacityFrom)
		if c.Check != nil {
			checkProbe(f, path+".check", c.Check)
		}
		if c.Capacity < 0 {
			f.add(path+".capacity", "must not be negative, is %d", c.Capacity)
		}
		for _, p := range c.CIDRs {
			if !p.IsValid() {
				f.add(path+".cidrs", "must be prefixes")
				continue
			}
			for _, o := range cidrs {
				if o.cluster != name && o.prefix.Overlaps(p) {
					f.add(path+".cidrs", "%s overlaps %s of clusters.%s", p, o.prefix, o.cluster)
				}
			}
			cidrs = append(cidrs, owned{name, p})
		}
	}
}

func checkAddresses(f *findings, path string, c *Cluster) {
	for _, a := range c.IPv4 {
		if !a.Is4() {
			f.add(path+".ipv4", "must be IPv4 addresses, is %s", a)
		}
	}
	for _, a := range c.IPv6 {
		if !a.Is6() || a.Is4In6() || a.Zone() != "" {
			f.add(path+".ipv6", "must be IPv6 addresses without a zone, is %s", a)
		}
	}
	all := c.Endpoints()
	for i, a := range all {
		if slices.Contains(all[:i], a) {
			f.add(path, "has %s twice", a)
		}
	}
}

func checkServices(f *findings, sp *Spec) {
	names := map[string]string{}
	for _, name := range sortedKeys(sp.Services) {
		path, s := "services."+name, sp.Services[name]
		if !validName(name) {
			f.add(path, "the name must be a DNS label")
		}
		if s == nil {
			f.add(path, "must not be empty")
			continue
		}
		if sp.Zones[s.Zone] == nil {
			f.add(path+".zone", "must be a zone of the spec, is %q", s.Zone)
		}
		if len(s.Names) == 0 {
			f.add(path+".names", "must not be empty")
		}
		for _, n := range s.Names {
			key := strings.ToLower(n) + " " + s.Zone
			if other, taken := names[key]; taken {
				f.add(path+".names", "%s in %s is a name of services.%s too", n, s.Zone, other)
			}
			names[key] = name
		}
		checkSelection(f, path, sp, name)
		checkNumbers(f, path, s)
		checkPlacement(f, path, sp, name)
		checkProbes(f, path, s)
		checkSaidStateful(f, path, sp, name)
	}
}

// checkSelection checks which clusters and observers the service picks.
func checkSelection(f *findings, path string, sp *Spec, name string) {
	s := sp.Services[name]
	known := func(where string, clusters []string) {
		for _, c := range clusters {
			if sp.Clusters[c] == nil {
				f.add(path+where, "no cluster is named %q", c)
			}
		}
	}
	known(".clusters.only", s.Clusters.Only)
	known(".clusters.exclude", s.Clusters.Exclude)
	known(".policy.order", s.Policy.Order)
	known(".policy.weights", slices.Collect(maps.Keys(s.Policy.Weights)))
	if _, err := parseSelector(s.Clusters.Match); err != nil {
		f.add(path+".clusters.match", "%v", err)
		return
	}
	if _, err := parseSelector(s.Quorum.Observers); err != nil {
		f.add(path+".quorum.observers", "%v", err)
	}
	candidates := sp.Candidates(name)
	// A hostname's addresses are known only once the cluster is there.
	if !slices.ContainsFunc(candidates, func(c string) bool { return sp.Clusters[c].Hostname != "" || len(sp.Clusters[c].Endpoints()) > 0 }) {
		f.add(path+".clusters", "must pick at least one cluster with an address")
	}
}

func checkNumbers(f *findings, path string, s *Service) {
	switch s.Policy.Type {
	case Failover, Weighted, Geo, Latency:
	default:
		f.add(path+".policy.type", "must be failover, weighted, geo or latency, is %q", s.Policy.Type)
	}
	for _, c := range sortedKeys(s.Policy.Weights) {
		if s.Policy.Weights[c] < 0 {
			f.add(path+".policy.weights."+c, "must not be negative, is %d", s.Policy.Weights[c])
		}
	}
	if s.Quorum.Down < ThresholdAll || s.Quorum.Up < ThresholdAll {
		f.add(path+".quorum", "must be majority, all or a number of regions")
	}
	if s.TTL.Normal < 0 || s.TTL.Changing < 0 {
		f.add(path+".ttl", "must not be negative")
	}
	switch s.OnAllDown.Mode {
	case "", ServeLast, ServeAll, NoData, ServFail:
	case Sorry:
		if len(s.OnAllDown.Sorry) == 0 {
			f.add(path+".on_all_down", "sorry must have an address")
		}
	default:
		f.add(path+".on_all_down", "must be serve_last, serve_all, nodata, servfail or sorry, is %q", s.OnAllDown.Mode)
	}
}

// validName reports whether s is a DNS label in lower case: what names of nodes,
// clusters and services are made of, so that no path, key or name needs quoting.
func validName(s string) bool {
	if s == "" || len(s) > maxNameLength || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-'
	})
}
