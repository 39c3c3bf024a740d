package api

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/statestore"
)

type drainsInput struct {
	writing
	Body apitype.DrainsRequest
}

func (s *Server) drainsRoutes(api huma.API) {
	op := operation(http.MethodPost, "/drains", "drains", "Take several clusters out of answers at once", statestore.CanDrain, actErrors...)
	op.Description = "Needs the capability `drain`. The rules are judged on the state with all of them out; each is brought back by itself."
	huma.Register(api, op, s.drains)
}

// drains takes several clusters out in one entry, judged together: one after the
// other could be refused half way.
func (s *Server) drains(ctx context.Context, in *drainsInput) (*output[apitype.Act], error) {
	c, req := callOf(ctx), in.Body
	clusters, err := drainable(c.st.Spec, req)
	if err != nil {
		return nil, err
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
	names := strings.Join(clusters, ", ")
	if d, err := s.drainedAlready(ctx, c, clusters, statestore.Drain{Services: services, Reason: req.Reason}, length); err != nil || d != nil {
		if err != nil {
			return nil, err
		}
		return envelope(c, "act", apitype.Act{
			DryRun: req.DryRun, Impact: []apitype.Impact{}, Blocked: []apitype.Blocker{},
			Text: fmt.Sprintf("%s drained already%s, %s, by %s: %s; nothing changes", areAll(clusters), forServices(d.Services), ending(d.Until, s.now(c.st), "undrained"), d.By, d.Reason),
		}), nil
	}
	act := apitype.Act{
		DryRun:  req.DryRun,
		Impact:  s.impacts(ctx, c, policy.DrainsImpact(c.st, clusters, services), policy.DrainsRotations(c.st, clusters, services)),
		Blocked: blockersView(policy.CheckDrains(c.st, clusters, services)),
	}
	if req.DryRun {
		act.Text = "would drain " + names
		return envelope(c, "act", act), nil
	}
	res, err := s.propose(ctx, c, func(st *statestore.State) (statestore.Command, error) {
		if blockers := policy.CheckDrains(st, clusters, services); len(blockers) > 0 {
			return nil, blocked(blockersView(blockers))
		}
		return statestore.DrainClusters{
			Clusters: clusters, Services: services, For: length, Reason: req.Reason,
			Rotations: policy.DrainsRotations(st, clusters, services),
		}, nil
	})
	if err != nil {
		return nil, err
	}
	act.Blocked = []apitype.Blocker{}
	text := "drained " + names
	if cs := c.st.Clusters[clusters[0]]; cs != nil && cs.Drain != nil && !res.replayed { // else the drain of now may be another one
		act.Until = cs.Drain.Until
		text += forServices(services) + " " + ending(act.Until, s.now(c.st), "undrained")
	}
	s.finish(c, &act, res, text)
	affected := map[string]bool{}
	for _, cluster := range clusters {
		for _, service := range servicesOf(c.st, cluster) {
			affected[service] = true
		}
	}
	act.Clears = clearsAt(c.st, slices.Sorted(maps.Keys(affected)), res.index)
	return envelope(c, "act", act), nil
}

// areAll names clusters as a subject.
func areAll(clusters []string) string {
	if len(clusters) == 1 {
		return clusters[0] + " is"
	}
	return strings.Join(clusters, ", ") + " are"
}

// drainable returns the clusters that a request is about, sorted.
func drainable(sp *statestore.Spec, req apitype.DrainsRequest) ([]string, error) {
	switch {
	case len(req.Clusters) > 0 && req.Match != "":
		return nil, invalidField("/match", "must not be given with clusters, is %q", req.Match)
	case len(req.Clusters) == 0 && req.Match == "":
		return nil, invalidField("/clusters", "must name a cluster, or match must select some, is empty")
	case req.Match == "":
		for i, name := range req.Clusters {
			if sp.Clusters[name] == nil {
				return nil, invalidField(fmt.Sprintf("/clusters/%d", i), "must be a cluster, is %q", name)
			}
		}
		return slices.Compact(slices.Sorted(slices.Values(req.Clusters))), nil
	}
	selector, err := labels.Parse(req.Match)
	if err != nil {
		return nil, invalidField("/match", "must be a label selector such as cloud=aws, is %q: %v", req.Match, err)
	}
	var names []string
	for _, name := range sortedKeys(sp.Clusters) {
		if selector.Matches(labels.Set(sp.Clusters[name].LabelSet(name))) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, invalidField("/match", "must match a cluster, %q matches none", req.Match)
	}
	return names, nil
}

// mayDrain returns the services that a drain is for, sorted, if the caller may drain
// each; without any the drain is for all, which takes the right to all.
func mayDrain(c *call, wanted []string) ([]string, error) {
	for i, name := range wanted {
		if c.st.Spec.Services[name] == nil {
			return nil, invalidField(fmt.Sprintf("/services/%d", i), "must be a service, is %q", name)
		}
		if err := allow(c.st, c.p, statestore.CanDrain, name); err != nil {
			return nil, err
		}
	}
	if len(wanted) == 0 {
		return nil, allow(c.st, c.p, statestore.CanDrain, "")
	}
	return slices.Compact(slices.Sorted(slices.Values(wanted))), nil
}
