package probe

import (
	"cmp"
	"strings"
	"time"
)

// Check is one way to probe an endpoint. Exactly one of HTTP to ICMP is set, every
// default is filled in and host names are expanded; see Expand.
type Check struct {
	Name       string // key in spec.checks, for people; not part of a probe's identity
	Interval   time.Duration
	Timeout    time.Duration
	Fall       int // consecutive bad results that turn the probe down
	Rise       int // consecutive good results that turn it up
	Recheck    time.Duration
	StaleAfter time.Duration // belongs to the target that asks, not to the probe's identity; zero: three intervals

	HTTP  *HTTPCheck
	HTTPS *HTTPCheck
	TCP   *TCPCheck
	TLS   *HandshakeCheck
	GRPC  *GRPCCheck
	DNS   *DNSCheck
	ICMP  *ICMPCheck
}

// HTTPCheck is one request and what must come back.
type HTTPCheck struct {
	Port    int
	Method  string // empty: GET
	Path    string // empty: /; may hold a query
	Host    string // empty: the endpoint's address
	Headers map[string]string
	Reuse   bool      // keep the connection for the next probe
	TLS     *TLSCheck // nil on https: no name is forced and the chain is verified
	Expect  HTTPExpect
	Warn    Warn
}

// TLSCheck says how the server of an https or grpc check is verified.
type TLSCheck struct {
	ServerName string // empty: Host, and without one no name is sent
	Verify     bool
	CA         string // name of the secret that holds the CA in PEM; empty: the system's
}

// HTTPExpect is what makes a response good. No Status means 200 to 299.
type HTTPExpect struct {
	Status     []StatusRange
	BodyRegex  string            // RE2; matched against the first 64 KiB
	Header     map[string]string // RE2 that some value of the header must match, by name
	JSON       map[string]string // by JSONPath: the text that every value it finds must have; it must find one
	MaxLatency time.Duration     // a response that took longer from connect to end is bad; zero: no bound
	MaxBody    int               // bytes; a longer body is bad. Zero: no bound beyond the 64 KiB that are read
}

// StatusRange is an inclusive range of HTTP status codes.
type StatusRange struct {
	Low  int
	High int
}

// TCPCheck is good when a connection is made and, with Expect, what comes back
// after Send holds that text.
type TCPCheck struct {
	Port   int
	Send   string
	Expect string // found anywhere in the first 64 KiB
}

// HandshakeCheck is good when a TLS handshake ends with a certificate that holds:
// chain, name and dates.
type HandshakeCheck struct {
	Port       int
	ServerName string   // SNI and verified name; empty: none is sent and the chain alone is verified
	ALPN       []string // offered; the server must choose one of them
	Warn       Warn
}

// GRPCCheck asks the standard health service (grpc.health.v1) and is good when it
// says SERVING.
type GRPCCheck struct {
	Port    int
	Service string    // asked for; empty: the server as a whole
	Host    string    // :authority; empty: the endpoint's address
	TLS     *TLSCheck // nil: plain text
}

// DNSCheck asks one question over UDP, and over TCP when the answer is truncated.
type DNSCheck struct {
	Port        int
	Name        string // FQDN
	Type        string // such as A
	RCode       string // such as NOERROR, which empty stands for
	AnswerRegex string // RE2; some answer record's data must match
}

// ICMPCheck sends Count echo requests and is good when no more than MaxLoss of
// them, as a part of 1, stay without reply.
type ICMPCheck struct {
	Count   int // zero: 1
	MaxLoss float64
}

// Warn is what makes a good result degraded. Zero fields warn of nothing.
type Warn struct {
	CertExpiresAfter time.Duration // a certificate that ends sooner
	MaxLatency       time.Duration // a slower result
}

const (
	// minInterval is the least that intervals, timeouts and rechecks may be.
	minInterval = 100 * time.Millisecond

	defaultInterval = 10 * time.Second
	defaultTimeout  = 3 * time.Second
)

// withDefaults fills in what a plan left out and holds the lower bounds.
func (c Check) withDefaults() Check {
	c.Interval = max(cmp.Or(c.Interval, defaultInterval), minInterval)
	c.Timeout = max(cmp.Or(c.Timeout, defaultTimeout), minInterval)
	c.Recheck = max(cmp.Or(c.Recheck, c.Interval/5), minInterval)
	c.Fall, c.Rise = max(c.Fall, 1), max(c.Rise, 1)
	return c
}

// Expand returns the check with {service} and {zone} replaced in every field that
// holds a host name. The zone is given with or without its trailing dot.
func (c Check) Expand(service, zone string) Check {
	r := strings.NewReplacer("{service}", service, "{zone}", strings.TrimSuffix(zone, "."))
	c.HTTP, c.HTTPS = c.HTTP.expand(r), c.HTTPS.expand(r)
	if c.TLS != nil {
		t := *c.TLS
		t.ServerName = r.Replace(t.ServerName)
		c.TLS = &t
	}
	if c.GRPC != nil {
		g := *c.GRPC
		g.Host, g.TLS = r.Replace(g.Host), g.TLS.expand(r)
		c.GRPC = &g
	}
	if c.DNS != nil {
		d := *c.DNS
		d.Name = r.Replace(d.Name)
		c.DNS = &d
	}
	return c
}

func (h *HTTPCheck) expand(r *strings.Replacer) *HTTPCheck {
	if h == nil {
		return nil
	}
	e := *h
	e.Host, e.TLS = r.Replace(h.Host), h.TLS.expand(r)
	return &e
}

func (t *TLSCheck) expand(r *strings.Replacer) *TLSCheck {
	if t == nil {
		return nil
	}
	e := *t
	e.ServerName = r.Replace(t.ServerName)
	return &e
}
