package api

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/statestore"
)

type drainInput struct {
	writing
	Name string `path:"name" maxLength:"253"`
	Body apitype.DrainRequest
}

type undrainInput struct {
	writing
	Name string `path:"name" maxLength:"253"`
	Body *apitype.UndrainRequest
}

func (s *Server) drain(ctx context.Context, in *drainInput) (*output[apitype.Act], error) {
	c, req := callOf(ctx), in.Body
	if c.st.Spec.Clusters[in.Name] == nil {
		return nil, notFound("cluster", in.Name)
	}
	if err := needReason(req.Reason); err != nil {
		return nil, err
	}
	length, err := lifetime("/for", req.For)
	if err != nil {
		return nil, err
	}
	services, err := mayDrain(c, req.Services)
	if err != nil {
		return nil, err
	}
	if d, err := s.drainedAlready(ctx, c, []string{in.Name}, statestore.Drain{Services: services, Reason: req.Reason}, length); err != nil || d != nil {
		if err != nil {
			return nil, err
		}
		return envelope(c, "act", apitype.Act{
			DryRun: req.DryRun, Impact: []apitype.Impact{}, Blocked: []apitype.Blocker{},
			Text: fmt.Sprintf("%s is drained already%s, %s, by %s: %s; nothing changes", in.Name, forServices(d.Services), ending(d.Until, s.now(c.st), "undrained"), d.By, d.Reason),
		}), nil
	}
	act := apitype.Act{
		DryRun:  req.DryRun,
		Impact:  s.impacts(ctx, c, policy.DrainImpact(c.st, in.Name, services), policy.DrainRotations(c.st, in.Name, services)),
		Blocked: blockersView(policy.CheckDrain(c.st, in.Name, services)),
	}
	if req.DryRun {
		act.Text = "would drain " + in.Name
		return envelope(c, "act", act), nil
	}
	res, err := s.propose(ctx, c, func(st *statestore.State) (statestore.Command, error) {
		if blockers := policy.CheckDrain(st, in.Name, services); len(blockers) > 0 {
			return nil, blocked(blockersView(blockers))
		}
		return statestore.DrainCluster{
			Cluster: in.Name, Services: services, For: length, Reason: req.Reason,
			Rotations: policy.DrainRotations(st, in.Name, services),
		}, nil
	})
	if err != nil {
		return nil, err
	}
	act.Blocked = []apitype.Blocker{}
	text := "drained " + in.Name
	if cs := c.st.Clusters[in.Name]; cs != nil && cs.Drain != nil {
		act.Until = cs.Drain.Until
		if !res.replayed { // else the drain of now may be another one
			text += forServices(services) + " " + ending(act.Until, s.now(c.st), "undrained")
		}
	}
	s.finish(c, &act, res, text)
	act.Clears = clearsAt(c.st, servicesOf(c.st, in.Name), res.index)
	return envelope(c, "act", act), nil
}

// drainedAlready returns the drain in force when the wanted one would change nothing
// of any of the clusters: without end, for the same services and reason. To give it
// an end anew is a change, and so is another reason.
func (s *Server) drainedAlready(ctx context.Context, c *call, clusters []string, want statestore.Drain, length time.Duration) (*statestore.Drain, error) {
	same := func(st *statestore.State) (drain *statestore.Drain) {
		for _, cluster := range clusters {
			cs := st.Clusters[cluster]
			if cs == nil || cs.Drain == nil || length != 0 || !cs.Drain.Until.IsZero() ||
				cs.Drain.Reason != want.Reason || !slices.Equal(cs.Drain.Services, want.Services) {
				return nil
			}
			drain = cs.Drain
		}
		return drain
	}
	if same(c.st) == nil {
		return nil, nil
	}
	if current, err := s.current(ctx, c); err != nil || !current {
		return nil, err
	}
	return same(c.st), nil
}

func forServices(services []string) string {
	if len(services) == 0 {
		return ""
	}
	return " for " + strings.Join(services, ", ")
}

func (s *Server) undrain(ctx context.Context, in *undrainInput) (*output[apitype.Act], error) {
	c := callOf(ctx)
	req := apitype.UndrainRequest{}
	if in.Body != nil {
		req = *in.Body
	}
	if c.st.Spec.Clusters[in.Name] == nil {
		return nil, notFound("cluster", in.Name)
	}
	var services []string
	if cs := c.st.Clusters[in.Name]; cs != nil && cs.Drain != nil {
		services = cs.Drain.Services
	}
	for _, name := range services {
		if err := allow(c.st, c.p, statestore.CanDrain, name); err != nil {
			return nil, err
		}
	}
	if len(services) == 0 {
		if err := allow(c.st, c.p, statestore.CanDrain, ""); err != nil {
			return nil, err
		}
	}
	act := apitype.Act{DryRun: req.DryRun, Impact: s.impacts(ctx, c, policy.UndrainImpact(c.st, in.Name), policy.UndrainRotations(c.st, in.Name)), Blocked: []apitype.Blocker{}}
	if req.DryRun {
		act.Text = "would undrain " + in.Name
		return envelope(c, "act", act), nil
	}
	res, err := s.propose(ctx, c, func(st *statestore.State) (statestore.Command, error) {
		return statestore.UndrainCluster{Cluster: in.Name, Reason: req.Reason, Rotations: policy.UndrainRotations(st, in.Name)}, nil
	})
	if err != nil {
		return nil, err
	}
	s.finish(c, &act, res, "undrained "+in.Name)
	act.Clears = clearsAt(c.st, servicesOf(c.st, in.Name), res.index)
	return envelope(c, "act", act), nil
}
