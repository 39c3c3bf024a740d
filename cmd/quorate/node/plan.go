package node

import (
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/probe"
	"github.com/quorate/quorate/statestore"
)

// probePlan returns what this node probes under spec: every endpoint of every
// candidate of every service, and the front door of each cluster that has one.
func probePlan(spec *statestore.Spec) probe.Plan {
	var inputs []probe.TargetChecks
	for _, t := range spec.Targets() {
		inputs = append(inputs, targetChecks(spec, t))
	}
	return probe.BuildPlan(inputs)
}

// targetChecks returns the checks behind the vote on t. A cluster's front-door
// check is one more All of every service target at that endpoint.
func targetChecks(spec *statestore.Spec, t health.Target) probe.TargetChecks {
	in := probe.TargetChecks{Target: t}
	door := spec.Clusters[t.Cluster].Check
	if t.FrontDoor() {
		in.All = append(in.All, probeCheck(door, "", ""))
		return in
	}
	service := spec.Services[t.Service]
	name, zone := service.Names[0], service.Zone
	for _, c := range service.Checks.All {
		in.All = append(in.All, probeCheck(c, name, zone))
	}
	for _, c := range service.Checks.Any {
		in.Any = append(in.Any, probeCheck(c, name, zone))
	}
	if door != nil {
		// Expanded with no names, so that it is the same probe as the front door's own.
		in.All = append(in.All, probeCheck(door, "", ""))
	}
	return in
}

// probeCheck converts a check of the spec, its placeholders replaced.
func probeCheck(c *statestore.Check, service, zone string) probe.Check {
	out := probe.Check{
		Name:       c.Name,
		Interval:   c.Interval.D(),
		Timeout:    c.Timeout.D(),
		Fall:       c.Fall,
		Rise:       c.Rise,
		Recheck:    c.Recheck.D(),
		StaleAfter: c.StaleAfter.D(),
		HTTP:       httpCheck(c.HTTP),
		HTTPS:      httpCheck(c.HTTPS),
	}
	if c.TCP != nil {
		out.TCP = &probe.TCPCheck{Port: c.TCP.Port}
	}
	return out.Expand(service, zone)
}

func httpCheck(h *statestore.HTTPCheck) *probe.HTTPCheck {
	if h == nil {
		return nil
	}
	out := &probe.HTTPCheck{
		Port:    h.Port,
		Method:  h.Method,
		Path:    h.Path,
		Host:    h.Host,
		Headers: h.Headers,
		Reuse:   h.Reuse,
		Expect:  probe.HTTPExpect{BodyRegex: h.Expect.BodyRegex},
	}
	if h.TLS != nil {
		out.TLS = &probe.TLSCheck{ServerName: h.TLS.ServerName, Verify: h.TLS.Verify}
	}
	for _, r := range h.Expect.Status {
		out.Expect.Status = append(out.Expect.Status, probe.StatusRange{Low: r.Low, High: r.High})
	}
	return out
}
