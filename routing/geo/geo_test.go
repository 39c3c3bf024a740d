package geo

import (
	"bytes"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/maxmind/mmdbwriter"
	"github.com/maxmind/mmdbwriter/mmdbtype"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const testBuild = 1791331200 // 2026-10-07

type tree = mmdbtype.Map

func text(s string) mmdbtype.String { return mmdbtype.String(s) }

// made writes a database with the networks' data.
func made(t testing.TB, opts mmdbwriter.Options, networks map[string]tree) []byte {
	t.Helper()
	opts.BuildEpoch = testBuild
	if opts.DatabaseType == "" {
		opts.DatabaseType = "Test-City"
	}
	w, err := mmdbwriter.New(opts)
	require.NoError(t, err)
	order := slices.SortedFunc(maps.Keys(networks), func(a, b string) int { // what is inserted later wins: the longer ones
		return netip.MustParsePrefix(a).Bits() - netip.MustParsePrefix(b).Bits()
	})
	for _, n := range order {
		_, network, err := net.ParseCIDR(n)
		require.NoError(t, err)
		require.NoError(t, w.Insert(network, networks[n]))
	}
	var b bytes.Buffer
	_, err = w.WriteTo(&b)
	require.NoError(t, err)
	return b.Bytes()
}

func city(code, continent string, lat, lon float64) tree {
	return tree{
		"country":   tree{"iso_code": text(code), "names": tree{"en": text("Somewhere")}},
		"continent": tree{"code": text(continent)},
		"location":  tree{"latitude": mmdbtype.Float64(lat), "longitude": mmdbtype.Float64(lon), "time_zone": text("Europe/London")},
	}
}

func cities(t testing.TB) []byte {
	return made(t, mmdbwriter.Options{}, map[string]tree{
		"81.2.69.0/24":        city("GB", "EU", 51.5142, -0.0931),
		"99.18.0.0/15":        city("US", "NA", 40.71, -74),
		"2a02:1234::/32":      city("DE", "EU", 52.52, 13.4),
		"2a02:1234:8000::/40": {"registered_country": tree{"iso_code": text("FR")}},
	})
}

func TestLookup(t *testing.T) {
	x, err := parse(cities(t))
	require.NoError(t, err)
	require.Equal(t, "2026-10-07", x.Build())
	require.Equal(t, time.Date(2026, 10, 7, 0, 0, 0, 0, time.UTC), x.Built())
	london := Place{Country: "GB", Continent: "EU", Located: true, Latitude: 51.5, Longitude: -0.1}
	tests := []struct {
		name, addr, network string
		want                Place
	}{
		{"an address of a network", "81.2.69.142", "81.2.69.0/24", london},
		{"mapped into IPv6 it is the same", "::ffff:81.2.69.142", "81.2.69.0/24", london},
		{"IPv6", "2a02:1234::1", "2a02:1234::/33", Place{Country: "DE", Continent: "EU", Located: true, Latitude: 52.5, Longitude: 13.4}},
		{"a longer network wins; the registered country stands in, and has its continent", "2a02:1234:8000::1", "2a02:1234:8000::/40", Place{Country: "FR", Continent: "EU"}},
		{"nobody knows", "203.0.113.1", "", Place{}},
		{"before the first", "1.1.1.1", "", Place{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, network, ok := x.Lookup(netip.MustParseAddr(tt.addr))
			require.Equal(t, tt.network != "", ok)
			require.Equal(t, tt.want, p)
			if ok {
				require.Equal(t, tt.network, network.String())
			}
		})
	}
}

func TestLayouts(t *testing.T) {
	at := func(f float32) mmdbtype.DataType { return mmdbtype.Float32(f) }
	tests := []struct {
		name string
		opts mmdbwriter.Options
		data tree
		want Place
	}{
		{"MaxMind country", mmdbwriter.Options{}, tree{"country": tree{"iso_code": text("JP")}, "continent": tree{"code": text("AS")}}, Place{Country: "JP", Continent: "AS"}},
		{"ip-location-db country: no continent", mmdbwriter.Options{}, tree{"country_code": text("AU")}, Place{Country: "AU", Continent: "OC"}},
		{"ip-location-db city: coordinates at the top", mmdbwriter.Options{}, tree{"country_code": text("BR"), "latitude": at(-23.5), "longitude": at(-46.5)}, Place{Country: "BR", Continent: "SA", Located: true, Latitude: -23.5, Longitude: -46.5}},
		{"IPv4 alone", mmdbwriter.Options{IPVersion: 4}, tree{"country_code": text("ke")}, Place{Country: "KE", Continent: "AF"}},
		{"records of 24 bits", mmdbwriter.Options{RecordSize: 24}, tree{"country_code": text("US")}, Place{Country: "US", Continent: "NA"}},
		{"records of 32 bits", mmdbwriter.Options{RecordSize: 32}, tree{"country_code": text("US")}, Place{Country: "US", Continent: "NA"}},
		{"EU is no country", mmdbwriter.Options{}, tree{"country_code": text("EU")}, Place{Continent: "EU"}},
		{"a country nobody has heard of", mmdbwriter.Options{}, tree{"country_code": text("QQ")}, Place{Country: "QQ"}},
		{"coordinates off the globe", mmdbwriter.Options{}, tree{"country_code": text("US"), "latitude": at(91), "longitude": at(0)}, Place{Country: "US", Continent: "NA"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			x, err := parse(made(t, tt.opts, map[string]tree{"81.2.69.0/24": tt.data}))
			require.NoError(t, err)
			p, _, ok := x.Lookup(netip.MustParseAddr("81.2.69.1"))
			require.True(t, ok)
			require.Equal(t, tt.want, p)
		})
	}
}

func TestOpenRefuses(t *testing.T) {
	good := cities(t)
	asn := made(t, mmdbwriter.Options{DatabaseType: "ASN"}, map[string]tree{"81.2.69.0/24": {"autonomous_system_number": mmdbtype.Uint32(64500)}})
	country := made(t, mmdbwriter.Options{DatabaseType: "Other"}, map[string]tree{"81.2.69.0/24": {"country": text("Utopia")}})
	tests := []struct {
		name string
		data []byte
		want string
	}{
		{"an empty file", nil, "is not a whole file in MaxMind's format"},
		{"a text", []byte("country,network\n"), "is not a whole file in MaxMind's format"},
		{"the first half", good[:len(good)/2], "is not a whole file in MaxMind's format"},
		{"the second half", good[len(good)/2:], "is "},
		{"a database of something else", asn, `must hold countries or coordinates, is of type "ASN" and holds neither`},
		{"a layout of another kind", country, `of type "Other" that is not understood`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.mmdb")
			require.NoError(t, os.WriteFile(path, tt.data, 0o600))
			x, err := Open(path)
			require.ErrorContains(t, err, "geoip database "+path+": ")
			require.ErrorContains(t, err, tt.want)
			require.Nil(t, x)
		})
	}
	_, err := Open(filepath.Join(t.TempDir(), "gone"))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = Open(t.TempDir())
	require.ErrorContains(t, err, "must be a file")
}

// Cut anywhere, a file is refused: it is never half an index.
func TestEveryTruncationIsRefused(t *testing.T) {
	good := cities(t)
	for n := range good {
		_, err := parse(good[:n])
		require.Error(t, err, "cut to %d of %d octets", n, len(good))
	}
}

// One octet changed anywhere ends in an index or an error, never in a panic or a loop.
func TestEveryBrokenOctetEnds(t *testing.T) {
	good := cities(t)
	for i := range good {
		for _, to := range []byte{0, 0xff, good[i] ^ 1, good[i] + 1} {
			bad := bytes.Clone(good)
			bad[i] = to
			if x, err := parse(bad); err == nil {
				x.Lookup(netip.MustParseAddr("81.2.69.142"))
			}
		}
	}
}

// A tree whose nodes all lead to one another has no end that anybody could walk to.
func TestATreeThatLeadsBackIntoItselfIsRefused(t *testing.T) {
	data := made(t, mmdbwriter.Options{IPVersion: 6, RecordSize: 24, IncludeReservedNetworks: true}, map[string]tree{"2a02::/127": {"country_code": text("US")}})
	// Each node of the chain leads to the next by both sides: 2^100 leaves.
	for at := 0; at+6 <= 120*6; at += 6 {
		next := at/6 + 1
		for side := range 2 {
			copy(data[at+3*side:], []byte{byte(next >> 16), byte(next >> 8), byte(next)})
		}
	}
	done := make(chan error, 1)
	go func() { _, err := parse(data); done <- err }()
	select {
	case err := <-done:
		require.ErrorContains(t, err, "is broken")
	case <-t.Context().Done():
		t.Fatal("still walking")
	}
}

func FuzzOpen(f *testing.F) {
	f.Add(cities(f))
	f.Add(made(f, mmdbwriter.Options{IPVersion: 4, RecordSize: 24}, map[string]tree{"11.0.0.0/8": {"country_code": text("US")}}))
	f.Fuzz(func(_ *testing.T, data []byte) {
		if x, err := parse(data); err == nil {
			x.Lookup(netip.MustParseAddr("81.2.69.142"))
			for range x.All() {
			}
		}
	})
}

func TestNewRefusesOverlaps(t *testing.T) {
	entry := func(p string) Entry {
		return Entry{netip.MustParsePrefix(p), Place{Country: "GB"}}
	}
	_, err := New([]Entry{entry("10.0.0.0/8"), entry("10.1.0.0/16")}, "")
	require.EqualError(t, err, "networks 10.0.0.0/8 and 10.1.0.0/16 overlap, or are out of order")
	_, err = New([]Entry{entry("10.1.0.0/8")}, "")
	require.EqualError(t, err, "geo entry 10.1.0.0/8: must be a network")
}

// Joined neighbours answer as the entries did that they were made of.
func TestIndexIsItsEntries(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		base := rapid.SampledFrom([]string{"10.0.0.0", "2001:d00::"}).Draw(rt, "base")
		var entries []Entry
		split(rt, netip.PrefixFrom(netip.MustParseAddr(base), 24), 7, &entries)
		x, err := New(entries, "2026-10-07")
		require.NoError(rt, err)
		for p, n := range x.All() {
			for _, e := range entries {
				if p.Contains(e.Prefix.Addr()) {
					require.Equal(rt, x.Places()[n], e.Place)
				}
			}
		}
		for _, e := range entries {
			got, network, ok := x.Lookup(e.Prefix.Addr())
			require.True(rt, ok)
			require.Equal(rt, e.Place, got)
			require.True(rt, network.Contains(e.Prefix.Addr()) && network.Bits() <= e.Prefix.Bits())
		}
		require.LessOrEqual(rt, x.Len(), len(entries))
	})
}

// split draws a partition of a network, with holes, into places.
func split(rt *rapid.T, p netip.Prefix, depth int, to *[]Entry) {
	switch what := rapid.IntRange(0, 5).Draw(rt, "what"); {
	case what == 0:
	case what < 3 || depth == 0:
		*to = append(*to, Entry{p, Place{Country: rapid.SampledFrom([]string{"GB", "US"}).Draw(rt, "country"), Continent: "EU"}})
	default:
		low, high := Halves(p)
		split(rt, low, depth-1, to)
		split(rt, high, depth-1, to)
	}
}

func TestNilKnowsNothing(t *testing.T) {
	var x *Index
	_, _, ok := x.Lookup(netip.MustParseAddr("192.0.2.1"))
	require.False(t, ok)
	require.Empty(t, x.Build())
	require.Zero(t, x.Len())
	for range x.All() {
		t.Fatal("a network")
	}
}

// 300,000 networks take a few megabytes, in a handful of allocations.
func TestIndexIsCompact(t *testing.T) {
	entries := make([]Entry, 300_000)
	for i := range entries {
		addr := netip.AddrFrom4([4]byte{byte(1 + i>>16), byte(i >> 8), byte(i)})
		entries[i] = Entry{netip.PrefixFrom(addr, 24), Place{Country: []string{"GB", "US", "JP"}[i%3], Located: true, Latitude: float64(i % 90)}}
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	x, err := New(entries, "2026-10-07")
	require.NoError(t, err)
	runtime.GC()
	runtime.ReadMemStats(&after)
	require.Equal(t, len(entries), x.Len())
	require.Less(t, after.HeapAlloc-before.HeapAlloc, uint64(8<<20))
	require.Less(t, after.HeapObjects-before.HeapObjects, uint64(1000))
	runtime.KeepAlive(entries)
}
