package client

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/api/apitype"
)

func TestPlacementCallsGoWhereTheyShould(t *testing.T) {
	var got []string
	c := open(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		key := r.Header.Get(apitype.HeaderIdempotency)
		if key != "k" && key != "" {
			key = "made"
		}
		got = append(got, r.Method+" "+r.URL.RequestURI()+" "+key+" "+string(body))
		_, _ = w.Write([]byte(`{"api":"v1","kind":"act","items":[{}]}`))
	}))
	ctx := t.Context()
	calls := []func() error{
		func() error {
			_, err := c.Override(ctx, "web", apitype.OverrideRequest{Cluster: "us", For: "30m", Reason: "r"}, "k")
			return err
		},
		func() error {
			_, err := c.ClearOverride(ctx, "we/b", apitype.ClearOverrideRequest{Reason: "r", DryRun: true}, "k")
			return err
		},
		func() error {
			_, err := c.Drains(ctx, apitype.DrainsRequest{Match: "rack=a", Reason: "r"}, "k")
			return err
		},
		func() error {
			_, err := c.Probe(ctx, apitype.ProbeRequest{Service: "web", Cluster: "eu", From: "us-1"})
			return err
		},
		func() error {
			_, err := c.Explain(ctx, Question{Name: "web.gslb.test", Client: "192.0.2.7", If: []string{"eu=down", "us=drained"}})
			return err
		},
		func() error { _, err := c.Explain(ctx, Question{Name: "web.gslb.test"}); return err },
		func() error { _, err := c.Simulate(ctx, []string{"eu=down"}, "us-east"); return err },
		func() error { _, err := c.Simulate(ctx, nil, "us-east"); return err },
		func() error { _, err := c.Replay(ctx, apitype.ReplayRequest{Source: "version: 1"}); return err },
		func() error {
			_, err := c.Replay(ctx, apitype.ReplayRequest{Source: "version: 1", Since: time.Date(2026, 11, 30, 3, 0, 0, 0, time.UTC)})
			return err
		},
	}
	for _, call := range calls {
		require.NoError(t, call())
	}
	require.Equal(t, []string{
		`PUT /v1/services/web/override k {"cluster":"us","for":"30m","reason":"r"}`,
		`DELETE /v1/services/we%2Fb/override k {"reason":"r","dry_run":true}`,
		`POST /v1/drains k {"match":"rack=a","reason":"r"}`,
		`POST /v1/probes made {"service":"web","cluster":"eu","from":"us-1"}`,
		"GET /v1/explain?client=192.0.2.7&if=eu%3Ddown%2Cus%3Ddrained&name=web.gslb.test  ",
		"GET /v1/explain?name=web.gslb.test  ",
		"GET /v1/simulate?if=eu%3Ddown&lose_region=us-east  ",
		"GET /v1/simulate?lose_region=us-east  ",
		`POST /v1/replays made {"source":"version: 1"}`,
		`POST /v1/replays made {"source":"version: 1","since":"2026-11-30T03:00:00Z"}`,
	}, got)
}
