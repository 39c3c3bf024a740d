package wire

import "encoding/binary"

const (
	// HeaderSize is the length of a message's header in octets (RFC 1035 4.1.1).
	HeaderSize = 12
	// MaxName is the longest name in octets (RFC 1035 2.3.4).
	MaxName = 255
	// OPTSize is the length of an OPT record without options in octets (RFC 6891 6.1.2).
	OPTSize = 11

	// PlainSize is how many octets a client without EDNS takes over UDP (RFC 1035 4.2.1),
	// and the least that one with it may say (RFC 6891 6.2.5).
	PlainSize = 512
	// UDPSize is the longest answer over UDP, in octets, that crosses networks
	// unfragmented, and what our OPT records say that we take (RFC 9715).
	UDPSize = 1232

	typeOPT    = 41
	typeNXNAME = 128 // nobody may ask for it (RFC 9824 3.5)
	classIN    = 1
)

// question is an ordinary query: one question of class IN, and at most an OPT record
// of version 0 without options or flags but DO.
type question struct {
	nameEnd int // of the name
	end     int // of the question
	labels  int // without the root
	qtype   uint16
	limit   int // octets that the client takes over UDP
	edns    bool
	do      bool
}

// parse reads a query, or reports false where it is none that a table answers.
func parse(b []byte) (p question, ok bool) {
	if len(b) < HeaderSize+5 {
		return p, false
	}
	// QR and opcode 0; one question, no answer, no authority, at most one additional.
	counts := binary.BigEndian.Uint64(b[4:])
	if b[2]&0xf8 != 0 || counts&^1 != 1<<48 {
		return p, false
	}
	at := HeaderSize
	for b[at] != 0 {
		if b[at] > 63 {
			return p, false // a pointer, or nothing that is known
		}
		p.labels++
		if at += 1 + int(b[at]); at > len(b)-5 { // the root, type and class follow
			return p, false
		}
	}
	at++
	if at-HeaderSize > MaxName {
		return p, false
	}
	p.nameEnd, p.end, p.limit = at, at+4, PlainSize
	p.qtype = binary.BigEndian.Uint16(b[at:])
	if binary.BigEndian.Uint16(b[at+2:]) != classIN || p.qtype == typeNXNAME || Meta(p.qtype) {
		return p, false
	}
	opt := b[p.end:]
	if counts&1 == 0 {
		return p, len(opt) == 0
	}
	// OPT at the root, then size, extended code, version, flags and no options.
	if len(opt) != OPTSize || opt[0] != 0 || binary.BigEndian.Uint16(opt[1:]) != typeOPT ||
		binary.BigEndian.Uint16(opt[5:]) != 0 || opt[7]&^0x80 != 0 || opt[8] != 0 || binary.BigEndian.Uint16(opt[9:]) != 0 {
		return p, false
	}
	p.edns, p.do = true, opt[7] != 0
	p.limit = max(PlainSize, int(binary.BigEndian.Uint16(opt[3:])))
	return p, true
}

// Meta reports a type that asks for something else than records. ANY is not among
// them: it has an answer.
func Meta(qtype uint16) bool {
	const tkey, maila = 249, 254
	return qtype == typeOPT || qtype == 0 || qtype >= tkey && qtype <= maila
}

// ANYLimit is how many octets answer a query of so many for ANY over UDP, at most: who
// asks with a forged address gains nothing by it (RFC 8482 says small; this is how small).
func ANYLimit(query int) int { return 2 * query }

// ofSignatures reports a type whose records a signed zone has beside its own: RRSIG,
// NSEC, DNSKEY, NSEC3, NSEC3PARAM, CDS, CDNSKEY and DS.
func ofSignatures(qtype uint16) bool {
	switch qtype {
	case 43, 46, 47, 48, 50, 51, 59, 60:
		return true
	}
	return false
}
