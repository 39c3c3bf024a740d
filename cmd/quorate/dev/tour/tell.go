package tour

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// teller writes the captions, or a line of JSON a step.
type teller struct {
	out   io.Writer
	json  bool
	title string // of the chapter
}

// told is a step as JSON.
type told struct {
	Chapter string  `json:"chapter"`
	Step    string  `json:"step"`
	OK      bool    `json:"ok"`
	Detail  string  `json:"detail,omitempty"`
	Error   string  `json:"error,omitempty"`
	Took    float64 `json:"took_seconds"`
}

// captionWidth is where captions break.
const captionWidth = 92

func (t *teller) printf(format string, args ...any) {
	if !t.json {
		fmt.Fprintf(t.out, format, args...)
	}
}

func (t *teller) heading(title, text string) { t.printf("%s: %s.\n", title, text) }

// chapter begins a part of the story.
func (t *teller) chapter(number int, title, caption string) {
	t.title = title
	t.printf("\n%d. %s\n", number, title)
	t.caption(caption)
}

// caption explains what is seen.
func (t *teller) caption(text string) {
	for _, line := range wrap(text, captionWidth) {
		t.printf("   %s\n", line)
	}
}

// command shows what a person would type.
func (t *teller) command(verb string, args ...string) {
	t.printf("   $ quorate %s %s\n", verb, strings.Join(args, " "))
}

// step tells how one step went.
func (t *teller) step(text, detail string, err error, took time.Duration) {
	if t.json {
		line := told{Chapter: t.title, Step: text, OK: err == nil, Detail: detail, Took: took.Seconds()}
		if err != nil {
			line.Error = err.Error()
		}
		_ = json.NewEncoder(t.out).Encode(line) // who reads has gone if this fails
		return
	}
	mark := "ok    "
	if err != nil {
		mark, detail = "FAILED", strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	if detail != "" {
		detail = ": " + detail
	}
	for i, line := range wrap(text+detail, captionWidth-len(mark)-2) {
		if i > 0 {
			mark = strings.Repeat(" ", len(mark))
		}
		t.printf("   %s  %s\n", mark, line)
	}
}

func (t *teller) end(took time.Duration) {
	t.printf("\nEvery step went as told, in %.0f seconds. Now you: quorate dev\n", took.Seconds())
}

// wrap breaks text into lines of at most width, at spaces.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
