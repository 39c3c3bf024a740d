package config

import (
	"fmt"
	"slices"
	"strings"
)

type kind uint8

const (
	scalarKind kind = iota
	objectKind      // a mapping with known keys
	mapKind         // a mapping keyed by name
	listKind
	unionKind // a scalar, a list or a mapping, by what stands there
)

// schema declares what may stand at one place. Trees of it are made by
// specSchema and nodeSchema, once for each reading.
type schema struct {
	kind kind

	typ    string                          // for the reference: "duration"
	must   string                          // what a scalar must be: "a duration such as 10s"
	bounds string                          // for the reference: "100ms to 1h"
	tags   []string                        // YAML tags a scalar may have
	parse  func(text string) (any, string) // the value, or what it must
	values []string                        // of an enum
	later  []string                        // of an enum: known, without behaviour in this version

	fields []field // of an object, in the order of the reference
	key    *schema // of a map: what its keys must be
	elem   *schema // of a map or list
	least  int     // elements a list or map must have
	forms  []*schema

	def      string // default as YAML; "": none
	required bool
	optional bool     // an object whose absence means something: no defaults are filled in below it
	idle     bool     // known, without behaviour in this version
	noops    []string // of an idle scalar: texts that ask for what happens anyway
	private  bool     // a map or object near which people may write a secret: what is wrong in it is not shown
	noop     bool     // an idle list or map that asks for nothing when empty, an idle object when all its keys do
}

type field struct {
	name string
	doc  string
	s    *schema
}

func key(name, doc string, s *schema) field { return field{name, doc, s} }

func object(fields ...field) *schema {
	return &schema{kind: objectKind, typ: "mapping", fields: fields}
}

func mapOf(keys, elem *schema) *schema {
	return &schema{kind: mapKind, typ: "mapping by " + keys.typ, key: keys, elem: elem}
}

func listOf(elem *schema) *schema {
	return &schema{kind: listKind, typ: "list of " + elem.typ, elem: elem}
}

func union(forms ...*schema) *schema {
	names := make([]string, len(forms))
	for i, f := range forms {
		names[i] = f.typ
	}
	return &schema{kind: unionKind, typ: strings.Join(names, " or "), forms: forms}
}

func (s *schema) req() *schema             { s.required = true; return s }
func (s *schema) opt() *schema             { s.optional = true; return s }
func (s *schema) dflt(yaml string) *schema { s.def = yaml; return s }
func (s *schema) min(n int) *schema        { s.least = n; return s }

// nothing marks a key that is known and has no behaviour in this version.
func (s *schema) nothing() *schema { s.idle = true; return s }

// unless names the texts of an idle scalar that ask for what happens anyway;
// without any, the empty list, map or object does.
func (s *schema) unless(texts ...string) *schema {
	s.noops = texts
	s.noop = len(texts) == 0
	return s
}

// hide keeps what stands there out of errors and notes.
func (s *schema) hide() *schema { s.private = true; return s }

func (s *schema) field(name string) *field {
	for i := range s.fields {
		if s.fields[i].name == name {
			return &s.fields[i]
		}
	}
	return nil
}

func (s *schema) names() []string {
	names := make([]string, len(s.fields))
	for i, f := range s.fields {
		names[i] = f.name
	}
	return names
}

// form returns the alternative of a union that fits the shape of what stands there.
func (s *schema) form(n *node) *schema {
	for _, f := range s.forms {
		switch f.kind {
		case scalarKind:
			if n.shape == scalarShape {
				return f
			}
		case listKind:
			if n.shape == listShape {
				return f
			}
		default:
			if n.shape == mappingShape {
				return f
			}
		}
	}
	return nil
}

func (s *schema) wanted() string {
	switch s.kind {
	case scalarKind:
		return s.must
	case listKind:
		return "a list"
	case unionKind:
		var forms []string
		for _, f := range s.forms {
			forms = append(forms, f.wanted())
		}
		return strings.Join(forms, " or ")
	default:
		return "a mapping"
	}
}

// asksNothing reports whether n, at an idle place, asks for what happens anyway.
func (s *schema) asksNothing(n *node) bool {
	switch s.kind {
	case scalarKind:
		return n.shape == scalarShape && slices.Contains(s.noops, n.text)
	case unionKind:
		f := s.form(n)
		return f != nil && f.asksNothing(n)
	case objectKind:
		if !s.noop || n.shape != mappingShape {
			return false
		}
		for _, e := range n.keys {
			if f := s.field(e.key); f == nil || !f.s.asksNothing(e.val) {
				return false
			}
		}
		return true
	default:
		return s.noop && n.shape != scalarShape && len(n.keys)+len(n.items) == 0
	}
}

// value is what stands at a place of the schema, checked and typed. Bad parts are
// marked, so that what refers to them is not reported again.
type value struct {
	s      *schema
	path   string
	at     place
	v      any               // of a scalar
	text   string            // of a scalar, as written
	tag    string            // of a scalar that stands in a file
	fields map[string]*value // of an object or map
	keys   []string          // of a map, in the order of the files
	keyAt  map[string]place  // of an object or map, what was set
	items  []*value
	given  bool // stands in a file; else it is the default
	bad    bool // reported
}

// child returns what stands at key, its default, or nil.
func (v *value) child(key string) *value {
	if v == nil {
		return nil
	}
	return v.fields[key]
}

// set reports whether key stands in a file, good or bad.
func (v *value) set(key string) bool {
	c := v.child(key)
	return c != nil && c.given
}

// fine reports whether v is there and was not reported.
func (v *value) fine() bool { return v != nil && !v.bad }

// get returns the scalar at key, its default, or the zero value.
func get[T any](v *value, key string) T {
	if c := v.child(key); c != nil {
		if t, ok := c.v.(T); ok {
			return t
		}
	}
	var zero T
	return zero
}

// list returns the good scalars of the list at key, or nil.
func list[T any](v *value, key string) []T {
	c := v.child(key)
	if c == nil {
		return nil
	}
	var out []T
	for _, item := range c.items {
		if t, ok := item.v.(T); ok && !item.bad {
			out = append(out, t)
		}
	}
	return out
}

// nearest returns the name that got was probably meant to be, or "": one it is the
// beginning of, else the closest within about one slip in three letters.
func nearest(got string, names []string) string {
	if len(got) < 3 {
		return ""
	}
	best, dist := "", max(1, len(got)/3)+1
	for _, n := range names {
		if d := distance(got, n); d < dist {
			best, dist = n, d
		}
	}
	if best != "" {
		return best
	}
	for _, n := range names {
		if strings.HasPrefix(n, got) {
			return n
		}
	}
	return ""
}

// longestTypo bounds the quadratic work of distance.
const longestTypo = 64

// distance is the number of insertions, deletions, replacements and swaps of
// neighbours that turn a into b.
func distance(a, b string) int {
	if len(a) > longestTypo || len(b) > longestTypo {
		return longestTypo
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(a)][len(b)]
}

// suggest returns "did you mean X?" or the list of what is known.
func suggest(got string, names []string) string {
	if n := nearest(got, names); n != "" {
		return fmt.Sprintf("did you mean %s?", n)
	}
	return "known are " + strings.Join(names, ", ")
}
