// Package apitype holds what travels over /v1: the envelope, its items, request
// bodies and problems. Server and client share it, so that neither can drift.
//
// Times are RFC 3339 UTC, durations are seconds as numbers in answers and Go
// durations ("2h") in requests. Fields are only ever added within v1.
package apitype

import (
	"net/netip"
	"time"

	"github.com/quorate/quorate/health"
)

// Version is the API version every envelope names.
const Version = "v1"

// Envelope is the shape of every JSON answer that is not a problem.
type Envelope[T any] struct {
	API      string    `json:"api"`      // "v1"
	Kind     string    `json:"kind"`     // of the items, such as "service"
	Revision uint64    `json:"revision"` // of the spec in force
	AsOf     time.Time `json:"as_of"`    // the answer reflects at least what was committed by then
	Items    []T       `json:"items"`    // never null
}

// Headers of every /v1 answer.
const (
	HeaderRevision    = "Quorate-Revision"
	HeaderIndex       = "Quorate-Index"
	HeaderAsOf        = "Quorate-As-Of"
	HeaderStale       = "Quorate-Stale" // "true" while the node hears no leader
	HeaderNode        = "Quorate-Node"
	HeaderLeader      = "Quorate-Leader" // absent without one
	HeaderIdempotency = "Idempotency-Key"
)

// Status is what the installation looks like from the node asked.
type Status struct {
	Node         string           `json:"node"`
	Version      string           `json:"version"`
	Installation string           `json:"installation"`
	Generation   uint64           `json:"generation"`
	Revision     uint64           `json:"revision"`
	Index        uint64           `json:"index"`
	Quorum       Quorum           `json:"quorum"`
	Banners      []Banner         `json:"banners"`
	Services     []ServiceSummary `json:"services"`
	Clusters     []ClusterSummary `json:"clusters"`
	Waiting      []CutoverSummary `json:"waiting"` // open cutovers
}

// Quorum says whether the nodes can agree now.
type Quorum struct {
	Available    bool      `json:"available"`
	Voters       int       `json:"voters"`
	VotersUp     int       `json:"voters_up"` // the leader among them; 0: it has not told this node yet
	Leader       string    `json:"leader,omitempty"`
	Tolerates    int       `json:"tolerates"` // further losses of voters; says nothing while voters_up is 0
	StaleSince   time.Time `json:"stale_since,omitzero"`
	StaleSeconds float64   `json:"stale_seconds"` // since this node last heard a leader that holds its lease
}

// BannerWaiting is the code of the banner of a cutover that waits for somebody.
// Whoever shows Status.Waiting too leaves it out.
const BannerWaiting = "cutover-waiting"

// Banner is one thing an operator must see.
type Banner struct {
	Code    string `json:"code"` // lone-observer, observer-silent, observer-unconfirmed, frozen, drained, override, degraded, unresolved, capacity-stale, geo-differs, secret-unresolved, probe-backlog, ns-changed, no-quorum, no-spec, out-of-consensus, unconfirmed, withheld, cutover-waiting
	Subject string `json:"subject,omitempty"`
	Text    string `json:"text"`
}

// ServiceSummary is a service and what it answers now.
type ServiceSummary struct {
	Name         string    `json:"name"`
	Kind         string    `json:"kind"` // "stateless" or "stateful"
	Stateful     *Stateful `json:"stateful,omitempty"`
	Policy       string    `json:"policy"`
	Names        []string  `json:"names"` // FQDNs
	Rotation     uint64    `json:"rotation"`
	RotationAt   time.Time `json:"rotation_at,omitzero"`
	ClearsAt     time.Time `json:"clears_at,omitzero"` // old answers until then
	V4           []Share   `json:"v4"`                 // every candidate with an IPv4 endpoint
	V6           []Share   `json:"v6"`
	AllDownV4    string    `json:"all_down_v4,omitempty"` // mode that shapes the answer while no candidate is up
	AllDownV6    string    `json:"all_down_v6,omitempty"`
	TargetsUp    int       `json:"targets_up"` // clusters with a target up
	TargetsTotal int       `json:"targets_total"`
	Frozen       bool      `json:"frozen"`
	Notes        []string  `json:"notes"`

	ByClient bool      `json:"by_client,omitempty"` // who asks decides; percents are then parts of the weight
	Override *Override `json:"override,omitempty"`
	Degraded []string  `json:"degraded"` // clusters that are up but not well, such as "eu (cert)"
}

// Share is a candidate's part of the answers of one address family.
type Share struct {
	Cluster   string       `json:"cluster"`
	Percent   float64      `json:"percent"` // of answers; 0 when out
	Verdict   health.Side  `json:"verdict"`
	Endpoints []netip.Addr `json:"endpoints"` // answered with; empty when out
}

// ClusterSummary is a cluster and how it does.
type ClusterSummary struct {
	Name          string   `json:"name"`
	Region        string   `json:"region"`
	FrontDoor     *Verdict `json:"front_door,omitempty"` // absent without a check
	Drain         *Drain   `json:"drain,omitempty"`
	ServicesUp    int      `json:"services_up"`
	ServicesTotal int      `json:"services_total"`

	Hostname string `json:"hostname,omitempty"` // that its addresses come from
	Capacity int    `json:"capacity,omitempty"` // declared
	Reported *int   `json:"reported,omitempty"` // what it said last that it can take; absent: no fresh report
}

// Drain is a drain in force.
type Drain struct {
	Services []string  `json:"services"` // empty: all
	By       string    `json:"by"`
	Reason   string    `json:"reason"`
	At       time.Time `json:"at"`
	Until    time.Time `json:"until,omitzero"`
}

// Verdict is a target's verdict, or the worst of several.
type Verdict struct {
	Number   uint64           `json:"number"`
	Side     health.Side      `json:"side"`
	Mark     health.Mark      `json:"mark,omitempty"`
	Since    time.Time        `json:"since,omitzero"`
	Index    uint64           `json:"index"`
	Up       int              `json:"up"`   // eligible regions voting up now
	Down     int              `json:"down"` // eligible regions voting down now
	Eligible int              `json:"eligible"`
	NeedUp   int              `json:"need_up"`
	NeedDown int              `json:"need_down"`
	Deciding []health.Decider `json:"deciding,omitempty"`
	Degraded string           `json:"degraded,omitempty"` // why it is not well though up: "latency" or "cert"
}

// TargetVotes is a target with every observer's vote on it.
type TargetVotes struct {
	Target   string     `json:"target"` // SERVICE/CLUSTER/ADDRESS, or CLUSTER/ADDRESS for a front door
	Service  string     `json:"service,omitempty"`
	Cluster  string     `json:"cluster"`
	Endpoint netip.Addr `json:"endpoint"`
	Verdict  Verdict    `json:"verdict"`
	Votes    []Vote     `json:"votes"` // one for each observer that may vote, by name
}

// Vote is one observer's vote as it stands.
type Vote struct {
	Observer string      `json:"observer"`
	Region   string      `json:"region"`
	Side     health.Side `json:"side"` // what it said last
	Reason   string      `json:"reason,omitempty"`
	Since    time.Time   `json:"since,omitzero"`
	Counts   bool        `json:"counts"`             // false: silent, unconfirmed or never voted
	Note     string      `json:"note,omitempty"`     // why it does not count
	Degraded string      `json:"degraded,omitempty"` // "latency" or "cert": up, but not well
}

// Service is a service in full.
type Service struct {
	ServiceSummary
	Definition any           `json:"definition"` // effective, as the nodes use it
	Freeze     *Freeze       `json:"freeze,omitempty"`
	Targets    []TargetVotes `json:"targets"`

	// Traffic is who asked lately; absent where no node knows, and of lists.
	Traffic *ServiceTraffic `json:"traffic,omitempty"`
}

// Cluster is a cluster in full.
type Cluster struct {
	ClusterSummary
	Definition any           `json:"definition"`
	Targets    []TargetVotes `json:"targets"` // front door
	Services   []string      `json:"services"`
}

// Freeze is a freeze in force. An empty service freezes all.
type Freeze struct {
	Service string    `json:"service"`
	By      string    `json:"by"`
	Reason  string    `json:"reason"`
	At      time.Time `json:"at"`
	Until   time.Time `json:"until,omitzero"`
}

// Member is a node of the installation.
type Member struct {
	Name            string       `json:"name"`
	Region          string       `json:"region"`
	Role            string       `json:"role"` // wanted: voter or nonvoter
	Raft            string       `json:"raft"` // leader, voter, nonvoter, or none when not in the configuration
	Reachable       bool         `json:"reachable"`
	Awaited         bool         `json:"awaited,omitempty"`    // not heard yet by a node that has only just started: reachable says nothing
	LastSeenSeconds float64      `json:"last_seen_seconds"`    // negative: never
	Trails          uint64       `json:"trails"`               // entries behind the leader, as known here
	ClockOffset     float64      `json:"clock_offset_seconds"` // its clock is ahead of the answering node's by so much; 0 also when not known
	Peer            string       `json:"peer"`
	API             string       `json:"api,omitempty"`
	DNS             []netip.Addr `json:"dns"`
	DNSName         string       `json:"dns_name,omitempty"`
	Version         string       `json:"version"`
	Supports        uint32       `json:"supports"`
	CA              string       `json:"ca,omitempty"`
	Geo             string       `json:"geo,omitempty"` // build of its GeoIP file; empty: it has none
	Observer        string       `json:"observer"`      // counted, silent, unconfirmed or none
}

// JoinToken is a new join token. The secret is shown this once.
type JoinToken struct {
	ID      string    `json:"id"`
	Token   string    `json:"token,omitempty"` // empty on a replay of the same request
	Role    string    `json:"role"`
	Expires time.Time `json:"expires,omitzero"`
}

// Token is a bearer token, without its secret unless it was just made.
type Token struct {
	ID      string         `json:"id"`
	User    string         `json:"user"`
	Groups  []string       `json:"groups"`
	Roles   []string       `json:"roles"`  // what the groups amount to, by the roles as they are now
	Minter  string         `json:"minter"` // who made it; with root false, whom it counts as
	Root    bool           `json:"root"`   // made at the local socket or by init: its user counts as a person of their own
	At      time.Time      `json:"at"`
	Expires time.Time      `json:"expires,omitzero"`
	Sources []netip.Prefix `json:"sources"`
	Secret  string         `json:"token,omitempty"` // the whole bearer token, shown once
}

// Act is the outcome of something a person did.
type Act struct {
	Index   uint64    `json:"index"` // log index of the event; 0 when nothing was written
	DryRun  bool      `json:"dry_run"`
	Text    string    `json:"text"`
	Until   time.Time `json:"until,omitzero"`
	Clears  time.Time `json:"clears_at,omitzero"` // old answers until then
	Impact  []Impact  `json:"impact"`
	Blocked []Blocker `json:"blockers"` // of a dry run; a real act is refused instead
}

// Impact is what a change does to one service's answers.
type Impact struct {
	Service       string    `json:"service"`
	Before        []Percent `json:"before"`
	After         []Percent `json:"after"`
	Moves         bool      `json:"moves"`          // some client gets another address
	ClearsSeconds float64   `json:"clears_seconds"` // how long resolvers may hand out the old answer
	Warnings      []string  `json:"warnings"`

	// ObservedSeconds says that Before and After are parts of the queries of so long, as
	// the networks that asked most make them; 0: of the weights.
	ObservedSeconds float64 `json:"observed_seconds,omitempty"`
}

// Percent is a cluster's part of a service's answers.
type Percent struct {
	Cluster string  `json:"cluster"`
	Percent float64 `json:"percent"`
}

// Blocker is one rule that forbids an act. All are reported at once.
type Blocker struct {
	Rule     string `json:"rule"` // such as "min_serving_clusters"; stable
	Reason   string `json:"reason"`
	Waivable bool   `json:"waivable"` // Waive, or else force, lifts it

	// Waive is the waiver that a signature must carry, for a gate of a cutover.
	Waive string `json:"waive,omitempty"`
}

// Event is one record of the log.
type Event struct {
	Index   uint64    `json:"index"`
	At      time.Time `json:"at"`   // log time
	Wall    time.Time `json:"wall"` // the proposer's clock
	Actor   string    `json:"actor"`
	Type    string    `json:"type"`
	Subject string    `json:"subject"`
	Text    string    `json:"text"`
	Detail  any       `json:"detail,omitempty"`
	Hash    string    `json:"hash"`
}

// Spec is a revision with its text.
type Spec struct {
	Number uint64    `json:"number"`
	At     time.Time `json:"at,omitzero"`
	Author string    `json:"author,omitempty"`
	Reason string    `json:"reason,omitempty"`
	Source string    `json:"source"`
	Spec   any       `json:"spec"` // normalised
}

// Revision is a revision without its text.
type Revision struct {
	Number  uint64    `json:"number"`
	Index   uint64    `json:"index"`
	At      time.Time `json:"at"`
	Author  string    `json:"author"`
	Reason  string    `json:"reason,omitempty"`
	Current bool      `json:"current"`
}

// Plan is what applying a spec would change. ID holds for as long as the base
// revision is current, on every node.
type Plan struct {
	ID       string      `json:"id"` // NEXTREVISION-DIGEST of base and source
	Base     uint64      `json:"base"`
	Next     uint64      `json:"next"`
	Class    string      `json:"class"` // none, ttl, answers move, stateful, identity or removes
	Changes  []Change    `json:"changes"`
	Answers  []Impact    `json:"answers"`
	Guards   Guards      `json:"guards"`
	Blockers []Blocker   `json:"blockers"` // what apply would refuse
	Warnings []string    `json:"warnings"`
	Applied  uint64      `json:"applied,omitempty"` // log index, once applied
	Clients  ClientReach `json:"clients"`           // how the answers of a sample of clients change
	Matches  []Match     `json:"matches"`           // of services that are new or pick other clusters than before
}

// Match is which clusters a service's selector picks.
type Match struct {
	Service  string   `json:"service"`
	Selector string   `json:"selector"` // as written
	Clusters []string `json:"clusters"`
	Came     []string `json:"came,omitempty"`
	Went     []string `json:"went,omitempty"`
}

// Change is one difference of two specs.
type Change struct {
	Op   string `json:"op"`   // "+", "~" or "-"
	Path string `json:"path"` // such as "services.web.policy.weights"
	Old  string `json:"old,omitempty"`
	New  string `json:"new,omitempty"`
}

// Guards are the rails of a plan. What Exceeded lists needs force.
type Guards struct {
	Updates    float64  `json:"updates"` // ratio of old objects changed
	MaxUpdates float64  `json:"max_updates"`
	Deletes    float64  `json:"deletes"` // ratio of old objects removed
	MaxDeletes float64  `json:"max_deletes"`
	NSChanged  bool     `json:"ns_changed"`
	Exceeded   []string `json:"exceeded"`
}

// Explanation is how one node answers a question.
type Explanation struct {
	Node     string   `json:"node"`
	Revision uint64   `json:"revision"`
	Index    uint64   `json:"index"`
	Name     string   `json:"name"`
	Type     string   `json:"type"`
	Service  string   `json:"service,omitempty"`
	Rcode    string   `json:"rcode"`
	TTL      uint32   `json:"ttl"`
	Answers  []string `json:"answers"`
	Clusters []string `json:"clusters"`
	Steps    []Step   `json:"steps"`

	Conditions []string `json:"conditions,omitempty"` // what was supposed: it is not so
	Scope      int      `json:"scope"`                // of the answer, for a query with a client subnet (RFC 7871)
}

// Step is one line of a decision trace.
type Step struct {
	Step string `json:"step"`           // if, name, alias, client, candidates, state, rank or answer
	Text string `json:"text"`           // what was decided
	Note string `json:"note,omitempty"` // why, or what was left out
}

// CA is a mesh certificate authority all nodes accept.
type CA struct {
	Fingerprint string    `json:"fingerprint"`
	At          time.Time `json:"at"`
	Signs       bool      `json:"signs"`   // new certificates come from it
	Members     []string  `json:"members"` // whose current certificate it signed
}

// LogLevel is a node's log level.
type LogLevel struct {
	Level string `json:"level" enum:"debug,info,warn,error"`
}

// Reloaded is what a node has read again.
type Reloaded struct {
	Node string   `json:"node"`
	Read []string `json:"read"` // node.yaml, and the keys of the files that it names
}

// NodeConfig is a node's own configuration, secrets masked.
type NodeConfig struct {
	Node   string `json:"node"`
	Source string `json:"source"`
}
