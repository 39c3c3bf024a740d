package node

import (
	"maps"
	"slices"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/probe"
	"github.com/quorate/quorate/statestore"
)

// probePlan returns what this node probes under spec: every endpoint of every
// candidate of every service, and the front door of each cluster that has one. What
// hostnames stand for and what clusters can take is asked for beside.
func probePlan(spec *statestore.Spec) probe.Plan {
	var inputs []probe.TargetChecks
	for _, t := range spec.Targets() {
		inputs = append(inputs, targetChecks(spec, t))
	}
	plan := probe.BuildPlan(inputs)
	for _, name := range slices.Sorted(maps.Keys(spec.Clusters)) {
		c := spec.Clusters[name]
		if c.Hostname != "" {
			plan.Names = append(plan.Names, probe.HostnamePlan{Cluster: name, Hostname: c.Hostname})
		}
		if c.CapacityFrom != nil {
			plan.Capacities = append(plan.Capacities, capacityPlan(name, c))
		}
	}
	return plan
}

// capacityPlan says where a cluster's capacity is read.
func capacityPlan(name string, c *statestore.Cluster) probe.CapacityPlan {
	from := c.CapacityFrom
	out := probe.CapacityPlan{
		Cluster:   name,
		MaxAge:    from.MaxAge.D(),
		Hostname:  c.Hostname,
		Endpoints: c.Endpoints(),
		Declared:  c.Capacity,
	}
	if from.HTTP != nil {
		out.HTTP = new(probe.CapacityHTTP(*from.HTTP))
	}
	if from.Prometheus != nil {
		out.Prometheus = new(probe.CapacityPrometheus(*from.Prometheus))
	}
	return out
}

// targetChecks returns the checks behind the vote on t. A cluster's front-door
// check is one more All of every service target at that endpoint.
func targetChecks(spec *statestore.Spec, t health.Target) probe.TargetChecks {
	in := probe.TargetChecks{Target: t}
	door := spec.Clusters[t.Cluster].Check
	if t.FrontDoor() {
		in.All = append(in.All, probeCheck(door).Expand("", ""))
		return in
	}
	service := spec.Services[t.Service]
	name, zone := service.Names[0], service.Zone
	host := ""
	if o := service.Overrides[t.Cluster]; o != nil {
		host = o.Host
	}
	for _, c := range service.Checks.All {
		in.All = append(in.All, hostedAt(probeCheck(c), host).Expand(name, zone))
	}
	for _, c := range service.Checks.Any {
		in.Any = append(in.Any, hostedAt(probeCheck(c), host).Expand(name, zone))
	}
	if door != nil {
		// Expanded with no names, so that it is the same probe as the front door's own.
		in.All = append(in.All, probeCheck(door).Expand("", ""))
	}
	return in
}

// hostedAt returns the check with another name for the server: what one cluster
// calls the service. An empty host changes nothing.
func hostedAt(c probe.Check, host string) probe.Check {
	if host == "" {
		return c
	}
	for _, h := range []*probe.HTTPCheck{c.HTTP, c.HTTPS} {
		if h == nil {
			continue
		}
		h.Host = host
		if h.TLS != nil {
			h.TLS.ServerName = host
		}
	}
	if c.TLS != nil {
		c.TLS.ServerName = host
	}
	if c.GRPC != nil {
		c.GRPC.Host = host
		if c.GRPC.TLS != nil {
			c.GRPC.TLS.ServerName = host
		}
	}
	return c
}

// probeCheck converts a check of the spec; what it points to is its own. Where both
// sides have the same fields a conversion keeps them so.
func probeCheck(c *statestore.Check) probe.Check {
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
		out.TCP = new(probe.TCPCheck(*c.TCP))
	}
	if t := c.TLS; t != nil {
		out.TLS = &probe.HandshakeCheck{Port: t.Port, ServerName: t.ServerName, ALPN: t.ALPN, Warn: warning(t.Warn)}
	}
	if g := c.GRPC; g != nil {
		out.GRPC = &probe.GRPCCheck{Port: g.Port, Service: g.Service, Host: g.Host, TLS: tlsCheck(g.TLS)}
	}
	if c.DNS != nil {
		out.DNS = new(probe.DNSCheck(*c.DNS))
	}
	if c.ICMP != nil {
		out.ICMP = new(probe.ICMPCheck(*c.ICMP))
	}
	return out
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
		TLS:     tlsCheck(h.TLS),
		Expect: probe.HTTPExpect{
			BodyRegex:  h.Expect.BodyRegex,
			Header:     h.Expect.Header,
			JSON:       h.Expect.JSON,
			MaxLatency: h.Expect.MaxLatency.D(),
			MaxBody:    h.Expect.MaxBody,
		},
		Warn: warning(h.Warn),
	}
	for _, r := range h.Expect.Status {
		out.Expect.Status = append(out.Expect.Status, probe.StatusRange(r))
	}
	return out
}

func tlsCheck(t *statestore.TLSCheck) *probe.TLSCheck {
	if t == nil {
		return nil
	}
	return new(probe.TLSCheck(*t))
}

func warning(w statestore.Warn) probe.Warn {
	return probe.Warn{CertExpiresAfter: w.CertExpiresAfter.D(), MaxLatency: w.MaxLatency.D()}
}
