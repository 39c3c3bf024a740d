package statestore

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/health"
)

const (
	// MaxCapacity is the most that a cluster may report: weights are added up, and no
	// sum of them may overflow.
	MaxCapacity = 1_000_000_000

	// MaxRTT is the longest round trip that is one; a probe's timeout ends it sooner.
	MaxRTT = time.Minute
)

// CapacityDetail is Event.Detail of "cluster.capacity".
type CapacityDetail struct {
	Was      *int `json:"was,omitempty"` // nil: nothing was reported
	Reported *int `json:"reported,omitempty"`
	Declared int  `json:"declared,omitempty"`
}

func (c ReportCapacity) apply(st *State, at entry) (record, error) {
	state, ok := st.Clusters[c.Cluster]
	if !ok {
		return record{}, refuse(ErrNotFound, "cluster %s: not found", c.Cluster)
	}
	declared := st.Spec.Clusters[c.Cluster]
	switch {
	case declared.CapacityFrom == nil:
		return record{}, refuse(ErrStale, "cluster %s: its capacity is not reported (no capacity_from)", c.Cluster)
	case c.Capacity < 0 || c.Capacity > MaxCapacity:
		return record{}, refuse(ErrInvalid, "cluster %s: a capacity must be 0 to %d, is %d", c.Cluster, MaxCapacity, c.Capacity)
	case c.Stale && c.Capacity != 0:
		return record{}, refuse(ErrInvalid, "cluster %s: a stale report must have no capacity, is %d", c.Cluster, c.Capacity)
	}
	detail := CapacityDetail{Declared: declared.Capacity}
	if state.Reported != nil {
		detail.Was = &state.Reported.Capacity
	}
	next := *state
	var text string
	switch {
	case c.Stale && state.Reported == nil, !c.Stale && state.Reported != nil && state.Reported.Capacity == c.Capacity:
		return record{}, nil
	case c.Stale:
		next.Reported = nil
		text = fmt.Sprintf("%s reports no capacity any more; %d counts, as declared", c.Cluster, declared.Capacity)
	default:
		st.Versions++
		next.Reported = &Reported{Capacity: c.Capacity, At: at.now, Version: st.Versions}
		detail.Reported = &c.Capacity
		text = fmt.Sprintf("%s reports a capacity of %d", c.Cluster, c.Capacity)
	}
	// No answer changes with it: a rotation that follows from it does that.
	st.Clusters = with(st.Clusters, c.Cluster, &next)
	return record{kind: "cluster.capacity", subject: "clusters/" + c.Cluster, text: text, detail: detail}, nil
}

// LatencyDetail is Event.Detail of "latency.measured".
type LatencyDetail struct {
	Changes []LatencyChange `json:"changes"` // by region and endpoint
}

// LatencyChange is one round trip that is another now.
type LatencyChange struct {
	Region   string     `json:"region"`
	Endpoint netip.Addr `json:"endpoint"`
	Was      Duration   `json:"was,omitempty"` // 0: was not measured
	Is       Duration   `json:"is"`
}

func (c MeasureLatency) apply(st *State, at entry) (record, error) {
	endpoints, regions := st.endpoints(), st.regions()
	next := st.Latency
	var changes []LatencyChange
	known := false
	for _, region := range sortedKeys(c.RTT) {
		for _, addr := range slices.SortedFunc(maps.Keys(c.RTT[region]), netip.Addr.Compare) {
			rtt := c.RTT[region][addr]
			if rtt <= 0 || rtt.D() > MaxRTT {
				return record{}, refuse(ErrInvalid, "latency: %s to %s: must be above 0 and at most %s, is %s", region, addr, MaxRTT, rtt)
			}
			// Measured before the spec or the members changed: the rest still counts.
			if !regions[region] || !endpoints[addr] {
				continue
			}
			known = true
			if was := next[region][addr]; was != rtt {
				changes = append(changes, LatencyChange{region, addr, was, rtt})
				next = with(next, region, with(next[region], addr, rtt))
			}
		}
	}
	switch {
	case !known:
		return record{}, refuse(ErrStale, "latency: names no round trip between a region of members and an endpoint")
	case len(changes) == 0:
		return record{}, nil
	}
	st.Latency = next
	st.renewByLatency(changes, at)
	const shown = 3
	var parts []string
	for _, ch := range changes[:min(shown, len(changes))] {
		parts = append(parts, fmt.Sprintf("%s to %s is %s", ch.Region, ch.Endpoint, ch.Is))
	}
	text := strings.Join(parts, "; ")
	if more := len(changes) - shown; more > 0 {
		text = fmt.Sprintf("%s; and %d more", text, more)
	}
	return record{kind: "latency.measured", subject: "installation", text: text, detail: LatencyDetail{changes}}, nil
}

// renewByLatency makes a new ServiceState of each service that answers by the round
// trips that changed.
func (st *State) renewByLatency(changes []LatencyChange, at entry) {
	changed := make(map[netip.Addr]bool, len(changes))
	for _, ch := range changes {
		changed[ch.Endpoint] = true
	}
	st.renewServices()
	for _, name := range sortedKeys(st.Services) {
		s := st.Services[name]
		if st.Spec.Services[name].Policy.Type != Latency {
			continue
		}
		if !slices.ContainsFunc(st.Spec.ServiceTargets(name), func(t health.Target) bool { return changed[t.Endpoint] }) {
			continue
		}
		clone := *s
		st.putService(name, &clone)
		st.TableIndex = at.index
	}
}

// endpoints returns the addresses of all clusters.
func (st *State) endpoints() map[netip.Addr]bool {
	all := map[netip.Addr]bool{}
	for _, c := range st.Spec.Clusters {
		for _, a := range c.Endpoints() {
			all[a] = true
		}
	}
	return all
}

// regions returns the regions that members are in.
func (st *State) regions() map[string]bool {
	all := map[string]bool{}
	for _, m := range st.Members {
		all[m.Region] = true
	}
	return all
}

// forgetLatency drops the round trips of regions without a member, and to what is no
// endpoint any more.
func (st *State) forgetLatency() {
	endpoints, regions := st.endpoints(), st.regions()
	next := map[string]map[netip.Addr]Duration{}
	for region, rtts := range st.Latency {
		kept := map[netip.Addr]Duration{}
		for addr, rtt := range rtts {
			if endpoints[addr] {
				kept[addr] = rtt
			}
		}
		if regions[region] && len(kept) > 0 {
			next[region] = kept
		}
	}
	if len(next) == 0 {
		next = nil
	}
	st.Latency = next
}
