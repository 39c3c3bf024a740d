package api

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/api/console"
	"github.com/quorate/quorate/statestore"
)

// mayConfirm reports whether the person may name the active side of a service that
// a recovery has left unconfirmed.
func mayConfirm(c *call, svc apitype.ServiceSummary) bool {
	return svc.Stateful != nil && svc.Stateful.Unconfirmed && c.st.Can(c.p, statestore.CanApprove, svc.Name)
}

func confirmPath(service string) string { return "/cutovers/services/" + service + "/active" }

// confirmPage is the form that names a service's active side after a recovery, and
// the page's status.
func (s *Server) confirmPage(r *http.Request, c *call, service, active string, was *typed) (console.ConfirmPage, int) {
	p := console.ConfirmPage{Frame: s.frame(c, "Active side of "+service, confirmPath(service)), Service: service, Active: active}
	own := c.st.Ownership(service)
	if own == nil || !c.st.Can(c.p, statestore.CanRead, service) {
		p.Notice = &console.Notice{Kind: console.NoticeRefused, Title: "Nothing to confirm", Text: "There is no stateful service of that name."}
		return p, http.StatusNotFound
	}
	p.Generation, p.Last = own.Generation, own.Active
	if !own.Unconfirmed {
		p.Notice = &console.Notice{
			Kind: console.NoticeDone, Title: fmt.Sprintf("%s is the active side of %s", own.Active, service),
			Text: fmt.Sprintf("Every node answers it, under epoch %d of generation %d. From here on it moves with a cutover.", own.Epoch, own.Generation),
		}
		return p, http.StatusOK
	}
	p.Generation = c.st.Generation
	for _, name := range c.st.Spec.Candidates(service) {
		p.Clusters = append(p.Clusters, console.Choice{
			Name: name, Region: c.st.Spec.Clusters[name].Region, State: sideState(c.st, service, name), Active: name == own.Active,
		})
	}
	switch {
	case !c.st.Can(c.p, statestore.CanApprove, service):
		p.May = c.p.User + " may not confirm it: that takes a role with the capability to approve."
		return p, http.StatusOK
	case c.stale:
		p.May = noQuorumText
		return p, http.StatusOK
	}
	f := &console.Form{Action: p.Path, Request: newKey(s.cfg.Now()), Button: "Confirm as " + c.p.User, Errors: map[string]string{}}
	f.Token = s.formToken(r, c, f.Action)
	if was != nil {
		f.Reason, f.Service, f.Errors = was.reason, was.service, was.errors
		if was.request != "" {
			f.Request = was.request
		}
	}
	p.Confirm = f
	return p, http.StatusOK
}

// confirmForm takes a person's word on which side is active.
func (s *Server) confirmForm(w http.ResponseWriter, r *http.Request) {
	f, ok := s.openForm(w, r)
	if !ok {
		return
	}
	service, active := r.PathValue("service"), f.get("active")
	t := f.typed("confirm")
	again := func(status int, n *console.Notice) {
		s.loadState(f.call)
		p, found := s.confirmPage(r, f.call, service, active, t)
		if found == http.StatusOK {
			p.Notice = n
		}
		w.WriteHeader(max(status, found))
		s.draw(w, r, s.console.Confirm(w, p))
	}
	if !s.genuine(r, f) {
		again(http.StatusForbidden, forgedNotice(f.call.p.User))
		return
	}
	f.once(t)
	if active == "" && t.errors["active"] == "" {
		t.errors["active"] = "must be one of " + strings.Join(f.call.st.Spec.Candidates(service), ", ")
	}
	t.wantName(f, service)
	lines := t.wantFields(reasonErrors(f.get("reason")))
	if len(t.errors)+len(lines) > 0 {
		again(http.StatusUnprocessableEntity, invalidNotice("Nothing is confirmed", t, lines))
		return
	}
	req := apitype.ThawRequest{Service: service, Active: active, Reason: f.get("reason")}
	if _, err := s.confirmActive(r.Context(), f.call, req); err != nil {
		p := s.asProblem(err)
		t.request = keep(p, f)
		again(p.Status, problemNotice("Not confirmed", p))
		return
	}
	http.Redirect(w, r, confirmPath(service), http.StatusSeeOther)
}
