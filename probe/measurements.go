package probe

import (
	"net/netip"
	"slices"
	"time"
)

// Measurements is what an observer measures beside votes. It is a copy.
type Measurements struct {
	RTT      map[netip.Addr]time.Duration // smoothed, by endpoint of the plan
	Resolved map[string]Resolved          // by cluster; without those that did not resolve lately
	Capacity map[string]float64           // by cluster; without reports older than their MaxAge
}

// Resolved is what the resolver says of a cluster's hostname.
type Resolved struct {
	Hostname string
	Addrs    []netip.Addr // IPv4 first, each family sorted; never empty
}

func (r Resolved) equal(o Resolved) bool {
	return r.Hostname == o.Hostname && slices.Equal(r.Addrs, o.Addrs)
}

// Measurements returns what this observer has measured beside its votes.
func (p *Prober) Measurements() Measurements {
	var m Measurements
	m.Resolved, m.Capacity = p.survey.measurements(time.Now())
	m.RTT = p.rtt.list()
	return m
}

// MeasurementsChanged returns a channel that is closed when a resolved set or a
// capacity changes, which is worth telling at once. Take it before Measurements,
// or a change in between is missed.
func (p *Prober) MeasurementsChanged() <-chan struct{} {
	p.survey.mu.Lock()
	defer p.survey.mu.Unlock()
	return p.survey.changed
}
