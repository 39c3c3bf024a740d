// Package dnssec signs answers as they are given (RFC 4033 to 4035).
//
// A Zone holds the keys of one zone and the records that publish them; a Signer
// makes RRSIG records, keeps them while they are good and bounds what making them
// costs. Equal content gets equal signatures on every node: windows of validity are
// quantised, and both algorithms are deterministic. The package knows neither
// sockets nor tables, reads no clock (the time is handed in), and never writes a
// private key anywhere but where Key.PEM is written.
package dnssec

import (
	"fmt"

	"github.com/miekg/dns"
)

// Set is the records of one type at one name, as they are signed.
type Set struct {
	Owner string   // lower case, with the final dot; of what a wildcard gave: the wildcard
	Type  uint16   // of class IN
	TTL   uint32   // seconds
	Rdata [][]byte // uncompressed wire format
}

// Records returns the records at owner, which may be another spelling of Set.Owner.
func (s Set) Records(owner string) []dns.RR {
	rrs := make([]dns.RR, 0, len(s.Rdata))
	for _, rdata := range s.Rdata {
		h := dns.RR_Header{Name: owner, Rrtype: s.Type, Class: dns.ClassINET, Ttl: s.TTL, Rdlength: uint16(len(rdata))}
		rr, _, err := dns.UnpackRRWithHeader(h, rdata, 0)
		if err != nil {
			panic(fmt.Sprintf("prepared %s record of %s does not read back: %v", dns.Type(s.Type), owner, err))
		}
		rrs = append(rrs, rr)
	}
	return rrs
}

// setOf returns the set of records that have one owner and type.
func setOf(rrs ...dns.RR) Set {
	h := rrs[0].Header()
	s := Set{Owner: h.Name, Type: h.Rrtype, TTL: h.Ttl}
	for _, rr := range rrs {
		wire := make([]byte, dns.Len(rr)+1)
		end, err := dns.PackRR(rr, wire, 0, nil, false)
		if err != nil {
			panic(fmt.Sprintf("pack %s of %s: %v", dns.Type(h.Rrtype), h.Name, err))
		}
		_, at, err := dns.UnpackDomainName(wire, 0)
		if err != nil {
			panic(fmt.Sprintf("read back the owner %s: %v", h.Name, err))
		}
		const fixed = 10 // type, class, TTL and length follow the owner (RFC 1035 3.2.1)
		s.Rdata = append(s.Rdata, wire[at+fixed:end])
	}
	return s
}
