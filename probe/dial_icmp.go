package probe

import (
	"errors"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/net/icmp"
)

// pingConn is an unprivileged ping socket that talks to one address. It reads and
// writes whole ICMP messages.
type pingConn struct {
	*icmp.PacketConn
	to *net.UDPAddr
}

// dialPing opens a ping socket. The group of this process must be within
// net.ipv4.ping_group_range, also for IPv6.
func dialPing(to, source netip.Addr) (net.Conn, error) {
	network, from := "udp4", "0.0.0.0"
	if to.Is6() {
		network, from = "udp6", "::"
	}
	if source.IsValid() {
		from = source.String()
	}
	conn, err := icmp.ListenPacket(network, from)
	switch {
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return nil, &ownError{"this node may not ping: its group must be within the sysctl net.ipv4.ping_group_range", err}
	case err != nil:
		return nil, &ownError{"open a ping socket", err}
	}
	return &pingConn{conn, &net.UDPAddr{IP: to.AsSlice(), Zone: to.Zone()}}, nil
}

// Write sends an ICMP message.
func (c *pingConn) Write(b []byte) (int, error) { return c.WriteTo(b, c.to) }

// Read returns the next ICMP message from the address.
func (c *pingConn) Read(b []byte) (int, error) {
	for {
		n, from, err := c.ReadFrom(b)
		if err != nil {
			return n, err
		}
		if udp, ok := from.(*net.UDPAddr); ok && udp.IP.Equal(c.to.IP) {
			return n, nil
		}
	}
}

// RemoteAddr returns the address that is talked to.
func (c *pingConn) RemoteAddr() net.Addr { return c.to }
