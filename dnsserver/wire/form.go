package wire

import (
	"encoding/binary"
	"errors"
	"slices"
)

// form is a message apart from its question and what follows it: the header from the
// flags on.
type form struct {
	head [HeaderSize - 2]byte // RD clear
	name uint8                // octets of the name that it was made for
	size uint8                // of what follows, where that is in a variant's room
}

// more is what of an answer differs from query to query.
type more struct {
	serials []uint16 // where in rest the zone's serial is
	options []byte   // of the OPT record, where there is one

	// An answer that many names share was made for a name of another length. moved is
	// where in rest pointers are that lead behind the question's first label.
	moved []uint16
}

var errForm = errors.New("the message has no form that can be copied")

// formOf takes a message apart that answers a question with a name of that many
// octets: it, what follows the question, and what of that differs from query to query.
func formOf(msg []byte, name int) (f form, rest []byte, m more, err error) {
	end := HeaderSize + name + 4
	if len(msg) < end || binary.BigEndian.Uint16(msg[4:]) != 1 {
		return f, nil, m, errForm
	}
	f.name = uint8(name)
	copy(f.head[:], msg[2:])
	f.head[0] &^= 1
	return f, slices.Clone(msg[end:]), m, m.scan(msg, end)
}

// scan finds serials and pointers.
func (m *more) scan(msg []byte, end int) error {
	at, err := end, error(nil)
	for at < len(msg) {
		if at, err = m.scanName(msg, at, end); err != nil {
			return err
		}
		if len(msg) < at+10 {
			return errForm
		}
		typ, length := binary.BigEndian.Uint16(msg[at:]), int(binary.BigEndian.Uint16(msg[at+8:]))
		at += 10
		next := at + length
		if next > len(msg) {
			return errForm
		}
		const soa, ns, cname = 6, 2, 5
		names := 0 // that begin the record's data and may be compressed
		switch typ {
		case soa:
			names = 2
			m.serials = append(m.serials, uint16(next-20-end))
		case ns, cname:
			names = 1
		}
		for range names {
			if at, err = m.scanName(msg, at, end); err != nil {
				return err
			}
		}
		at = next
	}
	return nil
}

// scanName passes a name, and notes a pointer at its end. One to the start of the
// question's name stays; every other moves with the length of that name.
func (m *more) scanName(msg []byte, at, end int) (int, error) {
	for at < len(msg) {
		switch n := int(msg[at]); {
		case n == 0:
			return at + 1, nil
		case n < 64:
			at += 1 + n
		case n >= 0xc0 && at+1 < len(msg):
			if to := binary.BigEndian.Uint16(msg[at:]) & 0x3fff; to != HeaderSize {
				m.moved = append(m.moved, uint16(at-end))
			}
			return at + 2, nil
		default:
			return 0, errForm
		}
	}
	return 0, errForm
}

// write makes the answer of the query in buf, but for the OPT record. The question
// stays where and as it is.
func (f *form) write(buf []byte, p *question, rest []byte) {
	buf[2] = f.head[0] | buf[2]&1 // RD is given back
	copy(buf[3:HeaderSize], f.head[1:])
	copy(buf[p.end:], rest)
	if p.edns {
		binary.BigEndian.PutUint16(buf[10:], binary.BigEndian.Uint16(f.head[8:])+1)
	}
}

// patch writes what differs into what follows the question, whose name is longer by
// some octets than the one that the answer was made for.
func (m *more) patch(rest []byte, longer int, serials []uint32, zone int32) {
	for _, at := range m.serials {
		binary.BigEndian.PutUint32(rest[at:], serials[zone])
	}
	if longer == 0 {
		return
	}
	for _, at := range m.moved {
		binary.BigEndian.PutUint16(rest[at:], uint16(int(binary.BigEndian.Uint16(rest[at:]))+longer))
	}
}

// writeOPT writes the OPT record of an answer (RFC 6891 6.1.3).
func writeOPT(b []byte, do bool, m *more) {
	options := 0
	if m != nil {
		options = copy(b[OPTSize:], m.options)
	}
	b = b[:OPTSize]
	b[0], b[1], b[2], b[3], b[4] = 0, 0, typeOPT, UDPSize>>8, UDPSize&0xff
	b[5], b[6], b[7], b[8] = 0, 0, 0, 0
	binary.BigEndian.PutUint16(b[9:], uint16(options))
	if do {
		b[7] = 0x80
	}
}

// Empty turns the answer in buf, of a query that was answered, into one without
// records that tells the client to ask over TCP, and returns its size.
func (s *Served) Empty(buf []byte) int {
	end := HeaderSize + len(s.Name) + 4
	buf[2] |= 0x02 // TC
	clear(buf[6:HeaderSize])
	if !s.EDNS {
		return end
	}
	buf[11] = 1
	writeOPT(buf[end:], s.DO, nil)
	return end + OPTSize
}
