package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode"
)

// marker starts a file in the joined form of several files. It begins a YAML
// document, so the joined form is YAML too.
const marker = "--- # file: "

// text is one file as read.
type text struct {
	name  string
	body  string
	lines []string
	dir   string // that its file is in; empty: it was posted

	origin *text // what it was made from, which is where its places are; nil: itself
	from   []int // line of origin, by line
}

// at is the place of a position in the body.
func (t *text) at(line, col int) place {
	if t.origin == nil || line < 1 || line > len(t.from) {
		return place{t, line, col}
	}
	return place{t.origin, t.from[line-1], 1}
}

func newText(name, body string) *text {
	return &text{name: name, body: body, lines: strings.Split(body, "\n")}
}

// line returns the 1-based line n without its end, or "". What a terminal would act
// on is replaced, one character by one, so that columns stay.
func (t *text) line(n int) string {
	if n < 1 || n > len(t.lines) {
		return ""
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' || r >= 0x7f && r < 0xa0 {
			return unicode.ReplacementChar
		}
		return r
	}, strings.TrimSuffix(t.lines[n-1], "\r"))
}

// joinTexts returns the texts as one that splitSources takes apart again.
func joinTexts(texts []*text) string {
	if len(texts) == 1 {
		return texts[0].body
	}
	var b strings.Builder
	for _, t := range texts {
		b.WriteString(marker)
		b.WriteString(t.name)
		b.WriteByte('\n')
		b.WriteString(t.body)
		if t.body != "" && !strings.HasSuffix(t.body, "\n") {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// splitSources is the reverse of joinTexts. A body that does not start with a
// marker is one text.
func splitSources(name, body string) []*text {
	if !strings.HasPrefix(body, marker) {
		return []*text{newText(name, body)}
	}
	var texts []*text
	for _, part := range strings.Split("\n"+body, "\n"+marker)[1:] {
		file, rest, _ := strings.Cut(part, "\n")
		if rest != "" && !strings.HasSuffix(rest, "\n") {
			rest += "\n" // eaten by the split
		}
		texts = append(texts, newText(strings.TrimSuffix(file, "\r"), rest))
	}
	return texts
}

// readSources reads files, and the *.yaml files of directories, within limit bytes.
func readSources(paths []string, limit int) ([]*text, []FieldError) {
	var errs []FieldError
	var files []string
	for _, p := range paths {
		found, err := yamlFiles(p)
		if err != nil {
			errs = append(errs, FieldError{File: p, Msg: readProblem(err)})
		}
		files = append(files, found...)
	}
	if len(paths) == 0 {
		errs = append(errs, FieldError{File: "-", Msg: "must name at least one file or directory, is nothing"})
	}
	var texts []*text
	size := 0
	for _, f := range files {
		body, err := os.ReadFile(f)
		if err != nil {
			errs = append(errs, FieldError{File: f, Msg: readProblem(err)})
			continue
		}
		if size += len(body); size > limit {
			return nil, append(errs, sizeError(f, size, limit))
		}
		if len(files) == 1 {
			texts = splitSources(f, string(body))
			for _, t := range texts {
				t.dir = filepath.Dir(f) // whatever a joined file says of itself
			}
			continue
		}
		if strings.Contains("\n"+string(body), "\n"+marker) {
			errs = append(errs, FieldError{File: f, Msg: fmt.Sprintf("must not hold a line that starts with %q, is a joined file; give it alone", marker)})
			continue
		}
		t := newText(f, string(body))
		t.dir = filepath.Dir(f)
		texts = append(texts, t)
	}
	return texts, errs
}

// yamlFiles returns path, or for a directory its *.yaml files by name. Names that
// start with a dot are an editor's or Kubernetes' own.
func yamlFiles(path string) ([]string, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !st.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || filepath.Ext(e.Name()) != ".yaml" {
			continue
		}
		files = append(files, filepath.Join(path, e.Name()))
	}
	if len(files) == 0 {
		return nil, errors.New("no *.yaml in it")
	}
	return files, nil
}

func readProblem(err error) string { return "must be readable, is not: " + readCause(err) }

// readCause is why a file does not read, without its path.
func readCause(err error) string {
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}

func sizeError(name string, size, limit int) FieldError {
	return FieldError{File: name, Msg: fmt.Sprintf("must be at most %d bytes in all, is %d", limit, size)}
}
