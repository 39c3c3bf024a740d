package api

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/api/console"
	"github.com/quorate/quorate/statestore"
)

const (
	// consoleTick is how often the console's stream says that it lives: the page
	// greys out after 5 s without.
	consoleTick = 2 * time.Second

	// consoleGap bounds how often a change is announced.
	consoleGap = 100 * time.Millisecond

	// consoleEvents is how many events the overview shows.
	consoleEvents = 12

	// sessionLength bounds a console session; the token may end it sooner.
	sessionLength = 12 * time.Hour

	maxLoginBody = 4 << 10
)

func (s *Server) consoleRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /{$}", s.page(func(w http.ResponseWriter, _ *http.Request, c *call) error {
		return s.console.Overview(w, s.overview(c))
	}))
	mux.HandleFunc("GET /ui/overview", s.page(func(w http.ResponseWriter, _ *http.Request, c *call) error {
		return s.console.OverviewFragment(w, s.overview(c))
	}))
	mux.HandleFunc("GET /ui/stream", s.consoleStream)
	mux.HandleFunc("GET /ui/static/{name}", s.console.ServeAsset)
	mux.HandleFunc("GET /ui/icon/{n}", s.console.ServeIcon)
	mux.HandleFunc("GET /ui/login", func(w http.ResponseWriter, r *http.Request) { s.loginForm(w, r, http.StatusOK, "") })
	mux.HandleFunc("POST /ui/login", s.loginSubmit)
	mux.HandleFunc("POST /ui/logout", func(w http.ResponseWriter, r *http.Request) {
		s.setCookie(w, r, sessionCookie, "", -1)
		http.Redirect(w, r, "/ui/login", http.StatusSeeOther)
	})
	mux.HandleFunc("POST /ui/user", s.switchUser)
	s.consoleCutoverRoutes(mux)
}

// viewer authenticates a browser.
func (s *Server) viewer(r *http.Request) (*call, *apitype.Problem) {
	st := s.cfg.Store.State()
	p, prob := s.login(r, st)
	if prob != nil {
		return nil, prob
	}
	if !canSome(st, p, statestore.CanRead) {
		return nil, problem(http.StatusForbidden, apitype.ProblemForbidden, "%s may not read: no role with that capability holds", p.User)
	}
	c := &call{p: p}
	s.loadState(c)
	return c, nil
}

// page serves HTML to whoever is logged in, and the login form to others.
func (s *Server) page(draw func(http.ResponseWriter, *http.Request, *call) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, prob := s.viewer(r)
		if prob != nil {
			wrong := prob.Detail
			if _, err := r.Cookie(sessionCookie); err != nil && prob.Status == http.StatusUnauthorized {
				wrong = "" // a first visit
			}
			if wrong == "" && r.Header.Get("Sec-Fetch-Site") == "cross-site" {
				s.again(w, r)
				return
			}
			s.loginForm(w, r, prob.Status, wrong)
			return
		}
		s.pageHeaders(w, c)
		if err := draw(w, r, c); err != nil {
			s.log.Error("draw a page", keyRoute, r.Pattern, keyErr, err)
		}
	}
}

func (s *Server) pageHeaders(w http.ResponseWriter, c *call) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Quorate-Now", s.cfg.Now().UTC().Format(time.RFC3339Nano))
	s.setHeaders(h, c)
}

func (s *Server) loginForm(w http.ResponseWriter, r *http.Request, status int, wrong string) {
	back := r.URL.RequestURI()
	if strings.HasPrefix(r.URL.Path, "/ui/") {
		back = r.PostFormValue("back")
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	if err := s.console.Login(w, console.Login{Wrong: wrong, Back: wayBack(back, "")}); err != nil {
		s.log.Error("draw the login form", keyErr, err)
	}
}

// again asks a browser that came by another site's link to come once more: it keeps
// back a cookie of ours until the request is our own page's.
func (s *Server) again(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if err := s.console.Again(w, wayBack(r.URL.RequestURI(), "/")); err != nil {
		s.log.Error("draw a page", keyRoute, r.Pattern, keyErr, err)
	}
}

// isPage reports whether a path is one of the console's, where a cookie logs in.
func isPage(path string) bool {
	return path == "/" || path == "/cutovers" || strings.HasPrefix(path, "/cutovers/") || strings.HasPrefix(path, "/ui/")
}

// wayBack returns where a person came from, if that is a page to look at, and
// else the other path.
func wayBack(path, other string) string {
	page, _, _ := strings.Cut(path, "?")
	if !isPage(page) || strings.HasPrefix(page, "/ui/") || strings.ContainsAny(path, "\\\r\n") {
		return other
	}
	return path
}

// loginSubmit trades a token for a cookie that scripts cannot read and other
// sites cannot send.
func (s *Server) loginSubmit(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxLoginBody)
	token := strings.TrimSpace(r.PostFormValue("token"))
	now, remote := s.cfg.Now(), remoteAddr(r).String()
	if ok, _ := s.failures.take(remote, 0, now); !ok {
		s.loginForm(w, r, http.StatusTooManyRequests, "too many wrong tokens from this address; wait a little")
		return
	}
	p, err := s.tokenPrincipal(s.cfg.Store.State(), token, remoteAddr(r))
	if err != nil {
		s.failures.take(remote, 1, now)
		s.log.Warn("login refused", keyRemote, remote, keyErr, err)
		s.loginForm(w, r, http.StatusUnauthorized, err.Error())
		return
	}
	s.log.Info("logged in to the console", keyUser, p.User, keyVia, p.Via)
	s.setCookie(w, r, sessionCookie, token, int(sessionLength.Seconds()))
	http.Redirect(w, r, wayBack(r.PostFormValue("back"), "/"), http.StatusSeeOther)
}

func (s *Server) setCookie(w http.ResponseWriter, r *http.Request, name, value string, maxAge int) {
	http.SetCookie(w, &http.Cookie{
		Name: name, Value: value, Path: "/", MaxAge: maxAge,
		HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode,
	})
}

// switchUser lets a person of a demo play another one.
func (s *Server) switchUser(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxLoginBody)
	name := r.PostFormValue("user")
	if s.cfg.Demo == nil || !slices.ContainsFunc(s.cfg.Demo.Users, func(u DemoUser) bool { return u.Name == name }) {
		s.writeProblem(w, r, notFound("demo user", name))
		return
	}
	s.setCookie(w, r, demoCookie, name, int(sessionLength.Seconds()))
	http.Redirect(w, r, wayBack(r.PostFormValue("back"), "/"), http.StatusSeeOther)
}

// consoleStream says that something changed, never what: the page fetches the
// part that its user may see.
func (s *Server) consoleStream(w http.ResponseWriter, r *http.Request) {
	c, prob := s.viewer(r)
	if prob != nil {
		s.writeProblem(w, r, prob)
		return
	}
	out, done := s.openStream(w)
	defer done()
	tick := time.NewTicker(consoleTick)
	defer tick.Stop()
	quorum := s.cfg.Quorum()
	last := c.st.Index
	for {
		changed := s.cfg.Store.Changed()
		if st := s.cfg.Store.State(); st.Index != last {
			last = st.Index
			if out.send("change", "", []byte(strconv.FormatUint(last, 10))) != nil {
				return
			}
			if !s.pause(r, consoleGap) {
				return
			}
			continue
		}
		select {
		case <-changed:
		case <-tick.C:
			// Quorum and leader are not part of the state, so nothing else tells.
			event := "tick"
			if q := s.cfg.Quorum(); q.HasQuorum != quorum.HasQuorum || q.Leader != quorum.Leader || q.VotersUp != quorum.VotersUp || !q.HasQuorum {
				quorum, event = q, "change"
			}
			if !s.stillIn(r) || out.send(event, "", []byte(strconv.FormatUint(last, 10))) != nil {
				return
			}
		case <-r.Context().Done():
			return
		case <-s.stopping:
			return
		}
	}
}

// pause waits and reports whether the stream goes on.
func (s *Server) pause(r *http.Request, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.Context().Done():
	case <-s.stopping:
	}
	return false
}

// frame is what surrounds every page.
func (s *Server) frame(c *call, title, path string) console.Frame {
	f := console.Frame{
		Title: title, Path: path, User: c.p.User,
		Status: s.status(c), Now: s.cfg.Now().UTC(), DataAt: c.asOf,
	}
	// The page shows what waits for people at its top, and better.
	f.Status.Banners = slices.DeleteFunc(f.Status.Banners, func(b apitype.Banner) bool { return b.Code == apitype.BannerWaiting })
	if s.cfg.Demo != nil && c.p.Via == statestore.ViaDemo {
		for _, u := range s.cfg.Demo.Users {
			f.Users = append(f.Users, u.Name)
		}
	}
	return f
}

// overview is what the first page shows.
func (s *Server) overview(c *call) console.Overview {
	o := console.Overview{Frame: s.frame(c, s.cfg.Node, "/")}
	for _, svc := range o.Status.Services {
		o.Services = append(o.Services, serviceRow(c, svc))
	}
	o.Matrix = matrix(c.st, o.Status)
	for i := len(c.st.Events) - 1; i >= 0 && len(o.Events) < consoleEvents; i-- {
		// Votes show in the matrix; as lines they would drown the rest, and so would
		// round trips.
		if e := c.st.Events[i]; e.Type != "votes.changed" && e.Type != "latency.measured" && visible(c, e) {
			o.Events = append(o.Events, eventView(c.st.Events[i]))
		}
	}
	return o
}
