package statestore

import (
	"fmt"
	"net/netip"
	"time"
)

// Spec is the replicated configuration as the state machine keeps it: decoded,
// with every default filled in and every named check inlined, so that nothing
// that reads it merges anything. Package config makes it from spec.yaml. It is
// immutable once in a State.
type Spec struct {
	Version   int                 `json:"version"`
	Zones     map[string]*Zone    `json:"zones"` // by lower-case FQDN with trailing dot
	Clusters  map[string]*Cluster `json:"clusters"`
	Services  map[string]*Service `json:"services"`
	Safety    Safety              `json:"safety"`
	Access    Access              `json:"access"`
	Retention Retention           `json:"retention"`
	Notify    Notify              `json:"notify,omitzero"`
	Regions   map[string]*Region  `json:"regions,omitempty"`
	DNS       DNS                 `json:"dns,omitzero"`
}

// Duration is a time.Duration that reads and writes as "10s" in JSON and YAML.
type Duration time.Duration

// D returns d as a time.Duration.
func (d Duration) D() time.Duration { return time.Duration(d) }

// String returns the duration as time.Duration prints it.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText writes String.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads a Go duration such as "1m30s".
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("duration %q: %w", b, err)
	}
	*d = Duration(v)
	return nil
}

// Cluster is one of the places that serve. Name and ID are identity.
type Cluster struct {
	ID       int               `json:"id,omitempty"` // 1-255, unique; 0: none
	Region   string            `json:"region"`
	Labels   map[string]string `json:"labels,omitempty"`
	IPv4     []netip.Addr      `json:"ipv4,omitempty"`
	IPv6     []netip.Addr      `json:"ipv6,omitempty"`
	CIDRs    []netip.Prefix    `json:"cidrs,omitempty"`
	Capacity int               `json:"capacity,omitempty"` // 0: not declared
	Check    *Check            `json:"check,omitempty"`    // the front door; nil: none

	// Hostname is resolved by the observers. IPv4 and IPv6 are then what they agreed
	// on and the leader committed last; none before the first time.
	Hostname     string        `json:"hostname,omitempty"`
	CapacityFrom *CapacityFrom `json:"capacity_from,omitempty"`
}

// Endpoints returns the cluster's addresses, IPv4 first, in the order of the spec.
func (c *Cluster) Endpoints() []netip.Addr {
	all := make([]netip.Addr, 0, len(c.IPv4)+len(c.IPv6))
	return append(append(all, c.IPv4...), c.IPv6...)
}

// Service is a routed name. All fields are effective: defaults.* is already in.
type Service struct {
	Zone      string    `json:"zone"`  // FQDN, a key of Spec.Zones
	Names     []string  `json:"names"` // relative to Zone; "@" is the apex
	Owner     string    `json:"owner,omitempty"`
	Clusters  Selector  `json:"clusters"`
	Checks    Checks    `json:"checks"`
	Quorum    Quorum    `json:"quorum"`
	Policy    Policy    `json:"policy"`
	TTL       TTL       `json:"ttl"`
	OnAllDown OnAllDown `json:"on_all_down"`
	OnStale   OnStale   `json:"on_stale"`
	Answer    Answer    `json:"answer"`
	Stateful  *Stateful `json:"stateful,omitempty"` // nil: stateless

	// Residency is a hard rule: a client in a place (a country, or a continent) is
	// answered with no other cluster, whatever happens. By ISO 3166-1 alpha-2 code, or
	// AF, AN, AS, EU, NA, OC, SA, which are continents.
	Residency   map[string][]string         `json:"residency,omitempty"`
	MinHealthy  int                         `json:"min_healthy,omitempty"` // endpoints of a family a cluster must have up to stay in rotation; 0: 1
	Overrides   map[string]*ClusterOverride `json:"overrides,omitempty"`   // by cluster
	HTTPSRecord *HTTPSRecord                `json:"https_record,omitempty"`
	SRV         *SRVRecord                  `json:"srv,omitempty"`
}

// Selector picks a service's candidate clusters: Only, or those whose labels
// Match (a Kubernetes label selector; empty matches all), minus Exclude.
type Selector struct {
	Match   string   `json:"match,omitempty"`
	Only    []string `json:"only,omitempty"`
	Exclude []string `json:"exclude,omitempty"`
}

// Checks says how an endpoint of the service is probed: every All and, when Any
// is not empty, at least one Any. The front-door check of the cluster counts as
// one more All.
type Checks struct {
	All []*Check `json:"all,omitempty"`
	Any []*Check `json:"any,omitempty"`
}

// Check is one way to probe an endpoint. Exactly one of HTTP to ICMP is set.
type Check struct {
	Name       string   `json:"name"` // key in spec.checks, or "check" for an inline one
	Interval   Duration `json:"interval"`
	Timeout    Duration `json:"timeout"`
	Fall       int      `json:"fall"`
	Rise       int      `json:"rise"`
	Recheck    Duration `json:"recheck"`
	StaleAfter Duration `json:"stale_after"` // an observer whose last completed probe is older votes unknown

	HTTP  *HTTPCheck `json:"http,omitempty"`
	HTTPS *HTTPCheck `json:"https,omitempty"`
	TCP   *TCPCheck  `json:"tcp,omitempty"`

	TLS  *HandshakeCheck `json:"tls,omitempty"`
	GRPC *GRPCCheck      `json:"grpc,omitempty"`
	DNS  *DNSCheck       `json:"dns,omitempty"`
	ICMP *ICMPCheck      `json:"icmp,omitempty"`
}

// HTTPCheck is one request and what must come back. "{service}" and "{zone}" in
// Host and TLS.ServerName stand for the service's first name and its zone
// without the trailing dot.
type HTTPCheck struct {
	Port    int               `json:"port"`
	Method  string            `json:"method"`
	Path    string            `json:"path"`
	Host    string            `json:"host,omitempty"` // empty: the endpoint's address
	Headers map[string]string `json:"headers,omitempty"`
	Reuse   bool              `json:"reuse,omitempty"`
	TLS     *TLSCheck         `json:"tls,omitempty"` // nil for http
	Expect  HTTPExpect        `json:"expect"`
	Warn    Warn              `json:"warn,omitzero"`
}

// TLSCheck says how the server of an https or grpc check is verified.
type TLSCheck struct {
	ServerName string `json:"server_name,omitempty"` // empty: Host, and without one no name is sent
	Verify     bool   `json:"verify"`
	CA         string `json:"ca,omitempty"` // name of the secret that holds the CA; empty: the system's
}

// HTTPExpect is what makes a response good.
type HTTPExpect struct {
	Status    []StatusRange `json:"status"`
	BodyRegex string        `json:"body_regex,omitempty"` // RE2, compiled by probe

	Header     map[string]string `json:"header,omitempty"`      // RE2 that some value of the header must match, by name
	JSON       map[string]string `json:"json,omitempty"`        // by JSONPath: the text of the scalar that must be there
	MaxLatency Duration          `json:"max_latency,omitempty"` // a slower response is bad
	MaxBody    int               `json:"max_body,omitempty"`    // bytes; a longer body is bad. At most 64 KiB are read in any case
}

// StatusRange is an inclusive range of HTTP status codes.
type StatusRange struct {
	Low  int `json:"low"`
	High int `json:"high"`
}

// TCPCheck is good when a connection is made and, with Expect, what comes back
// after Send holds that text.
type TCPCheck struct {
	Port   int    `json:"port"`
	Send   string `json:"send,omitempty"`
	Expect string `json:"expect,omitempty"` // found anywhere in the first 64 KiB
}

// Quorum says whose votes count for a service and how many regions decide.
type Quorum struct {
	Observers string    `json:"observers,omitempty"` // label selector over members; empty: all
	Down      Threshold `json:"down"`
	Up        Threshold `json:"up"`
	MinVotes  int       `json:"min_votes"` // fewer eligible regions than this: plan refuses
}

// Threshold is a number of regions: Majority, All, or N regions when positive.
type Threshold int

// The thresholds that depend on how many regions are eligible.
const (
	ThresholdMajority Threshold = 0
	ThresholdAll      Threshold = -1
)

// Policy chooses among the clusters in rotation.
type Policy struct {
	Type    PolicyType     `json:"type"`
	Order   []string       `json:"order,omitempty"`   // failover: all candidates, best first
	Weights map[string]int `json:"weights,omitempty"` // weighted: all candidates; nil: by capacity, else equal

	Affinity  Affinity            `json:"affinity,omitempty"`
	Map       map[string][]string `json:"map,omitempty"` // geo: by region, the countries and continents it takes; others go to the nearest
	Spillover *Spillover          `json:"spillover,omitempty"`
	Sticky    bool                `json:"sticky,omitempty"` // a client's network keeps its cluster while that one is in rotation
}

// PolicyType names a routing policy.
type PolicyType string

// The policies.
const (
	Failover PolicyType = "failover"
	Weighted PolicyType = "weighted"
)

// TTL is how long resolvers may keep an answer: Changing while a target of the
// service is suspect (its verdict is contested or its votes disagree with it).
type TTL struct {
	Normal   Duration `json:"normal"`
	Changing Duration `json:"changing"`
}

// OnAllDown is what a service answers when no candidate is up.
type OnAllDown struct {
	Mode  AllDownMode  `json:"mode"`
	Sorry []netip.Addr `json:"sorry,omitempty"` // for Sorry only
}

// AllDownMode names a behaviour with no candidate up.
type AllDownMode string

// The modes. ServeLast keeps the last rotation.
const (
	ServeLast AllDownMode = "serve_last"
	ServeAll  AllDownMode = "serve_all"
	NoData    AllDownMode = "nodata"
	ServFail  AllDownMode = "servfail"
	Sorry     AllDownMode = "sorry"
)

// OnStale is what a node answers for the service once it has not heard a leader
// that holds its lease for longer than After.
type OnStale struct {
	After  Duration    `json:"after"`
	Answer StaleAnswer `json:"answer"`
}

// StaleAnswer names a behaviour of a node that is cut off.
type StaleAnswer string

// The stale answers. Keep is the default, for ever.
const (
	StaleKeep     StaleAnswer = "keep"
	StaleServFail StaleAnswer = "servfail"
	StaleRefuse   StaleAnswer = "refuse"
)

// Answer bounds what one answer names.
type Answer struct {
	Clusters  int `json:"clusters"`
	Addresses int `json:"addresses"`
}

// Safety holds the rules judged on the state after a change.
type Safety struct {
	MinServingClusters int       `json:"min_serving_clusters"`
	MaxDrained         int       `json:"max_drained"` // 0: no bound
	Changes            Budget    `json:"max_automatic_changes"`
	Plan               PlanGuard `json:"plan"`
}

// Budget bounds automation: at most Causes distinct clusters may leave rotations
// within Per; a breach freezes everything and asks a person (G11).
type Budget struct {
	Causes int      `json:"causes"`
	Per    Duration `json:"per"`
}

// PlanGuard bounds how much one plan may change without force.
type PlanGuard struct {
	MaxUpdateRatio float64 `json:"max_update_ratio"`
	MaxDeleteRatio float64 `json:"max_delete_ratio"`
	FreeNSChanges  bool    `json:"free_ns_changes,omitempty"` // true: an NS change needs no force
}

// Access says who may do what.
type Access struct {
	Roles map[string]*Role `json:"roles"`
}

// Role is a named set of capabilities.
type Role struct {
	Groups   []string     `json:"groups,omitempty"`
	Tokens   []string     `json:"tokens,omitempty"`
	Can      []Capability `json:"can"`
	Services []string     `json:"services,omitempty"` // empty or "*": all
}

// Capability is one thing a role may do. CanAll stands for every one.
type Capability string

// The capabilities.
const (
	CanRead     Capability = "read"
	CanDrain    Capability = "drain"
	CanFreeze   Capability = "freeze"
	CanOverride Capability = "override"
	CanPropose  Capability = "propose"
	CanApprove  Capability = "approve"
	CanWaive    Capability = "waive"
	CanApply    Capability = "apply"
	CanAdmin    Capability = "admin"
	CanAll      Capability = "*"
)

// Retention bounds history in the state.
type Retention struct {
	Events    Duration `json:"events"`
	Revisions int      `json:"revisions"`
}
