package api

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/routing"
	"github.com/quorate/quorate/statestore"
)

func (s *Server) zoneRoute(api huma.API) {
	huma.Register(api, operation(http.MethodGet, "/zones/{name}", "zone", "What this node serves of a zone", statestore.CanRead, http.StatusNotFound),
		func(ctx context.Context, in *namedInput) (*output[apitype.Zone], error) {
			name := strings.ToLower(strings.TrimSuffix(in.Name, ".")) + "."
			t := s.cfg.Table()
			if t == nil {
				return nil, notFound("zone", in.Name)
			}
			i := slices.IndexFunc(t.Zones, func(z *routing.Zone) bool { return z.Name == name })
			if i < 0 {
				return nil, notFound("zone", in.Name)
			}
			c := callOf(ctx)
			return envelope(c, "zone", s.zone(c, t, t.Zones[i])), nil
		})
}

// zone describes what a table serves of a zone, but for the services that the caller
// may not see.
func (s *Server) zone(c *call, t *routing.Table, z *routing.Zone) apitype.Zone {
	v := apitype.Zone{Zone: z.Name, Node: s.cfg.Node, Serial: z.Serial, Records: z.Records, Services: []string{}, Sets: []apitype.ZoneSet{}}
	for _, set := range t.Sets(z.Name) {
		if set.Service != "" && !c.st.Can(c.p, statestore.CanRead, set.Service) {
			continue
		}
		out := apitype.ZoneSet{Owner: set.Owner, Type: routing.TypeName(set.Type), Data: []string{}, Service: set.Service, Derived: set.Derived}
		if set.Set != nil {
			out.TTL, out.Data = set.Set.TTL, set.Set.Text
		}
		if set.Service != "" && !slices.Contains(v.Services, set.Service) {
			v.Services = append(v.Services, set.Service)
		}
		v.Sets = append(v.Sets, out)
	}
	slices.Sort(v.Services)
	return v
}
