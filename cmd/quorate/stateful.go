package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

// waitingLines says which cutovers wait for somebody, and for what.
func waitingLines(waiting []apitype.CutoverSummary, asOf time.Time) []string {
	var undecided, underWay []string
	for _, co := range waiting {
		text := fmt.Sprintf("%s %s %s -> %s", co.ID, co.Service, co.Source, co.Destination)
		look := fmt.Sprintf(" (quorate cutover show %s)", co.ID)
		switch statestore.CutoverPhase(co.Phase) {
		case statestore.Proposed:
			text += ", expires in " + max(co.ExpiresAt.Sub(asOf), 0).Round(time.Second).String()
			if co.Have > 0 {
				text += fmt.Sprintf(", %d of %d signed", co.Have, co.Required)
			}
			if co.Blocked {
				text += ", needs waivers"
			}
			undecided = append(undecided, text+look)
		case statestore.Approved:
			underWay = append(underWay, text+" is signed and about to begin"+look)
		default:
			underWay = append(underWay, fmt.Sprintf("%s is under way: %s is not answered any more%s", text, co.Source, look))
		}
	}
	switch len(undecided) {
	case 0:
	case 1:
		undecided[0] = "1 cutover needs approval: " + undecided[0]
	default:
		undecided = append([]string{fmt.Sprintf("%d cutovers need approval:", len(undecided))}, undecided...)
	}
	return append(undecided, underWay...)
}

// answersNow shows what a service answers: its active side, or the shares of its
// answers. IPv6 is named where it differs.
func answersNow(s apitype.ServiceSummary) string {
	if o := s.Stateful; o != nil {
		switch {
		case o.Moving:
			return fmt.Sprintf("withheld (was %s, epoch %d)", o.Active, o.Epoch)
		case o.Unconfirmed:
			return "what each node last knew"
		}
		return fmt.Sprintf("%s (epoch %d)", o.Active, o.Epoch)
	}
	pinned := s.Override != nil && s.Override.Note == "" // then who asks does not matter
	byClient := s.ByClient && !pinned
	v4, v6 := shares(s.V4, s.AllDownV4, byClient), shares(s.V6, s.AllDownV6, byClient)
	switch {
	case len(s.V6) == 0 || v4 == v6:
		return v4
	case len(s.V4) == 0:
		return v6
	}
	return v4 + "; IPv6: " + v6
}

// shares shows each candidate's part. Where who asks decides, there is no part that
// holds for all: in or out is what can be said.
func shares(all []apitype.Share, allDown string, byClient bool) string {
	parts := make([]string, 0, len(all))
	for _, sh := range all {
		text := sh.Cluster + " " + percent(sh.Percent)
		switch {
		case byClient && sh.Percent > 0:
			text = sh.Cluster + " by client"
		case byClient && len(sh.Endpoints) > 0: // of a failover: next in order
			text = sh.Cluster + " standby"
		case byClient:
			text = sh.Cluster + " out"
		}
		if sh.Verdict != health.Up {
			text += " (" + sh.Verdict.String() + ")"
		}
		parts = append(parts, text)
	}
	text := strings.Join(parts, "  ")
	if allDown != "" {
		text += "  ALL DOWN: " + allDown
	}
	return orDash(text)
}

// serviceNote says what is to be known of a service beside its answers. The notes
// tell of a pin and of what is degraded too.
func serviceNote(s apitype.ServiceSummary) string {
	var notes []string
	if s.Frozen && !slices.ContainsFunc(s.Notes, func(n string) bool { return strings.HasPrefix(n, "frozen by ") }) {
		notes = append(notes, "frozen")
	}
	return strings.Join(append(notes, s.Notes...), "; ")
}
