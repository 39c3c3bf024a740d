package wire

import (
	"encoding/binary"
	"math/bits"
)

// index finds names in wire format, whatever their case, by open addressing. It is
// immutable.
type index struct {
	slots  []slot // a power of two, at most half of them taken
	names  []byte // in lower case, each padded with zeros to whole words
	labels int    // of the longest name by them
}

// slot is a name's place; a length of 0 is a free one.
type slot struct {
	hash   uint32
	at     uint32 // in names
	number int32
	length int32
}

func makeIndex(n int) *index {
	return &index{slots: make([]slot, max(8, 1<<bits.Len(uint(2*n))))}
}

// add takes in a name with its number.
func (x *index) add(name []byte, number int) {
	h := hash(name)
	i := h & uint32(len(x.slots)-1)
	for x.slots[i].length != 0 {
		i = (i + 1) & uint32(len(x.slots)-1)
	}
	x.slots[i] = slot{hash: h, at: uint32(len(x.names)), number: int32(number), length: int32(len(name))}
	for at := 0; at < len(name); at += 8 {
		x.names = binary.LittleEndian.AppendUint64(x.names, word(name, at))
	}
	labels := 0
	for at := 0; name[at] != 0; at += 1 + int(name[at]) {
		labels++
	}
	x.labels = max(x.labels, labels)
}

// find returns the number of a name, or -1.
func (x *index) find(name []byte) int {
	h := hash(name)
	mask := uint32(len(x.slots) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		s := &x.slots[i]
		if s.length == 0 {
			return -1
		}
		if s.hash == h && int(s.length) == len(name) && equal(name, x.names[s.at:]) {
			return int(s.number)
		}
	}
}

// equal compares a name with one of the index that is as long.
func equal(name, with []byte) bool {
	for at := 0; at < len(name); at += 8 {
		if word(name, at) != binary.LittleEndian.Uint64(with[at:]) {
			return false
		}
	}
	return true
}

// word returns the eight octets of a name at a place in lower case, with zeros after
// its end.
func word(name []byte, at int) uint64 {
	if len(name)-at >= 8 {
		return lower(binary.LittleEndian.Uint64(name[at:]))
	}
	rest := len(name) - at
	if cap(name)-at >= 8 { // the packet goes on: one load, and no loop
		return lower(binary.LittleEndian.Uint64(name[at:at+8]) & (1<<(8*rest) - 1))
	}
	var w uint64
	for i, c := range name[at:] {
		w |= uint64(c) << (8 * i)
	}
	return lower(w)
}

// lower turns the ASCII capitals among eight octets into small letters. Length octets
// are at most 63, below every letter.
func lower(w uint64) uint64 {
	const ones = 0x0101010101010101
	low := w & (0x7f * ones)
	capital := (low + (0x80-'A')*ones) &^ (low + (0x7f-'Z')*ones) &^ w & (0x80 * ones)
	return w | capital>>2
}

// hash is of a name in lower case. The names in the index are an operator's, so that
// nobody else can make them collide.
func hash(name []byte) uint32 {
	h := uint64(len(name)) * 0x9e3779b97f4a7c15
	for at := 0; at < len(name); at += 8 {
		hi, lo := bits.Mul64(h^word(name, at), 0xa0761d6478bd642f)
		h = hi ^ lo ^ 0xe7037ed1a0b428db
	}
	return uint32(h ^ h>>32)
}
