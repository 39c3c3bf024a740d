package api

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"maps"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/statestore"
)

// metaCan is the key of an operation's capability in its metadata.
const metaCan = "can"

// call is what the handlers of one request share. The state is loaded once, so
// that an answer is of one moment.
type call struct {
	st      *statestore.State
	p       principal
	key     string    // idempotency key; empty on GET
	issued  time.Time // when the key was made
	bodySum string    // digest of method, path and body, for replays
	asOf    time.Time
	stale   bool
	leader  string
	remote  string
	header  http.Header // of the answer; nil when it is not one of /v1
}

type callKey struct{}

// withCall returns a context for operations that the console does for a person.
func withCall(ctx context.Context, c *call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

func callOf(ctx context.Context) *call {
	c, ok := ctx.Value(callKey{}).(*call)
	if !ok {
		panic("api: handler without admission") // a route registered around the middleware
	}
	return c
}

// admit is the middleware of every operation: it authenticates, limits the rate,
// checks the capability, and loads the state the answer is made of.
func (s *Server) admit(api huma.API) func(huma.Context, func(huma.Context)) {
	return func(hc huma.Context, next func(huma.Context)) {
		r, w := humago.Unwrap(hc)
		c, p := s.newCall(r, hc.Operation())
		if p != nil {
			s.writeProblem(w, r, p)
			return
		}
		c.header = w.Header()
		s.setHeaders(c.header, c)
		if c.key != "" {
			w.Header().Set(apitype.HeaderIdempotency, c.key)
		}
		next(huma.WithValue(hc, callKey{}, c))
	}
}

func (s *Server) newCall(r *http.Request, op *huma.Operation) (*call, *apitype.Problem) {
	st := s.cfg.Store.State()
	p, prob := s.login(r, st)
	if prob != nil {
		return nil, prob
	}
	c := &call{p: p, remote: r.RemoteAddr}
	if need, ok := op.Metadata[metaCan].(statestore.Capability); ok && !canSome(st, p, need) {
		return nil, problem(http.StatusForbidden, apitype.ProblemForbidden, "%s may not %s: no role with that capability holds", p.User, need)
	}
	if r.URL.Query().Get("consistency") == "linearizable" {
		if prob := s.readIndex(r.Context()); prob != nil {
			return nil, prob
		}
	}
	if r.Method != http.MethodGet {
		key := r.Header.Get(apitype.HeaderIdempotency)
		if len(key) > maxKey || strings.ContainsAny(key, " ~+\t") {
			return nil, invalidField(apitype.HeaderIdempotency, "must be at most %d characters without space, ~ and +", maxKey)
		}
		if key == "" {
			key = newKey(s.cfg.Now())
		}
		c.key, c.issued = key, s.issued(key)
		c.bodySum = bodySum(r)
	}
	s.loadState(c)
	return c, nil
}

// login authenticates a request and limits its rate.
func (s *Server) login(r *http.Request, st *statestore.State) (principal, *apitype.Problem) {
	now := s.cfg.Now()
	remote := remoteAddr(r).String()
	if ok, wait := s.failures.take(remote, 0, now); !ok {
		return principal{}, tooMany(wait, "too many wrong tokens from this address")
	}
	p, err := s.authenticate(r, st)
	if err != nil {
		if !errors.Is(err, errNoLogin) {
			s.failures.take(remote, 1, now)
			s.log.Warn("login refused", keyRemote, remote, keyErr, err)
		}
		prob := problem(http.StatusUnauthorized, apitype.ProblemUnauthorized, "%v; send Authorization: Bearer qt1.ID.SECRET, or use the local socket", err)
		prob.Next = "quorate token create"
		return principal{}, prob
	}
	if p.Via != statestore.ViaSocket {
		if ok, wait := s.requests.take(p.Via+"/"+p.User, 1, now); !ok {
			return principal{}, tooMany(wait, "too many requests by %s", p.User)
		}
	}
	return p, nil
}

func tooMany(wait time.Duration, format string, args ...any) *apitype.Problem {
	p := problem(http.StatusTooManyRequests, apitype.ProblemRateLimited, format, args...)
	p.RetryAfter = wait.Seconds()
	return p
}

func (s *Server) readIndex(ctx context.Context) *apitype.Problem {
	if s.cfg.ReadIndex == nil {
		return problem(http.StatusNotImplemented, apitype.ProblemUnsupported, "this node cannot read linearizably")
	}
	ctx, cancel := context.WithTimeout(ctx, proposeTimeout)
	defer cancel()
	if _, err := s.cfg.ReadIndex(ctx); err != nil {
		p := problem(http.StatusServiceUnavailable, apitype.ProblemNoQuorum, "a linearizable read needs a leader: %v", err)
		p.RetryAfter = retryAfterNoQuorum
		p.Next = "ask without consistency=linearizable: the answer is then as old as it says"
		return p
	}
	return nil
}

// now is the later of log time, which stands still while nothing is written, and
// this node's clock.
func (s *Server) now(st *statestore.State) time.Time {
	if now := s.cfg.Now(); now.After(st.Now) {
		return now
	}
	return st.Now
}

// loadState takes the state an answer is made of, and how old it may be. The age
// is read first: the answer is never older than it says (I11).
func (s *Server) loadState(c *call) {
	now := s.cfg.Now()
	q := s.cfg.Quorum()
	c.st = s.cfg.Store.State()
	c.asOf = now.Add(-q.Stale).UTC()
	c.leader = q.Leader
	c.stale = !q.HasQuorum
	if c.header != nil {
		s.setHeaders(c.header, c) // after a write they tell of the state it made
	}
}

func (s *Server) setHeaders(h http.Header, c *call) {
	h.Set(apitype.HeaderRevision, strconv.FormatUint(c.st.Revision, 10))
	h.Set(apitype.HeaderIndex, strconv.FormatUint(c.st.Index, 10))
	h.Set(apitype.HeaderAsOf, c.asOf.Format(time.RFC3339Nano))
	h.Set(apitype.HeaderNode, s.cfg.Node)
	if c.leader != "" {
		h.Set(apitype.HeaderLeader, c.leader)
	}
	if c.stale {
		h.Set(apitype.HeaderStale, "true")
	}
}

// maxKey bounds an idempotency key: it is kept in the state for a day.
const maxKey = 128

// newKey returns an idempotency key: its time, and 80 random bits.
func newKey(now time.Time) string {
	var b [10]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand panics instead
	return "q" + strconv.FormatInt(now.Unix(), 10) + "-" + hex.EncodeToString(b[:])
}

// issued returns when a key was made: the time it carries ("q" UNIX-SECONDS "-"
// anything), or now for a key of the caller's own making. With a time in it, a
// retry after the state forgot the key is refused as unknown instead of done twice.
func (s *Server) issued(key string) time.Time {
	now := s.cfg.Now()
	if sec, _, ok := strings.Cut(strings.TrimPrefix(key, "q"), "-"); ok && strings.HasPrefix(key, "q") {
		if n, err := strconv.ParseInt(sec, 10, 64); err == nil {
			if at := time.Unix(n, 0); at.Before(now) {
				return at.UTC()
			}
		}
	}
	return now.UTC()
}

// contentPolicy is the console's: nothing from elsewhere and nothing inline.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'"

// wrap is around everything: it survives panics, refuses cross-origin writes,
// bounds bodies, counts, and sets the headers every answer has.
func (s *Server) wrap(mux *http.ServeMux) http.Handler {
	origin := http.NewCrossOriginProtection()
	origin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.writeProblem(w, r, problem(http.StatusForbidden, apitype.ProblemForbidden, "a page of another origin may not do this"))
	}))
	inner := origin.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// curl -d says "form"; we only ever take JSON.
		if strings.HasPrefix(r.URL.Path, "/v1/") && r.Method != http.MethodGet {
			if ct := r.Header.Get("Content-Type"); ct == "" || strings.HasPrefix(ct, "application/x-www-form-urlencoded") {
				r.Header.Set("Content-Type", "application/json")
			}
		}
		if prob := s.readBody(w, r); prob != nil {
			s.writeProblem(w, r, prob)
			return
		}
		if _, pattern := mux.Handler(r); pattern == "" || (pattern == "/" && r.URL.Path != "/") {
			s.writeNoRoute(w, r, mux)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := s.cfg.Now()
		h := w.Header()
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		rec := &recorder{ResponseWriter: w}
		defer func() {
			v := recover()
			switch {
			case v == nil:
			case v == http.ErrAbortHandler: // the connection is cut on purpose
				s.count(r, rec, s.cfg.Now().Sub(start))
				panic(v)
			case r.Context().Err() != nil: // nobody is there to hear of it
			default:
				s.log.Error("handler panicked", keyRoute, r.Pattern, keyErr, v, keyStack, string(debug.Stack()))
				if rec.status == 0 {
					s.writeProblem(rec, r, problem(http.StatusInternalServerError, apitype.ProblemInternal, "this is a fault of quorate; the log of the node says more"))
				}
			}
			s.count(r, rec, s.cfg.Now().Sub(start))
		}()
		inner.ServeHTTP(rec, r)
	})
}

func (s *Server) count(r *http.Request, rec *recorder, took time.Duration) {
	route := r.Pattern
	if _, path, ok := strings.Cut(route, " "); ok {
		route = path
	}
	if route == "" {
		route = "none"
	}
	method := r.Method
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete:
	default:
		method = "other"
	}
	s.met.requests.WithLabelValues(route, method, strconv.Itoa(max(rec.status, http.StatusOK))).Inc()
	if !rec.stream {
		s.met.duration.WithLabelValues(route, method).Observe(took.Seconds())
	}
}

// writeNoRoute answers a path or method that does not exist.
func (s *Server) writeNoRoute(w http.ResponseWriter, r *http.Request, mux *http.ServeMux) {
	var allow []string
	for _, m := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
		probe := &http.Request{Method: m, URL: r.URL, Host: r.Host}
		if _, pattern := mux.Handler(probe); pattern != "" && pattern != "/" {
			allow = append(allow, m)
		}
	}
	if len(allow) > 0 {
		w.Header().Set("Allow", strings.Join(allow, ", "))
		s.writeProblem(w, r, problem(http.StatusMethodNotAllowed, apitype.ProblemMethod, "%s is not possible here, only %s", r.Method, strings.Join(allow, ", ")))
		return
	}
	s.writeProblem(w, r, problem(http.StatusNotFound, apitype.ProblemNotFound, "there is nothing at %s; see /v1/openapi.json", r.URL.Path))
}

// writeProblem writes a problem outside huma.
func (s *Server) writeProblem(w http.ResponseWriter, _ *http.Request, p *apitype.Problem) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="quorate"`)
	}
	maps.Copy(h, p.GetHeaders())
	w.WriteHeader(p.Status)
	_ = jsonFormat().Marshal(w, p) // a client that went away is its own problem
}

// recorder remembers the status, for metrics and after a panic.
type recorder struct {
	http.ResponseWriter
	status int
	stream bool // a stream's duration says nothing
}

func (r *recorder) WriteHeader(code int) {
	if r.status == 0 {
		r.status = code
	}
	r.ResponseWriter.WriteHeader(code)
}

func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
