package node

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/statestore"
)

// What people pin and what was measured changes no verdict and no rotation of others,
// and DNS follows it as it follows those.
func TestAnswersFollowAPinAndRoundTrips(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.NotFoundHandler())
	ln, err := net.Listen("tcp", "0.0.0.0:0")
	require.NoError(t, err)
	require.NoError(t, srv.Listener.Close())
	srv.Listener = ln
	srv.Start()
	defer srv.Close()
	n := onLoopback(t, fmt.Sprintf(`
version: 1
defaults: { quorum: { min_votes: 1 }, check: { interval: 500ms, timeout: 300ms, rise: 1 } }
zones: { gslb.example.com: {} }
clusters:
  eu: { region: eu-west, ipv4: [127.0.0.1], cidrs: [198.51.100.0/24] }
  us: { region: us-east, ipv4: [127.0.0.2] }
services: { web: { policy: { type: latency }, check: { tcp: { port: %d } } } }
`, ln.Addr().(*net.TCPAddr).Port))
	const client, eu, us = "198.51.100.0/24", "127.0.0.1", "127.0.0.2"
	says := func(want, why string) {
		t.Helper()
		require.Eventually(t, func() bool { return answerFor(t, n, client) == want }, 10*time.Second, 10*time.Millisecond, why)
	}
	commit := func(cmd statestore.Command) {
		t.Helper()
		res, err := n.propose(t.Context(), cmd)
		require.NoError(t, err)
		require.NoError(t, res.Err)
	}
	require.Eventually(t, func() bool {
		st := n.Store().State()
		return st.SideOf("web", "eu") == health.Up && st.SideOf("web", "us") == health.Up
	}, 10*time.Second, 10*time.Millisecond)
	far := func(eu, us time.Duration) statestore.Command {
		return statestore.MeasureLatency{RTT: map[string]map[netip.Addr]statestore.Duration{"eu-west": {
			netip.MustParseAddr("127.0.0.1"): statestore.Duration(eu), netip.MustParseAddr("127.0.0.2"): statestore.Duration(us),
		}}}
	}
	commit(far(50*time.Millisecond, 10*time.Millisecond))
	says(us, "it is nearer")
	commit(far(10*time.Millisecond, 50*time.Millisecond))
	says(eu, "now that one is")
	commit(statestore.OverrideService{Service: "web", Cluster: "us", Reason: "test", Rotations: policy.OverrideRotations(n.Store().State(), "web", "us")})
	says(us, "a person pinned it")
	commit(statestore.ClearOverride{Service: "web", Rotations: policy.ClearOverrideRotations(n.Store().State(), "web")})
	says(eu, "the policy answers again")
}
