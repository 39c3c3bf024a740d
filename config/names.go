package config

import (
	"strings"

	"github.com/quorate/quorate/statestore"
)

// serviceNames refuses names that two services, or a service and a static record,
// would answer for, and hostnames of clusters whose answer would be the answer asked
// for.
func (b *specBuilder) serviceNames() {
	owner := map[string]string{} // FQDN -> service
	each(b.root, "services", func(name string, v *value) {
		s := b.spec.Services[name]
		if s == nil || s.Zone == "" {
			return
		}
		for i, n := range s.Names {
			at, path := v.at, join(v.path, "names")
			if items := itemsOf(v.child("names")); i < len(items) && v.set("names") {
				at, path = items[i].at, items[i].path
			} else if !v.set("names") {
				at, path = b.root.child("services").keyAt[name], v.path
			}
			full := strings.TrimPrefix(n+"."+s.Zone, "@.")
			if len(full) > longestName {
				b.c.errorf(at, path, "must be at most %d characters with its zone, is %d", longestName, len(full))
			}
			if other, ok := owner[full]; ok && other != name {
				b.c.errorf(at, path, "must be a name of one service, is %s of services %s and %s", full, other, name)
				continue
			}
			owner[full] = name
			b.staticRecords(s, n, at, path)
		}
		b.srvOwner(name, s, v)
	})
	each(b.root, "clusters", func(name string, v *value) {
		h := v.child("hostname")
		if full, ok := valueOf[string](h); ok && h.fine() && owner[full] != "" {
			b.errorf(h, "must not be a name of a service here, whose answer would be made of itself, is %s of service %s", full, owner[full])
		}
	})
}

// longestName is RFC 1035's 255 octets in presentation form, with the trailing dot.
const longestName = 254

// staticRecords refuses static records that a service answers itself at its name n.
func (b *specBuilder) staticRecords(s *statestore.Service, n string, at place, path string) {
	z := b.spec.Zones[s.Zone]
	if z == nil {
		return
	}
	zone := strings.TrimSuffix(s.Zone, ".")
	for _, t := range []string{"A", "AAAA", "CNAME"} {
		if len(z.Records[n][t]) > 0 {
			b.c.errorf(at, path, "must not have static addresses, is also zones.%s.records.%s.%s", zone, n, t)
		}
	}
	if s.HTTPSRecord == nil {
		return
	}
	for _, t := range []string{"HTTPS", "SVCB"} {
		if len(z.Records[n][t]) > 0 {
			b.c.errorf(at, path, "must not have static %s records next to https_record, is also zones.%s.records.%s.%s", t, zone, n, t)
		}
	}
}

// srvOwner refuses static records where the service's SRV records are.
func (b *specBuilder) srvOwner(name string, s *statestore.Service, v *value) {
	z := b.spec.Zones[s.Zone]
	if s.SRV == nil || z == nil {
		return
	}
	at := v.child("srv")
	own := "_" + name + "._" + s.SRV.Proto
	if full := own + "." + s.Zone; len(full) > longestName && at.fine() {
		b.errorf(at, "must be published at a name of at most %d characters, is %s with %d", longestName, quote(full), len(full))
	}
	if types := z.Records[own]; len(types) > 0 && at.fine() {
		b.errorf(at, "must be alone at %s, is also zones.%s.records.%s with %s", own, strings.TrimSuffix(s.Zone, "."), own, strings.Join(keysOf(types), ", "))
	}
}
