package api

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/api/apitype"
)

// Who may only read makes a record with each act that is refused, and history holds
// so many records: G12 would be worth nothing if that could push the others out.
func TestRefusedActsCannotFloodHistory(t *testing.T) {
	r := newStatefulRig(t)
	co := r.proposed()
	before := r.store.State().Audit.Count
	acts := []struct{ path, body string }{
		{"/v1/cutovers/CUT-99/approve", signing(co.Evidence, waivers...)},
		{"/v1/cutovers/" + co.ID + "/approve", signing(co.Evidence, waivers...)},
		{"/v1/cutovers/" + co.ID + "/reject", `{"reason":"no"}`},
		{"/v1/cutovers/" + co.ID + "/abort", `{"reason":"no"}`},
		{"/v1/cutovers", proposal},
	}
	limited := 0
	for i := range 4 * refusalBurst {
		act := acts[i%len(acts)]
		a := r.as("viewer", http.MethodPost, act.path, act.body)
		require.GreaterOrEqual(t, a.status, 400)
		if a.status == http.StatusTooManyRequests {
			require.Equal(t, apitype.ProblemBase+"rate-limited", a.problem(t).Type)
			require.NotEmpty(t, a.header.Get("Retry-After"))
			limited++
		}
	}
	require.LessOrEqual(t, r.store.State().Audit.Count-before, uint64(refusalBurst+1))
	require.GreaterOrEqual(t, limited, 3*refusalBurst-1)
	require.Equal(t, http.StatusOK, r.as("viewer", http.MethodGet, "/v1/cutovers/"+co.ID, "").status, "looking goes on")
	items[apitype.Cutover](t, r.sign("alice", co, waivers...)) // and so do all others
}

// The header says when to come again, as the body does, of every problem.
func TestEveryProblemSaysInAHeaderWhenToComeAgain(t *testing.T) {
	r := newStatefulRig(t)
	r.set(func() { r.fail = ErrNoLeader })
	a := r.as("alice", http.MethodPost, "/v1/cutovers", proposal)
	require.Equal(t, http.StatusServiceUnavailable, a.status, a.body)
	require.NotZero(t, a.problem(t).RetryAfter)
	require.NotEmpty(t, a.header.Get("Retry-After"))
}
