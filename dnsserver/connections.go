package dnsserver

import (
	"net/netip"
	"sync"
	"sync/atomic"
)

// connections counts open TCP connections against a limit in all and one for each
// client network (/24, /56), so that one network cannot take them all.
type connections struct {
	max, maxPrefix int

	open atomic.Int64

	mu       sync.Mutex // guards byPrefix, and that open grows no further than max
	byPrefix map[netip.Prefix]int
}

func newConnections(limit, perPrefix int) *connections {
	return &connections{max: limit, maxPrefix: perPrefix, byPrefix: map[netip.Prefix]int{}}
}

// Why a connection is turned away.
const (
	tcpFull   = "full"   // too many in all
	tcpPrefix = "prefix" // too many of its network
)

// take counts a connection of a network. When a limit is reached it does not, and
// says which one; lent is how many there may be above the limit in all. What was taken
// must be released once.
func (cs *connections) take(prefix netip.Prefix, lent int) (refused string) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	switch {
	case cs.byPrefix[prefix] >= cs.maxPrefix:
		return tcpPrefix
	case int(cs.open.Load()) >= cs.max+lent:
		return tcpFull
	}
	cs.open.Add(1)
	cs.byPrefix[prefix]++
	return ""
}

func (cs *connections) release(prefix netip.Prefix) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.open.Add(-1)
	if cs.byPrefix[prefix]--; cs.byPrefix[prefix] == 0 {
		delete(cs.byPrefix, prefix)
	}
}

// pressed reports whether at least half of the connections are taken.
func (cs *connections) pressed() bool { return 2*int(cs.open.Load()) >= cs.max }

// network is what counts as one client: a /24, or a /56 (FAULTS 5).
func network(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := 24
	if a.Is6() {
		bits = 56
	}
	p, _ := a.Prefix(bits) // an address of either family has these
	return p
}
