package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
)

// The files that -out gets.
const (
	reportMarkdown = "dns.md"
	reportSVG      = "dns.svg"
)

// figure is a line of the table.
type figure struct {
	what, against string // against: "" for one that is no ratio
	value         spread
	unit          string // "" for a ratio
	gate, goal    float64
	most          bool   // the figure is to be at most its gate, else at least
	absent        string // why there is none

	// ceiling is what the floor itself reaches against the same peer; 0: not known. A
	// gate above it is out of everybody's reach on that machine.
	ceiling float64
}

// Verdicts of a figure.
const (
	atGoal  = "goal"
	atGate  = "gate"
	missed  = "missed"
	unknown = "absent"
)

func (f figure) verdict() string {
	good := func(limit float64) bool {
		if f.most {
			return f.value.median <= limit
		}
		return f.value.median >= limit
	}
	switch {
	case f.absent != "":
		return unknown
	case good(f.goal):
		return atGoal
	case good(f.gate):
		return atGate
	}
	return missed
}

func (f figure) name() string {
	if f.against == "" {
		return f.what
	}
	return f.what + " / " + f.against
}

func (f figure) measured() string {
	switch {
	case f.absent != "":
		return f.absent
	case f.unit != "":
		return fmt.Sprintf("%.0f %s", f.value.median, f.unit)
	case f.against == "":
		return fmt.Sprintf("%.0f", f.value.median)
	}
	text := fmt.Sprintf("%.3f [%.3f-%.3f]", f.value.median, f.value.least, f.value.most)
	if f.ceiling > 0 && f.ceiling < f.goal {
		text += fmt.Sprintf(", the floor itself %.3f", f.ceiling)
	}
	return text
}

// limit shows a gate or a goal.
func (f figure) limit(v float64) string {
	sign := ">="
	if f.most {
		sign = "<="
	}
	return strings.TrimSpace(fmt.Sprintf("%s %.4g %s", sign, v, f.unit))
}

// group is one row's servers.
type group struct {
	title   string
	servers []serverLine
}

// serverLine is a server in a row, beside the reference.
type serverLine struct {
	name      string
	ratio     spread
	qps       float64
	user, sys float64 // microseconds a query
	p50, p99  float64 // microseconds
	rss       int64
	absent    string
}

// report collects what was measured.
type report struct {
	bench   *bench
	figures []figure
	groups  []group
	notes   []string
}

func newReport(b *bench) *report { return &report{bench: b} }

func (rep *report) add(f figure) {
	rep.figures = append(rep.figures, f)
	say("%s: %s (gate %s): %s", f.name(), f.measured(), f.limit(f.gate), f.verdict())
}

// ratio adds a ratio that must reach its gate.
func (rep *report) ratio(what, against string, s spread, gate, goal float64) {
	rep.add(figure{what: what, against: against, value: s, gate: gate, goal: goal})
}

// atMost adds one that must not exceed it.
func (rep *report) atMost(what, against string, s spread, gate, goal float64) {
	rep.add(figure{what: what, against: against, value: s, gate: gate, goal: goal, most: true})
}

// versus compares two targets that were both compared with the reference.
func (rep *report) versus(r *results, what, name, other string, gate, goal float64) {
	f := figure{what: what, against: other, value: r.between(name, other, qps), gate: gate, goal: goal, absent: r.absent[other]}
	if theirs := r.against(other, qps).median; theirs > 0 {
		f.ceiling = 1 / theirs
	}
	rep.add(f)
}

// peer compares a target with the reference.
func (rep *report) peer(r *results, what, name, other string, gate, goal float64) {
	rep.ratio(what, other, r.against(name, qps), gate, goal)
}

func (rep *report) memory(what string, mib, gate, goal float64) {
	rep.add(figure{what: what, value: spread{mib, mib, mib}, unit: "MiB", gate: gate, goal: goal, most: true})
}

func (rep *report) count(what string, n, gate, goal float64) {
	rep.add(figure{what: what, value: spread{n, n, n}, gate: gate, goal: goal, most: true})
}

func (rep *report) note(format string, args ...any) {
	rep.notes = append(rep.notes, fmt.Sprintf(format, args...))
}

// servers adds what every server of a row showed.
func (rep *report) servers(title string, r *results) {
	g := group{title: title}
	for i, name := range r.order {
		bursts := r.bursts(name)
		line := serverLine{
			name: name, ratio: spread{1, 1, 1}, qps: medianOf(bursts, qps), user: medianOf(bursts, burst.user), sys: medianOf(bursts, burst.sys),
			p50: medianOf(bursts, p50), p99: medianOf(bursts, p99), rss: r.rss[name],
		}
		if i > 0 {
			line.ratio = r.against(name, qps)
		}
		g.servers = append(g.servers, line)
	}
	for _, name := range sortedKeys(r.absent) {
		g.servers = append(g.servers, serverLine{name: name, absent: r.absent[name]})
	}
	rep.groups = append(rep.groups, g)
	if r.note != "" {
		rep.notes = append(rep.notes, r.note)
	}
}

// missed names every gate that was missed, with what was measured. A figure that
// could not be had is one.
func (rep *report) missed() []string {
	var list []string
	for _, f := range rep.figures {
		if v := f.verdict(); v == missed || v == unknown {
			list = append(list, fmt.Sprintf("%s: %s, must be %s", f.name(), f.measured(), f.limit(f.gate)))
		}
	}
	return list
}

var (
	figureHead = []string{"What", "Measured", "Gate", "Goal", "Reached"}
	serverHead = []string{"Server", "Ratio", "User / sys µs a query", "p50 / p99 µs", "RSS MiB"}
)

func (f figure) cells() []string {
	return []string{f.name(), f.measured(), f.limit(f.gate), f.limit(f.goal), f.verdict()}
}

func (l serverLine) cells() []string {
	if l.absent != "" {
		return []string{l.name, l.absent, "", "", ""}
	}
	latency := ""
	if l.p50 > 0 {
		latency = fmt.Sprintf("%.1f / %.1f", l.p50, l.p99)
	}
	return []string{
		l.name, fmt.Sprintf("%.3f [%.3f-%.3f]", l.ratio.median, l.ratio.least, l.ratio.most),
		fmt.Sprintf("%.2f / %.2f", l.user, l.sys), latency, fmt.Sprintf("%.1f", float64(l.rss)/(1<<20)),
	}
}

// print shows everything on a terminal.
func (rep *report) print(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	defer func() { _ = w.Flush() }() // to a terminal; nothing could be done about it
	line := func(cells []string) { fmt.Fprintln(w, strings.Join(cells, "\t")) }
	for _, g := range rep.groups {
		line([]string{g.title})
		line(serverHead)
		for _, s := range g.servers {
			line(s.cells())
		}
		fmt.Fprintln(w)
	}
	line(figureHead)
	for _, f := range rep.figures {
		line(f.cells())
	}
	fmt.Fprintln(w)
	for _, n := range rep.conditions() {
		fmt.Fprintln(w, n)
	}
}

// conditions says under which the figures came about.
func (rep *report) conditions() []string {
	o := rep.bench.opts
	how := fmt.Sprintf("%d rounds of bursts of %s after %s; %d bursts were repeated because something disturbed them.", o.rounds, o.burst, warmUp, rep.bench.repeated)
	if o.lax {
		how += fmt.Sprintf(" %d disturbed bursts were kept, by the share of the core that the server had (-lax): these figures are a guess.", rep.bench.kept)
	}
	return append([]string{how}, rep.notes...)
}

// markdown is the report as a page.
func (rep *report) markdown() string {
	var b strings.Builder
	b.WriteString("# DNS on one core\n\n<!-- Made by `make bench-dns`. Do not edit. -->\n\n")
	b.WriteString("How it is measured and what it does not say: [benchmarks](../benchmarks.md). Ratios are medians with the least and the most.\n\n")
	fmt.Fprintf(&b, "![Ratios to the floor](%s)\n\n", reportSVG)
	table := func(head []string) func([]string) {
		row := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
		row(head)
		b.WriteString("|" + strings.Repeat("---|", len(head)) + "\n")
		return row
	}
	row := table(figureHead)
	for _, f := range rep.figures {
		row(f.cells())
	}
	for _, g := range rep.groups {
		fmt.Fprintf(&b, "\n## %s\n\n", g.title)
		row := table(serverHead)
		for _, s := range g.servers {
			row(s.cells())
		}
	}
	b.WriteString("\n## Conditions\n\n")
	for _, n := range append([]string{machine()}, rep.conditions()...) {
		fmt.Fprintf(&b, "- %s\n", n)
	}
	return b.String()
}

// write writes the page and its picture.
func (rep *report) write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, reportMarkdown), []byte(rep.markdown()), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, reportSVG), []byte(rep.svg()), 0o644)
}

// machine names the processor and the kernel.
func machine() string {
	model := "unknown processor"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if _, rest, found := strings.Cut(string(text), "model name"); found {
			line, _, _ := strings.Cut(rest, "\n")
			model = strings.Trim(line, "\t :")
		}
	}
	kernel := "unknown"
	if text, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		kernel, _, _ = strings.Cut(strings.TrimSpace(string(text)), "-")
	}
	return fmt.Sprintf("%s, Linux %s; the server on one core, the load on another, over loopback.", model, kernel)
}
