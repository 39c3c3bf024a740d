package routing

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
)

// A sticky client's network is what resolvers name at most (RFC 7871 11.1): all of
// one network go to the same cluster.
const (
	stickyBits4 = 24
	stickyBits6 = 56
)

// stickyKey is the number of a client's network.
func stickyKey(a netip.Addr) uint64 {
	switch {
	case a.Is4():
		b := a.As4()
		return mix(uint64(binary.BigEndian.Uint32(b[:])) >> (32 - stickyBits4))
	case a.IsValid():
		b := a.As16()
		return mix(^(binary.BigEndian.Uint64(b[:8]) >> (64 - stickyBits6)))
	}
	return mix(0)
}

func stickyBits(a netip.Addr) int {
	if a.Is4() {
		return stickyBits4
	}
	return stickyBits6
}

// seed is a cluster's number in the hash of a service's clients (FNV-1a, mixed).
func seed(service, cluster string) uint64 {
	h := uint64(14695981039346656037)
	for _, s := range [...]string{service, "\x00", cluster} {
		for i := range len(s) {
			h = (h ^ uint64(s[i])) * 1099511628211
		}
	}
	return mix(h)
}

// score is how strongly a network is drawn to a cluster: the highest wins. It is
// weight / -log2(h) as in weighted rendezvous hashing, where h is the pair's hash as
// a part of 1: a cluster has its weight's part of the networks, and only those of a
// cluster that leaves, or that changes its weight, move. All in whole numbers, so
// that every node computes the same.
type score struct{ weight, log uint64 }

func scoreOf(key, seed, weight uint64) score {
	h := mix(key ^ seed)
	return score{weight, max(64<<logBits-log2(max(h, 1)), 1)}
}

// over reports whether s is higher than o: s.weight/s.log > o.weight/o.log.
func (s score) over(o score) bool {
	h, l := bits.Mul64(s.weight, o.log)
	oh, ol := bits.Mul64(o.weight, s.log)
	return h > oh || h == oh && l > ol
}

// logBits are the binary digits after the point of log2's results.
const logBits = 40

// log2 is the binary logarithm of x, which is at least 1: digit by digit, each from
// the square of what is left.
func log2(x uint64) uint64 {
	whole := bits.Len64(x) - 1
	m := x << (63 - whole) // 1 to 2, with 63 digits after the point
	out := uint64(whole)
	for range logBits {
		hi, lo := bits.Mul64(m, m) // 1 to 4, with 126
		out <<= 1
		if hi>>63 != 0 {
			out, m = out|1, hi
		} else {
			m = hi<<1 | lo>>63
		}
	}
	return out
}
