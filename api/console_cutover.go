package api

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/api/console"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

func (s *Server) consoleCutoverRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /cutovers", s.page(func(w http.ResponseWriter, r *http.Request, c *call) error {
		return s.console.CutoverList(w, s.cutoverList(r.Context(), c))
	}))
	mux.HandleFunc("GET /ui/cutovers", s.page(func(w http.ResponseWriter, r *http.Request, c *call) error {
		return s.console.CutoverListFragment(w, s.cutoverList(r.Context(), c))
	}))
	mux.HandleFunc("GET /cutovers/{id}", s.page(func(w http.ResponseWriter, r *http.Request, c *call) error {
		co, err := s.seeCutover(c, r.PathValue("id"))
		if err != nil {
			return s.drawProblem(w, c, err)
		}
		p := s.cutoverPage(r, c, co, nil)
		p.Notice = outcome(c, r.URL.Query().Get("done"), p.Cutover)
		return s.console.Cutover(w, p)
	}))
	mux.HandleFunc("GET /ui/cutovers/{id}", s.page(func(w http.ResponseWriter, r *http.Request, c *call) error {
		co, err := s.seeCutover(c, r.PathValue("id"))
		if err != nil {
			return s.drawProblem(w, c, err)
		}
		return s.console.CutoverFragment(w, s.cutoverPage(r, c, co, nil))
	}))
	// A form that was refused is answered under its own path, which a person may
	// load again or keep.
	mux.HandleFunc("GET /cutovers/{id}/{act}", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/cutovers/"+r.PathValue("id"), http.StatusSeeOther)
	})
	mux.HandleFunc("GET /cutovers/new", s.page(func(w http.ResponseWriter, r *http.Request, c *call) error {
		q := r.URL.Query()
		p, status := s.proposePage(r, c, q.Get("service"), q.Get("kind"), q.Get("to"), nil)
		w.WriteHeader(status)
		return s.console.Propose(w, p)
	}))
	mux.HandleFunc("GET /cutovers/services/{service}/active", s.page(func(w http.ResponseWriter, r *http.Request, c *call) error {
		p, status := s.confirmPage(r, c, r.PathValue("service"), "", nil)
		w.WriteHeader(status)
		return s.console.Confirm(w, p)
	}))
	mux.HandleFunc("POST /cutovers/services/{service}/active", s.confirmForm)
	mux.HandleFunc("POST /cutovers", s.proposeForm)
	mux.HandleFunc("POST /cutovers/{id}/approve", s.approveForm)
	mux.HandleFunc("POST /cutovers/{id}/reject", s.endForm("reject"))
	mux.HandleFunc("POST /cutovers/{id}/abort", s.endForm("abort"))
}

// drawProblem writes a page that only says what is wrong.
func (s *Server) drawProblem(w http.ResponseWriter, c *call, err error) error {
	var p *apitype.Problem
	if !errors.As(err, &p) {
		p = s.internal("serve a page", err)
	}
	w.WriteHeader(p.Status)
	return s.console.Message(w, console.Message{Frame: s.frame(c, p.Title, "/cutovers"), Notice: problemNotice("Not possible", p)})
}

// maxEndedShown bounds the ended cutovers on the page, which is drawn anew with
// every change.
const maxEndedShown = 100

// cutoverList is the page of all cutovers that this person may see.
func (s *Server) cutoverList(ctx context.Context, c *call) console.CutoverList {
	l := console.CutoverList{Frame: s.frame(c, "Cutovers", "/cutovers")}
	for _, co := range cutoversNewestFirst(c.st) {
		if !c.st.Can(c.p, statestore.CanRead, co.Service) {
			continue
		}
		switch {
		case co.Phase.Open():
			l.Open = append(l.Open, s.cutoverView(ctx, c, co))
		case len(l.Ended) < maxEndedShown:
			l.Ended = append(l.Ended, cutoverView(c.st, s.now(c.st), co))
		default:
			l.Older++
		}
	}
	for _, svc := range l.Status.Services {
		if mayMove(c, svc) {
			l.Movable = append(l.Movable, svc.Name)
		}
	}
	return l
}

// mayMove reports whether the person may propose to move a service now.
func mayMove(c *call, svc apitype.ServiceSummary) bool {
	return svc.Stateful != nil && svc.Stateful.Open == "" && !svc.Stateful.Unconfirmed && c.st.Can(c.p, statestore.CanPropose, svc.Name)
}

// typed is what a person has sent with a form that was not done.
type typed struct {
	act     string // approve, reject, abort or propose
	reason  string
	service string
	waivers []string
	errors  map[string]string // by field
	request string            // to be sent again; empty: a new one
}

// cutoverPage is the page of a cutover, with what a person has typed before.
func (s *Server) cutoverPage(r *http.Request, c *call, co *statestore.Cutover, was *typed) console.CutoverPage {
	view := s.cutoverView(r.Context(), c, co)
	p := console.CutoverPage{
		Frame: s.frame(c, co.ID+" "+co.Service, "/cutovers/"+co.ID), Cutover: view,
		Source: sideState(c.st, co.Service, co.Source), Destination: sideState(c.st, co.Service, co.Destination),
		Why: why(c.st, s.now(c.st), co), Votes: voteTable(c.st, view), Stages: stages(s.now(c.st), view),
		Next: nextSteps(view, len(c.st.Members)), Undo: undo(view),
	}
	if was == nil {
		was = &typed{}
	}
	m := s.may(c, co, view)
	p.May = m.text
	p.Gates = gateRows(view, m, was)
	form := func(act, button string) *console.Form {
		f := &console.Form{
			Action: p.Path + "/" + act, Request: newKey(s.cfg.Now()), Button: button + " as " + c.p.User, Errors: map[string]string{},
		}
		f.Token = s.formToken(r, c, f.Action)
		if act == "approve" {
			f.Evidence, f.Seen = co.Digest, seen(co.Evidence)
		}
		if was.act == act {
			f.Reason, f.Service, f.Errors = was.reason, was.service, was.errors
			if was.request != "" {
				f.Request = was.request
			}
		}
		return f
	}
	if m.sign {
		p.Approve = form("approve", "Approve")
	}
	if m.waive && co.Phase == statestore.Fencing {
		p.Waive = form("approve", "Waive and go on")
	}
	if m.reject {
		p.Reject = form("reject", "Reject")
	}
	if m.abort {
		p.Abort = form("abort", "Abort")
	}
	if svc := summaryOf(p.Status, co.Service); co.Phase == statestore.Done && svc != nil && mayMove(c, *svc) && svc.Stateful.Active == co.Destination {
		p.Again = "/cutovers/new?service=" + co.Service
	}
	p.Moment = view.Phase + " " + view.Evidence
	p.Version = strings.Join([]string{p.Moment, m.text, blockerRules(view.Blockers), strings.Join(view.Waiting, ",")}, " ")
	return p
}

func summaryOf(status apitype.Status, service string) *apitype.ServiceSummary {
	for i, svc := range status.Services {
		if svc.Name == service {
			return &status.Services[i]
		}
	}
	return nil
}

// proposePage is the form of a new cutover, with what it would find, and the
// page's status.
func (s *Server) proposePage(r *http.Request, c *call, service, kind, to string, was *typed) (console.ProposePage, int) {
	p := console.ProposePage{
		Frame: s.frame(c, "Move "+service, "/cutovers/new?service="+service), Service: service, Kind: kind, To: to,
	}
	for _, k := range statestore.CutoverKinds() {
		p.Kinds = append(p.Kinds, string(k))
	}
	own := c.st.Ownership(service)
	if own == nil || !c.st.Can(c.p, statestore.CanRead, service) {
		p.Path = "/cutovers"
		p.Notice = &console.Notice{Kind: console.NoticeRefused, Title: "Nothing to move", Text: "There is no stateful service of that name. A stateless one moves by itself."}
		return p, http.StatusNotFound
	}
	if p.Kind == "" {
		p.Kind = string(usualKind(c.st, service, own))
	}
	p.Clusters = []console.Choice{{Name: own.Active, Active: true}}
	for _, name := range c.st.Destinations(service) {
		p.Clusters = append(p.Clusters, console.Choice{Name: name, Region: c.st.Spec.Clusters[name].Region, State: sideState(c.st, service, name)})
	}
	switch {
	case !c.st.Can(c.p, statestore.CanPropose, service):
		p.May = c.p.User + " may not propose a cutover of " + service + ": no role with that capability holds."
		return p, http.StatusOK
	case c.stale:
		p.May = noQuorumText
		return p, http.StatusOK
	}
	in := &proposeInput{Body: apitype.CutoverRequest{Service: service, To: to, Kind: p.Kind, Reason: "preview", DryRun: true}}
	out, err := s.proposeCutover(withCall(r.Context(), c), in)
	if err != nil {
		var prob *apitype.Problem
		if !errors.As(err, &prob) {
			prob = s.internal("preview a cutover", err)
		}
		p.Notice = problemNotice("It cannot be proposed like this", prob)
		return p, http.StatusOK
	}
	p.Preview = &out.Body.Items[0]
	p.Gates = gateRows(*p.Preview, may{}, &typed{})
	p.To = p.Preview.Destination
	f := &console.Form{Action: "/cutovers", Request: newKey(s.cfg.Now()), Button: "Propose as " + c.p.User, Errors: map[string]string{}}
	f.Token = s.formToken(r, c, f.Action)
	if was != nil {
		f.Reason, f.Errors = was.reason, was.errors
		if was.request != "" {
			f.Request = was.request
		}
	}
	p.Propose = f
	return p, http.StatusOK
}

// usualKind is the kind of cutover that a person most probably wants.
func usualKind(st *statestore.State, service string, own *statestore.Ownership) statestore.CutoverKind {
	preferred := st.Spec.Services[service].Stateful.Preferred
	switch {
	case st.SideOf(service, own.Active) == health.Down:
		return statestore.Emergency
	case own.Active != preferred && st.SideOf(service, preferred) == health.Up:
		return statestore.Back
	}
	return statestore.Planned
}
