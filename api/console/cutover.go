package console

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/quorate/quorate/api/apitype"
)

// CutoverList is the page of all cutovers.
type CutoverList struct {
	Frame
	Open, Ended []apitype.Cutover
	Older       int      // ended ones that are too many to show
	Movable     []string // services that this person may propose a cutover of
}

// CutoverPage is one cutover: what is to move, why, what stands against it, who
// has signed, and the forms of what this person may do about it.
type CutoverPage struct {
	Frame
	Cutover apitype.Cutover
	Notice  *Notice // outcome of what was just done; nil: nothing was
	Moment  string  // changes with whatever makes another decision of it
	Version string  // changes with whatever makes other forms of it

	Source      State
	Destination State

	Why    string // since when, and whether it is the whole site
	Votes  VoteTable
	Gates  []GateRow
	Stages []Stage
	Next   []string // what happens next, in order
	Undo   string

	May     string // what this person may do, or why not
	Approve *Form  // nil: not by this person, or not now
	Waive   *Form  // of what holds it up while it is under way
	Reject  *Form
	Abort   *Form
	Again   string // where a cutover back is proposed; empty: not by this person, or not now
}

// ProposePage is the form of a new cutover with what it would find.
type ProposePage struct {
	Frame
	Service  string
	Kind, To string
	Kinds    []string
	Clusters []Choice
	Notice   *Notice
	Preview  *apitype.Cutover // nil: nothing to preview; Notice says why
	Gates    []GateRow
	Propose  *Form // nil: not by this person, or not now
	May      string
}

// ConfirmPage is the form that names the active side of a service after a recovery.
type ConfirmPage struct {
	Frame
	Service    string
	Generation uint64
	Last       string   // what the recovered state holds for active
	Clusters   []Choice // empty: there is nothing to confirm; Notice says why
	Active     string   // as chosen
	Notice     *Notice
	Confirm    *Form // nil: not by this person, or not now
	May        string
}

// Choice is a cluster that a service could be answered with.
type Choice struct {
	Name, Region string
	State        State
	Active       bool
}

// VoteTable is what each observer sees of the two sides.
type VoteTable struct {
	Columns []VoteColumn
	Rows    []Row
}

// VoteColumn is one target of a side: the service there, or its cluster's front door.
type VoteColumn struct {
	Side    string // source or destination
	Title   string
	Address string
	State   State
	Regions string
	Mark    string
	Since   time.Time
}

// GateRow is a gate and what a signature can waive of it.
type GateRow struct {
	apitype.Gate
	Title string
	Ask   []Waiver // to tick; empty: nothing to waive, or not by this person
}

// Waiver is one box to tick.
type Waiver struct {
	ID, Value, Label string
	Ticked           bool
}

// Stage is one step of a cutover: past, present or still to come.
type Stage struct {
	Title string
	State StageState
	At    time.Time // zero: not yet
	By    string
	Text  string
}

// StageState is how far a stage has come.
type StageState string

// The states of a stage.
const (
	StageDone   StageState = "done"
	StageNow    StageState = "now"
	StageToCome StageState = "to come"
	StageEnded  StageState = "ended" // it ended here without a move
)

// Shape returns a sign that tells stages apart without colour.
func (s StageState) Shape() string {
	switch s {
	case StageDone:
		return "✓"
	case StageNow:
		return "▶"
	case StageEnded:
		return "■"
	}
	return "○"
}

// Form is what a form carries beside what a person types, and what they typed.
type Form struct {
	Action   string // path it is sent to
	Token    string // proves that it came from this person's page
	Request  string // request id: sent twice, it is done once
	Evidence string // what the person saw
	Seen     string // the same in parts, to say what differs
	Button   string

	Service string // as typed
	Reason  string
	Errors  map[string]string // by field
}

// Notice is the outcome of what a person did.
type Notice struct {
	Kind    NoticeKind
	Title   string
	Text    string
	Lines   []string // every blocker or error
	Signed  string   // evidence that was sent
	Now     string   // evidence as it is
	Changes []string // what differs between the two
	Next    string   // what helps: a command, or where to look
}

// NoticeKind is how an outcome is shown.
type NoticeKind string

// The kinds of a notice.
const (
	NoticeDone    NoticeKind = "done"
	NoticeRefused NoticeKind = "refused"
	NoticeChanged NoticeKind = "changed"
	NoticeUnknown NoticeKind = "unknown"
)

// Shape returns a sign that tells notices apart without colour.
func (k NoticeKind) Shape() string {
	switch k {
	case NoticeDone:
		return "✓"
	case NoticeRefused:
		return "✕"
	case NoticeChanged:
		return "≠"
	}
	return "?"
}

// Message is a page that only tells an outcome.
type Message struct {
	Frame
	Notice *Notice
}

// CutoverList writes the whole page.
func (c *Console) CutoverList(w io.Writer, l CutoverList) error {
	return c.render(w, "cutovers-page", l)
}

// CutoverListFragment writes what changes of the page.
func (c *Console) CutoverListFragment(w io.Writer, l CutoverList) error {
	return c.render(w, "cutovers", l)
}

// Cutover writes the whole page.
func (c *Console) Cutover(w io.Writer, p CutoverPage) error { return c.render(w, "cutover-page", p) }

// CutoverFragment writes what changes of the page.
func (c *Console) CutoverFragment(w io.Writer, p CutoverPage) error {
	return c.render(w, "cutover", p)
}

// Propose writes the form of a new cutover.
func (c *Console) Propose(w io.Writer, p ProposePage) error { return c.render(w, "propose-page", p) }

// Confirm writes the form that names an active side.
func (c *Console) Confirm(w io.Writer, p ConfirmPage) error { return c.render(w, "confirm-page", p) }

// Message writes a page that only tells an outcome.
func (c *Console) Message(w io.Writer, m Message) error { return c.render(w, "message-page", m) }

// phaseWords are how phases are called: a shape, then words.
var phaseWords = map[string][2]string{
	"proposed":  {"◔", "waits for signatures"},
	"approved":  {"✓", "approved, begins now"},
	"fencing":   {"▶", "under way"},
	"done":      {"●", "done"},
	"rejected":  {"✕", "rejected"},
	"expired":   {"◷", "expired"},
	"withdrawn": {"↶", "withdrawn"},
	"aborted":   {"■", "aborted"},
	"void":      {"∅", "void"},
}

// phaseShape returns a sign for a phase.
func phaseShape(phase string) string {
	if w, ok := phaseWords[phase]; ok {
		return w[0]
	}
	return "?"
}

func phaseWord(phase string) string {
	if w, ok := phaseWords[phase]; ok {
		return w[1]
	}
	return phase
}

// gateShape returns a sign that tells a gate's classes apart without colour.
func gateShape(class string) string {
	switch class {
	case "clean":
		return "●"
	case "blocked":
		return "✕"
	case "not_configured":
		return "○"
	}
	return "?"
}

// words writes a name of the API as people read it.
func words(s string) string { return strings.ReplaceAll(s, "_", " ") }

// left shows how long something still lasts.
func left(now, until time.Time) string {
	d := max(0, until.Sub(now)).Round(time.Second)
	s := d.String()
	if d >= time.Hour {
		s = strings.TrimSuffix(s, "0s")
	}
	return s
}

// seconds shows a duration that the API gives as a number.
func seconds(f float64) string {
	d := time.Duration(f * float64(time.Second))
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// fade says when how many resolvers have dropped an answer of that TTL. Those that are
// asked often have fetched theirs at any moment of it, one as likely as another.
func fade(ttl float64) string {
	if ttl <= 0 {
		return ""
	}
	return fmt.Sprintf("about half have dropped it after %s, 95%% after %s, 99%% after %s", seconds(ttl/2), seconds(0.95*ttl), seconds(0.99*ttl))
}
