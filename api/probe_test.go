package api

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/statestore"
)

// probes is a node that can probe, and what it was asked for last.
type probes struct {
	asked apitype.ProbeRequest
	until time.Time
	err   error
}

func (p *probes) run(ctx context.Context, r apitype.ProbeRequest) (apitype.ProbeReport, error) {
	p.asked = r
	p.until, _ = ctx.Deadline()
	return apitype.ProbeReport{
		Node: "eu-1", Service: r.Service, Cluster: r.Cluster,
		Runs: []apitype.ProbeOnce{{Check: "check", Kind: "tcp", Endpoint: eu4, OK: true, Reason: "ok"}},
	}, p.err
}

func newProbeRig(t *testing.T, edit ...func(*Config)) (*rig, *probes) {
	p := &probes{}
	return newRig(t, append([]func(*Config){func(c *Config) { c.Probe = p.run }}, edit...)...), p
}

func TestAProbeRunsHereAndIsBoundedInTime(t *testing.T) {
	r, p := newProbeRig(t)
	index := r.store.State().Index
	report := items[apitype.ProbeReport](t, r.as("viewer", "POST", "/v1/probes", `{"service":"web","cluster":"eu"}`))[0]
	require.Equal(t, "eu-1", report.Node)
	require.Len(t, report.Runs, 1)
	require.Equal(t, apitype.ProbeRequest{Service: "web", Cluster: "eu"}, p.asked)
	require.WithinDuration(t, time.Now().Add(probeWait), p.until, 5*time.Second)
	require.Equal(t, index, r.store.State().Index, "a probe writes nothing")

	items[apitype.ProbeReport](t, r.as("webops", "POST", "/v1/probes", `{"cluster":"eu","endpoint":"192.0.2.10","from":"eu-1"}`))
	require.Equal(t, "192.0.2.10", p.asked.Endpoint, "a front door is the cluster's, which every reader sees")
}

func TestAProbeThatMakesNoSenseIsRefused(t *testing.T) {
	tests := []struct {
		name, role, body string
		status           int
		problem, want    string
	}{
		{"nobody probes", "", `{"service":"web","cluster":"eu"}`, 401, "unauthorized", "no credentials"},
		{"a service that one may not read", "webops", `{"service":"shop","cluster":"eu"}`, 403, "forbidden", "for service shop"},
		{"an unknown service", "admin", `{"service":"nope","cluster":"eu"}`, 404, "not-found", `no service is named "nope"`},
		{"an unknown cluster", "admin", `{"service":"web","cluster":"nope"}`, 404, "not-found", `no cluster is named "nope"`},
		{"a cluster that the service does not use", "admin", `{"service":"shop","cluster":"dr"}`, 404, "not-found", `no cluster of shop is named "dr"`},
		{"an unknown member", "admin", `{"service":"web","cluster":"eu","from":"zz-9"}`, 404, "not-found", `no member is named "zz-9"`},
		{"a member without a way there", "admin", `{"service":"web","cluster":"eu","from":"us-1"}`, 501, "unsupported", "another node"},
		{"an address of another cluster", "admin", `{"service":"web","cluster":"eu","endpoint":"198.51.100.10"}`, 422, "validation", "must be an endpoint of eu (192.0.2.10)"},
		{"no address", "admin", `{"service":"web","cluster":"eu","endpoint":"eu"}`, 422, "validation", `is "eu"`},
		{"a front door without a check", "admin", `{"cluster":"us"}`, 422, "validation", "must be given: us has no front-door check"},
		{"a cluster that nobody has resolved", "admin", `{"service":"web","cluster":"lb"}`, 422, "validation", `nobody has resolved "lb.test."; why is in the nodes' logs`},
		{"no cluster", "admin", `{"service":"web"}`, 422, "validation", "must be given"},
		{"an unknown field", "admin", `{"service":"web","cluster":"eu","url":"http://169.254.169.254/"}`, 422, "validation", "unexpected property"},
	}
	r, p := newProbeRig(t)
	spec := testSpec()
	spec.Clusters["lb"] = &statestore.Cluster{ID: 9, Region: "eu-west", Hostname: "lb.test."}
	spec.Services["web"].Clusters.Only = append(spec.Services["web"].Clusters.Only, "lb")
	r.apply1(spec)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := r.as(tt.role, "POST", "/v1/probes", tt.body)
			require.Equal(t, tt.status, a.status, a.body)
			require.Equal(t, apitype.ProblemBase+tt.problem, a.problem(t).Type)
			require.Contains(t, a.body, jsonText(tt.want))
			require.Equal(t, apitype.ProbeRequest{}, p.asked, "nothing was probed")
		})
	}
	none := newRig(t)
	require.Equal(t, 501, none.post("/v1/probes", `{"service":"web","cluster":"eu"}`).status, "a node that does not probe")
}

func TestAProbeThatFailsIsNoProblemOfTheCaller(t *testing.T) {
	r, p := newProbeRig(t)
	p.err = errors.New("its observer has not started")
	prob := r.post("/v1/probes", `{"service":"web","cluster":"eu"}`).problem(t)
	require.Equal(t, apitype.ProblemBase+"conflict", prob.Type)
	require.Contains(t, prob.Detail, "node eu-1 cannot probe that: its observer has not started")
}

func TestAnotherNodeProbes(t *testing.T) {
	other, asked := newProbeRig(t)
	r, here := newProbeRig(t, func(c *Config) { c.Node = "us-1" })
	var to string
	r.server.cfg.Call = func(ctx ctxt, node, method string, body []byte) ([]byte, error) {
		to = node + " " + method
		return other.server.Peer(ctx, "us-1", body)
	}
	report := items[apitype.ProbeReport](t, r.as("viewer", "POST", "/v1/probes", `{"service":"web","cluster":"eu","from":"eu-1"}`))[0]
	require.Equal(t, "eu-1 api.explain", to)
	require.Equal(t, "eu-1", report.Node)
	require.Equal(t, "web", asked.asked.Service)
	require.Equal(t, apitype.ProbeRequest{}, here.asked, "this node did not")
	require.NotNil(t, report.Votes)

	// What that node does not know yet it refuses, and says which node says so.
	other.must(statestore.ApplySpec{Base: 1, Source: "x", Spec: without(testSpec(), "web")})
	a := r.post("/v1/probes", `{"service":"web","cluster":"eu","from":"eu-1"}`)
	require.Equal(t, 404, a.status, a.body)
	require.Contains(t, a.problem(t).Detail, "node eu-1: no service is named")

	r.server.cfg.Call = func(ctxt, string, string, []byte) ([]byte, error) { return nil, errors.New("cut off") }
	a = r.post("/v1/probes", `{"service":"web","cluster":"eu","from":"eu-1"}`)
	require.Equal(t, 502, a.status)
	require.Equal(t, apitype.ProblemBase+"node-unreachable", a.problem(t).Type)

	_, err := other.server.Peer(t.Context(), "us-1", []byte(`{"probe":{"service":"web","cluster":"eu","url":"http://x"}}`))
	require.ErrorContains(t, err, "unknown field", "a peer's question is read strictly")
}

func TestNobodyLoadsAClusterWithProbes(t *testing.T) {
	r, _ := newProbeRig(t)
	limited := 0
	for range probeBurst + 20 {
		if r.as("viewer", "POST", "/v1/probes", `{"service":"web","cluster":"us"}`).status == 429 {
			limited++
		}
	}
	require.Positive(t, limited)
	require.Equal(t, 200, r.post("/v1/probes", `{"service":"web","cluster":"eu"}`).status, "another person is not held up")
}

// A node that cannot be probed from in time says so instead of an answer that
// nobody waits for any more.
func TestAProbeThatHangsEnds(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	r.server.cfg.Probe = func(ctx context.Context, _ apitype.ProbeRequest) (apitype.ProbeReport, error) {
		cancel()
		<-ctx.Done()
		return apitype.ProbeReport{}, ctx.Err()
	}
	_, err := r.server.probeFrom(ctx, apitype.ProbeRequest{Service: "web", Cluster: "eu"})
	require.ErrorContains(t, err, "did not finish the checks within 15s")
}
