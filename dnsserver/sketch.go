package dnsserver

import (
	"encoding/binary"
	"net/netip"
)

const (
	// sketchSize is how many networks of services a worker's sketch holds: whoever asks
	// more than a 256th of the queries is in it.
	sketchSize = 256
	// sketchSlots is the size of the sketch's hash table, a power of two.
	sketchSlots = 4 * sketchSize
)

// networkBits are what counts as one client: a /24, or a /56.
const (
	network4 = 24
	network6 = 56
)

// sighting is a client's network asking for a service.
type sighting struct {
	network uint64 // of packNetwork
	service series
}

// packNetwork packs a prefix, cut to a /24 or /56: the address's first 56 bits, then
// its length, with the top bit of the last octet for IPv4. Shorter subnets, of ECS,
// stay what they are.
func packNetwork(p netip.Prefix) uint64 {
	addr := p.Addr().Unmap()
	if addr.Is4() {
		bits := p.Bits()
		if p.Addr().Is4In6() {
			bits = max(0, bits-96)
		}
		bits = min(bits, network4)
		a := addr.As4()
		return uint64(binary.BigEndian.Uint32(a[:])&^(1<<(32-bits)-1))<<32 | 0x80 | uint64(bits)
	}
	bits := min(p.Bits(), network6)
	a := addr.As16()
	return binary.BigEndian.Uint64(a[:8])&^(1<<(64-bits)-1) | uint64(bits)
}

// networkOf is the prefix that packNetwork packed.
func networkOf(key uint64) netip.Prefix {
	bits := int(key & 0x7f)
	if key&0x80 != 0 {
		var a [4]byte
		binary.BigEndian.PutUint32(a[:], uint32(key>>32))
		return netip.PrefixFrom(netip.AddrFrom4(a), bits)
	}
	var a [16]byte
	binary.BigEndian.PutUint64(a[:8], key&^0xff)
	return netip.PrefixFrom(netip.AddrFrom16(a), bits)
}

// sketch counts the most frequent sightings in bounded space (Metwally, Agrawal and
// El Abbadi's "space saving"): a new one takes the place of the rarest and starts at
// its count, which is how far its own may be too high. No count is too low; none is too
// high by more than all that was added, divided by sketchSize.
type sketch struct {
	n      int
	total  uint64
	keys   [sketchSize]sighting
	counts [sketchSize]uint64
	excess [sketchSize]uint64  // how much of counts may be others'
	slots  [sketchSlots]uint16 // entry + 1 by hash, open addressing; 0: none
}

func (s *sighting) slot() int { return int(mix(s.network^uint64(s.service)<<40) % sketchSlots) }

// add counts a sighting weight times.
func (sk *sketch) add(k sighting, weight uint64) {
	sk.total += weight
	slot := k.slot()
	for ; sk.slots[slot] != 0; slot = (slot + 1) % sketchSlots {
		if at := sk.slots[slot] - 1; sk.keys[at] == k {
			sk.counts[at] += weight
			return
		}
	}
	at := sk.n
	if sk.n < sketchSize {
		sk.n++
	} else {
		at = sk.rarest()
		sk.forget(at)
		for slot = k.slot(); sk.slots[slot] != 0; {
			slot = (slot + 1) % sketchSlots
		}
		sk.excess[at] = sk.counts[at]
	}
	sk.keys[at], sk.slots[slot] = k, uint16(at+1)
	sk.counts[at] += weight
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
	hole := sk.keys[at].slot()
	for sk.slots[hole] != uint16(at+1) {
		hole = (hole + 1) % sketchSlots
	}
	for next := (hole + 1) % sketchSlots; sk.slots[next] != 0; next = (next + 1) % sketchSlots {
		home := sk.keys[sk.slots[next]-1].slot()
		if (next-home+sketchSlots)%sketchSlots >= (next-hole+sketchSlots)%sketchSlots {
			sk.slots[hole] = sk.slots[next]
			hole = next
		}
	}
	sk.slots[hole] = 0
}
