package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

func TestRefusalsAreProblemsWithStableTypes(t *testing.T) {
	big := strings.Repeat("x", maxBody)
	drain := `{"reason":"upgrade"}`
	tests := []struct {
		name, role, method, path, body string
		status                         int
		problem                        string
		want                           string // in the detail or the errors
	}{
		{"no token", "", "GET", "/v1/status", "", 401, "unauthorized", "no credentials"},
		{"unknown token", "nobody", "GET", "/v1/status", "", 401, "unauthorized", "not known"},
		{"a viewer may not drain", "viewer", "POST", "/v1/clusters/eu/drain", drain, 403, "forbidden", "may not drain"},
		{"a viewer may not see tokens", "viewer", "GET", "/v1/tokens", "", 403, "forbidden", "may not admin"},
		{"an operator may not apply", "operator", "PUT", "/v1/spec", `{"source":"x"}`, 403, "forbidden", "may not apply"},
		{"an operator may not plan", "operator", "POST", "/v1/plans", `{"source":"x"}`, 403, "forbidden", "may not apply"},
		{"an operator may not take a backup", "operator", "GET", "/v1/backup", "", 403, "forbidden", "may not admin"},
		{"a role of one service may not drain all", "webops", "POST", "/v1/clusters/eu/drain", drain, 403, "forbidden", "may not drain"},
		{"a role of one service may not drain another", "webops", "POST", "/v1/clusters/eu/drain", `{"reason":"r","services":["shop"]}`, 403, "forbidden", "for service shop"},
		{"a role of one service may not freeze all", "webops", "POST", "/v1/freeze", `{"reason":"r"}`, 403, "forbidden", "may not freeze"},
		{"a role of one service may not read another", "webops", "GET", "/v1/services/shop", "", 403, "forbidden", "for service shop"},
		{"unknown service", "admin", "GET", "/v1/services/nope", "", 404, "not-found", `"nope"`},
		{"unknown cluster", "admin", "POST", "/v1/clusters/nope/drain", drain, 404, "not-found", `"nope"`},
		{"unknown path", "admin", "GET", "/v1/nope", "", 404, "not-found", "/v1/nope"},
		{"unknown method", "admin", "PATCH", "/v1/spec", "{}", 405, "method-not-allowed", "GET, PUT"},
		{"unknown revision", "admin", "GET", "/v1/spec/revisions/99", "", 404, "not-found", `"99"`},
		{"unknown field", "admin", "POST", "/v1/clusters/eu/drain", `{"reason":"r","reasn":"x"}`, 422, "validation", "unexpected property"},
		{"unknown query parameter", "admin", "GET", "/v1/status?fresh=1", "", 422, "validation", "unknown query parameter"},
		{"duplicate field", "admin", "POST", "/v1/clusters/eu/drain", `{"reason":"r","reason":"s"}`, 422, "validation", "is given twice"},
		{"duplicate field in another case", "admin", "POST", "/v1/clusters/eu/drain", `{"reason":"r","Reason":"s"}`, 422, "validation", "is given twice"},
		{"no body", "admin", "POST", "/v1/clusters/eu/drain", "", 422, "validation", "body is required"},
		{"broken JSON", "admin", "POST", "/v1/clusters/eu/drain", "{\n  nope", 422, "validation", "invalid character"},
		{"two JSON values", "admin", "POST", "/v1/clusters/eu/drain", drain + drain, 422, "validation", ""},
		{"no reason", "admin", "POST", "/v1/clusters/eu/drain", `{"reason":" "}`, 422, "validation", "must say why"},
		{"bad duration", "admin", "POST", "/v1/clusters/eu/drain", `{"reason":"r","for":"soon"}`, 422, "validation", `is "soon"`},
		{"negative duration", "admin", "POST", "/v1/freeze", `{"reason":"r","for":"-1h"}`, 422, "validation", `is "-1h"`},
		{"unknown service in a drain", "admin", "POST", "/v1/clusters/eu/drain", `{"reason":"r","services":["nope"]}`, 422, "validation", `is "nope"`},
		{"body too large", "admin", "POST", "/v1/freeze", `{"reason":"` + big + `"}`, 413, "too-large", "65536 bytes"},
		{"undrain of what is not drained", "admin", "DELETE", "/v1/clusters/eu/drain", "", 404, "not-found", "is not drained"},
		{"thaw of what is not frozen", "admin", "DELETE", "/v1/freeze", "", 404, "not-found", "is not frozen"},
		{"revoke of an unknown token", "admin", "DELETE", "/v1/tokens/nope", "", 404, "not-found", "nope"},
		{"a spec that is none", "admin", "PUT", "/v1/spec", `{"source":"services: ["}`, 422, "validation", "must be a spec"},
		{"an empty spec", "admin", "PUT", "/v1/spec", `{"source":" "}`, 422, "validation", "is empty"},
		{"a key without behaviour", "admin", "POST", "/v1/plans", `{"source":"{\"version\":1,\"spillover\":{}}"}`, 422, "validation", "no behaviour"},
		{"another revision", "admin", "POST", "/v1/plans/9-aaaaaaaa/apply", `{"source":"{}"}`, 409, "stale-plan", "revision 1 is current"},
		{"apply of an unknown plan without source", "admin", "POST", "/v1/plans/2-aaaaaaaa/apply", "", 404, "not-found", "2-aaaaaaaa"},
		{"explain without a name", "admin", "GET", "/v1/explain", "", 422, "validation", "required"},
		{"explain with a bad client", "admin", "GET", "/v1/explain?name=web.gslb.test&client=x", "", 422, "validation", `is "x"`},
		{"explain on an unknown node", "admin", "GET", "/v1/explain?name=web.gslb.test&node=zz-9", "", 404, "not-found", "zz-9"},
		{"explain on another node without a way there", "admin", "GET", "/v1/explain?name=web.gslb.test&node=us-1", "", 501, "unsupported", "another node"},
		{"bad log level", "admin", "PUT", "/v1/node/log-level", `{"level":"loud"}`, 422, "validation", "debug, info"},
		{"CA in use", "admin", "DELETE", "/v1/ca/ab12", "", 409, "", ""},
		{"roll without a way", "admin", "POST", "/v1/ca/roll", "", 501, "unsupported", "roll the CA"},
	}
	r := newRig(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := r.store.State().Spec
			a := r.as(tt.role, tt.method, tt.path, tt.body)
			require.Equal(t, tt.status, a.status, a.body)
			p := a.problem(t)
			require.Equal(t, tt.status, p.Status)
			if tt.problem != "" {
				require.Equal(t, apitype.ProblemBase+tt.problem, p.Type)
			}
			require.NotEmpty(t, p.Title)
			text := p.Detail
			for _, e := range p.Errors {
				text += "\n" + e.Message
			}
			require.Contains(t, text, tt.want)
			require.Same(t, before, r.store.State().Spec, "a refused request changed the spec")
		})
	}
}

func TestErrorsOfABodyNameThePlace(t *testing.T) {
	r := newRig(t)
	p := r.post("/v1/clusters/eu/drain", "{\n  \"reason\": \"r\",\n  \"reason\": \"s\"}").problem(t)
	require.Equal(t, 3, p.Errors[0].Line)
	p = r.post("/v1/clusters/eu/drain", `{"reason":"r","for":7}`).problem(t)
	require.Equal(t, "/for", p.Errors[0].Pointer)
	p = r.as("admin", "PUT", "/v1/spec", `{"source":"{","name":"spec/web.yaml"}`).problem(t)
	require.Equal(t, "spec/web.yaml:1:1: services.web: must be a spec", p.Errors[0].Error())
}

func TestProposalErrorsAreToldApart(t *testing.T) {
	tests := []struct {
		name    string
		err     error
		status  int
		problem string
	}{
		{"no leader is certain", fmt.Errorf("propose: %w", ErrNoLeader), 503, "no-quorum"},
		{"unknown outcome is not failed (G8)", ErrUnknownOutcome, 504, "unknown-outcome"},
		{"a deadline is an unknown outcome (G8)", fmt.Errorf("propose: %w", context.DeadlineExceeded), 504, "unknown-outcome"},
		{"anything else is a fault", errors.New("boom"), 500, "internal"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			r.set(func() { r.fail = tt.err })
			a := r.post("/v1/freeze", `{"reason":"r"}`, "Idempotency-Key", "k-1")
			require.Equal(t, tt.status, a.status, a.body)
			p := a.problem(t)
			require.Equal(t, apitype.ProblemBase+tt.problem, p.Type)
			if tt.status == 503 {
				require.Positive(t, p.RetryAfter)
			} else {
				require.Equal(t, "k-1", p.RequestID)
			}
		})
	}
}

func TestAJoinTokenOfANewInstallationIsAskedForTooEarly(t *testing.T) {
	r := newRig(t)
	r.server.cfg.MintJoinToken = func() (JoinSecret, error) { return JoinSecret{}, fmt.Errorf("not yet: %w", ErrNoLeader) }
	a := r.post("/v1/members/join-tokens", "{}")
	require.Equal(t, 503, a.status, a.body)
	p := a.problem(t)
	require.Equal(t, apitype.ProblemBase+"no-quorum", p.Type)
	require.Contains(t, p.Detail, "not yet")
}

func TestDrainTakesTheClusterOutAndUndrainBringsItBack(t *testing.T) {
	r := newRig(t)
	dry := items[apitype.Act](t, r.post("/v1/clusters/eu/drain", `{"reason":"upgrade","dry_run":true}`))[0]
	require.True(t, dry.DryRun)
	require.Zero(t, dry.Index)
	require.Len(t, dry.Impact, 2)
	require.Nil(t, r.store.State().Clusters["eu"].Drain, "a dry run drained")

	act := items[apitype.Act](t, r.post("/v1/clusters/eu/drain", `{"reason":"upgrade","for":"2h"}`))[0]
	require.Equal(t, r.store.State().Index, act.Index)
	require.Equal(t, "admin-user", r.store.State().Clusters["eu"].Drain.By)
	require.WithinDuration(t, r.store.State().Now.Add(2*time.Hour), act.Until, time.Second)
	require.True(t, act.Clears.After(r.store.State().Now))
	st := items[apitype.Status](t, r.get("/v1/status"))[0]
	require.Equal(t, "eu", st.Clusters[1].Name)
	require.NotNil(t, st.Clusters[1].Drain)
	for _, s := range st.Services {
		for _, sh := range s.V4 {
			if sh.Cluster == "eu" {
				require.Zero(t, sh.Percent)
			}
		}
	}
	a := r.post("/v1/clusters/us/drain", `{"reason":"too"}`)
	require.Equal(t, 409, a.status)
	p := a.problem(t)
	require.Equal(t, apitype.ProblemBase+"blocked", p.Type)
	require.Greater(t, len(p.Blockers), 1, "all blockers are listed at once: %+v", p.Blockers)

	items[apitype.Act](t, r.as("admin", "DELETE", "/v1/clusters/eu/drain", ""))
	require.Nil(t, r.store.State().Clusters["eu"].Drain)
}

func TestARoleOfOneServiceMayActOnIt(t *testing.T) {
	r := newRig(t)
	items[apitype.Act](t, r.as("webops", "POST", "/v1/clusters/eu/drain", `{"reason":"r","services":["web"]}`))
	items[apitype.Act](t, r.as("webops", "POST", "/v1/freeze", `{"reason":"r","service":"web"}`))
	items[apitype.Act](t, r.as("webops", "DELETE", "/v1/freeze?service=web", ""))
	list := items[apitype.Service](t, r.as("webops", "GET", "/v1/services", ""))
	require.Len(t, list, 1)
	require.Equal(t, "web", list[0].Name)
}

func TestAPersonIsPlannedAnewWhenTheStateMovedMeanwhile(t *testing.T) {
	r := newRig(t)
	// A service loses dr between planning and applying: the rotations of the drain
	// are those of another state, which is no reason to bother the person.
	r.set(func() {
		r.before = func() { r.votes(2, false, map[health.ObserverID][]string{"eu-1": {"dr"}, "us-1": {"dr"}}) }
	})
	items[apitype.Act](t, r.post("/v1/clusters/eu/drain", `{"reason":"r"}`))
	require.NotNil(t, r.store.State().Clusters["eu"].Drain)
}

func TestStatusSaysWhatIsWrong(t *testing.T) {
	r := newRig(t)
	st := items[apitype.Status](t, r.get("/v1/status"))[0]
	require.Empty(t, st.Banners)
	require.Equal(t, apitype.Quorum{Available: true, Voters: 3, VotersUp: 3, Leader: "us-1", Tolerates: 1}, st.Quorum)
	web := st.Services[1]
	require.Equal(t, "web", web.Name)
	require.Equal(t, 3, web.TargetsUp)
	require.InDelta(t, 33.3, web.V4[0].Percent, 0.1)

	// One blind observer is outvoted and named (G1, G9).
	r.votes(2, false, map[health.ObserverID][]string{"ap-1": {"eu"}})
	r.must(statestore.FreezeService{Reason: "audit"})
	r.must(statestore.ObserverSilent{Observer: "us-1"})
	r.set(func() {
		r.quorum = QuorumView{Stale: 90 * time.Second, Voters: 3, VotersUp: 1, Trouble: "the disk is full"}
	})
	a := r.get("/v1/status")
	require.Equal(t, "true", a.header.Get("Quorate-Stale"))
	asOf, err := time.Parse(time.RFC3339Nano, a.header.Get("Quorate-As-Of"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(asOf), 90*time.Second, "the age said must never be below the true age (I11)")
	st = items[apitype.Status](t, a)[0]
	codes := map[string]string{}
	for _, b := range st.Banners {
		codes[b.Code] = b.Text
	}
	require.Contains(t, codes["no-quorum"], "NO QUORUM")
	require.Equal(t, "the disk is full", codes["out-of-consensus"], "a node that alone is out says so")
	require.Contains(t, codes["lone-observer"], "ap-1 alone sees")
	require.Contains(t, codes["lone-observer"], "web/eu down (refused)")
	require.Contains(t, codes["observer-silent"], "us-1")
	require.Contains(t, codes["frozen"], "all services frozen by setup: audit")
	require.False(t, st.Quorum.Available)
	require.False(t, st.Quorum.StaleSince.IsZero())
	require.Equal(t, 3, st.Services[1].TargetsUp, "an outvoted observer moves nothing")
}

func TestVotesNameEveryObserver(t *testing.T) {
	r := newRig(t)
	r.votes(2, false, map[health.ObserverID][]string{"eu-1": {"eu"}, "us-1": {"eu"}})
	r.must(statestore.ObserverSilent{Observer: "ap-1"})
	votes := items[apitype.TargetVotes](t, r.get("/v1/services/web/votes?cluster=eu"))
	require.Len(t, votes, 1)
	v := votes[0]
	require.Equal(t, health.Down, v.Verdict.Side)
	require.Equal(t, 2, v.Verdict.Down)
	require.Equal(t, 3, v.Verdict.Eligible, "a silent observer's region stays in the denominator")
	require.Equal(t, 2, v.Verdict.NeedDown)
	require.Len(t, v.Votes, 3)
	require.Equal(t, "ap-1", v.Votes[0].Observer)
	require.False(t, v.Votes[0].Counts)
	require.Equal(t, "silent", v.Votes[0].Note)
	require.Equal(t, "refused", v.Votes[1].Reason)
}

func TestABannerSaysThatTheDelegationMustFollow(t *testing.T) {
	r := newRig(t)
	m := *r.store.State().Members["us-1"]
	m.Version = "1.0.1"
	r.must(statestore.UpsertMember{Member: m})
	require.NotContains(t, r.get("/v1/status").body, "ns-changed", "a new version is no new address")
	m.DNS.IPv4 = append(m.DNS.IPv4, dr4)
	r.must(statestore.UpsertMember{Member: m})
	require.Contains(t, r.get("/v1/status").body, "ns-changed")
}

func TestExplainAsksTheFunctionThatAnswersQueries(t *testing.T) {
	r := newRig(t, func(c *Config) {
		c.Call = nil
	})
	ex := items[apitype.Explanation](t, r.get("/v1/explain?name=WEB.gslb.test&type=a&client=203.0.113.7"))[0]
	require.Equal(t, "NOERROR", ex.Rcode)
	require.Equal(t, "web", ex.Service)
	require.Equal(t, "web.gslb.test.", ex.Name)
	require.Len(t, ex.Answers, 1)
	require.NotEmpty(t, ex.Steps)
	ex = items[apitype.Explanation](t, r.get("/v1/explain?name=web.gslb.test&client=203.0.113.7&ecs=10.8.3.9/24"))[0]
	require.Contains(t, ex.Steps[1].Text, "203.0.113.7 (ECS 10.8.3.0/24)", "what resolvers say of their clients goes to it too")
	ex = items[apitype.Explanation](t, r.get("/v1/explain?name=Web"))[0]
	require.Equal(t, "REFUSED", ex.Rcode)
	require.Contains(t, ex.Steps[0].Note, "did you mean web.gslb.test? zones: ")
	ex = items[apitype.Explanation](t, r.get("/v1/explain?name=nobody"))[0]
	require.NotContains(t, ex.Steps[0].Note, "did you mean")
	ex = items[apitype.Explanation](t, r.as("webops", "GET", "/v1/explain?name=shop", ""))[0]
	require.NotContains(t, ex.Steps[0].Note, "did you mean", "what one may not read is not told")
	ex = items[apitype.Explanation](t, r.get("/v1/explain?name=nope.gslb.test"))[0]
	require.Equal(t, "NXDOMAIN", ex.Rcode)
	require.Equal(t, 403, r.as("webops", "GET", "/v1/explain?name=shop.gslb.test", "").status)
}

func TestExplainForwardsToTheNodeThatIsAsked(t *testing.T) {
	var asked string
	other := newRig(t)
	r := newRig(t, func(c *Config) {
		c.Node = "us-1"
	})
	r.server.cfg.Call = func(ctx ctxt, node, method string, body []byte) ([]byte, error) {
		asked = node + " " + method
		return other.server.Peer(ctx, "us-1", body)
	}
	ex := items[apitype.Explanation](t, r.get("/v1/explain?name=web.gslb.test&node=eu-1"))[0]
	require.Equal(t, "eu-1 api.explain", asked)
	require.Equal(t, "eu-1", ex.Node)
	r.server.cfg.Call = func(ctxt, string, string, []byte) ([]byte, error) { return nil, errors.New("cut off") }
	a := r.get("/v1/explain?name=web.gslb.test&node=eu-1")
	require.Equal(t, 502, a.status)
	require.Equal(t, apitype.ProblemBase+"node-unreachable", a.problem(t).Type)
}

func TestReadinessHoldsWithoutQuorum(t *testing.T) {
	r := newRig(t)
	r.set(func() { r.quorum = QuorumView{Stale: time.Hour} })
	for _, prefix := range []string{"", "/v1"} {
		require.Equal(t, 200, r.as("", "GET", prefix+"/readyz", "").status, "losing quorum must not fail readiness")
		require.Equal(t, 200, r.as("", "GET", prefix+"/livez", "").status)
		require.Equal(t, 503, r.as("", "GET", prefix+"/quorumz", "").status)
	}
	a := r.as("", "GET", "/readyz?verbose", "")
	require.Equal(t, "[+]sockets ok\n[+]table ok\nok\n", a.body)
	r.set(func() { r.noTable = true })
	require.Equal(t, 503, r.as("", "GET", "/readyz", "").status)
	r.set(func() { r.noTable, r.unbound = false, true })
	require.Equal(t, 503, r.as("", "GET", "/readyz", "").status)
	require.Equal(t, 200, r.as("", "GET", "/livez", "").status)
}

func TestLinearizableReadsNeedALeader(t *testing.T) {
	r := newRig(t)
	require.Equal(t, 200, r.get("/v1/status?consistency=linearizable").status)
	r.server.cfg.ReadIndex = func(ctxt) (uint64, error) { return 0, ErrNoLeader }
	a := r.get("/v1/status?consistency=linearizable")
	require.Equal(t, 503, a.status)
	require.Equal(t, apitype.ProblemBase+"no-quorum", a.problem(t).Type)
	require.Equal(t, 200, r.get("/v1/status").status)
}

func TestTheOpenAPIDocumentIsTheOneCheckedIn(t *testing.T) {
	r := newRig(t)
	got := r.as("", "GET", "/v1/openapi.json", "").body
	const file = "../docs/reference/openapi.json"
	if *update {
		require.NoError(t, os.MkdirAll("../docs/reference", 0o755))
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "run: go test ./api -run OpenAPI -update")
	require.True(t, json.Valid([]byte(got)))
}

func TestAppliedRevisions(t *testing.T) {
	r := newRig(t)
	a := r.get("/v1/spec")
	require.Equal(t, `"1"`, a.header.Get("ETag"))
	spec := testSpec()
	spec.Services["web"].TTL.Normal = statestore.Duration(20 * time.Second)
	body := func(fields map[string]any) string {
		data, err := json.Marshal(fields)
		require.NoError(t, err)
		return string(data)
	}
	source := specText(spec)
	plan := items[apitype.Plan](t, r.post("/v1/plans", body(map[string]any{"source": source})))[0]
	require.Regexp(t, `^2-[0-9a-f]{8}$`, plan.ID)
	require.Equal(t, "ttl", plan.Class)
	require.NotEmpty(t, plan.Changes)
	require.Contains(t, plan.Warnings, "a warning of the decoder")
	require.EqualValues(t, 1, r.store.State().Revision, "a plan applied itself")

	// Any node can check a plan: another one gives it the same id.
	require.Equal(t, plan.ID, items[apitype.Plan](t, newRig(t).post("/v1/plans", body(map[string]any{"source": source})))[0].ID)
	require.Equal(t, plan, items[apitype.Plan](t, r.get("/v1/plans/"+plan.ID))[0])

	p := r.post("/v1/plans/"+plan.ID+"/apply", body(map[string]any{"source": source + "\n"})).problem(t)
	require.Contains(t, p.Errors[0].Message, "the text that plan")
	done := items[apitype.Plan](t, r.post("/v1/plans/"+plan.ID+"/apply", body(map[string]any{"source": source, "reason": "shorter"})))[0]
	require.NotZero(t, done.Applied)
	require.EqualValues(t, 2, r.store.State().Revision)
	require.Equal(t, 409, r.post("/v1/plans/"+plan.ID+"/apply", "").status, "a plan applies once")

	require.Equal(t, 412, r.as("admin", "PUT", "/v1/spec", body(map[string]any{"source": source}), "If-Match", `"1"`).status)
	require.Equal(t, 200, r.as("admin", "PUT", "/v1/spec", body(map[string]any{"source": source}), "If-Match", `"2"`).status)
	items[apitype.Plan](t, r.post("/v1/spec/rollback", `{"revision":1}`))
	require.EqualValues(t, 4, r.store.State().Revision)
	require.Equal(t, 30*time.Second, r.store.State().Spec.Services["web"].TTL.Normal.D())
	revs := items[apitype.Revision](t, r.get("/v1/spec/revisions"))
	require.Len(t, revs, 4)
	require.True(t, revs[0].Current)
	require.Equal(t, "rollback to revision 1", revs[0].Reason)
	require.Equal(t, "shorter", revs[2].Reason)
	require.Equal(t, source, items[apitype.Spec](t, r.get("/v1/spec/revisions/2"))[0].Source)
}

func TestGuardRailsNeedForce(t *testing.T) {
	r := newRig(t)
	spec := testSpec()
	delete(spec.Services, "shop")
	delete(spec.Clusters, "dr")
	spec.Services["web"].Clusters.Only = []string{"eu", "us"}
	data, err := json.Marshal(map[string]any{"source": specText(spec)})
	require.NoError(t, err)
	a := r.as("admin", http.MethodPut, "/v1/spec", string(data))
	require.Equal(t, 409, a.status, a.body)
	p := a.problem(t)
	require.Equal(t, apitype.ProblemBase+"blocked", p.Type)
	require.True(t, p.Blockers[0].Waivable)
	forced, err := json.Marshal(map[string]any{"source": specText(spec), "force": true})
	require.NoError(t, err)
	require.Equal(t, 200, r.as("admin", http.MethodPut, "/v1/spec", string(forced)).status)
}
