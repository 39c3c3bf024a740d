package probe

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/health"
)

// ProbeID identifies a probe: a digest of its check and endpoint. It is the same
// on every observer and survives a new plan, and with it what the probe has seen.
type ProbeID string

// Plan is what one observer probes and how that adds up to votes. It is
// immutable once given to a Prober.
type Plan struct {
	Probes  []Probe      // sorted by ID
	Targets []TargetPlan // sorted by target

	// Names and Capacities are asked for beside the probes. BuildPlan leaves them empty.
	Names      []HostnamePlan
	Capacities []CapacityPlan
}

// Probe is one check of one endpoint, made once however many targets need it.
type Probe struct {
	ID       ProbeID
	Check    Check
	Endpoint netip.Addr
	Names    []Name // every use of it, sorted; never empty
}

// Name is one use of a probe: the check of that name on that target.
type Name struct {
	Target health.Target
	Check  string
}

// String returns "SERVICE/CLUSTER/ADDRESS:CHECK".
func (n Name) String() string { return n.Target.String() + ":" + n.Check }

// TargetPlan says how probes add up to the vote on one target: down when any of
// All is down or every Any is; else unknown when something needed is; else up.
// The cluster's front-door check is one more All.
type TargetPlan struct {
	Target health.Target
	All    []Need
	Any    []Need
}

// Need is a target's use of one probe. The target's vote is unknown while the
// probe's last completed run is older than StaleAfter.
type Need struct {
	Probe      ProbeID
	Check      string
	StaleAfter time.Duration
}

// TargetChecks is what BuildPlan is made from: one target and its checks, hosts
// expanded, the cluster's front-door check among All.
type TargetChecks struct {
	Target health.Target
	All    []Check
	Any    []Check
}

// staleIntervals is the default of stale_after: three intervals.
const staleIntervals = 3

// BuildPlan returns the plan for the given targets. Checks that are equal in
// all but their name, on the same endpoint, become one probe that keeps every
// name. The order of inputs does not matter.
func BuildPlan(inputs []TargetChecks) Plan {
	probes := map[ProbeID]*Probe{}
	var plan Plan
	for _, in := range inputs {
		needs := func(checks []Check) []Need {
			out := make([]Need, 0, len(checks))
			for _, c := range checks {
				id := probeID(c, in.Target.Endpoint)
				p := probes[id]
				if p == nil {
					p = &Probe{ID: id, Check: c, Endpoint: in.Target.Endpoint}
					probes[id] = p
				}
				p.Names = append(p.Names, Name{in.Target, c.Name})
				out = append(out, Need{id, c.Name, cmp.Or(c.StaleAfter, staleIntervals*c.Interval)})
			}
			return out
		}
		plan.Targets = append(plan.Targets, TargetPlan{in.Target, needs(in.All), needs(in.Any)})
	}
	for _, p := range probes {
		slices.SortFunc(p.Names, func(a, b Name) int {
			return cmp.Or(health.CompareTargets(a.Target, b.Target), strings.Compare(a.Check, b.Check))
		})
		p.Names = slices.Compact(p.Names)
		plan.Probes = append(plan.Probes, *p)
	}
	slices.SortFunc(plan.Probes, func(a, b Probe) int { return strings.Compare(string(a.ID), string(b.ID)) })
	slices.SortFunc(plan.Targets, func(a, b TargetPlan) int { return health.CompareTargets(a.Target, b.Target) })
	return plan
}

// probeID digests what makes a probe the same: JSON sorts map keys, so equal
// checks have equal digests.
func probeID(c Check, endpoint netip.Addr) ProbeID {
	c.Name, c.StaleAfter = "", 0
	b, err := json.Marshal(struct {
		Check    Check
		Endpoint netip.Addr
	}{c, endpoint})
	if err != nil {
		panic(fmt.Sprintf("marshal check: %v", err)) // plain data always marshals
	}
	sum := sha256.Sum256(b)
	return ProbeID(hex.EncodeToString(sum[:8]))
}

// HostnamePlan is a cluster whose addresses this observer looks up.
type HostnamePlan struct {
	Cluster  string
	Hostname string
}

// CapacityPlan is a cluster that reports what it can take. Exactly one of HTTP and
// Prometheus is set.
type CapacityPlan struct {
	Cluster   string
	MaxAge    time.Duration // an older report is no report; zero: 60 s
	Hostname  string        // of the cluster, if it has one: asked for by https and as Host
	Endpoints []netip.Addr  // of the cluster, in the order they are asked
	Declared  int           // the cluster's capacity, which a part of Prometheus.Of is of

	HTTP       *CapacityHTTP
	Prometheus *CapacityPrometheus
}

// CapacityHTTP is a number in a JSON document that the cluster's endpoints serve:
// https on port 443, else http.
type CapacityHTTP struct {
	Port int
	Path string // empty: /; may hold a query
	JSON string // JSONPath that finds exactly one number
}

// CapacityPrometheus is a metric in Prometheus' text exposition: the sum of the
// series that have Labels or, with Of, that sum as a part of Of's, times Declared.
type CapacityPrometheus struct {
	URL    string
	Metric string
	Of     string
	Labels map[string]string
}

func (a CapacityPlan) equal(b CapacityPlan) bool {
	if a.Cluster != b.Cluster || a.MaxAge != b.MaxAge || a.Hostname != b.Hostname ||
		a.Declared != b.Declared || !slices.Equal(a.Endpoints, b.Endpoints) ||
		(a.HTTP == nil) != (b.HTTP == nil) || (a.Prometheus == nil) != (b.Prometheus == nil) {
		return false
	}
	if a.HTTP != nil && *a.HTTP != *b.HTTP {
		return false
	}
	p, q := a.Prometheus, b.Prometheus
	return p == nil || p.URL == q.URL && p.Metric == q.Metric && p.Of == q.Of && maps.Equal(p.Labels, q.Labels)
}

// interval returns how often the capacity is asked for: twice in vain before the last
// report is too old.
func (p CapacityPlan) interval() time.Duration {
	return max(min(p.maxAge()/3, time.Minute), time.Second)
}

func (p CapacityPlan) maxAge() time.Duration { return cmp.Or(p.MaxAge, time.Minute) }
