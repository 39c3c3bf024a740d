package statestore

// maxEchoes bounds what one icmp check sends.
const maxEchoes = 100

// checkProbes checks the service's checks.
func checkProbes(f *findings, path string, s *Service) {
	for _, group := range []struct {
		name   string
		checks []*Check
	}{{"all", s.Checks.All}, {"any", s.Checks.Any}} {
		for _, c := range group.checks {
			checkProbe(f, path+".checks."+group.name, c)
		}
	}
}

// checkProbe checks one check: of exactly one kind, and within its bounds.
func checkProbe(f *findings, path string, c *Check) {
	if c == nil {
		f.add(path, "must not hold an empty check")
		return
	}
	path += "." + c.Name
	kinds := 0
	port := func(kind string, n int) {
		kinds++
		checkPort(f, path+"."+kind+".port", n)
	}
	if c.HTTP != nil {
		port("http", c.HTTP.Port)
		checkExpect(f, path+".http.expect", c.HTTP.Expect)
	}
	if c.HTTPS != nil {
		port("https", c.HTTPS.Port)
		checkExpect(f, path+".https.expect", c.HTTPS.Expect)
	}
	if c.TCP != nil {
		port("tcp", c.TCP.Port)
	}
	if c.TLS != nil {
		port("tls", c.TLS.Port)
	}
	if c.GRPC != nil {
		port("grpc", c.GRPC.Port)
	}
	if d := c.DNS; d != nil {
		port("dns", d.Port)
		if d.Name == "" || d.Type == "" || d.RCode == "" {
			f.add(path+".dns", "must have a name, a type and an rcode")
		}
	}
	if i := c.ICMP; i != nil {
		kinds++
		if i.Count < 1 || i.Count > maxEchoes {
			f.add(path+".icmp.count", "must be 1 to %d, is %d", maxEchoes, i.Count)
		}
		if !(i.MaxLoss >= 0 && i.MaxLoss <= 1) {
			f.add(path+".icmp.max_loss", "must be 0 to 1, is %v", i.MaxLoss)
		}
	}
	if kinds != 1 {
		f.add(path, "must be one of http, https, tcp, tls, grpc, dns and icmp, is %d of them", kinds)
	}
}

func checkExpect(f *findings, path string, e HTTPExpect) {
	for _, r := range e.Status {
		if r.Low < 100 || r.High > 599 || r.Low > r.High {
			f.add(path+".status", "must be 100 to 599, is %d-%d", r.Low, r.High)
		}
	}
	if e.MaxLatency < 0 || e.MaxBody < 0 {
		f.add(path, "must not be negative")
	}
}

// checkHostname checks what a cluster's addresses are resolved from.
func checkHostname(f *findings, path string, c *Cluster) {
	if c.Hostname == "" {
		return
	}
	if !validHostname(c.Hostname) {
		f.add(path, "must be a host name, is %q", c.Hostname)
	}
	if n := max(len(c.IPv4), len(c.IPv6)); n > MaxResolved {
		f.add(path, "must stand for at most %d addresses of a family, is %d", MaxResolved, n)
	}
}

// checkCapacityFrom checks where a cluster reports its capacity; nil: nowhere.
func checkCapacityFrom(f *findings, path string, from *CapacityFrom) {
	if from == nil {
		return
	}
	if (from.HTTP == nil) == (from.Prometheus == nil) {
		f.add(path, "must be either http or prometheus")
	}
	if h := from.HTTP; h != nil {
		checkPort(f, path+".http.port", h.Port)
		if h.Path == "" || h.JSON == "" {
			f.add(path+".http", "must have a path and a json")
		}
	}
	if p := from.Prometheus; p != nil && (p.URL == "" || p.Metric == "") {
		f.add(path+".prometheus", "must have a url and a metric")
	}
	if from.MaxAge <= 0 {
		f.add(path+".max_age", "must be positive, is %s", from.MaxAge)
	}
	if from.Change < 0 || from.Change > 100 {
		f.add(path+".change", "must be 0 to 100 percent, is %d", from.Change)
	}
}
