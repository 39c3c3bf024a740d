package probe

import (
	"context"
	"net"
	"net/netip"
)

// DialFunc opens a connection to addr, a literal "IP:PORT".
type DialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// AddressPolicy says which addresses probes and hooks may reach. It is checked
// on the address that is dialled, after any resolution.
type AddressPolicy struct {
	// Allow opens private ranges and, by prefixes that lie wholly inside them,
	// loopback, link-local and the like. A metadata address must be listed itself.
	Allow []netip.Prefix
	// Deny is never reached, whatever Allow says: this node's own listeners. An
	// unspecified address stands for every local one, by port.
	Deny []netip.AddrPort
}

// Source is the address that probes leave from; invalid ones leave it to the system.
type Source struct {
	IPv4 netip.Addr
	IPv6 netip.Addr
}
