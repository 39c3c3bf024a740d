package statestore

import (
	"net/netip"
	"slices"
	"time"
)

// The policies that look at who asks.
const (
	Geo     PolicyType = "geo"     // by the client's place: Policy.Map, else nearest
	Latency PolicyType = "latency" // the lowest round trip from the client's region
)

// Region is where a region is, and which clients count as inside it.
type Region struct {
	Coordinates *Coordinates `json:"coordinates,omitempty"` // nil: not known; it is then nearest to nobody
	Countries   []string     `json:"countries,omitempty"`   // ISO 3166-1 alpha-2, sorted
}

// Coordinates are degrees, north and east positive.
type Coordinates struct {
	Latitude  float64 `json:"latitude"`
	Longitude float64 `json:"longitude"`
}

// Affinity prefers, or avoids, the cluster or region that a client is in. A client
// is in a cluster by the cluster's CIDRs, then in a region by its country or
// nearness.
type Affinity string

// The affinities. None is written as the empty string.
const (
	NoAffinity     Affinity = ""
	LocalAffinity  Affinity = "local"
	RemoteAffinity Affinity = "remote"
)

// Spillover says where clients go whose cluster is out or nearly full.
type Spillover struct {
	Order []string `json:"order,omitempty"` // candidates, best first; empty: to the nearest
	At    float64  `json:"at,omitempty"`    // part of its capacity left below which a share of a cluster's clients goes on; 0: only when it is out
}

// ClusterOverride is what one cluster does differently for one service.
type ClusterOverride struct {
	Weight *int   `json:"weight,omitempty"`
	Host   string `json:"host,omitempty"` // Host header and SNI of http, https, tls and grpc checks there
	TTL    *TTL   `json:"ttl,omitempty"`  // of answers that name it
}

// ByClient reports whether where a client is decides which cluster of the rotation
// the service answers it with. A nil service answers nobody.
func (s *Service) ByClient() bool {
	return s != nil && s.Stateful == nil && (s.Policy.Type == Geo || s.Policy.Type == Latency ||
		s.Policy.Affinity != NoAffinity || len(s.Residency) > 0)
}

// LongestTTL returns how long resolvers may keep an answer of the service at most.
func (s *Service) LongestTTL() time.Duration {
	longest := max(s.TTL.Normal, s.TTL.Changing)
	for _, o := range s.Overrides {
		if o != nil && o.TTL != nil {
			longest = max(longest, o.TTL.Normal, o.TTL.Changing)
		}
	}
	return longest.D()
}

// LatencyEndpoints returns the endpoints that some service ranks by round trip, sorted.
// Round trips to others are worth no entry.
func (sp *Spec) LatencyEndpoints() []netip.Addr {
	var all []netip.Addr
	for name, s := range sp.Services {
		if s.Policy.Type != Latency {
			continue
		}
		for _, c := range sp.Candidates(name) {
			all = append(all, sp.Clusters[c].Endpoints()...)
		}
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all)
}

// HTTPSRecord says that HTTPS records (RFC 9460) are answered too; their address
// hints follow the rotation.
type HTTPSRecord struct {
	ALPN []string `json:"alpn,omitempty"`
}

// SRVRecord says that _SERVICE._PROTO SRV (RFC 2782) is answered with the service's
// first name and this port. SERVICE is the service's key.
type SRVRecord struct {
	Port  int    `json:"port"`
	Proto string `json:"proto"` // tcp or udp
}
