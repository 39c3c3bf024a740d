package api

import (
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/statestore"
)

// minted makes a token through the API and returns its id. Its secret is made that
// of every token of a test.
func (r *rig) minted(t *testing.T, by, user string, groups ...string) string {
	t.Helper()
	body, err := json.Marshal(apitype.TokenRequest{User: user, Groups: groups})
	require.NoError(t, err)
	id := items[apitype.Token](t, r.as(by, "POST", "/v1/tokens", string(body)))[0].ID
	made := r.store.State().Tokens[id]
	r.must(statestore.RevokeToken{ID: made.ID}, statestore.PutToken{
		ID: made.ID, User: user, Groups: groups, Hash: canaryHash, Root: made.Root, Person: made.Minter, Makers: made.Makers,
	})
	return made.ID
}

var canaryHash = sha256.Sum256([]byte(canary))

// G3: whatever tokens administrators make for whom, and these for others, one
// person signs once.
func TestTokensOfAnyOriginMakeNobodyTwoPeople(t *testing.T) {
	r := newStatefulRig(t)
	for _, name := range []string{"ada", "ben"} {
		r.must(statestore.PutToken{ID: name, User: name, Groups: []string{"admin", "approver"}, Hash: canaryHash, Root: true})
	}
	byAda := r.minted(t, "ada", "alice", "admin", "approver")
	byBen := r.minted(t, "ben", "alice", "admin", "approver")
	chained := r.minted(t, byAda, "mia", "admin", "approver")
	last := r.minted(t, chained, "noa", "approver")
	co := r.proposed()
	items[apitype.Cutover](t, r.sign(last, co, waivers...))
	for _, who := range []string{last, chained, byAda, byBen, "alice", "ada"} {
		p := r.sign(who, co, waivers...).problem(t)
		require.Equal(t, apitype.ProblemBase+"already-signed", p.Type, "%s: %s", who, p.Detail)
	}
	got := items[apitype.Cutover](t, r.sign("ben", co))[0]
	require.Equal(t, "approved", got.Phase)

	// Nor does anybody approve what they have proposed.
	r = newStatefulRig(t)
	r.must(statestore.PutToken{ID: "ada", User: "ada", Groups: []string{"admin", "approver"}, Hash: canaryHash, Root: true})
	byAda = r.minted(t, "ada", "alice", "admin", "approver")
	chained = r.minted(t, byAda, "mia", "approver")
	co = items[apitype.Cutover](t, r.as(chained, "POST", "/v1/cutovers", proposal))[0]
	r.must(statestore.RevokeToken{ID: chained})
	for _, who := range []string{byAda, "alice", "ada"} {
		p := r.sign(who, co, waivers...).problem(t)
		require.Equal(t, apitype.ProblemBase+"self-approval", p.Type, "%s: %s", who, p.Detail)
	}
}

func TestASignatureWhoseTokenIsRevokedIsNotCounted(t *testing.T) {
	r := newStatefulRig(t)
	co := items[apitype.Cutover](t, r.sign("alice", r.proposed(), waivers...))[0]
	require.Equal(t, 1, co.Approvals.Have)
	r.must(statestore.RevokeToken{ID: "alice"})
	co = items[apitype.Cutover](t, r.get("/v1/cutovers/"+co.ID))[0]
	require.Equal(t, 0, co.Approvals.Have)
	require.Len(t, co.Approvals.Signatures, 1, "it stays on record")

	// With a token of her own again her page lets her sign anew.
	r.must(statestore.PutToken{ID: "alice-new", User: "alice", Groups: []string{"approver"}, Hash: canaryHash, Root: true})
	page := r.as("", http.MethodGet, "/cutovers/"+co.ID, "", "Cookie", sessionCookie+"=qt1.alice-new."+canary)
	require.Equal(t, http.StatusOK, page.status)
	require.NotContains(t, page.body, "You have signed at")
	require.Contains(t, page.body, "Approve as alice")
	co = items[apitype.Cutover](t, r.sign("alice-new", co, waivers...))[0]
	require.Equal(t, 1, co.Approvals.Have)
}

// What a form says its author saw is believed only if it is what they sign.
func TestAFormIsNotBelievedAboutWhatItsAuthorSaw(t *testing.T) {
	saw := statestore.Evidence{Service: "orders-db", Kind: statestore.Planned, Source: "eu", Destination: "us"}
	other := saw
	other.Destination = "ap"
	for _, tt := range []struct {
		name string
		seen string
		want bool
	}{
		{"what is signed", seen(saw), true},
		{"something else", seen(other), false},
		{"nothing", "", false},
		{"no base64", "{}", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := sawOf(form{values: url.Values{"seen": {tt.seen}, "evidence": {saw.Digest()}}})
			require.Equal(t, tt.want, ok)
			require.Equal(t, tt.want, got.Digest() == saw.Digest())
		})
	}
}
