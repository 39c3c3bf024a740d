package api

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/statestore"
)

// writing is what every write takes.
type writing struct {
	Key string `header:"Idempotency-Key" doc:"repeat it to repeat the request safely; made and returned when absent"`
}

type freezeInput struct {
	writing
	Body apitype.FreezeRequest
}

type thawInput struct {
	writing
	Service string `query:"service" doc:"empty: all"`
	Active  string `query:"active" doc:"the cluster that is the active side of a service that a recovery left unconfirmed"`
	Body    *apitype.ThawRequest
}

// actErrors are the statuses of any write.
var actErrors = []int{http.StatusNotFound, http.StatusConflict, http.StatusGone, http.StatusUnprocessableEntity, http.StatusServiceUnavailable, http.StatusGatewayTimeout}

func (s *Server) actRoutes(api huma.API) {
	huma.Register(api, operation(http.MethodPost, "/clusters/{name}/drain", "drain", "Take a cluster out of answers", statestore.CanDrain, actErrors...), s.drain)
	huma.Register(api, operation(http.MethodDelete, "/clusters/{name}/drain", "undrain", "Bring a cluster back", statestore.CanDrain, actErrors...), s.undrain)
	huma.Register(api, operation(http.MethodPost, "/freeze", "freeze", "Stop automation for a service, or for all", statestore.CanFreeze, actErrors...), s.freeze)
	thaw := operation(http.MethodDelete, "/freeze", "thaw", "Let automation go on, or confirm the active side of a service", statestore.CanRead, actErrors...)
	thaw.Description = "Needs the capability `freeze`, or with `active` the capability `approve` for the service; a refusal of that is put on record."
	huma.Register(api, thaw, s.thaw)
	huma.Register(api, operation(http.MethodDelete, "/members/{name}", "remove-member", "Remove a member for good", statestore.CanAdmin, actErrors...), s.removeMember)
	huma.Register(api, operation(http.MethodPost, "/members/{name}/promote", "promote-member", "Make a member a voter", statestore.CanAdmin, actErrors...),
		func(ctx context.Context, in *roleInput) (*output[apitype.Act], error) {
			return s.changeRole(ctx, in.Name, statestore.Voter)
		})
	huma.Register(api, operation(http.MethodPost, "/members/{name}/demote", "demote-member", "Make a member a nonvoter", statestore.CanAdmin, actErrors...),
		func(ctx context.Context, in *roleInput) (*output[apitype.Act], error) {
			return s.changeRole(ctx, in.Name, statestore.Nonvoter)
		})
}

// lifetime reads a duration of a request. Empty is zero: without end.
func lifetime(pointer, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, invalidField(pointer, "must be a positive duration such as 2h, is %q", text)
	}
	return d, nil
}

func needReason(reason string) error {
	if strings.TrimSpace(reason) == "" {
		return invalidField("/reason", "must say why, is empty")
	}
	return nil
}

// current loads the state that the leader has now, and reports whether it could. It
// cannot while there is none, and leaves a repeated request to be answered as the
// first was: what is done instead says why.
func (s *Server) current(ctx context.Context, c *call) (bool, error) {
	if !s.cfg.Quorum().HasQuorum {
		return false, nil
	}
	_, before, err := findRequest(c.st, c.p.User, c.key, c.key+"~"+c.bodySum)
	if err != nil || before != nil {
		return false, err
	}
	if s.readIndex(ctx) != nil {
		return false, nil
	}
	s.loadState(c)
	return true, nil
}

// ending says until when something lasts: a time, with its day where that is not
// near, or until a person ends it.
func ending(at, now time.Time, ended string) string {
	switch {
	case at.IsZero():
		return "until it is " + ended
	case at.Sub(now) > 12*time.Hour:
		return "until " + at.UTC().Format("2006-01-02 15:04:05Z")
	}
	return "until " + clock(at)
}

// finish fills in what is common to acts that were done.
func (s *Server) finish(c *call, act *apitype.Act, res done, text string) {
	act.Index, act.Text = res.index, text
	if res.replayed {
		act.Text += " (this request was done before)"
		act.Impact = nil // of then, not of now
	}
	act.Impact, act.Blocked = orEmpty(act.Impact), orEmpty(act.Blocked)
}

// clearsAt is when resolvers have dropped what the entry at index replaced.
func clearsAt(st *statestore.State, services []string, index uint64) time.Time {
	var last time.Time
	for _, name := range services {
		if ss := st.Services[name]; ss != nil && ss.Rotation.Index == index && ss.Rotation.Clears.After(last) {
			last = ss.Rotation.Clears
		}
	}
	return last
}

func (s *Server) freeze(ctx context.Context, in *freezeInput) (*output[apitype.Act], error) {
	c, req := callOf(ctx), in.Body
	if err := s.mayFreeze(c, req.Service); err != nil {
		return nil, err
	}
	if err := needReason(req.Reason); err != nil {
		return nil, err
	}
	length, err := lifetime("/for", req.For)
	if err != nil {
		return nil, err
	}
	act := apitype.Act{DryRun: req.DryRun, Impact: []apitype.Impact{}, Blocked: []apitype.Blocker{}}
	if req.DryRun {
		act.Text = "would freeze " + allOr(req.Service)
		return envelope(c, "act", act), nil
	}
	res, err := s.propose(ctx, c, func(*statestore.State) (statestore.Command, error) {
		return statestore.FreezeService{Service: req.Service, For: length, Reason: req.Reason}, nil
	})
	if err != nil {
		return nil, err
	}
	text := "froze " + allOr(req.Service)
	if f := c.st.Freezes[req.Service]; f != nil {
		act.Until = f.Until
		if !res.replayed {
			text += " " + ending(f.Until, s.now(c.st), "thawed")
		}
	}
	s.finish(c, &act, res, text)
	return envelope(c, "act", act), nil
}

func (s *Server) thaw(ctx context.Context, in *thawInput) (*output[apitype.Act], error) {
	c := callOf(ctx)
	req := apitype.ThawRequest{}
	if in.Body != nil {
		req = *in.Body
	}
	req.Service, req.Active = cmp.Or(req.Service, in.Service), cmp.Or(req.Active, in.Active)
	if req.Active != "" {
		return s.confirmActive(ctx, c, req)
	}
	if err := s.mayFreeze(c, req.Service); err != nil {
		return nil, err
	}
	act := apitype.Act{DryRun: req.DryRun, Impact: []apitype.Impact{}, Blocked: []apitype.Blocker{}}
	if req.DryRun {
		act.Text = "would thaw " + allOr(req.Service)
		return envelope(c, "act", act), nil
	}
	res, err := s.propose(ctx, c, func(*statestore.State) (statestore.Command, error) {
		return statestore.ThawService{Service: req.Service, Reason: req.Reason}, nil
	})
	if err != nil {
		return nil, err
	}
	s.finish(c, &act, res, "thawed "+allOr(req.Service))
	return envelope(c, "act", act), nil
}

func (s *Server) mayFreeze(c *call, service string) error {
	if service != "" && c.st.Spec.Services[service] == nil {
		return notFound("service", service)
	}
	return allow(c.st, c.p, statestore.CanFreeze, service)
}

func allOr(service string) string {
	if service == "" {
		return "all services"
	}
	return service
}

// actProblem maps the error of a function of Config, which may be a refusal of
// the state machine, an error of consensus, or a plain one that forbids the act.
func (s *Server) actProblem(err error, request string) *apitype.Problem {
	if isRefusal(err) {
		return refusalProblem(err, request)
	}
	if s.cfg.IsNoLeader(err) || s.cfg.IsUnknownOutcome(err) || isDeadline(err) {
		return s.proposeProblem(err, request)
	}
	return blocked([]apitype.Blocker{{Rule: "consensus", Reason: err.Error()}})
}
