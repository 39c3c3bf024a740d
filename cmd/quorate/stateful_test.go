package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/api/apitype"
)

func TestStatusSaysWhatWaitsForWhom(t *testing.T) {
	now := time.Date(2026, 3, 1, 3, 14, 9, 0, time.UTC)
	one := apitype.CutoverSummary{ID: "CUT-17", Service: "orders-db", Source: "eu", Destination: "us", Phase: "proposed", Required: 2, ExpiresAt: now.Add(26*time.Minute + 53*time.Second)}
	require.Equal(t, []string{"1 cutover needs approval: CUT-17 orders-db eu -> us, expires in 26m53s (quorate cutover show CUT-17)"}, waitingLines([]apitype.CutoverSummary{one}, now))
	two := one
	two.ID, two.Service, two.Have, two.Blocked = "CUT-18", "auth-db", 1, true
	three := one
	three.ID, three.Phase = "CUT-19", "fencing"
	require.Equal(t, []string{
		"2 cutovers need approval:",
		"CUT-17 orders-db eu -> us, expires in 26m53s (quorate cutover show CUT-17)",
		"CUT-18 auth-db eu -> us, expires in 26m53s, 1 of 2 signed, needs waivers (quorate cutover show CUT-18)",
		"CUT-19 orders-db eu -> us is under way: eu is not answered any more (quorate cutover show CUT-19)",
	}, waitingLines([]apitype.CutoverSummary{one, two, three}, now))
	require.Empty(t, waitingLines(nil, now))
}

func TestAStatefulServiceShowsItsActiveSide(t *testing.T) {
	tests := []struct {
		name    string
		owner   apitype.Stateful
		answers string
	}{
		{"held", apitype.Stateful{Active: "eu", Epoch: 12}, "eu (epoch 12)"},
		{"moving", apitype.Stateful{Active: "eu", Epoch: 12, Moving: true, Open: "CUT-17"}, "withheld (was eu, epoch 12)"},
		{"unconfirmed", apitype.Stateful{Active: "eu", Epoch: 12, Unconfirmed: true}, "what each node last knew"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := apitype.ServiceSummary{Name: "orders-db", Kind: "stateful", Stateful: &tt.owner, Frozen: true, Notes: []string{"G4 not enforced"}}
			require.Equal(t, tt.answers, answersNow(s))
			require.Equal(t, "frozen; G4 not enforced", serviceNote(s))
			s.Notes = append(s.Notes, "frozen by alice")
			require.Equal(t, "G4 not enforced; frozen by alice", serviceNote(s), "once")
		})
	}
}

func TestHistoryOfAStatefulServiceIsItsEpochs(t *testing.T) {
	co := pending()
	co.Phase, co.TookSeconds, co.DecidedAt = "done", 5.1, time.Date(2026, 3, 1, 3, 16, 40, 0, time.UTC)
	co.Approvals.Signatures = []apitype.Signature{{User: "sre-1", Reason: "eu power lost, ticket 8812"}, {User: "dba-2", Reason: "seen it"}}
	co.Gates[2].Waived = []string{"sre-1"}
	var out bytes.Buffer
	columns(&out, epochHead, [][]string{epochRow(co)})
	require.Equal(t, "EPOCH  WHEN                  MOVE      KIND       TOOK  BY                                     REASON\n"+
		"13     2026-03-01 03:16:40Z  eu -> us  emergency  5.1s  sre-1 + dba-2 (waived: source_fenced)  eu power lost, ticket 8812\n", out.String())
	co.Proposer, co.Reason = "sre-3", "back to preferred"
	require.Equal(t, "back to preferred", because(co))
}

// An abort and a person's word after a recovery make epochs as well: without them the
// list would end below the epoch that is active.
func TestHistoryHasTheEpochsThatNoMoveMade(t *testing.T) {
	co := pending()
	co.Phase, co.NextEpoch = "done", 13
	wall := time.Date(2026, 3, 2, 3, 0, 0, 0, time.UTC)
	event := func(kind, user string, detail map[string]any) apitype.Event {
		return apitype.Event{Type: kind, Actor: user, Wall: wall, Detail: detail}
	}
	var out bytes.Buffer
	columns(&out, epochHead, epochRows([]apitype.Cutover{co}, []apitype.Event{
		event("cutover.aborted", "dba-2", map[string]any{"cutover": "CUT-18", "source": "us", "epoch": float64(13), "reason": "never begun"}),
		event("cutover.begun", "automation", map[string]any{"cutover": "CUT-19", "epoch": float64(14)}),
		event("cutover.aborted", "dba-2", map[string]any{"cutover": "CUT-19", "source": "us", "epoch": float64(15), "reason": "eu does not come up"}),
		event("service.confirmed", "sre-1", map[string]any{"source": "us", "destination": "eu", "epoch": float64(16), "reason": "eu took the last writes"}),
	}))
	got := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, got, 4)
	require.Regexp(t, `^16 +2026-03-02 03:00:00Z +us -> eu +confirmed +- +sre-1 +eu took the last writes$`, got[1])
	require.Regexp(t, `^15 +2026-03-02 03:00:00Z +us stays +abort of CUT-19 +- +dba-2 +eu does not come up$`, got[2])
	require.Regexp(t, `^13 `, got[3])
}

func TestAnAnswerIsYAMLOrNamesToo(t *testing.T) {
	o := &office{co: pending()}
	code, out, _ := o.at(t, nil, "cutover", "list", "-o", "name")
	require.Zero(t, code)
	require.Equal(t, "CUT-17\n", out)
	code, out, _ = o.at(t, nil, "cutover", "show", "CUT-17", "-o", "yaml")
	require.Zero(t, code)
	require.Contains(t, out, "api: v1\nkind: cutover\n")
	require.Contains(t, out, "    evidence: 9f3c-77a1-0b2e-51d4\n")
}

// A move of 40 ms did not take no time at all.
func TestWhatAMoveTookIsShownBelowASecondToo(t *testing.T) {
	for want, s := range map[string]float64{"0s": 0, "38ms": 0.0384, "200ms": 0.2, "1.3s": 1.26, "1m5s": 65.2} {
		require.Equal(t, want, took(s))
	}
}
