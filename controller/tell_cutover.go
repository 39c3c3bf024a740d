package controller

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/statestore"
)

// heldUpAfter is how long a cutover that is under way may wait for nodes before
// they are named in the log. Nobody gets an answer for the service meanwhile.
const heldUpAfter = 3 * time.Second

// tellCutovers tells what became of cutovers: what waits for people as a warning.
func (c *Controller) tellCutovers(last, st *statestore.State) {
	for _, id := range st.CutoverIDs() {
		co, was := st.Cutovers[id], last.Cutovers[id]
		if co == was {
			continue // the same object: nothing touched it
		}
		if was == nil {
			c.log.Warn("cutover proposed", append(cutoverOf(st.Index, co), keyKind, string(co.Kind), keyFrom, co.Source, keyTo, co.Destination,
				keyBy, co.Proposer, keyReason, co.Reason, keyEvidence, co.Digest)...)
			c.tellBlocked(st, co)
			was = &statestore.Cutover{Digest: co.Digest}
		}
		if co.Digest != was.Digest {
			c.log.Warn("cutover has other evidence", append(cutoverOf(st.Index, co), keyEvidence, co.Digest, keyWas, was.Digest, keyVoided, co.Voided)...)
			c.tellBlocked(st, co)
		}
		for _, s := range newSignatures(was, co) {
			c.log.Info("cutover signed", append(cutoverOf(s.Index, co), keyBy, s.Person, keyHave, len(co.Signatures), keyReason, s.Reason)...)
		}
		if co.Reminded > was.Reminded {
			c.log.Warn("cutover still waits for people", append(cutoverOf(st.Index, co), keyHave, len(co.Signatures))...)
		}
		for _, step := range newSteps(was, co) {
			c.tellStep(co, step)
		}
	}
}

// cutoverOf returns the pairs that every line about a cutover has.
func cutoverOf(index uint64, co *statestore.Cutover) []any {
	return []any{keyIndex, index, keyCutover, co.ID, keyService, co.Service}
}

// newSignatures returns the signatures that came since.
func newSignatures(was, co *statestore.Cutover) []statestore.Signature {
	before := uint64(0)
	for _, s := range slices.Concat(was.Signatures, was.Waived) {
		before = max(before, s.Index)
	}
	return slices.DeleteFunc(slices.Concat(co.Signatures, co.Waived), func(s statestore.Signature) bool { return s.Index <= before })
}

// tellBlocked names the gates that need people beyond those that always do
// because nothing is configured for them.
func (c *Controller) tellBlocked(st *statestore.State, co *statestore.Cutover) {
	var gates []string
	for _, g := range policy.Gates(st, co) {
		if g.Class != statestore.Clean && g.Class != statestore.NotConfigured {
			gates = append(gates, string(g.Name)+": "+g.Why)
		}
	}
	if len(gates) > 0 {
		c.log.Warn("cutover blocked", append(cutoverOf(st.Index, co), keyGates, gates)...)
	}
}

// newSteps returns the steps that were taken since. Several can be: begun follows
// approved at once.
func newSteps(was, co *statestore.Cutover) []statestore.Step {
	before := uint64(0)
	for _, s := range was.Steps {
		before = max(before, s.Index)
	}
	return slices.DeleteFunc(slices.Clone(co.Steps), func(s statestore.Step) bool { return s.Index <= before })
}

func (c *Controller) tellStep(co *statestore.Cutover, step statestore.Step) {
	level, text := slog.LevelInfo, "cutover "+string(step.Phase)
	pairs := cutoverOf(step.Index, co)
	switch step.Phase {
	case statestore.Proposed:
		return // by itself, or with other evidence, which is told above
	case statestore.Fencing:
		text = "cutover begun"
		pairs = append(pairs, keyEpoch, co.Next)
	case statestore.Done:
		text = "cutover published"
		pairs = append(pairs, keyTo, co.Destination, keyEpoch, co.Next, keyClears, co.Clears)
	case statestore.Expired, statestore.Void:
		level = slog.LevelWarn
		pairs = append(pairs, keyReason, step.Text)
	case statestore.Rejected, statestore.Withdrawn, statestore.Aborted:
		pairs = append(pairs, keyBy, step.By, keyReason, step.Text)
	}
	c.log.Log(context.Background(), level, text, pairs...)
}

// tellHeldUp names what a cutover under way waits for once it takes too long, and
// returns when to look again. held says since when; negative: told.
func (c *Controller) tellHeldUp(st *statestore.State, t *tenure, held map[string]time.Duration) time.Duration {
	next := replan
	now := t.clock()
	under := map[string]bool{}
	for _, id := range st.CutoverIDs() {
		co := st.Cutovers[id]
		if co.Phase != statestore.Fencing {
			continue
		}
		under[id] = true
		since, known := held[id]
		switch {
		case !known:
			held[id] = now
			next = min(next, heldUpAfter)
		case since < 0:
		case now-since >= heldUpAfter:
			held[id] = -1
			waits, _ := t.waits(st)
			c.log.Warn("cutover is held up", append(cutoverOf(st.Index, co),
				keyMembers, st.Waiting(co, waits.Acknowledged[id]), keyReason, policy.Stuck(st, co))...)
		default:
			next = min(next, heldUpAfter-(now-since))
		}
	}
	for id := range held {
		if !under[id] {
			delete(held, id)
		}
	}
	return next
}
