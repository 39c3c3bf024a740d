package dnsserver

import (
	"encoding/binary"
	"net/netip"

	"github.com/miekg/dns"
)

// readSubnet takes the data of a client subnet option (RFC 7871 6, 7.1.2). It is sent
// back as it came, with the scope of the answer: 0 until something depended on it. It
// reports whether the data is well formed: a family that exists, a prefix it can have,
// as many octets as the prefix fills, no bits beyond it, and no scope yet.
func (e *edns) readSubnet(data []byte) bool {
	if len(data) < 4 {
		return false
	}
	family, source, scope, addr := binary.BigEndian.Uint16(data), int(data[2]), data[3], data[4:]
	if scope != 0 || len(addr) != (source+7)/8 {
		return false
	}
	var full [16]byte
	var ip netip.Addr
	switch {
	case family == 0 && source == 0: // somebody who only wants to say: nowhere
		e.ecs = &dns.EDNS0_SUBNET{Code: dns.EDNS0SUBNET}
		return true
	case family == 1 && source <= 32:
		copy(full[:4], addr)
		ip = netip.AddrFrom4([4]byte(full[:4]))
	case family == 2 && source <= 128:
		copy(full[:], addr)
		ip = netip.AddrFrom16(full)
	default:
		return false
	}
	subnet := netip.PrefixFrom(ip, source)
	if subnet.Masked() != subnet {
		return false
	}
	e.subnet = subnet
	e.ecs = &dns.EDNS0_SUBNET{Code: dns.EDNS0SUBNET, Family: family, SourceNetmask: uint8(source), Address: ip.AsSlice()}
	return true
}
