package api

import (
	"context"
	"fmt"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/statestore"
)

type removeMemberInput struct {
	writing
	Name string `path:"name" maxLength:"253"`
	Body *apitype.RemoveRequest
}

type roleInput struct {
	writing
	Name string `path:"name" maxLength:"253"`
}

func (s *Server) removeMember(ctx context.Context, in *removeMemberInput) (*output[apitype.Act], error) {
	c, reason := callOf(ctx), ""
	if in.Body != nil {
		reason = in.Body.Reason
	}
	if err := allow(c.st, c.p, statestore.CanAdmin, ""); err != nil {
		return nil, err
	}
	act := apitype.Act{}
	if s.cfg.RemoveMember != nil {
		_, before, err := findRequest(c.st, c.p.User, c.key, c.key+"~"+c.bodySum)
		if err != nil {
			return nil, err
		}
		if before != nil {
			res, err := replay(before, c)
			if err != nil {
				return nil, err
			}
			s.finish(c, &act, res, s.removed(c.st, in.Name))
			return envelope(c, "act", act), nil
		}
		if c.st.Members[in.Name] == nil {
			return nil, notFound("member", in.Name)
		}
		rctx, cancel := context.WithTimeout(ctx, proposeTimeout)
		defer cancel()
		if err := s.cfg.RemoveMember(rctx, in.Name, reason, Origin{Actor: c.p.User, Request: c.key + "~" + c.bodySum, Issued: c.issued}); err != nil {
			return nil, s.actProblem(err, c.key)
		}
		s.loadState(c)
		s.finish(c, &act, done{index: c.st.Index}, s.removed(c.st, in.Name))
		return envelope(c, "act", act), nil
	}
	res, err := s.propose(ctx, c, func(*statestore.State) (statestore.Command, error) {
		return statestore.RemoveMember{Name: in.Name, Reason: reason}, nil
	})
	if err != nil {
		return nil, err
	}
	s.finish(c, &act, res, s.removed(c.st, in.Name))
	return envelope(c, "act", act), nil
}

// removed says that a member is gone, and what the quorum without it can lose:
// what its voters can in the best case, or less where the leader does not reach all.
func (s *Server) removed(st *statestore.State, name string) string {
	n := voters(st)
	if n == 0 {
		return "removed " + name
	}
	loss := (n - 1) / 2
	if q := s.cfg.Quorum(); q.HasQuorum && q.VotersUp > 0 {
		loss = min(loss, q.Tolerates)
	}
	remain, can := fmt.Sprintf("%d voters remain", n), fmt.Sprintf("%d of them", loss)
	if n == 1 {
		remain = "1 voter remains"
	}
	if loss == 0 {
		can = "none; join another voter"
	}
	return fmt.Sprintf("removed %s; %s, the quorum can lose %s", name, remain, can)
}

// changeRole wants another role for a member; consensus follows once it can.
func (s *Server) changeRole(ctx context.Context, name string, role statestore.MemberRole) (*output[apitype.Act], error) {
	c := callOf(ctx)
	if c.st.Members[name] == nil {
		return nil, notFound("member", name)
	}
	if err := allow(c.st, c.p, statestore.CanAdmin, ""); err != nil {
		return nil, err
	}
	act := apitype.Act{}
	res, err := s.propose(ctx, c, func(st *statestore.State) (statestore.Command, error) {
		m := st.Members[name]
		if m == nil {
			return nil, notFound("member", name)
		}
		if role == statestore.Nonvoter && m.Role == statestore.Voter && voters(st) <= 1 {
			return nil, blocked([]apitype.Blocker{{Rule: "last_voter", Reason: name + " is the only voter"}})
		}
		next := *m
		next.Role = role
		return statestore.UpsertMember{Member: next}, nil
	})
	if err != nil {
		return nil, err
	}
	s.finish(c, &act, res, fmt.Sprintf("%s is to be a %s", name, role))
	return envelope(c, "act", act), nil
}

func voters(st *statestore.State) int {
	n := 0
	for _, m := range st.Members {
		if m.Role == statestore.Voter {
			n++
		}
	}
	return n
}
