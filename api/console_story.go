package api

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/api/console"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

// Everything in this file says in words what a cutover's page shows.

const noQuorumText = "This node hears no quorum: nothing can be decided here. Try another node."

// may is what a person may do about a cutover, and how that is said.
type may struct {
	sign, waive, reject, abort bool
	text                       string

	breakGlass bool
}

// may returns what the person can do now. Apply has the last word, and puts what
// it refuses on record.
func (s *Server) may(c *call, co *statestore.Cutover, view apitype.Cutover) may {
	if !co.Phase.Open() {
		return may{}
	}
	m := may{}
	glass, err := c.st.MaySign(c.p, co.Service)
	m.breakGlass = glass
	signer := err == nil
	decider := c.st.Can(c.p, statestore.CanApprove, co.Service)
	waiver := c.st.Can(c.p, statestore.CanWaive, co.Service)
	if c.stale {
		m.text = noQuorumText
		return m
	}
	if co.Phase == statestore.Fencing {
		m.abort = decider
		m.waive = signer && waiver && (len(view.Waiting) > 0 || len(view.Blockers) > 0)
		return m
	}
	m.reject = decider
	expired := !s.now(c.st).Before(co.Expires)
	own := c.st.Proposed(co, c.p) && !view.Approvals.ProposerMayApprove
	signed := c.st.Signed(co, c.p)
	switch {
	case !decider && !signer:
		m.text = c.p.User + " may look, and neither sign nor reject: that takes a role with the capability to approve."
	case expired:
		m.text = "Its time is over: nobody can sign it any more."
	case !signer:
		m.text = c.p.User + " may not sign: that takes one of the roles " + strings.Join(view.Approvals.From, ", ") + "."
	case own:
		m.text = c.p.User + " proposed it, so another person has to sign."
	case signed != nil && !c.st.Count(co).Approved():
		m.text = "You have signed at " + clock(signed.At) + ". Another person has to be next."
	case begins(view):
		m.text = "Everybody has signed; it begins at once."
	default:
		m.sign, m.waive = true, waiver
		if glass {
			m.text = "Your signature is break-glass: everybody is told."
		}
		if stuck := cannotWaive(view, m); len(stuck) > 0 {
			m.text = strings.TrimSpace(m.text + " You may not waive " + strings.Join(stuck, ", ") + ": whoever may has to sign.")
		}
	}
	return m
}

// cannotWaive are the gates that need a waiver which this person cannot give.
func cannotWaive(view apitype.Cutover, m may) []string {
	var out []string
	for _, g := range view.Gates {
		if !g.Passed && !mayWaive(g, m) {
			out = append(out, g.Name)
		}
	}
	return out
}

func mayWaive(g apitype.Gate, m may) bool {
	return m.waive && g.Waivable && (m.breakGlass || g.Name != string(statestore.GateSourceDown))
}

// gateTitles are what gates ask, in words.
var gateTitles = map[statestore.Gate]string{
	statestore.GateSourceDown:        "Source is down",
	statestore.GateDestination:       "Destination is well",
	statestore.GateLag:               "Replication lag is within its limit",
	statestore.GateFenced:            "Source is fenced",
	statestore.GateNodesAcknowledged: "Every node can acknowledge",
	statestore.GateResync:            "Destination has caught up again",
	statestore.GateNoOther:           "No other cutover",
	statestore.GateNotFrozen:         "Not frozen",
	statestore.GateCooldown:          "Cool-down is over",
}

// waiverTexts are what a person takes on by waiving a gate; the two names are the
// source's and the destination's.
var waiverTexts = map[statestore.Gate]string{
	statestore.GateSourceDown:        "I waive it: move although no quorum says that %[1]s is down",
	statestore.GateDestination:       "I waive it: move although %[2]s is not known to be well",
	statestore.GateLag:               "I waive it: writes that %[2]s does not have yet may be lost",
	statestore.GateFenced:            "I waive it: I have made sure myself that %[1]s takes no writes",
	statestore.GateNodesAcknowledged: "I waive it: nodes that are not heard may go on answering %[1]s",
	statestore.GateResync:            "I waive it: I have made sure myself that %[2]s follows %[1]s",
	statestore.GateNotFrozen:         "I waive it: move although it is frozen",
	statestore.GateCooldown:          "I waive it: move although the last one is not long ago",
}

// gateRows are the gates with the boxes that this person can tick.
func gateRows(view apitype.Cutover, m may, was *typed) []console.GateRow {
	out := make([]console.GateRow, 0, len(view.Gates))
	for _, g := range view.Gates {
		row := console.GateRow{Gate: g, Title: gateTitles[statestore.Gate(g.Name)]}
		ask := func(value, more string) {
			id := "waive-" + g.Name + strings.TrimPrefix(value, g.Name)
			row.Ask = append(row.Ask, console.Waiver{
				ID: strings.NewReplacer("=", "-", ",", "-").Replace(id), Value: value,
				Label:  fmt.Sprintf(waiverTexts[statestore.Gate(g.Name)], view.Source, view.Destination) + more,
				Ticked: slices.Contains(was.waivers, value),
			})
		}
		underWay := view.Phase == string(statestore.Fencing)
		switch {
		case underWay && g.Name == string(statestore.GateNodesAcknowledged) && len(view.Waiting) > 0:
			row.Why = "has not stopped answering " + view.Source + " yet: " + strings.Join(view.Waiting, ", ")
			row.Passed, row.Class, row.Waivable = false, string(statestore.Blocked), true
			if m.waive {
				ask(g.Name+"="+strings.Join(view.Waiting, ","), " ("+strings.Join(view.Waiting, ", ")+")")
			}
		case underWay:
			if m.waive && slices.ContainsFunc(view.Blockers, func(b apitype.Blocker) bool { return b.Rule == g.Name && b.Waivable }) {
				row.Passed, row.Waivable = false, true
				ask(g.Name, "")
			}
		case g.Passed || !mayWaive(g, m):
		case g.Class == string(statestore.Untried):
			ask(g.Name+"="+string(statestore.UnknownGate), ", should its outcome stay unknown")
			ask(g.Name+"="+refusedOutcome, ", should it be refused")
		default:
			ask(g.Name, "")
		}
		out = append(out, row)
	}
	return out
}

// why says since when the source is as it is, and whether it is alone in that.
func why(st *statestore.State, now time.Time, co *statestore.Cutover) string {
	ss := st.Services[co.Service]
	if ss == nil {
		return co.Service + " is not there any more."
	}
	if !co.Phase.Open() {
		return "As the votes are now, not as they were when it was decided."
	}
	v := worst(ss.Targets, co.Source)
	side := st.SideOf(co.Service, co.Source)
	if side != health.Down {
		text := fmt.Sprintf("%s is %s for %s", co.Source, side, co.Service)
		if v.Mark != health.Settled {
			text += ", and its votes are " + string(v.Mark)
		}
		return text + "."
	}
	text := fmt.Sprintf("%s is down for %s since %s (%s).", co.Source, co.Service, clock(v.Since), max(now.Sub(v.Since), 0).Round(time.Second))
	return text + " " + extent(st, co)
}

// extent says whether the whole site looks down, or this service only.
func extent(st *statestore.State, co *statestore.Cutover) string {
	const site, only = "looks like the whole site.", "looks like this service only."
	if cs := st.Clusters[co.Source]; cs != nil && len(cs.Targets) > 0 {
		switch clusterSide(cs.Targets, co.Source) {
		case health.Down:
			return "The front door of " + co.Source + " is down too: " + site
		case health.Up:
			return "The front door of " + co.Source + " is up: " + only
		}
	}
	var down, up []string
	for _, name := range servicesOf(st, co.Source) {
		switch {
		case name == co.Service:
		case st.SideOf(name, co.Source) == health.Down:
			down = append(down, name)
		default:
			up = append(up, name)
		}
	}
	switch {
	case len(down)+len(up) == 0:
		return "Nothing else there is probed, so nobody can tell whether it is the whole site."
	case len(up) == 0:
		return fmt.Sprintf("Down on %s too: %s. It %s", co.Source, few(down), site)
	case len(down) == 0:
		return fmt.Sprintf("Not down on %s: %s. It %s", co.Source, few(up), only)
	}
	return fmt.Sprintf("Down on %s too: %s; not down: %s.", co.Source, few(down), few(up))
}

// maxNamed is how many names are read at a glance.
const maxNamed = 5

// few lists names, and only counts those that are too many.
func few(names []string) string {
	if len(names) <= maxNamed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], ", "), len(names)-maxNamed)
}

// voteTable is what each observer sees of the targets of both sides.
func voteTable(st *statestore.State, view apitype.Cutover) console.VoteTable {
	var t console.VoteTable
	var targets []apitype.TargetVotes
	for _, side := range []struct{ name, cluster string }{{"source", view.Source}, {"destination", view.Destination}} {
		mine := slices.DeleteFunc(slices.Clone(view.Votes), func(v apitype.TargetVotes) bool { return v.Cluster != side.cluster })
		if cs := st.Clusters[side.cluster]; cs != nil {
			mine = append(mine, targetsView(st, cs.Targets, "")...)
		}
		for _, v := range mine {
			held := v.Verdict.Up
			if v.Verdict.Side == health.Down {
				held = v.Verdict.Down
			}
			col := console.VoteColumn{
				Side: side.name, Title: v.Cluster, Address: v.Endpoint.String(), State: console.State(v.Verdict.Side.String()),
				Regions: fmt.Sprintf("%d/%d", held, v.Verdict.Eligible), Mark: string(v.Verdict.Mark), Since: v.Verdict.Since,
			}
			if v.Service == "" {
				col.Title += " front door"
			}
			t.Columns = append(t.Columns, col)
			targets = append(targets, v)
		}
	}
	for _, name := range sortedKeys(st.Members) {
		member := st.Members[name]
		if !member.Observes {
			continue
		}
		row := console.Row{Observer: name, Region: member.Region}
		if o := st.Observers[health.ObserverID(name)]; !o.Counts() {
			row.Note = observerState(o)
		}
		for i := range targets {
			row.Cells = append(row.Cells, cell(targets[i:i+1], name))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// stages are the steps of a cutover: those that are done, and those to come.
func stages(now time.Time, view apitype.Cutover) []console.Stage {
	at := map[string]apitype.CutoverStep{}
	for _, step := range view.Steps {
		at[step.Phase] = step
	}
	step := func(title, phase, text string) console.Stage {
		st, ok := at[phase]
		if !ok {
			return console.Stage{Title: title, State: console.StageToCome, Text: text}
		}
		return console.Stage{Title: title, State: console.StageDone, At: st.At, By: st.By, Text: st.Text}
	}
	a := view.Approvals
	out := []console.Stage{step("Proposed", string(statestore.Proposed), "")}
	// The reason stands above. Automation revises a proposal, and does not make it its own.
	out[0].Text, out[0].By, out[0].At = "", view.Proposer, view.ProposedAt
	signed := fmt.Sprintf("%d of %s", a.Have, count(a.Required, "signature"))
	if n := len(view.Blockers); n > 0 {
		signed += fmt.Sprintf(", %s still to waive", count(n, "gate"))
	}
	out = append(out,
		step("Signed", string(statestore.Approved), signed),
		step("Old answer withheld", string(statestore.Fencing), fmt.Sprintf("epoch %d is reserved, every node stops answering %s and says so", view.NextEpoch, view.Source)),
		step("Published", string(statestore.Done), fmt.Sprintf("every node answers %s under epoch %d", view.Destination, view.NextEpoch)),
	)
	phase := statestore.CutoverPhase(view.Phase)
	if !phase.Open() && phase != statestore.Done { // it ended on the way
		out = slices.DeleteFunc(out, func(s console.Stage) bool { return s.State == console.StageToCome })
		end := step(strings.ToUpper(view.Phase[:1])+view.Phase[1:], view.Phase, "")
		end.State = console.StageEnded
		return append(out, end)
	}
	if i := slices.IndexFunc(out, func(s console.Stage) bool { return s.State == console.StageToCome }); i >= 0 {
		out[i].State = console.StageNow
		if phase == statestore.Fencing && len(view.Waiting) > 0 {
			out[i].Text = "waits for " + strings.Join(view.Waiting, ", ") + " to stop answering " + view.Source
		}
	}
	gone := console.Stage{Title: "Old answers gone", State: console.StageToCome, Text: "resolvers that keep to the TTL have dropped " + view.Source}
	switch {
	case view.ClearsAt.IsZero():
	case now.Before(view.ClearsAt):
		gone.State, gone.Text = console.StageNow, "resolvers may give "+view.Source+" until "+clock(view.ClearsAt)
	default:
		gone.State, gone.At = console.StageDone, view.ClearsAt
	}
	return append(out, gone)
}

// nextSteps say what happens from here on, in order.
func nextSteps(view apitype.Cutover, members int) []string {
	withhold := fmt.Sprintf("Epoch %d is reserved and every node stops answering %s: %s is answered with SERVFAIL for a moment.", view.NextEpoch, view.Source, view.Service)
	publish := fmt.Sprintf("Once all %s have said so, %s is answered under epoch %d.", count(members, "member"), view.Destination, view.NextEpoch)
	clear := fmt.Sprintf("Resolvers have dropped %s at most %s later.", view.Source, seconds(view.Reach.ClearsSeconds))
	switch statestore.CutoverPhase(view.Phase) {
	case statestore.Proposed, statestore.Approved:
		return []string{
			fmt.Sprintf("With %s, and every gate clean or waived, it begins by itself.", count(view.Approvals.Required, "signature")),
			withhold, publish, clear,
		}
	case statestore.Fencing:
		return []string{publish, clear}
	}
	return nil
}

func seconds(f float64) time.Duration {
	return time.Duration(f * float64(time.Second)).Round(time.Second)
}

// undo says how to go back from where it is.
func undo(view apitype.Cutover) string {
	switch statestore.CutoverPhase(view.Phase) {
	case statestore.Proposed, statestore.Approved:
		return fmt.Sprintf("Until it has begun: reject it, and nothing has changed. While it is under way: abort it, and %s goes on under a new epoch. Afterwards: a cutover back, which people sign as well.", view.Source)
	case statestore.Fencing:
		return fmt.Sprintf("Abort it: %s is answered again, under a new epoch. Once %s is published, only a cutover back undoes it.", view.Source, view.Destination)
	case statestore.Done:
		return fmt.Sprintf("By a cutover back to %s, which people sign as well. It never goes back by itself.", view.Source)
	}
	return ""
}
