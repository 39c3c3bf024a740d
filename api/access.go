package api

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/statestore"
)

// joinTokenLifetime is how long a join token lives unless told otherwise: long
// enough to log in to the new host.
const joinTokenLifetime = time.Hour

// Sizes of a bearer token, in bytes. The secret has more than the 128 bits that
// make guessing hopeless.
const (
	tokenIDSize     = 5
	tokenSecretSize = 24
)

// NewToken returns a fresh bearer token, to be shown once, with its id and the
// hash that the state keeps. init makes the first administrator's with it.
func NewToken() (token, id string, hash [32]byte) {
	var rawID [tokenIDSize]byte
	var rawSecret [tokenSecretSize]byte
	_, _ = rand.Read(rawID[:]) // never fails: crypto/rand panics instead
	_, _ = rand.Read(rawSecret[:])
	id = strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(rawID[:]))
	secret := base64.RawURLEncoding.EncodeToString(rawSecret[:])
	return tokenPrefix + id + "." + secret, id, sha256.Sum256([]byte(secret))
}

type tokenInput struct {
	writing
	Body apitype.TokenRequest
}

type revokeInput struct {
	writing
	ID string `path:"id" maxLength:"64"`
}

type joinTokenInput struct {
	writing
	Body *apitype.JoinTokenRequest
}

type rollCAInput struct {
	writing
	Body *apitype.RollCARequest
}

type retireCAInput struct {
	writing
	Fingerprint string `path:"fingerprint" maxLength:"128"`
}

func (s *Server) accessRoutes(api huma.API) {
	huma.Register(api, operation(http.MethodGet, "/tokens", "tokens", "Bearer tokens, without their secrets", statestore.CanAdmin),
		func(ctx context.Context, _ *reading) (*output[apitype.Token], error) {
			c := callOf(ctx)
			if err := allow(c.st, c.p, statestore.CanAdmin, ""); err != nil {
				return nil, err
			}
			var items []apitype.Token
			for _, id := range sortedKeys(c.st.Tokens) {
				items = append(items, tokenView(c.st, c.st.Tokens[id]))
			}
			return envelope(c, "token", items...), nil
		})
	create := operation(http.MethodPost, "/tokens", "create-token", "Make a bearer token; its secret is shown once", statestore.CanAdmin, actErrors...)
	create.DefaultStatus = http.StatusCreated
	huma.Register(api, create, s.createToken)
	huma.Register(api, operation(http.MethodDelete, "/tokens/{id}", "revoke-token", "Revoke a bearer token", statestore.CanAdmin, actErrors...), s.revokeToken)
	join := operation(http.MethodPost, "/members/join-tokens", "create-join-token", "Make a join token; it is shown once", statestore.CanAdmin, append(actErrors, http.StatusNotImplemented)...)
	join.DefaultStatus = http.StatusCreated
	huma.Register(api, join, s.createJoinToken)
	huma.Register(api, operation(http.MethodGet, "/ca", "ca", "The mesh certificate authorities that all nodes accept", statestore.CanRead),
		func(ctx context.Context, _ *reading) (*output[apitype.CA], error) {
			c := callOf(ctx)
			return envelope(c, "ca", caView(c.st)...), nil
		})
	huma.Register(api, operation(http.MethodPost, "/ca/roll", "roll-ca", "Make a new mesh CA; nodes renew their certificates from it", statestore.CanAdmin, append(actErrors, http.StatusNotImplemented)...), s.rollCA)
	huma.Register(api, operation(http.MethodDelete, "/ca/{fingerprint}", "retire-ca", "Stop trusting a mesh CA that signs no member's certificate", statestore.CanAdmin, actErrors...), s.retireCA)
}

func (s *Server) createToken(ctx context.Context, in *tokenInput) (*output[apitype.Token], error) {
	c, req := callOf(ctx), in.Body
	if err := allow(c.st, c.p, statestore.CanAdmin, ""); err != nil {
		return nil, err
	}
	if strings.TrimSpace(req.User) == "" {
		return nil, invalidField("/user", "must name whose acts the token makes, is empty")
	}
	length, err := lifetime("/for", req.For)
	if err != nil {
		return nil, err
	}
	var sources []netip.Prefix
	for i, text := range req.Sources {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, invalidField(fmt.Sprintf("/sources/%d", i), "must be a network such as 192.0.2.0/24, is %q", text)
		}
		sources = append(sources, p.Masked())
	}
	token, id, hash := NewToken()
	res, err := s.propose(ctx, c, func(st *statestore.State) (statestore.Command, error) {
		return statestore.PutToken{
			ID: id, User: req.User, Groups: orEmpty(req.Groups), Hash: hash, For: length, Sources: sources,
			Root: c.p.Via == statestore.ViaSocket, Person: st.Person(c.p), Makers: st.Makers(c.p),
		}, nil
	})
	if err != nil {
		return nil, err
	}
	if res.replayed {
		return nil, s.shownOnce(c, "token")
	}
	out := apitype.Token{ID: id, User: req.User, Groups: orEmpty(req.Groups), Roles: orEmpty(c.st.RolesOf(id, req.Groups)), Minter: c.p.User, Sources: orEmpty(sources)}
	if t := c.st.Tokens[id]; t != nil {
		out = tokenView(c.st, t)
	}
	out.Secret = token
	return envelope(c, "token", out), nil
}

// shownOnce answers the repetition of a request that made a secret: the secret is
// gone, which is the point of it.
func (s *Server) shownOnce(c *call, what string) error {
	p := problem(http.StatusConflict, apitype.ProblemConflict, "this request made a %s before; its secret was shown then and is kept nowhere. Revoke that one and make another", what)
	p.RequestID = c.key
	return p
}

func (s *Server) revokeToken(ctx context.Context, in *revokeInput) (*output[apitype.Act], error) {
	c := callOf(ctx)
	if err := allow(c.st, c.p, statestore.CanAdmin, ""); err != nil {
		return nil, err
	}
	act := apitype.Act{}
	res, err := s.propose(ctx, c, func(*statestore.State) (statestore.Command, error) {
		return statestore.RevokeToken{ID: in.ID}, nil
	})
	if err != nil {
		return nil, err
	}
	s.finish(c, &act, res, "revoked token "+in.ID)
	return envelope(c, "act", act), nil
}

func (s *Server) createJoinToken(ctx context.Context, in *joinTokenInput) (*output[apitype.JoinToken], error) {
	c := callOf(ctx)
	if err := allow(c.st, c.p, statestore.CanAdmin, ""); err != nil {
		return nil, err
	}
	if s.cfg.MintJoinToken == nil {
		return nil, unsupported("make join tokens")
	}
	role, length := statestore.Voter, joinTokenLifetime
	if in.Body != nil {
		if in.Body.Role != "" {
			role = statestore.MemberRole(in.Body.Role)
		}
		d, err := lifetime("/for", in.Body.For)
		if err != nil {
			return nil, err
		}
		if d > 0 {
			length = d
		}
	}
	secret, err := s.cfg.MintJoinToken()
	switch {
	case err == nil:
	case s.cfg.IsNoLeader(err):
		return nil, s.proposeProblem(err, c.key)
	default:
		return nil, s.internal("make a join token", err)
	}
	res, err := s.propose(ctx, c, func(*statestore.State) (statestore.Command, error) {
		return statestore.PutJoinToken{ID: secret.ID, Hash: secret.Hash, Role: role, For: length}, nil
	})
	if err != nil {
		return nil, err
	}
	if res.replayed {
		return nil, s.shownOnce(c, "join token")
	}
	out := apitype.JoinToken{ID: secret.ID, Token: secret.Token, Role: string(role)}
	if t := c.st.JoinTokens[secret.ID]; t != nil {
		out.Expires = t.Expires
	}
	return envelope(c, "join-token", out), nil
}

func (s *Server) rollCA(ctx context.Context, _ *rollCAInput) (*output[apitype.CA], error) {
	c := callOf(ctx)
	if err := allow(c.st, c.p, statestore.CanAdmin, ""); err != nil {
		return nil, err
	}
	if s.cfg.RollCA == nil {
		return nil, unsupported("roll the CA")
	}
	_, before, err := findRequest(c.st, c.p.User, c.key, c.key+"~"+c.bodySum)
	if err != nil {
		return nil, err
	}
	if before != nil {
		if _, err := replay(before, c); err != nil {
			return nil, err
		}
		return envelope(c, "ca", caView(c.st)...), nil
	}
	rctx, cancel := context.WithTimeout(ctx, proposeTimeout)
	defer cancel()
	if err := s.cfg.RollCA(rctx, Origin{Actor: c.p.User, Request: c.key + "~" + c.bodySum, Issued: c.issued}); err != nil {
		return nil, s.actProblem(err, c.key)
	}
	s.loadState(c)
	return envelope(c, "ca", caView(c.st)...), nil
}

func (s *Server) retireCA(ctx context.Context, in *retireCAInput) (*output[apitype.Act], error) {
	c := callOf(ctx)
	if err := allow(c.st, c.p, statestore.CanAdmin, ""); err != nil {
		return nil, err
	}
	act := apitype.Act{}
	res, err := s.propose(ctx, c, func(*statestore.State) (statestore.Command, error) {
		return statestore.RetireCA{Fingerprint: in.Fingerprint}, nil
	})
	if err != nil {
		return nil, err
	}
	s.finish(c, &act, res, "retired CA "+in.Fingerprint)
	return envelope(c, "act", act), nil
}

func caView(st *statestore.State) []apitype.CA {
	var out []apitype.CA
	for i, ca := range st.Trust {
		v := apitype.CA{Fingerprint: ca.Fingerprint, At: ca.At, Signs: i == len(st.Trust)-1, Members: []string{}}
		for _, name := range sortedKeys(st.Members) {
			if st.Members[name].CA == ca.Fingerprint {
				v.Members = append(v.Members, name)
			}
		}
		out = append(out, v)
	}
	return out
}

func unsupported(what string) *apitype.Problem {
	return problem(http.StatusNotImplemented, apitype.ProblemUnsupported, "this node cannot %s", what)
}

// internal logs what went wrong and tells the caller no more than that.
func (s *Server) internal(what string, err error) *apitype.Problem {
	s.log.Error(what, keyErr, err)
	return problem(http.StatusInternalServerError, apitype.ProblemInternal, "%s: this is a fault of quorate; the log of the node says more", what)
}
