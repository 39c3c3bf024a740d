package probe

import (
	"time"
)

// Reason says in one bounded word how a probe ended or why a vote is what it is.
// It is a metric label and travels in votes.
type Reason string

// The reasons of results. ReasonDenied is an address that this node's AddressPolicy
// closes: it has not probed at all. A bad result that came while the node's canaries did
// not answer is counted as ReasonCanary: it says nothing about the endpoint.
const (
	ReasonOK      Reason = "ok"
	ReasonTimeout Reason = "timeout"
	ReasonRefused Reason = "refused"
	ReasonDNS     Reason = "dns"
	ReasonTLS     Reason = "tls"
	ReasonStatus  Reason = "status"
	ReasonBody    Reason = "body"
	ReasonLatency Reason = "latency"
	ReasonCanary  Reason = "canary"
	ReasonDenied  Reason = "denied"
	ReasonOther   Reason = "other"
)

// The reasons of unknown votes beside them: this node is the sick party.
const (
	ReasonBlind   Reason = "blind"   // canaries unreachable, or everything failed at once
	ReasonStalled Reason = "stalled" // the prober's own loop stood still
	ReasonStale   Reason = "stale"   // the last completed probe is older than stale_after
)

// resultReasons are the values of the metric label "result".
var resultReasons = [...]Reason{
	ReasonOK, ReasonTimeout, ReasonRefused, ReasonDNS, ReasonTLS,
	ReasonStatus, ReasonBody, ReasonLatency, ReasonCanary, ReasonDenied, ReasonOther,
}

// Result is the outcome of one run of a probe.
type Result struct {
	At         time.Time     // when it started; shown to people
	Took       time.Duration // monotonic
	OK         bool
	Reason     Reason
	Detail     string    // for people: at most 200 bytes, escaped; empty when OK
	CertExpiry time.Time // of the leaf certificate, zero without TLS

	// Degraded is DegradedCert or DegradedLatency when a good result is worth a
	// warning of the check, else empty.
	Degraded string
	// RTT is how long connecting took, or the shortest echo; zero: not measured.
	RTT time.Duration
}

// What makes a good result degraded.
const (
	DegradedLatency = "latency"
	DegradedCert    = "cert"
)

// Attempt is a Result with how it came about, phase by phase.
type Attempt struct {
	Result
	Phases []Phase
}

// Phase is one step of a check, in the order they were done. The last is the one
// that failed, if any did.
type Phase struct {
	Name string // "resolve", "connect", "tls", "send", "first byte", "read" or "match"
	OK   bool
	Took time.Duration
	Text string // what was seen, for people: escaped, at most 400 bytes
}

// CheckResults are the last results of one check of a target, oldest first.
type CheckResults struct {
	Check   string
	Probe   ProbeID
	Results []Result
}
