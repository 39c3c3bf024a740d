package statestore

import (
	"net/netip"
	"time"

	"github.com/quorate/quorate/health"
)

// CutoverKind says why a service is to move.
type CutoverKind string

// The kinds.
const (
	Planned   CutoverKind = "planned"   // a person wants it; the source is well
	Emergency CutoverKind = "emergency" // the source is down
	Back      CutoverKind = "failback"  // to the preferred side
)

// CutoverKinds returns all kinds there are.
func CutoverKinds() []CutoverKind { return []CutoverKind{Planned, Emergency, Back} }

// CutoverPhase is how far a cutover has come.
type CutoverPhase string

// The phases. Proposed, Approved and Fencing are open; the others end it. From
// Fencing on the next epoch is reserved and the source is not answered any more.
const (
	Proposed  CutoverPhase = "proposed"
	Approved  CutoverPhase = "approved" // everybody has signed; the leader begins it
	Fencing   CutoverPhase = "fencing"  // nodes stop answering with the source and acknowledge it
	Done      CutoverPhase = "done"     // published under the next epoch
	Rejected  CutoverPhase = "rejected"
	Expired   CutoverPhase = "expired"
	Withdrawn CutoverPhase = "withdrawn" // its cause is gone
	Aborted   CutoverPhase = "aborted"   // the source goes on under a new epoch
	Void      CutoverPhase = "void"      // a recovery began another generation
)

// Open reports whether something can still become of it.
func (p CutoverPhase) Open() bool { return p.Pending() || p == Fencing }

// Pending reports whether it has not begun: its evidence and its signatures are
// still judged.
func (p CutoverPhase) Pending() bool { return p == Proposed || p == Approved }

// Gate names a condition of a cutover.
type Gate string

// The gates, in the order in which they are shown.
const (
	GateSourceDown        Gate = "source_down_by_quorum"
	GateDestination       Gate = "destination_healthy"
	GateLag               Gate = "lag_within_rpo"
	GateFenced            Gate = "source_fenced"
	GateNodesAcknowledged Gate = "nodes_acknowledged"
	GateResync            Gate = "resync_confirmed"
	GateNoOther           Gate = "no_other_cutover"
	GateNotFrozen         Gate = "not_frozen"
	GateCooldown          Gate = "cooldown"
)

// AllGates returns all gates there are, in the order in which they are shown.
func AllGates() []Gate {
	return []Gate{
		GateSourceDown, GateDestination, GateLag, GateFenced, GateNodesAcknowledged, GateResync,
		GateNoOther, GateNotFrozen, GateCooldown,
	}
}

// GateClass is what a gate says. What people sign is the class, never its last digit.
type GateClass string

// The classes. Only Clean lets a cutover pass without a waiver.
const (
	Clean         GateClass = "clean"
	Blocked       GateClass = "blocked"
	UnknownGate   GateClass = "unknown"
	Untried       GateClass = "untried"
	NotConfigured GateClass = "not_configured"
)

// Evidence is everything an approval is about. Its digest changes when, and only
// when, something in it does: sides and classes, no verdict numbers and no digits.
type Evidence struct {
	Service         string       `json:"service"`
	Kind            CutoverKind  `json:"kind"`
	Source          string       `json:"source"`
	Destination     string       `json:"destination"`
	Epoch           uint64       `json:"epoch"`
	Generation      uint64       `json:"generation"`
	SourceSide      health.Side  `json:"source_side"`
	DestinationSide health.Side  `json:"destination_side"`
	Spec            string       `json:"spec"`           // Spec.ServiceDigest
	Gates           []GateResult `json:"gates"`          // those of the kind, in the order of the constants
	Unacknowledged  []string     `json:"unacknowledged"` // members that cannot be expected to acknowledge, sorted
}

// GateResult is one gate's class.
type GateResult struct {
	Gate  Gate      `json:"gate"`
	Class GateClass `json:"class"`
}

// Waiver is a person's recorded decision to go on without a gate. Outcome names
// the outcome it covers of a gate that is still untried; Nodes the members it
// covers of nodes_acknowledged once the cutover has begun.
type Waiver struct {
	Gate    Gate      `json:"gate"`
	Outcome GateClass `json:"outcome,omitempty"`
	Nodes   []string  `json:"nodes,omitempty"`
}

// Signer is who acts on a cutover, as the node that took the act has authenticated
// them. With a token, Apply takes groups and person from the state's own record.
type Signer struct {
	User   string     `json:"user"`
	Groups []string   `json:"groups,omitempty"`
	Token  string     `json:"token,omitempty"` // id
	Via    string     `json:"via"`             // "token", "socket", "demo"
	Source netip.Addr `json:"source,omitzero"` // where the request came from
}

// Signature is one person's approval of one evidence.
type Signature struct {
	Signer
	Person     string    `json:"person"`           // who it counts as: see State.Person
	Makers     []string  `json:"makers,omitempty"` // who else may have made it: see Token.Makers
	Evidence   string    `json:"evidence"`
	Waivers    []Waiver  `json:"waivers,omitempty"`
	Reason     string    `json:"reason"`
	BreakGlass bool      `json:"break_glass,omitempty"`
	At         time.Time `json:"at"`
	Index      uint64    `json:"index"`
}

// Step is one committed transition of a cutover.
type Step struct {
	Phase CutoverPhase `json:"phase"`
	At    time.Time    `json:"at"`   // log time
	Wall  time.Time    `json:"wall"` // the proposer's clock, for people
	By    string       `json:"by"`
	Index uint64       `json:"index"`
	Text  string       `json:"text,omitempty"`
}

// Cutover is a change of the active side, from its proposal on. It is immutable;
// each entry that changes it replaces it.
type Cutover struct {
	ID          string       `json:"id"` // "CUT-17"
	Service     string       `json:"service"`
	Kind        CutoverKind  `json:"kind"`
	Source      string       `json:"source"`
	Destination string       `json:"destination"`
	Epoch       uint64       `json:"epoch"`          // the one it leaves
	Next        uint64       `json:"next,omitempty"` // the one it reserved; 0 before Fencing
	Generation  uint64       `json:"generation"`
	Phase       CutoverPhase `json:"phase"`
	Version     uint64       `json:"version"` // of State.Versions; changes with every change of it

	Proposer string    `json:"proposer"`         // user, or "automation"
	Person   string    `json:"person"`           // who the proposer counts as
	Makers   []string  `json:"makers,omitempty"` // who else may have proposed it: see Token.Makers
	Reason   string    `json:"reason"`
	At       time.Time `json:"at"`      // log time
	Expires  time.Time `json:"expires"` // log time; judged when entries apply

	Evidence Evidence `json:"evidence"`
	Digest   string   `json:"digest"` // of Evidence: "9f3c-77a1-0b2e-51d4"

	Signatures []Signature `json:"signatures,omitempty"` // of this evidence; a new one voids them
	Voided     int         `json:"voided,omitempty"`     // signatures that other evidence has voided
	Reminded   int         `json:"reminded,omitempty"`   // reminders told
	Waived     []Signature `json:"waived,omitempty"`     // waivers signed while it was under way
	Steps      []Step      `json:"steps"`

	Decided time.Time `json:"decided,omitzero"` // log time of its end
	Clears  time.Time `json:"clears,omitzero"`  // resolvers may hand out the old answer until then
}
