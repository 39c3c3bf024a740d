package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/statestore"
)

func (s *Server) proposeCutover(ctx context.Context, in *proposeInput) (*created[apitype.Cutover], error) {
	c, req := callOf(ctx), in.Body
	move := policy.Move{Service: req.Service, To: req.To, Kind: statestore.CutoverKind(req.Kind)}
	what := refused{act: "propose", service: req.Service, move: &move}
	want := func(st *statestore.State) statestore.Command {
		cmd, _, _ := policy.Propose(st, move, c.p) // what forbids it Apply says, and puts on record
		cmd.Reason = strings.TrimSpace(req.Reason)
		return cmd
	}
	if req.DryRun {
		return s.previewCutover(ctx, c, want(c.st), what)
	}
	res, err := s.attempt(ctx, c, what, want)
	if err != nil {
		return nil, err
	}
	for _, co := range cutoversNewestFirst(c.st) {
		if len(co.Steps) > 0 && co.Steps[0].Index == res.index {
			view := s.cutoverView(ctx, c, co)
			view.Text = proposedText(view)
			status := http.StatusCreated
			if res.replayed {
				status = http.StatusOK
			}
			return &created[apitype.Cutover]{status, envelope(c, "cutover", view).Body}, nil
		}
	}
	p := problem(http.StatusConflict, apitype.ProblemConflict, "this request proposed a cutover at index %d that is not kept any more", res.index)
	p.RequestID, p.Next = c.key, "quorate history "+req.Service
	return nil, p
}

func (s *Server) approveCutover(ctx context.Context, in *approveInput) (*output[apitype.Cutover], error) {
	c, req := callOf(ctx), in.Body
	cmd := statestore.ApproveCutover{
		ID: in.ID, Evidence: req.Evidence, Waivers: in.waivers, Reason: strings.TrimSpace(req.Reason), Signer: c.p,
	}
	what := refused{act: "approve", id: in.ID, approve: &cmd}
	if req.DryRun {
		return s.dryRun(ctx, c, cmd, what)
	}
	if _, err := s.attempt(ctx, c, what, func(*statestore.State) statestore.Command { return cmd }); err != nil {
		return nil, err
	}
	return s.acted(ctx, c, in.ID, func(v apitype.Cutover) string { return signedText(v, c.p.User) })
}

// endCutover rejects or aborts.
func (s *Server) endCutover(ctx context.Context, in *decideInput, act string, cmd statestore.Command) (*output[apitype.Cutover], error) {
	c := callOf(ctx)
	switch was := cmd.(type) {
	case statestore.RejectCutover:
		was.Signer = c.p
		cmd = was
	case statestore.AbortCutover:
		was.Signer = c.p
		cmd = was
	}
	what := refused{act: act, id: in.ID}
	if in.Body.DryRun {
		return s.dryRun(ctx, c, cmd, what)
	}
	if _, err := s.attempt(ctx, c, what, func(*statestore.State) statestore.Command { return cmd }); err != nil {
		return nil, err
	}
	return s.acted(ctx, c, in.ID, endedText)
}

// acted answers an act with the cutover as it is after it. Whoever could act on it
// may see it, whatever else they may read.
func (s *Server) acted(ctx context.Context, c *call, id string, text func(apitype.Cutover) string) (*output[apitype.Cutover], error) {
	co := c.st.Cutovers[id]
	if co == nil { // an old request, repeated
		return nil, notFound("cutover", id)
	}
	view := s.cutoverView(ctx, c, co)
	view.Text = text(view)
	return envelope(c, "cutover", view), nil
}

// try applies a command to a copy of the state that nobody else sees, by the very
// function that applies it for all: a dry run finds what the act would.
func (s *Server) try(c *call, cmd statestore.Command) (*statestore.State, error) {
	data, err := statestore.Encode(cmd, statestore.Meta{Actor: c.p.User, Wall: s.cfg.Now().UTC()})
	if err != nil {
		return nil, s.internal("encode a command", err)
	}
	store := statestore.NewStoreAt(c.st)
	res := store.Apply(c.st.Index+1, c.st.Term, data)
	switch {
	case res.Err == nil:
		return store.State(), nil
	case isRefusal(res.Err):
		return nil, refusalProblem(res.Err, c.key)
	}
	return nil, s.internal("try a command", res.Err)
}

// dryRun answers what an act on a cutover would come to.
func (s *Server) dryRun(ctx context.Context, c *call, cmd statestore.Command, what refused) (*output[apitype.Cutover], error) {
	if _, err := s.seeCutover(c, what.id); err != nil {
		return nil, err
	}
	next, err := s.try(c, cmd)
	if err != nil {
		return nil, s.explainCutover(c, err, what)
	}
	view := cutoverView(next, s.now(next), next.Cutovers[what.id])
	view.DryRun, view.Text = true, "would "+what.act+" "+what.id
	return envelope(c, "cutover", view), nil
}

// previewCutover answers what a proposal would be: its gates, and what a signature
// would have to waive.
func (s *Server) previewCutover(ctx context.Context, c *call, cmd statestore.Command, what refused) (*created[apitype.Cutover], error) {
	next, err := s.try(c, cmd)
	if err != nil {
		return nil, s.explainCutover(c, err, what)
	}
	co := next.OpenCutover(what.service)
	if co == nil {
		return nil, s.internal("preview a cutover", errors.New("nothing is open after a proposal"))
	}
	view := cutoverView(next, s.now(next), co)
	view.Reach.Traffic = s.traffic(ctx).view(s.cfg.Table(), co.Service)
	view.ID, view.DryRun, view.Steps, view.Next = "", true, []apitype.CutoverStep{}, []string{}
	view.Text = fmt.Sprintf("would propose to move %s %s -> %s (%s)", co.Service, co.Source, co.Destination, co.Kind)
	return &created[apitype.Cutover]{http.StatusOK, envelope(c, "cutover", view).Body}, nil
}

// refused is the act that a problem is about.
type refused struct {
	act     string       // propose, approve, reject or abort
	id      string       // of the cutover; empty: of a proposal
	service string       // of a proposal
	move    *policy.Move // that was proposed
	approve *statestore.ApproveCutover
}

// attempt commits an act about a cutover or an active side, which makes a record
// also where it is refused.
func (s *Server) attempt(ctx context.Context, c *call, what refused, want func(*statestore.State) statestore.Command) (done, error) {
	person := c.p.Via + "/" + c.p.User
	if c.p.Via != statestore.ViaSocket {
		if ok, wait := s.refusals.take(person, 0, s.cfg.Now()); !ok {
			return done{}, tooMany(wait, "too many refused acts by %s", c.p.User)
		}
	}
	res, err := s.propose(ctx, c, func(st *statestore.State) (statestore.Command, error) { return want(st), nil })
	if err != nil {
		err = s.explainCutover(c, err, what)
		if s.asProblem(err).Status < http.StatusInternalServerError {
			s.refusals.take(person, 1, s.cfg.Now())
		}
	}
	return res, err
}

// explainCutover adds to a refusal what a person needs to go on: every blocker,
// both digests, the next command. Who may not read the service learns only that
// the act is not theirs.
func (s *Server) explainCutover(c *call, err error, what refused) error {
	var p *apitype.Problem
	if !errors.As(err, &p) || p.Status >= http.StatusInternalServerError {
		return err
	}
	co, service := c.st.Cutovers[what.id], what.service
	if co != nil {
		service = co.Service
	}
	if service != "" && c.st.Spec.Services[service] != nil && !c.st.Can(c.p, statestore.CanRead, service) {
		q := problem(http.StatusForbidden, apitype.ProblemForbidden, "%s may not %s this: no role with that capability holds", c.p.User, what.act)
		q.RequestID = c.key
		return q
	}
	switch p.Name() {
	case apitype.ProblemValidation:
		if what.approve != nil && len(p.Errors) == 1 && p.Errors[0].Pointer == "" {
			p.Errors[0].Pointer = "/waivers" // the rest was checked before it was sent
		}
		if what.move != nil {
			if errs := moveErrors(c.st, *what.move, c.p); len(errs) > 0 {
				p = invalid(errs...)
				p.RequestID = c.key
			}
		}
	case apitype.ProblemEvidence:
		if co != nil && what.approve != nil {
			p.Signed, p.Evidence = what.approve.Evidence, presentEvidence(c.st, co)
		}
	case apitype.ProblemBlocked:
		if open := c.st.OpenCutover(what.service); what.move != nil && open != nil {
			p.Blockers = []apitype.Blocker{{Rule: string(statestore.GateNoOther), Reason: p.Detail}}
		}
		if co != nil && what.approve != nil {
			if blockers := approvalBlockers(c.st, co, *what.approve); len(blockers) > 0 {
				p.Blockers = blockers
			}
		}
	}
	if p.Next == "" {
		p.Next = nextStep(c.st, p, co, what, service)
	}
	return p
}

// moveErrors says which fields of a proposal ask for what is not possible.
func moveErrors(st *statestore.State, m policy.Move, p principal) []apitype.FieldError {
	fields := map[string]string{
		policy.RuleStateless: "/service", policy.RuleKind: "/kind", policy.RuleAlreadyActive: "/to", policy.RuleNoDestination: "/to",
	}
	var errs []apitype.FieldError
	_, _, blockers := policy.Propose(st, m, p)
	for _, b := range blockers {
		errs = append(errs, apitype.FieldError{Pointer: fields[b.Rule], Message: b.Reason})
	}
	return errs
}

// presentEvidence is the digest of what is so now, which the leader is about to
// write down where it is another than the cutover's.
func presentEvidence(st *statestore.State, co *statestore.Cutover) string {
	if !co.Phase.Pending() {
		return co.Digest
	}
	return policy.Evidence(st, policy.MoveOf(co)).Digest()
}

// approvalBlockers are all gates that the signature leaves shut.
func approvalBlockers(st *statestore.State, co *statestore.Cutover, cmd statestore.ApproveCutover) []apitype.Blocker {
	out := []apitype.Blocker{}
	for _, b := range policy.ApprovalBlockers(st, co, cmd.Waivers, cmd.Signer) {
		out = append(out, apitype.Blocker{Rule: b.Rule, Reason: b.Reason, Waivable: b.Waivable})
		if b.Waivable {
			out[len(out)-1].Waive = b.Rule
		}
	}
	return out
}

// nextStep is the command that helps after a refusal.
func nextStep(st *statestore.State, p *apitype.Problem, co *statestore.Cutover, what refused, service string) string {
	switch {
	case p.Name() == apitype.ProblemUnconfirmed && service != "":
		return "quorate thaw " + service + ` --active CLUSTER --reason "..."`
	case p.Name() == apitype.ProblemNotFound && what.id != "":
		return "quorate cutover list"
	case p.Name() == apitype.ProblemNotFound:
		return "quorate services"
	case co == nil:
		if open := st.OpenCutover(service); open != nil {
			return "quorate cutover show " + open.ID
		}
		return ""
	case p.Name() == apitype.ProblemExpired && len(p.RequestID) > 0 && !co.Phase.Open():
		return fmt.Sprintf("quorate cutover propose %s --to %s --%s", co.Service, co.Destination, co.Kind)
	}
	return "quorate cutover show " + co.ID
}

func proposedText(v apitype.Cutover) string {
	text := fmt.Sprintf("proposed %s: %s %s -> %s (%s), %d of %d approvals", v.ID, v.Service, v.Source, v.Destination, v.Kind, v.Approvals.Have, v.Approvals.Required)
	if len(v.Blockers) > 0 {
		text += ", " + count(len(v.Blockers), "gate") + " to waive"
	}
	return text
}

// signedText says how far the signatures are and who is waited for.
func signedText(v apitype.Cutover, user string) string {
	a := v.Approvals
	switch statestore.CutoverPhase(v.Phase) {
	case statestore.Proposed:
		text := fmt.Sprintf("signed %d of %d as %s", a.Have, a.Required, user)
		missing := a.Required - a.Have
		switch {
		case missing == 1:
			text += ". Waiting for one more approver (" + strings.Join(a.From, ", ") + ")"
		case missing > 1:
			text += fmt.Sprintf(". Waiting for %d more approvers (%s)", missing, strings.Join(a.From, ", "))
		case len(v.Blockers) > 0:
			text += ". Waiting for another waiver of " + blockerRules(v.Blockers)
		}
		return text
	case statestore.Approved:
		return fmt.Sprintf("signed %d of %d as %s: approved, the move begins", a.Have, a.Required, user)
	case statestore.Fencing:
		return fmt.Sprintf("signed as %s: nodes stop answering with %s", user, v.Source)
	}
	return fmt.Sprintf("signed as %s; %s is %s now", user, v.ID, v.Phase)
}

func blockerRules(blockers []apitype.Blocker) string {
	rules := make([]string, len(blockers))
	for i, b := range blockers {
		rules[i] = b.Rule
	}
	return strings.Join(rules, ", ")
}

func endedText(v apitype.Cutover) string {
	switch statestore.CutoverPhase(v.Phase) {
	case statestore.Rejected:
		return fmt.Sprintf("rejected %s: %s stays the answer", v.ID, v.Source)
	case statestore.Aborted:
		return fmt.Sprintf("aborted %s: %s goes on under a new epoch", v.ID, v.Source)
	}
	return v.ID + " is " + v.Phase
}
