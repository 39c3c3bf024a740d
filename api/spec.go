package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/routing"
	"github.com/quorate/quorate/statestore"
)

// specName stands for the file in positions when the caller does not name it.
const specName = "spec.yaml"

type specOutput struct {
	ETag string `header:"ETag"`
	Body apitype.Envelope[apitype.Spec]
}

type putSpecInput struct {
	writing
	IfMatch string `header:"If-Match" doc:"ETag of the revision this one replaces"`
	Body    apitype.ApplyRequest
}

type revisionInput struct {
	reading
	Number uint64 `path:"n"`
}

type rollbackInput struct {
	writing
	Body apitype.RollbackRequest
}

func (s *Server) specRoutes(api huma.API) {
	big := func(op huma.Operation) huma.Operation {
		op.MaxBodyBytes = maxSpecBody + 1
		return op
	}
	huma.Register(api, operation(http.MethodGet, "/spec", "spec", "The spec in force, as it was handed in", statestore.CanRead),
		func(ctx context.Context, _ *reading) (*specOutput, error) {
			c := callOf(ctx)
			return &specOutput{ETag: etag(c.st.Revision), Body: envelope(c, "spec", currentSpec(c.st)).Body}, nil
		})
	huma.Register(api, big(operation(http.MethodPut, "/spec", "put-spec", "Replace the spec in one step", statestore.CanApply, append(actErrors, http.StatusPreconditionFailed)...)), s.putSpec)
	huma.Register(api, operation(http.MethodGet, "/spec/revisions", "revisions", "Every revision that is kept, newest first", statestore.CanRead),
		func(ctx context.Context, _ *reading) (*output[apitype.Revision], error) {
			c := callOf(ctx)
			var items []apitype.Revision
			for i := len(c.st.Revisions) - 1; i >= 0; i-- {
				r := c.st.Revisions[i]
				items = append(items, apitype.Revision{Number: r.Number, Index: r.Index, At: r.At, Author: r.Author, Reason: r.Reason, Current: r.Number == c.st.Revision})
			}
			return envelope(c, "revision", items...), nil
		})
	huma.Register(api, operation(http.MethodGet, "/spec/revisions/{n}", "revision", "One revision with its text", statestore.CanRead, http.StatusNotFound),
		func(ctx context.Context, in *revisionInput) (*output[apitype.Spec], error) {
			c := callOf(ctx)
			r, ok := revision(c.st, in.Number)
			if !ok {
				return nil, notFound("revision", strconv.FormatUint(in.Number, 10))
			}
			return envelope(c, "spec", specView(r)), nil
		})
	huma.Register(api, operation(http.MethodPost, "/spec/rollback", "rollback", "Make an older revision's spec the next revision", statestore.CanApply, actErrors...), s.rollback)
	huma.Register(api, big(operation(http.MethodPost, "/plans", "create-plan", "What applying a spec would change; nothing is written", statestore.CanApply, http.StatusUnprocessableEntity)), s.createPlan)
	huma.Register(api, operation(http.MethodGet, "/plans/{id}", "plan", "A plan made on this node", statestore.CanApply, http.StatusNotFound),
		func(ctx context.Context, in *planIDInput) (*output[apitype.Plan], error) {
			c := callOf(ctx)
			p, ok := s.plans.get(in.ID)
			if !ok {
				return nil, notFound("plan of this node", in.ID)
			}
			return envelope(c, "plan", p.plan), nil
		})
	huma.Register(api, big(operation(http.MethodPost, "/plans/{id}/apply", "apply-plan", "Apply a plan whose base is still current", statestore.CanApply, actErrors...)), s.applyPlan)
}

func etag(revision uint64) string { return `"` + strconv.FormatUint(revision, 10) + `"` }

func revision(st *statestore.State, n uint64) (statestore.Revision, bool) {
	for _, r := range st.Revisions {
		if r.Number == n {
			return r, true
		}
	}
	return statestore.Revision{}, false
}

func currentSpec(st *statestore.State) apitype.Spec {
	if r, ok := revision(st, st.Revision); ok {
		return specView(r)
	}
	return apitype.Spec{Number: st.Revision, Spec: st.Spec}
}

func specView(r statestore.Revision) apitype.Spec {
	return apitype.Spec{Number: r.Number, At: r.At, Author: r.Author, Reason: r.Reason, Source: r.Source, Spec: r.Spec}
}

// decode reads a spec strictly. Keys without behaviour in this version are
// refused by name: a promise the nodes do not keep is worse than an error.
func (s *Server) decode(name, source string) (*statestore.Spec, []string, *apitype.Problem) {
	if name == "" {
		name = specName
	}
	if strings.TrimSpace(source) == "" {
		return nil, nil, invalidField("/source", "must be a spec, is empty")
	}
	d := s.cfg.Decode(name, []byte(source))
	if errs := append(d.Errors[:len(d.Errors):len(d.Errors)], d.Unused...); len(errs) > 0 {
		return nil, nil, invalid(errs...)
	}
	if d.Spec == nil {
		return nil, nil, invalidField("/source", "must be a spec, is none")
	}
	if err := routing.CheckSpec(d.Spec); err != nil {
		var errs []apitype.FieldError
		for _, e := range each(err) {
			errs = append(errs, apitype.FieldError{File: name, Message: e.Error()})
		}
		return nil, nil, invalid(errs...)
	}
	return d.Spec, d.Warnings, nil
}

// each splits a joined error.
func each(err error) []error {
	if j, ok := err.(interface{ Unwrap() []error }); ok {
		return j.Unwrap()
	}
	return []error{err}
}

func (s *Server) putSpec(ctx context.Context, in *putSpecInput) (*output[apitype.Plan], error) {
	c := callOf(ctx)
	base := c.st.Revision
	return s.apply(ctx, c, in.Body, func(st *statestore.State) error {
		switch want := in.IfMatch; {
		case want == "" && st.Revision != base:
			return stalePlan("revision %d was applied meanwhile", st.Revision)
		case want != "" && want != "*" && want != etag(st.Revision):
			return problem(http.StatusPreconditionFailed, apitype.ProblemPrecondition, "If-Match is %s, the current revision is %s", want, etag(st.Revision))
		}
		return nil
	})
}

func (s *Server) rollback(ctx context.Context, in *rollbackInput) (*output[apitype.Plan], error) {
	c := callOf(ctx)
	r, ok := revision(c.st, in.Body.Revision)
	if !ok {
		return nil, notFound("revision", strconv.FormatUint(in.Body.Revision, 10))
	}
	if in.Body.DryRun {
		spec, warnings, prob := s.decode("", r.Source)
		if prob != nil {
			return nil, prob
		}
		return envelope(c, "plan", s.plan(ctx, c, spec, r.Source, warnings)), nil
	}
	base := c.st.Revision
	reason := in.Body.Reason
	if reason == "" {
		reason = fmt.Sprintf("rollback to revision %d", r.Number)
	}
	return s.apply(ctx, c, apitype.ApplyRequest{Source: r.Source, Reason: reason, Force: in.Body.Force}, func(st *statestore.State) error {
		if st.Revision != base {
			return stalePlan("revision %d was applied meanwhile", st.Revision)
		}
		return nil
	})
}

// apply makes a spec the next revision, if check still holds on the state it is
// planned on. The leader's Apply checks the base once more.
func (s *Server) apply(ctx context.Context, c *call, req apitype.ApplyRequest, check func(*statestore.State) error) (*output[apitype.Plan], error) {
	if err := allow(c.st, c.p, statestore.CanApply, ""); err != nil {
		return nil, err
	}
	written, warnings, prob := s.decode(req.Name, req.Source)
	if prob != nil {
		return nil, prob
	}
	clients := s.planReach(ctx, c.st, written.WithAddresses(c.st.Spec))
	var plan apitype.Plan
	res, err := s.propose(ctx, c, func(st *statestore.State) (statestore.Command, error) {
		if err := check(st); err != nil {
			return nil, err
		}
		spec := written.WithAddresses(st.Spec)
		if err := mayEmpower(st, c.p, spec); err != nil {
			return nil, err
		}
		var rotations []statestore.RotationChange
		plan, rotations = makePlan(st, spec, req.Source, warnings)
		plan.Clients = clients
		blockers := plan.Blockers
		if req.Force {
			blockers = slices.DeleteFunc(slices.Clone(blockers), func(b apitype.Blocker) bool { return b.Waivable })
		} else {
			for _, reason := range plan.Guards.Exceeded {
				blockers = append(blockers, apitype.Blocker{Rule: "plan_guard", Reason: reason, Waivable: true})
			}
		}
		if len(blockers) > 0 {
			return nil, blocked(blockers)
		}
		// The judging of a large spec takes as long as a verdict takes to turn, and a
		// rotation that names what went down meanwhile is refused with all of the spec.
		// Planning those few again takes no time.
		if now := s.cfg.Store.State(); now != st && now.Revision == st.Revision {
			spec = written.WithAddresses(now.Spec)
			rotations = policy.Rotations(now, spec, nil, nil)
		}
		return statestore.ApplySpec{
			Base: st.Revision, Source: req.Source, Spec: spec, Reason: req.Reason, Rotations: rotations,
		}, nil
	})
	if err != nil {
		return nil, s.explainApply(err)
	}
	if plan.ID == "" { // the request was done before
		plan = s.plan(ctx, c, written, req.Source, warnings)
	}
	plan.Applied = res.index
	return envelope(c, "plan", plan), nil
}

// mayEmpower refuses a spec that changes who may decide what, but of those who may
// do everything anyway.
func mayEmpower(st *statestore.State, p principal, spec *statestore.Spec) error {
	changed := policy.Empowered(st, spec)
	if len(changed) == 0 || st.Can(p, statestore.CanAdmin, "") {
		return nil
	}
	return problem(http.StatusForbidden, apitype.ProblemForbidden,
		"%s may not apply it: it changes who may decide (%s), which takes a role that may admin", p.User, strings.Join(changed, ", "))
}

// explainApply adds the command that helps to what a person sees.
func (s *Server) explainApply(err error) error {
	var p *apitype.Problem
	if errors.As(err, &p) && p.Next == "" && p.Name() == apitype.ProblemStalePlan {
		p.Next = "quorate plan -f FILE"
	}
	return err
}

// maxPlans bounds the plans a node keeps: enough for the people who plan at once.
// A plan carries its source, so the memory is bounded by this times the body limit.
const maxPlans = 16
