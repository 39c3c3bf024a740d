package routing

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/quorate/quorate/routing/records"
	"github.com/quorate/quorate/statestore"
)

// staticTTL is the TTL of static records, which carry none in the spec: five
// minutes, so that a mistake is gone soon.
const staticTTL = 300

// noService is the number of a name that is not routed.
const noService = -1

// layout is which names exist and what is static at them. It changes with the
// spec and with the members that answer DNS, not with a verdict or a rotation,
// and is shared by all tables in between.
type layout struct {
	names    map[string]*node
	zones    []zoneLayout // sorted by name
	services []string     // sorted; a service's number is its position
	aliases  []alias      // by service number
	https    []bool       // by service number: it answers HTTPS too
	members  []server
	err      error // what of the spec had to be left out
}

// alias is how many names a service has, and in which zone: that of the last one.
type alias struct {
	zone, names int
	srv         bool // it has an SRV record in that zone
}

// zoneLayout is what of a zone does not depend on the table's index.
type zoneLayout struct {
	name    string
	soa     statestore.SOA
	mname   string
	rname   string
	ttl     uint32 // of SOA, NS and glue
	ns      *RRset // nil: none
	glue    []Alias
	records int // static records, NS and glue
}

// node is one name of a zone. An empty non-terminal has neither service nor sets.
type node struct {
	zone    int
	apex    bool
	service int // number, or noService
	srv     int // number of the service whose SRV record is here, or noService
	sets    []*RRset
	target  string // of the CNAME among sets: the only one then
	wild    *node  // the wildcard directly below this name
	derived bool   // holds glue
}

// set returns the static records of a type, or nil.
func (n *node) set(typ uint16) *RRset {
	for _, s := range n.sets {
		if s.Type == typ {
			return s
		}
	}
	return nil
}

// empty reports whether the name exists only because something is below it.
func (n *node) empty() bool {
	return n.service == noService && n.srv == noService && len(n.sets) == 0 && !n.apex
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

// makeLayout lays the state's names out. What cannot be served is left out and
// named in layout.err; the rest is complete, since a node that must start from
// this state is better off with all but one record than with none (G5).
func makeLayout(st *statestore.State, members []server) *layout {
	l := &layout{names: map[string]*node{}, members: members}
	var errs []error
	for _, name := range sortedKeys(st.Spec.Zones) {
		z, err := makeZone(Canonical(name), st.Spec.Zones[name], members)
		errs = append(errs, err)
		l.zones = append(l.zones, z)
	}
	slices.SortFunc(l.zones, func(a, b zoneLayout) int { return strings.Compare(a.name, b.name) })
	for i := range l.zones {
		l.add(l.zones[i].name, i).apex = true
	}
	l.services = sortedKeys(st.Spec.Services)
	l.aliases, l.https = make([]alias, len(l.services)), make([]bool, len(l.services))
	for i, name := range l.services {
		errs = append(errs, l.addService(i, name, st.Spec.Services[name]))
	}
	for _, name := range sortedKeys(st.Spec.Zones) {
		errs = append(errs, l.addRecords(Canonical(name), st.Spec.Zones[name]))
	}
	for i := range l.zones {
		l.addGlue(i)
	}
	l.err = errors.Join(errs...)
	return l
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

// add makes a name, and the empty non-terminals above it, exist.
func (l *layout) add(name string, zone int) *node {
	n, ok := l.names[name]
	if ok {
		return n
	}
	n = &node{zone: zone, service: noService, srv: noService}
	l.names[name] = n
	if name == l.zones[zone].name {
		return n
	}
	if up := parent(name); up != "" {
		above := l.add(up, zone)
		if strings.HasPrefix(name, "*.") {
			above.wild = n
		}
	}
	return n
}

// zoneOf returns the number of the longest zone that holds name, or -1.
func (l *layout) zoneOf(name string) int {
	for ; name != ""; name = parent(name) {
		if i, ok := slices.BinarySearchFunc(l.zones, name, func(z zoneLayout, n string) int { return strings.Compare(z.name, n) }); ok {
			return i
		}
	}
	return -1
}

func (l *layout) addService(number int, name string, s *statestore.Service) error {
	var errs []error
	zone := Canonical(s.Zone)
	for _, rel := range s.Names {
		full := absolute(rel, zone)
		z := l.zoneOf(full)
		if z < 0 {
			errs = append(errs, fmt.Errorf("services.%s: %s is in no zone", name, full))
			continue
		}
		if _, err := packName(nil, full); err != nil {
			errs = append(errs, fmt.Errorf("services.%s: %w", name, err))
			continue
		}
		n := l.add(full, z)
		if n.service != noService && n.service != number {
			errs = append(errs, fmt.Errorf("services.%s: %s belongs to service %s already", name, full, l.services[n.service]))
			continue
		}
		if n.service == noService {
			l.aliases[number].zone = z
			l.aliases[number].names++
		}
		n.service = number
	}
	l.https[number] = s.HTTPSRecord != nil
	return errors.Join(append(errs, l.addPort(number, name, s))...)
}

// addPort makes the owner of a service's SRV record exist.
func (l *layout) addPort(number int, name string, s *statestore.Service) error {
	owner := srvOwner(name, s)
	if owner == "" {
		return nil
	}
	z := l.zoneOf(owner)
	if z < 0 {
		return fmt.Errorf("services.%s.srv: %s is in no zone", name, owner)
	}
	if _, err := packName(nil, owner); err != nil {
		return fmt.Errorf("services.%s.srv: %w", name, err)
	}
	n := l.add(owner, z)
	if n.srv != noService && n.srv != number {
		return fmt.Errorf("services.%s.srv: %s has the SRV record of service %s already", name, owner, l.services[n.srv])
	}
	n.srv = number
	l.aliases[number].srv = true
	return nil
}

func (l *layout) addRecords(zone string, z *statestore.Zone) error {
	var errs []error
	for _, owner := range sortedKeys(z.Records) {
		types := z.Records[owner]
		for _, typ := range sortedKeys(types) {
			set, err := records.Parse(zone, owner, typ, types[typ])
			if err == nil {
				err = l.addSet(set)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("zones.%s.records.%s.%s: %w", zone, owner, typ, err))
			}
		}
	}
	return errors.Join(errs...)
}

// addSet puts a static set at its owner, under the rules of CNAME and services.
func (l *layout) addSet(set *records.Set) error {
	z := l.zoneOf(set.Owner)
	if z < 0 {
		return fmt.Errorf("%s is in no zone", set.Owner)
	}
	n := l.add(set.Owner, z)
	switch {
	case n.service != noService && (set.Type == TypeA || set.Type == TypeAAAA):
		return fmt.Errorf("%s has the addresses of service %s", set.Owner, l.services[n.service])
	case n.service != noService && set.Type == TypeHTTPS && l.https[n.service]:
		return fmt.Errorf("%s has the HTTPS records of service %s (https_record)", set.Owner, l.services[n.service])
	case n.srv != noService && set.Type == TypeSRV:
		return fmt.Errorf("%s has the SRV record of service %s (srv)", set.Owner, l.services[n.srv])
	case n.target != "", set.Type == TypeCNAME && (n.service != noService || n.srv != noService || len(n.sets) > 0):
		return fmt.Errorf("a CNAME must stand alone at %s (RFC 1034 3.6.2)", set.Owner)
	}
	n.target = set.Target
	n.sets = append(n.sets, &RRset{Type: set.Type, TTL: staticTTL, Rdata: set.Rdata, Text: set.Text})
	slices.SortFunc(n.sets, func(a, b *RRset) int { return cmp.Compare(a.Type, b.Type) })
	l.zones[z].records += len(set.Rdata)
	return nil
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
		if n.service != noService || n.target != "" || (!n.derived && (n.set(TypeA) != nil || n.set(TypeAAAA) != nil)) {
			continue
		}
		n.derived = true
		zl.records += n.addAddresses(TypeA, zl.ttl, m.ipv4) + n.addAddresses(TypeAAAA, zl.ttl, m.ipv6)
		slices.SortFunc(n.sets, func(a, b *RRset) int { return cmp.Compare(a.Type, b.Type) })
	}
	if zl.ns == nil {
		return
	}
	for _, name := range zl.ns.Text {
		n := l.names[name]
		if n == nil {
			continue
		}
		for _, typ := range []uint16{TypeA, TypeAAAA} {
			if s := n.set(typ); s != nil {
				zl.glue = append(zl.glue, Alias{Owner: name, Set: s})
			}
		}
	}
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

// find returns the node that answers name, and whether that is a wildcard. A nil
// node means that the name does not exist; zone is then still its zone, or -1.
func (l *layout) find(name string) (n *node, wild bool, zone int) {
	if n, ok := l.names[name]; ok {
		return n, false, n.zone
	}
	for up := parent(name); up != ""; up = parent(up) {
		if n, ok := l.names[up]; ok { // the closest encloser (RFC 4592 3.3.1)
			return n.wild, n.wild != nil, n.zone
		}
	}
	return nil, false, -1
}

// loops names the aliases that never end.
func (l *layout) loops() error {
	var errs []error
	for _, owner := range sortedKeys(l.names) {
		seen := []string{owner}
		for n := l.names[owner]; n != nil && n.target != ""; n, _, _ = l.find(n.target) {
			if slices.Contains(seen, n.target) {
				errs = append(errs, fmt.Errorf("zones.%s: the CNAME at %s leads round in a circle", l.zones[l.names[owner].zone].name, owner))
				break
			}
			seen = append(seen, n.target)
		}
	}
	return errors.Join(errs...)
}
