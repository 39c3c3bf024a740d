package api

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/statestore"
)

func TestACutoverFromItsProposalToItsReport(t *testing.T) {
	r := newStatefulRig(t)
	r.down(3, "eu")
	a := r.as("alice", "POST", "/v1/cutovers", `{"service":"orders-db","kind":"emergency","reason":"eu is gone"}`)
	require.Equal(t, 201, a.status, a.body)
	co := items[apitype.Cutover](t, a)[0]
	require.Equal(t, "CUT-1", co.ID)
	require.Equal(t, []any{"orders-db", "eu", "us", uint64(1), uint64(2), "proposed", "alice"},
		[]any{co.Service, co.Source, co.Destination, co.Epoch, co.NextEpoch, co.Phase, co.Proposer})
	require.Equal(t, "proposed CUT-1: orders-db eu -> us (emergency), 0 of 2 approvals, 2 gates to waive", co.Text)
	require.InDelta(t, 1800, co.ExpiresIn, 5)
	require.Equal(t, []string{"lag_within_rpo", "source_fenced"}, rules(co.Blockers))
	require.Len(t, co.Votes, 2)
	require.Equal(t, []string{
		"quorate approve CUT-1 --evidence " + co.Evidence + ` --waive lag_within_rpo --waive source_fenced --reason "..."`,
		`quorate reject CUT-1 --reason "..."`,
	}, co.Next)
	require.Regexp(t, `^eu stays the answer, the proposal expires in (30m0|29m5\ds)`, co.IfNothing)
	require.Equal(t, []string{"orders-db.gslb.test."}, co.Reach.Names)
	require.InDelta(t, 5, co.Reach.TTLSeconds, 0, "the TTL is changing while a cutover is open")
	require.False(t, co.G4Enforced)

	// curl -d, without a content type of its own.
	a = r.as("bob", "POST", "/v1/cutovers/CUT-1/approve", signing(co.Evidence, waivers...), "Content-Type", "application/x-www-form-urlencoded")
	co = items[apitype.Cutover](t, a)[0]
	require.Equal(t, "signed 1 of 2 as bob. Waiting for one more approver (approver)", co.Text)
	require.Empty(t, co.Blockers)
	require.Equal(t, []string{"bob"}, co.Gates[2].Waived)
	require.Equal(t, apitype.Signature{
		User: "bob", Person: "bob", Via: "token", Waivers: waivers, Reason: "eu power lost, ticket 8812", At: co.Approvals.Signatures[0].At,
	}, co.Approvals.Signatures[0])
	co = items[apitype.Cutover](t, r.sign("carol", co))[0]
	require.Equal(t, "approved", co.Phase)
	require.Equal(t, "signed 2 of 2 as carol: approved, the move begins", co.Text)

	r.walk()
	st := items[apitype.Status](t, r.get("/v1/status"))[0]
	require.True(t, st.Services[0].Stateful.Moving)
	require.Zero(t, st.Services[0].V4[0].Percent+st.Services[0].V4[1].Percent, "while it moves nobody is answered with")
	r.walk("ap-1", "eu-1", "us-1")
	co = items[apitype.Cutover](t, r.get("/v1/cutovers/CUT-1"))[0]
	require.Equal(t, "done", co.Phase)
	require.EqualValues(t, 2, co.NextEpoch)
	require.Equal(t, []string{`quorate failback orders-db --reason "..."`}, co.Next)
	require.False(t, co.ClearsAt.IsZero())
	require.Positive(t, co.TookSeconds)
	st = items[apitype.Status](t, r.get("/v1/status"))[0]
	require.Equal(t, []any{"us", "test", uint64(1), uint64(2)},
		[]any{st.Services[0].Stateful.Active, st.Services[0].Stateful.Installation, st.Services[0].Stateful.Generation, st.Services[0].Stateful.Epoch})
	require.Empty(t, st.Waiting)

	report := items[apitype.CutoverReport](t, r.get("/v1/cutovers/CUT-1/report"))[0]
	require.Equal(t, co.Evidence, report.Evidence)
	var types []string
	for _, e := range report.Events {
		types = append(types, e.Type)
	}
	require.Equal(t, []string{"cutover.proposed", "cutover.signed", "cutover.approved", "cutover.begun", "cutover.published"}, types)
	require.Contains(t, r.get("/v1/history?service=orders-db").body, "cutover.published")
	require.NotContains(t, r.get("/v1/history?service=web").body, "cutover.published")
}

func rules(blockers []apitype.Blocker) []string {
	out := []string{}
	for _, b := range blockers {
		out = append(out, b.Rule)
	}
	return out
}

func TestACutOffNodeTakesNoApproval(t *testing.T) {
	r := newStatefulRig(t)
	co := r.proposed()
	before := r.store.State()
	r.set(func() { r.fail, r.quorum = ErrNoLeader, QuorumView{Stale: time.Minute} })
	for _, call := range []struct{ path, body string }{
		{"/v1/cutovers", proposal},
		{"/v1/cutovers/CUT-1/approve", signing(co.Evidence, waivers...)},
		{"/v1/cutovers/CUT-1/reject", `{"reason":"r"}`},
		{"/v1/cutovers/CUT-1/abort", `{"reason":"r"}`},
		{"/v1/cutovers/CUT-99/approve", signing(co.Evidence)},
	} {
		p := r.as("alice", "POST", call.path, call.body).problem(t)
		require.Equal(t, 503, p.Status, call.path)
		require.Equal(t, apitype.ProblemBase+"no-quorum", p.Type)
		require.Positive(t, p.RetryAfter)
		require.Equal(t, "quorate status", p.Next)
	}
	require.Same(t, before, r.store.State())
	a := r.get("/v1/cutovers/CUT-1")
	require.Equal(t, 200, a.status, "reading goes on")
	require.Equal(t, "true", a.header.Get("Quorate-Stale"))
}

func TestATimedOutApprovalIsUnknownAndIsRepeatedOnce(t *testing.T) {
	r := newStatefulRig(t)
	co := r.proposed()
	body := signing(co.Evidence, waivers...)
	path := "/v1/cutovers/CUT-1/approve"
	r.server.cfg.Proposer = lostAnswer{r}
	a := r.as("alice", "POST", path, body, "Idempotency-Key", "k-1")
	require.Equal(t, 504, a.status)
	p := a.problem(t)
	require.Equal(t, []string{apitype.ProblemBase + "unknown-outcome", "k-1"}, []string{p.Type, p.RequestID})

	r.server.cfg.Proposer = r
	again := r.as("alice", "POST", path, body, "Idempotency-Key", "k-1")
	require.Equal(t, 200, again.status, again.body)
	require.Equal(t, 1, items[apitype.Cutover](t, again)[0].Approvals.Have)
	require.Equal(t, 1, countEvents(r, "cutover.signed"))
	p = r.as("alice", "POST", path, strings.Replace(body, "8812", "8813", 1), "Idempotency-Key", "k-1").problem(t)
	require.Equal(t, apitype.ProblemBase+"conflict", p.Type, "the same key with another body")
	p = r.as("alice", "POST", path, body, "Idempotency-Key", "k-2").problem(t)
	require.Equal(t, apitype.ProblemBase+"already-signed", p.Type, "another key is another signature")
}

// lostAnswer commits, and loses the answer.
type lostAnswer struct{ r *rig }

func (l lostAnswer) Propose(ctx context.Context, cmd statestore.Command, o Origin) (statestore.Result, error) {
	if _, err := l.r.Propose(ctx, cmd, o); err != nil {
		return statestore.Result{}, err
	}
	return statestore.Result{}, ErrUnknownOutcome
}

func TestARepeatedProposalIsOneCutover(t *testing.T) {
	r := newStatefulRig(t)
	first := r.as("alice", "POST", "/v1/cutovers", proposal, "Idempotency-Key", "k-1")
	require.Equal(t, 201, first.status)
	again := r.as("alice", "POST", "/v1/cutovers", proposal, "Idempotency-Key", "k-1")
	require.Equal(t, 200, again.status, again.body)
	require.Equal(t, items[apitype.Cutover](t, first)[0].ID, items[apitype.Cutover](t, again)[0].ID)
	require.Len(t, r.store.State().Cutovers, 1)

	// A refusal is remembered too: the same request never turns into an approval.
	denied := r.as("viewer", "POST", "/v1/cutovers/CUT-1/reject", `{"reason":"r"}`, "Idempotency-Key", "k-1")
	require.Equal(t, 403, denied.status)
	require.Equal(t, 403, r.as("viewer", "POST", "/v1/cutovers/CUT-1/reject", `{"reason":"r"}`, "Idempotency-Key", "k-1").status)
	require.Equal(t, 1, countEvents(r, "cutover.refused"))
}

func TestADryRunFindsWhatTheActWouldAndWritesNothing(t *testing.T) {
	r := newStatefulRig(t)
	before := r.store.State()
	a := r.as("alice", "POST", "/v1/cutovers", strings.Replace(proposal, "{", `{"dry_run":true,`, 1))
	require.Equal(t, 200, a.status, a.body)
	dry := items[apitype.Cutover](t, a)[0]
	require.True(t, dry.DryRun)
	require.Empty(t, dry.ID)
	require.Equal(t, "would propose to move orders-db eu -> us (planned)", dry.Text)
	require.Len(t, dry.Gates, 7)
	require.Equal(t, waivers, rules(dry.Blockers))
	require.Same(t, before, r.store.State())

	co := r.proposed()
	before = r.store.State()
	path := "/v1/cutovers/CUT-1/"
	body := strings.Replace(signing(co.Evidence, waivers...), "{", `{"dry_run":true,`, 1)
	signed := items[apitype.Cutover](t, r.as("alice", "POST", path+"approve", body))[0]
	require.Equal(t, []any{true, "would approve CUT-1", 1}, []any{signed.DryRun, signed.Text, signed.Approvals.Have})
	require.Equal(t, 403, r.as("viewer", "POST", path+"approve", body).status)
	p := r.as("alice", "POST", path+"approve", strings.Replace(signing(co.Evidence), "{", `{"dry_run":true,`, 1)).problem(t)
	require.Equal(t, waivers, rules(p.Blockers))
	require.Equal(t, "rejected", items[apitype.Cutover](t, r.as("alice", "POST", path+"reject", `{"reason":"r","dry_run":true}`))[0].Phase)
	require.Equal(t, 404, r.as("alice", "POST", "/v1/cutovers/CUT-9/abort", `{"reason":"r","dry_run":true}`).status)
	require.Same(t, before, r.store.State())
}

func TestWithoutALoginNothingIsSignedNorRecorded(t *testing.T) {
	r := newStatefulRig(t)
	co := r.proposed()
	before := r.store.State()
	for _, who := range []string{"", "nobody"} {
		a := r.as(who, "POST", "/v1/cutovers/CUT-1/approve", signing(co.Evidence, waivers...))
		require.Equal(t, 401, a.status)
	}
	require.Equal(t, 403, r.as("alice", "POST", "/v1/cutovers/CUT-1/approve", signing(co.Evidence, waivers...), "Sec-Fetch-Site", "cross-site").status)
	require.Same(t, before, r.store.State())
}

func TestWhoMayNotReadAServiceLearnsNothingOfItsCutovers(t *testing.T) {
	r := newStatefulRig(t)
	co := r.proposed()
	require.Equal(t, 403, r.as("webops", "GET", "/v1/cutovers/CUT-1", "").status)
	require.Equal(t, 403, r.as("webops", "GET", "/v1/cutovers/CUT-1/report", "").status)
	require.Equal(t, 403, r.as("webops", "GET", "/v1/cutovers?service=orders-db", "").status)
	require.Empty(t, items[apitype.Cutover](t, r.as("webops", "GET", "/v1/cutovers", "")))
	st := items[apitype.Status](t, r.as("webops", "GET", "/v1/status", ""))[0]
	require.Empty(t, st.Waiting)
	require.NotContains(t, r.as("webops", "GET", "/v1/status", "").body, "orders-db")
	for _, evidence := range []string{co.Evidence, "0123-4567-89ab-cdef"} {
		a := r.as("webops", "POST", "/v1/cutovers/CUT-1/approve", signing(evidence, waivers...))
		require.Equal(t, 403, a.status)
		require.Equal(t, "webops-user may not approve this: no role with that capability holds", a.problem(t).Detail)
		require.NotContains(t, a.body, co.Evidence)
	}
	require.Equal(t, 403, r.as("webops", "POST", "/v1/cutovers", proposal).status)
	require.Equal(t, 3, countEvents(r, "cutover.refused"), "but the attempts are on record")
}

func TestCutoversAreListedNewestFirstAndByState(t *testing.T) {
	r := newStatefulRig(t)
	for range 10 {
		co := r.proposed()
		items[apitype.Cutover](t, r.as("carol", "POST", "/v1/cutovers/"+co.ID+"/reject", `{"reason":"r"}`))
	}
	r.proposed()
	list := func(query string) []string {
		var ids []string
		for _, co := range items[apitype.Cutover](t, r.get("/v1/cutovers"+query)) {
			ids = append(ids, co.ID)
		}
		return ids
	}
	require.Equal(t, []string{"CUT-11", "CUT-10", "CUT-9"}, list("")[:3])
	require.Len(t, list("?state=all"), 11)
	require.Equal(t, []string{"CUT-11", "CUT-10"}, list("?limit=2"))
	require.Equal(t, []string{"CUT-11"}, list("?state=open"))
	require.Equal(t, []string{"CUT-11"}, list("?state=proposed&service=orders-db"))
	require.Len(t, list("?state=rejected"), 10)
	require.Empty(t, list("?state=done"))
	require.Empty(t, list("?service=web"))
	require.Equal(t, 422, r.get("/v1/cutovers?state=closed").status)
	p := r.get("/v1/cutovers/CUT-99").problem(t)
	require.Equal(t, []any{404, "quorate cutover list"}, []any{p.Status, p.Next})
	require.Equal(t, 404, r.as("alice", "POST", "/v1/cutovers/CUT-99/approve", signing("0123-4567-89ab-cdef")).status)
}

func TestACutoverUnderWayShowsWhatItWaitsForAndIsAborted(t *testing.T) {
	r := newStatefulRig(t, func(c *Config) {
		c.Node = "eu-1"
		c.Acknowledged = func(string) ([]string, bool) { return []string{"eu-1"}, true }
	})
	r.set(func() { r.quorum.Leader = "eu-1" })
	co := r.begun()
	view := items[apitype.Cutover](t, r.get("/v1/cutovers/"+co.ID))[0]
	require.Equal(t, []string{"ap-1", "us-1"}, view.Waiting)
	require.Equal(t, []string{
		`quorate cutover abort CUT-1 --reason "..."`,
		"quorate approve CUT-1 --evidence " + co.Evidence + ` --waive nodes_acknowledged=ap-1,us-1 --reason "..."`,
	}, view.Next)
	require.Equal(t, "signed as alice: nodes stop answering with eu", items[apitype.Cutover](t, r.sign("alice", co, "nodes_acknowledged=us-1,ap-1"))[0].Text)
	require.Equal(t, "already-signed", name(r.sign("alice", co, "nodes_acknowledged=us-1")))

	aborted := items[apitype.Cutover](t, r.as("bob", "POST", "/v1/cutovers/CUT-1/abort", `{"reason":"us fills up"}`))[0]
	require.Equal(t, []any{"aborted", "aborted CUT-1: eu goes on under a new epoch"}, []any{aborted.Phase, aborted.Text})
	require.Equal(t, &statestore.Ownership{
		Active: "eu", Epoch: 3, Generation: 1, Since: r.store.State().Now, Index: r.store.State().Index, Cutover: "CUT-1",
	}, r.store.State().Services["orders-db"].Ownership)
}

func TestWhatAnApprovedCutoverNamesNextWorks(t *testing.T) {
	r := newStatefulRig(t)
	co := r.approved()
	require.Equal(t, []string{`quorate cutover abort CUT-1 --reason "..."`}, items[apitype.Cutover](t, r.get("/v1/cutovers/CUT-1"))[0].Next)
	require.Equal(t, "already-decided", name(r.as("bob", "POST", "/v1/cutovers/CUT-1/reject", `{"reason":"too late"}`)))
	require.Equal(t, 200, r.as("bob", "POST", "/v1/cutovers/CUT-1/abort", `{"reason":"too late"}`).status)
	require.Equal(t, statestore.Aborted, r.store.State().Cutovers[co.ID].Phase)
}

func name(a answer) string {
	var p apitype.Problem
	_ = json.Unmarshal([]byte(a.body), &p) // no problem has no name
	return p.Name()
}

func TestAnotherNodeAsksTheLeaderWhoHasAcknowledged(t *testing.T) {
	leader := newStatefulRig(t, func(c *Config) {
		c.Node = "us-1"
		c.Acknowledged = func(id string) ([]string, bool) { return []string{"ap-1"}, id == "CUT-1" }
	})
	r := newStatefulRig(t, func(c *Config) {
		c.Acknowledged = func(string) ([]string, bool) { return nil, false }
	})
	r.server.cfg.Call = func(ctx ctxt, node, method string, body []byte) ([]byte, error) {
		require.Equal(t, []string{"us-1", PeerMethod}, []string{node, method})
		return leader.server.Peer(ctx, "eu-1", body)
	}
	co := r.begun()
	require.Equal(t, []string{"eu-1", "us-1"}, items[apitype.Cutover](t, r.get("/v1/cutovers/"+co.ID))[0].Waiting)
	r.server.cfg.Call = func(ctxt, string, string, []byte) ([]byte, error) { return nil, ErrNoLeader }
	require.Empty(t, items[apitype.Cutover](t, r.get("/v1/cutovers/"+co.ID))[0].Waiting, "what is not known is not claimed")
}

func TestAPersonNamesTheActiveSideAfterARecovery(t *testing.T) {
	r := newStatefulRig(t)
	co := r.proposed()
	member := *r.store.State().Members["eu-1"]
	r.must(statestore.BeginGeneration{Generation: 2, Member: member, Reason: "quorum lost"})
	st := items[apitype.Status](t, r.get("/v1/status"))[0]
	require.True(t, st.Services[0].Stateful.Unconfirmed)
	require.Contains(t, r.get("/v1/status").body, `"code":"unconfirmed"`)
	require.Equal(t, "void", items[apitype.Cutover](t, r.get("/v1/cutovers/"+co.ID))[0].Phase)
	p := r.as("alice", "POST", "/v1/cutovers", proposal).problem(t)
	require.Equal(t, []any{409, apitype.ProblemBase + "unconfirmed", `quorate thaw orders-db --active CLUSTER --reason "..."`}, []any{p.Status, p.Type, p.Next})

	tests := []struct {
		name, who, path, body string
		status                int
		problem, want         string
	}{
		{"no reason", "alice", "?service=orders-db&active=us", "", 422, "validation", "/reason: must say why"},
		{"no service", "alice", "?active=us", "", 422, "validation", "/service: must name the service"},
		{"by who may not approve", "viewer", "?service=orders-db&active=us", `{"reason":"r"}`, 403, "forbidden", "may not confirm"},
		{"by who may not read it", "webops", "?service=orders-db&active=us", `{"reason":"r"}`, 403, "forbidden", "may not confirm this"},
		{"a cluster of others", "alice", "?service=orders-db&active=dr", `{"reason":"r"}`, 422, "validation", "none of its clusters"},
		{"a stateless service", "alice", "?service=web&active=us", `{"reason":"r"}`, 422, "validation", "is stateless"},
		{"a service that is not there", "alice", "?service=nope&active=us", `{"reason":"r"}`, 404, "not-found", "nope"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := r.store.State()
			a := r.as(tt.who, http.MethodDelete, "/v1/freeze"+tt.path, tt.body)
			require.Equal(t, tt.status, a.status, a.body)
			p := a.problem(t)
			require.Equal(t, apitype.ProblemBase+tt.problem, p.Type)
			text := p.Detail
			for _, e := range p.Errors {
				text += "\n" + e.Error()
			}
			require.Contains(t, text, tt.want)
			r.unmoved(t, before)
		})
	}
	dry := items[apitype.Act](t, r.as("alice", http.MethodDelete, "/v1/freeze", `{"service":"orders-db","active":"us","reason":"r","dry_run":true}`))[0]
	require.Equal(t, "would confirm us as the active side of orders-db", dry.Text)
	act := items[apitype.Act](t, r.as("alice", http.MethodDelete, "/v1/freeze?service=orders-db&active=us", `{"reason":"looked at the databases"}`))[0]
	require.Equal(t, "confirmed us as the active side of orders-db, epoch 2", act.Text)
	own := r.store.State().Services["orders-db"].Ownership
	require.Equal(t, []any{"us", uint64(2), uint64(2), false}, []any{own.Active, own.Epoch, own.Generation, own.Unconfirmed})
	a := r.as("alice", http.MethodDelete, "/v1/freeze?service=orders-db&active=eu", `{"reason":"r"}`)
	require.Equal(t, "already-decided", name(a), a.body)
}

func TestStatusSaysWhatWaitsForPeople(t *testing.T) {
	r := newStatefulRig(t)
	st := items[apitype.Status](t, r.get("/v1/status"))[0]
	require.Equal(t, "orders-db", st.Services[0].Name)
	require.Equal(t, "stateful", st.Services[0].Kind)
	require.Contains(t, st.Services[0].Notes, "G4 not enforced")
	require.InDelta(t, 100, st.Services[0].V4[0].Percent, 0)
	require.Nil(t, st.Services[1].Stateful)
	require.Empty(t, st.Waiting)
	r.down(3, "eu")
	st = items[apitype.Status](t, r.get("/v1/status"))[0]
	require.Regexp(t, `^ACTIVE SIDE DOWN since \d\d:\d\d:\d\dZ, held for approval$`, st.Services[0].Notes[0])
	require.InDelta(t, 100, st.Services[0].V4[0].Percent, 0, "eu stays the answer")

	co := r.proposed()
	st = items[apitype.Status](t, r.get("/v1/status"))[0]
	require.Equal(t, []apitype.CutoverSummary{{
		ID: co.ID, Service: "orders-db", Kind: "planned", Source: "eu", Destination: "us", Phase: "proposed",
		Required: 2, Blocked: true, ExpiresAt: co.ExpiresAt,
	}}, st.Waiting)
	require.Equal(t, co.ID, st.Services[0].Stateful.Open)
	i := 0
	for ; st.Banners[i].Code != "cutover-waiting"; i++ {
	}
	require.Contains(t, st.Banners[i].Text, "CUT-1 orders-db eu -> us (planned) needs approval: 0 of 2 signed, a gate needs a waiver, expires at ")
	svc := items[apitype.Service](t, r.get("/v1/services/orders-db"))[0]
	require.Equal(t, []any{"test", uint64(1), uint64(1)}, []any{svc.Stateful.Installation, svc.Stateful.Generation, svc.Stateful.Epoch})
}

func TestATokenCountsAsWhoMadeIt(t *testing.T) {
	r := newStatefulRig(t)
	tok := items[apitype.Token](t, r.post("/v1/tokens", `{"user":"ann","groups":["approver","admin"]}`))[0]
	require.Equal(t, []any{"admin-user", false}, []any{tok.Minter, tok.Root})
	// What that token makes counts as the same person, however long the chain.
	a := r.as("", "POST", "/v1/tokens", `{"user":"eve","groups":["approver"]}`, "Authorization", "Bearer "+tok.Secret)
	eve := items[apitype.Token](t, a)[0]
	require.Equal(t, "admin-user", eve.Minter)

	co := r.proposed()
	approve := func(secret string, waivers ...string) answer {
		return r.as("", "POST", "/v1/cutovers/CUT-1/approve", signing(co.Evidence, waivers...), "Authorization", "Bearer "+secret)
	}
	require.Equal(t, 200, approve(tok.Secret, waivers...).status)
	require.Equal(t, "already-signed", name(approve(eve.Secret)))
	require.Equal(t, 1, items[apitype.Cutover](t, r.get("/v1/cutovers/CUT-1"))[0].Approvals.Have)
}

func TestASignatureOfRevisedEvidenceIsVoidAndSaysSo(t *testing.T) {
	r := newStatefulRig(t)
	co := r.proposed()
	items[apitype.Cutover](t, r.sign("alice", co, waivers...))
	r.down(3, "us")
	var told []string
	for range 2 { // before the leader has written it down, and after
		a := r.sign("bob", co, waivers...)
		require.Equal(t, 409, a.status)
		p := a.problem(t)
		require.Equal(t, []string{"evidence-changed", co.Evidence}, []string{p.Name(), p.Signed})
		told = append(told, p.Evidence)
		r.walk()
	}
	now := items[apitype.Cutover](t, r.get("/v1/cutovers/CUT-1"))[0]
	require.NotEqual(t, co.Evidence, now.Evidence)
	require.Equal(t, []string{now.Evidence, now.Evidence}, told)
	require.Equal(t, []any{0, 1, "proposed"}, []any{now.Approvals.Have, now.Approvals.Voided, now.Phase})
	require.Equal(t, []string{"destination_healthy", "lag_within_rpo", "source_fenced"}, rules(now.Blockers))
}

func TestBreakGlassSignsAndIsMarked(t *testing.T) {
	r := newStatefulRig(t)
	co := r.proposed()
	signed := items[apitype.Cutover](t, r.sign("gus", co, waivers...))[0]
	require.True(t, signed.Approvals.Signatures[0].BreakGlass)
}

// Every answer of a cutover, of whatever kind, is what the document says.
func TestCutoverAnswersMatchTheDocument(t *testing.T) {
	r := newStatefulRig(t)
	doc := r.openAPI()
	check := func(method, path, status, media string, a answer) {
		t.Helper()
		responses := doc.Paths[path][method].Responses
		named, ok := responses[status]
		require.Truef(t, ok, "%s %s %s is not in the document", method, path, status)
		var v any
		require.NoError(t, json.Unmarshal([]byte(a.body), &v), a.body)
		require.Empty(t, doc.check("", named.Content[media].Schema, v), a.body)
	}
	const plain, prob = "application/json", "application/problem+json"
	co := r.proposed()
	check("post", "/v1/cutovers", "409", prob, r.as("alice", "POST", "/v1/cutovers", proposal))
	check("post", "/v1/cutovers/{id}/approve", "409", prob, r.sign("alice", co))
	check("post", "/v1/cutovers/{id}/approve", "403", prob, r.sign("viewer", co, waivers...))
	check("post", "/v1/cutovers/{id}/approve", "422", prob, r.as("alice", "POST", "/v1/cutovers/CUT-1/approve", "{}"))
	check("post", "/v1/cutovers/{id}/approve", "200", plain, r.sign("alice", co, waivers...))
	check("get", "/v1/cutovers", "200", plain, r.get("/v1/cutovers"))
	check("get", "/v1/cutovers/{id}", "200", plain, r.get("/v1/cutovers/CUT-1"))
	check("get", "/v1/cutovers/{id}", "404", prob, r.get("/v1/cutovers/CUT-2"))
	check("get", "/v1/status", "200", plain, r.get("/v1/status"))
	check("get", "/v1/services/{name}", "200", plain, r.get("/v1/services/orders-db"))
	items[apitype.Cutover](t, r.sign("bob", co))
	r.walk()
	check("post", "/v1/cutovers/{id}/reject", "409", prob, r.as("alice", "POST", "/v1/cutovers/CUT-1/reject", `{"reason":"r"}`))
	check("post", "/v1/cutovers/{id}/abort", "200", plain, r.as("alice", "POST", "/v1/cutovers/CUT-1/abort", `{"reason":"r"}`))
	check("get", "/v1/cutovers/{id}/report", "200", plain, r.get("/v1/cutovers/CUT-1/report"))
	a := r.as("alice", "POST", "/v1/cutovers", proposal, "Idempotency-Key", "k-1")
	require.Equal(t, 201, a.status, a.body)
	check("post", "/v1/cutovers", "201", plain, a)
	check("post", "/v1/cutovers", "200", plain, r.as("alice", "POST", "/v1/cutovers", proposal, "Idempotency-Key", "k-1"))
	check("post", "/v1/cutovers/{id}/reject", "200", plain, r.as("alice", "POST", "/v1/cutovers/CUT-2/reject", `{"reason":"r"}`))
	r.later(time.Hour)
	require.Equal(t, 201, r.as("alice", "POST", "/v1/cutovers", proposal).status)
	r.later(time.Hour)
	check("post", "/v1/cutovers/{id}/approve", "410", prob, r.sign("bob", apitype.Cutover{ID: "CUT-3", Evidence: co.Evidence}, waivers...))
	r.set(func() { r.fail = ErrNoLeader })
	check("post", "/v1/cutovers/{id}/approve", "503", prob, r.sign("alice", co))
	r.set(func() { r.fail = ErrUnknownOutcome })
	check("post", "/v1/cutovers/{id}/approve", "504", prob, r.sign("alice", co))
}

// Webhooks send what streams send.
func TestACloudEventHasTheBytesOfTheStream(t *testing.T) {
	r := newStatefulRig(t)
	stream, end := r.open(t, "/v1/events?types=cutover.*")
	defer end()
	r.proposed()
	m := stream.next()
	e := r.lastEvent()
	want, err := CloudEvent("test", "eu-1", e)
	require.NoError(t, err)
	require.Equal(t, string(want), m.data)
	require.Contains(t, m.data, `"source":"/quorate/test/eu-1","type":"dev.quorate.cutover.proposed","subject":"services/orders-db"`)
}
