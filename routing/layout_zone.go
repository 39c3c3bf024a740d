package routing

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/quorate/quorate/statestore"
)

// zoneLayout is what of a zone does not depend on the table's index.
type zoneLayout struct {
	name    string
	soa     statestore.SOA
	mname   string
	rname   string
	ttl     uint32 // of SOA, NS and glue
	ns      *RRset // nil: none
	glue    []Alias
	records int      // static records, NS and glue
	cuts    bool     // it has delegations or DNAMEs
	owners  []string // authoritative names with data, in canonical order
	keys    []string // of owners, which sort by them
	parsed  parsed
}

// server is a member that answers DNS, or could name the zone's primary.
type server struct {
	node  string
	name  string // of its NS record; empty: ns-NODE.ZONE
	voter bool
	ipv4  []netip.Addr
	ipv6  []netip.Addr
}

func (s server) answers() bool { return len(s.ipv4)+len(s.ipv6) > 0 }

func (s server) in(zone string) string {
	if s.name != "" {
		return s.name
	}
	return "ns-" + s.node + "." + zone
}

func sameServer(a, b server) bool {
	return a.node == b.node && a.name == b.name && a.voter == b.voter && slices.Equal(a.ipv4, b.ipv4) && slices.Equal(a.ipv6, b.ipv6)
}

// servers returns the members in the order of their names.
func servers(st *statestore.State) []server {
	list := make([]server, 0, len(st.Members))
	for _, m := range st.Members {
		s := server{node: m.Name, voter: m.Role == statestore.Voter, ipv4: m.DNS.IPv4, ipv6: m.DNS.IPv6}
		if m.DNS.Name != "" {
			s.name = Canonical(m.DNS.Name)
		}
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b server) int { return strings.Compare(a.node, b.node) })
	return list
}

// makeZone derives NS and the fixed part of SOA. A list in the spec wins over the members.
func makeZone(name string, z *statestore.Zone, members []server) (zoneLayout, error) {
	zl := zoneLayout{name: name, soa: z.SOA, ttl: seconds(z.NSTTL), rname: "hostmaster." + name}
	for _, ns := range z.NS {
		zl.addNS(Canonical(ns))
	}
	if len(z.NS) == 0 {
		for _, m := range members {
			if m.answers() {
				zl.addNS(m.in(name))
			}
		}
	}
	if zl.ns != nil {
		zl.records += len(zl.ns.Rdata)
	}
	zl.mname = primary(name, zl.ns, members)
	if z.SOA.MName != "" {
		zl.mname = Canonical(z.SOA.MName)
	}
	if z.SOA.RName != "" {
		zl.rname = Canonical(z.SOA.RName)
	}
	var errs []error
	check := func(key string, v *string) {
		if _, err := packName(nil, *v); err != nil {
			errs = append(errs, fmt.Errorf("zones.%s.soa.%s: %w", name, key, err))
			*v = name
		}
	}
	check("mname", &zl.mname)
	check("rname", &zl.rname)
	return zl, errors.Join(errs...)
}

// addNS adds a name server, once.
func (zl *zoneLayout) addNS(name string) {
	wire, err := packName(nil, name)
	if err != nil || (zl.ns != nil && slices.Contains(zl.ns.Text, name)) {
		return // a member's name is a DNS label and a list is checked by plan: only a repeat comes here
	}
	if zl.ns == nil {
		zl.ns = &RRset{Type: TypeNS, TTL: zl.ttl}
	}
	zl.ns.Rdata = append(zl.ns.Rdata, wire)
	zl.ns.Text = append(zl.ns.Text, name)
}

// primary is the name of the first voter by name that is in the NS set, else the
// first of that set, else the first voter's name even if it answers nobody.
func primary(zone string, ns *RRset, members []server) string {
	first := ""
	for _, m := range members {
		if !m.voter {
			continue
		}
		if ns != nil && slices.Contains(ns.Text, m.in(zone)) {
			return m.in(zone)
		}
		first = cmp.Or(first, m.in(zone))
	}
	if ns != nil {
		return ns.Text[0]
	}
	return cmp.Or(first, zone)
}

// addGlue gives the members' names in the zone their addresses, and collects what
// an NS answer carries along. Static data and services at such a name win.
func (l *layout) addGlue(zone int) {
	zl := &l.zones[zone]
	for _, m := range l.members {
		name := m.in(zl.name)
		if !m.answers() || l.zoneOf(name) != zone {
			continue
		}
		n := l.add(name, zone)
		if l.hidden(n) || n.service != noService || n.target != "" || (!n.derived && (n.set(TypeA) != nil || n.set(TypeAAAA) != nil)) {
			continue
		}
		n.derived = true
		zl.records += n.addAddresses(TypeA, zl.ttl, m.ipv4) + n.addAddresses(TypeAAAA, zl.ttl, m.ipv6)
		slices.SortFunc(n.sets, func(a, b *RRset) int { return cmp.Compare(a.Type, b.Type) })
	}
	if zl.ns == nil {
		return
	}
	zl.glue = l.addressesOf(zl.ns.Text)
}

// addAddresses merges addresses into the set of a type: members may share a name.
func (n *node) addAddresses(typ uint16, ttl uint32, addrs []netip.Addr) (added int) {
	if len(addrs) == 0 {
		return 0
	}
	s := n.set(typ)
	if s == nil {
		s = &RRset{Type: typ, TTL: ttl}
		n.sets = append(n.sets, s)
	}
	for _, a := range addrs {
		if !slices.Contains(s.Text, a.String()) {
			s.Rdata, s.Text = append(s.Rdata, a.AsSlice()), append(s.Text, a.String())
			added++
		}
	}
	return added
}
