package policy

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/statestore"
)

// DiffSpec returns what applying spec to st would change: objects, answers,
// class and guard rails, and the rotations that ApplySpec has to carry.
func DiffSpec(st *statestore.State, spec *statestore.Spec) Diff {
	d := Diff{
		Changes:   changes(st, spec),
		Rotations: Rotations(st, spec, nil, nil),
		Guards:    guards(st.Spec, spec),
		Class:     ClassNone,
	}
	for _, c := range d.Changes {
		d.raise(classOf(c))
		d.raise(statefulClass(st, spec, c))
	}
	next := view{st: st, spec: spec}
	carried := d.Rotations
	for _, service := range sortedKeys(spec.Services) {
		last := next.last(service)
		rc := statestore.RotationChange{Service: service, V4: last.V4, V6: last.V6}
		if len(carried) > 0 && carried[0].Service == service {
			rc, carried = carried[0], carried[1:]
		}
		im, old := next.impact(rc), st.Spec.Services[service]
		switch {
		case im.Moves:
			d.raise(ClassAnswers)
			if spec.Services[im.Service].Stateful != nil {
				d.raise(ClassStateful)
			}
		case old != nil && old.TTL != spec.Services[im.Service].TTL:
			d.raise(ClassTTL)
		default:
			continue
		}
		d.Answers = append(d.Answers, im)
	}
	for _, service := range sortedKeys(st.Spec.Services) {
		if spec.Services[service] == nil {
			last := next.last(service)
			svc := st.Spec.Services[service]
			d.Answers = append(d.Answers, Impact{
				Service: service, Before: Shares(svc, last.V4, last.V6), After: []ClusterShare{}, Moves: true,
				Clears: svc.LongestTTL(), Warnings: []string{"the name is not answered any more"},
			})
		}
	}
	return d
}

// changes returns what differs. Before the first spec nothing is in force, neither
// safety nor retention: what nobody wrote is no change then, only what is not as
// package config fills it in.
func changes(st *statestore.State, spec *statestore.Spec) []Change {
	if st.Revision > 0 {
		return CompareSpecs(st.Spec, spec)
	}
	blank := *st.Spec
	blank.Version, blank.Safety, blank.Retention = spec.Version, defaultSafety, defaultRetention
	if cs := CompareSpecs(&blank, spec); len(cs) > 0 {
		return cs
	}
	return CompareSpecs(st.Spec, spec) // else a spec without objects could not be applied
}

// What package config fills in where a spec says nothing.
var (
	defaultSafety = statestore.Safety{
		MinServingClusters: 1, MaxDrained: 1,
		Changes: statestore.Budget{Causes: 4, Per: statestore.Duration(10 * time.Minute)},
		Plan:    statestore.PlanGuard{MaxUpdateRatio: 0.3, MaxDeleteRatio: 0.3},
	}
	defaultRetention = statestore.Retention{Events: statestore.Duration(90 * 24 * time.Hour), Revisions: 200}
)

// classes orders the classes by weight.
var classes = [...]Class{ClassNone, ClassTTL, ClassAnswers, ClassStateful, ClassIdentity, ClassRemoves}

func (d *Diff) raise(c Class) {
	if slices.Index(classes[:], c) > slices.Index(classes[:], d.Class) {
		d.Class = c
	}
}

// answerKeys are the keys of a service that decide about its answers.
var answerKeys = []string{
	"policy", "answer", "on_all_down", "on_stale", "residency", "min_healthy", "overrides", "https_record", "srv",
}

// classOf tells the class of a change from its place in the spec. Whether answers of
// services move is not told from here but from the rotations.
func classOf(c Change) Class {
	if len(c.at) < 2 {
		return ClassNone
	}
	kind, key := c.at[0], ""
	if len(c.at) > 2 {
		key = c.at[2]
	}
	switch {
	case kind == "regions" && key == "" && c.Op == "+":
		return ClassAnswers
	case kind == "regions":
		return ClassIdentity // who counts as inside it is what other systems rely on
	case kind != "zones" && kind != "clusters" && kind != "services":
		return ClassNone
	case key == "" && c.Op == "-":
		return ClassRemoves
	case kind == "clusters" && (key == "id" || key == "region" || key == "cidrs"):
		return ClassIdentity
	case kind == "services" && (key == "zone" || key == "names"):
		return ClassIdentity
	case kind == "services" && key == "ttl", kind == "zones" && (key == "ns_ttl" || key == "records" && len(c.at) == 6 && c.at[5] == "ttl"):
		return ClassTTL
	case kind == "zones" && key == "records":
		return ClassAnswers
	case kind == "services" && slices.Contains(answerKeys, key), kind == "clusters" && key == "hostname":
		return ClassAnswers
	}
	return ClassNone
}

// guards measures how much of the old spec the new one touches.
func guards(old, spec *statestore.Spec) Guards {
	g := Guards{MaxUpdates: spec.Safety.Plan.MaxUpdateRatio, MaxDeletes: spec.Safety.Plan.MaxDeleteRatio}
	if len(old.Zones)+len(old.Clusters)+len(old.Services) == 0 {
		return g // there is nothing to guard yet
	}
	// The rails of the revision in force count: a plan may not lift them for itself.
	g.MaxUpdates, g.MaxDeletes = old.Safety.Plan.MaxUpdateRatio, old.Safety.Plan.MaxDeleteRatio
	count, updated, deleted := 0, 0, 0
	for _, of := range [][3]int{touched(old.Zones, spec.Zones), touched(old.Clusters, spec.Clusters), touched(old.Services, spec.Services)} {
		count, updated, deleted = count+of[0], updated+of[1], deleted+of[2]
	}
	g.Updates = float64(updated) / float64(count)
	g.Deletes = float64(deleted) / float64(count)
	for name, zone := range old.Zones {
		now := spec.Zones[name]
		g.NSChanged = g.NSChanged || now == nil || !slices.Equal(zone.NS, now.NS)
	}
	// One object is always few: else nobody could edit a spec of three.
	if updated > 1 && g.Updates > g.MaxUpdates {
		g.Exceeded = append(g.Exceeded, fmt.Sprintf("updates %.0f%% of %.0f%%: %d of %d objects change", 100*g.Updates, 100*g.MaxUpdates, updated, count))
	}
	if g.Deletes > g.MaxDeletes {
		g.Exceeded = append(g.Exceeded, fmt.Sprintf("deletes %.0f%% of %.0f%%: %d of %d objects go", 100*g.Deletes, 100*g.MaxDeletes, deleted, count))
	}
	if g.NSChanged && !old.Safety.Plan.FreeNSChanges {
		g.Exceeded = append(g.Exceeded, "the NS set changes: the parent's delegation must follow")
	}
	return g
}

// touched counts the objects of a kind, and how many of them change and go.
func touched[V any](old, now map[string]*V) (n [3]int) {
	n[0] = len(old)
	for name, was := range old {
		switch is, kept := now[name]; {
		case !kept:
			n[2]++
		case !statestore.Same(was, is):
			n[1]++
		}
	}
	return n
}

// CompareSpecs returns the differences of two specs, sorted by path. Maps of
// plain values are compared as a whole, as people write them on one line.
func CompareSpecs(old, spec *statestore.Spec) []Change {
	var cs []Change
	a, b := withoutCommon(withRoles(old), withRoles(spec))
	compare(nil, tree(a), tree(b), &cs)
	slices.SortStableFunc(cs, func(a, b Change) int { return slices.Compare(a.at, b.at) })
	return cs
}

// withoutCommon returns the specs without the services that are the same in both:
// of thousands few change, and the rest need not be taken apart.
func withoutCommon(a, b *statestore.Spec) (*statestore.Spec, *statestore.Spec) {
	left, right := *a, *b
	same := func(name string) bool {
		return a.Services[name] != nil && statestore.Same(a.Services[name], b.Services[name])
	}
	without := func(m map[string]*statestore.Service) map[string]*statestore.Service {
		m = maps.Clone(m)
		maps.DeleteFunc(m, func(name string, _ *statestore.Service) bool { return same(name) })
		return m
	}
	left.Services, right.Services = without(a.Services), without(b.Services)
	return &left, &right
}

// withRoles returns sp with the built-in roles where it names none, as Apply
// keeps it: to leave the roles out again is no difference.
func withRoles(sp *statestore.Spec) *statestore.Spec {
	if len(sp.Access.Roles) > 0 {
		return sp
	}
	filled := *sp
	filled.Access.Roles = statestore.BuiltinRoles()
	return &filled
}

func compare(at []string, old, now any, out *[]Change) {
	a, aMap := old.(map[string]any)
	b, bMap := now.(map[string]any)
	if len(at) < 2 || len(at) == 3 && at[0] == "zones" && at[2] == "records" {
		// A missing map of objects or records is one without any.
		aMap, bMap = aMap || old == nil, bMap || now == nil
	}
	if !aMap || !bMap || len(at) > 2 && flat(a) && flat(b) {
		c := Change{Op: "~", Path: display(at), Old: show(old), New: show(now), at: at}
		switch {
		case c.Old == c.New:
			return
		case old == nil:
			c.Op = "+"
		case now == nil:
			c.Op = "-"
		}
		if len(at) == 2 && c.Op != "~" {
			c.Old, c.New = summary(at[0], old), summary(at[0], now)
		}
		*out = append(*out, c)
		return
	}
	keys := map[string]any{}
	maps.Copy(keys, a)
	maps.Copy(keys, b)
	for _, k := range sortedKeys(keys) {
		compare(append(slices.Clone(at), k), a[k], b[k], out)
	}
}

// summary says in a few words what a whole object is. It is empty for none.
func summary(kind string, object any) string {
	m, ok := object.(map[string]any)
	if !ok {
		return show(object)
	}
	switch kind {
	case "clusters":
		if m["hostname"] != nil {
			return fmt.Sprintf("%v, %v", m["region"], m["hostname"])
		}
		v4, _ := m["ipv4"].([]any)
		v6, _ := m["ipv6"].([]any)
		if n := len(v4) + len(v6); n != 1 {
			return fmt.Sprintf("%v, %d addresses", m["region"], n)
		}
		return fmt.Sprintf("%v, 1 address", m["region"])
	case "services":
		policy, _ := m["policy"].(map[string]any)
		return fmt.Sprintf("%v %s, %v", show(m["names"]), strings.TrimSuffix(fmt.Sprint(m["zone"]), "."), policy["type"])
	case "zones":
		switch n := countRecords(m); n {
		case 0:
			return "zone"
		case 1:
			return "zone, 1 record"
		default:
			return fmt.Sprintf("zone, %d records", n)
		}
	}
	return show(object)
}

// display joins the keys of a path; a zone's name goes without its trailing dot.
func display(at []string) string {
	parts := slices.Clone(at)
	for i := range parts {
		parts[i] = strings.TrimSuffix(parts[i], ".")
	}
	return strings.Join(parts, ".")
}

// flat reports whether a map holds plain values only.
func flat(m map[string]any) bool {
	for _, v := range m {
		switch v.(type) {
		case map[string]any, []any:
			return false
		}
	}
	return true
}

// tree returns the spec as plain JSON values. A spec came from JSON or goes into
// the log as JSON, so that it encodes is given.
func tree(sp *statestore.Spec) any {
	text, err := json.Marshal(sp)
	if err != nil {
		return nil
	}
	var v map[string]any
	if json.Unmarshal(text, &v) != nil {
		return nil
	}
	zones, _ := v["zones"].(map[string]any)
	for name, z := range sp.Zones {
		if zone, ok := zones[name].(map[string]any); ok {
			writeTTLs(zone, z)
			if signing, ok := zone["dnssec"].(map[string]any); ok {
				signing["signatures_valid"] = signing["valid"] // as the spec calls it
				delete(signing, "valid")
			}
		}
	}
	return v
}

// writeTTLs puts the TTLs of a zone's records beside their data, where people write
// them.
func writeTTLs(zone map[string]any, z *statestore.Zone) {
	delete(zone, "ttls")
	records, _ := zone["records"].(map[string]any)
	for owner, types := range z.TTLs {
		sets, _ := records[owner].(map[string]any)
		for typ, ttl := range types {
			if data, ok := sets[typ]; ok {
				sets[typ] = map[string]any{"data": data, "ttl": (time.Duration(ttl) * time.Second).String()}
			}
		}
	}
}

// countRecords counts the static records of a zone's tree.
func countRecords(zone map[string]any) (n int) {
	records, _ := zone["records"].(map[string]any)
	for _, sets := range records {
		types, _ := sets.(map[string]any)
		for _, set := range types {
			if with, ok := set.(map[string]any); ok {
				set = with["data"]
			}
			data, _ := set.([]any)
			n += len(data)
		}
	}
	return n
}

// show prints a JSON value the way people write it in a spec.
func show(v any) string {
	switch v := v.(type) {
	case map[string]any:
		parts := make([]string, 0, len(v))
		for _, k := range sortedKeys(v) {
			parts = append(parts, k+": "+show(v[k]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case []any:
		parts := make([]string, len(v))
		for i, e := range v {
			parts[i] = show(e)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case nil:
		return ""
	case string:
		if v == "" {
			return `""`
		}
		return v
	default:
		return fmt.Sprint(v)
	}
}
