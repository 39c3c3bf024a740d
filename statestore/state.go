package statestore

import (
	"encoding/json"
	"net/netip"
	"time"

	"github.com/quorate/quorate/health"
)

// State is everything the nodes agree on at one log index. It is immutable: a
// reader may keep it as long as it likes, and nobody may change what it reaches.
type State struct {
	Index        uint64    `json:"index"` // of the entry applied last
	Term         uint64    `json:"term"`  // of that entry
	Now          time.Time `json:"now"`   // log time: only grows, decides expiries and nothing else
	Installation string    `json:"installation"`
	Generation   uint64    `json:"generation"`    // which life of the installation; 1 at first
	FeatureLevel uint32    `json:"feature_level"` // highest command level that may be proposed
	TableIndex   uint64    `json:"table_index"`   // of the last entry that changed what DNS answers

	Spec      *Spec      `json:"spec"`      // never nil; empty before the first apply
	Revision  uint64     `json:"revision"`  // number of Spec; 0 before the first apply
	Revisions []Revision `json:"revisions"` // oldest first, the current one last

	Members    map[string]*Member              `json:"members"` // by node name
	Observers  map[health.ObserverID]*Observer `json:"observers"`
	Services   map[string]*ServiceState        `json:"services"` // one for each of Spec.Services
	Clusters   map[string]*ClusterState        `json:"clusters"` // one for each of Spec.Clusters
	Freezes    map[string]*Freeze              `json:"freezes"`  // by service; "" freezes all
	Tokens     map[string]*Token               `json:"tokens"`   // by token id
	JoinTokens map[string]*JoinToken           `json:"join_tokens"`
	Trust      []TrustedCA                     `json:"trust"`    // mesh CAs, oldest first; the last one signs
	Requests   map[string]*Request             `json:"requests"` // remembered outcomes, by actor + " " + request id
	Losses     []Loss                          `json:"losses"`   // clusters that automation took out lately, oldest first

	// RequestFloor bounds the memory of Requests: an id issued at or before it that
	// is not remembered is refused as unknown, never executed.
	RequestFloor time.Time `json:"request_floor"`

	Versions uint64 `json:"versions"` // source of Drain, Freeze, Member, Cutover, Override and Reported versions

	Cutovers   map[string]*Cutover `json:"cutovers"`              // by id; the ended ones too, the newest of them
	CutoverSeq uint64              `json:"cutover_seq,omitempty"` // number of the last id

	// Epochs is the highest epoch that was ever used or reserved, by service. It
	// outlives the service, so that one that comes back never repeats an epoch.
	Epochs map[string]uint64 `json:"epochs,omitempty"`

	// Sides is the active side that each removed stateful service had, so that one
	// that comes back goes on there: a spec must not move it by way of a removal.
	Sides map[string]string `json:"sides,omitempty"`

	Delivered map[string]uint64 `json:"delivered,omitempty"` // index of the last event told, by receiver

	// Latency is the round trip from the observers of a region to an endpoint, by
	// region and endpoint, as committed last: it moves only with changes that matter.
	Latency map[string]map[netip.Addr]Duration `json:"latency,omitempty"`

	// Signing is since when each signed zone is signed as it is, by zone.
	Signing map[string]*ZoneSigning `json:"signing,omitempty"`

	Events []Event `json:"events"` // newest last, bounded by Spec.Retention
	Audit  Chain   `json:"audit"`

	touched touched // in Services, by the last entries
}

// Revision is one accepted spec.
type Revision struct {
	Number uint64    `json:"number"`
	Index  uint64    `json:"index"`
	At     time.Time `json:"at"`
	Author string    `json:"author"`
	Reason string    `json:"reason,omitempty"`
	Source string    `json:"source"` // the text as it was handed in, comments included
	Spec   *Spec     `json:"spec"`   // as written: without the addresses that hostnames stand for
}

// Role of a member in consensus.
type MemberRole string

// The roles.
const (
	Voter    MemberRole = "voter"
	Nonvoter MemberRole = "nonvoter"
)

// Member is a node of the installation. What it says of itself (addresses,
// version) it may change by UpsertMember; name and region are identity.
type Member struct {
	Name       string            `json:"name"`
	Nonce      string            `json:"nonce"` // Raft's ServerID is Name/Nonce
	Region     string            `json:"region"`
	Role       MemberRole        `json:"role"` // wanted role; consensus promotes once caught up
	Labels     map[string]string `json:"labels,omitempty"`
	Peer       string            `json:"peer"`          // host:port other nodes dial
	API        string            `json:"api,omitempty"` // URL people use, without /v1
	DNS        Advertise         `json:"dns"`
	Version    string            `json:"version"`       // release of the binary it runs
	Supports   uint32            `json:"supports"`      // highest command level it understands
	CA         string            `json:"ca,omitempty"`  // fingerprint of the CA that signed its current certificate
	Observes   bool              `json:"observes"`      // it probes
	Geo        string            `json:"geo,omitempty"` // build of its GeoIP file, such as "2026-10-07"; empty: none
	AddedIndex uint64            `json:"added_index"`
}

// Advertise is where resolvers reach a member's DNS. No address: it answers nobody.
type Advertise struct {
	Name string       `json:"name,omitempty"` // FQDN of its NS record; empty: ns-NODE.ZONE
	IPv4 []netip.Addr `json:"ipv4,omitempty"`
	IPv6 []netip.Addr `json:"ipv6,omitempty"`
}

// Observer is what the state knows of a member in its probing role.
type Observer struct {
	Seq uint64 `json:"seq"` // of the last vote batch applied

	// Confirmed is false from the start of each term (or after a leader stalled)
	// until the observer confirmed its votes up to Seq to that leader. Silent is
	// true from ObserverSilent until a full vote set. Only votes of confirmed
	// observers that are not silent count (G1, G9).
	Confirmed bool      `json:"confirmed"`
	Silent    bool      `json:"silent"`
	Since     time.Time `json:"since"` // log time of the last change of Confirmed or Silent
}

// Counts reports whether the observer's votes are counted.
func (o *Observer) Counts() bool { return o != nil && o.Confirmed && !o.Silent }

// TargetState holds the votes on a target and what they added up to.
type TargetState struct {
	Votes   map[health.ObserverID]health.Vote `json:"votes"`
	Verdict health.Verdict                    `json:"verdict"`
}

// ServiceState is the running side of a service. What the service answers, its
// TTL included, changes only together with the pointer to it or with the spec; so
// a service that goes by latency has another pointer when State.Latency changes.
type ServiceState struct {
	Targets  map[health.Target]*TargetState `json:"targets"`
	Rotation Rotation                       `json:"rotation"`

	Ownership *Ownership `json:"ownership,omitempty"` // nil: stateless
	Override  *Override  `json:"override,omitempty"`  // nil: not pinned
}

// Rotation is which clusters, and which of their endpoints, a service answers
// with now. Number grows by one with each change. An empty Pool is only
// representable where no candidate has an address of the family (G5).
type Rotation struct {
	Number uint64    `json:"number"`
	Index  uint64    `json:"index"`
	At     time.Time `json:"at"`
	By     string    `json:"by"` // actor
	Reason string    `json:"reason"`
	V4     Pool      `json:"v4"`
	V6     Pool      `json:"v6"`

	// Clears is when resolvers must have dropped the answers this rotation
	// replaced: At plus the longest TTL they were given.
	Clears time.Time `json:"clears"`
}

// Pool is one address family's part of a rotation.
type Pool struct {
	Shares []Share `json:"shares,omitempty"` // in policy order: failover's order, else by name

	// AllDown is set when no candidate was up: the mode that shaped the answer.
	// Shares then still hold the last clusters (serve_last), or all (serve_all).
	AllDown AllDownMode `json:"all_down,omitempty"`
}

// Share is a cluster's part of a pool.
type Share struct {
	Cluster   string       `json:"cluster"`
	Weight    int          `json:"weight"`
	Endpoints []netip.Addr `json:"endpoints"` // never empty

	// Spill is the percentage of the clients that belong here who go on to the next
	// cluster, since this one has little capacity left.
	Spill int `json:"spill,omitempty"`
}

// ClusterState is the running side of a cluster.
type ClusterState struct {
	Targets map[health.Target]*TargetState `json:"targets,omitempty"` // front door
	Drain   *Drain                         `json:"drain,omitempty"`   // nil: not drained

	// DrainVersion changes with every drain and undrain.
	DrainVersion uint64 `json:"drain_version"`

	Reported *Reported `json:"reported,omitempty"` // nil: no fresh report of its capacity
}

// Reported is what a cluster said that it can take.
type Reported struct {
	Capacity int       `json:"capacity"`
	At       time.Time `json:"at"` // log time of the change
	Version  uint64    `json:"version"`
}

// Override is a person's decision to answer a stateless service with one cluster.
type Override struct {
	Cluster string    `json:"cluster"`
	By      string    `json:"by"`
	Reason  string    `json:"reason"`
	At      time.Time `json:"at"`
	Until   time.Time `json:"until"` // zero: until cleared
	Version uint64    `json:"version"`
}

// Drain is a person's decision to take a cluster out.
type Drain struct {
	Services []string  `json:"services,omitempty"` // empty: all
	By       string    `json:"by"`
	Reason   string    `json:"reason"`
	At       time.Time `json:"at"`
	Until    time.Time `json:"until"` // zero: until undrained
}

// Covers reports whether the drain takes the cluster out of service. A nil drain covers nothing.
func (d *Drain) Covers(service string) bool {
	if d == nil {
		return false
	}
	if len(d.Services) == 0 {
		return true
	}
	for _, s := range d.Services {
		if s == service {
			return true
		}
	}
	return false
}

// Freeze stops automation for a service, or for all.
type Freeze struct {
	By      string    `json:"by"`
	Reason  string    `json:"reason"`
	At      time.Time `json:"at"`
	Until   time.Time `json:"until"` // zero: until thawed
	Version uint64    `json:"version"`
}

// Token is a person's or program's bearer token. Only its hash is kept.
type Token struct {
	ID      string         `json:"id"`
	User    string         `json:"user"`   // whose acts it makes
	Groups  []string       `json:"groups"` // matched against roles
	Hash    [32]byte       `json:"hash"`   // SHA-256 of the secret
	Minter  string         `json:"minter"`
	Root    bool           `json:"root,omitempty"`   // made at the local socket or by init: its user counts as a person of their own
	Makers  []string       `json:"makers,omitempty"` // users whose tokens it was made with, sorted; see State.Makers
	At      time.Time      `json:"at"`
	Expires time.Time      `json:"expires"`           // zero: never
	Sources []netip.Prefix `json:"sources,omitempty"` // empty: any
}

// JoinToken lets one node join once. Only the secret's hash is kept.
type JoinToken struct {
	ID      string     `json:"id"`
	Hash    [32]byte   `json:"hash"`
	Role    MemberRole `json:"role"` // the most the joining node may be
	Minter  string     `json:"minter"`
	Expires time.Time  `json:"expires"`
}

// TrustedCA is a mesh certificate authority all nodes accept.
type TrustedCA struct {
	Fingerprint string    `json:"fingerprint"` // hex SHA-256 of the DER certificate
	PEM         string    `json:"pem"`
	At          time.Time `json:"at"`
}

// Request is the remembered outcome of a command with a request id.
type Request struct {
	Digest [32]byte  `json:"digest"` // of the command's kind and body
	Issued time.Time `json:"issued"`
	Index  uint64    `json:"index"`
	At     time.Time `json:"at"`
	Code   string    `json:"code,omitempty"` // refusal code; empty: done
	Error  string    `json:"error,omitempty"`
}

// Loss is a cluster that automation took out of at least one rotation.
type Loss struct {
	Cluster string    `json:"cluster"`
	At      time.Time `json:"at"`
}

// Event is the one audit record of a state-changing entry, and what people see
// of it. ID is the log index.
type Event struct {
	Index   uint64    `json:"index"`
	At      time.Time `json:"at"`   // log time
	Wall    time.Time `json:"wall"` // proposer's wall clock
	Actor   string    `json:"actor"`
	Type    string    `json:"type"`    // such as "verdict.changed", "rotation.changed", "cluster.drained"
	Subject string    `json:"subject"` // such as "services/web", "clusters/eu"
	Text    string    `json:"text"`    // one line for people
	// Detail is compact JSON whose shape depends on Type.
	Detail json.RawMessage `json:"detail,omitempty"`

	Hash string `json:"hash"` // hex, chained: see VerifyEvents
}

// Chain is the head of the audit chain.
type Chain struct {
	Count uint64   `json:"count"`
	Head  [32]byte `json:"head"`
	Base  [32]byte `json:"base"` // the head before the oldest event that is kept

	// Detail is the size of the kept events' details together.
	Detail int `json:"detail"`
}
