package api

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/health"
)

func (r *rig) override(service, body string, headers ...string) apitype.Act {
	r.t.Helper()
	return items[apitype.Act](r.t, r.as("admin", "PUT", "/v1/services/"+service+"/override", body, headers...))[0]
}

func (r *rig) service(name string) apitype.Service {
	r.t.Helper()
	return items[apitype.Service](r.t, r.get("/v1/services/"+name))[0]
}

func TestAnOverridePinsTheAnswerAndItsEndUnpinsIt(t *testing.T) {
	r := newRig(t)
	dry := r.override("web", `{"cluster":"us","reason":"eu answers 500","for":"30m","dry_run":true}`)
	require.True(t, dry.DryRun)
	require.Equal(t, "would pin web to us", dry.Text)
	require.Len(t, dry.Impact, 1)
	require.True(t, dry.Impact[0].Moves)
	require.Equal(t, []apitype.Percent{{Cluster: "us", Percent: 100}}, dry.Impact[0].After)
	require.Empty(t, dry.Blocked)
	require.Nil(t, r.store.State().Services["web"].Override, "a dry run pinned")

	act := r.override("web", `{"cluster":"us","reason":"eu answers 500","for":"30m"}`)
	require.Regexp(t, `^pinned web to us until \d\d:\d\d:\d\dZ$`, act.Text)
	require.Equal(t, r.store.State().Index, act.Index)
	require.WithinDuration(t, r.store.State().Now.Add(30*time.Minute), act.Until, time.Second)
	require.True(t, act.Clears.After(r.store.State().Now), "old answers are in caches")
	events := r.store.State().Events
	require.Equal(t, "service.overridden", events[len(events)-1].Type)
	require.Equal(t, "admin-user", events[len(events)-1].Actor)

	web := r.service("web")
	require.Equal(t, "us", web.Override.Cluster)
	require.Empty(t, web.Override.Note)
	for _, sh := range web.V4 {
		require.Equal(t, sh.Cluster == "us", sh.Percent == 100, "%+v", sh)
	}
	require.Contains(t, web.Notes[0], "pinned to us by admin-user, until ")
	ex := items[apitype.Explanation](t, r.get("/v1/explain?name=web.gslb.test"))[0]
	require.Equal(t, []string{"us"}, ex.Clusters)

	clear := items[apitype.Act](t, r.as("admin", "DELETE", "/v1/services/web/override", `{"dry_run":true}`))[0]
	require.Equal(t, "would let the policy answer for web", clear.Text)
	require.True(t, clear.Impact[0].Moves)
	clear = items[apitype.Act](t, r.as("admin", "DELETE", "/v1/services/web/override", `{"reason":"fixed"}`))[0]
	require.Equal(t, "the policy answers for web again", clear.Text)
	require.Nil(t, r.service("web").Override)
	require.Equal(t, 404, r.as("admin", "DELETE", "/v1/services/web/override", "").status, "there is none any more")
	require.Equal(t, 404, r.as("admin", "DELETE", "/v1/services/web/override", `{"dry_run":true}`).status, "a dry run says so too")
}

func TestOverridesThatAreRefused(t *testing.T) {
	r := newStatefulRig(t)
	items[apitype.Act](t, r.post("/v1/drains", `{"clusters":["dr"],"services":["web"],"reason":"r"}`))
	tests := []struct {
		name, role, service, body string
		status                    int
		problem, want             string
	}{
		{"a viewer", "viewer", "web", `{"cluster":"us","reason":"r"}`, 403, "forbidden", "may not override"},
		{"a role that may drain", "webops", "web", `{"cluster":"us","reason":"r"}`, 403, "forbidden", "may not override"},
		{"an unknown service", "admin", "nope", `{"cluster":"us","reason":"r"}`, 404, "not-found", `no service is named "nope"`},
		{"an unknown cluster", "admin", "web", `{"cluster":"nope","reason":"r"}`, 404, "not-found", `no cluster is named "nope"`},
		{"no reason", "admin", "web", `{"cluster":"us","reason":" "}`, 422, "validation", "must say why"},
		{"a bad duration", "admin", "web", `{"cluster":"us","reason":"r","for":"soon"}`, 422, "validation", `is "soon"`},
		{"an unknown field", "admin", "web", `{"cluster":"us","reason":"r","force":true}`, 422, "validation", "unexpected property"},
		{"what is no candidate", "admin", "shop", `{"cluster":"dr","reason":"r"}`, 409, "blocked", "override_candidate"},
		{"what is drained", "admin", "web", `{"cluster":"dr","reason":"r"}`, 409, "blocked", "override_drained"},
		{"a stateful service", "admin", "orders-db", `{"cluster":"us","reason":"r"}`, 409, "blocked", "override_stateful"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := r.as(tt.role, "PUT", "/v1/services/"+tt.service+"/override", tt.body)
			require.Equal(t, tt.status, a.status, a.body)
			require.Equal(t, apitype.ProblemBase+tt.problem, a.problem(t).Type)
			require.Contains(t, a.body, jsonText(tt.want))
			for _, ss := range r.store.State().Services {
				require.Nil(t, ss.Override)
			}
		})
	}
	require.Equal(t, 403, r.as("webops", "DELETE", "/v1/services/web/override", "").status)
	require.Equal(t, 404, r.as("admin", "DELETE", "/v1/services/nope/override", "").status)
}

func TestAClusterThatIsNotUpCannotBePinned(t *testing.T) {
	r := newRig(t)
	r.votes(2, false, map[health.ObserverID][]string{"eu-1": {"us"}, "us-1": {"us"}})
	dry := r.override("web", `{"cluster":"us","reason":"r","dry_run":true}`)
	require.Equal(t, "override_target_up", dry.Blocked[0].Rule)
	require.False(t, dry.Blocked[0].Waivable)
	p := r.as("admin", "PUT", "/v1/services/web/override", `{"cluster":"us","reason":"r"}`).problem(t)
	require.Equal(t, "override_target_up", p.Blockers[0].Rule)

	// It goes down between planning and applying: refused, not pinned to a dead one.
	r = newRig(t)
	r.set(func() {
		r.before = func() { r.votes(2, false, map[health.ObserverID][]string{"eu-1": {"us"}, "us-1": {"us"}}) }
	})
	a := r.as("admin", "PUT", "/v1/services/web/override", `{"cluster":"us","reason":"r"}`)
	require.Equal(t, 409, a.status, a.body)
	require.Equal(t, "override_target_up", a.problem(t).Blockers[0].Rule)
	require.Nil(t, r.store.State().Services["web"].Override)
}

func TestOverridesAreDoneOnce(t *testing.T) {
	r := newRig(t)
	body := `{"cluster":"us","reason":"r"}`
	first := r.override("web", body, "Idempotency-Key", "k-1")
	require.Equal(t, "pinned web to us until it is cleared", first.Text)
	again := r.override("web", body, "Idempotency-Key", "k-1")
	require.Equal(t, first.Index, again.Index)
	require.Contains(t, again.Text, "this request was done before")
	require.Equal(t, 409, r.as("admin", "PUT", "/v1/services/web/override", `{"cluster":"eu","reason":"r"}`, "Idempotency-Key", "k-1").status)

	same := r.override("web", body)
	require.Equal(t, "web is pinned to us already, until it is cleared, by admin-user: r; nothing changes", same.Text)
	require.Zero(t, same.Index)
	require.Equal(t, 1, countEvents(r, "service.overridden"))
	r.override("web", `{"cluster":"us","reason":"another"}`)
	r.override("web", `{"cluster":"us","reason":"another","for":"1h"}`)
	r.override("web", `{"cluster":"eu","reason":"another"}`)
	require.Equal(t, 4, countEvents(r, "service.overridden"))
}

func TestAPinWithoutEffectIsNoticed(t *testing.T) {
	r := newRig(t)
	r.override("web", `{"cluster":"us","reason":"eu answers 500"}`)
	banner := func() string {
		for _, b := range items[apitype.Status](t, r.get("/v1/status"))[0].Banners {
			if b.Code == "override" {
				return b.Text
			}
		}
		return ""
	}
	require.Equal(t, "web pinned to us by admin-user: eu answers 500", banner())
	r.votes(2, false, map[health.ObserverID][]string{"eu-1": {"us"}, "us-1": {"us"}})
	require.Equal(t, "web pinned to us by admin-user, without effect: us is down: eu answers 500", banner())
	require.Equal(t, "us is down", r.service("web").Override.Note)
	require.Contains(t, r.get("/").body, "without effect: us is down")
	require.NotContains(t, r.as("webops", "GET", "/v1/status", "").body, "shop", "what one may not read is not told")
}
