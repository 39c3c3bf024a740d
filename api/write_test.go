package api

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

func TestARepeatedKeyDoesTheActOnce(t *testing.T) {
	r := newRig(t)
	first := r.post("/v1/clusters/eu/drain", `{"reason":"r"}`, "Idempotency-Key", "k-1")
	require.Equal(t, "k-1", first.header.Get("Idempotency-Key"))
	act := items[apitype.Act](t, first)[0]
	require.Equal(t, fmt.Sprint(act.Index), first.header.Get("Quorate-Index"), "the headers tell of the state after the act")
	// What the drain carries is planned anew, from another state: it is the same
	// request all the same.
	r.votes(2, false, map[health.ObserverID][]string{"eu-1": {"dr"}, "us-1": {"dr"}})
	again := items[apitype.Act](t, r.post("/v1/clusters/eu/drain", `{"reason":"r"}`, "Idempotency-Key", "k-1"))[0]
	require.Equal(t, act.Index, again.Index)
	require.Equal(t, 1, countEvents(r, "cluster.drained"))

	a := r.post("/v1/clusters/eu/drain", `{"reason":"another"}`, "Idempotency-Key", "k-1")
	require.Equal(t, 409, a.status, "the same key for another body")
	require.Equal(t, apitype.ProblemBase+"conflict", a.problem(t).Type)

	// Keys are per actor.
	require.Equal(t, 200, r.as("operator", "POST", "/v1/freeze", `{"reason":"r"}`, "Idempotency-Key", "k-1").status)
}

// What was true when the plan was applied is not true any more when the request
// is repeated: the base has moved, by this very request.
func TestARepeatedApplyIsTheSameApply(t *testing.T) {
	r := newRig(t)
	spec := testSpec()
	spec.Services["web"].TTL.Normal = statestore.Duration(20 * time.Second)
	body, err := json.Marshal(map[string]any{"source": specText(spec)})
	require.NoError(t, err)
	path := "/v1/plans/" + planID(1, specText(spec)) + "/apply"
	first := items[apitype.Plan](t, r.post(path, string(body), "Idempotency-Key", "k-1"))[0]
	again := items[apitype.Plan](t, r.post(path, string(body), "Idempotency-Key", "k-1"))[0]
	require.Equal(t, first.Applied, again.Applied)
	require.EqualValues(t, 2, r.store.State().Revision)
}

func TestARefusalIsRememberedToo(t *testing.T) {
	r := newRig(t)
	a := r.as("admin", "DELETE", "/v1/clusters/eu/drain", "", "Idempotency-Key", "k-1")
	require.Equal(t, 404, a.status)
	items[apitype.Act](t, r.post("/v1/clusters/eu/drain", `{"reason":"r"}`))
	require.Equal(t, 404, r.as("admin", "DELETE", "/v1/clusters/eu/drain", "", "Idempotency-Key", "k-1").status)
	require.NotNil(t, r.store.State().Clusters["eu"].Drain)
}

func TestADrainSaysUntilWhen(t *testing.T) {
	r := newRig(t)
	drain := func(body string) apitype.Act { return items[apitype.Act](t, r.post("/v1/clusters/eu/drain", body))[0] }
	require.Equal(t, "drained eu until it is undrained", drain(`{"reason":"r"}`).Text)
	require.Regexp(t, `^drained eu until \d\d:\d\d:\d\dZ$`, drain(`{"reason":"r","for":"2h"}`).Text)
	require.Regexp(t, `^drained eu for web until \d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ$`, drain(`{"reason":"r","for":"48h","services":["web"]}`).Text)
	require.Equal(t, "froze web until it is thawed", items[apitype.Act](t, r.post("/v1/freeze", `{"reason":"r","service":"web"}`))[0].Text)
}

func TestTheSameDrainAgainWritesNothingAndSaysSo(t *testing.T) {
	r := newRig(t)
	drain := func(body string, header ...string) apitype.Act {
		return items[apitype.Act](t, r.post("/v1/clusters/eu/drain", body, header...))[0]
	}
	drain(`{"reason":"r"}`, "Idempotency-Key", "k-1")
	again := drain(`{"reason":"r"}`)
	require.Equal(t, "eu is drained already, until it is undrained, by admin-user: r; nothing changes", again.Text)
	require.Zero(t, again.Index)
	require.Contains(t, drain(`{"reason":"r"}`, "Idempotency-Key", "k-1").Text, "this request was done before")
	require.Equal(t, 1, countEvents(r, "cluster.drained"))

	drain(`{"reason":"another"}`)
	drain(`{"reason":"another","for":"1h"}`)
	drain(`{"reason":"another","for":"1h"}`) // an hour from now: it ends later than the one before
	require.Equal(t, 4, countEvents(r, "cluster.drained"))

	drain(`{"reason":"r"}`)
	r.server.cfg.ReadIndex = func(ctxt) (uint64, error) { return 0, ErrNoLeader }
	r.set(func() { r.fail = ErrNoLeader })
	require.Equal(t, 503, r.post("/v1/clusters/eu/drain", `{"reason":"r"}`).status, "what this node knows may be old")
}

func TestSimultaneousRepetitionsDoTheActOnce(t *testing.T) {
	r := newRig(t)
	var wg sync.WaitGroup
	codes := make([]int, 8)
	for i := range codes {
		wg.Go(func() {
			codes[i] = r.post("/v1/clusters/eu/drain", `{"reason":"r"}`, "Idempotency-Key", "k-1").status
		})
	}
	wg.Wait()
	for _, code := range codes {
		require.Equal(t, 200, code)
	}
	require.Equal(t, 1, countEvents(r, "cluster.drained"))
}

func TestAKeyOlderThanTheWindowIsNeverExecuted(t *testing.T) {
	r := newRig(t)
	old := fmt.Sprintf("q%d-abc", time.Now().Add(-25*time.Hour).Unix())
	a := r.post("/v1/freeze", `{"reason":"r"}`, "Idempotency-Key", old)
	require.Equal(t, 410, a.status, a.body)
	require.Equal(t, apitype.ProblemBase+"expired", a.problem(t).Type)
	require.Empty(t, r.store.State().Freezes)
}

func TestAPersonIsToldSoonWhenTheQuorumIsLongGone(t *testing.T) {
	r := newRig(t)
	var deadlines []time.Duration
	r.server.cfg.Proposer = proposerFunc(func(ctx ctxt) error {
		at, _ := ctx.Deadline()
		deadlines = append(deadlines, time.Until(at))
		return ErrNoLeader
	})
	require.Equal(t, 503, r.post("/v1/freeze", `{"reason":"r"}`).status)
	r.set(func() { r.quorum = QuorumView{Stale: time.Minute} })
	require.Equal(t, 503, r.post("/v1/freeze", `{"reason":"r"}`).status)
	require.Greater(t, deadlines[0], 5*time.Second)
	require.Less(t, deadlines[1], 3*time.Second)
}

type proposerFunc func(ctxt) error

func (f proposerFunc) Propose(ctx context.Context, _ statestore.Command, _ Origin) (statestore.Result, error) {
	return statestore.Result{}, f(ctx)
}

func TestAKeyIsMadeAndReturned(t *testing.T) {
	r := newRig(t)
	a := r.post("/v1/freeze", `{"reason":"r"}`)
	require.Regexp(t, `^q\d+-[0-9a-f]{20}$`, a.header.Get("Idempotency-Key"))
	require.Empty(t, r.get("/v1/status").header.Get("Idempotency-Key"))
	require.Equal(t, 422, r.post("/v1/freeze", `{"reason":"r"}`, "Idempotency-Key", "a~b").status)
}

func countEvents(r *rig, kind string) int {
	n := 0
	for _, e := range r.store.State().Events {
		if e.Type == kind {
			n++
		}
	}
	return n
}

func TestATokenIsShownOnce(t *testing.T) {
	r := newRig(t)
	a := r.post("/v1/tokens", `{"user":"ann","groups":["viewer"],"for":"720h","sources":["127.0.0.0/8","::1/128"]}`, "Idempotency-Key", "k-1")
	require.Equal(t, 201, a.status)
	tok := items[apitype.Token](t, a)[0]
	require.Regexp(t, `^qt1\.[a-z2-7]{8}\.[A-Za-z0-9_-]{32}$`, tok.Secret)
	require.Equal(t, "admin-user", tok.Minter)
	require.Equal(t, []string{"viewer"}, tok.Roles)
	require.Empty(t, items[apitype.Token](t, r.post("/v1/tokens", `{"user":"bob","groups":["veiwer"]}`))[0].Roles, "its maker is told that it may do nothing")
	get := func(path string) answer { return r.as("", "GET", path, "", "Authorization", "Bearer "+tok.Secret) }
	require.Equal(t, 200, get("/v1/status").status)
	require.Equal(t, 403, get("/v1/tokens").status)

	for _, listed := range items[apitype.Token](t, r.get("/v1/tokens")) {
		require.Empty(t, listed.Secret)
	}
	again := r.post("/v1/tokens", `{"user":"ann","groups":["viewer"],"for":"720h","sources":["127.0.0.0/8","::1/128"]}`, "Idempotency-Key", "k-1")
	require.Equal(t, 409, again.status)
	require.Contains(t, again.problem(t).Detail, "kept nowhere")

	items[apitype.Act](t, r.as("admin", "DELETE", "/v1/tokens/"+tok.ID, ""))
	require.Equal(t, 401, get("/v1/status").status)
}

func TestATokenIsRefusedOnceItsTimeIsOver(t *testing.T) {
	now := time.Now()
	var mu sync.Mutex
	r := newRig(t, func(c *Config) {
		c.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	})
	tok := items[apitype.Token](t, r.post("/v1/tokens", `{"user":"ann","groups":["viewer"],"for":"1h"}`))[0]
	get := func() int { return r.as("", "GET", "/v1/status", "", "Authorization", "Bearer "+tok.Secret).status }
	require.Equal(t, 200, get())
	mu.Lock()
	now = now.Add(2 * time.Hour) // the log was quiet meanwhile
	mu.Unlock()
	require.Equal(t, 401, get())
}

func TestATokenIsRefusedFromElsewhere(t *testing.T) {
	r := newRig(t)
	tok := items[apitype.Token](t, r.post("/v1/tokens", `{"user":"ann","groups":["viewer"],"sources":["192.0.2.0/24"]}`))[0]
	a := r.as("", "GET", "/v1/status", "", "Authorization", "Bearer "+tok.Secret)
	require.Equal(t, 401, a.status)
	require.Contains(t, a.problem(t).Detail, "from this address")
}

func TestARoleMayNameTokens(t *testing.T) {
	r := newRig(t)
	tok := items[apitype.Token](t, r.post("/v1/tokens", `{"user":"ann"}`))[0]
	get := func() int { return r.as("", "GET", "/v1/status", "", "Authorization", "Bearer "+tok.Secret).status }
	require.Equal(t, 403, get(), "a token without a role may nothing")
	spec := testSpec()
	spec.Access.Roles["break-glass"] = &statestore.Role{Tokens: []string{tok.ID}, Can: []statestore.Capability{statestore.CanRead}}
	r.must(statestore.ApplySpec{Base: 1, Source: "x", Spec: spec})
	require.Equal(t, 200, get())
}

func TestWrongTokensAreSlowedByAddress(t *testing.T) {
	r := newRig(t)
	codes := map[int]int{}
	for range failureBurst + 5 {
		codes[r.as("", "GET", "/v1/status", "", "Authorization", "Bearer qt1.admin.wrong").status]++
	}
	require.Positive(t, codes[429])
	require.LessOrEqual(t, codes[401], failureBurst+2)
}

func TestARunawayLoopIsLimitedAloneAndWaitsItsTurn(t *testing.T) {
	r := newRig(t)
	limited := 0
	for range requestBurst + 200 {
		a := r.as("viewer", "GET", "/v1/node/config", "")
		if a.status == 429 {
			limited++
			require.NotEmpty(t, a.header.Get("Retry-After"))
		}
	}
	require.Positive(t, limited)
	require.Equal(t, 200, r.get("/v1/status").status, "another person is not held up")
}

// Every GET is walked: a chat's link preview and a mail scanner follow links.
func TestNoGETChangesAnything(t *testing.T) {
	r := newStatefulRig(t)
	r.post("/v1/plans", `{"source":"{\"version\":1}"}`)
	r.proposed()
	before := r.store.State()
	hash := before.Hash()
	walked := 0
	for path, item := range r.openAPI().Paths {
		if item["get"] == nil {
			continue
		}
		walked++
		path = strings.NewReplacer("/cutovers/{id}", "/cutovers/CUT-1", "{name}", "web", "{n}", "1", "{id}", "2-aaaaaaaa").Replace(path)
		if strings.HasPrefix(path, "/v1/explain") {
			path += "?name=web.gslb.test"
		}
		if strings.HasPrefix(path, "/v1/clusters/") {
			path = "/v1/clusters/eu"
		}
		a := r.get(path)
		require.Less(t, a.status, 500, "%s: %s", path, a.body)
		require.NotEqual(t, 405, a.status, path)
	}
	for _, path := range []string{"/", "/ui/overview", "/ui/login", "/metrics", "/livez", "/readyz", "/quorumz", "/v1/openapi.json"} {
		walked++
		r.get(path)
	}
	require.Greater(t, walked, 25)
	require.Equal(t, before.Index, r.store.State().Index)
	require.Equal(t, hash, r.store.State().Hash())
}

// I14: no secret in answers, events, metrics, logs or the backup.
func TestSecretsNeverComeBack(t *testing.T) {
	r := newStatefulRig(t)
	r.sign("alice", r.proposed(), waivers...)
	var all strings.Builder
	for path := range r.openAPI().Paths {
		path = strings.NewReplacer("/cutovers/{id}", "/cutovers/CUT-1", "{name}", "web", "{n}", "1", "{id}", "admin").Replace(path)
		all.WriteString(r.get(path).body)
	}
	for _, path := range []string{"/", "/ui/overview", "/metrics", "/v1/events?limit=1000"} {
		all.WriteString(r.get(path).body)
	}
	secret := "OTHERcanaryOTHERcanary"
	all.WriteString(r.as("", "GET", "/v1/status", "", "Authorization", "Bearer qt1.admin."+secret).body)
	all.WriteString(r.post("/v1/freeze", `{"reason":"r","token":"`+secret+`"}`).body)
	all.WriteString(r.post("/v1/freeze", `{"reason":"`+secret).body)
	all.WriteString(r.post("/ui/login", "token=qt1.admin."+secret, "Content-Type", "application/x-www-form-urlencoded").body)
	made := items[apitype.Token](t, r.post("/v1/tokens", `{"user":"ann"}`))[0]
	all.WriteString(r.get("/v1/tokens").body)
	all.WriteString(r.get("/v1/events?limit=1000").body)
	all.WriteString(r.get("/v1/backup").body)
	all.WriteString(r.logs.String())
	for _, s := range []string{canary, secret, strings.Split(made.Secret, ".")[2], hex.EncodeToString([]byte(canary))} {
		require.NotContains(t, all.String(), s)
	}
	require.Contains(t, all.String(), "login refused", "the test must have seen the logs")
}

func TestBackupIsASnapshotOfTheState(t *testing.T) {
	r := newRig(t)
	a := r.get("/v1/backup")
	require.Equal(t, 200, a.status)
	st, err := statestore.ReadSnapshot(strings.NewReader(a.body))
	require.NoError(t, err)
	require.Equal(t, r.store.State().Hash(), st.Hash())
}

func TestJoinTokensAndMembers(t *testing.T) {
	r := newRig(t)
	a := r.post("/v1/members/join-tokens", `{"role":"nonvoter","for":"10m"}`)
	require.Equal(t, 201, a.status)
	tok := items[apitype.JoinToken](t, a)[0]
	require.Equal(t, "nonvoter", tok.Role)
	require.Equal(t, statestore.Nonvoter, r.store.State().JoinTokens["j1"].Role)
	require.WithinDuration(t, r.store.State().Now.Add(10*time.Minute), tok.Expires, time.Second)

	members := items[apitype.Member](t, r.get("/v1/members"))
	require.Len(t, members, 3)
	require.Equal(t, "leader", members[2].Raft)
	require.Equal(t, "counted", members[0].Observer)

	items[apitype.Act](t, r.post("/v1/members/ap-1/demote", ""))
	require.Equal(t, statestore.Nonvoter, r.store.State().Members["ap-1"].Role)
	items[apitype.Act](t, r.post("/v1/members/ap-1/promote", ""))
	require.Equal(t, statestore.Voter, r.store.State().Members["ap-1"].Role)
	gone := items[apitype.Act](t, r.as("admin", "DELETE", "/v1/members/ap-1", `{"reason":"gone"}`))
	require.Equal(t, "removed ap-1; 2 voters remain, the quorum can lose none; join another voter", gone[0].Text)
	require.Nil(t, r.store.State().Members["ap-1"])
}

func TestTheLogLevelIsThisNodesOnly(t *testing.T) {
	r := newRig(t)
	index := r.store.State().Index
	items[apitype.LogLevel](t, r.as("admin", http.MethodPut, "/v1/node/log-level", `{"level":"debug"}`))
	require.Equal(t, "debug", items[apitype.LogLevel](t, r.get("/v1/node/log-level"))[0].Level)
	require.Equal(t, index, r.store.State().Index)
}

func TestCurlMayLeaveOutTheContentType(t *testing.T) {
	r := newRig(t)
	a := r.post("/v1/freeze", `{"reason":"r"}`, "Content-Type", "application/x-www-form-urlencoded")
	require.Equal(t, 200, a.status, a.body)
}

func TestAPageOfAnotherOriginMayNotAct(t *testing.T) {
	r := newRig(t)
	a := r.post("/v1/freeze", `{"reason":"r"}`, "Sec-Fetch-Site", "cross-site")
	require.Equal(t, 403, a.status)
	require.Equal(t, 403, r.post("/v1/freeze", `{"reason":"r"}`, "Origin", "https://evil.example").status)
	require.Empty(t, r.store.State().Freezes)
}
