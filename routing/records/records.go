// Package records parses static records of a zone from presentation format.
//
// It is what stands between people's text and the routing table: a record it
// accepts has a valid wire form, belongs at its owner and needs nothing that this
// version does not do. It is pure.
package records

import (
	"fmt"
	"strings"

	"github.com/miekg/dns"
)

// Set is the records of one type at one owner.
type Set struct {
	Owner  string // absolute, lower case, with the final dot
	Type   uint16
	Rdata  [][]byte // uncompressed wire format
	Text   []string // presentation format, one for each of Rdata
	Target string   // of a CNAME: absolute, lower case
}

// refused are types that cannot be static, each with the reason.
var refused = map[uint16]string{
	dns.TypeSOA:        "it is derived; set zones.ZONE.soa",
	dns.TypeNS:         "it is derived; set zones.ZONE.ns. Delegation below the zone is not supported",
	dns.TypeDS:         "delegation below the zone is not supported",
	dns.TypeDNAME:      "it is not supported",
	dns.TypeRRSIG:      "signatures are made by the server",
	dns.TypeNSEC:       "denial is made by the server",
	dns.TypeNSEC3:      "denial is made by the server",
	dns.TypeNSEC3PARAM: "denial is made by the server",
	dns.TypeDNSKEY:     "keys are published by the server",
	dns.TypeOPT:        "it is not a record",
	dns.TypeANY:        "it is not a record",
	dns.TypeAXFR:       "it is not a record",
	dns.TypeIXFR:       "it is not a record",
	dns.TypeTSIG:       "it is not a record",
	dns.TypeTKEY:       "it is not a record",
}

// Parse reads the rdata of one type ("TXT") at an owner relative to zone; "@" is
// the apex. Names in rdata are relative to the zone unless they end in a dot. The
// error says what must be otherwise.
func Parse(zone, owner, typ string, rdata []string) (*Set, error) {
	number, ok := TypeNumber(typ)
	if !ok {
		return nil, fmt.Errorf("type must be a DNS record type such as A or TXT, is %q", typ)
	}
	if why, no := refused[number]; no {
		return nil, fmt.Errorf("type must not be %s: %s", TypeName(number), why)
	}
	if len(rdata) == 0 {
		return nil, fmt.Errorf("%s must have at least one record, has none", TypeName(number))
	}
	zone = dns.CanonicalName(zone)
	name, err := ownerName(zone, owner)
	if err != nil {
		return nil, err
	}
	if number == dns.TypeCNAME {
		switch {
		case name == zone:
			return nil, fmt.Errorf("CNAME must not stand at the apex: a name with SOA and NS cannot be an alias (RFC 1034 3.6.2)")
		case len(rdata) > 1:
			return nil, fmt.Errorf("CNAME must be one record, is %d", len(rdata))
		}
	}
	set := &Set{Owner: name, Type: number}
	seen := map[string]bool{}
	for _, text := range rdata {
		rr, err := parseOne(zone, name, number, text)
		if err != nil {
			return nil, err
		}
		wire, err := pack(rr)
		if err != nil {
			return nil, fmt.Errorf("%s record must have a wire form, %q has none: %w", TypeName(number), text, err)
		}
		if seen[string(wire)] {
			return nil, fmt.Errorf("%s records must differ, %q is there twice", TypeName(number), text)
		}
		seen[string(wire)] = true
		set.Rdata = append(set.Rdata, wire)
		set.Text = append(set.Text, strings.TrimPrefix(rr.String(), rr.Header().String()))
		if c, ok := rr.(*dns.CNAME); ok {
			set.Target = dns.CanonicalName(c.Target)
		}
	}
	return set, nil
}

// Check says what is wrong with one record, or nil.
func Check(zone, owner, typ, rdata string) error {
	_, err := Parse(zone, owner, typ, []string{rdata})
	return err
}

// ownerName returns the absolute name of owner in zone. A wildcard is "*" as the
// whole first label.
func ownerName(zone, owner string) (string, error) {
	name := zone
	if owner != "@" {
		name = owner + "." + zone
	}
	if owner == "" || strings.HasSuffix(owner, ".") {
		return "", fmt.Errorf("owner must be relative to %s, is %q", zone, owner)
	}
	if _, ok := dns.IsDomainName(name); !ok {
		return "", fmt.Errorf("owner must be a domain name, is %q", owner)
	}
	if i := strings.LastIndex(owner, "*"); i > 0 || (i == 0 && len(owner) > 1 && owner[1] != '.') {
		return "", fmt.Errorf("owner must have a wildcard only as its whole first label, is %q", owner)
	}
	// Through the wire and back, so that one name has one spelling.
	buf := make([]byte, 256)
	if _, err := dns.PackDomainName(name, buf, 0, nil, false); err != nil {
		return "", fmt.Errorf("owner must be a domain name, is %q: %w", owner, err)
	}
	spelled, _, err := dns.UnpackDomainName(buf, 0)
	if err != nil {
		return "", fmt.Errorf("owner must be a domain name, is %q: %w", owner, err)
	}
	return dns.CanonicalName(spelled), nil
}

// parseOne reads one record. The zone parser is fed exactly one line.
func parseOne(zone, name string, number uint16, text string) (dns.RR, error) {
	if strings.ContainsAny(text, "\n\r") {
		return nil, fmt.Errorf("%s record must be one line, is %q", TypeName(number), text)
	}
	zp := dns.NewZoneParser(strings.NewReader(name+" 0 IN "+TypeName(number)+" "+text+"\n"), zone, "")
	rr, ok := zp.Next()
	if err := zp.Err(); err != nil {
		return nil, fmt.Errorf("%s record must be valid, %q is not: %s", TypeName(number), text, reason(err))
	}
	if !ok || rr.Header().Rrtype != number {
		return nil, fmt.Errorf("%s record must be valid, %q is not", TypeName(number), text)
	}
	if _, more := zp.Next(); more {
		return nil, fmt.Errorf("%s record must be one record, %q is more", TypeName(number), text)
	}
	return rr, nil
}

// reason strips the parser's prefix and its line of our own making.
func reason(err error) string {
	s := strings.TrimPrefix(err.Error(), "dns: ")
	if i := strings.LastIndex(s, " at line:"); i >= 0 {
		s = s[:i]
	}
	return s
}

// pack returns the wire form of the record's data.
func pack(rr dns.RR) ([]byte, error) {
	buf := make([]byte, dns.Len(rr)+1)
	end, err := dns.PackRR(rr, buf, 0, nil, false)
	if err != nil {
		return nil, err
	}
	start, err := dns.PackDomainName(rr.Header().Name, make([]byte, 256), 0, nil, false)
	if err != nil {
		return nil, err
	}
	return buf[start+10 : end : end], nil // type, class, TTL and length are ten octets
}

// TypeNumber returns the number of a record type, such as 1 for "a".
func TypeNumber(typ string) (uint16, bool) {
	if n, ok := dns.StringToType[strings.ToUpper(typ)]; ok && n != dns.TypeNone && n != dns.TypeReserved {
		return n, true
	}
	return 0, false
}

// TypeName returns the name of a record type, or "TYPE123" (RFC 3597).
func TypeName(number uint16) string { return dns.Type(number).String() }
