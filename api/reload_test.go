package api

import (
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/api/apitype"
)

func TestReloadIsForAdminsAndTellsWhatWasRefused(t *testing.T) {
	r := newRig(t)
	require.Equal(t, 501, r.as("admin", http.MethodPost, "/v1/node/reload", "").status)

	var fails error
	var refused []string
	r.server.cfg.Reload = func() ([]string, error) { return []string{"node.yaml", "api.tls"}, fails }
	r.server.cfg.Refused = func() []string { return refused }
	require.Equal(t, 403, r.as("viewer", http.MethodPost, "/v1/node/reload", "").status)
	require.Equal(t, []apitype.Reloaded{{Node: r.server.cfg.Node, Read: []string{"node.yaml", "api.tls"}}},
		items[apitype.Reloaded](t, r.as("admin", http.MethodPost, "/v1/node/reload", "")))

	fails = errors.New("node.yaml: node.name changed, which only a restart takes over")
	a := r.as("admin", http.MethodPost, "/v1/node/reload", "")
	require.Equal(t, 422, a.status)
	require.Contains(t, a.problem(t).Detail, "node.name")

	refused = []string{"dns.geoip.database: /srv/city.mmdb is no database"}
	banners := items[apitype.Status](t, r.get("/v1/status"))[0].Banners
	require.Contains(t, banners, apitype.Banner{
		Code: "reload-refused", Subject: "members/" + r.server.cfg.Node,
		Text: r.server.cfg.Node + " goes on with what it read before: " + refused[0],
	})
}
