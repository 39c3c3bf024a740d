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

// principal is who makes a request, as the state machine takes it too. Via "socket"
// may do everything.
type principal = statestore.Signer

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
	if p, ok := s.demoPrincipal(r); ok && isPage(r.URL.Path) {
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
	return principal{User: t.User, Groups: t.Groups, Token: t.ID, Via: statestore.ViaToken, Source: from}, nil
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
	return principal{User: u.Name, Groups: u.Groups, Via: statestore.ViaDemo, Source: remoteAddr(r)}, true
}

// remoteAddr returns where a request comes from; zero on a unix socket.
func remoteAddr(r *http.Request) netip.Addr {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap()
}

// canSome reports whether p has the capability for anything at all.
func canSome(st *statestore.State, p principal, c statestore.Capability) bool {
	if st.Can(p, c, "") {
		return true
	}
	for _, role := range st.Roles() {
		if slices.ContainsFunc(role.Services, func(service string) bool { return st.Can(p, c, service) }) {
			return true
		}
	}
	return false
}

// allow refuses an act that p may not do, naming who may.
func allow(st *statestore.State, p principal, c statestore.Capability, service string) error {
	if st.Can(p, c, service) {
		return nil
	}
	on := ""
	if service != "" {
		on = " for service " + service
	}
	return problem(http.StatusForbidden, apitype.ProblemForbidden, "%s may not %s%s: no role with that capability holds", p.User, c, on)
}
