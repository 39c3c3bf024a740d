package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/statestore"
)

// cutoversNewestFirst returns the cutovers that are kept.
func cutoversNewestFirst(st *statestore.State) []*statestore.Cutover {
	ids := st.CutoverIDs()
	out := make([]*statestore.Cutover, 0, len(ids))
	for _, id := range slices.Backward(ids) {
		out = append(out, st.Cutovers[id])
	}
	return out
}

// cutoverView returns a cutover as people see it, with what is in no state: what only
// the leader knows, and who asked for the service lately.
func (s *Server) cutoverView(ctx context.Context, c *call, co *statestore.Cutover) apitype.Cutover {
	out := cutoverView(c.st, s.now(c.st), co)
	if co.Phase == statestore.Fencing {
		if acks, ok := s.acknowledged(ctx, co.ID); ok {
			out.Waiting = orEmpty(c.st.Waiting(co, acks))
			out.Next = nextCommands(out)
		}
	}
	if co.Phase.Open() {
		out.Reach.Traffic = s.traffic(ctx).view(s.cfg.Table(), co.Service)
	}
	return out
}

// cutoverView returns what one state says of a cutover.
func cutoverView(st *statestore.State, now time.Time, co *statestore.Cutover) apitype.Cutover {
	svc := st.Spec.Services[co.Service]
	out := apitype.Cutover{
		ID: co.ID, Service: co.Service, Kind: string(co.Kind), Source: co.Source, Destination: co.Destination,
		Epoch: co.Epoch, NextEpoch: cmp.Or(co.Next, co.Epoch+1), Generation: co.Generation,
		Phase: string(co.Phase), Proposer: co.Proposer, Reason: co.Reason, ProposedAt: co.At, ExpiresAt: co.Expires,
		Evidence: co.Digest, Facts: co.Evidence,
		Gates: gatesView(policy.Gates(st, co)), Votes: []apitype.TargetVotes{}, Blockers: []apitype.Blocker{},
		Approvals: approvalsView(st, co), Waiting: []string{}, Reach: reachView(st, co, svc),
		Steps: stepsView(co), DecidedAt: co.Decided, ClearsAt: co.Clears,
		G4Enforced: svc != nil && policy.G4Enforced(svc),
	}
	if ss := st.Services[co.Service]; ss != nil {
		out.Votes = append(targetsView(st, ss.Targets, co.Source), targetsView(st, ss.Targets, co.Destination)...)
	}
	if co.Phase.Pending() {
		out.ExpiresIn = max(co.Expires.Sub(now), 0).Seconds()
		out.Blockers = gateBlockers(out.Gates)
	}
	if n := len(co.Signatures); n > 0 && !co.Decided.IsZero() && co.Next > 0 {
		out.TookSeconds = max(co.Decided.Sub(co.Signatures[n-1].At), 0).Seconds()
	}
	if stuck := policy.Stuck(st, co); stuck != "" {
		out.Blockers = append(out.Blockers, apitype.Blocker{
			Rule: string(statestore.GateDestination), Reason: stuck, Waivable: true, Waive: string(statestore.GateDestination),
		})
	}
	out.Next, out.IfNothing = nextCommands(out), ifNothing(out)
	return out
}

func gatesView(gates []policy.Gate) []apitype.Gate {
	out := make([]apitype.Gate, 0, len(gates))
	for _, g := range gates {
		v := apitype.Gate{
			Name: string(g.Name), Class: string(g.Class), Why: g.Why, AgeSeconds: g.Age.Seconds(),
			Waivable: g.Waivable && g.Class != statestore.Clean, Need: g.Need, Waived: orEmpty(g.Waived), Passed: g.Passed(),
		}
		if v.Waivable {
			v.Waive = waiverText(statestore.Waiver{Gate: g.Name})
		}
		out = append(out, v)
	}
	return out
}

// gateBlockers are the gates that somebody still has to waive.
func gateBlockers(gates []apitype.Gate) []apitype.Blocker {
	out := []apitype.Blocker{}
	for _, g := range gates {
		if !g.Passed {
			out = append(out, gateBlocker(g))
		}
	}
	return out
}

func gateBlocker(g apitype.Gate) apitype.Blocker {
	return apitype.Blocker{Rule: g.Name, Reason: strings.ReplaceAll(g.Class, "_", " ") + ": " + g.Why, Waivable: g.Waivable, Waive: g.Waive}
}

func approvalsView(st *statestore.State, co *statestore.Cutover) apitype.Approvals {
	out := apitype.Approvals{From: []string{}, Signatures: []apitype.Signature{}, Voided: co.Voided}
	if svc := st.Spec.Services[co.Service]; svc != nil && svc.Stateful != nil {
		a := svc.Stateful.Approval
		out.Policy, out.Required, out.From, out.ProposerMayApprove = a.Name, a.Required, orEmpty(a.From), a.ProposerMayApprove
	}
	for _, sig := range co.Signatures {
		out.Signatures = append(out.Signatures, signatureView(sig))
	}
	out.Have = len(co.Signatures)
	if co.Phase.Pending() {
		out.Have = len(st.Count(co).People) // one whose right was taken away signs nothing any more
	}
	for _, sig := range co.Waived { // while it was under way: waivers, no approvals
		out.Signatures = append(out.Signatures, signatureView(sig))
	}
	return out
}

func signatureView(sig statestore.Signature) apitype.Signature {
	out := apitype.Signature{
		User: sig.User, Person: sig.Person, Via: sig.Via, Waivers: []string{},
		Reason: sig.Reason, BreakGlass: sig.BreakGlass, At: sig.At,
	}
	for _, w := range sig.Waivers {
		out.Waivers = append(out.Waivers, waiverText(w))
	}
	return out
}

// reachView is who notices. Answers of before the cutover opened may have been
// given with the normal TTL.
func reachView(st *statestore.State, co *statestore.Cutover, svc *statestore.Service) apitype.Reach {
	out := apitype.Reach{Names: []string{}}
	if svc == nil {
		return out
	}
	for _, n := range svc.Names {
		out.Names = append(out.Names, fqdn(n, svc.Zone))
	}
	ttl := svc.TTL.Normal.D()
	if co.Phase.Open() {
		ttl = svc.TTL.Changing.D()
	}
	out.TTLSeconds, out.ClearsSeconds = ttl.Seconds(), ttl.Seconds()
	if old := co.At.Add(svc.TTL.Normal.D()).Sub(st.Now); co.Phase.Open() && old > ttl {
		out.ClearsSeconds = old.Seconds()
	}
	return out
}

func stepsView(co *statestore.Cutover) []apitype.CutoverStep {
	out := make([]apitype.CutoverStep, 0, len(co.Steps))
	for _, step := range co.Steps {
		out = append(out, apitype.CutoverStep{Phase: string(step.Phase), At: step.At, By: step.By, Text: step.Text, Index: step.Index})
	}
	return out
}

// begins reports whether nobody has to sign any more: it waits for the leader only.
func begins(v apitype.Cutover) bool {
	return v.Phase == string(statestore.Approved) && len(v.Blockers) == 0 && v.Approvals.Have >= v.Approvals.Required
}

// nextCommands are what a person can do about it, as they would type it.
func nextCommands(v apitype.Cutover) []string {
	const reason = ` --reason "..."`
	waive := ""
	for _, b := range v.Blockers {
		if b.Waive != "" {
			waive += " --waive " + b.Waive
		}
	}
	if len(v.Waiting) > 0 {
		waive += " --waive " + waiverText(statestore.Waiver{Gate: statestore.GateNodesAcknowledged, Nodes: v.Waiting})
	}
	approve := "quorate approve " + v.ID + " --evidence " + v.Evidence + waive + reason
	abort := "quorate cutover abort " + v.ID + reason
	phase := statestore.CutoverPhase(v.Phase)
	switch {
	case begins(v), phase == statestore.Fencing && waive == "":
		return []string{abort}
	case phase.Pending():
		return []string{approve, "quorate reject " + v.ID + reason}
	case phase == statestore.Fencing:
		return []string{abort, approve}
	case phase == statestore.Done && v.Kind != string(statestore.Back):
		return []string{"quorate failback " + v.Service + reason}
	}
	return []string{}
}

// ifNothing says what becomes of it when nobody acts.
func ifNothing(v apitype.Cutover) string {
	switch statestore.CutoverPhase(v.Phase) {
	case statestore.Proposed:
		return fmt.Sprintf("%s stays the answer, the proposal expires in %s", v.Source, (time.Duration(v.ExpiresIn) * time.Second).String())
	case statestore.Approved:
		return fmt.Sprintf("it begins at once; while the leader cannot begin it, %s stays the answer", v.Source)
	case statestore.Fencing:
		return fmt.Sprintf("%s is answered once every node has stopped answering with %s; until then %s is withheld", v.Destination, v.Source, v.Service)
	}
	return ""
}

// cutoverSummary is an open cutover in a line.
func cutoverSummary(st *statestore.State, co *statestore.Cutover) apitype.CutoverSummary {
	a := approvalsView(st, co)
	return apitype.CutoverSummary{
		ID: co.ID, Service: co.Service, Kind: string(co.Kind), Source: co.Source, Destination: co.Destination,
		Phase: string(co.Phase), Have: a.Have, Required: a.Required, ExpiresAt: co.Expires,
		Blocked: slices.ContainsFunc(policy.Gates(st, co), func(g policy.Gate) bool { return !g.Passed() }),
	}
}

// waiting are the open cutovers that p may see, the one that expires first first.
func waiting(st *statestore.State, p principal) []apitype.CutoverSummary {
	out := []apitype.CutoverSummary{}
	for _, co := range cutoversNewestFirst(st) {
		if co.Phase.Open() && st.Can(p, statestore.CanRead, co.Service) {
			out = append(out, cutoverSummary(st, co))
		}
	}
	slices.SortStableFunc(out, func(a, b apitype.CutoverSummary) int { return a.ExpiresAt.Compare(b.ExpiresAt) })
	return out
}

// waitingText says what an open cutover waits for.
func waitingText(w apitype.CutoverSummary) string {
	what := fmt.Sprintf("%s %s %s -> %s (%s)", w.ID, w.Service, w.Source, w.Destination, w.Kind)
	switch statestore.CutoverPhase(w.Phase) {
	case statestore.Proposed:
		what += fmt.Sprintf(" needs approval: %d of %d signed", w.Have, w.Required)
		if w.Blocked {
			what += ", a gate needs a waiver"
		}
		return what + ", expires at " + clock(w.ExpiresAt) + "; quorate cutover show " + w.ID
	case statestore.Approved:
		return what + " is approved and begins"
	}
	return what + " is under way: not answered until every node has acknowledged"
}

// statefulView is the stateful side of a service; nil for a stateless one.
func statefulView(st *statestore.State, name string) *apitype.Stateful {
	svc, ss := st.Spec.Services[name], st.Services[name]
	if svc == nil || svc.Stateful == nil || ss == nil || ss.Ownership == nil {
		return nil
	}
	o := ss.Ownership
	return &apitype.Stateful{
		Active: o.Active, Installation: st.Installation, Generation: o.Generation, Epoch: o.Epoch, Since: o.Since,
		Preferred: svc.Stateful.Preferred, Moving: o.Moving(), Unconfirmed: o.Unconfirmed, Open: o.Open,
		G4Enforced: policy.G4Enforced(svc),
	}
}

// statefulNotes are what stands out of a stateful service, the gravest first.
func statefulNotes(st *statestore.State, name string) []string {
	v := statefulView(st, name)
	if v == nil {
		return nil
	}
	var out []string
	co := st.Cutovers[v.Open]
	switch {
	case v.Unconfirmed:
		out = append(out, "UNCONFIRMED: nodes answer what they last knew; quorate thaw "+name+" --active CLUSTER")
	case v.Moving && co != nil:
		out = append(out, "MOVING to "+co.Destination+" ("+co.ID+"): not answered until it is published")
	case co != nil:
		out = append(out, co.ID+" "+co.Source+" -> "+co.Destination+" "+string(co.Phase))
	}
	if !v.G4Enforced {
		out = append(out, "G4 not enforced")
	}
	return out
}

// cutoverEvents are the events that tell of the cutover, oldest first.
func cutoverEvents(st *statestore.State, co *statestore.Cutover) []apitype.Event {
	out := []apitype.Event{}
	for _, e := range st.Events {
		if e.Subject != "services/"+co.Service || !strings.HasPrefix(e.Type, "cutover.") {
			continue
		}
		var detail struct {
			Cutover string `json:"cutover"`
		}
		if json.Unmarshal(e.Detail, &detail) == nil && detail.Cutover == co.ID {
			out = append(out, eventView(e))
		}
	}
	return out
}
