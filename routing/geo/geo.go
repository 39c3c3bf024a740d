// Package geo says where in the world a network is, out of a MaxMind-format file
// (GeoLite2, GeoIP2 and DB-IP countries and cities, ip-location-db).
//
// Open reads the file whole, checks it to its last record and keeps none of it: an
// Index is disjoint networks, each with a place, and is immutable. A file that is
// broken, cut short or of another sort is refused with what is wrong (G13). Only
// Open does I/O; looking something up is pure, so that routing may. The package
// ships no database and never fetches one.
package geo

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"net/netip"
	"slices"
	"sort"
	"strings"
	"time"
)

// dateLayout is how a build is named.
const dateLayout = "2006-01-02"

// Place is where a network is. What is not known is empty.
type Place struct {
	Country   string // ISO 3166-1 alpha-2, upper case
	Continent string // AF, AN, AS, EU, NA, OC or SA
	Located   bool   // Latitude and Longitude are known

	// Degrees, north and east positive, rounded to a tenth (11 km): regions are
	// further apart, and fewer places make wider networks.
	Latitude, Longitude float64
}

// Entry is a network and its place.
type Entry struct {
	Prefix netip.Prefix
	Place  Place
}

// Index finds the place of an address. It is immutable. A nil Index knows nothing.
type Index struct {
	build  string
	built  time.Time
	places []Place // each once
	v4     []leaf4 // sorted by address, disjoint
	v6     []leaf6
}

// leaf4 is an IPv4 network: no pointer, so that the collector passes over it.
type leaf4 struct {
	addr  uint32
	place uint32
	bits  uint8
}

// leaf6 is an IPv6 network.
type leaf6 struct {
	hi, lo uint64
	place  uint32
	bits   uint8
}

func (l leaf4) prefix() netip.Prefix {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], l.addr)
	return netip.PrefixFrom(netip.AddrFrom4(b), int(l.bits))
}

func (l leaf6) prefix() netip.Prefix {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], l.hi)
	binary.BigEndian.PutUint64(b[8:], l.lo)
	return netip.PrefixFrom(netip.AddrFrom16(b), int(l.bits))
}

// New makes an index of entries, which must not overlap. Build names the file they
// are from, such as "2026-10-07". Neighbours at the same place become one network.
func New(entries []Entry, build string) (*Index, error) {
	b := newBuilder(build)
	for _, e := range slices.SortedFunc(slices.Values(entries), func(a, b Entry) int { return comparePrefixes(a.Prefix, b.Prefix) }) {
		if !e.Prefix.IsValid() || e.Prefix.Masked() != e.Prefix {
			return nil, fmt.Errorf("geo entry %s: must be a network", e.Prefix)
		}
		if err := b.add(e.Prefix, b.number(e.Place.tidied())); err != nil {
			return nil, err
		}
	}
	return b.index(), nil
}

func comparePrefixes(a, b netip.Prefix) int {
	if c := cmp.Compare(a.Addr().BitLen(), b.Addr().BitLen()); c != 0 {
		return c
	}
	return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
}

// Build names the file's build by its date, such as "2026-10-07"; "" for a nil Index.
func (x *Index) Build() string {
	if x == nil {
		return ""
	}
	return x.build
}

// Built is when the file was built; zero for a nil Index and where it does not say.
func (x *Index) Built() time.Time {
	if x == nil {
		return time.Time{}
	}
	return x.built
}

// Len is how many networks the index holds.
func (x *Index) Len() int {
	if x == nil {
		return 0
	}
	return len(x.v4) + len(x.v6)
}

// Places returns the distinct places. A place's number is its position.
func (x *Index) Places() []Place {
	if x == nil {
		return nil
	}
	return slices.Clone(x.places)
}

// All yields the networks and the numbers of their places, IPv4 first, in the order
// of the addresses.
func (x *Index) All() iter.Seq2[netip.Prefix, int] {
	return func(yield func(netip.Prefix, int) bool) {
		if x == nil {
			return
		}
		for _, l := range x.v4 {
			if !yield(l.prefix(), int(l.place)) {
				return
			}
		}
		for _, l := range x.v6 {
			if !yield(l.prefix(), int(l.place)) {
				return
			}
		}
	}
}

// Lookup returns the place of an address and the network that it was found by.
func (x *Index) Lookup(addr netip.Addr) (Place, netip.Prefix, bool) {
	if x == nil || !addr.IsValid() {
		return Place{}, netip.Prefix{}, false
	}
	addr = addr.Unmap().WithZone("")
	if addr.Is4() {
		want := v4(addr)
		i := sort.Search(len(x.v4), func(i int) bool { return x.v4[i].addr > want })
		if i == 0 || !x.v4[i-1].prefix().Contains(addr) {
			return Place{}, netip.Prefix{}, false
		}
		return x.places[x.v4[i-1].place], x.v4[i-1].prefix(), true
	}
	hi, lo := v6(addr)
	i := sort.Search(len(x.v6), func(i int) bool { l := x.v6[i]; return l.hi > hi || l.hi == hi && l.lo > lo })
	if i == 0 || !x.v6[i-1].prefix().Contains(addr) {
		return Place{}, netip.Prefix{}, false
	}
	return x.places[x.v6[i-1].place], x.v6[i-1].prefix(), true
}

func v4(a netip.Addr) uint32 {
	b := a.As4()
	return binary.BigEndian.Uint32(b[:])
}

func v6(a netip.Addr) (hi, lo uint64) {
	b := a.As16()
	return binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])
}

// tidied returns the place in the one spelling that an index keeps: codes that are
// none are dropped, a continent follows from its country.
func (p Place) tidied() Place {
	p.Country, p.Continent = strings.ToUpper(p.Country), strings.ToUpper(p.Continent)
	if p.Country == "EU" { // what whois says of networks all over Europe
		p.Country, p.Continent = "", "EU"
	}
	if continents[p.Country] == "" && !validCountry(p.Country) {
		p.Country = ""
	}
	if c := continents[p.Country]; c != "" && !IsContinent(p.Continent) {
		p.Continent = c
	}
	if !IsContinent(p.Continent) {
		p.Continent = ""
	}
	if !p.Located || !within(p.Latitude, 90) || !within(p.Longitude, 180) {
		p.Located, p.Latitude, p.Longitude = false, 0, 0
	}
	p.Latitude, p.Longitude = math.Round(p.Latitude*10)/10, math.Round(p.Longitude*10)/10
	return p
}

// within is false for NaN too.
func within(degrees, limit float64) bool { return degrees >= -limit && degrees <= limit }

func (p Place) unknown() bool { return p == Place{} }
