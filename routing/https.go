package routing

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"

	"github.com/quorate/quorate/statestore"
)

// The parameters of an HTTPS record (RFC 9460 14.3.2), in the order of the wire.
const (
	paramALPN     = 1
	paramIPv4Hint = 4
	paramIPv6Hint = 6
)

// httpsSet prepares the HTTPS record of a service that is at its own name: the
// protocols it speaks and, as hints, the addresses that A and AAAA would name, at
// most limit of each family (0: all). It is nil without an address.
func httpsSet(ttl uint32, alpn []string, addrs []netip.Addr, limit int) *RRset {
	v4, v6 := addressSet(TypeA, ttl, addrs, limit), addressSet(TypeAAAA, ttl, addrs, limit)
	if v4 == nil && v6 == nil {
		return nil
	}
	wire, text := []byte{0, 1, 0}, "1 ." // priority 1, target the owner
	param := func(key uint16, name, shown string, value []byte) {
		wire = binary.BigEndian.AppendUint16(wire, key)
		wire = binary.BigEndian.AppendUint16(wire, uint16(len(value)))
		wire = append(wire, value...)
		text += fmt.Sprintf(" %s=%q", name, shown)
	}
	if len(alpn) > 0 {
		var value []byte
		for _, id := range alpn {
			value = append(append(value, byte(len(id))), id...)
		}
		param(paramALPN, "alpn", strings.Join(alpn, ","), value)
	}
	for _, hint := range []struct {
		key  uint16
		name string
		set  *RRset
	}{{paramIPv4Hint, "ipv4hint", v4}, {paramIPv6Hint, "ipv6hint", v6}} {
		if hint.set == nil {
			continue
		}
		var value []byte
		for _, a := range hint.set.Rdata {
			value = append(value, a...)
		}
		param(hint.key, hint.name, strings.Join(hint.set.Text, ","), value)
	}
	return &RRset{Type: TypeHTTPS, TTL: ttl, Rdata: [][]byte{wire}, Text: []string{text}}
}

// srvOwner is where the SRV record of a service is (RFC 2782); "" without one.
func srvOwner(name string, s *statestore.Service) string {
	if s.SRV == nil || len(s.Names) == 0 {
		return ""
	}
	return absolute("_"+name+"._"+s.SRV.Proto, Canonical(s.Zone))
}

// srvSet prepares the SRV record of a service, or nil. It names the service: who
// serves is what that name answers.
func srvSet(s *statestore.Service) *RRset {
	if s.SRV == nil || len(s.Names) == 0 {
		return nil
	}
	target := absolute(s.Names[0], Canonical(s.Zone))
	wire := binary.BigEndian.AppendUint16([]byte{0, 0, 0, 0}, uint16(s.SRV.Port)) // priority and weight 0
	wire, err := packName(wire, target)
	if err != nil {
		return nil // the name is in no zone then, and the layout names that
	}
	return &RRset{
		Type: TypeSRV, TTL: seconds(s.TTL.Normal), Rdata: [][]byte{wire},
		Text: []string{fmt.Sprintf("0 0 %d %s", s.SRV.Port, target)},
	}
}
