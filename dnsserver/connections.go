package dnsserver

import (
	"net"
	"net/netip"
	"sync"
)

// connections counts open TCP connections against a limit in all and one for each
// client network (/24, /56), so that one network cannot take them all.
type connections struct {
	max, maxPrefix int

	mu       sync.Mutex // guards what follows
	open     map[net.Conn]struct{}
	byPrefix map[netip.Prefix]int
	closed   bool
}

func newConnections(limit, perPrefix int) *connections {
	return &connections{max: limit, maxPrefix: perPrefix, open: map[net.Conn]struct{}{}, byPrefix: map[netip.Prefix]int{}}
}

// take counts a connection. The release it returns closes the connection and must
// be called once; it is nil when a limit is reached, and why then says which.
func (cs *connections) take(c net.Conn, client netip.Addr) (release func(), why string) {
	prefix := network(client)
	cs.mu.Lock()
	defer cs.mu.Unlock()
	switch {
	case cs.closed, len(cs.open) >= cs.max:
		return nil, "full"
	case cs.byPrefix[prefix] >= cs.maxPrefix:
		return nil, "prefix"
	}
	cs.open[c] = struct{}{}
	cs.byPrefix[prefix]++
	return func() {
		_ = c.Close() // whatever was to be sent is sent
		cs.mu.Lock()
		defer cs.mu.Unlock()
		delete(cs.open, c)
		if cs.byPrefix[prefix]--; cs.byPrefix[prefix] == 0 {
			delete(cs.byPrefix, prefix)
		}
	}, ""
}

// pressed reports whether at least half of the connections are taken.
func (cs *connections) pressed() bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return 2*len(cs.open) >= cs.max
}

// closeAll ends all connections and lets no new one in.
func (cs *connections) closeAll() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.closed = true
	for c := range cs.open {
		_ = c.Close() // its reader wakes up and releases it
	}
}

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
