package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/statestore"
)

// maxAttempts bounds how often an act is planned anew because what it was
// planned on had changed by the time it was applied.
const maxAttempts = 5

// A quorum that has been gone for staleAfter is not just electing (WAN elections
// take 5 s), so a person is told after staleWait instead of after proposeTimeout.
const (
	staleAfter = 15 * time.Second
	staleWait  = 2 * time.Second
)

// done is the outcome of an act.
type done struct {
	index    uint64
	replayed bool // this very request was done before
}

// propose commits what plan returns, on behalf of the caller, exactly once for
// each idempotency key. Plan is called with the newest state, again when the
// command came too late for what it had read.
//
// The state's request id is KEY~DIGEST: the digest of what was sent, not of the
// command, since a retry plans other rotations than the first try did.
func (s *Server) propose(ctx context.Context, c *call, plan func(st *statestore.State) (statestore.Command, error)) (done, error) {
	base := c.key + "~" + c.bodySum
	st := s.cfg.Store.State()
	attempt, before, err := findRequest(st, c.p.User, c.key, base)
	if err != nil {
		return done{}, err
	}
	if before != nil {
		return replay(before, c)
	}
	wait := proposeTimeout
	if q := s.cfg.Quorum(); !q.HasQuorum && q.Stale > staleAfter {
		wait = staleWait
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for ; attempt < maxAttempts; attempt++ {
		cmd, err := plan(s.cfg.Store.State())
		if err != nil {
			return done{}, err
		}
		res, err := s.cfg.Proposer.Propose(ctx, cmd, Origin{Actor: c.p.User, Request: requestID(base, attempt), Issued: c.issued})
		if err != nil {
			return done{}, s.proposeProblem(err, c.key)
		}
		s.loadState(c)
		switch {
		case res.Err == nil:
			s.log.Info("command committed", keyUser, c.p.User, keyVia, c.p.Via, keyRemote, c.remote, keyKind, fmt.Sprintf("%T", cmd), keyIndex, res.Index)
			return done{index: res.Index}, nil
		case errors.Is(res.Err, statestore.ErrStale):
			continue
		case errors.Is(res.Err, statestore.ErrRequestReused):
			// The same request came in twice at once and the other one was planned
			// on another state; its outcome is ours.
			if _, before, err := findRequest(c.st, c.p.User, c.key, base); err == nil && before != nil {
				return replay(before, c)
			}
		}
		return done{}, refusalProblem(res.Err, c.key)
	}
	p := problem(http.StatusConflict, apitype.ProblemConflict, "the state kept changing while this was planned; try again")
	p.RequestID = c.key
	return done{}, p
}

func requestID(base string, attempt int) string {
	if attempt == 0 {
		return base
	}
	return base + "+" + strconv.Itoa(attempt)
}

// findRequest looks for an earlier outcome of the same request, and returns the
// number of attempts that came to nothing. A key used for another body is refused.
func findRequest(st *statestore.State, actor, key, base string) (attempt int, found *statestore.Request, err error) {
	prefix := actor + " " + key + "~"
	for id, req := range st.Requests {
		if !strings.HasPrefix(id, prefix) {
			continue
		}
		rest := strings.TrimPrefix(id, actor+" ")
		if own, _, _ := strings.Cut(rest, "+"); own != base {
			p := problem(http.StatusConflict, apitype.ProblemConflict, "the Idempotency-Key %s was used for another request", key)
			p.RequestID = key
			return 0, nil, p
		}
		if req.Code == statestore.ErrStale.Code {
			attempt++
			continue
		}
		found = req
	}
	return attempt, found, nil
}

// replay returns the outcome that is remembered of the same request.
func replay(before *statestore.Request, c *call) (done, error) {
	if before.Code != "" {
		return done{}, refusalProblem(&statestore.Refusal{Code: before.Code, Text: before.Error}, c.key)
	}
	return done{index: before.Index, replayed: true}, nil
}
