package dnsserver

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
)

// What counts as one client: a /24, or a /56.
const (
	network4 = 24
	network6 = 56
)

// sighting is a client's network asking for a service.
type sighting struct {
	network uint64 // of packNetwork
	service series // of counters.service
}

// packNetwork packs a prefix, cut to a /24 or /56: the first 56 bits of its address,
// then its length, with the top bit of that octet for IPv4. A shorter subnet, of ECS,
// stays what it is.
func packNetwork(p netip.Prefix) uint64 {
	addr, length := p.Addr(), p.Bits()
	if addr.Is4In6() {
		addr, length = addr.Unmap(), max(0, length-96)
	}
	if addr.Is4() {
		a, length := addr.As4(), min(length, network4)
		return uint64(binary.BigEndian.Uint32(a[:])&^(1<<(32-length)-1))<<32 | 0x80 | uint64(length)
	}
	a := addr.As16()
	length = min(length, network6)
	return binary.BigEndian.Uint64(a[:8])&^(1<<(64-length)-1) | uint64(length)
}

// unpackNetwork is the prefix that packNetwork packed.
func unpackNetwork(packed uint64) netip.Prefix {
	length := int(packed & 0x7f)
	if packed&0x80 != 0 {
		var a [4]byte
		binary.BigEndian.PutUint32(a[:], uint32(packed>>32))
		return netip.PrefixFrom(netip.AddrFrom4(a), length)
	}
	var a [16]byte
	binary.BigEndian.PutUint64(a[:8], packed&^0xff)
	return netip.PrefixFrom(netip.AddrFrom16(a), length)
}

// sketch counts the most frequent sightings in bounded space ("space saving", Metwally,
// Agrawal and El Abbadi 2005): a new one takes the place of the rarest and starts at
// its count, which is then how far its own may be too high. So what counts and excess
// leave sure is never above the truth, and never below it by more than all weight that
// was added, divided by the size.
type sketch struct {
	n      int  // entries in use
	partly bool // there were more than it holds, or not all were looked at
	keys   []sighting
	counts []uint64
	excess []uint64 // how much of counts may be others'
	slots  []uint16 // entry + 1 by hash, open addressing, a power of two; 0: none
}

// newSketch makes one of size entries, at most 65,535. It never allocates again.
func newSketch(size int) *sketch {
	return &sketch{
		keys: make([]sighting, size), counts: make([]uint64, size), excess: make([]uint64, size),
		slots: make([]uint16, 1<<bits.Len(uint(4*size-1))),
	}
}

// reset empties it.
func (sk *sketch) reset() {
	sk.n, sk.partly = 0, false
	clear(sk.slots)
}

// each calls f for every entry with the count that is sure.
func (sk *sketch) each(f func(k sighting, sure uint64)) {
	for i := range sk.n {
		f(sk.keys[i], sk.counts[i]-sk.excess[i])
	}
}

func (sk *sketch) slot(k sighting) int {
	return int(mix(k.network^uint64(k.service)<<40)) & (len(sk.slots) - 1)
}

// add counts a sighting weight times.
func (sk *sketch) add(k sighting, weight uint64) {
	mask, slot := len(sk.slots)-1, sk.slot(k)
	for ; sk.slots[slot] != 0; slot = (slot + 1) & mask {
		if at := sk.slots[slot] - 1; sk.keys[at] == k {
			sk.counts[at] += weight
			return
		}
	}
	at, excess := sk.n, uint64(0)
	if sk.n < len(sk.keys) {
		sk.n++
	} else {
		at = sk.rarest()
		excess, sk.partly = sk.counts[at], true
		sk.forget(at)
		for slot = sk.slot(k); sk.slots[slot] != 0; {
			slot = (slot + 1) & mask // forgetting moved others
		}
	}
	sk.keys[at], sk.counts[at], sk.excess[at] = k, excess+weight, excess
	sk.slots[slot] = uint16(at + 1)
}

func (sk *sketch) rarest() int {
	at := 0
	for i, c := range sk.counts {
		if c < sk.counts[at] {
			at = i
		}
	}
	return at
}

// forget takes an entry out of the hash table, and moves back those behind it that
// would no longer be found.
func (sk *sketch) forget(at int) {
	mask, hole := len(sk.slots)-1, sk.slot(sk.keys[at])
	for sk.slots[hole] != uint16(at+1) {
		hole = (hole + 1) & mask
	}
	for next := (hole + 1) & mask; sk.slots[next] != 0; next = (next + 1) & mask {
		home := sk.slot(sk.keys[sk.slots[next]-1])
		if (next-home)&mask >= (next-hole)&mask {
			sk.slots[hole] = sk.slots[next]
			hole = next
		}
	}
	sk.slots[hole] = 0
}
