package api

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

func TestTheConsoleShowsVotesVerdictsAndAnswers(t *testing.T) {
	r := newRig(t)
	r.votes(2, false, map[health.ObserverID][]string{"eu-1": {"eu"}, "us-1": {"eu"}})
	a := r.get("/")
	require.Equal(t, 200, a.status)
	for _, want := range []string{"3/3 voters, leader us-1", "seen from \\ cluster", "refused", "✕ DOWN", "● UP", "web 33%", "revision 1", "in answers", "alone"} {
		require.Contains(t, a.body, want)
	}
	fragment := r.get("/ui/overview").body
	require.NotContains(t, fragment, "<html")
	require.Contains(t, fragment, "✕ DOWN")
	require.NotContains(t, fragment, "as of", "it is current")
	require.NotContains(t, fragment, " old\"")
}

func TestTheConsoleClaimsNothingThatTheLeaderHasNotTold(t *testing.T) {
	r := newRig(t)
	r.set(func() { r.quorum = QuorumView{HasQuorum: true, Leader: "us-1", Voters: 3} })
	a := r.get("/")
	require.Contains(t, a.body, "3 voters, leader us-1 has not told yet how many it reaches")
	require.NotContains(t, a.body, "tolerates")
}

func TestTheConsoleIsHonestWithoutQuorum(t *testing.T) {
	r := newRig(t)
	r.set(func() { r.quorum = QuorumView{Stale: time.Minute, Voters: 3, VotersUp: 1} })
	a := r.get("/")
	require.Contains(t, a.body, "✕ NO QUORUM")
	require.Contains(t, a.body, "1m</b> old")
	asOf := regexp.MustCompile(`class="as-of">OLD, as of (\d\d:\d\d:\d\d)</b>`).FindAllStringSubmatch(a.body, -1)
	require.Len(t, asOf, 2, "the matrix and the services")
	require.Equal(t, 2, strings.Count(a.body, `class="scroll old"`))
	require.Contains(t, r.get("/ui/static/console.css").body, ".old table { filter: grayscale(1)")
	require.Contains(t, a.body, "● was up")
	require.Contains(t, a.body, "● was UP")
	require.Equal(t, 1, strings.Count(a.body, "data-since"), "only the age of the data counts on")
}

// No inline script or style, and nothing from elsewhere: the policy forbids both,
// and a page that needs them would show nothing.
func TestTheConsoleKeepsItsContentPolicy(t *testing.T) {
	r := newRig(t)
	for _, path := range []string{"/", "/ui/login"} {
		a := r.get(path)
		require.Equal(t, contentPolicy, a.header.Get("Content-Security-Policy"))
		require.Equal(t, "no-store", a.header.Get("Cache-Control"))
		require.NotRegexp(t, regexp.MustCompile(`(?i)<script(?:>| [^>]*>[^<])|<style|style=|onclick|javascript:`), a.body)
		require.NotRegexp(t, regexp.MustCompile(`(?i)(?:src|href|action)="(?:https?:)?//`), a.body)
		for _, m := range regexp.MustCompile(`(?:src|href)="(/ui/static/[^"]+)"`).FindAllStringSubmatch(a.body, -1) {
			require.Equal(t, 200, r.as("", "GET", m[1], "").status, m[1])
		}
	}
}

func TestAVisitorLogsInWithATokenAndACookieHoldsIt(t *testing.T) {
	r := newRig(t)
	a := r.as("", "GET", "/", "")
	require.Equal(t, 401, a.status)
	require.Contains(t, a.body, `type="password"`)
	form := []string{"Content-Type", "application/x-www-form-urlencoded"}
	require.Equal(t, 401, r.as("", "POST", "/ui/login", "token=qt1.admin.wrong", form...).status)
	a = r.as("", "POST", "/ui/login", "token=qt1.viewer."+canary, form...)
	require.Equal(t, 303, a.status)
	cookie := a.header.Get("Set-Cookie")
	require.Contains(t, cookie, "HttpOnly")
	require.Contains(t, cookie, "SameSite=Strict")
	pair, _, _ := strings.Cut(cookie, ";")
	require.Equal(t, 200, r.as("", "GET", "/", "", "Cookie", pair).status)
	require.Equal(t, 403, r.as("", "POST", "/ui/login", "token=x", append(form, "Sec-Fetch-Site", "cross-site")...).status)
	a = r.as("", "POST", "/ui/logout", "", "Cookie", pair)
	require.Contains(t, a.header.Get("Set-Cookie"), "Max-Age=0")
}

func TestOnlyADemoLetsPeopleInWithoutALogin(t *testing.T) {
	r := newRig(t, func(c *Config) {
		c.Demo = &Demo{Users: []DemoUser{{Name: "alice", Groups: []string{"operator"}}, {Name: "bob", Groups: []string{"admin"}}}}
	})
	a := r.as("", "GET", "/", "")
	require.Equal(t, 200, a.status)
	require.Contains(t, a.body, "<option selected>alice")
	a = r.as("", "POST", "/ui/user", "user=bob", "Content-Type", "application/x-www-form-urlencoded")
	require.Equal(t, 303, a.status)
	pair, _, _ := strings.Cut(a.header.Get("Set-Cookie"), ";")
	require.Contains(t, r.as("", "GET", "/", "", "Cookie", pair).body, "<option selected>bob")
	require.Equal(t, 404, r.as("", "POST", "/ui/user", "user=mallory", "Content-Type", "application/x-www-form-urlencoded").status)
	require.Equal(t, 401, r.as("", "GET", "/v1/status", "").status, "the API wants a token in a demo too")
	require.Equal(t, 404, newRig(t).as("admin", "POST", "/ui/user", "user=alice", "Content-Type", "application/x-www-form-urlencoded").status)
}

func TestTheLocalSocketIsAdmin(t *testing.T) {
	r := newRig(t)
	path := filepath.Join(t.TempDir(), "q.sock")
	ln, err := net.Listen("unix", path)
	require.NoError(t, err)
	ctx, cancel := ctxCancel(t)
	done := make(chan error, 1)
	go func() { done <- r.server.Run(ctx, ln) }()
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx ctxt, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}}}
	resp, err := client.Get("http://local/v1/tokens")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 200, resp.StatusCode)
	resp, err = client.Post("http://local/v1/freeze", "application/json", strings.NewReader(`{"reason":"lock-out is impossible"}`))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 200, resp.StatusCode)
	require.NotEmpty(t, r.store.State().Freezes[""].By)
	client.CloseIdleConnections()
	cancel()
	require.NoError(t, <-done)
	_, err = os.Stat(path)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestRequestsAreCountedByRoute(t *testing.T) {
	r := newRig(t)
	r.get("/v1/services/web")
	r.get("/v1/services/nope")
	r.get("/v1/secret-path-nobody-has")
	count := func(route, code string) float64 {
		return testutil.ToFloat64(r.server.met.requests.WithLabelValues(route, "GET", code))
	}
	require.InDelta(t, 1, count("/v1/services/{name}", "200"), 0)
	require.InDelta(t, 1, count("/v1/services/{name}", "404"), 0)
	require.InDelta(t, 1, count("none", "404"), 0)
	body := r.as("", "GET", "/metrics", "").body
	require.Contains(t, body, "quorate_http_requests_total")
	require.Contains(t, body, "quorate_http_request_duration_seconds_bucket")
	require.Contains(t, body, "quorate_sse_clients 0")
	require.NotContains(t, body, "secret-path")
	problems, err := testutil.GatherAndLint(r.reg)
	require.NoError(t, err)
	require.Empty(t, problems)
}

func TestAPanicIsAProblemAndNotAnOutage(t *testing.T) {
	r := newRig(t)
	r.server.cfg.NodeConfig = func() string { panic("secret detail") }
	a := r.get("/v1/node/config")
	require.Equal(t, 500, a.status)
	require.NotContains(t, a.body, "secret detail")
	require.Contains(t, r.logs.String(), "handler panicked")
	require.Equal(t, 200, r.get("/v1/status").status)
}

// Every answer is checked against the document that is served with it.
func TestAnswersMatchTheOpenAPIDocument(t *testing.T) {
	r := newRig(t)
	r.must(statestore.FreezeService{Reason: "audit", For: time.Hour})
	r.post("/v1/clusters/eu/drain", `{"reason":"upgrade"}`)
	doc := r.openAPI()
	for path, item := range doc.Paths {
		if item["get"] == nil || path == "/v1/backup" {
			continue
		}
		real := strings.NewReplacer("/clusters/{name}", "/clusters/eu", "{name}", "web", "{n}", "1", "{id}", "2-aaaaaaaa").Replace(path)
		if real == "/v1/explain" {
			real += "?name=web.gslb.test&if=eu=down"
		}
		if real == "/v1/simulate" {
			real += "?if=eu=down"
		}
		a := r.get(real)
		schema := item["get"].Responses["200"].Content["application/json"].Schema
		if a.status != 200 {
			schema = item["get"].Responses["default"].Content["application/problem+json"].Schema
			if named, ok := item["get"].Responses["404"]; ok && a.status == 404 {
				schema = named.Content["application/problem+json"].Schema
			}
		}
		require.NotNil(t, schema, "%s %d", path, a.status)
		var v any
		require.NoError(t, json.Unmarshal([]byte(a.body), &v))
		for _, problem := range doc.check("", schema, v) {
			t.Errorf("%s: %s", real, problem)
		}
	}
	p := r.get("/v1/services/nope")
	require.Equal(t, apitype.ProblemBase+"not-found", p.problem(t).Type)
}
