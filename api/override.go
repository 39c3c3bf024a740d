package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/statestore"
)

type overrideInput struct {
	writing
	Name string `path:"name" maxLength:"253"`
	Body apitype.OverrideRequest
}

type clearOverrideInput struct {
	writing
	Name string `path:"name" maxLength:"253"`
	Body *apitype.ClearOverrideRequest
}

func (s *Server) overrideRoutes(api huma.API) {
	huma.Register(api, operation(http.MethodPut, "/services/{name}/override", "override", "Answer a stateless service with one cluster", statestore.CanOverride, actErrors...), s.override)
	huma.Register(api, operation(http.MethodDelete, "/services/{name}/override", "clear-override", "Let the policy answer again", statestore.CanOverride, actErrors...), s.clearOverride)
}

func (s *Server) mayOverride(c *call, service string) error {
	if c.st.Spec.Services[service] == nil {
		return notFound("service", service)
	}
	return allow(c.st, c.p, statestore.CanOverride, service)
}

func (s *Server) override(ctx context.Context, in *overrideInput) (*output[apitype.Act], error) {
	c, req := callOf(ctx), in.Body
	if err := s.mayOverride(c, in.Name); err != nil {
		return nil, err
	}
	if err := needReason(req.Reason); err != nil {
		return nil, err
	}
	length, err := lifetime("/for", req.For)
	if err != nil {
		return nil, err
	}
	if c.st.Spec.Clusters[req.Cluster] == nil {
		return nil, notFound("cluster", req.Cluster)
	}
	if o, err := s.overriddenAlready(ctx, c, in.Name, req, length); err != nil || o != nil {
		if err != nil {
			return nil, err
		}
		return envelope(c, "act", apitype.Act{
			DryRun: req.DryRun, Impact: []apitype.Impact{}, Blocked: []apitype.Blocker{},
			Text: fmt.Sprintf("%s is pinned to %s already, %s, by %s: %s; nothing changes", in.Name, o.Cluster, ending(o.Until, s.now(c.st), "cleared"), o.By, o.Reason),
		}), nil
	}
	act := apitype.Act{
		DryRun:  req.DryRun,
		Impact:  s.impacts(ctx, c, policy.OverrideImpact(c.st, in.Name, req.Cluster), policy.OverrideRotations(c.st, in.Name, req.Cluster)),
		Blocked: blockersView(policy.CheckOverride(c.st, in.Name, req.Cluster)),
	}
	if req.DryRun {
		act.Text = fmt.Sprintf("would pin %s to %s", in.Name, req.Cluster)
		return envelope(c, "act", act), nil
	}
	res, err := s.propose(ctx, c, func(st *statestore.State) (statestore.Command, error) {
		if blockers := policy.CheckOverride(st, in.Name, req.Cluster); len(blockers) > 0 {
			return nil, blocked(blockersView(blockers))
		}
		return statestore.OverrideService{
			Service: in.Name, Cluster: req.Cluster, For: length, Reason: req.Reason,
			Rotations: policy.OverrideRotations(st, in.Name, req.Cluster),
		}, nil
	})
	if err != nil {
		return nil, err
	}
	act.Blocked = []apitype.Blocker{}
	text := fmt.Sprintf("pinned %s to %s", in.Name, req.Cluster)
	if ss := c.st.Services[in.Name]; ss != nil && ss.Override != nil && !res.replayed { // else the pin of now may be another one
		act.Until = ss.Override.Until
		text += " " + ending(act.Until, s.now(c.st), "cleared")
	}
	s.finish(c, &act, res, text)
	act.Clears = clearsAt(c.st, []string{in.Name}, res.index)
	return envelope(c, "act", act), nil
}

// overriddenAlready returns the pin in force when the wanted one would change nothing
// of it: see drainedAlready.
func (s *Server) overriddenAlready(ctx context.Context, c *call, service string, req apitype.OverrideRequest, length time.Duration) (*statestore.Override, error) {
	same := func(st *statestore.State) *statestore.Override {
		ss := st.Services[service]
		if ss != nil && ss.Override != nil && length == 0 && ss.Override.Until.IsZero() &&
			ss.Override.Cluster == req.Cluster && ss.Override.Reason == req.Reason {
			return ss.Override
		}
		return nil
	}
	if same(c.st) == nil {
		return nil, nil
	}
	if current, err := s.current(ctx, c); err != nil || !current {
		return nil, err
	}
	return same(c.st), nil
}

func (s *Server) clearOverride(ctx context.Context, in *clearOverrideInput) (*output[apitype.Act], error) {
	c := callOf(ctx)
	req := apitype.ClearOverrideRequest{}
	if in.Body != nil {
		req = *in.Body
	}
	if err := s.mayOverride(c, in.Name); err != nil {
		return nil, err
	}
	act := apitype.Act{DryRun: req.DryRun, Impact: s.impacts(ctx, c, policy.ClearOverrideImpact(c.st, in.Name), policy.ClearOverrideRotations(c.st, in.Name)), Blocked: []apitype.Blocker{}}
	plan := func(st *statestore.State) (statestore.Command, error) {
		return statestore.ClearOverride{Service: in.Name, Reason: req.Reason, Rotations: policy.ClearOverrideRotations(st, in.Name)}, nil
	}
	if req.DryRun {
		cmd, err := plan(c.st)
		if err != nil {
			return nil, err
		}
		if _, err := s.try(c, cmd); err != nil {
			return nil, err
		}
		act.Text = "would let the policy answer for " + in.Name
		return envelope(c, "act", act), nil
	}
	res, err := s.propose(ctx, c, plan)
	if err != nil {
		return nil, err
	}
	s.finish(c, &act, res, "the policy answers for "+in.Name+" again")
	act.Clears = clearsAt(c.st, []string{in.Name}, res.index)
	return envelope(c, "act", act), nil
}
