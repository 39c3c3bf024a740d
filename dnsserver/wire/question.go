package wire

import "encoding/binary"

const (
	headerSize = 12
	maxName    = 255
	optSize    = 11

	// plainSize is the limit of a client without EDNS (RFC 1035 4.2.1), and the least
	// that one with it may say (RFC 6891 6.2.5).
	plainSize = 512
	// udpSize is what our OPT records say that we take (RFC 9715).
	udpSize = 1232

	typeOPT    = 41
	typeNXNAME = 128 // nobody may ask for it (RFC 9824 3.4)
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
	if len(b) < headerSize+5 {
		return p, false
	}
	// QR and opcode 0; one question, no answer, no authority, at most one additional.
	counts := binary.BigEndian.Uint64(b[4:])
	if b[2]&0xf8 != 0 || counts&^1 != 1<<48 {
		return p, false
	}
	at := headerSize
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
	if at-headerSize > maxName {
		return p, false
	}
	p.nameEnd, p.end, p.limit = at, at+4, plainSize
	p.qtype = binary.BigEndian.Uint16(b[at:])
	if binary.BigEndian.Uint16(b[at+2:]) != classIN || meta(p.qtype) {
		return p, false
	}
	opt := b[p.end:]
	if counts&1 == 0 {
		return p, len(opt) == 0
	}
	// OPT at the root, then size, extended code, version, flags and no options.
	if len(opt) != optSize || opt[0] != 0 || binary.BigEndian.Uint16(opt[1:]) != typeOPT ||
		binary.BigEndian.Uint16(opt[5:]) != 0 || opt[7]&^0x80 != 0 || opt[8] != 0 || binary.BigEndian.Uint16(opt[9:]) != 0 {
		return p, false
	}
	p.edns, p.do = true, opt[7] != 0
	p.limit = max(plainSize, int(binary.BigEndian.Uint16(opt[3:])))
	return p, true
}

// meta reports a type that asks for something else than records. ANY is not among
// them: it has an answer.
func meta(qtype uint16) bool {
	return qtype == typeOPT || qtype == 0 || qtype == typeNXNAME || qtype >= 249 && qtype <= 254
}

// ofSignatures reports a type whose records a signed zone has beside its own: RRSIG,
// NSEC, DNSKEY, NSEC3, NSEC3PARAM, CDS, CDNSKEY and DS.
func ofSignatures(qtype uint16) bool {
	switch qtype {
	case 43, 46, 47, 48, 50, 51, 59, 60:
		return true
	}
	return false
}
