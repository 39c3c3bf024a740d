package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"github.com/quorate/quorate/api/apitype"
)

// The exit codes of the command line.
const (
	ExitOK        = 0
	ExitFailure   = 1
	ExitUsage     = 2
	ExitNoQuorum  = 3 // or no node reachable
	ExitRefused   = 4 // by a gate or safety rule
	ExitNotFound  = 5
	ExitConflict  = 6
	ExitUnknown   = 7 // a wait ran out, or the outcome is unknown
	ExitForbidden = 8
	ExitDiffers   = 10  // plan or diff --exit-code
	ExitUnwell    = 11  // status --check
	ExitInterrupt = 130 // interrupted
)

// ProblemError is a problem that a node answered with.
type ProblemError struct {
	*apitype.Problem
	Addr string
}

// Error returns the problem with each of its fields and blockers on a line, and
// the next command.
func (e *ProblemError) Error() string {
	var b strings.Builder
	switch {
	case len(e.Errors) > 0:
		for i, f := range e.Errors {
			if i > 0 {
				b.WriteByte('\n')
			}
			b.WriteString(f.Error())
		}
	case len(e.Blockers) > 0:
		b.WriteString(e.Title)
		for _, bl := range e.Blockers {
			fmt.Fprintf(&b, "\n  %s: %s", bl.Rule, bl.Reason)
			switch {
			case bl.Waive != "":
				fmt.Fprintf(&b, " (--waive %s)", bl.Waive)
			case bl.Waivable:
				b.WriteString(" (--force lifts it)")
			}
		}
	default:
		b.WriteString(e.Problem.Error())
	}
	if e.Name() == apitype.ProblemEvidence {
		fmt.Fprintf(&b, "\nsigned: %s\nnow:    %s", e.Signed, e.Evidence)
	}
	if e.RequestID != "" && e.Name() == apitype.ProblemUnknownOutcome {
		fmt.Fprintf(&b, "\nretry with: --idempotency-key %s", e.RequestID)
	}
	if e.Next != "" {
		fmt.Fprintf(&b, "\nnext: %s", e.Next)
	}
	return b.String()
}

// Unwrap returns the problem.
func (e *ProblemError) Unwrap() error { return e.Problem }

// UnreachableError says that no address answered.
type UnreachableError struct {
	Tried   []error
	Timeout bool
	Unknown bool   // a write was sent and may have been done
	Request string // its idempotency key
}

// Error lists what was tried.
func (e *UnreachableError) Error() string {
	parts := make([]string, len(e.Tried))
	for i, t := range e.Tried {
		parts[i] = t.Error()
	}
	text := "no node answered: " + strings.Join(parts, "; ")
	if e.Unknown {
		return text + "\nthe outcome is unknown; retry with: --idempotency-key " + e.Request
	}
	return text
}

// Unwrap returns what was tried.
func (e *UnreachableError) Unwrap() []error { return e.Tried }

// UsageError is a mistake in how the client was called.
type UsageError struct{ Err error }

// Error returns what is wrong.
func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UsageError) Unwrap() error { return e.Err }

// ExitCode returns the documented exit code for an error of this package; nil is
// 0 and anything unknown 1.
func ExitCode(err error) int {
	var p *ProblemError
	var u *UnreachableError
	var usage *UsageError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &p):
		return problemExit(p.Problem)
	case errors.As(err, &u):
		if u.Unknown {
			return ExitUnknown
		}
		return ExitNoQuorum
	case errors.As(err, &usage):
		return ExitUsage
	case errors.Is(err, context.Canceled):
		return ExitInterrupt
	case errors.Is(err, context.DeadlineExceeded):
		return ExitUnknown
	}
	return ExitFailure
}

func problemExit(p *apitype.Problem) int {
	switch p.Name() {
	case apitype.ProblemValidation, apitype.ProblemTooLarge, apitype.ProblemMethod:
		return ExitUsage
	case apitype.ProblemNoQuorum, apitype.ProblemNotReachable:
		return ExitNoQuorum
	case apitype.ProblemBlocked, apitype.ProblemUnconfirmed:
		return ExitRefused
	case apitype.ProblemNotFound:
		return ExitNotFound
	case apitype.ProblemStalePlan, apitype.ProblemPrecondition, apitype.ProblemConflict, apitype.ProblemExpired,
		apitype.ProblemEvidence, apitype.ProblemDecided, apitype.ProblemSigned:
		return ExitConflict
	case apitype.ProblemUnknownOutcome:
		return ExitUnknown
	case apitype.ProblemForbidden, apitype.ProblemUnauthorized, apitype.ProblemSelfApproval:
		return ExitForbidden
	}
	return ExitFailure
}

// maxProblem bounds what is read of an error: some proxies send whole pages.
const maxProblem = 1 << 20

func readProblem(resp *http.Response, addr string) error {
	data, _ := io.ReadAll(io.LimitReader(resp.Body, maxProblem)) // what came is shown
	var p apitype.Problem
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "application/problem+json") && json.Unmarshal(data, &p) == nil && p.Type != "" {
		return &ProblemError{Problem: &p, Addr: addr}
	}
	return fmt.Errorf("%s answered %s, which is not quorate's API", addr, resp.Status)
}

// isDial reports whether an error certainly came before anything was sent.
func isDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// plain strips what repeats the URL, and says what a person can do.
func plain(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOENT):
		return errors.New("no such socket; is the server running here? Give --addr otherwise")
	case errors.Is(err, syscall.EACCES):
		return errors.New("permission denied; be root or in group quorate, or use --addr and --token-file")
	case errors.Is(err, syscall.ECONNREFUSED):
		return errors.New("connection refused")
	}
	return err
}
