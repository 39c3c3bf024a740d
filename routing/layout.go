package routing

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/statestore"
)

// staticTTL is the TTL of static records for which the spec says none: five minutes,
// so that a mistake is gone soon.
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
	served   map[string]bool  // names of the servers of delegations
	spec     *statestore.Spec // what it was made from
	err      error            // what of the spec had to be left out
}

// alias is how many names a service has, and in which zone: that of the last one.
type alias struct {
	zone, names int
	srv         bool // it has an SRV record in that zone
}

// node is one name of a zone. An empty non-terminal has neither service nor sets.
type node struct {
	name    string
	zone    int
	apex    bool
	service int // number, or noService
	srv     int // number of the service whose SRV record is here, or noService
	sets    []*RRset
	target  string   // of the CNAME among sets: the only one then
	rename  string   // of the DNAME among sets: what the names below are redirected to
	servers []string // of the NS among sets, canonical; an apex has none here
	cut     *cut     // nil: the name belongs to the zone
	over    *node    // the cut or DNAME that answers in its place; nil: none is above it
	wild    *node    // the wildcard directly below this name
	above   *node    // of an apex below another of our zones: what that one has at the name
	derived bool     // holds glue
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

// makeLayout lays the state's names out. What cannot be served is left out and
// named in layout.err; the rest is complete, since a node that must start from
// this state is better off with all but one record than with none (G5). Sets that
// prev, which may be nil, has of the same text are taken from it.
func makeLayout(st *statestore.State, members []server, prev *layout) *layout {
	l := &layout{names: map[string]*node{}, served: map[string]bool{}, members: members, spec: st.Spec}
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
	l.nest()
	l.services = sortedKeys(st.Spec.Services)
	l.aliases, l.https = make([]alias, len(l.services)), make([]bool, len(l.services))
	for i, name := range l.services {
		errs = append(errs, l.addService(i, name, st.Spec.Services[name]))
	}
	for _, name := range sortedKeys(st.Spec.Zones) {
		errs = append(errs, l.addRecords(name, st.Spec.Zones[name], prev))
	}
	errs = append(errs, l.addCuts())
	for i := range l.zones {
		l.addGlue(i)
	}
	l.chain()
	l.err = errors.Join(errs...)
	return l
}

// add makes a name, and the empty non-terminals above it, exist.
func (l *layout) add(name string, zone int) *node {
	n, ok := l.names[name]
	if ok {
		return n
	}
	n = newNode(name, zone)
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

func newNode(name string, zone int) *node {
	return &node{name: name, zone: zone, service: noService, srv: noService}
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

// find returns the node that answers name, and whether that is a wildcard. A cut and
// a DNAME answer for what is below them (node.name tells). A nil node means that the
// name does not exist; zone is then still its zone, or -1.
func (l *layout) find(name string) (n *node, wild bool, zone int) {
	if n, ok := l.names[name]; ok {
		if n.over != nil {
			n = n.over
		}
		return n, false, n.zone
	}
	for up := parent(name); up != ""; up = parent(up) {
		n, ok := l.names[up] // the closest encloser (RFC 4592 3.3.1)
		switch {
		case !ok:
		case n.over != nil:
			return n.over, false, n.zone
		case n.cut != nil || n.rename != "":
			return n, false, n.zone
		default:
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
		for n := l.names[owner]; n != nil && n.over == nil && n.target != ""; n, _, _ = l.find(n.target) {
			if slices.Contains(seen, n.target) {
				errs = append(errs, l.setError(l.names[owner], TypeCNAME, errors.New("must end somewhere, leads round in a circle")))
				break
			}
			seen = append(seen, n.target)
		}
	}
	return errors.Join(errs...)
}
