package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// FieldError is one thing wrong with a file: where, which key, the rule and the value.
type FieldError struct {
	File string `json:"file"`
	Line int    `json:"line,omitempty"` // 1-based; 0: the file as a whole
	Col  int    `json:"col,omitempty"`  // 1-based, in characters
	Path string `json:"path,omitempty"` // dotted; empty: the document as a whole
	Msg  string `json:"msg"`            // "must ..., is ..."

	Source string `json:"source,omitempty"` // the line of the file, without its end
}

// Error returns "file:line:col: path: msg" on one line.
func (e FieldError) Error() string { return where(e.File, e.Line, e.Col, e.Path) + e.Msg }

// Excerpt returns the source line and a caret under the place, two lines that end
// in a newline, or "" when the error has no place.
func (e FieldError) Excerpt() string { return excerpt(e.Source, e.Line, e.Col) }

// Note is a remark about a key that stops nothing by itself.
type Note struct {
	File string `json:"file"`
	Line int    `json:"line,omitempty"`
	Col  int    `json:"col,omitempty"`
	Path string `json:"path,omitempty"`
	Msg  string `json:"msg"`

	Source string `json:"source,omitempty"`
}

// String returns "file:line:col: path: msg" on one line.
func (n Note) String() string { return where(n.File, n.Line, n.Col, n.Path) + n.Msg }

// Excerpt returns what FieldError.Excerpt does.
func (n Note) Excerpt() string { return excerpt(n.Source, n.Line, n.Col) }

// Format renders errors for people: each on a line of its own, with its excerpt.
func Format(errs []FieldError) string {
	var b strings.Builder
	for _, e := range errs {
		b.WriteString(e.Error())
		b.WriteByte('\n')
		b.WriteString(e.Excerpt())
	}
	return b.String()
}

// FormatNotes renders notes as Format renders errors.
func FormatNotes(notes []Note) string {
	var b strings.Builder
	for _, n := range notes {
		b.WriteString(n.String())
		b.WriteByte('\n')
		b.WriteString(n.Excerpt())
	}
	return b.String()
}

func where(file string, line, col int, path string) string {
	var b strings.Builder
	b.WriteString(file)
	if line > 0 {
		fmt.Fprintf(&b, ":%d:%d", line, col)
	}
	b.WriteString(": ")
	if path != "" {
		b.WriteString(path)
		b.WriteString(": ")
	}
	return b.String()
}

// excerptWidth bounds a shown line, so that a file on one line stays readable.
const excerptWidth = 120

func excerpt(source string, line, col int) string {
	if line < 1 || col < 1 || source == "" {
		return ""
	}
	runes := []rune(source)
	at := min(col-1, len(runes))
	if len(runes) > excerptWidth {
		from := max(0, min(at-excerptWidth/2, len(runes)-excerptWidth))
		runes, at = runes[from:min(from+excerptWidth, len(runes))], at-from
	}
	pad := make([]rune, at)
	for i := range pad {
		pad[i] = ' '
		if runes[i] == '\t' {
			pad[i] = '\t' // keeps the caret below its character
		}
	}
	return fmt.Sprintf("%4d | %s\n     | %s^\n", line, string(runes), string(pad))
}

// sortErrors orders by file as read, then place, path and text. The order of the
// files is that of their first appearance in order.
func sortErrors(errs []FieldError, order map[string]int) {
	slices.SortStableFunc(errs, func(a, b FieldError) int {
		return cmp.Or(
			cmp.Compare(order[a.File], order[b.File]),
			cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col),
			strings.Compare(a.Path, b.Path), strings.Compare(a.Msg, b.Msg),
		)
	})
}

func sortNotes(notes []Note, order map[string]int) {
	slices.SortStableFunc(notes, func(a, b Note) int {
		return cmp.Or(
			cmp.Compare(order[a.File], order[b.File]),
			cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col),
			strings.Compare(a.Path, b.Path), strings.Compare(a.Msg, b.Msg),
		)
	})
}

// shownLength bounds a value quoted in a message, in bytes.
const shownLength = 60

// quote shows a string value in a message.
func quote(s string) string {
	if len(s) > shownLength {
		cut := shownLength
		for cut > 0 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		return fmt.Sprintf("%q...", s[:cut])
	}
	return fmt.Sprintf("%q", s)
}
