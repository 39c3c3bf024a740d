package api

import (
	"fmt"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/api/console"
	"github.com/quorate/quorate/statestore"
)

// problemNotice shows a problem to a person: everything that stands against the
// act, and what helps.
func problemNotice(title string, p *apitype.Problem) *console.Notice {
	n := &console.Notice{Kind: console.NoticeRefused, Title: title + ": " + p.Title, Text: p.Detail}
	for _, b := range p.Blockers {
		line := b.Rule + ": " + b.Reason
		if b.Waivable {
			line += " (can be waived)"
		}
		n.Lines = append(n.Lines, line)
	}
	for _, e := range p.Errors {
		if text := e.Error(); text != p.Detail {
			n.Lines = append(n.Lines, text)
		}
	}
	if len(p.Blockers) > 0 {
		n.Text = "" // it only repeats them
	}
	switch p.Name() {
	case apitype.ProblemUnknownOutcome:
		n.Kind, n.Title = console.NoticeUnknown, "It may or may not be done"
		n.Text = "No answer came in time. Look whether it shows here, or send the form once more: it is done once, however often it is sent."
	case apitype.ProblemNoQuorum:
		n.Next = "Nothing was written. Try another node, or send the form once more when the quorum is back."
	}
	if n.Next == "" && p.Next != "" {
		n.Next = "By command: " + p.Next
	}
	return n
}

// invalidNotice says what to correct.
func invalidNotice(title string, t *typed, lines []string) *console.Notice {
	n := &console.Notice{Kind: console.NoticeRefused, Title: title + ": " + count(len(t.errors)+len(lines), "thing") + " to correct"}
	for _, field := range sortedKeys(t.errors) {
		n.Lines = append(n.Lines, field+": "+t.errors[field])
	}
	n.Lines = append(n.Lines, lines...)
	return n
}

// changedNotice says what differs between what a person saw and what is.
func changedNotice(title string, f form, co *statestore.Cutover) *console.Notice {
	n := &console.Notice{
		Kind: console.NoticeChanged, Title: title, Signed: f.get("evidence"), Now: co.Digest,
		Text: "You approve what you saw, and this is not what you saw. Boxes of gates that changed are not ticked any more.",
	}
	if saw, ok := sawOf(f); ok {
		n.Changes = saw.Differences(co.Evidence)
	}
	if n.Signed == n.Now {
		n.Text, n.Signed = "The evidence is as you saw it.", ""
	}
	return n
}

// outcome says what has come of an act, from the state alone: nobody can be shown
// by a link what is not so.
func outcome(c *call, act string, view apitype.Cutover) *console.Notice {
	done := func(title, text string) *console.Notice {
		return &console.Notice{Kind: console.NoticeDone, Title: title, Text: text}
	}
	ended := func(phase statestore.CutoverPhase) bool {
		n := len(view.Steps)
		return view.Phase == string(phase) && n > 0 && view.Steps[n-1].By == c.p.User
	}
	switch act {
	case "propose":
		if view.Proposer == c.p.User {
			return done("Proposed", fmt.Sprintf("%d of %d signatures. Nothing moves until others have signed.", view.Approvals.Have, view.Approvals.Required))
		}
	case "approve":
		for _, sig := range view.Approvals.Signatures {
			if sig.User == c.p.User {
				return done("Signed", signedText(view, c.p.User))
			}
		}
	case "reject":
		if ended(statestore.Rejected) {
			return done("Rejected", endedText(view))
		}
	case "abort":
		if ended(statestore.Aborted) {
			return done("Aborted", endedText(view))
		}
	}
	return nil
}
