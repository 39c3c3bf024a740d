package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/statestore"
)

// writing is what every write takes.
type writing struct {
	Key string `header:"Idempotency-Key" doc:"repeat it to repeat the request safely; made and returned when absent"`
}

type drainInput struct {
	writing
	Name string `path:"name" maxLength:"253"`
	Body apitype.DrainRequest
}

type undrainInput struct {
	writing
	Name string `path:"name" maxLength:"253"`
	Body *apitype.UndrainRequest
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

type removeMemberInput struct {
	writing
	Name string `path:"name" maxLength:"253"`
	Body *apitype.RemoveRequest
}

type roleInput struct {
	writing
	Name string `path:"name" maxLength:"253"`
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

func (s *Server) drain(ctx context.Context, in *drainInput) (*output[apitype.Act], error) {
	c, req := callOf(ctx), in.Body
	if c.st.Spec.Clusters[in.Name] == nil {
		return nil, notFound("cluster", in.Name)
	}
	if err := needReason(req.Reason); err != nil {
		return nil, err
	}
	length, err := lifetime("/for", req.For)
	if err != nil {
		return nil, err
	}
	services, err := mayDrain(c, req.Services)
	if err != nil {
		return nil, err
	}
	if d, err := s.drainedAlready(ctx, c, []string{in.Name}, statestore.Drain{Services: services, Reason: req.Reason}, length); err != nil || d != nil {
		if err != nil {
			return nil, err
		}
		return envelope(c, "act", apitype.Act{
			DryRun: req.DryRun, Impact: []apitype.Impact{}, Blocked: []apitype.Blocker{},
			Text: fmt.Sprintf("%s is drained already%s, %s, by %s: %s; nothing changes", in.Name, forServices(d.Services), ending(d.Until, s.now(c.st), "undrained"), d.By, d.Reason),
		}), nil
	}
	act := apitype.Act{
		DryRun:  req.DryRun,
		Impact:  impactsView(policy.DrainImpact(c.st, in.Name, services)),
		Blocked: blockersView(policy.CheckDrain(c.st, in.Name, services)),
	}
	if req.DryRun {
		act.Text = "would drain " + in.Name
		return envelope(c, "act", act), nil
	}
	res, err := s.propose(ctx, c, func(st *statestore.State) (statestore.Command, error) {
		if blockers := policy.CheckDrain(st, in.Name, services); len(blockers) > 0 {
			return nil, blocked(blockersView(blockers))
		}
		return statestore.DrainCluster{
			Cluster: in.Name, Services: services, For: length, Reason: req.Reason,
			Rotations: policy.DrainRotations(st, in.Name, services),
		}, nil
	})
	if err != nil {
		return nil, err
	}
	act.Blocked = []apitype.Blocker{}
	text := "drained " + in.Name
	if cs := c.st.Clusters[in.Name]; cs != nil && cs.Drain != nil {
		act.Until = cs.Drain.Until
		if !res.replayed { // else the drain of now may be another one
			text += forServices(services) + " " + ending(act.Until, s.now(c.st), "undrained")
		}
	}
	s.finish(c, &act, res, text)
	act.Clears = clearsAt(c.st, servicesOf(c.st, in.Name), res.index)
	return envelope(c, "act", act), nil
}

// drainedAlready returns the drain in force when the wanted one would change nothing
// of any of the clusters: without end, for the same services and reason. To give it
// an end anew is a change, and so is another reason.
func (s *Server) drainedAlready(ctx context.Context, c *call, clusters []string, want statestore.Drain, length time.Duration) (*statestore.Drain, error) {
	same := func(st *statestore.State) (drain *statestore.Drain) {
		for _, cluster := range clusters {
			cs := st.Clusters[cluster]
			if cs == nil || cs.Drain == nil || length != 0 || !cs.Drain.Until.IsZero() ||
				cs.Drain.Reason != want.Reason || !slices.Equal(cs.Drain.Services, want.Services) {
				return nil
			}
			drain = cs.Drain
		}
		return drain
	}
	if same(c.st) == nil {
		return nil, nil
	}
	if current, err := s.current(ctx, c); err != nil || !current {
		return nil, err
	}
	return same(c.st), nil
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

func forServices(services []string) string {
	if len(services) == 0 {
		return ""
	}
	return " for " + strings.Join(services, ", ")
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

func (s *Server) undrain(ctx context.Context, in *undrainInput) (*output[apitype.Act], error) {
	c := callOf(ctx)
	req := apitype.UndrainRequest{}
	if in.Body != nil {
		req = *in.Body
	}
	if c.st.Spec.Clusters[in.Name] == nil {
		return nil, notFound("cluster", in.Name)
	}
	var services []string
	if cs := c.st.Clusters[in.Name]; cs != nil && cs.Drain != nil {
		services = cs.Drain.Services
	}
	for _, name := range services {
		if err := allow(c.st, c.p, statestore.CanDrain, name); err != nil {
			return nil, err
		}
	}
	if len(services) == 0 {
		if err := allow(c.st, c.p, statestore.CanDrain, ""); err != nil {
			return nil, err
		}
	}
	act := apitype.Act{DryRun: req.DryRun, Impact: impactsView(policy.UndrainImpact(c.st, in.Name)), Blocked: []apitype.Blocker{}}
	if req.DryRun {
		act.Text = "would undrain " + in.Name
		return envelope(c, "act", act), nil
	}
	res, err := s.propose(ctx, c, func(st *statestore.State) (statestore.Command, error) {
		return statestore.UndrainCluster{Cluster: in.Name, Reason: req.Reason, Rotations: policy.UndrainRotations(st, in.Name)}, nil
	})
	if err != nil {
		return nil, err
	}
	s.finish(c, &act, res, "undrained "+in.Name)
	act.Clears = clearsAt(c.st, servicesOf(c.st, in.Name), res.index)
	return envelope(c, "act", act), nil
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

func (s *Server) removeMember(ctx context.Context, in *removeMemberInput) (*output[apitype.Act], error) {
	c, reason := callOf(ctx), ""
	if in.Body != nil {
		reason = in.Body.Reason
	}
	if err := allow(c.st, c.p, statestore.CanAdmin, ""); err != nil {
		return nil, err
	}
	act := apitype.Act{}
	if s.cfg.RemoveMember != nil {
		_, before, err := findRequest(c.st, c.p.User, c.key, c.key+"~"+c.bodySum)
		if err != nil {
			return nil, err
		}
		if before != nil {
			res, err := replay(before, c)
			if err != nil {
				return nil, err
			}
			s.finish(c, &act, res, s.removed(c.st, in.Name))
			return envelope(c, "act", act), nil
		}
		if c.st.Members[in.Name] == nil {
			return nil, notFound("member", in.Name)
		}
		rctx, cancel := context.WithTimeout(ctx, proposeTimeout)
		defer cancel()
		if err := s.cfg.RemoveMember(rctx, in.Name, reason, Origin{Actor: c.p.User, Request: c.key + "~" + c.bodySum, Issued: c.issued}); err != nil {
			return nil, s.actProblem(err, c.key)
		}
		s.loadState(c)
		s.finish(c, &act, done{index: c.st.Index}, s.removed(c.st, in.Name))
		return envelope(c, "act", act), nil
	}
	res, err := s.propose(ctx, c, func(*statestore.State) (statestore.Command, error) {
		return statestore.RemoveMember{Name: in.Name, Reason: reason}, nil
	})
	if err != nil {
		return nil, err
	}
	s.finish(c, &act, res, s.removed(c.st, in.Name))
	return envelope(c, "act", act), nil
}

// removed says that a member is gone, and what the quorum without it can lose:
// what its voters can in the best case, or less where the leader does not reach all.
func (s *Server) removed(st *statestore.State, name string) string {
	n := voters(st)
	if n == 0 {
		return "removed " + name
	}
	loss := (n - 1) / 2
	if q := s.cfg.Quorum(); q.HasQuorum && q.VotersUp > 0 {
		loss = min(loss, q.Tolerates)
	}
	remain, can := fmt.Sprintf("%d voters remain", n), fmt.Sprintf("%d of them", loss)
	if n == 1 {
		remain = "1 voter remains"
	}
	if loss == 0 {
		can = "none; join another voter"
	}
	return fmt.Sprintf("removed %s; %s, the quorum can lose %s", name, remain, can)
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

// changeRole wants another role for a member; consensus follows once it can.
func (s *Server) changeRole(ctx context.Context, name string, role statestore.MemberRole) (*output[apitype.Act], error) {
	c := callOf(ctx)
	if c.st.Members[name] == nil {
		return nil, notFound("member", name)
	}
	if err := allow(c.st, c.p, statestore.CanAdmin, ""); err != nil {
		return nil, err
	}
	act := apitype.Act{}
	res, err := s.propose(ctx, c, func(st *statestore.State) (statestore.Command, error) {
		m := st.Members[name]
		if m == nil {
			return nil, notFound("member", name)
		}
		if role == statestore.Nonvoter && m.Role == statestore.Voter && voters(st) <= 1 {
			return nil, blocked([]apitype.Blocker{{Rule: "last_voter", Reason: name + " is the only voter"}})
		}
		next := *m
		next.Role = role
		return statestore.UpsertMember{Member: next}, nil
	})
	if err != nil {
		return nil, err
	}
	s.finish(c, &act, res, fmt.Sprintf("%s is to be a %s", name, role))
	return envelope(c, "act", act), nil
}

func voters(st *statestore.State) int {
	n := 0
	for _, m := range st.Members {
		if m.Role == statestore.Voter {
			n++
		}
	}
	return n
}
