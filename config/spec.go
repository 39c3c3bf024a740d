package config

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/quorate/quorate/statestore"
)

// parseSpec walks the texts and builds the normalised spec.
func parseSpec(texts []*text) (*Result, []FieldError) {
	c := newCollector(texts)
	var b *specBuilder
	if doc := readDocument(c, texts); doc != nil {
		b = newSpecBuilder(c, walker{c: c}.walk(specSchema(), doc, "", false))
		b.build()
	}
	c.sorted()
	if b == nil || len(c.errs) > 0 {
		return nil, c.errs
	}
	return &Result{Spec: b.spec, Source: joinTexts(texts), Unused: c.unused, Warnings: c.warnings, records: b.records}, nil
}

// specBuilder turns what was walked into a statestore.Spec and checks what one key
// alone cannot show: references, names used twice, keys that do not go together.
type specBuilder struct {
	c       *collector
	root    *value
	spec    *statestore.Spec
	records []recordPlace

	defaults *value
	policies map[string]*approvalPolicy // of approvals, the built-in ones too
}

func newSpecBuilder(c *collector, root *value) *specBuilder {
	return &specBuilder{
		c: c, root: root, defaults: root.child("defaults"),
		spec: &statestore.Spec{
			Zones:    map[string]*statestore.Zone{},
			Clusters: map[string]*statestore.Cluster{},
			Services: map[string]*statestore.Service{},
		},
	}
}

func (b *specBuilder) build() {
	b.spec.Version = get[int](b.root, "version")
	b.timing(b.defaults.child("check")) // reports what does not go together in the defaults themselves
	b.ttl(b.defaults)
	b.zones()
	b.dns()
	b.regions()
	b.clusters()
	b.checks()
	b.access()
	b.approvals()
	b.services()
	b.serviceNames()
	b.unusedRegions()
	b.notify()
	b.safety()
	r := b.root.child("retention")
	b.spec.Retention = statestore.Retention{Events: get[statestore.Duration](r, "events"), Revisions: get[int](r, "revisions")}
}

// each calls f for every entry of the map at key, good as far as its shape goes, by name.
func each(v *value, key string, f func(name string, item *value)) {
	m := v.child(key)
	if m == nil {
		return
	}
	names := slices.Sorted(slices.Values(m.keys))
	for _, n := range names {
		if item := m.fields[n]; item.fine() {
			f(n, item)
		}
	}
}

func (b *specBuilder) errorf(v *value, format string, args ...any) {
	b.c.errorf(v.at, v.path, format, args...)
	v.bad = true
}

// keyErrorf reports the name of an entry rather than its value.
func (b *specBuilder) keyErrorf(m *value, name, format string, args ...any) {
	b.c.errorf(m.keyAt[name], join(m.path, name), format, args...)
}

func (b *specBuilder) access() {
	each(b.root.child("access"), "roles", func(name string, r *value) {
		role := &statestore.Role{
			Groups: list[string](r, "groups"), Tokens: list[string](r, "tokens"), Services: list[string](r, "services"),
		}
		for _, can := range list[string](r, "can") {
			role.Can = append(role.Can, statestore.Capability(can))
		}
		if s := r.child("services"); s != nil {
			for _, item := range s.items {
				if svc, ok := item.v.(string); ok && svc != "*" && !b.known("services", svc) {
					b.errorf(item, "must be a service or *, is %s", b.unknown("services", svc))
				}
			}
		}
		if b.spec.Access.Roles == nil {
			b.spec.Access.Roles = map[string]*statestore.Role{}
		}
		b.spec.Access.Roles[name] = role
	})
}

func (b *specBuilder) safety() {
	s := b.root.child("safety")
	budget, plan := s.child("max_automatic_changes"), s.child("plan")
	b.spec.Safety = statestore.Safety{
		MinServingClusters: get[int](s, "min_serving_clusters"),
		MaxDrained:         get[int](s, "max_drained"),
		Changes:            statestore.Budget{Causes: get[int](budget, "causes"), Per: get[statestore.Duration](budget, "per")},
		Plan: statestore.PlanGuard{
			MaxUpdateRatio: get[float64](plan, "max_update_ratio"),
			MaxDeleteRatio: get[float64](plan, "max_delete_ratio"),
			FreeNSChanges:  get[string](plan, "ns_changes") == "allow",
		},
	}
}

// known reports whether the map at key of the document names it, good or bad.
func (b *specBuilder) known(key, name string) bool {
	return b.root.child(key).child(name) != nil
}

// unknown describes a name that the map at key does not have.
func (b *specBuilder) unknown(key, name string) string {
	m := b.root.child(key)
	if m == nil || len(m.keys) == 0 {
		return quote(name) + "; there are no " + key
	}
	return quote(name) + "; " + suggest(name, firstNames(m.keys))
}

// firstNames bounds how many names a message lists.
func firstNames(names []string) []string {
	const shown = 12
	names = slices.Sorted(slices.Values(names))
	return names[:min(len(names), shown)]
}

// pick returns the value at key nearest to the front of levels that stands in a
// file, else the last level's default.
func pick[T any](key string, levels ...*value) T {
	for _, l := range levels {
		if c := l.child(key); c != nil && c.given {
			if t, ok := c.v.(T); ok {
				return t
			}
		}
	}
	return get[T](levels[len(levels)-1], key)
}

// givenAt returns the value at key nearest to the front that stands in a file, or nil.
func givenAt(key string, levels ...*value) *value {
	for _, l := range levels {
		if c := l.child(key); c != nil && c.given {
			return c
		}
	}
	return nil
}

func (b *specBuilder) zones() {
	each(b.root, "zones", func(name string, z *value) {
		soa := z.child("soa")
		zone := &statestore.Zone{
			SOA: statestore.SOA{
				MName: get[string](soa, "mname"), RName: get[string](soa, "rname"),
				Refresh: get[statestore.Duration](soa, "refresh"), Retry: get[statestore.Duration](soa, "retry"),
				Expire: get[statestore.Duration](soa, "expire"), NegativeTTL: get[statestore.Duration](soa, "negative_ttl"),
			},
			NS:    list[string](z, "ns"),
			NSTTL: get[statestore.Duration](z, "ns_ttl"),
		}
		b.once(z.child("ns"))
		if r := givenAt("expire", soa); r.fine() && zone.SOA.Expire < zone.SOA.Refresh+zone.SOA.Retry {
			b.errorf(r, "must be at least refresh + retry %s, is %s", short((zone.SOA.Refresh + zone.SOA.Retry).D()), r.text)
		}
		zone.DNSSEC = b.dnssec(z.child("dnssec"))
		b.zoneRecords(name, zone, z.child("records"))
		if f := z.child("zone_file"); f.fine() && f.text != "" {
			b.errorf(f, "must be read beside the file that names it, with quorate plan -f or apply -f; what is sent to a node holds the records instead")
		}
		b.spec.Zones[name] = zone
	})
}

// once reports items of a list that stand in it twice.
func (b *specBuilder) once(v *value) {
	if v == nil {
		return
	}
	seen := map[any]bool{}
	for _, item := range v.items {
		switch {
		case !item.fine():
		case seen[item.v]:
			b.errorf(item, "must be listed once, is %s again", quote(item.text))
		default:
			seen[item.v] = true
		}
	}
}

// fineLists reports whether nothing in the lists at keys was reported.
func (v *value) fineLists(keys ...string) bool {
	return !slices.ContainsFunc(keys, func(k string) bool {
		l := v.child(k)
		return l != nil && (l.bad || anyBad(l))
	})
}

func itemsOf(v *value) []*value {
	if v == nil {
		return nil
	}
	return v.items
}

// stringMap returns a map of strings, nil when empty.
func stringMap(v *value) map[string]string {
	if v == nil || len(v.keys) == 0 {
		return nil
	}
	m := make(map[string]string, len(v.keys))
	for _, k := range v.keys {
		if s, ok := v.fields[k].v.(string); ok {
			m[k] = s
		}
	}
	return m
}

// ttl returns the TTL of the object that holds the key ttl, over the defaults.
func (b *specBuilder) ttl(holder *value) statestore.TTL {
	t := statestore.TTL{}
	switch base := b.defaults.child("ttl"); {
	case base == nil:
	case base.s.kind == scalarKind:
		d, _ := base.v.(statestore.Duration)
		t = statestore.TTL{Normal: d, Changing: d}
	default:
		t = statestore.TTL{Normal: get[statestore.Duration](base, "normal"), Changing: get[statestore.Duration](base, "changing")}
		if !base.set("changing") {
			t.Changing = min(t.Changing, t.Normal)
		}
	}
	return b.ttlOver(t, holder.child("ttl"))
}

// ttlOver returns what own says over t. A plain duration sets both; an inherited
// `changing` never exceeds `normal`.
func (b *specBuilder) ttlOver(t statestore.TTL, own *value) statestore.TTL {
	if own == nil || !own.given || own.bad {
		return t
	}
	if d, ok := own.v.(statestore.Duration); ok {
		return statestore.TTL{Normal: d, Changing: d}
	}
	if own.set("normal") {
		t.Normal = get[statestore.Duration](own, "normal")
	}
	if !own.set("changing") {
		t.Changing = min(t.Changing, t.Normal)
		return t
	}
	t.Changing = get[statestore.Duration](own, "changing")
	if ch := own.child("changing"); ch.fine() && t.Changing > t.Normal && (!own.set("normal") || own.child("normal").fine()) {
		b.errorf(ch, "must be at most normal %s, is %s", short(t.Normal.D()), ch.text)
	}
	return t
}

func (b *specBuilder) onAllDown(own *value) statestore.OnAllDown {
	v := own
	if v == nil || !v.given || v.bad {
		v = b.defaults.child("on_all_down")
	}
	if v == nil || v.bad {
		return statestore.OnAllDown{Mode: statestore.ServeLast}
	}
	if mode, ok := v.v.(string); ok {
		return statestore.OnAllDown{Mode: statestore.AllDownMode(mode)}
	}
	o := statestore.OnAllDown{Mode: statestore.Sorry}
	sorry := v.child("sorry")
	if sorry == nil {
		return o
	}
	if a, ok := sorry.v.(netip.Addr); ok {
		o.Sorry = []netip.Addr{a}
	}
	for _, item := range sorry.items {
		if a, ok := item.v.(netip.Addr); ok {
			o.Sorry = append(o.Sorry, a)
		}
	}
	b.once(sorry)
	return o
}

// joinNames returns names joined for a message.
func joinNames(names []string) string {
	return strings.Join(slices.Sorted(slices.Values(names)), ", ")
}
