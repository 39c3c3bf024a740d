package statestore

import (
	"net/netip"
	"time"

	"github.com/quorate/quorate/health"
)

// Kind numbers a command in the log. Numbers are append-only and never reused.
// A kind with the top bit set may be skipped by a node that does not know it.
type Kind uint8

// The kinds. A new field is a new kind.
const (
	KindTick             Kind = 1
	KindInitialize       Kind = 2
	KindApplySpec        Kind = 3
	KindCastVotes        Kind = 4
	KindConfirmObservers Kind = 5
	KindObserverSilent   Kind = 6
	KindRotate           Kind = 7
	KindDrain            Kind = 8
	KindUndrain          Kind = 9
	KindFreeze           Kind = 10
	KindThaw             Kind = 11
	KindUpsertMember     Kind = 12
	KindRemoveMember     Kind = 13
	KindPutToken         Kind = 14
	KindRevokeToken      Kind = 15
	KindPutJoinToken     Kind = 16
	KindUseJoinToken     Kind = 17
	KindTrustCA          Kind = 18
	KindRetireCA         Kind = 19
	KindRaiseFeature     Kind = 20
)

// Command is one change of the state. The set is closed: only this package's
// types implement it.
type Command interface {
	Kind() Kind
	// apply changes st, the entry's own shallow copy of the state: fields may be
	// set, but whatever they reach is shared with older states and is cloned
	// before it changes. On a refusal st is thrown away. The record describes the
	// change; a zero record says that nothing changed.
	apply(st *State, at entry) (record, error)
}

// Meta is what a log entry carries beside its command.
type Meta struct {
	Actor   string    `json:"actor"`             // user name, "automation", or "node/NAME"
	Request string    `json:"request,omitempty"` // request id; with Actor it is unique
	Issued  time.Time `json:"issued,omitzero"`   // when the request id was made; too old is refused as unknown
	Wall    time.Time `json:"wall"`              // proposer's wall clock, for people

	// Elapsed is the proposer's monotonic time since it applied the entry before.
	// Rebased says it had no such base and took the wall-clock difference; open
	// signatures are then void when that is negative or above 30 s.
	Elapsed time.Duration `json:"elapsed"`
	Rebased bool          `json:"rebased,omitempty"`
}

// Basis lists what a conclusion was drawn from. Apply refuses the conclusion
// with ErrStale when any of it has changed.
type Basis struct {
	Spec     string                   `json:"spec"`               // Spec.ServiceDigest
	Verdicts map[health.Target]uint64 `json:"verdicts"`           // every target of the service
	Drains   map[string]uint64        `json:"drains"`             // DrainVersion of every candidate
	Freeze   uint64                   `json:"freeze"`             // State.FreezeVersion of the service
	Rotation uint64                   `json:"rotation"`           // number of the rotation it replaces
	Override uint64                   `json:"override,omitempty"` // Override.Version; 0: not pinned
	Reports  map[string]uint64        `json:"reports,omitempty"`  // Reported.Version of every candidate that has one; none of a stateful service
}

// RotationChange is a rotation some command installs, without what Apply itself
// fills in (number, index, time, actor).
type RotationChange struct {
	Service string `json:"service"`
	V4      Pool   `json:"v4"`
	V6      Pool   `json:"v6"`
	Reason  string `json:"reason"`
}

// Tick moves log time on while a deadline is open.
type Tick struct{}

// Initialize starts an installation: the first entry of a log, once.
type Initialize struct {
	Installation string    `json:"installation"`
	CA           TrustedCA `json:"ca"`
}

// ApplySpec makes Spec the next revision. Rotations are those that the spec causes:
// of services that are new, whose rotation does not stand under it, or that rotate
// otherwise by it, so that no service is ever without. Others are automation's.
type ApplySpec struct {
	Base      uint64           `json:"base"` // revision it was planned on; another current one: ErrStalePlan
	Source    string           `json:"source"`
	Spec      *Spec            `json:"spec"`
	Reason    string           `json:"reason,omitempty"`
	Rotations []RotationChange `json:"rotations,omitempty"`
}

// CastVotes stores vote changes and judges the targets they touch.
type CastVotes struct {
	Batches []VoteBatch `json:"batches"`
}

// VoteBatch is one observer's vote changes. A batch whose Prev is not the
// observer's Seq is refused unless it is Full; a Full batch replaces all its
// votes, ends its silence and confirms it.
type VoteBatch struct {
	Observer health.ObserverID             `json:"observer"`
	Seq      uint64                        `json:"seq"`
	Prev     uint64                        `json:"prev"`
	Full     bool                          `json:"full,omitempty"`
	Votes    map[health.Target]health.Vote `json:"votes"`

	// Recorded keeps the votes themselves in the event, so that they can be replayed
	// against another spec.
	Recorded bool `json:"recorded,omitempty"`
}

// ConfirmObservers counts the observers that confirmed their votes to this
// term's leader, each only if its sequence number is the state's. Reset first
// sets every observer aside: a leader that stalled.
type ConfirmObservers struct {
	Reset     bool                         `json:"reset,omitempty"`
	Observers map[health.ObserverID]uint64 `json:"observers"`
}

// ObserverSilent sets a silent observer's votes aside.
type ObserverSilent struct {
	Observer health.ObserverID `json:"observer"`
}

// Rotate is automation's conclusion for one service.
type Rotate struct {
	RotationChange
	Basis Basis `json:"basis"`
}

// DrainCluster takes a cluster out, with the rotations that follow.
type DrainCluster struct {
	Cluster   string           `json:"cluster"`
	Services  []string         `json:"services,omitempty"`
	For       time.Duration    `json:"for,omitempty"` // from the entry's log time; zero: until undrained
	Reason    string           `json:"reason"`
	Rotations []RotationChange `json:"rotations,omitempty"`
}

// UndrainCluster brings a cluster back, with the rotations that follow. Expired
// says automation does it because Until has passed; Apply checks that.
type UndrainCluster struct {
	Cluster   string           `json:"cluster"`
	Expired   bool             `json:"expired,omitempty"`
	Reason    string           `json:"reason,omitempty"`
	Rotations []RotationChange `json:"rotations,omitempty"`
}

// FreezeService stops automation for a service, or for all when Service is empty.
type FreezeService struct {
	Service string        `json:"service"`
	For     time.Duration `json:"for,omitempty"` // zero: until thawed
	Reason  string        `json:"reason"`
}

// ThawService ends a freeze. Expired says automation does it because Until has passed.
type ThawService struct {
	Service string `json:"service"`
	Expired bool   `json:"expired,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

// UpsertMember adds a member or updates what it says of itself.
type UpsertMember struct {
	Member Member `json:"member"`
}

// RemoveMember takes a member out of the table. It never turns a verdict.
type RemoveMember struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// PutToken adds a bearer token.
type PutToken struct {
	ID      string         `json:"id"`
	User    string         `json:"user"`
	Groups  []string       `json:"groups"`
	Hash    [32]byte       `json:"hash"`
	For     time.Duration  `json:"for,omitempty"`
	Sources []netip.Prefix `json:"sources,omitempty"`

	// Root says that it is made at the local socket or by init. Any other token
	// counts as Person where signatures must be of distinct people: who made it,
	// or who that one counts as. Makers are all who may know it: State.Makers.
	Root   bool     `json:"root,omitempty"`
	Person string   `json:"person,omitempty"`
	Makers []string `json:"makers,omitempty"`
}

// RevokeToken removes a bearer token.
type RevokeToken struct {
	ID string `json:"id"`
}

// PutJoinToken adds a join token.
type PutJoinToken struct {
	ID   string        `json:"id"`
	Hash [32]byte      `json:"hash"`
	Role MemberRole    `json:"role"`
	For  time.Duration `json:"for"`
}

// UseJoinToken trades a join token for a membership, once.
type UseJoinToken struct {
	ID     string `json:"id"`
	Member Member `json:"member"`
}

// TrustCA adds a mesh CA; it signs from then on.
type TrustCA struct {
	CA TrustedCA `json:"ca"`
}

// RetireCA stops trusting a mesh CA. Refused while a member's certificate is its.
type RetireCA struct {
	Fingerprint string `json:"fingerprint"`
}

// RaiseFeature raises the feature level, never above what every member supports.
type RaiseFeature struct {
	Level uint32 `json:"level"`
}
