package dnssec

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
)

const day = 24 * time.Hour

var start = time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC)

func testZone(t testing.TB, algorithm uint8, valid time.Duration) *Zone {
	t.Helper()
	ksk, err := Generate(algorithm)
	require.NoError(t, err)
	zsk, err := Generate(algorithm)
	require.NoError(t, err)
	z, err := NewZone(Policy{Zone: "z.example.", Algorithm: algorithm, Valid: valid, TTL: 3600, KSK: Keys{Active: ksk}, ZSK: Keys{Active: zsk}})
	require.NoError(t, err)
	return z
}

func addresses(owner string, addrs ...string) Set {
	s := Set{Owner: owner, Type: dns.TypeA, TTL: 30}
	for _, a := range addrs {
		s.Rdata = append(s.Rdata, netip.MustParseAddr(a).AsSlice())
	}
	return s
}

func sign(t testing.TB, s *Signer, now time.Time, z *Zone, set Set) Signature {
	t.Helper()
	sigs, err := s.Sign(now, z, set, Own)
	require.NoError(t, err)
	require.Len(t, sigs, 1)
	return sigs[0]
}

func unix(t time.Time) uint32 { return uint32(t.Unix()) }

func TestASignatureVerifiesAndIsKept(t *testing.T) {
	for _, algorithm := range []uint8{ECDSAP256SHA256, ED25519} {
		z, s := testZone(t, algorithm, 7*day), NewSigner(Limits{})
		set := addresses("www.z.example.", "192.0.2.1", "192.0.2.2")
		sig := sign(t, s, start, z, set)
		require.NoError(t, sig.RRSIG.Verify(z.zsk.key.dnskey(z.Name, zskFlags, 0), set.Records("WWW.z.example.")))
		require.True(t, sig.RRSIG.ValidityPeriod(start))
		require.LessOrEqual(t, sig.RRSIG.Inception, unix(start.Add(-time.Hour)), "an hour is for clocks that are behind")
		require.Equal(t, uint32(7*day/time.Second)+3600, sig.RRSIG.Expiration-sig.RRSIG.Inception)
		require.EqualValues(t, 30, sig.RRSIG.OrigTtl)
		require.Same(t, sig.RRSIG, sign(t, s, start.Add(time.Second), z, set).RRSIG)
		require.Same(t, sig.RRSIG, sign(t, s, start, z, addresses("www.z.example.", "192.0.2.2", "192.0.2.1")).RRSIG, "the order of records is not signed")
		require.NotSame(t, sig.RRSIG, sign(t, s, start, z, addresses("www.z.example.", "192.0.2.1")).RRSIG)
		require.Equal(t, uint64(2), s.Counts().Made[Own])

		wild := sign(t, s, start, z, addresses("*.z.example.", "192.0.2.1")).RRSIG
		require.EqualValues(t, 2, wild.Labels)
		require.NoError(t, wild.Verify(z.zsk.key.dnskey(z.Name, zskFlags, 0), addresses("*.z.example.", "192.0.2.1").Records("*.z.example.")))
	}
}

// Every node signs alike, so that answers of several nodes are one answer to caches.
func TestEqualContentIsSignedEquallyOnEveryNode(t *testing.T) {
	for _, algorithm := range []uint8{ECDSAP256SHA256, ED25519} {
		z := testZone(t, algorithm, 7*day)
		one, two := NewSigner(Limits{}), NewSigner(Limits{})
		distinct := map[uint32]bool{}
		for i := range 50 {
			set := addresses(fmt.Sprintf("n%d.z.example.", i), "192.0.2.1")
			a, b := sign(t, one, start, z, set), sign(t, two, start.Add(time.Minute), z, set)
			if a.Until.After(start.Add(time.Minute)) {
				require.Equal(t, a, b)
			}
			distinct[a.RRSIG.Expiration] = true
		}
		require.Greater(t, len(distinct), 45, "not all at one moment")
	}
}

func TestASignatureIsReplacedAheadOfItsExpiry(t *testing.T) {
	z, s := testZone(t, ED25519, 8*day), NewSigner(Limits{})
	set := addresses("www.z.example.", "192.0.2.1")
	last := sign(t, s, start, z, set)
	replaced := 0
	for now := start; now.Before(start.Add(20 * day)); now = now.Add(time.Hour) {
		sig := sign(t, s, now, z, set)
		require.Less(t, unix(now.Add(6*day-time.Hour)), sig.RRSIG.Expiration, "three quarters of its life are left")
		require.True(t, sig.Until.After(now))
		if sig.RRSIG != last.RRSIG {
			require.False(t, now.Before(last.Until))
			require.Less(t, now.Sub(last.Until), time.Hour)
			replaced++
		}
		last = sig
		require.Equal(t, int64(sig.RRSIG.Expiration), s.Earliest(now)[z.Name].Unix(), "what is served counts")
	}
	require.InDelta(t, 10, replaced, 1, "once in two days")
	require.Empty(t, s.Earliest(start.Add(100*day)))
}

func TestWithoutBudgetAGoodSignatureServesOn(t *testing.T) {
	z, s := testZone(t, ED25519, 8*day), NewSigner(Limits{PerSecond: 1})
	set := addresses("www.z.example.", "192.0.2.1")
	old := sign(t, s, start, z, set)
	later := old.Until.Add(time.Second)
	for i := range 10 {
		_, _ = s.Sign(later, z, addresses(fmt.Sprintf("n%d.z.example.", i), "192.0.2.1"), Own)
	}
	require.Same(t, old.RRSIG, sign(t, s, later, z, set).RRSIG)
	_, err := s.Sign(later, z, addresses("new.z.example.", "192.0.2.1"), Own)
	require.ErrorIs(t, err, ErrBusy)
	require.NotSame(t, old.RRSIG, sign(t, s, later.Add(time.Minute), z, set).RRSIG)
	require.Greater(t, s.Counts().Refused[Own], uint64(0))

	over := start.Add(20 * day)
	for i := range 10 {
		_, _ = s.Sign(over, z, addresses(fmt.Sprintf("o%d.z.example.", i), "192.0.2.1"), Own)
	}
	_, err = s.Sign(over, z, set, Own)
	require.ErrorIs(t, err, ErrBusy, "one that has expired does not")
}

func TestAClockThatJumps(t *testing.T) {
	z, s := testZone(t, ECDSAP256SHA256, 4*day), NewSigner(Limits{PerSecond: 1000})
	set := addresses("www.z.example.", "192.0.2.1")
	for _, now := range []time.Time{start, start.Add(365 * day), start, start.Add(-30 * day), start.Add(-90 * time.Minute), start, start.Add(3 * day), start.Add(36 * time.Hour)} {
		sig := sign(t, s, now, z, set)
		require.True(t, sig.RRSIG.ValidityPeriod(now), "at %s: %s", now, sig.RRSIG)
		require.True(t, time.Unix(int64(sig.RRSIG.Expiration), 0).After(now.Add(12*time.Hour)))
	}
}

func TestSignaturesAreBounded(t *testing.T) {
	z, s := testZone(t, ED25519, day), NewSigner(Limits{Kept: 256, PerSecond: 1_000_000})
	for i := range 3000 {
		for _, origin := range []Origin{Own, Made} {
			_, err := s.Sign(start, z, addresses(fmt.Sprintf("n%d.z.example.", i), "192.0.2.1"), origin)
			require.NoError(t, err)
		}
	}
	kept := [origins]int{}
	for i := range s.lanes {
		s.lanes[i].cache.each(func(*entry) { kept[i]++ })
	}
	require.LessOrEqual(t, kept[Own], 256)
	require.LessOrEqual(t, kept[Made], 128, "one a shard at least")
}

// Names that somebody makes up use up their own budget and their own room.
func TestMadeUpNamesCostOwnNamesNothing(t *testing.T) {
	z, s := testZone(t, ED25519, day), NewSigner(Limits{Kept: 256, PerSecond: 10})
	set := addresses("www.z.example.", "192.0.2.1")
	own := sign(t, s, start, z, set)
	refused := 0
	for i := range 1000 {
		if _, err := s.Sign(start, z, addresses(fmt.Sprintf("n%d.z.example.", i), "192.0.2.1"), Made); errors.Is(err, ErrBusy) {
			refused++
		}
	}
	require.Equal(t, 999, refused)
	require.Equal(t, uint64(999), s.Counts().Refused[Made])
	require.Same(t, own.RRSIG, sign(t, s, start, z, set).RRSIG)
	sign(t, s, start, z, addresses("another.z.example.", "192.0.2.1"))
}

func TestWhoAsksAtOnceGetsOneSignature(t *testing.T) {
	z, s := testZone(t, ECDSAP256SHA256, day), NewSigner(Limits{})
	for round := range 20 {
		set := addresses(fmt.Sprintf("n%d.z.example.", round), "192.0.2.1")
		before := s.Counts().Made[Own]
		var wg sync.WaitGroup
		sigs := make([]*dns.RRSIG, 16)
		for i := range sigs {
			wg.Go(func() {
				if got, err := s.Sign(start, z, set, Own); err == nil {
					sigs[i] = got[0].RRSIG
				}
			})
		}
		wg.Wait()
		for _, sig := range sigs {
			require.Same(t, sigs[0], sig)
		}
		require.Equal(t, before+1, s.Counts().Made[Own])
	}
}

func TestAZoneWithoutKeysSignsNothing(t *testing.T) {
	cause := errors.New("no file")
	_, err := NewSigner(Limits{}).Sign(start, Unsignable("z.example.", cause), addresses("www.z.example.", "192.0.2.1"), Own)
	require.ErrorIs(t, err, cause)
}

func TestBudget(t *testing.T) {
	b := newBudget(10, 5)
	now := start.UnixNano()
	taken := func() (n int) {
		for b.take(now) {
			n++
		}
		return n
	}
	require.Equal(t, 5, taken(), "a burst")
	now += int64(100 * time.Millisecond)
	require.Equal(t, 1, taken(), "then ten a second")
	now += int64(time.Hour)
	require.Equal(t, 5, taken(), "never more than the burst")
	now -= int64(2 * time.Hour)
	require.Positive(t, taken(), "a clock that was set back stops nothing")
}

func TestSuccessor(t *testing.T) {
	label := func(c byte, n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = c
		}
		return string(b)
	}
	long := label('l', 61) + "." + label('l', 61) + "." + label('l', 61) + "."
	for _, tt := range []struct{ name, want string }{
		{"z.example.", `\000.z.example.`},
		{label('a', 66-1) + ".", `\000.` + label('a', 65) + "."},
		{label('a', 62) + "." + long + "zzz.", label('a', 62) + `\000.` + long + "zzz."}, // 254 octets
		{label('a', 63) + "." + long + "zzz.", label('a', 62) + `b.` + long + "zzz."},
		{label('a', 62) + `\@.` + long + "zzz.", label('a', 62) + `[.` + long + "zzz."},
		{label('a', 62) + `\255.` + long + "zzz.", label('a', 61) + `b.` + long + "zzz."},
	} {
		require.Equal(t, tt.want, successor(tt.name), tt.name)
	}
}

func BenchmarkWarm(b *testing.B) {
	z, s := testZone(b, ECDSAP256SHA256, 7*day), NewSigner(Limits{})
	set := addresses("www.z.example.", "192.0.2.1")
	sign(b, s, start, z, set)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			_, _ = s.Sign(start, z, set, Own)
		}
	})
}

func BenchmarkCold(b *testing.B) {
	for _, algorithm := range []uint8{ECDSAP256SHA256, ED25519} {
		b.Run(AlgorithmName(algorithm), func(b *testing.B) {
			z, s := testZone(b, algorithm, 7*day), NewSigner(Limits{PerSecond: 1 << 30})
			for i := range b.N {
				sign(b, s, start, z, addresses(fmt.Sprintf("n%d.z.example.", i), "192.0.2.1"))
			}
		})
	}
}
