package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/api/apitype"
)

// A misspelt group would be found out when somebody must sign.
func TestATokenThatMayDoNothingIsSaidToBeOne(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	const told = "no role has the group aprover: the token may do nothing"
	for _, tt := range []struct {
		name  string
		roles []string
		want  bool
	}{
		{"no role", []string{}, true},
		{"a role", []string{"approver"}, false},
		{"a node of a version that does not say", nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				tok := apitype.Token{ID: "aaaa", User: "eve", Groups: []string{"aprover"}, Roles: tt.roles, Root: true, Secret: "qt1.aaaa.b"}
				_ = json.NewEncoder(w).Encode(apitype.Envelope[apitype.Token]{API: "v1", Kind: "token", Items: []apitype.Token{tok}})
			}))
			defer ts.Close()
			var out, talk bytes.Buffer
			c := &cli{in: strings.NewReader(""), out: &out, err: &talk}
			require.Zero(t, c.run(t.Context(), []string{"token", "create", "eve", "--groups", "aprover", "--addr", ts.URL}), talk.String())
			require.Equal(t, "qt1.aaaa.b\n", out.String())
			require.Equal(t, tt.want, strings.Contains(talk.String(), told), talk.String())
		})
	}
}
