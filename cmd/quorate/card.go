package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

// card writes everything that a person needs to decide a cutover.
func card(w io.Writer, co apitype.Cutover) {
	fmt.Fprintf(w, "%s  %s   %s   %s   epoch %d -> %d        %s\n", co.ID, co.Service, move(co), co.Kind, co.Epoch, co.NextEpoch, proposed(co))
	lines(w, "why", why(co))
	lines(w, "data", []string{data(co)})
	lines(w, "reach", []string{reach(co)})
	lines(w, "gates", gateLines(co))
	lines(w, "approvals", approvalLines(co))
	if len(co.Waiting) > 0 {
		lines(w, "waits for", []string{strings.Join(co.Waiting, ", ") + " to stop answering " + co.Source + " and to say so"})
	}
	if !openPhase(co.Phase) {
		lines(w, "ended", []string{ending(co)})
		return
	}
	lines(w, "to decide", toDecide(co))
	fmt.Fprintf(w, "if nothing happens: %s\n", co.IfNothing)
}

// lines writes a paragraph of the card, its name before the first line.
func lines(w io.Writer, name string, all []string) {
	for _, line := range all {
		fmt.Fprintf(w, "%-10s %s\n", name, strings.Map(visible, line))
		name = ""
	}
}

func proposed(co apitype.Cutover) string {
	text := fmt.Sprintf("proposed by %s %s", co.Proposer, clock(co.ProposedAt))
	if openPhase(co.Phase) {
		return text + ", expires " + clock(co.ExpiresAt)
	}
	return text + ", " + co.Phase + " " + clock(co.DecidedAt)
}

// why says what the proposer said, and what the regions see on both sides.
func why(co apitype.Cutover) []string {
	all := []string{orDash(co.Reason)}
	for _, t := range co.Votes {
		line := t.Target + " " + verdictText(t.Verdict)
		var against []string
		for _, v := range t.Votes {
			if v.Side != t.Verdict.Side || v.Side != health.Up {
				against = append(against, v.Observer+": "+voteText(v))
			}
		}
		if len(against) > 0 {
			line += "   (" + strings.Join(against, ", ") + ")"
		}
		all = append(all, line)
	}
	return all
}

// data says what may be lost. Lag is not read in this version, and silence about it
// would read as "none".
func data(co apitype.Cutover) string {
	text := "no lag is read: the loss cannot be estimated"
	if !co.G4Enforced {
		text += "; G4 not enforced: nothing makes sure that " + co.Source + " takes no more writes"
	}
	return text
}

func reach(co apitype.Cutover) string {
	text := fmt.Sprintf("%s (%s)", count(len(co.Reach.Names), "name"), orDash(strings.Join(co.Reach.Names, ", ")))
	if t := co.Reach.Traffic; t != nil {
		text += ", " + t.Text()
	}
	return text + fmt.Sprintf("; caches clear in <= %s (TTL %s)", seconds(math.Ceil(co.Reach.ClearsSeconds)), seconds(co.Reach.TTLSeconds))
}

func gateLines(co apitype.Cutover) []string {
	name, class := 0, 0
	for _, g := range co.Gates {
		name, class = max(name, len(g.Name)), max(class, len(classText(g.Class)))
	}
	all := make([]string, 0, len(co.Gates))
	for _, g := range co.Gates {
		line := fmt.Sprintf("%-*s  %-*s  %s", name, g.Name, class, classText(g.Class), g.Why)
		switch {
		case len(g.Waived) > 0:
			line += "   [waived by " + strings.Join(g.Waived, ", ") + stillNeeded(g) + "]"
		case g.Passed:
		case !g.Waivable:
			line += "   [cannot be waived]"
		default:
			line += "   [needs a waiver by " + people(g.Need) + "]"
		}
		all = append(all, strings.TrimRight(line, " "))
	}
	return all
}

func stillNeeded(g apitype.Gate) string {
	if g.Passed || len(g.Waived) >= g.Need {
		return ""
	}
	return fmt.Sprintf("; %d more needed", g.Need-len(g.Waived))
}

func classText(class string) string { return strings.ReplaceAll(class, "_", " ") }

func people(n int) string {
	if n == 1 {
		return "1 person"
	}
	return fmt.Sprintf("%d people", n)
}

func approvalLines(co apitype.Cutover) []string {
	ap := co.Approvals
	head := fmt.Sprintf("%d of %d", ap.Have, ap.Required)
	who := strings.Join(ap.From, ", ")
	if !ap.ProposerMayApprove {
		who = strings.TrimPrefix(who+", not the proposer", ", ")
	}
	if who != "" {
		head += "   (" + who + ")"
	}
	if ap.Voided > 0 {
		head += "   " + count(ap.Voided, "signature") + " of earlier evidence void"
	}
	all := []string{head + "      evidence " + co.Evidence}
	for _, s := range ap.Signatures {
		line := fmt.Sprintf("%s signed %s: %s", signer(s), clock(s.At), s.Reason)
		if len(s.Waivers) > 0 {
			line += "   [waived " + strings.Join(s.Waivers, ", ") + "]"
		}
		if s.BreakGlass {
			line += "   [BREAK GLASS]"
		}
		all = append(all, line)
	}
	return all
}

// signer names who signed and, where it is somebody else, whom the signature counts as.
func signer(s apitype.Signature) string {
	if s.Person != "" && s.Person != s.User {
		return s.User + " (counts as " + s.Person + ")"
	}
	return s.User
}

// toDecide lists the commands that decide a cutover, as they can be pasted.
func toDecide(co apitype.Cutover) []string {
	approve := approveLine(co, nil, "")
	abort := fmt.Sprintf(`quorate cutover abort %s --confirm %s --reason "..."`, co.ID, co.Service)
	switch phase := phaseOf(co); {
	case phase == statestore.Approved && len(co.Blockers) == 0 && co.Approvals.Have >= co.Approvals.Required:
		return []string{"everybody has signed: it begins within seconds", abort}
	case phase == statestore.Fencing && len(waiversNeeded(co)) == 0:
		return []string{abort}
	case phase == statestore.Fencing:
		return []string{approve, abort}
	}
	return []string{approve, fmt.Sprintf(`quorate reject  %s --reason "..."`, co.ID)}
}

// approveLine is the whole command that signs a cutover as it is now. The waivers
// are those given and those still needed.
func approveLine(co apitype.Cutover, given []string, reason string) string {
	line := "quorate approve " + co.ID + " --evidence " + co.Evidence
	for _, w := range allWaivers(co, given) {
		line += " --waive " + shellQuoted(w)
	}
	line += " --confirm " + co.Service
	if reason == "" {
		return line + ` --reason "..."`
	}
	return line + " --reason " + shellQuoted(reason)
}

// waiversNeeded lists what a signature must waive: every gate that is not passed and
// can be waived.
func waiversNeeded(co apitype.Cutover) []string {
	if phaseOf(co) == statestore.Fencing {
		var all []string
		if len(co.Waiting) > 0 {
			all = append(all, string(statestore.GateNodesAcknowledged)+"="+strings.Join(co.Waiting, ","))
		}
		for _, b := range co.Blockers {
			if b.Waive != "" {
				all = append(all, b.Waive)
			}
		}
		return all
	}
	var all []string
	for _, g := range co.Gates {
		if !g.Passed && g.Waivable {
			all = append(all, firstOf(g.Waive, g.Name))
		}
	}
	return all
}

// allWaivers are the waivers given and those needed beside them.
func allWaivers(co apitype.Cutover, given []string) []string {
	all := slices.Clone(given)
	for _, need := range waiversNeeded(co) {
		if !slices.ContainsFunc(given, func(g string) bool { return gateOf(g) == gateOf(need) }) {
			all = append(all, need)
		}
	}
	return all
}

// gateOf is a waiver's gate: GATE, or what stands before "=".
func gateOf(waiver string) string {
	gate, _, _ := strings.Cut(waiver, "=")
	return gate
}
