package config

import (
	"fmt"
	"slices"
	"strings"
)

// walker checks a document against a schema.
type walker struct {
	c       *collector
	private bool // what stands here is not shown
}

// walk returns what stands at n, which may be marked bad, reporting everything
// wrong in it. Inside an idle place nothing more is noted.
func (w walker) walk(s *schema, n *node, path string, idle bool) *value {
	w.private = w.private || s.private
	if s.kind == unionKind {
		f := s.form(n)
		if f == nil {
			return w.wrong(s, n, path)
		}
		return w.walk(f, n, path, idle)
	}
	v := &value{s: s, path: path, at: n.at, text: n.text, tag: n.tag, given: true}
	switch s.kind {
	case scalarKind:
		return w.scalar(v, n, idle)
	case listKind:
		if n.shape != listShape {
			return w.wrong(s, n, path)
		}
		for i, item := range n.items {
			v.items = append(v.items, w.walk(s.elem, item, fmt.Sprintf("%s[%d]", path, i), idle))
		}
		if len(v.items) < s.least {
			w.c.errorf(n.at, path, "must have at least %s, has %d", entries(s.least), len(n.items))
			v.bad = true
		}
	case objectKind, mapKind:
		if n.shape != mappingShape {
			return w.wrong(s, n, path)
		}
		v.fields = map[string]*value{}
		v.keyAt = map[string]place{}
		if s.kind == objectKind {
			w.object(v, n, idle)
		} else {
			w.mapping(v, n, idle)
		}
	}
	return v
}

// shown is what a message says that stands there.
func (w walker) shown(text string) string {
	if w.private {
		return "something else"
	}
	return text
}

func (w walker) wrong(s *schema, n *node, path string) *value {
	hint := ""
	if s.kind == listKind && n.shape == scalarShape && n.tag != "!!null" {
		hint = "; put it in [ ]"
	}
	w.c.errorf(n.at, path, "must be %s, is %s%s", s.wanted(), w.shown(n.describe()), hint)
	return &value{s: s, path: path, at: n.at, given: true, bad: true}
}

func (w walker) scalar(v *value, n *node, idle bool) *value {
	s := v.s
	if n.shape != scalarShape {
		return w.wrong(s, n, v.path)
	}
	if !slices.Contains(s.tags, n.tag) {
		hint := ""
		if slices.Contains(s.tags, "!!str") && n.tag != "!!null" && len(s.tags) == 1 && s.typ == "string" {
			hint = "; put it in quotes"
		}
		w.c.errorf(n.at, v.path, "must be %s, is %s%s", s.must, w.shown(n.describe()), hint)
		v.bad = true
		return v
	}
	var must string
	if v.v, must = s.parse(n.text); must != "" {
		shown := n.text
		if n.tag == "!!str" && (s.bounds == "" || strings.HasPrefix(must, "be "+s.must)) {
			shown = quote(n.text)
		}
		w.c.errorf(n.at, v.path, "must %s, is %s", must, w.shown(shown))
		v.bad = true
		return v
	}
	if !idle && slices.Contains(s.later, n.text) {
		w.c.unusedf(n.at, v.path, "%s has no behaviour in this version", n.text)
	}
	return v
}

func (w walker) object(v *value, n *node, idle bool) {
	for _, e := range n.keys {
		path := join(v.path, e.key)
		f := v.s.field(e.key)
		if f == nil {
			w.c.errorf(e.at, path, "unknown key, %s", suggest(e.key, v.s.names()))
			continue
		}
		v.keyAt[e.key] = e.at
		child := w.walk(f.s, e.val, path, idle || f.s.idle)
		v.fields[e.key] = child
		if f.s.idle && !idle && !child.bad && !f.s.asksNothing(e.val) {
			w.c.unusedf(e.at, path, "has no behaviour in this version")
		}
	}
	for _, f := range v.s.fields {
		if v.fields[f.name] != nil {
			continue
		}
		path := join(v.path, f.name)
		if f.s.required {
			w.c.errorf(v.at, path, "must be set, is missing")
			v.fields[f.name] = &value{s: f.s, path: path, at: v.at, bad: true}
			continue
		}
		if d := absent(f.s, path, v.at); d != nil {
			v.fields[f.name] = d
		}
	}
}

func (w walker) mapping(v *value, n *node, idle bool) {
	for _, e := range n.keys {
		path := join(v.path, e.key)
		name := e.key
		if parsed, must := v.s.key.parse(e.key); must != "" {
			w.c.errorf(e.at, path, "must %s, is %s", must, quote(e.key))
			continue
		} else if p, ok := parsed.(string); ok {
			name = p
		}
		if old, ok := v.keyAt[name]; ok {
			w.c.errorf(e.at, path, "must be set once, is the same name as at %s", old)
			continue
		}
		v.keyAt[name] = e.at
		v.keys = append(v.keys, name)
		v.fields[name] = w.walk(v.s.elem, e.val, path, idle)
	}
	if len(n.keys) < v.s.least {
		w.c.errorf(n.at, v.path, "must have at least %s, has none", entries(v.s.least))
		v.bad = true
	}
}

func entries(n int) string {
	if n == 1 {
		return "one entry"
	}
	return fmt.Sprintf("%d entries", n)
}

// absent returns what stands for a key that is not set: its default, or an object
// of defaults, or nil.
func absent(s *schema, path string, at place) *value {
	v := &value{s: s, path: path, at: at}
	switch {
	case s.idle:
		return nil
	case s.def != "" && s.kind == scalarKind:
		v.text = s.def
		v.v, _ = s.parse(s.def)
		return v
	case s.def != "" && s.kind == listKind:
		for _, item := range strings.Split(s.def, ", ") {
			parsed, _ := s.elem.parse(item)
			v.items = append(v.items, &value{s: s.elem, path: path, at: at, text: item, v: parsed})
		}
		return v
	case s.kind == unionKind:
		// The default stands in the first form that is a scalar with one, or in
		// the object form.
		for _, f := range s.forms {
			if s.def != "" && f.kind == scalarKind {
				v.s, v.text = f, s.def
				v.v, _ = f.parse(s.def)
				return v
			}
			if d := absent(f, path, at); d != nil {
				return d
			}
		}
		return nil
	case s.kind != objectKind || s.optional:
		return nil
	}
	v.fields = map[string]*value{}
	for _, f := range s.fields {
		if d := absent(f.s, join(path, f.name), at); d != nil {
			v.fields[f.name] = d
		}
	}
	return v
}
