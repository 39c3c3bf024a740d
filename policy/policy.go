// Package policy judges: which clusters a service should answer with, what
// observers' measurements amount to, what a drain, an override, a new spec or
// anything supposed would do, what a cutover rests on and what its next step is, and
// what forbids any of it.
//
// Everything here is a pure function of one statestore.State and its arguments.
// Equal input gives equal output to the byte: no clock, no chance, no map order.
// The package proposes and never acts; the leader's controller commits what Plan
// concludes, people commit the rest, and Apply checks both again.
package policy

import (
	"time"

	"github.com/quorate/quorate/statestore"
)

// Proposal is one thing automation wants committed.
type Proposal struct {
	Subject string // "services/web", "clusters/eu" or "installation"
	Reason  string // one line for people
	Command statestore.Command
}

// Blocker is a rule that forbids a change. All of them are reported at once.
type Blocker struct {
	Rule     string `json:"rule"` // such as "min_serving_clusters"; stable, for programs
	Reason   string `json:"reason"`
	Waivable bool   `json:"waivable"`
}

// Rules that a drain or a plan may break.
const (
	RuleUnknownCluster = "unknown_cluster"
	RuleUnknownService = "unknown_service"
	RuleLastServing    = "last_serving_cluster"
	RuleMinServing     = "min_serving_clusters"
	RuleMaxDrained     = "max_drained"
	RuleObservers      = "observers"
	RuleMinVotes       = "min_votes"
	RuleThreshold      = "quorum"
	RuleNoCandidates   = "no_candidates"
	RuleNameServer     = "name_server"
	RuleInUse          = "cluster_in_use"
	RuleResidency      = "residency"
	RuleRefused        = "refused" // what Apply itself says
)

// Rules that an override may break.
const (
	RuleOverrideStateful  = "override_stateful"
	RuleOverrideCandidate = "override_candidate"
	RuleOverrideDrained   = "override_drained"
	RuleOverrideUp        = "override_target_up"
)

// Findings are what a check of a new spec found.
type Findings struct {
	Blockers []Blocker `json:"blockers"`
	Warnings []string  `json:"warnings"`
}

// Drains overlays drains on those of the state, by cluster. A nil drain stands
// for a cluster that is not drained; an absent one leaves the state's.
type Drains map[string]*statestore.Drain

// ClusterShare is a cluster's part of a service's answers, in percent.
type ClusterShare struct {
	Cluster string  `json:"cluster"`
	Percent float64 `json:"percent"`
}

// Impact is what a change does to one service's answers.
type Impact struct {
	Service  string         `json:"service"`
	Before   []ClusterShare `json:"before"` // in pool order
	After    []ClusterShare `json:"after"`
	Moves    bool           `json:"moves"`    // some client gets another address
	Moved    float64        `json:"moved"`    // percent of the clients that get another cluster; 0 where the client decides
	Warnings []string       `json:"warnings"` // such as capacity

	// Clears is how long resolvers may hand out the old answer after the change.
	Clears time.Duration `json:"clears"`
}

// Change is one difference of two specs.
type Change struct {
	Op   string `json:"op"`   // "+", "~" or "-"
	Path string `json:"path"` // such as "services.web.policy.weights"
	Old  string `json:"old,omitempty"`
	New  string `json:"new,omitempty"`

	at []string // the keys of Path
}

// Match is which clusters a service's selector picks under a new spec.
type Match struct {
	Service  string
	Selector string // as people write it
	Clusters []string
	Came     []string // picked now and not before; none of a new service
	Went     []string // picked before
}

// Class says how far a change of the spec reaches. The order is by weight: a
// plan's class is the highest of its changes.
type Class string

// The classes, lightest first.
const (
	ClassNone     Class = "none"
	ClassTTL      Class = "ttl"
	ClassAnswers  Class = "answers move"
	ClassStateful Class = "stateful"
	ClassIdentity Class = "identity"
	ClassRemoves  Class = "removes"
)

// Guards are the rails of a plan: how much of the old spec it touches. Exceeded
// lists, one line each, what needs force.
type Guards struct {
	Updates    float64  `json:"updates"` // ratio of old objects changed
	MaxUpdates float64  `json:"max_updates"`
	Deletes    float64  `json:"deletes"` // ratio of old objects removed
	MaxDeletes float64  `json:"max_deletes"`
	NSChanged  bool     `json:"ns_changed"`
	Exceeded   []string `json:"exceeded"`
}

// Diff is what a new spec would change.
type Diff struct {
	Changes []Change `json:"changes"`
	Answers []Impact `json:"answers"` // services whose answers or TTL change
	Class   Class    `json:"class"`
	Guards  Guards   `json:"guards"`

	// Rotations are what ApplySpec has to carry.
	Rotations []statestore.RotationChange `json:"-"`
}
