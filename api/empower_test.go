package api

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/statestore"
)

// A pipeline that applies specs must not be able to make itself an approver, nor to
// let one person do what takes two.
func TestWhoMayApplyMayNotChangeWhoDecides(t *testing.T) {
	r := newStatefulRig(t)
	deploy := func(sp *statestore.Spec) {
		sp.Access.Roles["deploy"] = &statestore.Role{Groups: []string{"deploy"}, Can: []statestore.Capability{statestore.CanRead, statestore.CanApply}}
	}
	spec := statefulSpec()
	deploy(spec)
	r.must(
		statestore.ApplySpec{Base: 2, Source: specText(spec), Spec: spec, Rotations: policy.Rotations(r.store.State(), spec, nil, nil)},
		statestore.PutToken{ID: "ci", User: "ci", Groups: []string{"deploy"}, Hash: canaryHash, Root: true},
	)
	for _, tt := range []struct {
		name    string
		edit    func(*statestore.Spec)
		changes string // empty: it may
	}{
		{"a role more", func(sp *statestore.Spec) {
			sp.Access.Roles["mine"] = &statestore.Role{Groups: []string{"deploy"}, Can: []statestore.Capability{statestore.CanAll}}
		}, "(access)"},
		{"a role's groups", func(sp *statestore.Spec) {
			sp.Access.Roles["approver"].Groups = []string{"deploy"}
		}, "(access)"},
		{"the roles left out", func(sp *statestore.Spec) { sp.Access.Roles = nil }, "(access)"},
		{"one person less", func(sp *statestore.Spec) {
			sp.Services["orders-db"].Stateful.Approval.Required = 1
		}, "(services.orders-db.stateful.approval)"},
		{"others who sign", func(sp *statestore.Spec) {
			sp.Services["orders-db"].Stateful.Approval.From = []string{"deploy"}
		}, "(services.orders-db.stateful.approval)"},
		{"something else of the same service", func(sp *statestore.Spec) { sp.Services["orders-db"].TTL.Normal++ }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			spec := statefulSpec()
			deploy(spec)
			tt.edit(spec)
			body, err := json.Marshal(apitype.ApplyRequest{Source: specText(spec), Force: true})
			require.NoError(t, err)
			before := r.store.State().Revision
			a := r.as("ci", http.MethodPut, "/v1/spec", string(body))
			planned := items[apitype.Plan](t, r.as("ci", "POST", "/v1/plans", planBody(spec)))[0]
			if tt.changes == "" {
				require.Equal(t, http.StatusOK, a.status, a.body)
				return
			}
			p := a.problem(t)
			require.Equal(t, apitype.ProblemBase+"forbidden", p.Type)
			require.Contains(t, p.Detail, tt.changes)
			require.Equal(t, before, r.store.State().Revision)
			require.Contains(t, planned.Warnings, p.Detail, "the plan says it before")
		})
	}
}

func planBody(spec *statestore.Spec) string {
	data, err := json.Marshal(apitype.PlanRequest{Source: specText(spec)})
	if err != nil {
		panic(err)
	}
	return string(data)
}
