package config

import (
	"fmt"
	"strings"
	"testing"
)

// The reference is made from the schema: run with -update after a change of it.
func TestReferenceIsOfThisSchema(t *testing.T) {
	var b strings.Builder
	b.WriteString(`# Configuration reference

<!-- Made from the schema by ` + "`go test ./config -run Reference -update`" + `. Do not edit. -->

spec.yaml is what all nodes agree on; it goes through ` + "`quorate plan` and `quorate apply`" + `. node.yaml belongs to one
process. ` + "`quorate check-config FILE...`" + ` reports every error of either with file, line and column.

- Unknown and duplicate keys are errors. A key without behaviour in this version is noted by ` + "`check-config`" + `; ` + "`plan`" + `
  refuses it by name, and so does ` + "`quorate server`" + ` for node.yaml.
- A directory of *.yaml files is merged: maps deep, lists never; the same scalar in two files is an error.
- Durations are written 10s, 1m30s, 7d; sizes 512MiB; parts of a whole as numbers from 0 to 1. Names are DNS labels.
- NAME stands for a name you choose, [] for an element of a list.
`)
	for _, part := range []struct {
		file string
		s    *schema
	}{{"spec.yaml", specSchema()}, {"node.yaml", nodeSchema()}} {
		fmt.Fprintf(&b, "\n## %s\n\n| Key | Type | Default | What it is | Behaviour |\n|---|---|---|---|---|\n", part.file)
		rows(&b, part.s, "", false)
	}
	golden(t, "../docs/reference/config.md", b.String())
}

// rows writes a row for every key below s. Below a key without behaviour all keys
// are, which one row says.
func rows(b *strings.Builder, s *schema, path string, idle bool) {
	switch s.kind {
	case objectKind:
		for _, f := range s.fields {
			p := join(path, f.name)
			row(b, f, p, idle || f.s.idle)
			rows(b, f.s, p, idle || f.s.idle)
		}
	case mapKind:
		rows(b, s.elem, path+".NAME", idle)
	case listKind:
		rows(b, s.elem, path+"[]", idle)
	case unionKind:
		for _, f := range s.forms {
			rows(b, f, path, idle)
		}
	}
}

func row(b *strings.Builder, f field, path string, idle bool) {
	typ := f.s.typ
	if f.s.bounds != "" {
		typ += ", " + f.s.bounds
	}
	def := ""
	switch {
	case f.s.required:
		def = "required"
	case f.s.def != "" && f.s.kind == listKind:
		def = "`[" + f.s.def + "]`"
	case f.s.def != "":
		def = "`" + f.s.def + "`"
	}
	behaviour := "yes"
	switch {
	case idle:
		behaviour = "not in this version"
	case len(f.s.later) > 0:
		behaviour = "yes; " + strings.Join(f.s.later, ", ") + " not in this version"
	}
	cell := strings.NewReplacer("|", "\\|", "\n", " ", "*", "\\*")
	fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s |\n", path, cell.Replace(typ), def, cell.Replace(f.doc), behaviour)
}
