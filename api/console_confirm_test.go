package api

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/statestore"
)

const confirmForm = "/cutovers/services/orders-db/active"

// recovered is a rig after a recovery that left orders-db unconfirmed.
func (r *rig) recovered() {
	r.t.Helper()
	member := *r.store.State().Members["eu-1"]
	r.must(statestore.BeginGeneration{Generation: 2, Member: member, Reason: "quorum lost"})
}

// named is the form that names the active side as somebody would send it.
func (r *rig) named(who, active string) url.Values {
	r.t.Helper()
	v := formOf(r.t, r.as(who, "GET", confirmForm, "").body, confirmForm)
	v.Set("active", active)
	v.Set("service", "orders-db")
	v.Set("reason", "us took the last writes")
	return v
}

func TestAPersonConfirmsTheActiveSideByForm(t *testing.T) {
	r := newStatefulRig(t)
	r.recovered()
	require.Contains(t, r.as("alice", "GET", "/", "").body, `href="`+confirmForm+`"`)
	require.NotContains(t, r.as("viewer", "GET", "/", "").body, confirmForm)
	page := r.as("alice", "GET", confirmForm, "").body
	for _, want := range []string{"Which side of orders-db is active?", "generation 2", "says <b>eu</b>", "took the last writes", "Type <b>orders-db</b> to confirm", "Confirm as alice"} {
		require.Contains(t, page, want)
	}
	require.NotContains(t, page, "checked", "a person chooses")

	v := r.named("alice", "us")
	for range 2 { // a double click sends the very same form again
		page = r.follow("alice", r.submit("alice", confirmForm, v))
		require.Contains(t, page, "✓ us is the active side of orders-db")
		require.Contains(t, page, "under epoch 2 of generation 2")
		require.NotContains(t, page, "<textarea")
		own := r.store.State().Ownership("orders-db")
		require.Equal(t, []any{"us", uint64(2), false}, []any{own.Active, own.Epoch, own.Unconfirmed})
	}
	require.Contains(t, r.get("/v1/events").body, "us took the last writes")
	require.NotContains(t, r.as("alice", "GET", "/", "").body, confirmForm)
}

func TestAWrongConfirmationChangesNothingAndKeepsWhatWasTyped(t *testing.T) {
	r := newStatefulRig(t)
	r.recovered()
	for name, tt := range map[string]struct {
		who    string
		edit   func(url.Values)
		status int
		want   []string
	}{
		"no side":            {"alice", func(v url.Values) { v.Del("active") }, 422, []string{"active: must be one of eu, us", "last writes</textarea>", `value="orders-db"`}},
		"no reason":          {"alice", func(v url.Values) { v.Set("reason", " ") }, 422, []string{"must say why, is empty", `value="us" required checked`}},
		"wrong name":         {"alice", func(v url.Values) { v.Set("service", "orders") }, 422, []string{"must be orders-db, is &#34;orders&#34;", "last writes</textarea>"}},
		"both sides":         {"alice", func(v url.Values) { v.Add("active", "eu") }, 422, []string{"active: must be given once"}},
		"side of others":     {"alice", func(v url.Values) { v.Set("active", "dr") }, 422, []string{"Not confirmed", "none of its clusters"}},
		"no token":           {"alice", func(v url.Values) { v.Del("token") }, 403, []string{"Nothing was done", "last writes</textarea>"}},
		"of another person":  {"bob", func(url.Values) {}, 403, []string{"Nothing was done"}},
		"of who may look on": {"viewer", func(url.Values) {}, 403, []string{"viewer-user may not confirm it"}},
	} {
		t.Run(name, func(t *testing.T) {
			v := r.named("alice", "us")
			tt.edit(v)
			before := r.store.State().Ownership("orders-db")
			a := r.submit(tt.who, confirmForm, v)
			require.Equal(t, tt.status, a.status, a.body)
			for _, want := range tt.want {
				require.Contains(t, a.body, want)
			}
			require.Equal(t, before, r.store.State().Ownership("orders-db"))
		})
	}
	require.Contains(t, r.store.State().Events[len(r.store.State().Events)-1].Type, "cutover.refused", "what Apply refused is on record")
	for _, service := range []string{"web", "nope"} {
		require.Equal(t, http.StatusNotFound, r.as("alice", "GET", confirmPath(service), "").status, service)
	}

	// Somebody else was first.
	late := r.named("alice", "us")
	r.follow("bob", r.submit("bob", confirmForm, r.named("bob", "eu")))
	a := r.submit("alice", confirmForm, late)
	require.Equal(t, http.StatusConflict, a.status)
	require.Contains(t, a.body, "Not confirmed: already decided")
	require.Equal(t, "eu", r.store.State().Ownership("orders-db").Active)
}
