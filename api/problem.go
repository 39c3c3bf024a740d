package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/statestore"
)

// retryAfterNoQuorum is what a client should wait before it tries a write again:
// longer than an election of the LAN profile.
const retryAfterNoQuorum = 3

var titles = map[string]string{
	apitype.ProblemValidation:     "the request is not valid",
	apitype.ProblemNoQuorum:       "no quorum",
	apitype.ProblemUnknownOutcome: "outcome unknown",
	apitype.ProblemStalePlan:      "the plan is stale",
	apitype.ProblemPrecondition:   "precondition failed",
	apitype.ProblemBlocked:        "blocked by a rule",
	apitype.ProblemConflict:       "conflict",
	apitype.ProblemEvidence:       "the evidence has changed",
	apitype.ProblemDecided:        "already decided",
	apitype.ProblemSigned:         "already signed",
	apitype.ProblemSelfApproval:   "the proposer may not approve",
	apitype.ProblemUnconfirmed:    "the active side is not confirmed",
	apitype.ProblemForbidden:      "not allowed",
	apitype.ProblemUnauthorized:   "not logged in",
	apitype.ProblemNotFound:       "not found",
	apitype.ProblemExpired:        "expired",
	apitype.ProblemTooLarge:       "too large",
	apitype.ProblemRateLimited:    "too many requests",
	apitype.ProblemUnsupported:    "not supported by this node",
	apitype.ProblemMethod:         "method not allowed",
	apitype.ProblemNotReachable:   "node not reachable",
	apitype.ProblemInternal:       "internal error",
}

func problem(status int, name, format string, args ...any) *apitype.Problem {
	return &apitype.Problem{
		Type:   apitype.ProblemBase + name,
		Title:  titles[name],
		Status: status,
		Detail: fmt.Sprintf(format, args...),
	}
}

func notFound(kind, name string) *apitype.Problem {
	return problem(http.StatusNotFound, apitype.ProblemNotFound, "no %s is named %q", kind, name)
}

func invalid(errs ...apitype.FieldError) *apitype.Problem {
	p := problem(http.StatusUnprocessableEntity, apitype.ProblemValidation, "%s", count(len(errs), "error"))
	p.Errors = errs
	return p
}

func invalidField(pointer, format string, args ...any) *apitype.Problem {
	return invalid(apitype.FieldError{Pointer: pointer, Message: fmt.Sprintf(format, args...)})
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// blocked lists every rule that forbids the act.
func blocked(blockers []apitype.Blocker) *apitype.Problem {
	reasons := make([]string, len(blockers))
	for i, b := range blockers {
		reasons[i] = b.Rule + ": " + b.Reason
	}
	p := problem(http.StatusConflict, apitype.ProblemBlocked, "%s", strings.Join(reasons, "; "))
	p.Blockers = blockers
	return p
}

// proposeProblem says what a Proposer's error means to the person who asked. A
// deadline or a cancellation is an unknown outcome: the entry may be committed
// later (G8).
func (s *Server) proposeProblem(err error, request string) *apitype.Problem {
	switch {
	case s.cfg.IsNoLeader(err):
		p := problem(http.StatusServiceUnavailable, apitype.ProblemNoQuorum, "%v; nothing was written, reads and DNS go on", err)
		p.RetryAfter = retryAfterNoQuorum
		p.Next = "quorate status"
		return p
	case s.cfg.IsUnknownOutcome(err), isDeadline(err):
		p := problem(http.StatusGatewayTimeout, apitype.ProblemUnknownOutcome, "the write may or may not be committed; ask, or repeat it with the same Idempotency-Key")
		p.RequestID = request
		return p
	}
	s.log.Error("propose a command", keyRequest, request, keyErr, err)
	p := problem(http.StatusInternalServerError, apitype.ProblemInternal, "the write was not accepted: %v", err)
	p.RequestID = request
	return p
}

// refusalProblem maps what the state machine refused.
func refusalProblem(err error, request string) *apitype.Problem {
	p := func(status int, name string) *apitype.Problem {
		p := problem(status, name, "%v", err)
		p.RequestID = request
		return p
	}
	switch {
	case errors.Is(err, statestore.ErrNotFound):
		return p(http.StatusNotFound, apitype.ProblemNotFound)
	case errors.Is(err, statestore.ErrStalePlan):
		return p(http.StatusConflict, apitype.ProblemStalePlan)
	case errors.Is(err, statestore.ErrForbidden):
		return p(http.StatusForbidden, apitype.ProblemForbidden)
	case errors.Is(err, statestore.ErrSelfApproval):
		return p(http.StatusForbidden, apitype.ProblemSelfApproval)
	case errors.Is(err, statestore.ErrEvidence):
		return p(http.StatusConflict, apitype.ProblemEvidence)
	case errors.Is(err, statestore.ErrDecided):
		return p(http.StatusConflict, apitype.ProblemDecided)
	case errors.Is(err, statestore.ErrSigned):
		return p(http.StatusConflict, apitype.ProblemSigned)
	case errors.Is(err, statestore.ErrUnconfirmed):
		return p(http.StatusConflict, apitype.ProblemUnconfirmed)
	case errors.Is(err, statestore.ErrExpired), errors.Is(err, statestore.ErrRequestUnknown):
		return p(http.StatusGone, apitype.ProblemExpired)
	case errors.Is(err, statestore.ErrInvalid):
		q := p(http.StatusUnprocessableEntity, apitype.ProblemValidation)
		q.Errors = []apitype.FieldError{{Message: err.Error()}}
		return q
	case isAny(err, statestore.ErrFloor, statestore.ErrBudget, statestore.ErrFrozen, statestore.ErrFeatureLevel,
		statestore.ErrMaxDrained, statestore.ErrEmptyRotation, statestore.ErrInUse, statestore.ErrVersionSkew, statestore.ErrBlocked, statestore.ErrStateful):
		q := p(http.StatusConflict, apitype.ProblemBlocked)
		var r *statestore.Refusal
		if errors.As(err, &r) {
			q.Blockers = []apitype.Blocker{{Rule: r.Code, Reason: r.Text}}
		}
		return q
	}
	return p(http.StatusConflict, apitype.ProblemConflict)
}

// installProblems makes huma write our problems. The hook is a variable of the
// library and the same for every server of a process, so it is set once.
var installProblems = sync.OnceFunc(func() {
	huma.NewError = func(status int, msg string, errs ...error) huma.StatusError {
		return humaProblem(status, msg, errs)
	}
	huma.NewErrorWithContext = func(_ huma.Context, status int, msg string, errs ...error) huma.StatusError {
		return humaProblem(status, msg, errs)
	}
})

// humaProblem turns what huma found into a problem. It never repeats the value
// that was sent: it may be a secret.
func humaProblem(status int, msg string, errs []error) *apitype.Problem {
	switch status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusUnsupportedMediaType:
		fields := fieldErrors(errs)
		if len(fields) == 0 {
			fields = []apitype.FieldError{{Message: msg}}
		}
		return invalid(fields...)
	case http.StatusRequestEntityTooLarge:
		return problem(status, apitype.ProblemTooLarge, "%s", msg)
	case http.StatusNotFound:
		return problem(status, apitype.ProblemNotFound, "%s", msg)
	case http.StatusForbidden:
		return problem(status, apitype.ProblemForbidden, "%s", msg)
	case http.StatusUnauthorized:
		return problem(status, apitype.ProblemUnauthorized, "%s", msg)
	case http.StatusRequestTimeout:
		return problem(status, apitype.ProblemRateLimited, "%s", msg)
	}
	// What went wrong inside is for the log, not for the caller.
	return problem(max(status, http.StatusInternalServerError), apitype.ProblemInternal, "this is a fault of quorate; the log of the node says more")
}

// fieldErrors lists what is wrong with a request: what huma found, then what our
// resolvers found in those fields that huma had nothing against.
func fieldErrors(errs []error) []apitype.FieldError {
	var fields, ours []apitype.FieldError
	for _, err := range errs {
		var d *huma.ErrorDetail
		var own apitype.FieldError
		switch {
		case errors.As(err, &d):
			fields = append(fields, detailError(d))
		case errors.As(err, &own):
			ours = append(ours, own)
		default:
			fields = append(fields, apitype.FieldError{Message: err.Error()})
		}
	}
	found := fields
	for _, f := range ours {
		covered := func(e apitype.FieldError) bool {
			return e.Pointer == f.Pointer || strings.HasPrefix(f.Pointer, e.Pointer+"/")
		}
		if !slices.ContainsFunc(found, covered) {
			fields = append(fields, f)
		}
	}
	return fields
}

// detailError says where in the body huma found something.
func detailError(d *huma.ErrorDetail) apitype.FieldError {
	f := apitype.FieldError{Pointer: pointer(d.Location), Message: d.Message}
	if line, col, rest, ok := cutPosition(d.Message); ok {
		f.Line, f.Column, f.Message = line, col, rest
	}
	if rest, ok := strings.CutPrefix(d.Message, "expected required property "); ok {
		if name, ok := strings.CutSuffix(rest, " to be present"); ok {
			f.Pointer, f.Message = f.Pointer+"/"+name, "must be given"
		}
	}
	return f
}

// pointer turns huma's "body.services[0]" into the JSON pointer "/services/0",
// and "query.name" into "?name".
func pointer(location string) string {
	if q, ok := strings.CutPrefix(location, "query."); ok {
		return "?" + q
	}
	rest, ok := strings.CutPrefix(location, "body")
	if !ok {
		return location
	}
	return strings.NewReplacer(".", "/", "[", "/", "]", "").Replace(rest)
}

func isAny(err error, targets ...*statestore.Refusal) bool {
	for _, t := range targets {
		if errors.Is(err, t) {
			return true
		}
	}
	return false
}

func isRefusal(err error) bool {
	var r *statestore.Refusal
	return errors.As(err, &r)
}

func isDeadline(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}
