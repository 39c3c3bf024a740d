// Package records parses static records of a zone from presentation format.
//
// It is what stands between people's text and the routing table: a record it
// accepts has a valid wire form, belongs at its owner and needs nothing that this
// version does not do. It is pure.
package records

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/miekg/dns"
)

// Set is the records of one type at one owner.
type Set struct {
	Owner   string // absolute, lower case, with the final dot
	Type    uint16
	Rdata   [][]byte // uncompressed wire format
	Text    []string // presentation format, one for each of Rdata
	Targets []string // of CNAME, DNAME and NS: absolute, lower case, one for each of Rdata
}

// refused are types that cannot be static, each with the reason.
var refused = map[uint16]string{
	dns.TypeSOA:        "it is derived; set zones.ZONE.soa",
	dns.TypeRRSIG:      "signatures are made by the server",
	dns.TypeNSEC:       "denial is made by the server",
	dns.TypeNSEC3:      "denial is made by the server",
	dns.TypeNSEC3PARAM: "denial is made by the server",
	dns.TypeDNSKEY:     "keys are published by the server",
	dns.TypeCDS:        "keys are published by the server",
	dns.TypeCDNSKEY:    "keys are published by the server",
	dns.TypeOPT:        "it is not a record",
}

// Parse reads the rdata of one type ("TXT") at an owner relative to zone; "@" is
// the apex. Names in rdata are relative to the zone unless they end in a dot. The
// error says what must be otherwise.
func Parse(zone, owner, typ string, rdata []string) (*Set, error) {
	number, ok := TypeNumber(typ)
	if !ok {
		return nil, fmt.Errorf("type must be a DNS record type such as A or TXT, is %q", typ)
	}
	why, no := refused[number]
	if question(number) {
		why, no = "it is not a record", true
	}
	if no {
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
	if err := standing(zone, name, number, len(rdata)); err != nil {
		return nil, err
	}
	set := &Set{Owner: name, Type: number}
	seen, size := make(map[string][]dns.RR, len(rdata)), 0
	for _, text := range rdata {
		rr, err := parseOne(zone, name, number, text)
		if err != nil {
			return nil, err
		}
		wire, err := pack(rr)
		if err != nil {
			return nil, fmt.Errorf("%s record must have a wire form, %q has none: %w", TypeName(number), text, err)
		}
		if len(wire) == 0 && !mayBeEmpty(rr) {
			return nil, fmt.Errorf("%s record must have data, %q is none", TypeName(number), text)
		}
		folded := string(foldCase(wire))
		if slices.ContainsFunc(seen[folded], func(other dns.RR) bool { return dns.IsDuplicate(rr, other) }) {
			return nil, fmt.Errorf("%s records must differ, %q is there twice", TypeName(number), text)
		}
		seen[folded] = append(seen[folded], rr)
		set.Rdata = append(set.Rdata, wire)
		set.Text = append(set.Text, dataText(rr))
		if target, ok := target(rr); ok {
			set.Targets = append(set.Targets, target)
		}
		if size += len(wire) + perRecord; size > maxSet {
			return nil, fmt.Errorf("%s records of one name must fit one message, are more than %d octets", TypeName(number), maxSet)
		}
	}
	return set, nil
}

const (
	// perRecord is what a record takes in a message besides its data: a pointer to its
	// owner, type, class, TTL and length.
	perRecord = 12

	// maxSet is how long a set may be: a message has at most 65,535 octets, and the
	// question, aliases, signatures and the SOA stand beside it.
	maxSet = 62 << 10
)

// standing refuses types that may not stand where they do.
func standing(zone, name string, number uint16, count int) error {
	single := number == dns.TypeCNAME || number == dns.TypeDNAME
	switch {
	case number == dns.TypeCNAME && name == zone:
		return fmt.Errorf("CNAME must not stand at the apex: a name with SOA and NS cannot be an alias (RFC 1034 3.6.2)")
	case single && count > 1:
		return fmt.Errorf("%s must be one record, is %d", TypeName(number), count)
	case number == dns.TypeNS && name == zone:
		return fmt.Errorf("NS of the apex is derived; set zones.ZONE.ns")
	case number == dns.TypeDS && name == zone:
		return fmt.Errorf("DS must stand in the zone above, beside the delegation (RFC 4035 2.4)")
	case strings.HasPrefix(name, "*.") && (number == dns.TypeNS || number == dns.TypeDS || number == dns.TypeDNAME):
		return fmt.Errorf("%s must not stand at a wildcard (RFC 4592 4)", TypeName(number))
	}
	return nil
}

// dataText is the data of a record in presentation format.
func dataText(rr dns.RR) string {
	if u, ok := rr.(*dns.RFC3597); ok {
		return generic(u.Rdata)
	}
	return strings.TrimPrefix(rr.String(), rr.Header().String())
}

// generic is data in the form that every type may have (RFC 3597 5).
func generic(hexed string) string {
	return strings.TrimSpace(fmt.Sprintf(`\# %d %s`, len(hexed)/2, hexed))
}

// mayBeEmpty reports whether a record of no octets is one. The parser accepts such of
// every type, for dynamic updates.
func mayBeEmpty(rr dns.RR) bool {
	switch rr.(type) {
	case *dns.RFC3597, *dns.NULL, *dns.APL:
		return true
	}
	return false
}

// target returns the name that a record sends its reader on to.
func target(rr dns.RR) (string, bool) {
	switch rr := rr.(type) {
	case *dns.CNAME:
		return plain(rr.Target), true
	case *dns.DNAME:
		return plain(rr.Target), true
	case *dns.NS:
		return plain(rr.Ns), true
	}
	return "", false
}

// plain returns the one spelling of a name that a table uses: through the wire and
// back, in lower case.
func plain(name string) string {
	var buf [256]byte
	if _, err := dns.PackDomainName(name, buf[:], 0, nil, false); err != nil {
		return dns.CanonicalName(name)
	}
	spelled, _, err := dns.UnpackDomainName(buf[:], 0)
	if err != nil {
		return dns.CanonicalName(name)
	}
	return dns.CanonicalName(spelled)
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
	var buf [256]byte
	if _, err := dns.PackDomainName(name, buf[:], 0, nil, false); err != nil {
		return "", fmt.Errorf("owner must be a domain name, is %q: %w", owner, err)
	}
	return plain(name), nil
}

// parseOne reads one record. The zone parser is fed exactly one line. Addresses, of
// which there are most, do without it.
func parseOne(zone, name string, number uint16, text string) (dns.RR, error) {
	if number == dns.TypeA || number == dns.TypeAAAA {
		h := dns.RR_Header{Name: name, Rrtype: number, Class: dns.ClassINET}
		switch a, err := netip.ParseAddr(text); {
		case err != nil || a.Zone() != "":
		case a.Is4() && number == dns.TypeA:
			return &dns.A{Hdr: h, A: a.AsSlice()}, nil
		case a.Is6() && number == dns.TypeAAAA:
			return &dns.AAAA{Hdr: h, AAAA: a.AsSlice()}, nil
		}
	}
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
	if c := zp.Comment(); c != "" {
		return nil, fmt.Errorf("%s record must have no comment, %q has %q: put what has a semicolon into quotes", TypeName(number), text, c)
	}
	if ds, ok := rr.(*dns.DS); ok {
		if n, is := digests[ds.DigestType], len(ds.Digest)/2; n != 0 && n != is {
			return nil, fmt.Errorf("DS record must have a digest of %d octets for digest type %d, has %d", n, ds.DigestType, is)
		}
	}
	if _, more := zp.Next(); more {
		return nil, fmt.Errorf("%s record must be one record, %q is more", TypeName(number), text)
	}
	return rr, nil
}

// digests are the octets that a DS digest has, by its type. Resolvers refuse the whole
// answer where it has others.
var digests = map[uint8]int{dns.SHA1: 20, dns.SHA256: 32, dns.SHA384: 48}

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

// TypeNumber returns the number of a record type, such as 1 for "a", or 65534 for
// "TYPE65534" (RFC 3597 5).
func TypeNumber(typ string) (uint16, bool) {
	typ = strings.ToUpper(typ)
	if n, ok := dns.StringToType[typ]; ok && n != dns.TypeNone && n != dns.TypeReserved {
		return n, true
	}
	digits, ok := strings.CutPrefix(typ, "TYPE")
	n, err := strconv.ParseUint(digits, 10, 16)
	return uint16(n), ok && err == nil && n != 0 && digits[0] != '0'
}

// nxname marks a name that is not there in a denial (RFC 9824 3.5).
const nxname = 128

// question reports types that only ask or only go with a message (RFC 6895 3.1).
func question(number uint16) bool { return number >= nxname && number < dns.TypeURI }

// TypeName returns the name of a record type, or "TYPE123" (RFC 3597).
func TypeName(number uint16) string { return dns.Type(number).String() }

// foldCase returns octets with capitals made small: names that differ in case are one
// (RFC 4343), and a set has each record once (RFC 2181 5), which signatures rely on too
// (RFC 4034 6.3). It says what may be alike, since text with another case is another text.
func foldCase(b []byte) []byte {
	b = slices.Clone(b)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + ('a' - 'A')
		}
	}
	return b
}
