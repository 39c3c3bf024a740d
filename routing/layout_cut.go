package routing

import (
	"errors"
	"fmt"
	"strings"
)

// cut is where a zone ends and a child zone that others serve begins.
type cut struct {
	ns   *RRset
	ds   *RRset  // nil: the child is not signed
	glue []Alias // addresses of its name servers that stand in our zones
}

// nest joins our zones that are below one another: the names between two apexes
// exist in the upper one, which has the DS of the lower.
func (l *layout) nest() {
	for i := range l.zones {
		name := l.zones[i].name
		z := l.zoneOf(parent(name))
		if z < 0 {
			continue
		}
		l.add(parent(name), z)
		l.names[name].above = newNode(name, z)
	}
}

// addCuts finds the delegations and what is below them and below DNAMEs, which is
// not answered, and names what should not be there.
func (l *layout) addCuts() error {
	for _, n := range l.names {
		if n.servers != nil {
			n.cut = &cut{ns: n.set(TypeNS), ds: n.set(TypeDS)}
			l.zones[n.zone].cuts = true
			for _, server := range n.servers {
				l.served[server] = true
			}
		}
		l.zones[n.zone].cuts = l.zones[n.zone].cuts || n.rename != ""
	}
	for name, n := range l.names {
		if l.zones[n.zone].cuts {
			n.over = l.overOf(name, n)
		}
		if n.above != nil {
			n.above.over = l.overOf(name, n.above)
		}
	}
	var errs []error
	for _, name := range sortedKeys(l.names) {
		n := l.names[name]
		if err := l.misplaced(n); err != nil {
			errs = append(errs, err)
		}
		if n.cut != nil && n.over == nil {
			n.cut.glue = l.addressesOf(n.servers)
			errs = append(errs, l.unglued(n))
		}
	}
	return errors.Join(errs...)
}

// overOf returns the topmost cut or DNAME above a name in its zone, or nil.
func (l *layout) overOf(name string, n *node) (over *node) {
	if n.apex {
		return nil
	}
	for up := parent(name); up != ""; up = parent(up) {
		p := l.names[up]
		if p == nil || p.zone != n.zone {
			break
		}
		if p.cut != nil || p.rename != "" {
			over = p
		}
		if p.apex {
			break
		}
	}
	return over
}

// hidden reports whether something else answers for a name: what is at or below a
// cut, or below a DNAME. It asks for names that came after addCuts too.
func (l *layout) hidden(n *node) bool {
	if n.over == nil && l.zones[n.zone].cuts {
		n.over = l.overOf(n.name, n)
	}
	return n.over != nil || n.cut != nil
}

// misplaced says what should not be at a name: data that a cut or a DNAME hides, a DS
// without a delegation.
func (l *layout) misplaced(n *node) error {
	if n.cut == nil && n.over == nil {
		if n.set(TypeDS) != nil {
			return l.setError(n, TypeDS, fmt.Errorf("must be next to the NS records of a delegation, %s has none (RFC 4035 2.4)", n.name))
		}
		return nil
	}
	where := n.name + " is delegated"
	if n.over != nil && n.over.cut != nil {
		where = fmt.Sprintf("%s is below %s, which is delegated", n.name, n.over.name)
	} else if n.over != nil {
		where = fmt.Sprintf("%s is below the DNAME at %s (RFC 6672 2.4)", n.name, n.over.name)
	}
	var errs []error
	if n.service != noService {
		errs = append(errs, fmt.Errorf("services.%s.names: %s: the service would not be answered there", l.services[n.service], where))
	}
	if n.srv != noService {
		errs = append(errs, fmt.Errorf("services.%s.srv: %s: the record would not be answered there", l.services[n.srv], where))
	}
	for _, s := range n.sets {
		switch {
		case n.over == nil && (s.Type == TypeNS || s.Type == TypeDS):
		case (s.Type == TypeA || s.Type == TypeAAAA) && l.served[n.name]:
		case n.cut != nil || n.over.cut != nil:
			errs = append(errs, l.setError(n, s.Type, fmt.Errorf("%s: only NS, DS and the addresses of its name servers may stand here", where)))
		default:
			errs = append(errs, l.setError(n, s.Type, fmt.Errorf("%s, which answers for it", where)))
		}
	}
	return errors.Join(errs...)
}

// unglued names the name servers below their own cut that have no address: nobody
// could find them (RFC 1034 4.2.1).
func (l *layout) unglued(n *node) error {
	var errs []error
	for _, server := range n.servers {
		if within(server, n.name) && len(l.addressesOf([]string{server})) == 0 {
			errs = append(errs, l.setError(n, TypeNS, fmt.Errorf("%s is below the delegation and must have an A or AAAA record in this zone (RFC 1034 4.2.1), has none", server)))
		}
	}
	return errors.Join(errs...)
}

// addressesOf returns the addresses that our zones have of some names.
func (l *layout) addressesOf(names []string) []Alias {
	var glue []Alias
	for _, name := range names {
		n := l.names[name]
		if n == nil {
			continue
		}
		for _, typ := range []uint16{TypeA, TypeAAAA} {
			if s := n.set(typ); s != nil {
				glue = append(glue, Alias{Owner: name, Set: s})
			}
		}
	}
	return glue
}

// setError places what is wrong with a set that stands already.
func (l *layout) setError(n *node, typ uint16, err error) error {
	set := n.set(typ)
	for _, owner := range l.zones[n.zone].spellings(n.name) {
		for spelled, s := range l.zones[n.zone].parsed[owner] {
			if s.set == set {
				return &RecordError{l.zones[n.zone].name, owner, spelled, err}
			}
		}
	}
	return &RecordError{l.zones[n.zone].name, n.name, TypeName(typ), err}
}

// spellings returns how the spec may spell a name: as it is, or with escapes.
func (zl *zoneLayout) spellings(name string) []string {
	rel := "@"
	if name != zl.name {
		rel = strings.TrimSuffix(name, "."+zl.name)
	}
	if _, ok := zl.parsed[rel]; ok {
		return []string{rel}
	}
	return sortedKeys(zl.parsed)
}
