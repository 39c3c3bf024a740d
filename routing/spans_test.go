package routing

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/quorate/quorate/routing/geo"
)

// An address is in the one network that holds it, at both ends of each and beside it,
// however all addresses are cut up.
func TestSpansFindTheNetworkOfEachAddress(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var list []span
		var cut func(p netip.Prefix, depth int)
		cut = func(p netip.Prefix, depth int) {
			if p.Bits() == p.Addr().BitLen() || depth == 0 {
				list = append(list, span{p, located(uint32(len(list)+1)<<8 | uint32(p.Bits()))})
				return
			}
			low, high := geo.Halves(p)
			deep := rapid.IntRange(0, 3).Draw(rt, "deep")
			cut(low, (depth-1)*(deep&1))
			cut(high, (depth-1)*(deep>>1))
		}
		cut(netip.MustParsePrefix("0.0.0.0/0"), rapid.IntRange(0, 40).Draw(rt, "depth"))
		cut(netip.MustParsePrefix("::/0"), rapid.IntRange(0, 140).Draw(rt, "depth"))
		s := makeSpans(slices.Clone(list))
		for _, want := range list {
			first := want.prefix.Addr()
			require.Equal(rt, want.of, s.find(first), "the first address of %v", want.prefix)
			last := first.AsSlice()
			for bit := want.prefix.Bits(); bit < 8*len(last); bit++ {
				last[bit/8] |= 1 << (7 - bit%8)
			}
			end, _ := netip.AddrFromSlice(last)
			require.Equal(rt, want.of, s.find(end), "the last address of %v", want.prefix)
		}
	})
}

func TestSpansOfNoAddress(t *testing.T) {
	s := makeSpans([]span{{netip.MustParsePrefix("0.0.0.0/0"), 256}, {netip.MustParsePrefix("::/0"), 512}})
	require.Zero(t, s.find(netip.Addr{}))
	require.EqualValues(t, 512, s.find(netip.MustParseAddr("2001:db8::1%eth0")))
}
