package routing

import (
	"encoding/binary"
	"net/netip"
	"slices"
)

// spans says what each address is in: all addresses there are, cut into networks. It
// is immutable. The first 16 bits of an address lead to the few spans that begin with
// them, which lie together: a look-up touches three places in memory, not one for
// each step down a tree.
type spans struct {
	four heads
	low4 []uint16 // the rest of each span's first address
	six  heads
	low6 []rest6
}

// heads are a family's spans, in the order of their first addresses.
type heads struct {
	first []uint32  // by the first 16 bits: the first span that begins with them, or after
	of    []located // what each span is
}

// rest6 is an IPv6 address without its first 16 bits.
type rest6 struct{ high, low uint64 }

func (r rest6) after(o rest6) bool { return r.high > o.high || r.high == o.high && r.low > o.low }

// span is a network and what it is.
type span struct {
	prefix netip.Prefix
	of     located
}

// makeSpans makes the spans of networks that are disjoint and hold every address.
func makeSpans(list []span) *spans {
	slices.SortFunc(list, func(a, b span) int { return a.prefix.Addr().Compare(b.prefix.Addr()) })
	s := &spans{}
	for _, sp := range list {
		if a := sp.prefix.Addr(); a.Is4() {
			b := a.As4()
			s.four.add(binary.BigEndian.Uint16(b[:]), sp.of)
			s.low4 = append(s.low4, binary.BigEndian.Uint16(b[2:]))
		} else {
			head, rest := parts6(a)
			s.six.add(head, sp.of)
			s.low6 = append(s.low6, rest)
		}
	}
	s.four.fill(1 << 16)
	s.six.fill(1 << 16)
	s.four.of, s.low4 = slices.Clip(s.four.of), slices.Clip(s.low4)
	s.six.of, s.low6 = slices.Clip(s.six.of), slices.Clip(s.low6)
	return s
}

func (h *heads) add(head uint16, of located) {
	h.fill(int(head))
	h.of = append(h.of, of)
}

// fill says of the heads up to one that no span before those to come begins with them.
func (h *heads) fill(head int) {
	for len(h.first) <= head {
		h.first = append(h.first, uint32(len(h.of)))
	}
}

func parts6(a netip.Addr) (head uint16, rest rest6) {
	b := a.As16()
	high := binary.BigEndian.Uint64(b[:])
	return uint16(high >> 48), rest6{high << 16, binary.BigEndian.Uint64(b[8:])}
}

// find returns what an address is in; an invalid one is in nothing.
func (s *spans) find(a netip.Addr) located {
	switch {
	case a.Is4():
		b := a.As4()
		head, low := binary.BigEndian.Uint16(b[:]), binary.BigEndian.Uint16(b[2:])
		from, to := s.four.first[head], s.four.first[int(head)+1]
		for from < to { // the first span that begins after the address
			if mid := (from + to) / 2; s.low4[mid] > low {
				to = mid
			} else {
				from = mid + 1
			}
		}
		return s.four.of[from-1]
	case a.IsValid():
		head, rest := parts6(a)
		from, to := s.six.first[head], s.six.first[int(head)+1]
		for from < to {
			if mid := (from + to) / 2; s.low6[mid].after(rest) {
				to = mid
			} else {
				from = mid + 1
			}
		}
		return s.six.of[from-1]
	}
	return 0
}
