package api

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/statestore"
)

// confirmActive names the active side of a service that a recovery left
// unconfirmed. Who may not is refused by Apply, which puts the attempt on record.
func (s *Server) confirmActive(ctx context.Context, c *call, req apitype.ThawRequest) (*output[apitype.Act], error) {
	var errs []apitype.FieldError
	if req.Service == "" {
		errs = append(errs, apitype.FieldError{Pointer: "/service", Message: "must name the service whose active side is confirmed, is empty"})
	}
	if strings.TrimSpace(req.Reason) == "" {
		errs = append(errs, apitype.FieldError{Pointer: "/reason", Message: "must say why, is empty"})
	}
	if len(errs) > 0 {
		return nil, invalid(errs...)
	}
	plan := func(st *statestore.State) statestore.Command {
		cmd := statestore.ConfirmActive{Service: req.Service, Active: req.Active, Reason: strings.TrimSpace(req.Reason), Signer: c.p}
		if st.Ownership(req.Service) != nil && slices.Contains(st.Spec.Candidates(req.Service), req.Active) {
			cmd.Rotation = policy.ActiveRotation(st, req.Service, req.Active)
		}
		return cmd
	}
	what := refused{act: "confirm", service: req.Service}
	act := apitype.Act{DryRun: req.DryRun, Impact: []apitype.Impact{}, Blocked: []apitype.Blocker{}}
	if req.DryRun {
		if _, err := s.try(c, plan(c.st)); err != nil {
			return nil, s.explainCutover(c, err, what)
		}
		act.Text = fmt.Sprintf("would confirm %s as the active side of %s", req.Active, req.Service)
		return envelope(c, "act", act), nil
	}
	res, err := s.attempt(ctx, c, what, plan)
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf("confirmed %s as the active side of %s", req.Active, req.Service)
	if o := c.st.Ownership(req.Service); o != nil && !res.replayed {
		text += fmt.Sprintf(", epoch %d", o.Epoch)
	}
	s.finish(c, &act, res, text)
	act.Clears = clearsAt(c.st, []string{req.Service}, res.index)
	return envelope(c, "act", act), nil
}
