package dnssec

import (
	"slices"

	"github.com/miekg/dns"
)

// NSEC returns the NSEC set at owner that leads to next and lists types, in any
// order; RRSIG and NSEC are always among them (RFC 4034 4).
func NSEC(owner, next string, ttl uint32, types []uint16) Set {
	bits := append(slices.Clone(types), dns.TypeRRSIG, dns.TypeNSEC)
	slices.Sort(bits)
	return setOf(&dns.NSEC{
		Hdr:        dns.RR_Header{Name: owner, Rrtype: dns.TypeNSEC, Class: dns.ClassINET, Ttl: ttl},
		NextDomain: next, TypeBitMap: slices.Compact(bits),
	})
}

// Matching returns the NSEC set by which a zone with compact denial says which types
// a name has; with NXNAME alone that the name is not there (RFC 9824 3).
func Matching(owner string, ttl uint32, types []uint16) Set {
	return NSEC(owner, successor(owner), ttl, types)
}

// Types returns what the NSEC set of a name lists: the types that it has, but for the
// one that is denied, and at the apex those that signing adds.
func (z *Zone) Types(owner string, has []uint16, denied uint16) []uint16 {
	list := slices.Clone(has)
	if owner == z.Name {
		list = append(list, apexTypes...)
	}
	return slices.DeleteFunc(list, func(t uint16) bool { return t == denied })
}

// successor returns the name next after name in canonical order (RFC 4471 3.1.2), so
// that an NSEC record between both denies nothing else.
func successor(name string) string {
	wire := make([]byte, 256)
	end, err := dns.PackDomainName(name, wire, 0, nil, false)
	if err != nil {
		return `\000.` + name
	}
	const longest, longestLabel = 255, 63
	switch first := int(wire[0]); {
	case end+2 <= longest:
		return `\000.` + name
	case end+1 <= longest && first < longestLabel:
		longer := append([]byte{byte(first + 1)}, wire[1:1+first]...)
		return text(append(append(longer, 0), wire[1+first:end]...), name)
	default:
		return text(increment(wire[:end]), name)
	}
}

// increment makes the first label the next one of its length; labels that have none
// give way to the name after all that is below the rest.
func increment(wire []byte) []byte {
	for wire[0] != 0 {
		label := slices.Clone(wire[1 : 1+int(wire[0])])
		rest := wire[1+len(label):]
		for len(label) > 0 && label[len(label)-1] == 0xff {
			label = label[:len(label)-1]
		}
		if len(label) > 0 {
			last := &label[len(label)-1]
			*last++
			if *last >= 'A' && *last <= 'Z' {
				*last = 'Z' + 1 // capitals sort as small letters
			}
			return append(append([]byte{byte(len(label))}, label...), rest...)
		}
		wire = rest
	}
	return wire
}

// text returns a packed name in presentation format, or other where it is none.
func text(wire []byte, other string) string {
	name, _, err := dns.UnpackDomainName(wire, 0)
	if err != nil {
		return other
	}
	return name
}
