package config

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// MaxZoneFileSize bounds a master file, in bytes. What it holds counts against
// MaxSpecSize too, as the records it becomes.
const MaxZoneFileSize = 4 << 20

// ZoneFile is what a master file holds, as who reads it found.
type ZoneFile struct {
	Records []ZoneRecord
	Ignored []ZoneNote // what is derived instead
	Errors  []ZoneNote // all of them
}

// ZoneRecord is one record of a master file: of line Line, its owner relative to the
// zone, its data in presentation format with absolute names.
type ZoneRecord struct {
	Line  int
	Owner string
	Type  string
	TTL   uint32
	Data  string
}

// ZoneNote is something to say about a line of a master file.
type ZoneNote struct {
	Line int
	Text string
}

// ZoneReader reads the text of the master file of a zone. The package does not parse
// such files itself: the DNS library stays with the packages that answer.
type ZoneReader func(zone, text string) ZoneFile

// zoneFileKey is a zone_file key.
type zoneFileKey struct {
	zone  string // as the file spells it
	value *yaml.Node
}

// readZoneFiles replaces each zone_file of the texts by the records of that file, as
// one more text: what is sent, kept and shown are records. Places in them are those of
// the master file.
func readZoneFiles(texts []*text, read ZoneReader) ([]*text, *collector) {
	all := slices.Clone(texts)
	c := newCollector(texts)
	for i, t := range texts {
		for _, z := range zoneFilesOf(t) {
			at := place{t, z.value.Line, z.value.Column}
			emptied, ok := all[i].emptied(z.value)
			if !ok {
				c.errorf(at, "zones."+z.zone+".zone_file", "must be a path on the line of its key, without anchor or tag")
				continue
			}
			path, body, why := readBeside(t.dir, z.value.Value)
			if why != "" {
				c.errorf(at, "zones."+z.zone+".zone_file", "%s", why)
				continue
			}
			all[i] = emptied
			all = append(all, c.asRecords(z.zone, newText(path, body), read))
		}
	}
	return all, c
}

// zoneFilesOf returns the zone_file keys of a text that name a file. A text that is no
// YAML has none: that is reported elsewhere.
func zoneFilesOf(t *text) []zoneFileKey {
	var doc yaml.Node
	if !strings.Contains(t.body, "zone_file") || yaml.Unmarshal([]byte(t.body), &doc) != nil || len(doc.Content) == 0 {
		return nil
	}
	var found []zoneFileKey
	for zones := range under(doc.Content[0], "zones") {
		for i := 0; i+1 < len(zones.Content) && zones.Kind == yaml.MappingNode; i += 2 {
			for value := range under(zones.Content[i+1], "zone_file") {
				if value.Kind == yaml.ScalarNode && value.Value != "" && value.ShortTag() == "!!str" {
					found = append(found, zoneFileKey{zones.Content[i].Value, value})
				}
			}
		}
	}
	// From the last to the first, so that places in front of one that is replaced stay.
	slices.Reverse(found)
	return found
}

// under yields the values at a key of a mapping.
func under(m *yaml.Node, key string) func(yield func(*yaml.Node) bool) {
	return func(yield func(*yaml.Node) bool) {
		for i := 0; i+1 < len(m.Content) && m.Kind == yaml.MappingNode; i += 2 {
			if m.Content[i].Value == key && !yield(m.Content[i+1]) {
				return
			}
		}
	}
}

// readBeside reads a file in a directory or below it, symbolic links followed: who
// writes a spec may not be who may see the files, and the environment, of the host that
// plans it, and an error shows the line that is wrong.
func readBeside(dir, name string) (path, body, why string) {
	path, from := filepath.Join(dir, name), dir
	var err error
	if filepath.IsAbs(name) {
		path = name
		from, err = filepath.Abs(dir)
	}
	rel, other := filepath.Rel(from, path)
	if err = cmp.Or(err, other); err != nil || !filepath.IsLocal(rel) {
		return path, "", fmt.Sprintf("must be in the directory of the file that names it, or below, is %q", path)
	}
	body, why = readBounded(dir, rel, path)
	return path, body, why
}

func readBounded(dir, rel, path string) (body, why string) {
	unread := func(err error) (body, why string) {
		return "", fmt.Sprintf("must be a file that can be read, is %q: %s", path, readCause(err))
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return unread(err)
	}
	defer root.Close()
	st, err := root.Stat(rel)
	switch {
	case err != nil:
		return unread(err)
	case !st.Mode().IsRegular():
		return "", fmt.Sprintf("must be a file, is %q, which is none", path)
	case st.Size() > MaxZoneFileSize:
		return "", fmt.Sprintf("must be a file of at most %d bytes, %q has %d", MaxZoneFileSize, path, st.Size())
	}
	f, err := root.Open(rel)
	if err != nil {
		return unread(err)
	}
	defer f.Close()
	// It may be longer than it says: it grew meanwhile, or is made by the kernel.
	b, err := io.ReadAll(io.LimitReader(f, MaxZoneFileSize+1))
	switch {
	case err != nil:
		return unread(err)
	case len(b) > MaxZoneFileSize:
		return "", fmt.Sprintf("must be a file of at most %d bytes, %q has more", MaxZoneFileSize, path)
	}
	return string(b), ""
}

// emptied returns the text with "" in the place of a scalar, the lines that messages
// show as they were.
func (t *text) emptied(value *yaml.Node) (*text, bool) {
	lines := strings.Split(t.body, "\n")
	if value.Line < 1 || value.Line > len(lines) {
		return nil, false
	}
	line := []rune(lines[value.Line-1])
	if value.Column < 1 || value.Column > len(line) {
		return nil, false
	}
	written := value.Value
	switch value.Style {
	case yaml.SingleQuotedStyle:
		written = "'" + strings.ReplaceAll(written, "'", "''") + "'"
	case yaml.DoubleQuotedStyle:
		written = `"` + written + `"`
	}
	rest, ok := strings.CutPrefix(string(line[value.Column-1:]), written)
	if !ok {
		return nil, false
	}
	lines[value.Line-1] = string(line[:value.Column-1]) + `""` + rest
	return &text{name: t.name, body: strings.Join(lines, "\n"), lines: t.lines}, true
}

// zoneSet is the records of one type at one owner.
type zoneSet struct {
	typ  string
	ttl  uint32
	data []string
	line []int
	has  map[string]bool // data
}

// asRecords returns the text that says what a master file says, and reports what is
// wrong in it.
func (c *collector) asRecords(zone string, file *text, read ZoneReader) *text {
	if _, ok := c.order[file.name]; !ok {
		c.order[file.name] = len(c.order)
	}
	path := "zones." + zone + ".zone_file"
	f := read(zone, file.body)
	for _, e := range f.Errors {
		c.errorf(place{file, e.Line, 1}, path, "%s", e.Text)
	}
	for _, n := range f.Ignored {
		c.warnf(place{file, n.Line, 1}, path, "%s", n.Text)
	}
	var owners []string
	sets := map[string][]*zoneSet{}
	for _, r := range f.Records {
		if sets[r.Owner] == nil {
			owners = append(owners, r.Owner)
		}
		i := slices.IndexFunc(sets[r.Owner], func(s *zoneSet) bool { return s.typ == r.Type })
		if i < 0 {
			i = len(sets[r.Owner])
			sets[r.Owner] = append(sets[r.Owner], &zoneSet{typ: r.Type, ttl: r.TTL, has: map[string]bool{}})
		}
		s := sets[r.Owner][i]
		if s.ttl != r.TTL {
			s.ttl = min(s.ttl, r.TTL)
			c.warnf(place{file, r.Line, 1}, path, "records of one type have one TTL (RFC 2181 5.2): those of %s %s get the least, %ds", r.Owner, r.Type, s.ttl)
		}
		if !s.has[r.Data] { // a record is there once (RFC 2181 5)
			s.has[r.Data] = true
			s.data, s.line = append(s.data, r.Data), append(s.line, r.Line)
		}
	}
	w := recordWriter{}
	w.line(0, "# The records of %s.", file.name)
	w.line(0, "zones:")
	w.line(0, "  %s:", scalarText(zone))
	w.line(0, "    records:%s", map[bool]string{true: " {}"}[len(owners) == 0])
	for _, owner := range owners {
		w.line(sets[owner][0].line[0], "      %s:", scalarText(owner))
		for _, s := range sets[owner] {
			w.set(s)
		}
	}
	t := newText(file.name, w.b.String())
	t.origin, t.from = file, w.from
	return t
}

// recordWriter writes records as YAML, and keeps which line of the master file each
// line comes from.
type recordWriter struct {
	b    strings.Builder
	from []int
}

func (w *recordWriter) line(from int, format string, args ...any) {
	fmt.Fprintf(&w.b, format+"\n", args...)
	w.from = append(w.from, max(from, 1))
}

// set writes one record a line, so that each has its place.
func (w *recordWriter) set(s *zoneSet) {
	head := fmt.Sprintf("        %s: {ttl: %s, data: [", s.typ, short(time.Duration(s.ttl)*time.Second))
	for i, data := range s.data {
		end := ","
		if i == len(s.data)-1 {
			end = "]}"
		}
		w.line(s.line[i], "%s%s%s", head, scalarText(data), end)
		head = "          "
	}
}

// scalarText is a string as YAML reads it back: plain where nothing in it could be read
// as something else.
func scalarText(s string) string {
	plain := s != "" && s != "null" && s != "true" && s != "false" && strings.ContainsAny(s, ".-_") || len(s) > 5
	digits := 0
	for i, c := range []byte(s) {
		switch {
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' && i > 0:
		case c >= '0' && c <= '9':
			digits++
		case c == '.' && i > 0, c == '-' && i > 0:
		default:
			plain = false
		}
	}
	if plain && (digits == 0 || strings.Count(s, ".") > 1) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", "''") + "'"
}
