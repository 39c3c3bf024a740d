package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

// specBase has every object in which keys cannot stand alone.
const specBase = `
version: 1
zones:
  gslb.example.com: { soa: {}, records: { old: { TXT: [y] } }, dnssec: { mode: on, ksk: { secret: k }, zsk: { secret: z } } }
  other.example.com: {}
clusters:
  eu: { region: eu-west, labels: { env: prod }, ipv4: [192.0.2.10, 192.0.2.11], capacity: 10, check: { http: {} } }
  us: { region: us-east, labels: { env: prod }, ipv4: [198.51.100.10, 198.51.100.11], capacity: 20, check: { http: {} } }
checks:
  one: { http: {} }
  two: { http: {} }
services:
  web: { zone: gslb.example.com, policy: { type: weighted }, checks: { all: [one] } }
  ordered: { zone: gslb.example.com, policy: { type: failover, order: [eu, us] } }
  weighed: { zone: gslb.example.com, policy: { type: weighted, weights: { eu: 1, us: 1 } } }
  inline: { zone: gslb.example.com, policy: { type: weighted }, check: { http: {} } }
  kept: { zone: gslb.example.com, policy: { type: failover, order: [eu, us] }, stateful: { preferred: eu, approval: x } }
approvals: { x: { required: 3 }, two: { required: 2, remind: [1s] } }
access: { roles: { sre: { can: [read], tokens: [x] }, approver: { can: [approve] }, two: { can: [approve] } } }
notify:
  receivers: { bus: { webhook: { url: "https://events.example.net/in" } }, two: { webhook: { url: "https://two.example.net/in" } }, eu: { slack: {} } }
  routes: [{ to: [bus] }]
`

const nodeBase = `
node: { name: eu-1, region: eu-west }
dns: { rate_limit: { responses_per_second: 100 } }
api: { tls: { cert: a, key: b } }
peer: { advertise: "eu-1.example.com:7654", tls: { ca: a, cert: b, key: c } }
`

// specHosts says where in the base a key is set; the longest prefix wins.
var specHosts = map[string]string{
	"services.*":                  "services.web",
	"services.*.policy.order":     "services.ordered.policy.order",
	"services.*.policy.weights":   "services.weighed.policy.weights",
	"services.*.policy.spillover": "services.ordered.policy.spillover",
	"services.*.check":            "services.inline.check",
	"services.*.stateful":         "services.kept.stateful",
	"approvals.*":                 "approvals.x",
	"notify.receivers.*":          "notify.receivers.bus",
	"clusters.*":                  "clusters.eu",
	"checks.*":                    "checks.one",
	"zones.*":                     "zones.gslb.example.com",
	"access.roles.*":              "access.roles.sre",
}

// specNeeds is what must stand where a key is set, for the key to be right.
var specNeeds = map[string]string{
	"clusters.eu.capacity_from.http":       `{ json: "$.left" }`,
	"clusters.eu.capacity_from.prometheus": `{ url: "http://metrics.example.net/", metric: up }`,
	"services.web.srv":                     "{ port: 1 }",
	"dns.cookies":                          "{ secret: one }",
	"services.web.policy.map":              "{ us-east: [GB] }",
	"*.tcp":                                "{ port: 1 }",
	"*.dns":                                "{ name: a.example.com }",
	"*.grpc":                               "{}",
	"*.https":                              "{}",
	"*.tls":                                "{}",
	"*.icmp":                               "{}",
}

// candidates are values to try, as YAML.
var candidates = []string{
	"true", "false", "2", "3", "7", "40", "0.5", "0.25", "7s", "700ms", "400ms", "90s", "2m", "3h", "20d", "4x", "1s",
	"eu", "us", "web", "two", "x", "env", "other.example.com", "192.0.2.77", "2001:db8::77", "10.9.0.0/16", "192.0.2.77:53",
	"https://x.example.com/", "/x", "o+k", "env=prod", "64MiB", "16KiB", "500", "1400", "majority", "all", "US", "TXT", "NXDOMAIN", "$.x", "failover",
}

type leaf struct {
	pattern []string // "*" for a name
	s       *schema
}

// leaves lists every place of the schema that holds a scalar or list of scalars.
func leaves(s *schema, pattern []string) []leaf {
	var out []leaf
	switch s.kind {
	case objectKind:
		for _, f := range s.fields {
			out = append(out, leaves(f.s, append(slices.Clone(pattern), f.name))...)
		}
	case mapKind:
		out = leaves(s.elem, append(slices.Clone(pattern), "*"))
	case listKind:
		if s.elem.kind == objectKind {
			return leaves(s.elem, append(slices.Clone(pattern), "[]"))
		}
		out = []leaf{{pattern, s}}
	case unionKind:
		for _, f := range s.forms {
			out = append(out, leaves(f, pattern)...)
		}
	default:
		out = []leaf{{pattern, s}}
	}
	return out
}

// only reports whether a scalar has one possible value, which then is what happens.
func only(s *schema) bool {
	return len(s.values) == 1 || s.bounds == "1 to 1"
}

// samples returns values that the place takes.
func samples(s *schema) []any {
	var out []any
	if s.kind == listKind {
		for _, e := range samples(s.elem) {
			out = append(out, []any{e})
		}
		return append(out, []any{"us", "eu"}, []any{53.5, -6.5})
	}
	for _, text := range slices.Concat(s.values, candidates) {
		var n yaml.Node
		if yaml.Unmarshal([]byte(text), &n) != nil || len(n.Content) != 1 || !slices.Contains(s.tags, n.Content[0].ShortTag()) {
			continue
		}
		if _, must := s.parse(text); must != "" || text == s.def || slices.Contains(s.noops, text) {
			continue
		}
		var v any
		if n.Content[0].Decode(&v) == nil {
			out = append(out, v)
		}
	}
	return out
}

// concrete turns a pattern into a path into the base.
func concrete(root *schema, pattern []string, hosts map[string]string) []string {
	var host []string
	best := 0
	for from, to := range hosts {
		f := strings.Split(from, ".")
		if len(f) > best && len(f) <= len(pattern) && slices.Equal(f, pattern[:len(f)]) {
			best = len(f)
			host = strings.Split(to, ".")
			if strings.HasPrefix(to, "zones.") {
				host = []string{"zones", "gslb.example.com"}
			}
		}
	}
	path := slices.Clone(host)
	s := root
	for i, p := range pattern {
		if s.kind == unionKind {
			for _, f := range s.forms {
				if f.kind == objectKind || f.kind == mapKind {
					s = f
					break
				}
			}
		}
		name := p
		switch s.kind {
		case objectKind:
			s = s.field(p).s
		case mapKind:
			if i > 0 && pattern[i-1] == "map" {
				name, s = "eu-west", s.elem
				break
			}
			for _, c := range []string{"eu", "US", "x", "TXT", "x.example.com", "$.x"} {
				if _, must := s.key.parse(c); must == "" {
					name = c
					break
				}
			}
			s = s.elem
		case listKind:
			s = s.elem
		}
		if i >= best {
			path = append(path, name)
		}
	}
	return path
}

// put sets the value at path in tree, making mappings on the way.
func put(tree map[string]any, path []string, v any) {
	for len(path) > 1 {
		next, ok := tree[path[0]].(map[string]any)
		if !ok {
			next = map[string]any{}
			if path[1] == "[]" {
				inner := map[string]any{}
				if have, ok := tree[path[0]].([]any); ok && len(have) > 0 {
					inner, _ = have[0].(map[string]any)
				}
				tree[path[0]] = []any{inner}
				tree, path = inner, path[2:]
				continue
			}
			tree[path[0]] = next
		}
		tree, path = next, path[1:]
	}
	tree[path[0]] = v
}

// outcome is what a document comes to: what it carries, what is noted, or errors.
type outcome struct {
	carried string
	noted   []string
	errs    string
}

func walkKeys(t *testing.T, root *schema, base string, hosts map[string]string, read func(string) outcome) {
	require.Empty(t, read(base).errs)
	all := leaves(root, nil)
	require.Greater(t, len(all), 40)
	for _, l := range all {
		name := strings.Join(l.pattern, ".")
		if l.s.kind == scalarKind && only(l.s) {
			continue
		}
		t.Run(name+"/"+l.s.typ, func(t *testing.T) {
			path := concrete(root, l.pattern, hosts)
			var tried []string
			tree := map[string]any{}
			require.NoError(t, yaml.Unmarshal([]byte(base), &tree))
			adapt(tree, path)
			doc, err := yaml.Marshal(tree)
			require.NoError(t, err)
			before := read(string(doc)) // what stands around the key without it
			for _, v := range samples(l.s) {
				tree := map[string]any{}
				require.NoError(t, yaml.Unmarshal([]byte(base), &tree))
				adapt(tree, path)
				put(tree, path, v)
				doc, err := yaml.Marshal(tree)
				require.NoError(t, err)
				after := read(string(doc))
				if after.errs != "" {
					tried = append(tried, fmt.Sprintf("%v: %s", v, after.errs))
					continue
				}
				if after.carried != before.carried && !idlePattern(root, l.pattern) {
					return
				}
				full := strings.Join(path, ".")
				for _, n := range after.noted {
					if !slices.Contains(before.noted, n) && (n == full || strings.HasPrefix(strings.ReplaceAll(full, ".[]", "[0]"), n)) {
						return
					}
				}
				tried = append(tried, fmt.Sprintf("%v: accepted, neither carried nor noted", v))
			}
			t.Errorf("%s is dropped in silence; tried\n%s", strings.Join(path, "."), strings.Join(tried, "\n"))
		})
	}
}

// idlePattern reports whether a key on the way is without behaviour: then a note
// is the only right outcome.
func idlePattern(s *schema, pattern []string) bool {
	for _, p := range pattern {
		if s.kind == unionKind {
			for _, f := range s.forms {
				if f.kind == objectKind || f.kind == mapKind {
					s = f
					break
				}
			}
		}
		switch s.kind {
		case objectKind:
			s = s.field(p).s
		default:
			s = s.elem
		}
		if s.idle {
			return true
		}
	}
	return false
}

// adapt removes what may not stand next to the key at path.
func adapt(tree map[string]any, path []string) {
	if slices.Contains(path, "map") {
		put(tree, []string{"services", "web", "policy", "type"}, "geo")
	}
	at := func(path ...string) map[string]any {
		m := tree
		for _, p := range path {
			m, _ = m[p].(map[string]any)
		}
		return m
	}
	if len(path) > 3 && path[0] == "notify" && path[1] == "receivers" && path[3] != "webhook" {
		delete(at("notify", "receivers", path[2]), "webhook")
	}
	var check map[string]any
	var rest []string
	switch {
	case len(path) > 3 && path[0] == "services" && path[2] == "check":
		check, rest = at("services", path[1], "check"), path[3:]
	case len(path) > 3 && path[0] == "clusters" && path[2] == "check":
		check, rest = at("clusters", path[1], "check"), path[3:]
	case len(path) > 2 && path[0] == "checks":
		check, rest = at("checks", path[1]), path[2:]
	}
	if check != nil && slices.Contains(checkKinds, rest[0]) && rest[0] != "http" {
		delete(check, "http")
		check[rest[0]] = parsed(specNeeds["*."+rest[0]])
	}
	for place, needed := range specNeeds {
		p := strings.Split(place, ".")
		if len(path) > len(p) && slices.Equal(path[:len(p)], p) {
			put(tree, p, parsed(needed))
		}
	}
	if path[0] == "zones" && path[len(path)-1] == "ttl" {
		put(tree, append(slices.Clone(path[:len(path)-1]), "data"), []any{"y"})
	}
	if path[len(path)-1] == "hostname" {
		delete(at("clusters", "eu"), "ipv4")
	}
}

func parsed(text string) any {
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		panic(err)
	}
	return v
}

func TestEverySpecKeyIsCarriedOrNoted(t *testing.T) {
	walkKeys(t, specSchema(), specBase, specHosts, func(doc string) outcome {
		r, errs := ParseSpec("spec.yaml", []byte(doc))
		if len(errs) == 1 && strings.HasSuffix(errs[0].Path, ".zone_file") {
			return outcome{noted: []string{errs[0].Path}} // only who reads a file beside it knows what it says
		}
		if len(errs) > 0 {
			return outcome{errs: Format(errs)}
		}
		return outcome{carried: asJSON(t, r.Spec), noted: paths(r.Unused)}
	})
}

func TestEveryNodeKeyIsCarriedOrNoted(t *testing.T) {
	walkKeys(t, nodeSchema(), nodeBase, nil, func(doc string) outcome {
		n, errs, _ := ParseNode("node.yaml", []byte(doc))
		if len(errs) > 0 {
			return outcome{errs: Format(errs)}
		}
		noted := paths(n.Unused)
		n.Unused = nil
		return outcome{carried: asJSON(t, n), noted: noted}
	})
}

// A key is found wherever it stands: unknown keys are refused in every object.
func TestEveryObjectRefusesAnUnknownKey(t *testing.T) {
	for _, l := range leaves(specSchema(), nil) {
		if len(l.pattern) < 2 || l.pattern[len(l.pattern)-1] == "*" {
			continue
		}
		path := concrete(specSchema(), l.pattern, specHosts)
		path[len(path)-1] = "no-such-key"
		tree := map[string]any{}
		require.NoError(t, yaml.Unmarshal([]byte(specBase), &tree))
		adapt(tree, path)
		put(tree, path, 1)
		doc, err := yaml.Marshal(tree)
		require.NoError(t, err)
		r, errs := ParseSpec("spec.yaml", doc)
		require.Nil(t, r, "%v", path)
		require.Contains(t, Format(errs), "no-such-key", "%v", path)
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.MarshalIndent(v, "", "  ")
	require.NoError(t, err)
	return string(b) + "\n"
}

func paths(notes []Note) []string {
	set := map[string]bool{}
	for _, n := range notes {
		set[n.Path] = true
	}
	return slices.Sorted(maps.Keys(set))
}
