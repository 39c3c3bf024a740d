package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/statestore"
)

// probeWait bounds the checks of one request, all endpoints together: below what a
// client waits, so that whoever asked hears what came of it.
const probeWait = 15 * time.Second

type probeInput struct {
	writing
	Body apitype.ProbeRequest
}

func (s *Server) probeRoutes(api huma.API) {
	op := operation(http.MethodPost, "/probes", "probe", "Run a service's checks at a cluster once, from one node; no vote changes", statestore.CanRead,
		http.StatusNotFound, http.StatusUnprocessableEntity, http.StatusNotImplemented, http.StatusBadGateway, http.StatusGatewayTimeout)
	op.Description = "Needs the capability `read` for the service. Each person may run a bounded number of checks a second."
	huma.Register(api, op, s.probe)
}

func (s *Server) probe(ctx context.Context, in *probeInput) (*output[apitype.ProbeReport], error) {
	c, req := callOf(ctx), in.Body
	checks, err := probed(c.st, req)
	if err != nil {
		return nil, err
	}
	if req.Service != "" {
		if err := allow(c.st, c.p, statestore.CanRead, req.Service); err != nil {
			return nil, err
		}
	}
	if req.From != "" && c.st.Members[req.From] == nil {
		return nil, notFound("member", req.From)
	}
	// Whoever floods somebody's cluster does it with this, so it has a bound of its
	// own, which the local socket has too.
	if ok, wait := s.probes.take(c.p.Via+"/"+c.p.User, min(float64(checks), probeBurst), s.cfg.Now()); !ok {
		return nil, tooMany(wait, "too many probes by %s", c.p.User)
	}
	ctx, cancel := context.WithTimeout(ctx, probeWait)
	defer cancel()
	report, err := s.probeFrom(ctx, req)
	if err != nil {
		return nil, err
	}
	return envelope(c, "probe", report), nil
}

// probed returns how many checks a request runs, or what is wrong with it.
func probed(st *statestore.State, req apitype.ProbeRequest) (checks int, err error) {
	cluster, svc := st.Spec.Clusters[req.Cluster], st.Spec.Services[req.Service]
	switch {
	case req.Service != "" && svc == nil:
		return 0, notFound("service", req.Service)
	case cluster == nil:
		return 0, notFound("cluster", req.Cluster)
	case req.Service != "" && !slices.Contains(st.Spec.Candidates(req.Service), req.Cluster):
		return 0, notFound("cluster of "+req.Service, req.Cluster)
	case req.Service == "" && cluster.Check == nil:
		return 0, invalidField("/service", "must be given: %s has no front-door check", req.Cluster)
	}
	checks = 1
	if svc != nil {
		checks = len(svc.Checks.All) + len(svc.Checks.Any)
		if cluster.Check != nil {
			checks++
		}
	}
	endpoints := cluster.Endpoints()
	if len(endpoints) == 0 {
		return 0, invalidField("/cluster", "must have an address to probe, but %s has none yet: nobody has resolved %q; why is in the nodes' logs (hostname does not resolve)", req.Cluster, cluster.Hostname)
	}
	if req.Endpoint == "" {
		return checks * len(endpoints), nil
	}
	if a, err := netip.ParseAddr(req.Endpoint); err != nil || !slices.Contains(endpoints, a) {
		return 0, invalidField("/endpoint", "must be an endpoint of %s (%s), is %q", req.Cluster, join(endpoints), req.Endpoint)
	}
	return checks, nil
}

// join writes a list for people.
func join[T fmt.Stringer](list []T) string {
	words := make([]string, len(list))
	for i, v := range list {
		words[i] = v.String()
	}
	return strings.Join(words, ", ")
}

// probeReply is another node's report, or why it made none.
type probeReply struct {
	Report  *apitype.ProbeReport `json:"report,omitempty"`
	Refused *apitype.Problem     `json:"refused,omitempty"`
}

// probeFrom has the wanted node run the checks.
func (s *Server) probeFrom(ctx context.Context, req apitype.ProbeRequest) (apitype.ProbeReport, error) {
	if a, err := netip.ParseAddr(req.Endpoint); err == nil {
		req.Endpoint = a.String() // as the node writes it
	}
	node := req.From
	if node == "" || node == s.cfg.Node {
		return s.probeHere(ctx, req)
	}
	if s.cfg.Call == nil {
		return apitype.ProbeReport{}, unsupported("ask another node")
	}
	body, err := json.Marshal(question{Probe: &req})
	if err != nil {
		return apitype.ProbeReport{}, s.internal("encode a question", err)
	}
	reply, err := s.cfg.Call(ctx, node, PeerMethod, body)
	if err != nil {
		return apitype.ProbeReport{}, problem(http.StatusBadGateway, apitype.ProblemNotReachable, "ask node %s: %v", node, err)
	}
	var r probeReply
	switch err := json.Unmarshal(reply, &r); {
	case err != nil:
		return apitype.ProbeReport{}, problem(http.StatusBadGateway, apitype.ProblemNotReachable, "ask node %s: %v", node, err)
	case r.Refused != nil:
		r.Refused.Detail = "node " + node + ": " + r.Refused.Error()
		return apitype.ProbeReport{}, r.Refused
	case r.Report == nil:
		return apitype.ProbeReport{}, problem(http.StatusBadGateway, apitype.ProblemNotReachable, "ask node %s: it answered with no report", node)
	}
	return filled(*r.Report), nil
}

// probeHere has this node run the checks.
func (s *Server) probeHere(ctx context.Context, req apitype.ProbeRequest) (apitype.ProbeReport, error) {
	if s.cfg.Probe == nil {
		return apitype.ProbeReport{}, unsupported("probe")
	}
	report, err := s.cfg.Probe(ctx, req)
	switch {
	case err == nil:
		return filled(report), nil
	case ctx.Err() != nil:
		return apitype.ProbeReport{}, problem(http.StatusGatewayTimeout, apitype.ProblemNotReachable, "node %s did not finish the checks within %s; probe one endpoint", s.cfg.Node, probeWait)
	}
	return apitype.ProbeReport{}, problem(http.StatusConflict, apitype.ProblemConflict, "node %s cannot probe that: %v", s.cfg.Node, err)
}

// probeForPeer runs the checks that another node asks for. That node has judged
// who may; whether there is such a thing is judged on what this one knows.
func (s *Server) probeForPeer(ctx context.Context, req apitype.ProbeRequest) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, probeWait)
	defer cancel()
	var r probeReply
	_, err := probed(s.cfg.Store.State(), req)
	if err == nil {
		var report apitype.ProbeReport
		if report, err = s.probeHere(ctx, req); err == nil {
			r.Report = &report
		}
	}
	if err != nil {
		r.Refused = s.asProblem(err)
	}
	data, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("tell a peer what was probed: %w", err)
	}
	return data, nil
}

// filled returns the report without null lists.
func filled(r apitype.ProbeReport) apitype.ProbeReport {
	r.Runs, r.Votes = orEmpty(slices.Clone(r.Runs)), orEmpty(r.Votes)
	for i := range r.Runs {
		r.Runs[i].Phases = orEmpty(r.Runs[i].Phases)
	}
	return r
}
