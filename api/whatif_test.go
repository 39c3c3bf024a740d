package api

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

func (r *rig) explained(query string) apitype.Explanation {
	r.t.Helper()
	return items[apitype.Explanation](r.t, r.get("/v1/explain?"+query))[0]
}

// Whoever compares both must not find a difference that nobody supposed.
func TestSupposingWhatIsSoExplainsTheSame(t *testing.T) {
	r := newStatefulRig(t)
	for _, name := range []string{"web.gslb.test", "shop.gslb.test", "orders-db.gslb.test", "nope.gslb.test", "elsewhere.test"} {
		for _, client := range []string{"", "&client=203.0.113.7", "&client=203.0.113.7&ecs=198.51.100.0/24"} {
			query := "name=" + name + client
			is := r.explained(query)
			supposed := r.explained(query + "&if=eu=up,us=up")
			require.Equal(t, []string{"eu=up", "us=up"}, supposed.Conditions)
			require.Equal(t, "if", supposed.Steps[0].Step)
			require.Equal(t, "suppose eu=up, us=up: a supposition, answers stay as they are", supposed.Steps[0].Text)
			supposed.Conditions, supposed.Steps = nil, supposed.Steps[1:]
			require.Equal(t, is, supposed)
		}
	}
}

func TestExplainSupposes(t *testing.T) {
	r := newRig(t)
	index := r.store.State().Index
	ex := r.explained("name=shop.gslb.test&if=eu=down")
	require.Equal(t, []string{"us"}, ex.Clusters)
	require.Equal(t, []string{"198.51.100.10"}, ex.Answers)
	ex = r.explained("name=shop.gslb.test&if=us%3Ddrained")
	require.Equal(t, []string{"eu"}, ex.Clusters)
	ex = r.explained("name=web.gslb.test&if=web=dr")
	require.Equal(t, []string{"dr"}, ex.Clusters)
	ex = r.explained("name=Web&if=eu=down")
	require.Contains(t, ex.Steps[1].Note, "did you mean web.gslb.test?", "the hint is at the step of the name")
	require.Equal(t, index, r.store.State().Index, "nothing was written")
	require.Nil(t, r.store.State().Clusters["us"].Drain)
}

func TestAnotherNodeSupposesOnItsOwnTable(t *testing.T) {
	other, r := newRig(t), newRig(t, func(c *Config) { c.Node = "us-1" })
	other.votes(2, false, map[health.ObserverID][]string{"eu-1": {"dr"}, "us-1": {"dr"}})
	r.server.cfg.Call = func(ctx ctxt, _, _ string, body []byte) ([]byte, error) {
		return other.server.Peer(ctx, "us-1", body)
	}
	ex := r.explained("name=shop.gslb.test&node=eu-1&if=eu=down")
	require.Equal(t, "eu-1", ex.Node)
	require.Equal(t, []string{"us"}, ex.Clusters)
	require.Equal(t, []string{"eu=down"}, ex.Conditions)
	require.Equal(t, other.store.State().TableIndex, ex.Index)
	require.Equal(t, 422, r.get("/v1/explain?name=shop.gslb.test&node=eu-1&if=eu=ill").status, "said by this node")
}

func TestSimulateComparesEveryService(t *testing.T) {
	r := newStatefulRig(t)
	sim := items[apitype.Simulation](t, r.get("/v1/simulate?if=eu=down"))[0]
	require.Equal(t, []string{"eu=down"}, sim.Conditions)
	require.Equal(t, "eu-1", sim.Node)
	require.Contains(t, sim.Quorum, "3 of 3 voters")
	byName := map[string]apitype.SimulatedService{}
	for _, s := range sim.Services {
		byName[s.Service] = s
	}
	require.Equal(t, []apitype.Percent{{Cluster: "us", Percent: 100}}, byName["shop"].After)
	require.Len(t, byName["shop"].Before, 2)
	require.Contains(t, byName["shop"].Text, "eu 50%, us 50% -> us")
	require.Contains(t, byName["orders-db"].Text, "stays on eu", "nothing moves a stateful service by itself")
	require.Contains(t, strings.Join(sim.Notes, "\n"), "orders-db stays on eu")
	require.NotNil(t, sim.Clients.Services)
}

func TestLosingTheQuorumMovesNothing(t *testing.T) {
	r := newRig(t)
	both := items[apitype.Simulation](t, r.get("/v1/simulate?lose_region=eu&if=us=lost"))[0]
	require.Equal(t, []string{"us=lost", "eu=lost"}, both.Conditions)
	require.Contains(t, both.Quorum, "no quorum")
	for _, s := range both.Services {
		require.Equal(t, s.Before, s.After, s.Service)
	}
	one := items[apitype.Simulation](t, r.get("/v1/simulate?lose_region=eu"))[0]
	require.Contains(t, one.Quorum, "2 of 3 voters left: quorum holds")

	// The state says that two are enough; this node knows that one of them is away.
	r.set(func() {
		r.quorum.Servers = []RaftServer{{Name: "eu-1", Voter: true}, {Name: "us-1", Voter: true, Reachable: true}, {Name: "ap-1", Voter: true}}
	})
	one = items[apitype.Simulation](t, r.get("/v1/simulate?lose_region=eu&if=eu=down"))[0]
	require.Equal(t, "1 of 3 voters left, since ap-1 cannot be reached now: no quorum, answers stay as they are", one.Quorum)
	for _, s := range one.Services {
		require.Equal(t, s.Before, s.After, s.Service)
	}
	require.Contains(t, r.explained("name=shop.gslb.test&if=eu=lost,eu=down").Steps[0].Note, "no quorum, answers stay as they are")
}

func TestWhatIfsThatAreRefused(t *testing.T) {
	r := newStatefulRig(t)
	r.proposed()
	tests := []struct {
		name, role, path string
		status           int
		problem, want    string
	}{
		{"nothing is supposed", "viewer", "/v1/simulate", 422, "validation", "must say what to suppose"},
		{"nothing but commas", "viewer", "/v1/simulate?if=,%20,", 422, "validation", "must say what to suppose"},
		{"an unknown cluster", "viewer", "/v1/simulate?if=nope=down", 422, "validation", "no cluster is named nope"},
		{"an unknown region", "viewer", "/v1/simulate?lose_region=nope", 422, "validation", "nope"},
		{"an unknown state", "viewer", "/v1/explain?name=web.gslb.test&if=eu=ill", 422, "validation", "eu=ill"},
		{"no condition", "viewer", "/v1/explain?name=web.gslb.test&if=eu", 422, "validation", "must be CLUSTER=down"},
		{"both of a thing", "viewer", "/v1/explain?name=web.gslb.test&if=eu=down,eu=up", 422, "validation", "contradicts"},
		{"too many", "viewer", "/v1/explain?name=web.gslb.test&if=" + strings.Repeat("eu=down,", maxConditions+1), 422, "validation", "at most 64 conditions"},
		{"a stateful service is not pinned", "viewer", "/v1/simulate?if=orders-db=us", 422, "validation", "cannot be pinned"},
		{"a service that one may not read", "webops", "/v1/simulate?if=shop/eu=down", 403, "forbidden", "for service shop"},
		{"a pin of a service that one may not read", "webops", "/v1/explain?name=web.gslb.test&if=shop=us", 403, "forbidden", "for service shop"},
		{"a cutover that one may not read", "webops", "/v1/simulate?if=CUT-1=approved", 403, "forbidden", "for service orders-db"},
		{"an answer that one may not read", "webops", "/v1/explain?name=shop.gslb.test&if=eu=down", 403, "forbidden", "for service shop"},
		{"an unknown parameter", "viewer", "/v1/simulate?iff=eu=down", 422, "validation", "unknown query parameter"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := r.as(tt.role, "GET", tt.path, "")
			require.Equal(t, tt.status, a.status, a.body)
			require.Equal(t, apitype.ProblemBase+tt.problem, a.problem(t).Type)
			require.Contains(t, a.body, jsonText(tt.want))
		})
	}
}

func TestAWhatIfTellsOnlyOfWhatOneMayRead(t *testing.T) {
	r := newStatefulRig(t)
	for _, path := range []string{"/v1/simulate?if=eu=down", "/v1/explain?name=web.gslb.test&if=eu=down"} {
		require.Contains(t, r.get(path).body, "orders-db stays on eu", path)
		body := r.as("webops", "GET", path, "").body
		require.Contains(t, body, "web")
		require.NotContains(t, body, "orders-db", path)
		require.NotContains(t, body, "shop", path)
	}
}

func TestWhatIfsAreBounded(t *testing.T) {
	r := newRig(t)
	limited := 0
	for range whatIfBurst + 10 {
		if r.as("viewer", "GET", "/v1/simulate?if=eu=down", "").status == 429 {
			limited++
		}
	}
	require.Positive(t, limited)
	require.Equal(t, 200, r.get("/v1/simulate?if=eu=down").status, "another person is not held up")
	require.Equal(t, 200, r.as("viewer", "GET", "/v1/explain?name=web.gslb.test", "").status, "what is so costs nothing")
}

func TestAHostnamesAddressesAreNoChangeOfAPlan(t *testing.T) {
	r := newRig(t)
	spec := testSpec()
	spec.Clusters["lb"] = &statestore.Cluster{ID: 9, Region: "eu-west", Hostname: "lb.test."}
	spec.Services["web"].Clusters.Only = append(spec.Services["web"].Clusters.Only, "lb")
	r.apply1(spec)
	written := specText(spec)
	r.must(statestore.ResolveCluster{Cluster: "lb", Hostname: "lb.test.", Addrs: addrs("203.0.113.99")})
	r.votes(2, true, nil)
	r.settle() // it is up, and answers now
	answers := func() bool {
		return slices.ContainsFunc(r.store.State().Services["web"].Rotation.V4.Shares, func(s statestore.Share) bool { return s.Cluster == "lb" })
	}
	require.True(t, answers())
	source := jsonText(strings.Replace(written, `"normal": "30s"`, `"normal": "20s"`, 1))
	plan := items[apitype.Plan](t, r.post("/v1/plans", `{"source":"`+source+`"}`))[0]
	for _, ch := range plan.Changes {
		require.NotContains(t, ch.Path, "clusters.lb", "it has its addresses still")
	}
	require.Len(t, plan.Changes, 1)
	done := items[apitype.Plan](t, r.post("/v1/plans/"+plan.ID+"/apply", `{"source":"`+source+`"}`))[0]
	require.NotZero(t, done.Applied)
	require.Equal(t, addrs("203.0.113.99"), r.store.State().Spec.Clusters["lb"].IPv4)
	require.True(t, answers(), "the spec as it is written does not take it out")
}
