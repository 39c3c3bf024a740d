package config

import (
	"errors"
	"fmt"
	"io"
	"sort"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// Bounds on a document, far above any real one. Aliases are expanded, so a small
// file could otherwise become a large tree.
const (
	maxDepth   = 64
	maxNodes   = 1 << 19
	maxAliased = 1 << 15 // of them, those that aliases add
)

// maxErrors bounds a report: a mistake inside an anchor counts at every alias.
const maxErrors = 1000

// place is where something stands.
type place struct {
	text *text
	line int
	col  int
}

// String returns "file:line:col".
func (p place) String() string { return fmt.Sprintf("%s:%d:%d", p.text.name, p.line, p.col) }

type shape uint8

const (
	scalarShape shape = iota
	mappingShape
	listShape
)

// node is a YAML value with aliases expanded; a tree of its own, so that trees
// can be merged in place.
type node struct {
	shape shape
	tag   string // short YAML tag of a scalar: !!str, !!int, !!float, !!bool, !!null, ...
	text  string
	at    place
	keys  []*entry
	items []*node
}

type entry struct {
	key string
	at  place
	val *node
}

func (n *node) entry(key string) *entry {
	for _, e := range n.keys {
		if e.key == key {
			return e
		}
	}
	return nil
}

// collector gathers everything wrong or remarkable with a set of texts.
type collector struct {
	order    map[string]int // of files
	errs     []FieldError
	unused   []Note
	warnings []Note
}

func newCollector(texts []*text) *collector {
	c := &collector{order: map[string]int{}}
	for i, t := range texts {
		if _, ok := c.order[t.name]; !ok {
			c.order[t.name] = i
		}
	}
	return c
}

func (c *collector) errorf(at place, path, format string, args ...any) {
	if len(c.errs) == maxErrors {
		return
	}
	c.errs = append(c.errs, FieldError{
		File: at.text.name, Line: at.line, Col: at.col, Path: path,
		Msg: fmt.Sprintf(format, args...), Source: at.text.line(at.line),
	})
}

// hiddenf reports what may hold a secret: the message must not show it, and the
// line of the file is left out.
func (c *collector) hiddenf(at place, path, format string, args ...any) {
	before := len(c.errs)
	c.errorf(at, path, format, args...)
	if len(c.errs) > before {
		c.errs[before].Source = ""
	}
}

func noteAt(at place, path, format string, args ...any) Note {
	return Note{
		File: at.text.name, Line: at.line, Col: at.col, Path: path,
		Msg: fmt.Sprintf(format, args...), Source: at.text.line(at.line),
	}
}

func (c *collector) unusedf(at place, path, format string, args ...any) {
	c.unused = append(c.unused, noteAt(at, path, format, args...))
}

func (c *collector) warnf(at place, path, format string, args ...any) {
	c.warnings = append(c.warnings, noteAt(at, path, format, args...))
}

// sorted puts everything in order of position. Equal errors, as two uses of one
// alias make them, are kept once.
func (c *collector) sorted() {
	sortErrors(c.errs, c.order)
	sortNotes(c.unused, c.order)
	sortNotes(c.warnings, c.order)
	c.errs = compact(c.errs)
	c.unused = compact(c.unused)
	c.warnings = compact(c.warnings)
}

func compact[T comparable](list []T) []T {
	var out []T
	for i, v := range list {
		if i == 0 || v != list[i-1] {
			out = append(out, v)
		}
	}
	return out
}

// readDocument reads all texts into one merged tree, or reports why not and
// returns nil.
func readDocument(c *collector, texts []*text) *node {
	var root *node
	for _, t := range texts {
		n := parseText(c, t)
		switch {
		case n == nil:
		case root == nil:
			root = n
		default:
			merge(c, root, n, "")
		}
	}
	return root
}

// merge puts the keys of b into a: maps deep, anything else once only.
func merge(c *collector, a, b *node, path string) {
	for _, e := range b.keys {
		p := join(path, e.key)
		have := a.entry(e.key)
		switch {
		case have == nil:
			a.keys = append(a.keys, e)
		case have.val.shape == mappingShape && e.val.shape == mappingShape:
			merge(c, have.val, e.val, p)
		default:
			c.errorf(e.val.at, p, "must be set in one file only, is also set at %s", have.val.at)
		}
	}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// parseText reads one text, which must be one mapping.
func parseText(c *collector, t *text) *node {
	before := len(c.errs)
	dec := yaml.NewDecoder(strings.NewReader(t.body))
	var doc, next yaml.Node
	start := place{t, 1, 1}
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			c.errorf(start, "", "must be a YAML mapping, is empty")
			return nil
		}
		yamlError(c, t, err)
		return nil
	}
	if err := dec.Decode(&next); err == nil {
		c.errorf(place{t, max(next.Line, 1), max(next.Column, 1)}, "", "must be one YAML document, is several")
		return nil
	} else if !errors.Is(err, io.EOF) {
		yamlError(c, t, err)
		return nil
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		c.errorf(start, "", "must be a YAML mapping, is empty")
		return nil
	}
	x := expander{c: c, text: t, active: map[*yaml.Node]bool{}}
	n := x.expand(doc.Content[0], "", 0)
	if n == nil || len(c.errs) > before && x.full {
		return nil
	}
	if n.shape != mappingShape {
		c.errorf(n.at, "", "must be a YAML mapping, is %s", n.describe())
		return nil
	}
	return n
}

// yamlError reports what the YAML library says in our form.
func yamlError(c *collector, t *text, err error) {
	msg := strings.TrimPrefix(err.Error(), "yaml: ")
	at := place{t, 1, 1}
	if rest, ok := strings.CutPrefix(msg, "line "); ok {
		if num, why, ok := strings.Cut(rest, ": "); ok {
			if n, err := strconv.Atoi(num); err == nil {
				at.line, msg = min(max(n, 1), len(t.lines)), why
			}
		}
	}
	at, msg = pinpoint(at, msg)
	c.errorf(at, "", "must be YAML, is not: %s", msg)
}

// pinpoint says more of two slips that the library tells badly: of a line that fits
// no mapping it names the line at which the mapping began, and a tab it does not name.
func pinpoint(at place, msg string) (place, string) {
	switch {
	case msg == "did not find expected key":
		// A text that ends before that line does not have this error, one that ends
		// with it or later does.
		lines := at.text.lines
		first := sort.Search(len(lines), func(i int) bool {
			err := yaml.Unmarshal([]byte(strings.Join(lines[:i+1], "\n")), new(yaml.Node))
			return err != nil && strings.HasSuffix(err.Error(), msg)
		})
		if first < len(lines) { // else it is in a second document
			at.line = first + 1
		}
		msg += ": the line starts further left or right than its neighbours, or goes on after a value"
	case strings.HasPrefix(msg, "found character that cannot start any token"):
		if line := at.text.line(at.line); strings.Contains(line[:len(line)-len(strings.TrimLeft(line, " \t"))], "\t") {
			msg = "a tab stands before the key, indent with spaces"
		}
	}
	return at, msg
}

// expander turns the library's nodes into ours.
type expander struct {
	c      *collector
	text   *text
	active map[*yaml.Node]bool // anchors being expanded
	count  int
	within int  // aliases around the current value
	added  int  // values inside aliases
	full   bool // a bound was hit and reported
}

func (x *expander) expand(y *yaml.Node, path string, depth int) *node {
	at := x.text.at(y.Line, y.Column)
	if x.full {
		return nil
	}
	x.count++
	if x.within > 0 {
		x.added++
	}
	if x.count > maxNodes || x.added > maxAliased || depth > maxDepth {
		x.full = true
		x.c.errorf(at, path, "must be at most %d values, %d more through aliases, and %d levels, is more", maxNodes, maxAliased, maxDepth)
		return nil
	}
	switch y.Kind {
	case yaml.AliasNode:
		if x.active[y.Alias] {
			x.full = true
			x.c.errorf(at, path, "must not contain itself, is an alias of a value around it")
			return nil
		}
		x.within++
		defer func() { x.within-- }()
		return x.expand(y.Alias, path, depth)
	case yaml.ScalarNode:
		return &node{shape: scalarShape, tag: y.ShortTag(), text: y.Value, at: at}
	case yaml.SequenceNode, yaml.MappingNode:
		if tag := y.ShortTag(); tag != "!!map" && tag != "!!seq" {
			x.c.errorf(at, path, "must not carry a tag, is tagged %s", tag)
		}
		if y.Anchor != "" {
			x.active[y] = true
			defer delete(x.active, y)
		}
	default:
		return nil
	}
	if y.Kind == yaml.SequenceNode {
		return x.list(y, path, depth)
	}
	return x.mapping(y, path, depth)
}

func (x *expander) list(y *yaml.Node, path string, depth int) *node {
	n := &node{shape: listShape, at: x.text.at(y.Line, y.Column)}
	for i, item := range y.Content {
		if child := x.expand(item, fmt.Sprintf("%s[%d]", path, i), depth+1); child != nil {
			n.items = append(n.items, child)
		}
	}
	return n
}

func (x *expander) mapping(y *yaml.Node, path string, depth int) *node {
	n := &node{shape: mappingShape, at: x.text.at(y.Line, y.Column)}
	seen := map[string]*entry{}
	for i := 0; i+1 < len(y.Content); i += 2 {
		keyAt := x.text.at(y.Content[i].Line, y.Content[i].Column)
		key, fault := plainKey(y.Content[i])
		if fault != "" {
			x.c.errorf(keyAt, path, "%s", fault)
			continue
		}
		p := join(path, key)
		if old := seen[key]; old != nil {
			x.c.errorf(keyAt, p, "must be set once, is also set at %d:%d", old.at.line, old.at.col)
			continue
		}
		child := x.expand(y.Content[i+1], p, depth+1)
		if child == nil {
			continue
		}
		if v := y.Content[i+1]; v.Style&yaml.FlowStyle == 0 && (v.Kind == yaml.MappingNode || v.Kind == yaml.SequenceNode) {
			child.at = keyAt // a block has no mark of its own; its key says more than its first line
		}
		e := &entry{key: key, at: keyAt, val: child}
		seen[key] = e
		n.keys = append(n.keys, e)
	}
	return n
}

// plainKey returns a key's name, or what is wrong with it.
func plainKey(k *yaml.Node) (name, fault string) {
	if k.Kind == yaml.AliasNode && k.Alias != nil {
		k = k.Alias
	}
	switch {
	case k.Kind != yaml.ScalarNode:
		return "", "must have plain names as keys, is a key that is a list or mapping"
	case k.ShortTag() == "!!merge":
		return "", "must not use merge keys, is <<; alias a whole value instead"
	case k.ShortTag() == "!!null":
		return "", "must have names as keys, is an empty key"
	}
	return k.Value, ""
}

// describe says in words what a value is, for messages.
func (n *node) describe() string {
	switch {
	case n.shape == mappingShape:
		return "a mapping"
	case n.shape == listShape:
		return "a list"
	case n.tag == "!!null":
		return "empty"
	case n.tag == "!!str":
		return quote(n.text)
	case n.tag == "!!bool":
		return "the boolean " + n.text
	case n.tag == "!!int", n.tag == "!!float":
		return "the number " + n.text
	default:
		return fmt.Sprintf("%s of type %s", quote(n.text), n.tag)
	}
}
