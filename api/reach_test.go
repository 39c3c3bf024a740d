package api

import (
	"encoding/json"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/statestore"
)

// placedSpec answers web by place, in two regions; a network of each cluster is known.
func placedSpec() *statestore.Spec {
	spec := testSpec()
	spec.Regions = map[string]*statestore.Region{
		"eu-west": {Coordinates: &statestore.Coordinates{Latitude: 53, Longitude: -6}},
		"us-east": {Coordinates: &statestore.Coordinates{Latitude: 39, Longitude: -77}},
	}
	spec.Clusters["eu"].CIDRs = []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}
	spec.Clusters["us"].CIDRs = []netip.Prefix{netip.MustParsePrefix("10.2.0.0/16")}
	spec.Services["web"].Policy = statestore.Policy{Type: statestore.Geo, Affinity: statestore.LocalAffinity}
	spec.Services["web"].Clusters.Only = []string{"eu", "us"}
	delete(spec.Clusters, "dr")
	return spec
}

func newPlacedRig(t *testing.T) *rig {
	r := newRig(t)
	r.apply1(placedSpec())
	r.votes(2, true, nil)
	return r
}

func (r *rig) plan(spec *statestore.Spec) apitype.Plan {
	r.t.Helper()
	body, err := json.Marshal(map[string]string{"source": specText(spec)})
	require.NoError(r.t, err)
	return items[apitype.Plan](r.t, r.post("/v1/plans", string(body)))[0]
}

func reached(c apitype.ClientReach, service string) apitype.ServiceReach {
	for _, s := range c.Services {
		if s.Service == service {
			return s
		}
	}
	return apitype.ServiceReach{}
}

func TestAPlanShowsWhichClientsMove(t *testing.T) {
	r := newPlacedRig(t)
	spec := placedSpec()
	spec.Services["web"].Policy.Affinity = statestore.RemoteAffinity
	p := r.plan(spec)
	require.Equal(t, 4, p.Clients.Sampled, "two regions and two networks")
	require.Len(t, p.Clients.Services, 1, "shop stays as it is")
	web := reached(p.Clients, "web")
	require.Equal(t, 4, web.Moved)
	require.Contains(t, web.Moves, apitype.ClientMove{Client: "region eu-west", Region: "eu-west", Before: "eu", After: "us"})
	require.Contains(t, web.Moves, apitype.ClientMove{Client: "cluster us 10.2.0.0/16", Region: "us-east", Before: "us", After: "eu"})
	require.Equal(t, []apitype.Match{}, p.Matches)

	body, err := json.Marshal(map[string]string{"source": specText(spec)})
	require.NoError(t, err)
	require.Equal(t, p.Clients, items[apitype.Plan](t, r.post("/v1/plans/"+p.ID+"/apply", string(body)))[0].Clients, "apply says it once more")
	require.Empty(t, r.plan(spec).Clients.Services, "nothing is left to change")
	back := items[apitype.Plan](t, r.post("/v1/spec/rollback", `{"revision":2,"dry_run":true}`))[0]
	require.Equal(t, 4, reached(back.Clients, "web").Moved)
}

func TestAPlanShowsWhoGetsNothingAnyMore(t *testing.T) {
	r := newPlacedRig(t)
	spec := placedSpec()
	spec.Services["web"].Residency = map[string][]string{"EU": {"us"}}
	spec.Services["new"] = spec.Services["web"]
	delete(spec.Services, "shop")
	spec.Services["web"] = new(*spec.Services["web"])
	spec.Services["new"].Names = []string{"new"}
	p := r.plan(spec)
	shop := reached(p.Clients, "shop")
	require.Equal(t, 0, shop.Moved)
	require.Equal(t, p.Clients.Sampled, shop.Lost)
	require.Equal(t, "eu 50%, us 50%", shop.Moves[0].Before)
	require.Equal(t, "NXDOMAIN", shop.Moves[0].After)
	require.Empty(t, reached(p.Clients, "new"), "nobody was answered before")
}

func TestAPlanShowsWhatSelectorsPick(t *testing.T) {
	r := newRig(t)
	spec := testSpec()
	spec.Services["web"].Clusters = statestore.Selector{Match: "region in (eu-west,us-east)"}
	spec.Services["all"] = new(*spec.Services["web"])
	spec.Services["all"].Names, spec.Services["all"].Clusters = []string{"all"}, statestore.Selector{Exclude: []string{"dr"}}
	require.Equal(t, []apitype.Match{
		{Service: "all", Selector: "all clusters, exclude: [dr]", Clusters: []string{"eu", "us"}},
		{Service: "web", Selector: `match: "region in (eu-west,us-east)"`, Clusters: []string{"eu", "us"}, Went: []string{"dr"}},
	}, r.plan(spec).Matches)
	spec = testSpec()
	spec.Services["shop"].Clusters.Only = []string{"dr", "eu"}
	require.Equal(t, []apitype.Match{
		{Service: "shop", Selector: "only: [dr, eu]", Clusters: []string{"dr", "eu"}, Came: []string{"dr"}, Went: []string{"us"}},
	}, r.plan(spec).Matches)
}

func TestASimulationShowsWhichClientsMove(t *testing.T) {
	r := newPlacedRig(t)
	sim := items[apitype.Simulation](t, r.get("/v1/simulate?if=eu=down"))[0]
	web := reached(sim.Clients, "web")
	require.Equal(t, 2, web.Moved, "those of eu-west: %+v", web)
	require.Equal(t, "us", web.Moves[0].After)
	require.NotEmpty(t, reached(sim.Clients, "shop").Moves)
	mine := items[apitype.Simulation](t, r.as("webops", "GET", "/v1/simulate?if=eu=down", ""))[0]
	require.Empty(t, reached(mine.Clients, "shop"), "what one may not read is not told")
	require.Equal(t, web, reached(mine.Clients, "web"))
	scope := r.explained("name=web.gslb.test&client=10.1.2.3").Scope
	require.Positive(t, scope)
	require.Equal(t, scope, r.explained("name=web.gslb.test&client=10.1.2.3&if=eu=up").Scope)
	require.Zero(t, r.explained("name=shop.gslb.test&client=10.1.2.3").Scope, "everybody is answered alike")
}
