package api

import (
	"context"
	"slices"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/routing"
	"github.com/quorate/quorate/statestore"
)

// impacts shows what an act with those rotations does to services. Where the answer
// depends on the client, weights say little: their parts are those of the clients who
// asked lately, if anybody did.
func (s *Server) impacts(ctx context.Context, c *call, impacts []policy.Impact, rotations []statestore.RotationChange) []apitype.Impact {
	out := impactsView(impacts)
	byClient := func(im apitype.Impact) bool { return im.Moves && c.st.Spec.Services[im.Service].ByClient() }
	if !slices.ContainsFunc(out, byClient) {
		return out
	}
	tr := s.traffic(ctx)
	before := s.tableOf(s.cfg.Table(), c.st)
	after := s.tableOf(before, policy.SupposeRotations(c.st, rotations))
	for i := range out {
		if im := &out[i]; byClient(*im) {
			was, is := observedParts(before, im.Service, tr.service[im.Service]), observedParts(after, im.Service, tr.service[im.Service])
			if was != nil && is != nil {
				im.Before, im.After, im.ObservedSeconds = was, is, tr.hour.Seconds()
			}
		}
	}
	return out
}

// observedParts returns the clusters' parts of the answers to those who asked lately,
// by name; nil: nobody did.
func observedParts(t *routing.Table, service string, sum *serviceTraffic) []apitype.Percent {
	spec := t.State().Spec
	if sum == nil || len(sum.networks) == 0 || spec.Services[service] == nil {
		return nil
	}
	types := typesOf(endpoints(spec, spec.Candidates(service)))
	if len(types) == 0 {
		return nil
	}
	name, all, got := askedOf(spec, spec, service), 0.0, map[string]float64{}
	for _, n := range sum.networks[:min(len(sum.networks), maxObserved)] {
		shares, _ := t.Shares(name, types[0], t.Client(n.Prefix))
		for _, sh := range shares {
			got[sh.Cluster] += sh.Percent * float64(n.Queries)
			all += sh.Percent * float64(n.Queries)
		}
	}
	out := []apitype.Percent{}
	for _, cluster := range sortedKeys(got) {
		if cluster != "" { // the sorry address
			out = append(out, apitype.Percent{Cluster: cluster, Percent: 100 * got[cluster] / all})
		}
	}
	return out
}
