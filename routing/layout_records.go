package routing

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/routing/records"
	"github.com/quorate/quorate/statestore"
)

// RecordError is what is wrong with the static records of one type at one owner.
type RecordError struct {
	Zone, Owner, Type string // as the spec spells them
	Err               error
}

// Error returns the place in the spec and what must be otherwise there.
func (e *RecordError) Error() string {
	return fmt.Sprintf("zones.%s.records.%s.%s: %v", strings.TrimSuffix(e.Zone, "."), e.Owner, e.Type, e.Err)
}

// Unwrap returns what is wrong.
func (e *RecordError) Unwrap() error { return e.Err }

// parsed is the static sets of a zone by owner and type, as the spec spells them.
type parsed map[string]map[string]static

// static is a set and what else of it the layout needs.
type static struct {
	owner   string
	set     *RRset
	targets []string // canonical: of CNAME, DNAME, NS
}

// addRecords puts the static records of a zone at their owners.
func (l *layout) addRecords(name string, z *statestore.Zone, prev *layout) error {
	i := l.zoneOf(Canonical(name))
	l.zones[i].parsed = make(parsed, len(z.Records))
	was, before := prev.zoneBefore(name, l.zones[i].name)
	var errs []error
	for _, owner := range sortedKeys(z.Records) {
		types := z.Records[owner]
		l.zones[i].parsed[owner] = make(map[string]static, len(types))
		for _, typ := range sortedKeys(types) {
			ttl := ttlOf(z, owner, typ)
			s, ok := before[owner][typ]
			if !ok || s.set.TTL != ttl || !slices.Equal(was.Records[owner][typ], types[typ]) {
				var err error
				if s, err = readSet(l.zones[i].name, owner, typ, types[typ], ttl); err != nil {
					errs = append(errs, &RecordError{name, owner, typ, err})
					continue
				}
			}
			l.zones[i].parsed[owner][typ] = s
			if err := l.addSet(i, s); err != nil {
				errs = append(errs, &RecordError{name, owner, typ, err})
			}
		}
	}
	return errors.Join(errs...)
}

// zoneBefore returns a zone as an earlier layout had it: its spec and the sets made of it.
func (l *layout) zoneBefore(name, canonical string) (*statestore.Zone, parsed) {
	if l == nil || l.spec.Zones[name] == nil {
		return nil, nil
	}
	return l.spec.Zones[name], l.zones[l.zoneOf(canonical)].parsed
}

// ttlOf returns the TTL of a set.
func ttlOf(z *statestore.Zone, owner, typ string) uint32 {
	if ttl, ok := z.TTLs[owner][typ]; ok {
		return ttl
	}
	return staticTTL
}

func readSet(zone, owner, typ string, data []string, ttl uint32) (static, error) {
	set, err := records.Parse(zone, owner, typ, data)
	if err != nil {
		return static{}, err
	}
	return static{owner: set.Owner, targets: set.Targets, set: &RRset{Type: set.Type, TTL: ttl, Rdata: set.Rdata, Text: set.Text}}, nil
}

// addSet puts a static set of a zone at its owner, under the rules of CNAME, of
// services and of zones below it.
func (l *layout) addSet(zone int, s static) error {
	z, typ := l.zoneOf(s.owner), s.set.Type
	var n *node
	if z == zone {
		n = l.add(s.owner, z)
	} else if n = l.names[s.owner]; typ == TypeDS && n != nil && n.apex && n.above != nil && n.above.zone == zone {
		n = n.above
	} else {
		return fmt.Errorf("%s is in zone %s: the zone above has no other record there than the DS of its apex", s.owner, l.zones[z].name)
	}
	switch {
	case n.set(typ) != nil:
		return fmt.Errorf("%s has %s records already, under another spelling", s.owner, TypeName(typ))
	case n.service != noService && (typ == TypeA || typ == TypeAAAA):
		return fmt.Errorf("%s has the addresses of service %s", s.owner, l.services[n.service])
	case n.service != noService && typ == TypeHTTPS && l.https[n.service]:
		return fmt.Errorf("%s has the HTTPS records of service %s (https_record)", s.owner, l.services[n.service])
	case n.srv != noService && typ == TypeSRV:
		return fmt.Errorf("%s has the SRV record of service %s (srv)", s.owner, l.services[n.srv])
	case n.service != noService && typ == TypeNS:
		return fmt.Errorf("%s is a name of service %s: a name that is delegated is answered elsewhere", s.owner, l.services[n.service])
	case n.target != "", typ == TypeCNAME && (n.service != noService || n.srv != noService || len(n.sets) > 0):
		return fmt.Errorf("a CNAME must stand alone at %s (RFC 1034 3.6.2)", s.owner)
	}
	switch typ {
	case TypeCNAME:
		n.target = s.targets[0]
	case TypeDNAME:
		n.rename = s.targets[0]
	case TypeNS:
		n.servers = s.targets
	}
	n.sets = append(n.sets, s.set)
	slices.SortFunc(n.sets, func(a, b *RRset) int { return cmp.Compare(a.Type, b.Type) })
	l.zones[zone].records += len(s.set.Rdata)
	return nil
}
