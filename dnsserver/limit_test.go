package dnsserver

import (
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestWhatCountsAsOneBucket(t *testing.T) {
	l := newLimiter(RateLimit{PerSecond: 1})
	web, db := l.hashName([]byte("\x03web\x00")), l.hashName([]byte("\x02db\x00"))
	require.Equal(t, web, l.hashName([]byte("\x03WEB\x00")), "case does not matter")
	type answer struct {
		client string
		name   uint64
		qtype  uint16
		c      category
	}
	tests := []struct {
		name        string
		first, then answer
		shared      bool
	}{
		{"the same again", answer{"192.0.2.1", web, 1, limitAnswer}, answer{"192.0.2.1", web, 1, limitAnswer}, true},
		{"another client of the /24", answer{"192.0.2.1", web, 1, limitAnswer}, answer{"192.0.2.254", web, 1, limitAnswer}, true},
		{"a client of another /24", answer{"192.0.2.1", web, 1, limitAnswer}, answer{"192.0.3.1", web, 1, limitAnswer}, false},
		{"another client of the /56", answer{"2001:db8::1", web, 1, limitAnswer}, answer{"2001:db8:0:ff::9", web, 1, limitAnswer}, true},
		{"a client of another /56", answer{"2001:db8::1", web, 1, limitAnswer}, answer{"2001:db8:0:100::1", web, 1, limitAnswer}, false},
		{"IPv4 as IPv6 sockets write it", answer{"192.0.2.1", web, 1, limitAnswer}, answer{"::ffff:192.0.2.1", web, 1, limitAnswer}, true},
		{"IPv6 that looks like IPv4", answer{"192.0.2.0", web, 1, limitAnswer}, answer{"c000:200::", web, 1, limitAnswer}, false},
		{"another zone of the address", answer{"fe80::1%a", web, 1, limitAnswer}, answer{"fe80::1%b", web, 1, limitAnswer}, true},
		{"another name", answer{"192.0.2.1", web, 1, limitAnswer}, answer{"192.0.2.1", db, 1, limitAnswer}, false},
		{"another type", answer{"192.0.2.1", web, 1, limitAnswer}, answer{"192.0.2.1", web, 28, limitAnswer}, false},
		{"no data of another type", answer{"192.0.2.1", web, 28, limitNoData}, answer{"192.0.2.1", web, 16, limitNoData}, true},
		{"no data of another name", answer{"192.0.2.1", web, 28, limitNoData}, answer{"192.0.2.1", db, 28, limitNoData}, false},
		{"no data is not the answer", answer{"192.0.2.1", web, 0, limitNoData}, answer{"192.0.2.1", web, 0, limitAnswer}, false},
		{"no such name of any type", answer{"192.0.2.1", web, 1, limitNXDomain}, answer{"192.0.2.1", web, 28, limitNXDomain}, true},
		{"errors of whatever", answer{"192.0.2.1", web, 1, limitError}, answer{"192.0.2.1", db, 28, limitError}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLimiter(l.rule)
			take := func(a answer) verdict {
				return l.take(netip.MustParseAddr(a.client), a.name, a.qtype, a.c, time.Second)
			}
			require.Equal(t, limitPass, take(tt.first))
			require.Equal(t, tt.shared, take(tt.then) == limitDrop)
		})
	}
}

func TestWhoIsNotLimited(t *testing.T) {
	var off *limiter
	require.Nil(t, newLimiter(RateLimit{Slip: 2}))
	client := netip.MustParseAddr("192.0.2.1")
	take := func(l *limiter) verdict {
		v := limitPass
		for range 5 {
			v = l.take(client, 1, 1, limitAnswer, 0)
		}
		return v
	}
	require.Equal(t, limitPass, take(off))
	require.Equal(t, limitDrop, take(newLimiter(RateLimit{PerSecond: 1})))
	require.Equal(t, limitNote, take(newLimiter(RateLimit{PerSecond: 1, LogOnly: true})))
	require.Equal(t, limitPass, take(newLimiter(RateLimit{PerSecond: 1, Exempt: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/28")}})))
	require.Equal(t, limitDrop, take(newLimiter(RateLimit{PerSecond: 1, Exempt: []netip.Prefix{netip.MustParsePrefix("192.0.2.16/28")}})))
}

func TestSlipIsExact(t *testing.T) {
	for slip, want := range map[int]int{0: 0, 1: 600, 2: 300, 3: 200, 7: 85, 100: 6} {
		l := newLimiter(RateLimit{PerSecond: 10, Slip: slip})
		got := [2]int{}
		for i := range 2 * 610 { // two networks in turn, so that they share no count
			if l.take(netip.AddrFrom4([4]byte{192, 0, byte(i % 2), 1}), 1, 1, limitAnswer, 0) == limitSlip {
				got[i%2]++
			}
		}
		require.Equal(t, [2]int{want, want}, got, "slip %d", slip)
	}
}

// TestNoNetworkGetsMoreThanItsRate checks both bounds over every window, with many
// networks at once, whatever they ask: of one kind rate x window + burst, and in all
// allKinds times that.
func TestNoNetworkGetsMoreThanItsRate(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rate := rapid.IntRange(1, 50).Draw(rt, "rate")
		l := newLimiter(RateLimit{PerSecond: rate, Slip: rapid.IntRange(0, 3).Draw(rt, "slip")})
		if rapid.Bool().Draw(rt, "a full table") { // of few buckets, so that they are taken over all the time
			l.kinds, l.all = newBuckets(1, rate, 0), newBuckets(1, rate*allKinds, 0)
		}
		type kind struct{ network, name int }
		passed := map[kind][]time.Duration{}
		now := time.Duration(rapid.Int64Range(0, int64(1000*time.Hour)).Draw(rt, "start"))
		networks, names := rapid.IntRange(1, 20).Draw(rt, "networks"), rapid.IntRange(1, 20).Draw(rt, "names")
		pace := time.Second / time.Duration(rapid.IntRange(1, 20*rate).Draw(rt, "pace"))
		for i := range 2000 {
			now += pace
			k := kind{i % networks, i / networks % names}
			client := netip.AddrFrom4([4]byte{10, 0, byte(k.network), byte(i)})
			if l.take(client, uint64(k.name), 1, limitAnswer, now) == limitPass {
				passed[k] = append(passed[k], now)
				passed[kind{k.network, -1}] = append(passed[kind{k.network, -1}], now)
			}
		}
		for k, at := range passed {
			r := rate
			if k.name < 0 {
				r = rate * allKinds
			}
			for i := range at {
				for j := i; j < len(at); j += max(1, len(at)/20) {
					window := (at[j] - at[i]).Seconds()
					if n, bound := j-i+1, float64(r)*window+float64(r)+1; float64(n) > bound {
						rt.Fatalf("%+v got %d answers in %vs, at most %v are due", k, n, window, bound)
					}
				}
			}
		}
	})
}

// A network that stays below the rate gets every answer, while thousands of others
// ask far too much.
func TestALegalNetworkIsUnaffected(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := newLimiter(RateLimit{PerSecond: 20, Slip: 2})
		floods := rapid.IntRange(1, 3000).Draw(rt, "networks that flood")
		legal := netip.MustParseAddr("2001:db8::53")
		for tick := range 20 {
			now := time.Duration(tick) * time.Second / 20
			for f := range floods {
				for range 3 {
					l.take(netip.AddrFrom4([4]byte{10, byte(f >> 8), byte(f), 1}), 7, 1, limitAnswer, now)
				}
			}
			if v := l.take(legal, 7, 1, limitAnswer, now); v != limitPass {
				rt.Fatalf("a legal answer at %v: verdict %d", now, v)
			}
		}
	})
}

func TestTokensComeBack(t *testing.T) {
	l := newLimiter(RateLimit{PerSecond: 10})
	client := netip.MustParseAddr("192.0.2.1")
	got := func(now time.Duration) int {
		n := 0
		for range 100 {
			if l.take(client, 1, 1, limitAnswer, now) == limitPass {
				n++
			}
		}
		return n
	}
	require.Equal(t, 10, got(0), "the burst")
	require.Equal(t, 0, got(99*time.Millisecond))
	require.Equal(t, 1, got(100*time.Millisecond))
	require.Equal(t, 5, got(600*time.Millisecond))
	require.Equal(t, 0, got(550*time.Millisecond), "another worker's clock is behind")
	require.Equal(t, 10, got(time.Hour))
	require.Equal(t, 10, got(2000*24*time.Hour), "years later")
}

func TestWorkersShareTheLimit(t *testing.T) {
	l := newLimiter(RateLimit{PerSecond: 100, Slip: 2})
	var passed, slipped atomic.Int64
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 5000 {
				switch l.take(netip.AddrFrom4([4]byte{192, 0, 2, byte(w)}), 1, 1, limitAnswer, time.Duration(i)) {
				case limitPass:
					passed.Add(1)
				case limitSlip:
					slipped.Add(1)
				}
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 100, passed.Load())
	require.EqualValues(t, (20000-100)/2, slipped.Load())
}

func TestLimitingAllocatesNothing(t *testing.T) {
	l := newLimiter(RateLimit{PerSecond: 100, Slip: 2, Exempt: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	wire := []byte("\x03WeB\x04gslb\x04test\x00")
	client := netip.MustParseAddr("2001:db8::1")
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		l.take(client, l.hashName(wire), 1, limitAnswer, time.Second)
	}))
}

func BenchmarkLimit(b *testing.B) {
	for _, networks := range []int{1, 100_000} {
		b.Run(fmt.Sprintf("networks=%d", networks), func(b *testing.B) {
			l := newLimiter(RateLimit{PerSecond: 200, Slip: 2})
			wire := []byte("\x03web\x04gslb\x04test\x00")
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i++
				n := i % networks
				l.take(netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}), l.hashName(wire), 1, limitAnswer, time.Duration(i)*time.Microsecond)
			}
		})
	}
}

// Who asks for many names gets no more than allKinds times the rate of one.
func TestAllKindsTogether(t *testing.T) {
	l := newLimiter(RateLimit{PerSecond: 5})
	got := func(now time.Duration) int {
		n := 0
		for i := range 300 {
			if l.take(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), uint64(i%30), uint16(i%2), limitAnswer, now) == limitPass {
				n++
			}
		}
		return n
	}
	require.Equal(t, 50, got(0))
	require.Equal(t, 0, got(0))
	require.Equal(t, 50, got(time.Second))
	require.Equal(t, limitPass, l.take(netip.MustParseAddr("192.0.3.1"), 1, 1, limitAnswer, time.Second), "another network")
}

// TestAnUnusedBucketIsFullWhenTokensBeginAnew: tokens are counted modulo 2^37, and what
// nobody has used does not look used shortly before.
func TestAnUnusedBucketIsFullWhenTokensBeginAnew(t *testing.T) {
	anew := time.Duration(1<<untilBits/1000) * time.Second
	for _, before := range []time.Duration{2 * time.Second, time.Second, 0, -time.Second} {
		b := newBuckets(8, 1000, 0)
		require.Equal(t, limitPass, b.take(7<<tagShift|3, anew-before), "%v before", before)
	}
}
