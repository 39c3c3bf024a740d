package apitype

import (
	"fmt"
	"strings"
	"time"
)

// ServiceTraffic is what clients asked the nodes for a service for in the last ten
// minutes, or since the nodes started.
type ServiceTraffic struct {
	Seconds          float64 `json:"seconds"` // how far back it goes
	Answers          uint64  `json:"answers"` // that named a cluster, one that named several once for each
	AnswersPerSecond float64 `json:"answers_per_second"`

	// Networks is how many client networks asked (/24, /56, or the subnet of a query
	// with ECS): at least, with MoreNetworks.
	Networks     int  `json:"networks"`
	MoreNetworks bool `json:"more_networks"`

	Regions      []RegionTraffic `json:"regions"`       // where they are, the busiest first
	Nodes        []string        `json:"nodes"`         // whose clients these are
	MissingNodes []string        `json:"missing_nodes"` // that did not say what theirs asked
}

// RegionTraffic is a region's part of a service's queries.
type RegionTraffic struct {
	Region  string    `json:"region"` // empty: nobody knows where they are
	Percent float64   `json:"percent"`
	Answers []Percent `json:"answers"` // that they get now
}

// Text says who asked, in a few words.
func (t ServiceTraffic) Text() string {
	text := "nobody asked in the last " + Lately(t.Seconds)
	if t.Answers > 0 || t.Networks > 0 {
		more := ""
		if t.MoreNetworks {
			more = "more than "
		}
		networks := "networks"
		if t.Networks == 1 {
			networks = "network"
		}
		text = fmt.Sprintf("%s%d client %s in the last %s, %s", more, t.Networks, networks, Lately(t.Seconds), rate(t.AnswersPerSecond))
	}
	return text + unknownOf(t.MissingNodes, " (", ")")
}

// RegionsText says where they are.
func (t ServiceTraffic) RegionsText() string {
	parts := make([]string, len(t.Regions))
	for i, r := range t.Regions {
		parts[i] = "unknown"
		if r.Region != "" {
			parts[i] = r.Region
		}
		parts[i] += " " + part(r.Percent)
	}
	return strings.Join(parts, ", ")
}

// ObservedReach is what a change does to the queries of the last hour, as the networks
// that asked most make them.
type ObservedReach struct {
	Seconds        float64  `json:"seconds"`         // how far back it goes
	Networks       int      `json:"networks"`        // looked at
	Queries        uint64   `json:"queries"`         // theirs; an estimate of busy nodes
	CoveredPercent float64  `json:"covered_percent"` // their part of all that is known
	MovedPercent   float64  `json:"moved_percent"`   // of Queries, would get another cluster
	LostPercent    float64  `json:"lost_percent"`    // of Queries, would get none
	MissingNodes   []string `json:"missing_nodes"`   // that did not say what their clients asked
}

// Text says what changes for those who asked lately.
func (o ObservedReach) Text() string {
	text := fmt.Sprintf("%s of the queries of the last %s would get another cluster", part(o.MovedPercent), Lately(o.Seconds))
	if o.LostPercent > 0 {
		text += ", " + part(o.LostPercent) + " NONE"
	}
	networks := "networks"
	if o.Networks == 1 {
		networks = "network"
	}
	text += fmt.Sprintf("   (%d client %s", o.Networks, networks)
	if o.CoveredPercent < 99.5 {
		text += ", which make " + part(o.CoveredPercent) + " of them"
	}
	return text + unknownOf(o.MissingNodes, "; ", "") + ")"
}

// unknownOf names the nodes that told nothing.
func unknownOf(nodes []string, before, after string) string {
	if len(nodes) == 0 {
		return ""
	}
	return before + "nothing known of " + strings.Join(nodes, ", ") + after
}

// part is a percentage, with a decimal where it is small and not nothing.
func part(percent float64) string {
	if percent > 0 && percent < 9.95 {
		return fmt.Sprintf("%.1f%%", percent)
	}
	return fmt.Sprintf("%.0f%%", percent)
}

// Lately is how far back something goes, in what people call that: 4m, 10m, hour.
func Lately(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d >= time.Hour:
		return "hour"
	case d >= 10*time.Minute && d < 20*time.Minute:
		return "10m" // and the part of five minutes that is under way
	case d >= time.Minute:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return fmt.Sprintf("%ds", d/time.Second)
}

// rate is a number of answers a second, as exact as it helps.
func rate(perSecond float64) string {
	switch {
	case perSecond >= 10:
		return fmt.Sprintf("~%.0f answers/s", perSecond)
	case perSecond >= 0.1:
		return fmt.Sprintf("~%.1f answers/s", perSecond)
	}
	return "less than 0.1 answers/s"
}
