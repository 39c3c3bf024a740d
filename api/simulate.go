package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/statestore"
)

type simulateInput struct {
	reading
	If         string `query:"if" maxLength:"4096" doc:"comma list of conditions: CLUSTER=down|up|drained|undrained, SERVICE/CLUSTER=down|up, SERVICE=CLUSTER, REGION=lost, CUT-17=approved"`
	LoseRegion string `query:"lose_region" maxLength:"253" doc:"a region with all that is in it, members too: the same as REGION=lost"`
}

func (s *Server) simulateRoutes(api huma.API) {
	huma.Register(api, operation(http.MethodGet, "/simulate", "simulate", "Who would answer what, if", statestore.CanRead,
		http.StatusUnprocessableEntity, http.StatusServiceUnavailable), s.simulate)
}

func (s *Server) simulate(ctx context.Context, in *simulateInput) (*output[apitype.Simulation], error) {
	c := callOf(ctx)
	said := conditionsOf(in.If)
	if in.LoseRegion != "" {
		said = append(said, in.LoseRegion+"=lost")
	}
	if len(said) == 0 {
		return nil, invalidField("?if", "must say what to suppose, such as eu=down, is empty")
	}
	if err := maySuppose(c, said); err != nil {
		return nil, err
	}
	if err := s.takeWhatIf(c); err != nil {
		return nil, err
	}
	before := s.tableOf(s.cfg.Table(), c.st)
	sup, err := s.suppose(c.st, said, "?if")
	if err != nil {
		return nil, err
	}
	shown := func(service string) bool { return c.st.Can(c.p, statestore.CanRead, service) }
	out := apitype.Simulation{
		Node: s.cfg.Node, Revision: c.st.Revision, Index: c.st.Index,
		Conditions: said, Quorum: sup.quorum, Services: []apitype.SimulatedService{},
		Notes: notesFor(c, sup.notes), Clients: reach(before, s.tableOf(before, sup.after), s.traffic(ctx), shown),
	}
	for _, o := range policy.Outcomes(sup.before, sup.after) {
		if shown(o.Service) {
			out.Services = append(out.Services, apitype.SimulatedService{Service: o.Service, Before: percents(o.Before), After: percents(o.After), Text: o.Text})
		}
	}
	return envelope(c, "simulation", out), nil
}

// takeWhatIf bounds how often a person has every service looked at.
func (s *Server) takeWhatIf(c *call) error {
	if c.p.Via == statestore.ViaSocket {
		return nil
	}
	if ok, wait := s.whatIfs.take(c.p.Via+"/"+c.p.User, 1, s.cfg.Now()); !ok {
		return tooMany(wait, "too many what-ifs by %s", c.p.User)
	}
	return nil
}

// notesFor leaves out notes for who may not read every service: they name some.
func notesFor(c *call, notes []string) []string {
	if !c.st.Can(c.p, statestore.CanRead, "") {
		return []string{}
	}
	return orEmpty(notes)
}
