package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/config"
)

// show prints an answer as the user asked: the envelope itself as JSON or YAML, one
// item or its name a line, or what table writes for people.
func show[T any](c *cli, env apitype.Envelope[T], table func(w io.Writer, items []T)) error {
	switch c.format() {
	case "json":
		e := json.NewEncoder(c.out)
		e.SetIndent("", "  ")
		return e.Encode(env)
	case "jsonl":
		e := json.NewEncoder(c.out)
		for _, item := range env.Items {
			if err := e.Encode(item); err != nil {
				return err
			}
		}
		return nil
	case "yaml":
		return config.WriteYAML(c.out, env)
	case "name":
		return names(plain{c.out}, env.Items)
	}
	table(plain{c.out}, env.Items)
	return nil
}

// names writes what each item is called in other verbs, one a line.
func names[T any](w io.Writer, items []T) error {
	for _, item := range items {
		text, err := json.Marshal(item)
		if err != nil {
			return err
		}
		var fields map[string]any
		if err := json.Unmarshal(text, &fields); err != nil {
			return err
		}
		at := slices.IndexFunc(nameFields, func(f string) bool { return fields[f] != nil && fields[f] != "" })
		if at < 0 {
			return usageError(errors.New("these have no names: use -o json"))
		}
		fmt.Fprintln(w, fields[nameFields[at]])
	}
	return nil
}

// nameFields are the fields that name an item, whichever it has first.
var nameFields = []string{"id", "name", "target", "fingerprint", "number", "index"}

// one returns the only item of an answer.
func one[T any](env apitype.Envelope[T]) (T, error) {
	var none T
	if len(env.Items) != 1 {
		return none, fmt.Errorf("the node answered with %d items, want one", len(env.Items))
	}
	return env.Items[0], nil
}

// columns writes rows of tab-separated cells as aligned columns, headed by head.
func columns(w io.Writer, head string, rows [][]string) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, strings.ReplaceAll(head, " ", "\t"))
	for _, row := range rows {
		for i, cell := range row {
			row[i] = strings.Map(visible, cell)
		}
		fmt.Fprintln(tw, strings.Join(row, "\t"))
	}
	_ = tw.Flush() // stdout; a broken pipe ends the process
}

// visible keeps a cell on its line: other people wrote some of them, such as the
// reason of a drain, and control characters could rewrite a terminal. Those that
// turn the direction of writing would show another text than the one that is signed.
func visible(r rune) rune {
	if unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp) {
		return ' '
	}
	return r
}

// plain passes text for people on without control characters, except ends of lines
// and tabs.
type plain struct{ w io.Writer }

// Write writes b without control characters.
func (p plain) Write(b []byte) (int, error) {
	clean := bytes.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		return visible(r)
	}, b)
	if _, err := p.w.Write(clean); err != nil {
		return 0, err
	}
	return len(b), nil
}

// clock shows a time of day in UTC, or "-".
func clock(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("15:04:05Z")
}

// stamp shows a date and time in UTC, or "-".
func stamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// ago shows a duration in the unit a person would use.
func ago(d time.Duration) string {
	switch {
	case d < 0:
		return "-"
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	}
	return d.Round(time.Minute).String()
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// took says how long something took: in milliseconds where it is below a second.
func took(s float64) string {
	if d := seconds(s); d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return ago(seconds(s))
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func percent(p float64) string { return fmt.Sprintf("%.0f%%", p) }

// orEmpty makes nothing an empty list: in JSON a list is never null.
func orEmpty[T any](all []T) []T {
	if all == nil {
		return []T{}
	}
	return all
}
