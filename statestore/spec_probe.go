package statestore

// HandshakeCheck is good when a TLS handshake ends with a certificate that holds:
// chain, name and dates.
type HandshakeCheck struct {
	Port       int      `json:"port"`
	ServerName string   `json:"server_name,omitempty"` // SNI and verified name; empty: none is sent and the chain alone is verified
	ALPN       []string `json:"alpn,omitempty"`        // offered; the server must choose one of them
	Warn       Warn     `json:"warn,omitzero"`
}

// GRPCCheck asks the standard health service (grpc.health.v1) and is good when it
// says SERVING.
type GRPCCheck struct {
	Port    int       `json:"port"`
	Service string    `json:"service,omitempty"` // asked for; empty: the server as a whole
	Host    string    `json:"host,omitempty"`    // :authority; empty: the endpoint's address
	TLS     *TLSCheck `json:"tls,omitempty"`     // nil: plain text
}

// DNSCheck asks one question over UDP, and over TCP when the answer is truncated.
type DNSCheck struct {
	Port        int    `json:"port"`
	Name        string `json:"name"`                   // FQDN
	Type        string `json:"type"`                   // such as A
	RCode       string `json:"rcode"`                  // such as NOERROR
	AnswerRegex string `json:"answer_regex,omitempty"` // RE2; some answer record's data must match
}

// ICMPCheck sends Count echo requests and is good when no more than MaxLoss of
// them, as a part of 1, stay without reply.
type ICMPCheck struct {
	Count   int     `json:"count"`
	MaxLoss float64 `json:"max_loss"`
}

// Warn is what makes a target degraded: shown and alerted, never a reason to move.
type Warn struct {
	CertExpiresAfter Duration `json:"cert_expires_after,omitempty"` // a certificate that ends sooner
	MaxLatency       Duration `json:"max_latency,omitempty"`        // a slower result
}

// asProbed returns the check without what does not change whether an endpoint is
// well: its name, how often and how patiently it is asked, and what it warns of. A
// verdict by one check says as much about an endpoint as one by another that is
// probed alike: who raises fall while everything flaps must not have every verdict
// taken away. Nil stays nil.
func (c *Check) asProbed() *Check {
	if c == nil {
		return nil
	}
	out := &Check{HTTP: c.HTTP.unwarned(), HTTPS: c.HTTPS.unwarned(), TCP: c.TCP, GRPC: c.GRPC, DNS: c.DNS, ICMP: c.ICMP}
	if c.TLS != nil {
		t := *c.TLS
		t.Warn = Warn{}
		out.TLS = &t
	}
	return out
}

func (h *HTTPCheck) unwarned() *HTTPCheck {
	if h == nil {
		return nil
	}
	next := *h
	next.Warn = Warn{}
	return &next
}

// asProbed returns the checks likewise.
func (cs Checks) asProbed() Checks {
	var out Checks
	for _, c := range cs.All {
		out.All = append(out.All, c.asProbed())
	}
	for _, c := range cs.Any {
		out.Any = append(out.Any, c.asProbed())
	}
	return out
}

// CapacityFrom is where a cluster reports what it can take. Exactly one of HTTP
// and Prometheus is set.
type CapacityFrom struct {
	HTTP       *CapacityHTTP       `json:"http,omitempty"`
	Prometheus *CapacityPrometheus `json:"prometheus,omitempty"`
	MaxAge     Duration            `json:"max_age"`          // an older report counts for nothing
	Change     int                 `json:"change,omitempty"` // percent; smaller changes are not replicated
}

// CapacityHTTP reads a number out of a JSON document that the cluster's endpoints
// serve: https on port 443, else http.
type CapacityHTTP struct {
	Port int    `json:"port"`
	Path string `json:"path"`
	JSON string `json:"json"` // JSONPath of the number, 0 or more, in the unit of the cluster's capacity
}

// CapacityPrometheus reads a metric in Prometheus' text exposition. The sum of the
// series that match is the number; with Of it is that sum's part of Of's, times the
// cluster's capacity.
type CapacityPrometheus struct {
	URL    string            `json:"url"`
	Metric string            `json:"metric"`
	Of     string            `json:"of,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
}
