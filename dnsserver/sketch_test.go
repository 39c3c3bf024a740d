package dnsserver

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// prefixOf is a network of a /24 by its number.
func prefixOf(n int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(n >> 8), byte(n), 7}), 32)
}

func TestASketchKeepsItsBound(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.IntRange(1, 40).Draw(rt, "size")
		sk, truth, total := newSketch(size), map[sighting]uint64{}, uint64(0)
		for range rapid.IntRange(0, 3).Draw(rt, "resets") {
			sk.add(sighting{1, 1}, 5)
			sk.reset()
		}
		for range rapid.IntRange(0, 600).Draw(rt, "sightings") {
			// Some are frequent, most are rare.
			k := sighting{uint64(rapid.IntRange(0, 8).Draw(rt, "common")), series(rapid.IntRange(0, 2).Draw(rt, "service"))}
			if rapid.Bool().Draw(rt, "rare") {
				k.network = rapid.Uint64().Draw(rt, "network")
			}
			w := uint64(rapid.IntRange(1, 127).Draw(rt, "weight"))
			sk.add(k, w)
			truth[k] += w
			total += w
		}
		require.Equal(rt, len(truth) > size, sk.partly)
		held := map[sighting]uint64{}
		sk.each(func(k sighting, sure uint64) {
			require.NotContains(rt, held, k, "one entry a sighting")
			held[k] = sure
			require.Positive(rt, sure)
		})
		require.Len(rt, held, min(size, len(truth)))
		for k, n := range truth {
			require.LessOrEqual(rt, held[k], n, "never above the truth")
			require.LessOrEqual(rt, n-held[k], total/uint64(size), "%v: not far below it", k)
		}
	})
}

func TestWhoAsksAgainAndAgainIsFoundAmongEverNewOnes(t *testing.T) {
	sk := newSketch(4)
	for k := range uint64(3) {
		sk.add(sighting{k, 1}, 10)
	}
	steady := sighting{100, 1}
	for i := range uint64(1000) {
		sk.add(steady, 1)
		sk.add(sighting{1000 + i, 1}, 1)
	}
	found := uint64(0)
	sk.each(func(k sighting, sure uint64) {
		if k == steady {
			found = sure
		}
	})
	require.GreaterOrEqual(t, found, uint64(1000-(30+2000)/4))
}

func TestASketchAddsAndReadsWithoutAllocating(t *testing.T) {
	sk, n := newSketch(workerSketch), 0
	require.Zero(t, testing.AllocsPerRun(5000, func() {
		sk.add(sighting{packNetwork(prefixOf(n)), 1}, 64)
		n += 13
	}))
}

func TestANetworkIsCutAndComesBack(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"an address counts as its /24", "192.0.2.77/32", "192.0.2.0/24"},
		{"a v6 address counts as its /56", "2001:db8:1:2345::9/128", "2001:db8:1:2300::/56"},
		{"a shorter subnet stays", "192.0.0.0/16", "192.0.0.0/16"},
		{"a shorter v6 subnet stays", "2001:db8::/32", "2001:db8::/32"},
		{"a subnet of no bits is everybody", "0.0.0.0/0", "0.0.0.0/0"},
		{"and so of v6", "::/0", "::/0"},
		{"v4 in v6 is v4", "::ffff:192.0.2.1/128", "192.0.2.0/24"},
		{"v4 in v6, shorter", "::ffff:192.0.0.0/112", "192.0.0.0/16"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, unpackNetwork(packNetwork(netip.MustParsePrefix(tt.in))).String())
		})
	}
	rapid.Check(t, func(rt *rapid.T) {
		draw := func() netip.Prefix {
			addr := netip.AddrFrom16([16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(rt, "octets")))
			if rapid.Bool().Draw(rt, "v4") {
				addr = netip.AddrFrom4([4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(rt, "v4 octets")))
			}
			p, err := addr.Unmap().Prefix(rapid.IntRange(0, map[bool]int{true: 24, false: 56}[addr.Unmap().Is4()]).Draw(rt, "bits"))
			require.NoError(rt, err)
			return p
		}
		a, b := draw(), draw()
		require.Equal(rt, a, unpackNetwork(packNetwork(a)))
		require.Equal(rt, a == b, packNetwork(a) == packNetwork(b))
	})
}
