package node

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/probe"
	"github.com/quorate/quorate/statestore"
)

// probesAtOnce bounds what one person's request does at a time: the schedule's own
// probes go on beside it.
const probesAtOnce = 16

// probeNow runs the checks of a service at a cluster once, from this node, the
// cluster's front door included. No vote changes.
func (n *Node) probeNow(ctx context.Context, req apitype.ProbeRequest) (apitype.ProbeReport, error) {
	report := apitype.ProbeReport{Node: n.cfg.Name, Service: req.Service, Cluster: req.Cluster}
	if n.prober == nil {
		return report, fmt.Errorf("%s does not probe: observer.enabled is false in its node.yaml; probe from another node", n.cfg.Name)
	}
	targets, err := wantedTargets(n.view.State().Spec, req)
	if err != nil {
		return report, err
	}
	type run struct {
		check    probe.Check
		endpoint netip.Addr
	}
	var runs []run
	votes := n.prober.Votes()
	for _, t := range targets {
		v := votes[t.Target] // unknown while this node has not voted
		report.Votes = append(report.Votes, apitype.ProbedVote{Endpoint: t.Target.Endpoint, Side: v.Side.String(), Reason: v.Reason})
		for _, c := range slices.Concat(t.All, t.Any) {
			runs = append(runs, run{c, t.Target.Endpoint})
		}
	}
	report.Runs = make([]apitype.ProbeOnce, len(runs))
	var wg sync.WaitGroup
	slots := make(chan struct{}, probesAtOnce)
	for i, r := range runs {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			report.Runs[i] = probedOnce(r.check, r.endpoint, n.prober.Once(ctx, r.check, r.endpoint))
		})
	}
	wg.Wait()
	if d, bound := ctx.Deadline(); bound && !time.Now().Before(d) {
		<-ctx.Done() // a check may end a moment before its context says so
	}
	// What was cut off says nothing about the endpoint.
	return report, ctx.Err()
}

// probeBacklog returns how many due checks wait here, and how late the oldest is.
func (n *Node) probeBacklog() (waiting int, late time.Duration) {
	if n.prober == nil {
		return 0, 0
	}
	st := n.prober.Status()
	return st.Backlog, st.Late
}

// wantedTargets returns the checks of each endpoint that the request is about.
func wantedTargets(spec *statestore.Spec, req apitype.ProbeRequest) ([]probe.TargetChecks, error) {
	cluster, service := spec.Clusters[req.Cluster], spec.Services[req.Service]
	switch {
	case cluster == nil:
		return nil, fmt.Errorf("cluster %q: %w", req.Cluster, statestore.ErrNotFound)
	case req.Service != "" && service == nil:
		return nil, fmt.Errorf("service %q: %w", req.Service, statestore.ErrNotFound)
	case req.Service == "" && cluster.Check == nil:
		return nil, fmt.Errorf("cluster %s has no check of its own; name a service", req.Cluster)
	}
	var targets []probe.TargetChecks
	for _, a := range cluster.Endpoints() {
		if req.Endpoint == "" || a.String() == req.Endpoint {
			targets = append(targets, targetChecks(spec, health.Target{Service: req.Service, Cluster: req.Cluster, Endpoint: a}))
		}
	}
	if len(targets) == 0 {
		return nil, fmt.Errorf("cluster %s has no endpoint %s", req.Cluster, cmp.Or(req.Endpoint, "yet"))
	}
	return targets, nil
}

// probedOnce is one run, for people.
func probedOnce(c probe.Check, endpoint netip.Addr, a probe.Attempt) apitype.ProbeOnce {
	out := apitype.ProbeOnce{
		Check: c.Name, Kind: kindOf(c), Endpoint: endpoint,
		OK: a.OK, Reason: string(a.Reason), Detail: a.Detail, Degraded: a.Degraded,
		TookSeconds: a.Took.Seconds(), CertExpires: a.CertExpiry,
	}
	for _, p := range a.Phases {
		out.Phases = append(out.Phases, apitype.ProbePhase{Phase: p.Name, OK: p.OK, TookSeconds: p.Took.Seconds(), Text: p.Text})
	}
	return out
}

// kindOf names the protocol of a check as the spec does.
func kindOf(c probe.Check) string {
	switch {
	case c.HTTP != nil:
		return "http"
	case c.HTTPS != nil:
		return "https"
	case c.TCP != nil:
		return "tcp"
	case c.TLS != nil:
		return "tls"
	case c.GRPC != nil:
		return "grpc"
	case c.DNS != nil:
		return "dns"
	}
	return "icmp"
}
