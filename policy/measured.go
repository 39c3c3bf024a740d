package policy

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

// Measurement is what one observer measured and told the leader lately. It is no
// vote: what follows from it is committed only where it changes something.
type Measurement struct {
	Observer health.ObserverID
	RTT      map[netip.Addr]time.Duration // smoothed, by endpoint
	Resolved map[string]Resolved          // by cluster
	Capacity map[string]float64           // fresh reports, by cluster; see statestore.CapacityFrom
}

// Resolved is what an observer's resolver says of a cluster's hostname.
type Resolved struct {
	Hostname string
	Addrs    []netip.Addr // sorted, never empty
}

// LatencyEvery is the least time between two commits of round trips: whoever commits
// what Measured proposes leaves a MeasureLatency out that comes sooner. Latency
// ranks clusters that are all well, so nothing is lost by waiting.
const LatencyEvery = 10 * time.Second

// Measured returns what the observers' measurements amount to, by kind and subject:
// other addresses of a hostname, another capacity, other round trips. Each needs a
// majority of the regions, so that no lone observer changes anything (G1); round
// trips are a region's own. There is at most one measurement an observer, in any
// order, and listening is for how long the leader has taken them.
func Measured(st *statestore.State, ms []Measurement, listening time.Duration) []Proposal {
	e := electors(st, ms)
	return inOrder(resolutions(st, e), capacities(st, e, listening), latencies(st, e))
}

// electorate is the measurements by region. A region without any still counts: its
// silence is no consent.
type electorate map[string][]Measurement

func electors(st *statestore.State, ms []Measurement) electorate {
	e := electorate{}
	for _, region := range st.Eligible("") {
		e[region] = nil
	}
	for _, m := range ms {
		if member := st.Members[string(m.Observer)]; member != nil && member.Observes {
			e[member.Region] = append(e[member.Region], m)
		}
	}
	for _, of := range e {
		slices.SortStableFunc(of, func(a, b Measurement) int { return cmp.Compare(a.Observer, b.Observer) })
	}
	return e
}

// enough reports whether so many regions are a majority of the eligible ones.
func (e electorate) enough(regions int) bool { return regions >= health.Majority(len(e)) }

// What changes a committed value, and what is no value at all.
const (
	latencyRatio = 5                    // of five parts: a change below one fifth of the larger value is noise
	latencyLeast = 2 * time.Millisecond // below which nobody notices the difference
	latencyUnit  = 100 * time.Microsecond
	alikePercent = 10 // two values that are alike, where a spec asks for no change
)

// capacities returns the reports of capacity that are worth an entry.
func capacities(st *statestore.State, e electorate, listening time.Duration) []Proposal {
	var plan []Proposal
	propose := func(cluster, reason string, cmd statestore.ReportCapacity) {
		cmd.Cluster = cluster
		plan = append(plan, Proposal{Subject: "clusters/" + cluster, Reason: reason, Command: cmd})
	}
	for _, cluster := range sortedKeys(st.Spec.Clusters) {
		c, cs := st.Spec.Clusters[cluster], st.Clusters[cluster]
		if c.CapacityFrom == nil || cs == nil {
			continue
		}
		base, known := float64(c.Capacity), c.Capacity > 0
		if cs.Reported != nil {
			base, known = float64(cs.Reported.Capacity), true
		}
		var regions []float64
		for _, region := range sortedKeys(e) {
			var seen []float64
			for _, m := range e[region] {
				if v, ok := m.Capacity[cluster]; ok && v >= 0 && v <= statestore.MaxCapacity { // NaN is neither
					seen = append(seen, v)
				}
			}
			if v, ok := middle(seen, base, known, c.CapacityFrom.Change); ok {
				regions = append(regions, v)
			}
		}
		if !e.enough(len(regions)) {
			if cs.Reported != nil && listening >= c.CapacityFrom.MaxAge.D() {
				propose(cluster, fmt.Sprintf("no majority of the regions has heard for %s what %s can take", c.CapacityFrom.MaxAge, cluster), statestore.ReportCapacity{Stale: true})
			}
			continue
		}
		agreed, ok := middle(regions, base, known, c.CapacityFrom.Change)
		if !ok {
			continue // they differ too much to begin with any
		}
		value := int(math.Round(agreed))
		if cs.Reported == nil || worthReporting(c, cs.Reported.Capacity, value) {
			propose(cluster, fmt.Sprintf("%s reports that it can take %d", cluster, value), statestore.ReportCapacity{Capacity: value})
		}
	}
	return plan
}

// worthReporting reports whether a change of capacity is large enough for an entry.
func worthReporting(c *statestore.Cluster, was, is int) bool {
	whole := cmp.Or(c.Capacity, was)
	return was != is && (was == 0 || is == 0 || 100*math.Abs(float64(is-was)) >= float64(c.CapacityFrom.Change)*float64(whole))
}

// middle returns the median. Of an even number it is what base is within the middle
// two, or the one of them that is nearer: half of the voices are no majority and
// move nothing. Without a base the middle two have to be alike, within change percent.
func middle(values []float64, base float64, known bool, change int) (float64, bool) {
	if len(values) == 0 {
		return 0, false
	}
	slices.Sort(values)
	low, high := values[(len(values)-1)/2], values[len(values)/2]
	if !known && 100*(high-low) > float64(max(change, alikePercent))*high {
		return 0, false
	}
	if !known {
		return low, true
	}
	return min(max(base, low), high), true
}

// latencies returns the round trips that differ enough from those that rank the
// clusters now. Two clusters that are equally far never take turns: what a tenth of
// noise does is below what changes a committed value.
func latencies(st *statestore.State, e electorate) []Proposal {
	ranked := st.Spec.LatencyEndpoints()
	rtt := map[string]map[netip.Addr]statestore.Duration{}
	changed := 0
	for _, region := range sortedKeys(e) {
		for _, a := range ranked {
			was := st.Latency[region][a].D()
			var seen []float64
			for _, m := range e[region] {
				if d, ok := m.RTT[a]; ok && d > 0 && d <= statestore.MaxRTT {
					seen = append(seen, float64(d))
				}
			}
			v, ok := middle(seen, float64(was), was > 0, 100)
			if !ok {
				continue
			}
			is := max(time.Duration(v).Round(latencyUnit), latencyUnit)
			diff := max(is-was, was-is)
			if was > 0 && (diff < latencyLeast || latencyRatio*diff < max(is, was)) {
				continue
			}
			if rtt[region] == nil {
				rtt[region] = map[netip.Addr]statestore.Duration{}
			}
			rtt[region][a] = statestore.Duration(is)
			changed++
		}
	}
	if changed == 0 {
		return nil
	}
	return []Proposal{{
		Subject: "installation",
		Reason:  fmt.Sprintf("%d round trips changed as seen from %s", changed, strings.Join(sortedKeys(rtt), ", ")),
		Command: statestore.MeasureLatency{RTT: rtt},
	}}
}
