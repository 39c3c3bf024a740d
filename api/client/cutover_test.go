package client

import (
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/api/apitype"
)

func TestCutoverCallsGoWhereTheyShould(t *testing.T) {
	var got []string
	c := open(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = append(got, r.Method+" "+r.URL.RequestURI()+" "+r.Header.Get(apitype.HeaderIdempotency)+" "+string(body))
		_, _ = w.Write([]byte(`{"api":"v1","kind":"cutover","items":[{"id":"CUT-17"}]}`))
	}))
	ctx := t.Context()
	calls := []func() error{
		func() error { _, err := c.Cutovers(ctx, "open", "orders-db"); return err },
		func() error { _, err := c.Cutovers(ctx, "", ""); return err },
		func() error { _, err := c.Cutover(ctx, "CUT-17"); return err },
		func() error { _, err := c.CutoverReport(ctx, "CUT/17"); return err },
		func() error {
			_, err := c.Propose(ctx, apitype.CutoverRequest{Service: "orders-db", Kind: "planned", Reason: "r"}, "k")
			return err
		},
		func() error {
			_, err := c.Approve(ctx, "CUT-17", apitype.ApproveRequest{Evidence: "e", Waivers: []string{"source_fenced"}, Reason: "r"}, "k")
			return err
		},
		func() error { _, err := c.Reject(ctx, "CUT-17", apitype.DecideRequest{Reason: "r"}, "k"); return err },
		func() error { _, err := c.Abort(ctx, "CUT-17", apitype.DecideRequest{Reason: "r"}, "k"); return err },
		func() error {
			_, err := c.Thaw(ctx, apitype.ThawRequest{Service: "orders-db", Active: "us", Reason: "r"}, "k")
			return err
		},
	}
	for _, call := range calls {
		require.NoError(t, call())
	}
	require.Equal(t, []string{
		"GET /v1/cutovers?service=orders-db&state=open  ",
		"GET /v1/cutovers  ",
		"GET /v1/cutovers/CUT-17  ",
		"GET /v1/cutovers/CUT%2F17/report  ",
		`POST /v1/cutovers k {"service":"orders-db","kind":"planned","reason":"r"}`,
		`POST /v1/cutovers/CUT-17/approve k {"evidence":"e","waivers":["source_fenced"],"reason":"r"}`,
		`POST /v1/cutovers/CUT-17/reject k {"reason":"r"}`,
		`POST /v1/cutovers/CUT-17/abort k {"reason":"r"}`,
		`DELETE /v1/freeze k {"service":"orders-db","active":"us","reason":"r"}`,
	}, got)
}

func TestARefusedSignatureSaysWhatToDo(t *testing.T) {
	tests := []struct {
		name string
		p    apitype.Problem
		want string
	}{
		{
			"blocked",
			apitype.Problem{
				Type: apitype.ProblemBase + apitype.ProblemBlocked, Title: "blocked by a rule", Status: 409, Next: "quorate cutover show CUT-17",
				Blockers: []apitype.Blocker{{Rule: "source_fenced", Reason: "no fence", Waivable: true, Waive: "source_fenced"}, {Rule: "no_other_cutover", Reason: "CUT-16 is open"}},
			},
			"blocked by a rule\n  source_fenced: no fence (--waive source_fenced)\n  no_other_cutover: CUT-16 is open\nnext: quorate cutover show CUT-17",
		},
		{
			"evidence changed",
			apitype.Problem{
				Type: apitype.ProblemBase + apitype.ProblemEvidence, Status: 409, Detail: "us went down", Signed: "9f3c-77a1-0b2e-51d4", Evidence: "0123-4567-89ab-cdef",
			},
			"us went down\nsigned: 9f3c-77a1-0b2e-51d4\nnow:    0123-4567-89ab-cdef",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := open(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/problem+json")
				w.WriteHeader(tt.p.Status)
				_ = json.NewEncoder(w).Encode(tt.p)
			}))
			_, err := c.Approve(t.Context(), "CUT-17", apitype.ApproveRequest{}, "")
			require.EqualError(t, err, tt.want)
		})
	}
}
