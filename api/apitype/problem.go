package apitype

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ProblemBase precedes a problem's stable name in its type.
const ProblemBase = "https://quorate.dev/problems/"

// The stable problem names. A name never changes its meaning.
const (
	ProblemValidation     = "validation"
	ProblemNoQuorum       = "no-quorum"
	ProblemUnknownOutcome = "unknown-outcome"
	ProblemStalePlan      = "stale-plan"
	ProblemPrecondition   = "precondition"
	ProblemBlocked        = "blocked"
	ProblemConflict       = "conflict"
	ProblemEvidence       = "evidence-changed"
	ProblemDecided        = "already-decided"
	ProblemSigned         = "already-signed"
	ProblemSelfApproval   = "self-approval"
	ProblemUnconfirmed    = "unconfirmed"
	ProblemForbidden      = "forbidden"
	ProblemUnauthorized   = "unauthorized"
	ProblemNotFound       = "not-found"
	ProblemExpired        = "expired"
	ProblemTooLarge       = "too-large"
	ProblemRateLimited    = "rate-limited"
	ProblemUnsupported    = "unsupported"
	ProblemMethod         = "method-not-allowed"
	ProblemNotReachable   = "node-unreachable"
	ProblemInternal       = "internal"
)

// Problem is an RFC 9457 problem. It is an error on both sides.
type Problem struct {
	Type       string       `json:"type"` // ProblemBase + name
	Title      string       `json:"title"`
	Status     int          `json:"status"`
	Detail     string       `json:"detail,omitempty"`
	Errors     []FieldError `json:"errors,omitempty"`          // validation: all of them
	Blockers   []Blocker    `json:"blockers,omitempty"`        // blocked: all of them
	Evidence   string       `json:"evidence,omitempty"`        // evidence-changed: the present one
	Signed     string       `json:"signed_evidence,omitempty"` // evidence-changed: the one that was sent
	RetryAfter float64      `json:"retry_after,omitempty"`     // seconds
	RequestID  string       `json:"request_id,omitempty"`      // ask or retry with it
	AsOf       time.Time    `json:"as_of,omitzero"`            // no-quorum: since when
	Next       string       `json:"next,omitempty"`            // the command that helps
}

// FieldError is one thing wrong with what was sent.
type FieldError struct {
	Pointer string `json:"pointer,omitempty"` // JSON pointer into the body, or path into the spec
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Message string `json:"message"`
}

// Error returns the error as "file:line:col: path: message".
func (e FieldError) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.File + ":")
	}
	if e.Line > 0 {
		fmt.Fprintf(&b, "%d:%d:", e.Line, e.Column)
	}
	if b.Len() > 0 {
		b.WriteByte(' ')
	}
	if e.Pointer != "" {
		b.WriteString(e.Pointer + ": ")
	}
	return b.String() + e.Message
}

// Name returns the problem's stable name.
func (p *Problem) Name() string { return strings.TrimPrefix(p.Type, ProblemBase) }

// Error returns title and detail.
func (p *Problem) Error() string {
	if p.Detail == "" {
		return p.Title
	}
	return p.Detail
}

// GetStatus returns the HTTP status.
func (p *Problem) GetStatus() int { return p.Status }

// GetHeaders returns the headers that go with it.
func (p *Problem) GetHeaders() http.Header {
	h := http.Header{}
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(p.RetryAfter)+1))
	}
	return h
}

// ContentType returns the media type of a problem.
func (p *Problem) ContentType(string) string { return "application/problem+json" }
