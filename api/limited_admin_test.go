package api

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/statestore"
)

// A role that may do everything for one service may do nothing that concerns all:
// with a token of their own making its holder could do the rest.
func TestWhoMayDoEverythingForOneServiceMayDoNothingForAll(t *testing.T) {
	r := newStatefulRig(t)
	spec := statefulSpec()
	spec.Access.Roles["web-all"] = &statestore.Role{Groups: []string{"web-all"}, Can: []statestore.Capability{statestore.CanAll}, Services: []string{"web"}}
	r.must(
		statestore.ApplySpec{Base: 2, Source: specText(spec), Spec: spec, Rotations: policy.Rotations(r.store.State(), spec, nil, nil)},
		statestore.PutToken{ID: "wes", User: "wes", Groups: []string{"web-all"}, Hash: canaryHash, Root: true},
	)
	applied, err := json.Marshal(apitype.ApplyRequest{Source: specText(statefulSpec()), Force: true})
	require.NoError(t, err)
	before := r.store.State()
	for _, tt := range []struct{ method, path, body string }{
		{"GET", "/v1/tokens", ""},
		{"POST", "/v1/tokens", `{"user":"wes","groups":["admin"]}`},
		{"DELETE", "/v1/tokens/admin", ""},
		{"POST", "/v1/members/join-tokens", `{}`},
		{"DELETE", "/v1/members/ap-1", `{"reason":"x"}`},
		{"POST", "/v1/members/ap-1/promote", ""},
		{"POST", "/v1/members/ap-1/demote", ""},
		{"POST", "/v1/ca/roll", ""},
		{"DELETE", "/v1/ca/ab12", ""},
		{"PUT", "/v1/spec", string(applied)},
		{"POST", "/v1/spec/rollback", `{"revision":1}`},
		{"POST", "/v1/freeze", `{"reason":"x"}`},
		{"POST", "/v1/freeze", `{"service":"orders-db","reason":"x"}`},
		{"DELETE", "/v1/freeze", ""},
		{"POST", "/v1/clusters/eu/drain", `{"reason":"x"}`},
		{"POST", "/v1/clusters/eu/drain", `{"reason":"x","services":["web","orders-db"]}`},
	} {
		t.Run(tt.method+" "+tt.path, func(t *testing.T) {
			p := r.as("wes", tt.method, tt.path, tt.body).problem(t)
			require.Equal(t, apitype.ProblemBase+"forbidden", p.Type, p.Detail)
			now := r.store.State()
			require.Equal(t, before.Index, now.Index, "nothing was even proposed")
		})
	}
	for _, act := range []string{proposal, `{"service":"orders-db","to":"us","kind":"emergency","reason":"x"}`} {
		p := r.as("wes", "POST", "/v1/cutovers", act).problem(t)
		require.Equal(t, apitype.ProblemBase+"forbidden", p.Type, p.Detail)
	}
	require.Equal(t, 200, r.as("wes", "POST", "/v1/freeze", `{"service":"web","reason":"x"}`).status)
}
