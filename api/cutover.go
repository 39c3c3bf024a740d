package api

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/statestore"
)

type cutoversInput struct {
	reading
	State   string `query:"state" enum:"open,done,all,proposed,approved,fencing,rejected,expired,withdrawn,aborted,void" doc:"open, done, or a phase; all when absent"`
	Service string `query:"service" maxLength:"253"`
	Limit   int    `query:"limit" minimum:"1" maximum:"1000" doc:"100 when absent"`
}

type cutoverInput struct {
	reading
	ID string `path:"id" maxLength:"64"`
}

type proposeInput struct {
	writing
	Body apitype.CutoverRequest
}

type approveInput struct {
	writing
	ID   string `path:"id" maxLength:"64"`
	Body apitype.ApproveRequest

	waivers []statestore.Waiver // of Body, once it is resolved
}

type decideInput struct {
	writing
	ID   string `path:"id" maxLength:"64"`
	Body apitype.DecideRequest
}

// created is an envelope whose status tells a new object from one of before.
type created[T any] struct {
	Status int
	Body   apitype.Envelope[T]
}

// cutoverRoutes asks for CanRead only where a person acts: who may not decide is
// refused by Apply, which puts the attempt on record.
func (s *Server) cutoverRoutes(api huma.API) {
	huma.Register(api, operation(http.MethodGet, "/cutovers", "cutovers", "Cutovers, newest first", statestore.CanRead), s.cutovers)
	huma.Register(api, operation(http.MethodGet, "/cutovers/{id}", "cutover", "One cutover: evidence, gates, votes, signatures", statestore.CanRead, http.StatusNotFound),
		func(ctx context.Context, in *cutoverInput) (*output[apitype.Cutover], error) {
			c := callOf(ctx)
			co, err := s.seeCutover(c, in.ID)
			if err != nil {
				return nil, err
			}
			return envelope(c, "cutover", s.cutoverView(ctx, c, co)), nil
		})
	huma.Register(api, operation(http.MethodGet, "/cutovers/{id}/report", "cutover-report", "One cutover with everything on record about it", statestore.CanRead, http.StatusNotFound),
		func(ctx context.Context, in *cutoverInput) (*output[apitype.CutoverReport], error) {
			c := callOf(ctx)
			co, err := s.seeCutover(c, in.ID)
			if err != nil {
				return nil, err
			}
			return envelope(c, "cutover-report", apitype.CutoverReport{Cutover: s.cutoverView(ctx, c, co), Events: cutoverEvents(c.st, co)}), nil
		})
	act := func(path, id, summary string, can statestore.Capability) huma.Operation {
		op := operation(http.MethodPost, path, id, summary, statestore.CanRead, actErrors...)
		op.Description = "Needs the capability `" + string(can) + "` for the service. A refusal is put on record."
		return op
	}
	propose := act("/cutovers", "propose-cutover", "Propose to move a stateful service", statestore.CanPropose)
	propose.DefaultStatus = http.StatusCreated
	huma.Register(api, propose, s.proposeCutover)
	responses := api.OpenAPI().Paths[propose.Path].Post.Responses
	responses["200"] = &huma.Response{Description: "A preview, or the cutover that this very request made before", Content: responses["201"].Content}
	huma.Register(api, act("/cutovers/{id}/approve", "approve-cutover", "Sign the evidence of a cutover", statestore.CanApprove), s.approveCutover)
	huma.Register(api, act("/cutovers/{id}/reject", "reject-cutover", "End a cutover that has not begun", statestore.CanApprove),
		func(ctx context.Context, in *decideInput) (*output[apitype.Cutover], error) {
			return s.endCutover(ctx, in, "reject", statestore.RejectCutover{ID: in.ID, Reason: strings.TrimSpace(in.Body.Reason)})
		})
	huma.Register(api, act("/cutovers/{id}/abort", "abort-cutover", "End a cutover under way; the source goes on", statestore.CanApprove),
		func(ctx context.Context, in *decideInput) (*output[apitype.Cutover], error) {
			return s.endCutover(ctx, in, "abort", statestore.AbortCutover{ID: in.ID, Reason: strings.TrimSpace(in.Body.Reason)})
		})
}

// digestForm is a digest as it is shown. What has another form was mistyped: to
// say that the evidence has changed would send its author looking for the change.
var digestForm = regexp.MustCompile(`^[0-9a-f]{4}(-[0-9a-f]{4}){3}$`)

// Resolve checks what the schema cannot say.
func (in *proposeInput) Resolve(huma.Context) []error {
	var errs []error
	if strings.TrimSpace(in.Body.Service) == "" {
		errs = append(errs, fieldError("/service", "must name a stateful service, is empty"))
	}
	return append(errs, reasonErrors(in.Body.Reason)...)
}

// Resolve checks what the schema cannot say.
func (in *approveInput) Resolve(huma.Context) []error {
	var errs []error
	if !digestForm.MatchString(in.Body.Evidence) {
		errs = append(errs, fieldError("/evidence", "must be the whole digest of what you have seen, such as 9f3c-77a1-0b2e-51d4, is %q", in.Body.Evidence))
	}
	in.waivers = nil
	for i, text := range in.Body.Waivers {
		at := "/waivers/" + strconv.Itoa(i)
		w, err := ParseWaiver(text)
		again := slices.ContainsFunc(in.waivers, func(o statestore.Waiver) bool { return o.Gate == w.Gate })
		switch {
		case err != nil:
			errs = append(errs, fieldError(at, "%v", err))
		case again:
			errs = append(errs, fieldError(at, "must name each gate once, %s is named twice", w.Gate))
		}
		in.waivers = append(in.waivers, w)
	}
	return append(errs, reasonErrors(in.Body.Reason)...)
}

// Resolve checks what the schema cannot say.
func (in *decideInput) Resolve(huma.Context) []error { return reasonErrors(in.Body.Reason) }

func fieldError(pointer, format string, args ...any) error {
	return apitype.FieldError{Pointer: pointer, Message: fmt.Sprintf(format, args...)}
}

func reasonErrors(reason string) []error {
	if strings.TrimSpace(reason) == "" {
		return []error{fieldError("/reason", "must say why, is empty")}
	}
	return nil
}

// cutovers lists. Who has acknowledged is told of one cutover at a time: the leader
// is asked for it.
func (s *Server) cutovers(ctx context.Context, in *cutoversInput) (*output[apitype.Cutover], error) {
	c := callOf(ctx)
	if in.Service != "" {
		if err := allow(c.st, c.p, statestore.CanRead, in.Service); err != nil {
			return nil, err
		}
	}
	limit := in.Limit
	if limit == 0 {
		limit = defaultPage
	}
	var items []apitype.Cutover
	for _, co := range cutoversNewestFirst(c.st) {
		if len(items) == limit {
			break
		}
		if (in.Service == "" || co.Service == in.Service) && inState(co.Phase, in.State) && c.st.Can(c.p, statestore.CanRead, co.Service) {
			items = append(items, cutoverView(c.st, s.now(c.st), co))
		}
	}
	return envelope(c, "cutover", items...), nil
}

func inState(phase statestore.CutoverPhase, state string) bool {
	switch state {
	case "", "all":
		return true
	case "open":
		return phase.Open()
	}
	return string(phase) == state
}

// seeCutover returns a cutover that the caller may read.
func (s *Server) seeCutover(c *call, id string) (*statestore.Cutover, error) {
	co := c.st.Cutovers[id]
	if co == nil {
		p := notFound("cutover", id)
		p.Next = "quorate cutover list"
		return nil, p
	}
	return co, allow(c.st, c.p, statestore.CanRead, co.Service)
}
