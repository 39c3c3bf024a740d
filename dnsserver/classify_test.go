package dnsserver

import "errors"

// What a packet deserves.
const (
	deservesSilence = "silence"
	deservesAnswer  = "an answer" // of the table: NOERROR, NXDOMAIN or REFUSED
)

// classify says what a packet deserves, by the rules and in their order, with nothing
// of the code under test.
func classify(p []byte) string {
	switch {
	case len(p) < 12, p[2] >= 0x80:
		return deservesSilence
	}
	switch p[2] >> 3 {
	case 0:
	case 4, 5:
		return "REFUSED"
	default:
		return "NOTIMP"
	}
	m, err := parse(p)
	switch {
	case err != nil:
		return "FORMERR"
	case len(m.opts) > 1, len(m.opts) == 1 && (m.opts[0].section != 2 || len(m.opts[0].owner) > 0 || m.opts[0].pointed):
		return "FORMERR"
	case len(m.opts) == 1 && m.opts[0].ttl>>16&0xff > 0:
		return "BADVERS"
	}
	cookie := -1
	if len(m.opts) == 1 {
		options, err := split(m.opts[0].data)
		if err != nil {
			return "FORMERR"
		}
		subnets := 0
		for _, o := range options {
			switch o.code {
			case 10:
				if cookie < 0 {
					if cookie = len(o.data); cookie != 8 && (cookie < 16 || cookie > 40) {
						return "FORMERR"
					}
				}
			case 8:
				if subnets++; subnets == 1 && !subnetGood(o.data) {
					return "FORMERR"
				}
			}
		}
	}
	if len(m.questions) == 0 && m.counts == [3]int{0, 0, 1} && cookie >= 0 {
		if cookie > 8 {
			return "BADCOOKIE" // nobody here knows the secret
		}
		return "NOERROR"
	}
	if len(m.questions) != 1 || m.counts[0] != 0 || m.counts[2] > 2 {
		return "FORMERR"
	}
	q := m.questions[0]
	if m.counts[1] > 1 || m.counts[1] == 1 && q.qtype != 251 {
		return "FORMERR"
	}
	switch {
	case q.qtype == 128:
		return "FORMERR"
	case q.class != 1, q.qtype == 0, q.qtype == 41, q.qtype >= 249 && q.qtype <= 254:
		return "REFUSED"
	}
	return deservesAnswer
}

type parsedQuestion struct {
	labels       [][]byte
	qtype, class int
}

type parsedRecord struct {
	section int
	owner   [][]byte
	pointed bool
	ttl     uint32
	data    []byte
}

type parsedMessage struct {
	questions []parsedQuestion
	counts    [3]int
	opts      []parsedRecord
}

var errParse = errors.New("malformed")

// parse reads a message from left to right.
func parse(p []byte) (m parsedMessage, err error) {
	at := 12
	number := func(n int) int {
		if err != nil || at+n > len(p) {
			err = errParse
			return 0
		}
		v := 0
		for range n {
			v = v<<8 | int(p[at])
			at++
		}
		return v
	}
	word := func(i int) int { return int(p[i])<<8 | int(p[i+1]) }
	for range word(4) {
		labels, end, pointed := nameAt(p, at)
		if end < 0 || pointed {
			return m, errParse
		}
		at = end
		m.questions = append(m.questions, parsedQuestion{labels, number(2), number(2)})
		if err != nil {
			return m, err
		}
	}
	for section := range 3 {
		m.counts[section] = word(6 + 2*section)
		for range m.counts[section] {
			labels, end, pointed := nameAt(p, at)
			if end < 0 {
				return m, errParse
			}
			at = end
			rrtype, _, ttl, length := number(2), number(2), number(4), number(2)
			if err != nil || at+length > len(p) {
				return m, errParse
			}
			if rrtype == 41 {
				m.opts = append(m.opts, parsedRecord{section, labels, pointed, uint32(ttl), p[at : at+length]})
			}
			at += length
		}
	}
	return m, nil
}

// nameAt reads a name, following pointers that lead before where the name, or what a
// pointer before led to, began. end is -1 for what is none.
func nameAt(p []byte, at int) (labels [][]byte, end int, pointed bool) {
	end, size := -1, 1
	for began := at; ; {
		if at >= len(p) {
			return nil, -1, false
		}
		n := int(p[at])
		switch {
		case n >= 192:
			if at+1 >= len(p) {
				return nil, -1, false
			}
			to := (n-192)*256 + int(p[at+1])
			if to < 12 || to >= began {
				return nil, -1, false
			}
			if !pointed {
				end, pointed = at+2, true
			}
			began, at = to, to
		case n > 63 || at+n >= len(p):
			return nil, -1, false
		case n == 0:
			if !pointed {
				end = at + 1
			}
			return labels, end, pointed
		default:
			if size += n + 1; size > 255 {
				return nil, -1, false
			}
			labels = append(labels, p[at+1:at+1+n])
			at += n + 1
		}
	}
}

type parsedOption struct {
	code int
	data []byte
}

func split(data []byte) (options []parsedOption, err error) {
	for len(data) > 0 {
		if len(data) < 4 {
			return nil, errParse
		}
		n := int(data[2])<<8 | int(data[3])
		if 4+n > len(data) {
			return nil, errParse
		}
		options = append(options, parsedOption{int(data[0])<<8 | int(data[1]), data[4 : 4+n]})
		data = data[4+n:]
	}
	return options, nil
}

// subnetGood follows RFC 7871 6 bit by bit.
func subnetGood(d []byte) bool {
	if len(d) < 4 || d[3] != 0 {
		return false
	}
	longest := map[int]int{0: 0, 1: 32, 2: 128}
	bits, known := longest[int(d[0])<<8|int(d[1])]
	prefix := int(d[2])
	if !known || prefix > bits {
		return false
	}
	addr := d[4:]
	octets := prefix / 8
	if prefix%8 != 0 {
		octets++
	}
	if len(addr) != octets {
		return false
	}
	for bit := prefix; bit < 8*octets; bit++ {
		if addr[bit/8]>>(7-bit%8)&1 == 1 {
			return false
		}
	}
	return true
}
