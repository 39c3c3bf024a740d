package routing

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/quorate/quorate/statestore"
)

// rr is one record of the reference: everything absolute, in lower case.
type rr struct{ owner, typ, data string }

// reference is RFC 1034 4.3.2 written down plainly: lists of records that are searched
// from end to end for every step. It shares no code with the layout.
type reference struct {
	zones   []string
	records map[string][]rr // by zone
	routed  []string        // names whose addresses differ by client: they go with no other answer
}

// result is an answer as both sides write it.
type result struct {
	kind, zone, set, wild, extra string
	chain                        []string
}

func isBelow(name, top string) bool { return name == top || strings.HasSuffix(name, "."+top) }

// ancestors are the names from the zone's apex down to name.
func ancestors(name, zone string) []string {
	list := []string{name}
	for name != zone {
		name = name[strings.Index(name, ".")+1:]
		list = append(list, name)
	}
	slices.Reverse(list)
	return list
}

func (ref reference) at(zone, owner, typ string) (data []string) {
	for _, r := range ref.records[zone] {
		if r.owner == owner && (r.typ == typ || typ == "") {
			data = append(data, r.data)
		}
	}
	return data
}

// exists reports whether a zone has a name: records at it or below it, or the apex of
// another zone at it or below it.
func (ref reference) exists(zone, name string) bool {
	for _, z := range ref.zones {
		if isBelow(z, name) && isBelow(z, zone) && z != zone {
			return true
		}
	}
	return slices.ContainsFunc(ref.records[zone], func(r rr) bool { return isBelow(r.owner, name) })
}

// zoneFor is step 2: the zone that is the nearest ancestor; of a DS, that above.
func (ref reference) zoneFor(name, typ string) string {
	best, above := "", ""
	for _, z := range ref.zones {
		if isBelow(name, z) && len(z) > len(best) {
			best = z
		}
	}
	for _, z := range ref.zones {
		if name == best && z != best && isBelow(name, z) && len(z) > len(above) {
			above = z
		}
	}
	if typ == "DS" && above != "" {
		return above
	}
	return best
}

func (ref reference) resolve(name, typ string) (out result) {
	aliases := 0
	var seen []string
	for {
		zone := ref.zoneFor(name, typ)
		if zone == "" {
			out.kind = "REFUSED"
			if len(out.chain) > 0 {
				out.kind = "NOERROR"
			}
			return out
		}
		out.zone = zone
		next, done := ref.step(zone, name, typ, &out)
		if done {
			return out
		}
		seen = append(seen, name)
		if aliases++; aliases == 8 || slices.Contains(seen, next) {
			out.kind = "NOERROR"
			return out
		}
		name = next
	}
}

// step is steps 3 and 4: down from the apex, label by label.
func (ref reference) step(zone, name, typ string, out *result) (next string, done bool) {
	path := ancestors(name, zone)
	for _, node := range path {
		if ns := ref.at(zone, node, "NS"); node != zone && len(ns) > 0 && (node != name || typ != "DS") { // 3b: out of the authoritative data
			out.kind, out.set = "DELEGATION", node+" NS "+strings.Join(ns, ",")
			if len(ref.at(zone, node, "DS")) > 0 {
				out.extra = "DS"
			}
			for _, server := range ns {
				for _, z := range ref.zones {
					if slices.Contains(ref.routed, server) {
						continue
					}
					for _, a := range ref.at(z, server, "A") {
						out.extra += "+" + server + "=" + a
					}
				}
			}
			return "", true
		}
		if to := ref.at(zone, node, "DNAME"); node != name && len(to) > 0 { // RFC 6672 3.2
			next = strings.TrimSuffix(name, node) + to[0]
			out.chain = append(out.chain, node+" DNAME "+to[0])
			if len(next) > 254 {
				out.kind = "YXDOMAIN"
				return "", true
			}
			out.chain = append(out.chain, name+" CNAME "+next)
			if typ == "CNAME" { // it was asked for, and is found
				out.kind = "NOERROR"
				return "", true
			}
			return next, false
		}
	}
	from := name
	if !ref.exists(zone, name) { // 3c: from the closest encloser (RFC 4592 3.3.1)
		encloser := zone
		for _, node := range path {
			if ref.exists(zone, node) {
				encloser = node
			}
		}
		if from = "*." + encloser; !ref.exists(zone, from) {
			out.kind = "NXDOMAIN"
			return "", true
		}
	}
	wild := ""
	if from != name {
		wild = from
	}
	if to := ref.at(zone, from, "CNAME"); len(to) > 0 && typ != "CNAME" && typ != "ANY" {
		out.chain = append(out.chain, strings.TrimSpace(name+" CNAME "+to[0]+" "+wild))
		return to[0], false
	}
	out.kind, out.wild = "NODATA", wild
	switch data := ref.at(zone, from, typ); {
	case typ == "ANY" && len(ref.at(zone, from, "")) > 0:
		out.kind, out.set = "NOERROR", name+` HINFO "RFC8482" ""`
	case len(data) > 0:
		out.kind, out.set = "NOERROR", name+" "+typ+" "+strings.Join(data, ",")
	}
	return "", true
}

// resultOf writes down what Select says.
func resultOf(a Answer) result {
	out := result{kind: a.Kind.String(), wild: a.Wild}
	if a.Zone != nil {
		out.zone = a.Zone.Name
	}
	for _, c := range a.Chain {
		out.chain = append(out.chain, strings.TrimSpace(c.Owner+" "+TypeName(c.Set.Type)+" "+c.Set.Text[0]+" "+c.Wild))
	}
	if a.Set != nil {
		out.set = a.Owner + " " + TypeName(a.Set.Type) + " " + strings.Join(a.Set.Text, ",")
	}
	if a.DS != nil {
		out.extra = "DS"
	}
	if a.Kind == Delegation {
		for _, g := range a.Additional {
			for _, text := range g.Set.Text {
				out.extra += "+" + g.Owner + "=" + text
			}
		}
	}
	return out
}

// drawName draws a name of up to four short labels over a zone, "*" as the first one
// now and then.
func drawName(rt *rapid.T, zone string, wild bool) string {
	name := zone
	for range rapid.IntRange(0, 4).Draw(rt, "labels") {
		name = rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "label") + "." + name
	}
	if wild && rapid.IntRange(0, 3).Draw(rt, "wild") == 0 {
		name = "*." + name
	}
	return name
}

// drawZones draws up to three zones, one perhaps below another, with records of all
// sorts; what contradicts something else is taken out again as CheckSpec names it.
func drawZones(rt *rapid.T) *statestore.State {
	st := testState()
	st.Members = nil
	st.Spec.Clusters = map[string]*statestore.Cluster{"eu": {IPv4: addrs("192.0.2.10")}}
	st.Spec.Services, st.Services = map[string]*statestore.Service{}, map[string]*statestore.ServiceState{}
	st.Spec.Zones = map[string]*statestore.Zone{}
	all := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"test.", "a.test.", "b.a.test.", "c.b.test.", "other."}), 1, 3, rapid.ID).Draw(rt, "zones")
	for _, zone := range all {
		z := &statestore.Zone{NS: []string{"ns.example.net."}, Records: map[string]map[string][]string{}}
		st.Spec.Zones[zone] = z
		for range rapid.IntRange(0, 10).Draw(rt, "records") {
			owner := drawName(rt, zone, true)
			typ := rapid.SampledFrom([]string{"A", "A", "TXT", "CNAME", "CNAME", "NS", "NS", "DS", "DNAME"}).Draw(rt, "type")
			data := map[string]string{"A": "192.0.2.1", "TXT": `"x"`, "DS": "1 13 2 " + strings.Repeat("00", 32)}[typ]
			if data == "" {
				data = drawName(rt, rapid.SampledFrom(append(all, "example.")).Draw(rt, "of"), false)
			}
			rel := "@"
			if owner != zone {
				rel = strings.TrimSuffix(owner, "."+zone)
			}
			if server, inside := strings.CutSuffix(data, "."+zone); typ == "NS" && inside && rapid.Bool().Draw(rt, "glue") {
				z.Records[server] = map[string][]string{"A": {"192.0.2.53"}}
			}
			if z.Records[rel] == nil {
				z.Records[rel] = map[string][]string{}
			}
			if old := z.Records[rel][typ]; !slices.Contains(old, data) && (len(old) == 0 || typ == "NS") {
				z.Records[rel][typ] = append(old, data)
			}
		}
	}
	if rapid.Bool().Draw(rt, "a service") {
		s := testService(statestore.Failover, "a", "b.c")
		s.Zone, s.Policy.Order = all[0], []string{"eu"}
		st.Spec.Services["s"] = s
		st.Services["s"] = &statestore.ServiceState{Rotation: statestore.Rotation{Number: 1, V4: statestore.Pool{Shares: []statestore.Share{share("eu", 1, "192.0.2.10")}}}}
	}
	for range 50 {
		err, ok := CheckSpec(st.Spec).(interface{ Unwrap() []error })
		if !ok || !takeOut(st.Spec, err.Unwrap()) {
			return st
		}
	}
	rt.Fatalf("records that contradict each other for ever: %v", CheckSpec(st.Spec))
	return nil
}

// takeOut removes what errors name; false: they name nothing that could be removed, as
// aliases in a circle, which are answered.
func takeOut(sp *statestore.Spec, errs []error) (some bool) {
	for _, err := range errs {
		switch err := err.(type) {
		case *RecordError:
			z := sp.Zones[err.Zone]
			if _, there := z.Records[err.Owner][err.Type]; there {
				delete(z.Records[err.Owner], err.Type)
				some = true
			}
		case interface{ Unwrap() []error }:
			some = takeOut(sp, err.Unwrap()) || some
		default:
			if strings.HasPrefix(err.Error(), "services.") && len(sp.Services) > 0 {
				clear(sp.Services)
				some = true
			}
		}
	}
	return some
}

func referenceOf(sp *statestore.Spec) reference {
	ref := reference{zones: slices.Sorted(maps.Keys(sp.Zones)), records: map[string][]rr{}}
	for zone, z := range sp.Zones {
		list := []rr{{zone, "SOA", "x"}, {zone, "NS", "ns.example.net."}}
		for owner, types := range z.Records {
			name := zone
			if owner != "@" {
				name = owner + "." + zone
			}
			for typ, data := range types {
				for _, d := range data {
					list = append(list, rr{name, typ, d})
				}
			}
		}
		for _, s := range sp.Services {
			for _, n := range s.Names {
				if full := n + "." + s.Zone; ref.zoneFor(full, "A") == zone {
					list, ref.routed = append(list, rr{full, "A", "192.0.2.10"}), append(ref.routed, full)
				}
			}
		}
		ref.records[zone] = list
	}
	return ref
}

// TestSelectIsTheReference: for drawn zones and questions, the table answers as the
// algorithm of RFC 1034 does over plain lists.
func TestSelectIsTheReference(t *testing.T) {
	kinds := map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		st := drawZones(rt)
		table, err := Compile(st)
		require.NoError(rt, err)
		ref := referenceOf(st.Spec)
		for range 20 {
			name := drawName(rt, rapid.SampledFrom(append(ref.zones, "example.")).Draw(rt, "in"), true)
			typ := rapid.SampledFrom([]string{"A", "A", "TXT", "CNAME", "NS", "DS", "DNAME", "ANY", "MX"}).Draw(rt, "asked")
			a, tr := Select(table, query(name, typ))
			got, want := resultOf(a), ref.resolve(name, typ)
			kinds[want.kind]++
			if want.kind == "NOERROR" && want.set == "" {
				got.wild = "" // of a chain that ends in the middle nothing comes from anywhere
			}
			require.Equal(rt, want, got, "%s %s over %v: %v", name, typ, ref.records, tr.Steps())
			ref.types(rt, table, name, typ, want)
		}
	})
	for _, kind := range []string{"NOERROR", "NODATA", "NXDOMAIN", "DELEGATION", "REFUSED"} {
		require.Positive(t, kinds[kind], "%s was never drawn: %v", kind, kinds)
	}
}

// types checks that what is answered from a name of its own is among its types, and what
// is not there is not.
func (ref reference) types(rt *rapid.T, table *Table, name, typ string, want result) {
	if len(want.chain) > 0 || want.wild != "" || typ == "ANY" || want.zone == "" {
		return
	}
	types, exists := table.TypesIn(want.zone, name)
	number, _ := ParseType(typ)
	switch want.kind {
	case "NOERROR", "NODATA":
		require.True(rt, exists, name)
		require.Equal(rt, want.kind == "NOERROR", slices.Contains(types, number), "%s %s: %v", name, typ, types)
		before, _ := table.NeighboursIn(want.zone, name)
		require.Equal(rt, len(types) > 0, before == name, "a name with data is its own neighbour, an empty one is not: %s", name)
	case "NXDOMAIN":
		require.False(rt, exists, name)
		before, after := table.NeighboursIn(want.zone, name)
		require.NotEqual(rt, name, before)
		require.NotEqual(rt, name, after)
	case "DELEGATION":
		cut := strings.Fields(want.set)[0]
		types, _ := table.TypesIn(want.zone, cut)
		require.True(rt, slices.Contains(types, TypeNS), fmt.Sprint(cut, types))
		require.Equal(rt, cut == name, exists, "only the cut itself is there: %s", name)
		before, _ := table.NeighboursIn(want.zone, name)
		require.Equal(rt, cut == name, before == name, "glue is nobody's neighbour: %s", name)
	}
}
