package api

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/api/console"
	"github.com/quorate/quorate/health"
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
	mux.HandleFunc("GET /ui/login", func(w http.ResponseWriter, r *http.Request) { s.loginForm(w, r, http.StatusOK, "") })
	mux.HandleFunc("POST /ui/login", s.loginSubmit)
	mux.HandleFunc("POST /ui/logout", func(w http.ResponseWriter, r *http.Request) {
		s.setCookie(w, r, sessionCookie, "", -1)
		http.Redirect(w, r, "/ui/login", http.StatusSeeOther)
	})
	mux.HandleFunc("POST /ui/user", s.switchUser)
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
			s.loginForm(w, r, prob.Status, wrong)
			return
		}
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Quorate-Now", s.cfg.Now().UTC().Format(time.RFC3339Nano))
		s.setHeaders(h, c)
		if err := draw(w, r, c); err != nil {
			s.log.Error("draw a page", keyRoute, r.Pattern, keyErr, err)
		}
	}
}

func (s *Server) loginForm(w http.ResponseWriter, _ *http.Request, status int, wrong string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	if err := s.console.Login(w, wrong); err != nil {
		s.log.Error("draw the login form", keyErr, err)
	}
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
	http.Redirect(w, r, "/", http.StatusSeeOther)
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
	http.Redirect(w, r, "/", http.StatusSeeOther)
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

// overview is what the first page shows.
func (s *Server) overview(c *call) console.Overview {
	o := console.Overview{
		User: c.p.User, Via: c.p.Via, Status: s.status(c), Now: s.cfg.Now().UTC(), DataAt: c.asOf,
	}
	if s.cfg.Demo != nil && c.p.Via == "demo" {
		for _, u := range s.cfg.Demo.Users {
			o.Users = append(o.Users, u.Name)
		}
	}
	o.Matrix = matrix(c.st, o.Status)
	for i := len(c.st.Events) - 1; i >= 0 && len(o.Events) < consoleEvents; i-- {
		// Votes show in the matrix; as lines they would drown the rest.
		if e := c.st.Events[i]; e.Type != "votes.changed" && visible(c, e) {
			o.Events = append(o.Events, eventView(c.st.Events[i]))
		}
	}
	return o
}

// matrix folds all targets of a cluster into one cell for each observer.
func matrix(st *statestore.State, status apitype.Status) console.Matrix {
	var m console.Matrix
	byCluster := map[string][]apitype.TargetVotes{}
	for _, cl := range status.Clusters {
		var targets []apitype.TargetVotes
		if cs := st.Clusters[cl.Name]; cs != nil {
			targets = targetsView(st, cs.Targets, "")
		}
		for _, svc := range status.Services {
			if ss := st.Services[svc.Name]; ss != nil {
				targets = append(targets, targetsView(st, ss.Targets, cl.Name)...)
			}
		}
		byCluster[cl.Name] = targets
		m.Clusters = append(m.Clusters, column(cl, targets, status.Services))
	}
	for _, name := range sortedKeys(st.Members) {
		member := st.Members[name]
		if !member.Observes {
			continue
		}
		row := console.Row{Observer: name, Region: member.Region}
		if o := st.Observers[health.ObserverID(name)]; !o.Counts() {
			row.Note = observerState(o)
		}
		for _, cl := range status.Clusters {
			row.Cells = append(row.Cells, cell(byCluster[cl.Name], name))
		}
		m.Rows = append(m.Rows, row)
	}
	return m
}

// rank orders sides by how much they need to be seen.
func rank(s health.Side) int {
	switch s {
	case health.Down:
		return 2
	case health.Unknown:
		return 1
	}
	return 0
}

func column(cl apitype.ClusterSummary, targets []apitype.TargetVotes, services []apitype.ServiceSummary) console.Column {
	col := console.Column{Name: cl.Name, Region: cl.Region, Drained: cl.Drain != nil, State: console.Unknown}
	shown := -1
	for i, t := range targets {
		if shown < 0 || rank(t.Verdict.Side) > rank(targets[shown].Verdict.Side) {
			shown = i
		}
	}
	if shown >= 0 {
		v := targets[shown].Verdict
		held := v.Up
		if v.Side == health.Down {
			held = v.Down
		}
		col.State, col.Since, col.Mark = console.State(v.Side.String()), v.Since, string(v.Mark)
		col.Regions = fmt.Sprintf("%d/%d", held, v.Eligible)
	}
	for _, svc := range services {
		for _, sh := range append(svc.V4[:len(svc.V4):len(svc.V4)], v6Only(svc)...) {
			if sh.Cluster == cl.Name {
				col.Answers = append(col.Answers, fmt.Sprintf("%s %.0f%%", svc.Name, sh.Percent))
			}
		}
	}
	return col
}

// v6Only returns the IPv6 shares of a service that has no IPv4 at all.
func v6Only(svc apitype.ServiceSummary) []apitype.Share {
	if len(svc.V4) > 0 {
		return nil
	}
	return svc.V6
}

func cell(targets []apitype.TargetVotes, observer string) console.Cell {
	out := console.Cell{State: console.Unknown}
	shown, first := health.Up, true
	var details, bad []string
	for _, t := range targets {
		i := slices.IndexFunc(t.Votes, func(v apitype.Vote) bool { return v.Observer == observer })
		if i < 0 {
			continue // its labels keep it from voting on this one
		}
		v := t.Votes[i]
		line := t.Target + " " + v.Side.String()
		if v.Reason != "" {
			line += " (" + v.Reason + ")"
		}
		if v.Note != "" {
			line += ", " + v.Note
		}
		details = append(details, line)
		out.Aside = out.Aside || !v.Counts
		if v.Side != health.Up {
			what := t.Service
			if what == "" {
				what = "front door"
			}
			bad = append(bad, what)
		}
		if v.Counts && v.Side != health.Unknown && t.Verdict.Side != health.Unknown && v.Side != t.Verdict.Side {
			out.Lone = true
		}
		if first || rank(v.Side) > rank(shown) {
			shown, first = v.Side, false
			out.Text, out.Since = v.Reason, v.Since
			if v.Side == health.Up {
				out.Text = "" // "up ok" says it twice
			}
		}
	}
	if first {
		out.Text, out.Aside = "no vote", true
		return out
	}
	out.State = console.State(shown.String())
	if n := len(details); len(bad) > 0 && len(bad) < n {
		out.Text = strings.TrimSpace(out.Text + " " + strings.Join(slices.Compact(bad), ", "))
	}
	out.Detail = strings.Join(details, "\n")
	return out
}
