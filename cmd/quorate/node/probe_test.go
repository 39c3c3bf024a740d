package node

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/config"
)

// onLoopback opens a node that may probe this host, and applies the spec.
func onLoopback(t *testing.T, spec string, edits ...func(*config.Node)) *Node {
	t.Helper()
	dir := seededDir(t, "data")
	cfg, errs, _ := config.ParseNode("node.yaml", fmt.Appendf(nil, `
node: { name: eu-1, region: eu-west }
data_dir: %q
dns: { listen: ["127.0.0.1:0"] }
api: { listen: "127.0.0.1:0" }
peer: { listen: "127.0.0.1:0", advertise: "127.0.0.1:1", profile: lan }
observer: { allow: [127.0.0.0/8] }
`, dir))
	require.Empty(t, errs)
	for _, edit := range edits {
		edit(cfg)
	}
	n, err := Open(cfg, Options{Version: "test", Socket: filepath.Join(dir, "sock")})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
	})
	require.Eventually(t, func() bool { return n.Store().State().Members["eu-1"] != nil }, 10*time.Second, 10*time.Millisecond)
	applySpec(t, n, spec)
	return n
}

func TestAPersonsProbeRunsEveryCheckOfEveryEndpoint(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "host ", r.Host)
	}))
	defer srv.Close()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	closed := gone.Addr().(*net.TCPAddr).Port
	require.NoError(t, gone.Close())
	n := onLoopback(t, fmt.Sprintf(`
version: 1
defaults: { quorum: { min_votes: 1 }, check: { interval: 1s, timeout: 500ms } }
zones: { gslb.example.com: {} }
clusters:
  eu: { region: eu-west, ipv4: [127.0.0.1, 127.0.0.2], check: { name: door, tcp: { port: %[1]d } } }
checks:
  good: { http: { port: %[1]d, path: /, host: "{service}.{zone}", expect: { status: [200], body_regex: "host web.gslb.example.com" } } }
  bad: { tcp: { port: %[2]d } }
services: { web: { policy: { type: weighted }, checks: { all: [good], any: [bad] } } }
`, srv.Listener.Addr().(*net.TCPAddr).Port, closed))

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	report, err := n.probeNow(ctx, apitype.ProbeRequest{Service: "web", Cluster: "eu", Endpoint: "127.0.0.1"})
	require.NoError(t, err)
	require.Equal(t, "eu-1", report.Node)
	require.Len(t, report.Runs, 3)
	for i, want := range []struct {
		check, kind string
		ok          bool
	}{{"good", "http", true}, {"door", "tcp", true}, {"bad", "tcp", false}} {
		got := report.Runs[i]
		require.Equal(t, want.check, got.Check)
		require.Equal(t, want.kind, got.Kind)
		require.Equal(t, want.ok, got.OK, "%s: %s %s", got.Check, got.Reason, got.Detail)
		require.Equal(t, "127.0.0.1", got.Endpoint.String())
		require.NotEmpty(t, got.Phases)
	}
	require.Equal(t, "refused", report.Runs[2].Reason)
	require.False(t, report.Runs[2].Phases[len(report.Runs[2].Phases)-1].OK, "the last phase is the one that failed")

	all, err := n.probeNow(ctx, apitype.ProbeRequest{Service: "web", Cluster: "eu"})
	require.NoError(t, err)
	require.Len(t, all.Runs, 6, "two endpoints")
	door, err := n.probeNow(ctx, apitype.ProbeRequest{Cluster: "eu"})
	require.NoError(t, err)
	require.Len(t, door.Runs, 2)
	require.Equal(t, "door", door.Runs[0].Check)

	require.Eventually(t, func() bool {
		report, err := n.probeNow(ctx, apitype.ProbeRequest{Service: "web", Cluster: "eu", Endpoint: "127.0.0.1"})
		return err == nil && len(report.Votes) == 1 && report.Votes[0].Side == "down" && report.Votes[0].Reason == "refused"
	}, 10*time.Second, 100*time.Millisecond, "this node's standing vote is told too")

	for request, why := range map[apitype.ProbeRequest]string{
		{Service: "web", Cluster: "us"}:                        "us",
		{Service: "www", Cluster: "eu"}:                        "www",
		{Service: "web", Cluster: "eu", Endpoint: "192.0.2.1"}: "192.0.2.1",
	} {
		_, err := n.probeNow(ctx, request)
		require.ErrorContains(t, err, why)
	}
}

func TestAPersonsProbeEndsInTime(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts and says nothing
	require.NoError(t, err)
	defer silent.Close()
	n := onLoopback(t, fmt.Sprintf(`
version: 1
defaults: { quorum: { min_votes: 1 }, check: { interval: 1m, timeout: 30s } }
zones: { gslb.example.com: {} }
clusters: { eu: { region: eu-west, ipv4: [127.0.0.1] } }
services: { web: { policy: { type: weighted }, check: { http: { port: %d, path: / } } } }
`, silent.Addr().(*net.TCPAddr).Port))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = n.probeNow(ctx, apitype.ProbeRequest{Service: "web", Cluster: "eu"})
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
