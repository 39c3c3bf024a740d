// Package console draws the pages people look at in a browser: html/template, our
// own style sheet and a small script, all embedded.
//
// Nothing is fetched from elsewhere and nothing is inline, so that the strictest
// content policy holds. Pages show what they are given and decide nothing; a
// fragment is the same template as its part of the page.
package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/api/apitype"
)

//go:embed templates static
var files embed.FS

// Console renders pages and serves their assets.
type Console struct {
	pages  *template.Template
	assets map[string]asset
}

type asset struct {
	data []byte
	kind string
	tag  string
}

// Frame is what surrounds every page.
type Frame struct {
	Title string   // of the page
	Path  string   // of the page, to come back to
	User  string   // who looks
	Users []string // to switch between, in a demo

	Status apitype.Status
	Now    time.Time
	DataAt time.Time // the page shows at least what was committed by then
}

// Pending returns how many cutovers wait for a person.
func (f Frame) Pending() int { return len(f.Deciding()) }

// Deciding returns the cutovers that wait for a person.
func (f Frame) Deciding() []apitype.CutoverSummary {
	var out []apitype.CutoverSummary
	for _, w := range f.Status.Waiting {
		if w.Phase == "proposed" {
			out = append(out, w)
		}
	}
	return out
}

// Moving returns the cutovers that are approved and not yet published.
func (f Frame) Moving() []apitype.CutoverSummary {
	var out []apitype.CutoverSummary
	for _, w := range f.Status.Waiting {
		if w.Phase != "proposed" {
			out = append(out, w)
		}
	}
	return out
}

// Overview is the first page.
type Overview struct {
	Frame
	Matrix   Matrix
	Services []ServiceRow
	Events   []apitype.Event // newest first
}

// ServiceRow is a service with what a person can do about it here.
type ServiceRow struct {
	apitype.ServiceSummary
	Held  string   // that a stateful service's active side is down, and what of it
	Move  string   // where a cutover of it is proposed; empty: not by this person, or not now
	Notes []string // those that are not shown in a way of their own

	Confirm string // where its active side is named after a recovery; empty: by somebody else, or no need
}

// Matrix is who sees which cluster how.
type Matrix struct {
	Clusters []Column
	Rows     []Row
}

// Column is a cluster: what was agreed about it, and what it answers for.
type Column struct {
	Name, Region string
	Hostname     string // that its addresses come from; empty: none
	Capacity     string // what it says that it can take, such as "40 of 100"; empty: it says nothing
	Drained      bool
	State        State  // the verdict on the cluster as a whole
	Regions      string // such as "3/3"
	Since        time.Time
	Mark         string
	Why          string   // why it is degraded
	Answers      []string // such as "web 61%"
}

// Reports reports whether any cluster says what it can take.
func (m Matrix) Reports() bool {
	return slices.ContainsFunc(m.Clusters, func(c Column) bool { return c.Capacity != "" })
}

// Row is an observer and what it sees, one cell a column.
type Row struct {
	Observer, Region string
	Note             string // silent or unconfirmed: why its votes do not count
	Cells            []Cell
}

// Cell is what one observer sees of one cluster, all its targets together.
type Cell struct {
	State  State
	Text   string // the reason, or which services
	Since  time.Time
	Detail string // every target, for a closer look
	Lone   bool   // contradicts the verdict
	Aside  bool   // does not count
}

// State is how something is shown: never by colour alone.
type State string

// The states.
const (
	Up       State = "up"
	Degraded State = "degraded" // up, but not well
	Down     State = "down"
	Unknown  State = "unknown"
)

// Shape returns a sign that tells the states apart without colour.
func (s State) Shape() string {
	switch s {
	case Up:
		return "●"
	case Degraded:
		return "◐"
	case Down:
		return "✕"
	}
	return "?"
}

// New reads the embedded files.
func New() (*Console, error) {
	c := &Console{assets: map[string]asset{}}
	pages, err := template.New("").Funcs(template.FuncMap{
		"utc":     utc,
		"clock":   func(t time.Time) string { return t.UTC().Format("15:04:05") },
		"day":     func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") },
		"age":     age,
		"unix":    func(t time.Time) int64 { return t.UnixMilli() },
		"percent": func(f float64) string { return fmt.Sprintf("%.0f%%", f) },
		"upper":   strings.ToUpper,
		"asset":   c.url,
		"side":    func(s fmt.Stringer) State { return State(s.String()) },
		"icon":    func(n int) string { return fmt.Sprintf("/ui/icon/%d", n) },
		"join":    func(s []string) string { return strings.Join(s, ", ") },
		"phase":   phaseWord,
		"sign":    phaseShape,
		"gate":    gateShape,
		"words":   words,
		"left":    left,
		"seconds": seconds,
		"fade":    fade,
		"pair":    func(a, b any) [2]any { return [2]any{a, b} },
	}).ParseFS(files, "templates/*.html")
	if err != nil {
		return nil, fmt.Errorf("read console templates: %w", err)
	}
	c.pages = pages
	return c, fs.WalkDir(files, "static", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(data)
		c.assets[path.Base(name)] = asset{data: data, kind: kinds[path.Ext(name)], tag: hex.EncodeToString(sum[:6])}
		return nil
	})
}

var kinds = map[string]string{
	".css": "text/css; charset=utf-8",
	".js":  "text/javascript; charset=utf-8",
	".svg": "image/svg+xml",
}

// url returns where an asset is, with its hash, so that a new release is not
// shown with an old script.
func (c *Console) url(name string) string { return "/ui/static/" + name + "?v=" + c.assets[name].tag }

// Overview writes the whole page.
func (c *Console) Overview(w io.Writer, o Overview) error { return c.render(w, "page", o) }

// OverviewFragment writes what changes of the page.
func (c *Console) OverviewFragment(w io.Writer, o Overview) error {
	return c.render(w, "overview", o)
}

// Login is the page of a person who is not logged in.
type Login struct {
	Wrong string // what was wrong the last time
	Back  string // path to go on to
}

// Login writes the login form.
func (c *Console) Login(w io.Writer, l Login) error { return c.render(w, "login", l) }

// Again writes a page that asks for the same path once more, from here: a browser
// that follows another site's link keeps back the cookie until then.
func (c *Console) Again(w io.Writer, path string) error { return c.render(w, "again", path) }

// maxIconCount is the highest number that is readable on an icon.
const maxIconCount = 9

// ServeIcon answers /ui/icon/N: the sign of the page with N decisions pending.
func (c *Console) ServeIcon(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.Atoi(r.PathValue("n"))
	if err != nil || n < 0 {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", kinds[".svg"])
	w.Header().Set("Cache-Control", "private, max-age=86400")
	if n == 0 {
		_, _ = w.Write(c.assets["icon.svg"].data) // a browser that went away needs nothing
		return
	}
	text := strconv.Itoa(min(n, maxIconCount))
	if n > maxIconCount {
		text += "+"
	}
	_, _ = fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><circle cx="8" cy="8" r="8" fill="#a40e1b"/><text x="8" y="12" font-family="sans-serif" font-size="11" font-weight="700" fill="#fff" text-anchor="middle">%s</text></svg>`, text)
}

// render writes a template whole or not at all.
func (c *Console) render(w io.Writer, name string, data any) error {
	var b bytes.Buffer
	if err := c.pages.ExecuteTemplate(&b, name, data); err != nil {
		return fmt.Errorf("draw %s: %w", name, err)
	}
	_, err := b.WriteTo(w)
	return err
}

// ServeAsset answers /ui/static/NAME.
func (c *Console) ServeAsset(w http.ResponseWriter, r *http.Request) {
	a, ok := c.assets[r.PathValue("name")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", a.kind)
	w.Header().Set("Cache-Control", "private, max-age=86400")
	_, _ = w.Write(a.data) // a browser that went away needs nothing
}

func utc(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// age shows how long ago something was, as short as it can be read.
func age(now, then time.Time) string {
	if then.IsZero() {
		return ""
	}
	d := max(0, now.Sub(then))
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}
