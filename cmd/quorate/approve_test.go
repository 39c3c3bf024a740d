package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/api/client"
	"github.com/quorate/quorate/health"
)

// pending is a cutover as it waits for its first signature.
func pending() apitype.Cutover {
	at := time.Date(2026, 3, 1, 3, 11, 2, 0, time.UTC)
	return apitype.Cutover{
		ID: "CUT-17", Service: "orders-db", Kind: "emergency", Source: "eu", Destination: "us", Epoch: 12, NextEpoch: 13, Generation: 1,
		Phase: "proposed", Proposer: "automation", Reason: "eu down by 3 of 3 regions for 60s", ProposedAt: at, ExpiresAt: at.Add(30 * time.Minute),
		ExpiresIn: 1613, IfNothing: "eu stays the answer, the proposal expires in 26m53s", Evidence: "9f3c-77a1-0b2e-51d4",
		Gates: []apitype.Gate{
			{Name: "source_down_by_quorum", Class: "clean", Why: "orders-db/eu down by 3 of 3 regions", Waivable: true, Passed: true},
			{Name: "lag_within_rpo", Class: "not_configured", Why: "no lag is configured", Waivable: true, Need: 1, Waive: "lag_within_rpo"},
			{Name: "source_fenced", Class: "not_configured", Why: "no fence is configured", Waivable: true, Need: 1, Waive: "source_fenced"},
			{Name: "no_other_cutover", Class: "clean", Why: "none", Passed: true},
		},
		Votes: []apitype.TargetVotes{{
			Target: "orders-db/eu/192.0.2.10", Verdict: apitype.Verdict{Side: health.Down, Down: 3, Eligible: 3},
			Votes: []apitype.Vote{{Observer: "eu-1", Side: health.Down, Reason: "refused", Counts: true}},
		}},
		Approvals: apitype.Approvals{Policy: "two-person", Required: 2, From: []string{"approver"}},
		Reach: apitype.Reach{
			Names: []string{"orders-db.gslb.example.com."}, TTLSeconds: 5, ClearsSeconds: 30,
			Traffic: &apitype.ServiceTraffic{Seconds: 700, Answers: 22_800, AnswersPerSecond: 37.9, Networks: 412, MissingNodes: []string{"ap-1"}},
		},
	}
}

// office is a node that holds one cutover. It keeps what it was sent.
type office struct {
	co      apitype.Cutover
	problem *apitype.Problem          // answers every act, when there is one
	then    func(co *apitype.Cutover) // what an act, or a further look, does
	looks   func(co *apitype.Cutover) // what happens at each read
	sent    []apitype.ApproveRequest
}

func (o *office) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		var req apitype.ApproveRequest
		_ = json.NewDecoder(r.Body).Decode(&req) // the test looks at what came
		o.sent = append(o.sent, req)
		if o.problem != nil {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(o.problem.Status)
			_ = json.NewEncoder(w).Encode(o.problem)
			return
		}
		if o.then != nil {
			o.then(&o.co)
		}
	} else if o.looks != nil {
		o.looks(&o.co)
	}
	_ = json.NewEncoder(w).Encode(apitype.Envelope[apitype.Cutover]{API: "v1", Kind: "cutover", Items: []apitype.Cutover{o.co}})
}

// at runs a verb against the office and returns exit code, stdout and stderr. What a
// person types is nil without a terminal.
func (o *office) at(t *testing.T, typed *string, args ...string) (int, string, string) {
	t.Helper()
	ts := httptest.NewServer(o)
	defer ts.Close()
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	var out, talk bytes.Buffer
	c := &cli{in: strings.NewReader(""), out: &out, err: &talk}
	if typed != nil {
		c.in, c.person = strings.NewReader(*typed), true
	}
	code := c.run(t.Context(), append(args, "--addr", ts.URL))
	return code, out.String(), talk.String()
}

func TestTheCardHoldsWhatAPersonNeedsToDecide(t *testing.T) {
	o := &office{co: pending()}
	code, out, _ := o.at(t, nil, "cutover", "show", "CUT-17")
	require.Zero(t, code)
	golden := filepath.Join("testdata", "card.golden")
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), out)
}

// Who cannot be asked is told the whole command, digest and waivers included.
func TestWithoutATerminalApproveSaysTheWholeCommand(t *testing.T) {
	o := &office{co: pending()}
	code, out, talk := o.at(t, nil, "approve", "CUT-17", "--reason", "eu's power is lost")
	require.Equal(t, client.ExitUsage, code)
	require.Empty(t, out)
	require.Empty(t, o.sent)
	require.Equal(t, "quorate: approve CUT-17: nobody can be asked here; read: quorate cutover show CUT-17, then run:\n"+
		`  quorate approve CUT-17 --evidence 9f3c-77a1-0b2e-51d4 --waive lag_within_rpo --waive source_fenced --confirm orders-db --reason 'eu'\''s power is lost'`+"\n", talk)
}

func TestAScriptSignsWhatItSays(t *testing.T) {
	o := &office{co: pending(), then: func(co *apitype.Cutover) {
		co.Text = "signed 1 of 2 as sre-1. Waiting for one more approver (approver)"
	}}
	code, out, _ := o.at(t, nil, "approve", "CUT-17", "--evidence", "9f3c", "--waive", "source_fenced", "--waive", "lag_within_rpo", "--confirm", "orders-db", "--reason", "why")
	require.Zero(t, code)
	require.Equal(t, []apitype.ApproveRequest{{Evidence: "9f3c", Waivers: []string{"source_fenced", "lag_within_rpo"}, Reason: "why"}}, o.sent)
	require.Equal(t, "signed 1 of 2 as sre-1. Waiting for one more approver (approver)\n", out)
}

func TestApproveWantsTheRightService(t *testing.T) {
	o := &office{co: pending()}
	code, _, talk := o.at(t, nil, "approve", "CUT-17", "--evidence", "9f3c", "--confirm", "web", "--reason", "why")
	require.Equal(t, client.ExitUsage, code)
	require.Contains(t, talk, "--confirm must be orders-db")
	code, _, talk = o.at(t, nil, "approve", "CUT-17", "--evidence", "9f3c", "--confirm", "orders-db")
	require.Equal(t, client.ExitUsage, code)
	require.Contains(t, talk, "approve needs --reason")
	require.Empty(t, o.sent)
}

// A person sees the card, is told each risk, and types the service's name.
func TestAPersonIsAskedForEachWaiverAndTheName(t *testing.T) {
	for _, tt := range []struct {
		name    string
		typed   string
		args    []string
		code    int
		waivers []string // nil: nothing is sent
	}{
		{"yes to both and the name signs", "yes\nyes\norders-db\n", nil, 0, []string{"lag_within_rpo", "source_fenced"}},
		{"a waiver that was given is not asked for", "yes\norders-db\n", []string{"--waive", "source_fenced"}, 0, []string{"source_fenced", "lag_within_rpo"}},
		{"no to one waiver signs nothing", "yes\nno\norders-db\n", nil, client.ExitFailure, nil},
		{"another name signs nothing", "yes\nyes\nweb\n", nil, client.ExitFailure, nil},
		{"an end of input signs nothing", "yes\n", nil, client.ExitFailure, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := &office{co: pending()}
			code, _, talk := o.at(t, &tt.typed, append([]string{"approve", "CUT-17", "--reason", "why"}, tt.args...)...)
			require.Equal(t, tt.code, code, talk)
			require.Contains(t, talk, "evidence 9f3c-77a1-0b2e-51d4")
			require.Contains(t, talk, "nobody knows how far us trails eu")
			if tt.waivers == nil {
				require.Empty(t, o.sent)
				return
			}
			require.Equal(t, []apitype.ApproveRequest{{Evidence: "9f3c-77a1-0b2e-51d4", Waivers: tt.waivers, Reason: "why"}}, o.sent)
		})
	}
}

// Between a change of a gate and the entry that says so a signature would be void:
// a person sees the card of afterwards.
func TestWhatIsShownIsWhatCanBeSigned(t *testing.T) {
	o := &office{co: pending()}
	gates := func(lag string) any {
		return map[string]any{"gates": []map[string]string{
			{"gate": "source_down_by_quorum", "class": "clean"},
			{"gate": "lag_within_rpo", "class": lag},
			{"gate": "source_fenced", "class": "not_configured"},
			{"gate": "no_other_cutover", "class": "clean"},
		}}
	}
	o.co.Facts, o.co.Evidence = gates("blocked"), "0000"
	looks := 0
	o.looks = func(co *apitype.Cutover) {
		if looks++; looks == 3 {
			co.Facts, co.Evidence = gates("not_configured"), "1111"
		}
	}
	code, out, _ := o.at(t, nil, "cutover", "show", "CUT-17")
	require.Zero(t, code)
	require.Contains(t, out, "evidence 1111")
	require.Equal(t, 3, looks)
}

// Nobody is asked to sign what cannot be signed, or what they have not seen.
func TestAPersonIsNotAskedInVain(t *testing.T) {
	typed := "yes\nyes\norders-db\n"
	o := &office{co: pending()}
	o.co.Gates[3] = apitype.Gate{Name: "no_other_cutover", Class: "blocked", Why: "CUT-16 is open"}
	code, _, talk := o.at(t, &typed, "approve", "CUT-17", "--reason", "why")
	require.Equal(t, client.ExitRefused, code)
	require.Contains(t, talk, "blocked, and no waiver helps:\n  no_other_cutover: CUT-16 is open")

	o.co = pending()
	code, _, talk = o.at(t, &typed, "approve", "CUT-17", "--evidence", "0000", "--reason", "why")
	require.Equal(t, client.ExitConflict, code)
	require.Contains(t, talk, "the evidence is 9f3c-77a1-0b2e-51d4 now, you have seen 0000")

	o.co.Phase = "rejected"
	code, _, talk = o.at(t, &typed, "approve", "CUT-17", "--reason", "why")
	require.Equal(t, client.ExitConflict, code)
	require.Contains(t, talk, "rejected CUT-17 orders-db eu -> us: eu stays the answer")
	require.Empty(t, o.sent)
}

// A refusal ends with the command that signs what is there now.
func TestARefusalSaysWhatToRunNext(t *testing.T) {
	args := []string{"approve", "CUT-17", "--evidence", "0000", "--confirm", "orders-db", "--reason", "why"}
	o := &office{co: pending(), problem: &apitype.Problem{
		Type: apitype.ProblemBase + apitype.ProblemBlocked, Title: "blocked by a rule", Status: http.StatusConflict,
		Blockers: []apitype.Blocker{
			{Rule: "lag_within_rpo", Reason: "no lag is configured", Waivable: true, Waive: "lag_within_rpo"},
			{Rule: "source_fenced", Reason: "no fence is configured", Waivable: true, Waive: "source_fenced"},
		},
	}}
	code, out, talk := o.at(t, nil, args...)
	require.Equal(t, client.ExitRefused, code)
	require.Empty(t, out)
	require.Equal(t, "quorate: blocked by a rule\n"+
		"  lag_within_rpo: no lag is configured (--waive lag_within_rpo)\n"+
		"  source_fenced: no fence is configured (--waive source_fenced)\n"+
		"next: quorate approve CUT-17 --evidence 9f3c-77a1-0b2e-51d4 --waive lag_within_rpo --waive source_fenced --confirm orders-db --reason why\n", talk)

	o.problem = &apitype.Problem{
		Type: apitype.ProblemBase + apitype.ProblemEvidence, Title: "the evidence has changed", Status: http.StatusConflict,
		Detail: "approve CUT-17: the evidence has changed", Evidence: "9f3c-77a1-0b2e-51d4", Signed: "0000",
	}
	code, _, talk = o.at(t, nil, args...)
	require.Equal(t, client.ExitConflict, code)
	require.Contains(t, talk, "signed: 0000\nnow:    9f3c-77a1-0b2e-51d4\nnext: quorate cutover show CUT-17, and then: quorate approve CUT-17 --evidence 9f3c-77a1-0b2e-51d4 ")

	o.problem = &apitype.Problem{
		Type: apitype.ProblemBase + apitype.ProblemSelfApproval, Title: "the proposer may not approve", Status: http.StatusForbidden,
		Detail: "CUT-17 (orders-db from eu to us): sre-1 proposed it and may not approve it; another approver must sign",
	}
	code, _, talk = o.at(t, nil, args...)
	require.Equal(t, client.ExitForbidden, code)
	require.Equal(t, "quorate: approve CUT-17: the proposer may not approve; another approver must sign\n", talk)
}

func TestAWaitingApproveEndsWithTheCutover(t *testing.T) {
	args := []string{"approve", "CUT-17", "--evidence", "9f3c", "--confirm", "orders-db", "--reason", "why", "--wait"}
	ends := func(phase string) *office {
		o := &office{co: pending()}
		o.then = func(co *apitype.Cutover) {
			co.Phase, co.Text = "approved", "signed 2 of 2 as dba-2: approved, the move begins"
			o.looks = func(co *apitype.Cutover) { co.Phase, co.TookSeconds = phase, 0.2 }
		}
		return o
	}
	code, out, talk := ends("done").at(t, nil, args...)
	require.Zero(t, code, talk)
	require.Equal(t, "done: orders-db answers with us, epoch 13, 200ms after the last signature\n", out)
	require.Contains(t, talk, "signed 2 of 2 as dba-2: approved, the move begins\n")

	code, out, _ = ends("aborted").at(t, nil, args...)
	require.Equal(t, client.ExitConflict, code)
	require.Contains(t, out, "aborted CUT-17 orders-db eu -> us: eu answers again, under a new epoch")

	o := &office{co: pending()}
	o.then = func(*apitype.Cutover) {
		o.looks = func(co *apitype.Cutover) { co.Evidence = "1111" }
	}
	code, _, talk = o.at(t, nil, append(args, "--timeout", "5s")...)
	require.Equal(t, client.ExitConflict, code)
	require.Contains(t, talk, "the evidence is 1111 now, your signature of 9f3c-77a1-0b2e-51d4 is void")

	o = &office{co: pending()}
	code, _, talk = o.at(t, nil, append(args, "--timeout", "1s")...)
	require.Equal(t, client.ExitUnknown, code)
	require.Contains(t, talk, "after 1s it is still proposed; go on with: quorate cutover show CUT-17")
}

// While it is under way a signature carries waivers of what holds it up, no others.
func TestUnderWayTheNodesThatAreAwaitedAreWaivedByName(t *testing.T) {
	co := pending()
	co.Phase, co.Waiting = "fencing", []string{"ap-1"}
	require.Equal(t, []string{"nodes_acknowledged=ap-1"}, waiversNeeded(co))
	require.Equal(t, []string{
		`quorate approve CUT-17 --evidence 9f3c-77a1-0b2e-51d4 --waive nodes_acknowledged=ap-1 --confirm orders-db --reason "..."`,
		`quorate cutover abort CUT-17 --confirm orders-db --reason "..."`,
	}, toDecide(co))
}

func TestTheCardNamesWhatDecidesItNow(t *testing.T) {
	const abort = `quorate cutover abort CUT-17 --confirm orders-db --reason "..."`
	approved := pending()
	approved.Phase, approved.Approvals.Have = "approved", 2
	require.Equal(t, []string{"everybody has signed: it begins within seconds", abort}, toDecide(approved))
	approved.Approvals.Have = 1 // one whose role was taken away
	require.Contains(t, toDecide(approved)[0], "quorate approve CUT-17 ")

	moving := approved
	moving.Phase, moving.Waiting = "fencing", []string{"ap-1", "us-1"}
	require.Equal(t, []string{
		`quorate approve CUT-17 --evidence 9f3c-77a1-0b2e-51d4 --waive nodes_acknowledged=ap-1,us-1 --confirm orders-db --reason "..."`, abort,
	}, toDecide(moving))
	moving.Waiting = nil
	require.Equal(t, []string{abort}, toDecide(moving))
}
