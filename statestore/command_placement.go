package statestore

import (
	"net/netip"
	"time"
)

// The kinds that placement needs.
const (
	KindOverride       Kind = 33
	KindClearOverride  Kind = 34
	KindDrainClusters  Kind = 35
	KindResolveCluster Kind = 36
	KindReportCapacity Kind = 37
	KindMeasureLatency Kind = 38
)

// OverrideService pins a stateless service to one cluster, with the rotation that
// follows. The pin yields to a verdict: while that cluster has no endpoint up, or
// is drained, the policy answers, in each address family for itself.
type OverrideService struct {
	Service   string           `json:"service"`
	Cluster   string           `json:"cluster"`
	For       time.Duration    `json:"for,omitempty"` // from the entry's log time; zero: until cleared
	Reason    string           `json:"reason"`
	Rotations []RotationChange `json:"rotations,omitempty"`
}

// ClearOverride ends a pin, with the rotation that follows. Expired says automation
// does it because Until has passed; Apply checks that.
type ClearOverride struct {
	Service   string           `json:"service"`
	Expired   bool             `json:"expired,omitempty"`
	Reason    string           `json:"reason,omitempty"`
	Rotations []RotationChange `json:"rotations,omitempty"`
}

// DrainClusters takes several clusters out at once, judged together.
type DrainClusters struct {
	Clusters  []string         `json:"clusters"` // at least one, sorted
	Services  []string         `json:"services,omitempty"`
	For       time.Duration    `json:"for,omitempty"`
	Reason    string           `json:"reason"`
	Rotations []RotationChange `json:"rotations,omitempty"`
}

// ResolveCluster makes Addrs the endpoints of a cluster that is named by a
// hostname, with the rotations that follow. Hostname is what was resolved: another
// one in the spec refuses it as stale. Addrs is never empty: the last good set stays.
// Its rotations are automation's: freezes, the floor and the budget of changes hold
// as they do for a Rotate.
type ResolveCluster struct {
	Cluster   string           `json:"cluster"`
	Hostname  string           `json:"hostname"`
	Addrs     []netip.Addr     `json:"addrs"` // sorted
	Rotations []RotationChange `json:"rotations,omitempty"`
}

// ReportCapacity keeps what a cluster reports that it can take. Stale forgets it:
// the declared capacity counts again. It changes no answer: a rotation that follows
// from it does.
type ReportCapacity struct {
	Cluster  string `json:"cluster"`
	Capacity int    `json:"capacity"` // 0: nothing
	Stale    bool   `json:"stale,omitempty"`
}

// MeasureLatency keeps round trips from regions' observers to endpoints. What it
// does not name stays. Regions without a member and addresses that are no endpoint
// are passed over: the spec or the members may have changed since.
type MeasureLatency struct {
	RTT map[string]map[netip.Addr]Duration `json:"rtt"` // by region, by endpoint
}

// Kind returns KindOverride.
func (OverrideService) Kind() Kind { return KindOverride }

// Kind returns KindClearOverride.
func (ClearOverride) Kind() Kind { return KindClearOverride }

// Kind returns KindDrainClusters.
func (DrainClusters) Kind() Kind { return KindDrainClusters }

// Kind returns KindResolveCluster.
func (ResolveCluster) Kind() Kind { return KindResolveCluster }

// Kind returns KindReportCapacity.
func (ReportCapacity) Kind() Kind { return KindReportCapacity }

// Kind returns KindMeasureLatency.
func (MeasureLatency) Kind() Kind { return KindMeasureLatency }
