package api

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/api/console"
	"github.com/quorate/quorate/statestore"
)

// maxForm bounds what a form sends.
const maxForm = 32 << 10

// formTokenSize is the length of a form's token, in bytes.
const formTokenSize = 18

// formToken proves that a form of this path was drawn for this session and user.
// It is derived from what logs the person in, so that any node can check it.
func (s *Server) formToken(r *http.Request, c *call, action string) string {
	key := sha256.Sum256([]byte("quorate form\n" + s.credential(r, c)))
	mac := hmac.New(sha256.New, key[:])
	_, _ = io.WriteString(mac, c.p.User+"\n"+action) // a hash never fails to write
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:formTokenSize])
}

// credential is what the person of a request is known by. A demo and the local
// socket have no secret; what another site cannot know does for them.
func (s *Server) credential(r *http.Request, c *call) string {
	if c.p.Via == statestore.ViaToken {
		if _, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok {
			return strings.TrimSpace(token)
		}
		if k, err := r.Cookie(sessionCookie); err == nil {
			return k.Value
		}
	}
	secret := c.p.Via + "\n" + c.st.Installation
	for _, ca := range c.st.Trust {
		secret += "\n" + ca.Fingerprint
	}
	return secret
}

// form is what a person has sent with a form.
type form struct {
	values url.Values
	call   *call
}

func (f form) get(name string) string { return strings.TrimSpace(f.values.Get(name)) }

// typed is what to draw again of a form that was not done.
func (f form) typed(act string) *typed {
	return &typed{act: act, reason: f.values.Get("reason"), service: f.values.Get("service"), waivers: f.values["waive"], errors: map[string]string{}}
}

// openForm reads a form and finds out who has sent it. It has answered when ok is
// false. The token is for the caller to check, who can show the form again.
func (s *Server) openForm(w http.ResponseWriter, r *http.Request) (f form, ok bool) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	readErr := r.ParseForm()
	c, prob := s.viewer(r)
	if prob != nil {
		s.loginForm(w, r, prob.Status, prob.Detail)
		return form{}, false
	}
	c.remote = r.RemoteAddr
	s.pageHeaders(w, c)
	f = form{values: r.PostForm, call: c}
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(readErr, &tooLarge):
		s.draw(w, r, s.drawProblem(w, c, problem(http.StatusRequestEntityTooLarge, apitype.ProblemTooLarge, "a form must be at most %d bytes", maxForm)))
		return f, false
	case readErr != nil:
		s.draw(w, r, s.drawProblem(w, c, problem(http.StatusBadRequest, apitype.ProblemValidation, "the form could not be read")))
		return f, false
	}
	f.identify(s, r)
	return f, true
}

// identify gives the request its id: the form's own, so that a form sent twice is
// done once.
func (f *form) identify(s *Server, r *http.Request) {
	key := f.values.Get("request")
	if key == "" || len(key) > maxKey || strings.ContainsAny(key, " ~+\t") {
		key = newKey(s.cfg.Now())
	}
	said := url.Values{}
	for name, v := range f.values {
		if name != "token" && name != "request" && name != "seen" {
			said[name] = v
		}
	}
	sum := sha256.Sum256([]byte(r.Method + " " + r.URL.Path + "\n" + said.Encode()))
	f.call.key, f.call.issued, f.call.bodySum = key, s.issued(key), hex.EncodeToString(sum[:12])
}

// genuine reports whether the form was drawn for this path, session and user.
func (s *Server) genuine(r *http.Request, f form) bool {
	return hmac.Equal([]byte(f.values.Get("token")), []byte(s.formToken(r, f.call, r.URL.Path)))
}

// once checks that each field was sent at most once, but for boxes.
func (f form) once(t *typed) {
	for _, name := range sortedKeys(f.values) {
		if len(f.values[name]) > 1 && name != "waive" {
			t.errors[name] = "must be given once, is given " + count(len(f.values[name]), "time")
		}
	}
}

// forgedNotice is shown of a form without the right token.
func forgedNotice(user string) *console.Notice {
	return &console.Notice{
		Kind: console.NoticeRefused, Title: "Nothing was done: this form was not made for you here",
		Text: "It was drawn for another session or another user, or not by quorate at all. You are " + user + " now. Look again, and send it from this page.",
	}
}

func (s *Server) draw(_ http.ResponseWriter, r *http.Request, err error) {
	if err != nil {
		s.log.Error("draw a page", keyRoute, r.Pattern, keyErr, err)
	}
}

// showAgain draws a cutover's page after a form that was not done.
func (s *Server) showAgain(w http.ResponseWriter, r *http.Request, f form, co *statestore.Cutover, t *typed, status int, n *console.Notice) {
	s.loadState(f.call)
	if now := f.call.st.Cutovers[co.ID]; now != nil {
		co = now
	}
	p := s.cutoverPage(r, f.call, co, t)
	p.Notice = n
	w.WriteHeader(status)
	s.draw(w, r, s.console.Cutover(w, p))
}

// approveForm takes a signature.
func (s *Server) approveForm(w http.ResponseWriter, r *http.Request) {
	f, ok := s.openForm(w, r)
	if !ok {
		return
	}
	co, err := s.seeCutover(f.call, r.PathValue("id"))
	if err != nil {
		s.draw(w, r, s.drawProblem(w, f.call, err))
		return
	}
	t := f.typed("approve")
	if !s.genuine(r, f) {
		s.showAgain(w, r, f, co, t, http.StatusForbidden, forgedNotice(f.call.p.User))
		return
	}
	if f.values.Has("look") {
		t.service = ""
		s.showAgain(w, r, f, co, stillMeant(t, f, co), http.StatusOK, changedNotice("Look again: nothing is signed yet", f, co))
		return
	}
	in := &approveInput{ID: co.ID, Body: apitype.ApproveRequest{Evidence: f.get("evidence"), Waivers: f.values["waive"], Reason: f.get("reason")}}
	f.once(t)
	t.wantName(f, co.Service)
	lines := t.wantFields(in.Resolve(nil))
	if len(t.errors)+len(lines) > 0 {
		s.showAgain(w, r, f, co, t, http.StatusUnprocessableEntity, invalidNotice("Nothing is signed", t, lines))
		return
	}
	if _, err := s.approveCutover(withCall(r.Context(), f.call), in); err != nil {
		s.refusedForm(w, r, f, co, t, "Not signed", err)
		return
	}
	http.Redirect(w, r, "/cutovers/"+co.ID+"?done=approve", http.StatusSeeOther)
}

// endForm takes a rejection, or an abort.
func (s *Server) endForm(act string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		f, ok := s.openForm(w, r)
		if !ok {
			return
		}
		co, err := s.seeCutover(f.call, r.PathValue("id"))
		if err != nil {
			s.draw(w, r, s.drawProblem(w, f.call, err))
			return
		}
		t := f.typed(act)
		if !s.genuine(r, f) {
			s.showAgain(w, r, f, co, t, http.StatusForbidden, forgedNotice(f.call.p.User))
			return
		}
		in := &decideInput{ID: co.ID, Body: apitype.DecideRequest{Reason: f.get("reason")}}
		var cmd statestore.Command = statestore.RejectCutover{ID: co.ID, Reason: in.Body.Reason}
		not := "Not rejected"
		f.once(t)
		if act == "abort" {
			cmd, not = statestore.AbortCutover{ID: co.ID, Reason: in.Body.Reason}, "Not aborted"
			t.wantName(f, co.Service)
		}
		lines := t.wantFields(in.Resolve(nil))
		if len(t.errors)+len(lines) > 0 {
			s.showAgain(w, r, f, co, t, http.StatusUnprocessableEntity, invalidNotice(not, t, lines))
			return
		}
		if _, err := s.endCutover(withCall(r.Context(), f.call), in, act, cmd); err != nil {
			s.refusedForm(w, r, f, co, t, not, err)
			return
		}
		http.Redirect(w, r, "/cutovers/"+co.ID+"?done="+act, http.StatusSeeOther)
	}
}

// proposeForm takes a proposal.
func (s *Server) proposeForm(w http.ResponseWriter, r *http.Request) {
	f, ok := s.openForm(w, r)
	if !ok {
		return
	}
	t := f.typed("propose")
	service, kind, to := f.get("service"), f.get("kind"), f.get("to")
	again := func(status int, n *console.Notice) {
		s.loadState(f.call)
		p, found := s.proposePage(r, f.call, service, kind, to, t)
		if n != nil && found == http.StatusOK {
			p.Notice = n
		}
		w.WriteHeader(max(status, found))
		s.draw(w, r, s.console.Propose(w, p))
	}
	if !s.genuine(r, f) {
		again(http.StatusForbidden, forgedNotice(f.call.p.User))
		return
	}
	in := &proposeInput{Body: apitype.CutoverRequest{Service: service, To: to, Kind: kind, Reason: f.get("reason")}}
	f.once(t)
	lines := t.wantFields(in.Resolve(nil))
	if !slices.Contains(statestore.CutoverKinds(), statestore.CutoverKind(kind)) {
		lines = append(lines, fmt.Sprintf("kind: must be planned, emergency or failback, is %q", kind))
		kind = ""
	}
	if len(t.errors)+len(lines) > 0 {
		again(http.StatusUnprocessableEntity, invalidNotice("Nothing is proposed", t, lines))
		return
	}
	out, err := s.proposeCutover(withCall(r.Context(), f.call), in)
	if err != nil {
		p := s.asProblem(err)
		t.request = keep(p, f)
		again(p.Status, problemNotice("Not proposed", p))
		return
	}
	http.Redirect(w, r, "/cutovers/"+out.Body.Items[0].ID+"?done=propose", http.StatusSeeOther)
}

func (s *Server) asProblem(err error) *apitype.Problem {
	var p *apitype.Problem
	if errors.As(err, &p) {
		return p
	}
	return s.internal("take a form", err)
}

// keep returns the request id to send again where nobody knows whether it was
// done, or it could not be.
func keep(p *apitype.Problem, f form) string {
	if p.Status >= http.StatusInternalServerError {
		return f.call.key
	}
	return ""
}

// refusedForm shows the form again, with what was typed and why it was not done.
func (s *Server) refusedForm(w http.ResponseWriter, r *http.Request, f form, co *statestore.Cutover, t *typed, title string, err error) {
	p := s.asProblem(err)
	t.request = keep(p, f)
	n := problemNotice(title, p)
	if p.Name() == apitype.ProblemEvidence {
		s.loadState(f.call)
		if now := f.call.st.Cutovers[co.ID]; now != nil {
			co = now
		}
		n = changedNotice(title+": the evidence changed", f, co)
		if len(n.Changes) == 0 {
			n.Lines = []string{p.Detail}
		}
		t.service = ""
		t = stillMeant(t, f, co)
	}
	s.showAgain(w, r, f, co, t, p.Status, n)
}

// wantName checks that the service's name was typed.
func (t *typed) wantName(f form, service string) {
	if got := f.get("service"); got != service && t.errors["service"] == "" {
		t.errors["service"] = fmt.Sprintf("must be %s, is %q", service, got)
	}
}

// wantFields sorts what is wrong to the fields, and returns what has none.
func (t *typed) wantFields(errs []error) []string {
	var lines []string
	for _, err := range errs {
		var e apitype.FieldError
		switch {
		case errors.As(err, &e) && e.Pointer == "/reason":
			if t.errors["reason"] == "" {
				t.errors["reason"] = e.Message
			}
		case errors.As(err, &e):
			lines = append(lines, strings.TrimPrefix(e.Pointer, "/")+": "+e.Message)
		default:
			lines = append(lines, err.Error())
		}
	}
	return lines
}

// seen carries the evidence that a form is drawn with. What comes back is believed
// only if it has the digest that was signed.
func seen(e statestore.Evidence) string {
	data, err := json.Marshal(e)
	if err != nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(data)
}

// sawOf returns the evidence that a form was drawn with.
func sawOf(f form) (statestore.Evidence, bool) {
	var e statestore.Evidence
	data, err := base64.RawURLEncoding.DecodeString(f.values.Get("seen"))
	if err != nil || json.Unmarshal(data, &e) != nil || e.Digest() != f.get("evidence") {
		return statestore.Evidence{}, false
	}
	return e, true
}

// stillMeant keeps the boxes that were ticked of gates which are as they were.
func stillMeant(t *typed, f form, co *statestore.Cutover) *typed {
	saw, ok := sawOf(f)
	t.waivers = slices.DeleteFunc(slices.Clone(t.waivers), func(w string) bool {
		name, _, _ := strings.Cut(w, "=")
		return !ok || saw.Class(statestore.Gate(name)) != co.Evidence.Class(statestore.Gate(name))
	})
	return t
}
