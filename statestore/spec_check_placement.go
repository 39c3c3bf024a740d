package statestore

import (
	"net/netip"
	"slices"
	"strings"
)

const (
	maxHostname = 253 // RFC 1035 2.3.4, in text
	maxPort     = 65535
	maxALPN     = 255 // octets, RFC 7301 3.1
)

// checkRegions checks where regions are and who is inside.
func checkRegions(f *findings, sp *Spec) {
	taken := map[string]string{}
	for _, name := range sortedKeys(sp.Regions) {
		path, r := "regions."+name, sp.Regions[name]
		if r == nil {
			f.add(path, "must not be empty")
			continue
		}
		if c := r.Coordinates; c != nil && !(c.Latitude >= -90 && c.Latitude <= 90 && c.Longitude >= -180 && c.Longitude <= 180) {
			f.add(path+".coordinates", "must be a latitude of -90 to 90 and a longitude of -180 to 180, is %v, %v", c.Latitude, c.Longitude)
		}
		checkCodes(f, path+".countries", r.Countries, name, taken)
	}
}

// checkCodes checks two-letter codes of places, each taken once.
func checkCodes(f *findings, path string, codes []string, by string, taken map[string]string) {
	for _, code := range codes {
		if !validCode(code) {
			f.add(path, "must be codes of two upper-case letters, is %q", code)
			continue
		}
		if other, twice := taken[code]; twice {
			f.add(path, "%s is of %s already", code, other)
		}
		taken[code] = by
	}
}

func validCode(code string) bool {
	return len(code) == 2 && code[0] >= 'A' && code[0] <= 'Z' && code[1] >= 'A' && code[1] <= 'Z'
}

// checkPlacement checks how a service chooses among its clusters.
func checkPlacement(f *findings, path string, sp *Spec, name string) {
	s := sp.Services[name]
	known := func(where string, clusters []string) {
		for _, c := range clusters {
			if sp.Clusters[c] == nil {
				f.add(path+where, "no cluster is named %q", c)
			}
		}
	}
	switch s.Policy.Affinity {
	case NoAffinity, LocalAffinity, RemoteAffinity:
	default:
		f.add(path+".policy.affinity", "must be local or remote or not there, is %q", s.Policy.Affinity)
	}
	taken := map[string]string{}
	for _, region := range sortedKeys(s.Policy.Map) {
		checkCodes(f, path+".policy.map."+region, s.Policy.Map[region], region, taken)
	}
	if o := s.Policy.Spillover; o != nil {
		known(".policy.spillover.order", o.Order)
		if !(o.At >= 0 && o.At <= 1) {
			f.add(path+".policy.spillover.at", "must be 0 to 1, is %v", o.At)
		}
	}
	candidates := sp.Candidates(name)
	for _, place := range sortedKeys(s.Residency) {
		known(".residency."+place, s.Residency[place])
		if !validCode(place) {
			f.add(path+".residency", "must be codes of two upper-case letters, is %q", place)
		}
		if !slices.ContainsFunc(s.Residency[place], func(c string) bool { return slices.Contains(candidates, c) }) {
			f.add(path+".residency."+place, "must name one of its clusters (%s)", list(candidates))
		}
	}
	if s.MinHealthy < 0 {
		f.add(path+".min_healthy", "must not be negative, is %d", s.MinHealthy)
	}
	if s.Answer.Clusters < 0 || s.Answer.Addresses < 0 {
		f.add(path+".answer", "must not be negative")
	}
	for _, cluster := range sortedKeys(s.Overrides) {
		known(".overrides", []string{cluster})
		checkClusterOverride(f, path+".overrides."+cluster, s.Overrides[cluster])
	}
	for _, a := range s.OnAllDown.Sorry {
		if !validAddr(a) {
			f.add(path+".on_all_down.sorry", "must be addresses without a zone, is %s", a)
		}
	}
	checkRecords(f, path, s)
}

func checkClusterOverride(f *findings, path string, o *ClusterOverride) {
	switch {
	case o == nil:
		f.add(path, "must not be empty")
		return
	case o.Weight != nil && *o.Weight < 0:
		f.add(path+".weight", "must not be negative, is %d", *o.Weight)
	case o.TTL != nil && (o.TTL.Normal < 0 || o.TTL.Changing < 0):
		f.add(path+".ttl", "must not be negative")
	}
	if strings.ContainsFunc(o.Host, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		f.add(path+".host", "must be a host name, is %q", o.Host)
	}
}

// checkRecords checks what a service is published as beside addresses.
func checkRecords(f *findings, path string, s *Service) {
	if h := s.HTTPSRecord; h != nil {
		for _, id := range h.ALPN {
			if id == "" || len(id) > maxALPN {
				f.add(path+".https_record.alpn", "must be of 1 to %d octets each", maxALPN)
			}
		}
	}
	if r := s.SRV; r != nil {
		checkPort(f, path+".srv.port", r.Port)
		if r.Proto != "tcp" && r.Proto != "udp" {
			f.add(path+".srv.proto", "must be tcp or udp, is %q", r.Proto)
		}
	}
}

func checkPort(f *findings, path string, port int) {
	if port < 1 || port > maxPort {
		f.add(path, "must be 1 to %d, is %d", maxPort, port)
	}
}

func validAddr(a netip.Addr) bool { return a.IsValid() && !a.Is4In6() && a.Zone() == "" }

// validHostname reports whether s is a host name, with or without its trailing dot.
func validHostname(s string) bool {
	s = strings.TrimSuffix(s, ".")
	if s == "" || len(s) > maxHostname {
		return false
	}
	for label := range strings.SplitSeq(strings.ToLower(s), ".") {
		if !validName(strings.ReplaceAll(label, "_", "a")) {
			return false
		}
	}
	return true
}
