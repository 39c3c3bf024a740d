package routing

import (
	"net/netip"

	"github.com/quorate/quorate/routing/geo"
)

// class is all that is known of where a client is. Two clients of one class are
// answered alike, but for chance and stickiness.
type class struct {
	cluster   string // whose CIDRs hold it; empty: nobody's
	region    string // it counts as in; empty: unknown
	country   string
	continent string

	// near is how many regions are nearer, a byte a region in the order of
	// clients.regions: 0 is the region it is in, and those nobody can place are last.
	near string
}

// in reports whether the client is in a country or continent. A code that could be
// both, such as SA, is the continent.
func (c class) in(place string) bool {
	if geo.IsContinent(place) {
		return c.continent == place
	}
	return c.country == place && place != ""
}

// clients finds the class of an address: all addresses there are, cut into networks
// that each have one class. It is immutable, and shared by tables while what it is
// made from is the same.
type clients struct {
	from    places
	regions []string // sorted
	classes []class  // the first one knows nothing
	spans   *spans

	inside map[string]uint32       // by region: the class of a client of whom only that is known
	sample map[string]netip.Prefix // by region: the widest network that GeoIP has there
}

// located is a class's number and, in the lowest byte, the length of the network.
type located uint32

func (l located) class() uint32 { return uint32(l >> 8) }
func (l located) bits() int     { return int(l & 0xff) }

// find returns the class of the client of a query, and how many bits of its address
// decide that.
func (c *clients) find(q *Query) located {
	return c.spans.find(clientAddr(q)) // an invalid one has class 0
}

// clientAddr is the address that tells where the client is: its subnet's, else the
// source's. A subnet of no bits says that the client does not want to be told apart;
// the resolver then stands for it (RFC 7871 7.1.2).
func clientAddr(q *Query) netip.Addr {
	if q.Subnet.IsValid() && q.Subnet.Bits() > 0 {
		return q.Subnet.Addr()
	}
	return q.Client.Unmap()
}
