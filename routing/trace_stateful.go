package routing

import (
	"fmt"
	"strings"
)

// owned tells which side is active, and what keeps it so or withholds it.
func (t Trace) owned() Step {
	d := t.service.side
	s := Step{Step: "state", Text: fmt.Sprintf("active is %s, epoch %d", d.active, d.epoch)}
	var notes []string
	switch {
	case d.active == "":
		s.Text = "no active side"
	case d.moving():
		s.Text = fmt.Sprintf("active was %s, epoch %d -> %d", d.active, d.epoch, d.next)
		notes = append(notes, fmt.Sprintf("a cutover is under way: %s; nobody is answered until it is published", d.open))
	case d.unconfirmed:
		s.Text = "unconfirmed; " + t.lastKnown()
		notes = append(notes, fmt.Sprintf("a person must name the active side: quorate thaw %s --active CLUSTER", t.service.name))
	}
	if d.withheld != "" {
		notes = append(notes, "withheld on this node: "+d.withheld)
	}
	notes = append(notes, t.standings()...)
	if t.answer.Stale {
		notes = append(notes, fmt.Sprintf("kept: no leader heard for %s", t.query.Stale))
	}
	s.Note = strings.Join(notes, "; ")
	return s
}

// lastKnown says where the answer of an unconfirmed service comes from.
func (t Trace) lastKnown() string {
	d := t.service.side
	switch {
	case d.known != "":
		return fmt.Sprintf("this node last answered with %s", d.known)
	case d.cluster(t.service.onStale.Answer) != "":
		return fmt.Sprintf("the recovered state says %s, epoch %d", d.active, d.epoch)
	}
	return "this node does not know the last one"
}

// standings says what is against the side that is answered, and what is under way.
func (t Trace) standings() []string {
	d := t.service.side
	run := t.table.state.Services[t.service.name]
	cluster := d.cluster(t.service.onStale.Answer)
	if run == nil || cluster == "" || t.answer.Kind != NoError {
		return nil
	}
	judged := t.judged(run, cluster)
	switch {
	case judged == "down" && d.open != "":
		return []string{fmt.Sprintf("verdict down, but moves need approval (%s)", d.open)}
	case judged == "down" && !d.unconfirmed:
		return []string{"verdict down, but moves need approval"}
	}
	var notes []string
	if judged != "" {
		notes = append(notes, cluster+" "+judged)
	}
	if d.open != "" {
		notes = append(notes, d.open+" is open")
	}
	return notes
}

// ownedWhy gives the reason of a stateful answer in a few words.
func (t Trace) ownedWhy() string {
	d := t.service.side
	switch {
	case t.answer.Kind == NoError && d.unconfirmed:
		return "answered as last known here until a person names the active side"
	case t.answer.Kind == NoError && t.pool == nil:
		return "the service's first name and its port"
	case t.answer.Kind == NoError:
		return "a stateful name keeps its active side until a cutover is done"
	case t.answer.Kind == NoData:
		return fmt.Sprintf("%s has no %s address", d.cluster(t.service.onStale.Answer), t.familyName())
	case d.moving():
		return "while_moving: servfail"
	case d.withheld != "":
		return "withheld on this node"
	case d.unconfirmed:
		return "unconfirmed, on_stale: " + string(t.service.onStale.Answer)
	}
	return "no active side"
}
