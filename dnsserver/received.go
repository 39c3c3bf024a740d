package dnsserver

import "encoding/binary"

// received is what a packet says, found without following anything but its own lengths.
// Everything in it points into the packet.
type received struct {
	wire []byte

	// malformed: it cannot be read to its end, its question's name is not one, or it
	// holds an OPT record where none belongs.
	malformed bool

	questions int
	name      []byte // of the first question, in wire format as the client spelled it; nil: it cannot be read
	qtype     uint16
	qclass    uint16

	opt     bool   // there is an OPT record
	class   uint16 // of it: the UDP size
	ttl     uint32 // of it: code, version, flags
	options []byte
}

// Sections of a message after the questions (RFC 1035 4.1).
const (
	answerSection = iota
	authoritySection
	additionalSection
)

// count is the number of records that a section says it has.
func (q *received) count(section int) int {
	return int(binary.BigEndian.Uint16(q.wire[6+2*section:]))
}

// opcode is the header's.
func (q *received) opcode() int { return int(q.wire[2] >> 3 & 0xf) }

// receive reads a packet that has a header.
func receive(wire []byte) received {
	q := received{wire: wire, questions: int(binary.BigEndian.Uint16(wire[4:]))}
	at, ok := headerSize, true
	for i := range q.questions {
		start := at
		at, ok = skipLabels(wire, at)
		if !ok || at+4 > len(wire) {
			q.malformed = true
			return q
		}
		if i == 0 {
			q.name, q.qtype, q.qclass = wire[start:at], binary.BigEndian.Uint16(wire[at:]), binary.BigEndian.Uint16(wire[at+2:])
		}
		at += 4
	}
	for section := range additionalSection + 1 {
		for range q.count(section) {
			if at = q.record(at, section); at == 0 {
				q.malformed = true
				return q
			}
		}
	}
	return q
}

// record reads the record at an offset and returns where it ends, 0 if it does not
// fit. Records other than OPT are none of our business.
func (q *received) record(start, section int) (end int) {
	at, ok := skipName(q.wire, start)
	if !ok || at+10 > len(q.wire) {
		return 0
	}
	fixed := q.wire[at:]
	end = at + 10 + int(binary.BigEndian.Uint16(fixed[8:]))
	if end > len(q.wire) {
		return 0
	}
	if binary.BigEndian.Uint16(fixed) == typeOPT {
		// One, in the additional section, at the root (RFC 6891 6.1.1).
		if q.opt || section != additionalSection || q.wire[start] != 0 {
			q.malformed = true
		}
		q.opt, q.class, q.ttl, q.options = true, binary.BigEndian.Uint16(fixed[2:]), binary.BigEndian.Uint32(fixed[4:]), q.wire[at+10:end]
	}
	return end
}

const typeOPT = 41

// skipLabels returns the end of a name that is written out. The first name of a
// message is: a pointer in it could only lead into the header or forward.
func skipLabels(wire []byte, at int) (end int, ok bool) {
	for start := at; at < len(wire); {
		n := int(wire[at])
		switch {
		case n == 0:
			return at + 1, at+1-start <= maxName
		case n > 63: // a pointer, or a label of a kind that never came to be (RFC 6891 5)
			return 0, false
		}
		at += 1 + n
	}
	return 0, false
}

// skipName returns the end of a name that may be compressed. Each pointer leads to
// something before the labels that it follows (RFC 1035 4.1.4), so that there is no
// loop, and the name with all it points to is no longer than a name can be.
func skipName(wire []byte, start int) (end int, ok bool) {
	length := 0
	for at := start; at < len(wire); {
		n := int(wire[at])
		switch n & 0xc0 {
		case 0:
			if length += 1 + n; length > maxName {
				return 0, false
			}
			if at += 1 + n; n > 0 {
				continue
			}
			if end == 0 {
				end = at
			}
			return end, at <= len(wire)
		case 0xc0:
			if at+2 > len(wire) {
				return 0, false
			}
			if end == 0 {
				end = at + 2
			}
			to := int(binary.BigEndian.Uint16(wire[at:]) & 0x3fff)
			if to >= start || to < headerSize {
				return 0, false
			}
			at, start = to, to
		default:
			return 0, false
		}
	}
	return 0, false
}
