package geo

import (
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// builder collects networks in the order of their addresses.
type builder struct {
	out     Index
	numbers map[Place]uint32
	last    netip.Prefix
}

func newBuilder(build string) *builder {
	built, _ := time.Parse(dateLayout, build) // zero where it is no date
	return &builder{out: Index{build: build, built: built}, numbers: map[Place]uint32{}}
}

// number returns the number of a place.
func (b *builder) number(p Place) uint32 {
	n, ok := b.numbers[p]
	if !ok {
		n = uint32(len(b.out.places))
		b.numbers[p] = n
		b.out.places = append(b.out.places, p)
	}
	return n
}

// add appends a network, which must begin after the end of the one before.
func (b *builder) add(p netip.Prefix, place uint32) error {
	if b.last.IsValid() && (b.last.Overlaps(p) || comparePrefixes(b.last, p) >= 0) {
		return fmt.Errorf("networks %s and %s overlap, or are out of order", b.last, p)
	}
	b.last = p
	if p.Addr().Is4() {
		b.out.v4 = append(b.out.v4, leaf4{v4(p.Addr()), place, uint8(p.Bits())})
		b.out.v4 = merged4(b.out.v4)
		return nil
	}
	hi, lo := v6(p.Addr())
	b.out.v6 = append(b.out.v6, leaf6{hi, lo, place, uint8(p.Bits())})
	b.out.v6 = merged6(b.out.v6)
	return nil
}

// merged4 joins the last two networks while they are the halves of one at one place.
func merged4(l []leaf4) []leaf4 {
	for n := len(l); n > 1; n = len(l) {
		a, b := l[n-2], l[n-1]
		if a.place != b.place || !halves(a.prefix(), b.prefix()) {
			break
		}
		l[n-2].bits--
		l = l[:n-1]
	}
	return l
}

func merged6(l []leaf6) []leaf6 {
	for n := len(l); n > 1; n = len(l) {
		a, b := l[n-2], l[n-1]
		if a.place != b.place || !halves(a.prefix(), b.prefix()) {
			break
		}
		l[n-2].bits--
		l = l[:n-1]
	}
	return l
}

// halves reports whether a and b, in this order, are the two halves of a network.
func halves(a, b netip.Prefix) bool {
	if a.Bits() != b.Bits() || a.Bits() == 0 {
		return false
	}
	up := netip.PrefixFrom(a.Addr(), a.Bits()-1)
	return up.Masked().Addr() == a.Addr() && up.Contains(b.Addr())
}

// Halves returns the two halves of a network that is no single address.
func Halves(p netip.Prefix) (low, high netip.Prefix) {
	bits := p.Bits() + 1
	low = netip.PrefixFrom(p.Addr(), bits)
	if p.Addr().Is4() {
		b := p.Addr().As4()
		b[(bits-1)/8] |= 1 << (7 - (bits-1)%8)
		return low, netip.PrefixFrom(netip.AddrFrom4(b), bits)
	}
	b := p.Addr().As16()
	b[(bits-1)/8] |= 1 << (7 - (bits-1)%8)
	return low, netip.PrefixFrom(netip.AddrFrom16(b), bits)
}

// index returns what was collected, without room to grow.
func (b *builder) index() *Index {
	x := b.out
	x.places, x.v4, x.v6 = slices.Clip(slices.Clone(x.places)), slices.Clip(slices.Clone(x.v4)), slices.Clip(slices.Clone(x.v6))
	return &x
}
