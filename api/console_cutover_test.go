package api

import (
	"crypto/sha256"
	"errors"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/statestore"
)

// formOf returns what a browser without script would send of the page's form with
// that action, before a person has filled it in.
func formOf(t testing.TB, page, action string) url.Values {
	t.Helper()
	m := regexp.MustCompile(`(?s)<form [^>]*action="` + regexp.QuoteMeta(action) + `".*?</form>`).FindString(page)
	require.NotEmpty(t, m, "no form of %s", action)
	v := url.Values{}
	for _, in := range regexp.MustCompile(`<input [^>]*name="([^"]+)" value="([^"]*)"`).FindAllStringSubmatch(m, -1) {
		v.Set(in[1], html.UnescapeString(in[2]))
	}
	for _, in := range regexp.MustCompile(`(?s)<textarea [^>]*name="([^"]+)".*?>(.*?)</textarea>`).FindAllStringSubmatch(m, -1) {
		v.Set(in[1], html.UnescapeString(in[2]))
	}
	return v
}

// boxes are the waivers that a page offers to tick.
func boxes(page string) []string {
	var out []string
	for _, m := range regexp.MustCompile(`name="waive" value="([^"]+)"`).FindAllStringSubmatch(page, -1) {
		out = append(out, m[1])
	}
	return out
}

func (r *rig) submit(who, path string, v url.Values) answer {
	r.t.Helper()
	return r.as(who, "POST", path, v.Encode(), "Content-Type", "application/x-www-form-urlencoded")
}

// filled is the approval form of CUT-1 as somebody would send it.
func (r *rig) filled(who string) url.Values {
	r.t.Helper()
	v := formOf(r.t, r.as(who, "GET", "/cutovers/CUT-1", "").body, "/cutovers/CUT-1/approve")
	v.Set("service", "orders-db")
	v.Set("reason", "eu power lost, ticket 8812")
	v["waive"] = waivers
	return v
}

// follow loads what a form was answered with.
func (r *rig) follow(who string, a answer) string {
	r.t.Helper()
	require.Equal(r.t, http.StatusSeeOther, a.status, a.body)
	next := r.as(who, "GET", a.header.Get("Location"), "")
	require.Equal(r.t, 200, next.status)
	return next.body
}

func TestTheCardHoldsWhatAnApprovalIsAbout(t *testing.T) {
	r := newStatefulRig(t)
	r.down(3, "eu")
	require.Equal(t, 201, r.as("alice", "POST", "/v1/cutovers", `{"service":"orders-db","kind":"emergency","reason":"eu is gone"}`).status)
	co := r.store.State().Cutovers["CUT-1"]
	a := r.as("bob", "GET", "/cutovers/CUT-1", "")
	require.Equal(t, 200, a.status)
	for _, want := range []string{
		"<b>CUT-1</b> · emergency", "waits for signatures", "epoch 1<", "epoch 2<", "✕ down", "● up", // the move
		"eu is down for orders-db since", "The front door of eu is down too: looks like the whole site.", "eu front door", "refused", // why
		"G4 not enforced", "cannot make sure that eu stops taking writes", // what nobody can promise
		"source_down_by_quorum", "● clean", "○ not configured", "needs a waiver by one person", "down by 3 of 3 regions", // gates
		"0 of 2", "two-person: 2 distinct people of approver, not the proposer", co.Digest, // signatures
		"expires in", co.Expires.UTC().Format("2006-01-02 15:04:05Z"), "data-until=", // countdown, with the time itself
		"orders-db.gslb.test.", "resolvers may give eu for up to", // reach
		"If nobody does anything", "eu stays the answer", "How to undo it", "every node stops answering eu", // what happens
		"<li class=\"now\"><b>▶ Signed", "○ Published", // steps
		"Approve as bob", "Reject as bob", "Type <b>orders-db</b> to confirm",
	} {
		require.Contains(t, a.body, want)
	}
	require.Equal(t, waivers, boxes(a.body), "what is clean has no box")
	require.Less(t, strings.Index(a.body, "data-signs"), strings.Index(a.body, `name="look"`), "Enter presses the first button")
	require.Contains(t, r.as("alice", "GET", "/cutovers/CUT-1", "").body, "alice proposed it, so another person has to sign.")
	fragment := r.as("bob", "GET", "/ui/cutovers/CUT-1", "").body
	require.NotContains(t, fragment, "<html")
	require.Contains(t, fragment, `id="gates" data-part`)
}

func TestTwoPeopleApproveByFormAndWatchItMove(t *testing.T) {
	r := newStatefulRig(t)
	r.proposed()
	first := r.filled("alice")
	page := r.follow("alice", r.submit("alice", "/cutovers/CUT-1/approve", first))
	require.Contains(t, page, "✓ Signed")
	require.Contains(t, page, "signed 1 of 2 as alice. Waiting for one more approver")
	require.Contains(t, page, "You have signed at")
	require.Contains(t, page, "✎ waived by alice")

	// A double click sends the very same form again.
	page = r.follow("alice", r.submit("alice", "/cutovers/CUT-1/approve", first))
	require.Contains(t, page, "signed 1 of 2 as alice")
	require.Len(t, r.store.State().Cutovers["CUT-1"].Signatures, 1)

	page = r.as("bob", "GET", "/cutovers/CUT-1", "").body
	require.Empty(t, boxes(page), "what one person has waived needs no second one here")
	second := r.filled("bob")
	second.Del("waive")
	page = r.follow("bob", r.submit("bob", "/cutovers/CUT-1/approve", second))
	require.Contains(t, page, "signed 2 of 2 as bob: approved, the move begins")
	require.Contains(t, page, "✓ Signed")

	r.walk()
	page = r.as("bob", "GET", "/cutovers/CUT-1", "").body
	require.Contains(t, page, "▶ under way")
	require.Contains(t, page, "Abort as bob")
	require.NotContains(t, page, "Reject as")
	r.walk("ap-1", "eu-1", "us-1")
	page = r.as("bob", "GET", "/cutovers/CUT-1", "").body
	for _, want := range []string{"● done", "✓ Published", "▶ Old answers gone", "resolvers may give eu until", "/cutovers/new?service=orders-db", "after the last signature"} {
		require.Contains(t, page, want)
	}
	require.NotContains(t, page, "<textarea")
	list := r.as("bob", "GET", "/cutovers", "").body
	require.Contains(t, list, "Nothing waits for a decision.")
	require.Regexp(t, `(?s)CUT-1</a>.*● done.*epoch 2.*alice, bob.*move`, list)
}

func TestAFormWithErrorsKeepsWhatWasTyped(t *testing.T) {
	r := newStatefulRig(t)
	r.proposed()
	before := r.store.State()
	for name, tt := range map[string]struct {
		edit func(url.Values)
		want []string
	}{
		"wrong name":     {func(v url.Values) { v.Set("service", "orders") }, []string{"1 thing to correct", "must be orders-db, is &#34;orders&#34;", `value="orders"`, "ticket 8812</textarea>", " checked"}},
		"no name":        {func(v url.Values) { v.Del("service") }, []string{"must be orders-db, is &#34;&#34;"}},
		"no reason":      {func(v url.Values) { v.Set("reason", " \n") }, []string{"must say why, is empty", `value="orders-db"`, " checked"}},
		"nothing at all": {func(v url.Values) { v.Del("service"); v.Del("reason") }, []string{"2 things to correct"}},
		"reason twice":   {func(v url.Values) { v.Add("reason", "another") }, []string{"reason: must be given once, is given 2 times"}},
		"no such waiver": {func(v url.Values) { v.Add("waive", "wishes") }, []string{"waivers/2: must name a gate"}},
		"waiver twice":   {func(v url.Values) { v.Add("waive", "source_fenced") }, []string{"must name each gate once"}},
		"bad evidence":   {func(v url.Values) { v.Set("evidence", "9f3c") }, []string{"evidence: must be the whole digest"}},
	} {
		t.Run(name, func(t *testing.T) {
			v := r.filled("alice")
			tt.edit(v)
			a := r.submit("alice", "/cutovers/CUT-1/approve", v)
			require.Equal(t, 422, a.status)
			for _, want := range append(tt.want, "Nothing is signed") {
				require.Contains(t, a.body, want)
			}
			require.NotEqual(t, v.Get("request"), formOf(t, a.body, "/cutovers/CUT-1/approve").Get("request"), "what is corrected is another request")
			require.Equal(t, before, r.store.State())
		})
	}
	t.Run("too large", func(t *testing.T) {
		v := r.filled("alice")
		v.Set("reason", strings.Repeat("x", maxForm))
		a := r.submit("alice", "/cutovers/CUT-1/approve", v)
		require.Equal(t, 413, a.status)
		require.Contains(t, a.body, "at most 32768 bytes")
		require.Equal(t, before, r.store.State())
	})
}

func TestOldEvidenceIsNotSignedAndThePageSaysWhatDiffers(t *testing.T) {
	r := newStatefulRig(t)
	co := r.proposed()
	stale := r.filled("alice")
	stale.Add("waive", "destination_healthy")
	require.Equal(t, 200, r.post("/v1/clusters/us/drain", `{"reason":"ingress upgrade"}`).status)
	r.walk() // revises the evidence
	now := r.store.State().Cutovers["CUT-1"].Digest
	require.NotEqual(t, co.Evidence, now)

	a := r.submit("alice", "/cutovers/CUT-1/approve", stale)
	require.Equal(t, 409, a.status)
	for _, want := range []string{"Not signed: the evidence changed", co.Evidence, now, "destination_healthy: was clean, is blocked", "ticket 8812</textarea>"} {
		require.Contains(t, a.body, want)
	}
	require.Empty(t, r.store.State().Cutovers["CUT-1"].Signatures)
	again := formOf(t, a.body, "/cutovers/CUT-1/approve")
	require.Equal(t, now, again.Get("evidence"))
	require.Empty(t, again.Get("service"), "the name is typed again for another evidence")
	require.Equal(t, []string{"destination_healthy", "lag_within_rpo", "source_fenced"}, boxes(a.body))
	require.Regexp(t, `value="source_fenced"[^>]*checked`, a.body)
	require.NotRegexp(t, `value="destination_healthy"[^>]*checked`, a.body)

	// To look again signs nothing, and keeps the words.
	stale.Set("look", "again")
	b := r.submit("alice", "/cutovers/CUT-1/approve", stale)
	require.Equal(t, 200, b.status)
	require.Contains(t, b.body, "Look again: nothing is signed yet")
	require.Contains(t, b.body, "ticket 8812</textarea>")
	require.Empty(t, r.store.State().Cutovers["CUT-1"].Signatures)

	// An earlier signature is shown as void.
	again["waive"] = []string{"destination_healthy", "lag_within_rpo", "source_fenced"}
	again.Set("service", "orders-db")
	r.follow("alice", r.submit("alice", "/cutovers/CUT-1/approve", again))
	require.Equal(t, 200, r.as("admin", "DELETE", "/v1/clusters/us/drain", "").status)
	r.walk()
	page := r.as("bob", "GET", "/cutovers/CUT-1", "").body
	require.Contains(t, page, "1 earlier signature is void")
	require.Contains(t, page, "✓ Proposed</b> <small>done, by pat")
}

func TestARefusalShowsEverythingThatStandsAgainstIt(t *testing.T) {
	r := newStatefulRig(t)
	r.proposed()
	v := r.filled("alice")
	v.Del("waive")
	a := r.submit("alice", "/cutovers/CUT-1/approve", v)
	require.Equal(t, 409, a.status)
	require.Contains(t, a.body, "Not signed: blocked")
	require.Contains(t, a.body, "lag_within_rpo: ")
	require.Contains(t, a.body, "source_fenced: ")
	require.Contains(t, a.body, "ticket 8812</textarea>")

	// Somebody else decides while a person types.
	v = r.filled("alice")
	reject := formOf(t, r.as("bob", "GET", "/cutovers/CUT-1", "").body, "/cutovers/CUT-1/reject")
	reject.Set("reason", "eu is back <script>alert(1)</script>")
	page := r.follow("bob", r.submit("bob", "/cutovers/CUT-1/reject", reject))
	require.Contains(t, page, "rejected CUT-1: eu stays the answer")
	require.Contains(t, page, "✕ rejected")
	require.Contains(t, page, "&lt;script&gt;")
	require.NotContains(t, page, "<script>alert")
	a = r.submit("alice", "/cutovers/CUT-1/approve", v)
	require.Equal(t, 409, a.status)
	require.Contains(t, a.body, "Not signed: already decided")
	require.NotContains(t, a.body, "<textarea")
	require.Equal(t, statestore.Rejected, r.store.State().Cutovers["CUT-1"].Phase)
}

func TestAnOutcomeNobodyKnowsIsShownAsUnknownAndSentAgainOnce(t *testing.T) {
	r := newStatefulRig(t)
	r.proposed()
	for name, tt := range map[string]struct {
		err    error
		status int
		want   string
	}{
		"unknown":   {ErrUnknownOutcome, 504, "It may or may not be done"},
		"no leader": {ErrNoLeader, 503, "Nothing was written"},
		"fault":     {errors.New("raft: secret detail of the inside"), 500, "Not signed"},
	} {
		t.Run(name, func(t *testing.T) {
			v := r.filled("alice")
			r.set(func() { r.fail = tt.err })
			a := r.submit("alice", "/cutovers/CUT-1/approve", v)
			r.set(func() { r.fail = nil })
			require.Equal(t, tt.status, a.status)
			require.Contains(t, a.body, tt.want)
			require.NotContains(t, a.body, "goroutine")
			again := formOf(t, a.body, "/cutovers/CUT-1/approve")
			require.Equal(t, v.Get("request"), again.Get("request"), "it is the same request still")
			require.Equal(t, "orders-db", again.Get("service"))
		})
	}
}

func TestAFormIsTakenOnlyFromThePersonItWasMadeFor(t *testing.T) {
	r := newStatefulRig(t)
	r.proposed()
	r.must(statestore.PutToken{ID: "alice-2", User: "alice", Groups: []string{"approver"}, Hash: sha256.Sum256([]byte(canary)), Root: true})
	before := r.store.State()
	reject := formOf(t, r.as("alice", "GET", "/cutovers/CUT-1", "").body, "/cutovers/CUT-1/reject")
	for name, edit := range map[string]func(url.Values){
		"missing":            func(v url.Values) { v.Del("token") },
		"wrong":              func(v url.Values) { v.Set("token", "AAAA") },
		"of another form":    func(v url.Values) { v.Set("token", reject.Get("token")) },
		"of another session": func(v url.Values) { v.Set("token", r.filled("alice-2").Get("token")) },
		"of another person":  func(v url.Values) { v.Set("token", r.filled("bob").Get("token")) },
	} {
		t.Run(name, func(t *testing.T) {
			v := r.filled("alice")
			edit(v)
			a := r.submit("alice", "/cutovers/CUT-1/approve", v)
			require.Equal(t, 403, a.status)
			require.Contains(t, a.body, "Nothing was done")
			require.Contains(t, a.body, "ticket 8812</textarea>")
			require.Equal(t, before, r.store.State())
		})
	}
	for _, path := range []string{"/cutovers/CUT-1/reject", "/cutovers/CUT-1/abort", "/cutovers"} {
		require.Equal(t, 403, r.submit("alice", path, url.Values{"reason": {"x"}, "service": {"orders-db"}, "kind": {"planned"}}).status, path)
	}
	a := r.as("alice", "POST", "/cutovers/CUT-1/approve", r.filled("alice").Encode(),
		"Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "cross-site")
	require.Equal(t, 403, a.status, "a page of another origin")
	require.Equal(t, 401, r.submit("", "/cutovers/CUT-1/approve", r.filled("alice")).status)
	require.Equal(t, before, r.store.State())

	// Any node takes the form: what it proves does not depend on the process.
	cfg := r.cfg
	cfg.Registerer, cfg.Node = nil, "us-1"
	other, err := New(cfg)
	require.NoError(t, err)
	req := httptest.NewRequestWithContext(t.Context(), "POST", "/cutovers/CUT-1/approve", strings.NewReader(r.filled("alice").Encode()))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Authorization", "Bearer qt1.alice."+canary)
	w := httptest.NewRecorder()
	other.Handler().ServeHTTP(w, req)
	require.Equal(t, http.StatusSeeOther, w.Code, w.Body.String())
	require.Len(t, r.store.State().Cutovers["CUT-1"].Signatures, 1)
}

func TestASessionAndADemoUserSignWithTheirCookie(t *testing.T) {
	r := newStatefulRig(t, func(c *Config) {
		c.Demo = &Demo{Users: []DemoUser{{Name: "dave", Groups: []string{"approver"}}, {Name: "erin", Groups: []string{"approver"}}}}
	})
	r.proposed()
	const path = "/cutovers/CUT-1/approve"
	form := []string{"Content-Type", "application/x-www-form-urlencoded"}
	a := r.as("", "POST", "/ui/login", "back=%2Fcutovers%2FCUT-1&token=qt1.alice."+canary, form...)
	require.Equal(t, "/cutovers/CUT-1", a.header.Get("Location"), "to the page that asked for it")
	session, _, _ := strings.Cut(a.header.Get("Set-Cookie"), ";")
	fill := func(cookie string) url.Values {
		v := formOf(t, r.as("", "GET", "/cutovers/CUT-1", "", "Cookie", cookie).body, path)
		v.Set("service", "orders-db")
		v.Set("reason", "ticket 8812")
		v["waive"] = waivers
		return v
	}
	mine := fill(session)
	require.Equal(t, 403, r.as("", "POST", path, mine.Encode(), append(form, "Cookie", "quorate_demo_user=erin")...).status)
	require.Equal(t, 303, r.as("", "POST", path, mine.Encode(), append(form, "Cookie", session)...).status)

	a = r.as("", "POST", "/ui/user", "user=erin&back=%2Fcutovers%2FCUT-1", form...)
	require.Equal(t, "/cutovers/CUT-1", a.header.Get("Location"))
	erin, _, _ := strings.Cut(a.header.Get("Set-Cookie"), ";")
	require.Equal(t, 403, r.as("", "POST", path, fill(erin).Encode(), form...).status, "dave, until one switches")
	require.Equal(t, 303, r.as("", "POST", path, fill(erin).Encode(), append(form, "Cookie", erin)...).status)
	sigs := r.store.State().Cutovers["CUT-1"].Signatures
	require.Len(t, sigs, 2)
	require.Equal(t, []string{"alice", "token", "erin", "demo"}, []string{sigs[0].Person, sigs[0].Via, sigs[1].Person, sigs[1].Via})
	for _, back := range []string{"//evil.example", "https://evil.example", "/\\evil.example", "/ui/logout", "/v1/status"} {
		a = r.as("", "POST", "/ui/user", "user=erin&back="+url.QueryEscape(back), form...)
		require.Equal(t, "/", a.header.Get("Location"), back)
	}
}

// A link in a chat comes without our cookie, since that is never sent from another
// site; the page then asks again by itself.
func TestALinkOfAnotherSiteLeadsToThePage(t *testing.T) {
	r := newStatefulRig(t)
	r.proposed()
	a := r.as("", "GET", "/cutovers/CUT-1", "", "Sec-Fetch-Site", "cross-site")
	require.Equal(t, 200, a.status)
	require.Contains(t, a.body, `content="0;url=/cutovers/CUT-1"`)
	a = r.as("", "GET", "/cutovers/CUT-1", "", "Sec-Fetch-Site", "same-origin")
	require.Equal(t, 401, a.status)
	require.Contains(t, a.body, `name="back" value="/cutovers/CUT-1"`)
}

func TestOnlyWhoMayDecideSeesButtons(t *testing.T) {
	r := newStatefulRig(t)
	r.proposed()
	page := r.as("viewer", "GET", "/cutovers/CUT-1", "").body
	require.Contains(t, page, "viewer-user may look, and neither sign nor reject")
	for _, path := range []string{"/cutovers/CUT-1", "/cutovers", "/", "/cutovers/new?service=orders-db"} {
		page := r.as("viewer", "GET", path, "").body
		require.NotContains(t, page, `method="post" action="/cutovers`, path)
		require.NotContains(t, page, "checkbox", path)
		require.NotContains(t, page, `href="/cutovers/new`, path)
	}
	require.Contains(t, r.as("gus", "GET", "/cutovers/CUT-1", "").body, "Your signature is break-glass")
	r.set(func() { r.quorum = QuorumView{Stale: time.Minute, Voters: 3, VotersUp: 1} })
	page = r.as("alice", "GET", "/cutovers/CUT-1", "").body
	require.Contains(t, page, "nothing can be decided here")
	require.NotContains(t, page, "<textarea")
}

func TestLookingChangesNothing(t *testing.T) {
	r := newStatefulRig(t)
	r.proposed()
	before := r.store.State()
	for _, path := range []string{
		"/", "/ui/overview", "/cutovers", "/ui/cutovers", "/cutovers/CUT-1", "/ui/cutovers/CUT-1", "/cutovers/CUT-1?done=approve",
		"/cutovers/CUT-1/approve", "/cutovers/CUT-1/approve?reason=x&service=orders-db&evidence=" + before.Cutovers["CUT-1"].Digest,
		"/cutovers/CUT-1/reject?reason=x", "/cutovers/new?service=orders-db&kind=planned&to=us", "/cutovers/new", "/cutovers/nope", "/ui/icon/3",
	} {
		a := r.as("alice", "GET", path, "")
		require.Less(t, a.status, 500, path)
		require.NotContains(t, a.body, "✓ Signed<", path)
		require.Equal(t, before, r.store.State(), path)
	}
	require.NotContains(t, r.as("alice", "GET", "/cutovers/CUT-1?done=approve", "").body, `id="notice"`, "a link cannot claim what is not so")
	require.Equal(t, 404, r.as("alice", "GET", "/cutovers/nope", "").status)
	require.Equal(t, 404, r.as("alice", "GET", "/cutovers/new?service=web", "").status)
}

func TestAPersonProposesFromTheServicesRow(t *testing.T) {
	r := newStatefulRig(t)
	overview := r.as("proposer", "GET", "/", "").body
	require.Contains(t, overview, "active, epoch 1")
	require.Contains(t, overview, "⚠ G4 not enforced")
	require.Contains(t, overview, `href="/cutovers/new?service=orders-db"`)
	require.NotContains(t, overview, `href="/cutovers/new?service=web"`)

	page := r.as("proposer", "GET", "/cutovers/new?service=orders-db", "").body
	for _, want := range []string{`value="planned" selected`, "eu → us", "not configured", "2 of approver, not yours if you propose it", "Nothing moves yet"} {
		require.Contains(t, page, want)
	}
	require.NotContains(t, page, "checkbox")
	v := formOf(t, page, "/cutovers")
	require.Equal(t, "us", v.Get("to"), "what the person saw is what is proposed")
	a := r.submit("proposer", "/cutovers", v)
	require.Equal(t, 422, a.status)
	require.Contains(t, a.body, "must say why, is empty")
	v = formOf(t, a.body, "/cutovers")
	v.Set("reason", "maintenance of eu")
	page = r.follow("proposer", r.submit("proposer", "/cutovers", v))
	require.Contains(t, page, "✓ Proposed")
	require.Contains(t, page, "maintenance of eu")
	r.follow("proposer", r.submit("proposer", "/cutovers", v))
	require.Len(t, r.store.State().Cutovers, 1, "sent twice, it is proposed once")

	page = r.as("proposer", "GET", "/cutovers/new?service=orders-db", "").body
	require.Contains(t, page, "It cannot be proposed like this")
	require.NotContains(t, page, "<textarea")
}

func TestTheOverviewSaysThatADecisionIsNeeded(t *testing.T) {
	r := newStatefulRig(t)
	require.NotContains(t, r.as("alice", "GET", "/", "").body, "DECISION NEEDED")
	r.down(3, "eu")
	require.Contains(t, r.as("alice", "GET", "/", "").body, "✕ ACTIVE SIDE DOWN")
	r.proposed()
	page := r.as("alice", "GET", "/", "").body
	for _, want := range []string{"<title>(1) eu-1 – quorate</title>", "/ui/icon/1", "! DECISION NEEDED", `href="/cutovers/CUT-1"`, "0 of 2 signatures · a gate needs a waiver", "held for approval", "CUT-1 is open"} {
		require.Contains(t, page, want)
	}
	require.Less(t, strings.Index(page, "DECISION NEEDED"), strings.Index(page, "voters, leader"), "it comes first")
	require.Equal(t, 1, strings.Count(page, `role="alert"`), "only a decision that is new is told at once")
	require.Contains(t, page, `<p id="alert" class="quiet" role="alert"></p>`)
	require.Contains(t, r.as("alice", "GET", "/ui/icon/12", "").body, "9+")
	require.Contains(t, r.as("alice", "GET", "/cutovers", "").body, "<title>(1) Cutovers")
}

func TestWhatHoldsUpACutoverUnderWayCanBeWaivedByForm(t *testing.T) {
	r := newStatefulRig(t, func(c *Config) {
		c.Acknowledged = func(string) ([]string, bool) { return []string{"eu-1", "us-1"}, true }
	})
	r.set(func() { r.quorum.Leader = "eu-1" })
	r.begun()
	page := r.as("alice", "GET", "/cutovers/CUT-1", "").body
	require.Contains(t, page, "waits for ap-1 to stop answering eu")
	require.Equal(t, []string{"nodes_acknowledged=ap-1"}, boxes(page))
	require.NotContains(t, page, "cannot be waived")
	v := formOf(t, page, "/cutovers/CUT-1/approve")
	v.Set("service", "orders-db")
	v.Set("reason", "ap-1 is powered off")
	v["waive"] = boxes(page)
	page = r.follow("alice", r.submit("alice", "/cutovers/CUT-1/approve", v))
	require.Contains(t, page, "ap-1 is powered off")

	abort := formOf(t, page, "/cutovers/CUT-1/abort")
	abort.Set("reason", "eu is back")
	a := r.submit("bob", "/cutovers/CUT-1/abort", abort)
	require.Equal(t, 403, a.status, "alice's form")
	abort = formOf(t, a.body, "/cutovers/CUT-1/abort")
	abort.Set("reason", "eu is back")
	a = r.submit("bob", "/cutovers/CUT-1/abort", abort)
	require.Equal(t, 422, a.status)
	require.Contains(t, a.body, "must be orders-db")
	abort = formOf(t, a.body, "/cutovers/CUT-1/abort")
	require.Equal(t, "eu is back", abort.Get("reason"))
	abort.Set("service", "orders-db")
	page = r.follow("bob", r.submit("bob", "/cutovers/CUT-1/abort", abort))
	require.Contains(t, page, "aborted CUT-1: eu goes on under a new epoch")
	require.Contains(t, page, "■ Aborted")
}
