// Package health holds the vocabulary of the health checker and the arithmetic
// that turns votes into a verdict.
//
// An observer is a node that probes. Its current opinion of a target is a vote;
// the votes of all observers together support one verdict. The package is pure:
// it reads no clock, draws no random number and does no I/O, so replicas that
// judge the same votes reach the same verdict.
package health

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// ObserverID names an observer: the name of the node that probes.
type ObserverID string

// Side is one of the three things an observer can say of a target, and one of
// the three things a verdict can be. The zero value is Unknown.
type Side uint8

// The sides. Unknown is never a reason to act.
const (
	Unknown Side = iota
	Up
	Down
)

var sideNames = [...]string{Unknown: "unknown", Up: "up", Down: "down"}

// String returns "unknown", "up" or "down".
func (s Side) String() string {
	if int(s) < len(sideNames) {
		return sideNames[s]
	}
	return fmt.Sprintf("side(%d)", uint8(s))
}

// MarshalText writes the side's name.
func (s Side) MarshalText() ([]byte, error) {
	if int(s) >= len(sideNames) {
		return nil, fmt.Errorf("side %d is not one of unknown, up, down", uint8(s))
	}
	return []byte(sideNames[s]), nil
}

// UnmarshalText reads a side's name, spelled exactly as MarshalText writes it.
func (s *Side) UnmarshalText(b []byte) error {
	for i, n := range sideNames {
		if n == string(b) {
			*s = Side(i)
			return nil
		}
	}
	return fmt.Errorf("side %q is not one of unknown, up, down", b)
}

// Target is the thing voted on: a service at one endpoint of a cluster or, with
// an empty Service, a cluster's own front door at that endpoint. Targets compare
// with == and are usable as map keys, in JSON too.
type Target struct {
	Service  string // empty for a front door
	Cluster  string
	Endpoint netip.Addr
}

// String returns "SERVICE/CLUSTER/ADDRESS", or "CLUSTER/ADDRESS" for a front door.
func (t Target) String() string {
	if t.Service == "" {
		return t.Cluster + "/" + t.Endpoint.String()
	}
	return t.Service + "/" + t.Cluster + "/" + t.Endpoint.String()
}

// FrontDoor reports whether the target is a cluster's own entrance rather than a service.
func (t Target) FrontDoor() bool { return t.Service == "" }

// MarshalText writes String.
func (t Target) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads what MarshalText writes. Names are DNS labels and hold no slash.
func (t *Target) UnmarshalText(b []byte) error {
	parts := strings.Split(string(b), "/")
	if len(parts) == 2 {
		parts = append([]string{""}, parts...)
	}
	if len(parts) != 3 || parts[1] == "" {
		return fmt.Errorf("target %q is not SERVICE/CLUSTER/ADDRESS or CLUSTER/ADDRESS", b)
	}
	addr, err := netip.ParseAddr(parts[2])
	if err != nil {
		return fmt.Errorf("target %q: %w", b, err)
	}
	*t = Target{Service: parts[0], Cluster: parts[1], Endpoint: addr}
	return nil
}

// CompareTargets orders targets by service, cluster and address: the order in
// which they are hashed, encoded and shown.
func CompareTargets(a, b Target) int {
	return cmp.Or(
		strings.Compare(a.Service, b.Service),
		strings.Compare(a.Cluster, b.Cluster),
		a.Endpoint.Compare(b.Endpoint),
	)
}

// Vote is one observer's current opinion of one target.
type Vote struct {
	Side   Side      `json:"side"`
	Reason string    `json:"reason,omitempty"` // bounded: one of probe's reasons, or "blind", "stalled", "stale"
	Since  time.Time `json:"since"`            // observer's wall clock; shown to people, decides nothing

	// Degraded says why a target that is up is not well: "latency" or "cert". It is
	// shown and never decides.
	Degraded string `json:"degraded,omitempty"`
}

// Verdict is what the votes on a target added up to. Number grows by one with
// every change of Side and never falls; zero means the target was never judged.
type Verdict struct {
	Number uint64    `json:"number"`
	Side   Side      `json:"side"`
	Mark   Mark      `json:"mark,omitempty"`
	Since  time.Time `json:"since"` // log time of the last change of Side
	Index  uint64    `json:"index"` // log index of the last change of Side

	// Deciding are the votes, sorted by observer, that turned the verdict to Side.
	Deciding []Decider `json:"deciding,omitempty"`
}

// Decider is one vote that a verdict rests on.
type Decider struct {
	Observer ObserverID `json:"observer"`
	Region   string     `json:"region"`
	Reason   string     `json:"reason,omitempty"`
}

// Mark says why a verdict was not renewed by the latest votes.
type Mark string

// The marks. A marked verdict keeps its side.
const (
	Settled    Mark = ""           // the votes support the side, or none contradict it
	Contested  Mark = "contested"  // regions vote on both sides and neither has the quorum
	Unobserved Mark = "unobserved" // fewer regions vote than the quorum needs
)
