package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/statestore"
)

// tokenPrefix starts every bearer token: qt1.ID.SECRET. It makes a leaked one
// easy to find.
const tokenPrefix = "qt1."

// sessionCookie holds the bearer token of a person at the console.
const sessionCookie = "quorate_session"

// demoCookie holds who a person plays in a demo.
const demoCookie = "quorate_demo_user"

// principal is who makes a request.
type principal struct {
	User    string
	Groups  []string
	TokenID string // empty unless by token
	Via     string // "token", "socket" or "demo"
	Admin   bool   // the local socket: always everything
}

// errNoLogin says that a request carries no credentials at all.
var errNoLogin = errors.New("no credentials")

// authenticate finds out who asks. The error's text is fit for the caller: it
// does not say which part of a token was wrong.
func (s *Server) authenticate(r *http.Request, st *statestore.State) (principal, error) {
	if p, ok := s.socketPrincipal(r.Context()); ok {
		return p, nil
	}
	if h := r.Header.Get("Authorization"); h != "" {
		scheme, token, _ := strings.Cut(h, " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return principal{}, errors.New("the Authorization header must be a bearer token")
		}
		return s.tokenPrincipal(st, strings.TrimSpace(token), remoteAddr(r))
	}
	if c, err := r.Cookie(sessionCookie); err == nil && c.Value != "" {
		return s.tokenPrincipal(st, c.Value, remoteAddr(r))
	}
	if p, ok := s.demoPrincipal(r); ok && (r.URL.Path == "/" || strings.HasPrefix(r.URL.Path, "/ui/")) {
		return p, nil
	}
	return principal{}, errNoLogin
}

// tokenPrincipal checks a bearer token. It compares a hash even when there is no
// such id, so that the time taken says nothing. A token has expired when log time
// or this node's clock says so: log time stands still on a quiet log, and a wrong
// clock locks nobody out of the local socket.
func (s *Server) tokenPrincipal(st *statestore.State, token string, from netip.Addr) (principal, error) {
	id, secret, _ := strings.Cut(strings.TrimPrefix(token, tokenPrefix), ".")
	var want [sha256.Size]byte
	t := st.Tokens[id]
	if t != nil {
		want = t.Hash
	}
	got := sha256.Sum256([]byte(secret))
	same := subtle.ConstantTimeCompare(got[:], want[:]) == 1
	if !same || t == nil || !strings.HasPrefix(token, tokenPrefix) {
		return principal{}, errors.New("the token is not known")
	}
	if !t.Expires.IsZero() && (!st.Now.Before(t.Expires) || !s.cfg.Now().Before(t.Expires)) {
		return principal{}, errors.New("the token has expired")
	}
	inside := func(p netip.Prefix) bool { return p.Contains(from) }
	if len(t.Sources) > 0 && !slices.ContainsFunc(t.Sources, inside) {
		return principal{}, errors.New("the token may not be used from this address")
	}
	return principal{User: t.User, Groups: t.Groups, TokenID: t.ID, Via: "token"}, nil
}

// demoPrincipal lets a person into a demo as the user they switched to.
func (s *Server) demoPrincipal(r *http.Request) (principal, bool) {
	if s.cfg.Demo == nil || len(s.cfg.Demo.Users) == 0 {
		return principal{}, false
	}
	u := s.cfg.Demo.Users[0]
	if c, err := r.Cookie(demoCookie); err == nil {
		if i := slices.IndexFunc(s.cfg.Demo.Users, func(u DemoUser) bool { return u.Name == c.Value }); i >= 0 {
			u = s.cfg.Demo.Users[i]
		}
	}
	return principal{User: u.Name, Groups: u.Groups, Via: "demo"}, true
}

// remoteAddr returns where a request comes from; zero on a unix socket.
func remoteAddr(r *http.Request) netip.Addr {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap()
}

// can reports whether p may do what capability c names for a service. An empty
// service stands for an act on everything, which a role limited to some services
// does not cover.
func can(st *statestore.State, p principal, c statestore.Capability, service string) bool {
	if p.Admin {
		return true
	}
	for _, role := range roles(st) {
		if !holds(role, p) || !(slices.Contains(role.Can, c) || slices.Contains(role.Can, statestore.CanAll)) {
			continue
		}
		if len(role.Services) == 0 || slices.Contains(role.Services, "*") || (service != "" && slices.Contains(role.Services, service)) {
			return true
		}
	}
	return false
}

// canSome reports whether p has the capability for anything at all.
func canSome(st *statestore.State, p principal, c statestore.Capability) bool {
	if p.Admin {
		return true
	}
	for _, role := range roles(st) {
		if holds(role, p) && (slices.Contains(role.Can, c) || slices.Contains(role.Can, statestore.CanAll)) {
			return true
		}
	}
	return false
}

func holds(role *statestore.Role, p principal) bool {
	if p.TokenID != "" && slices.Contains(role.Tokens, p.TokenID) {
		return true
	}
	return slices.ContainsFunc(role.Groups, func(g string) bool { return slices.Contains(p.Groups, g) })
}

func roles(st *statestore.State) map[string]*statestore.Role {
	if len(st.Spec.Access.Roles) > 0 {
		return st.Spec.Access.Roles
	}
	return statestore.BuiltinRoles()
}

// allow refuses an act that p may not do, naming who may.
func allow(st *statestore.State, p principal, c statestore.Capability, service string) error {
	if can(st, p, c, service) {
		return nil
	}
	on := ""
	if service != "" {
		on = " for service " + service
	}
	return problem(http.StatusForbidden, apitype.ProblemForbidden, "%s may not %s%s: no role with that capability holds", p.User, c, on)
}
