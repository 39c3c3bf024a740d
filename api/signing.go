package api

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/statestore"
)

// ZoneKeys is what a node has to sign a zone with.
type ZoneKeys struct {
	Problem string // empty: it has every key
	Keys    []ZoneKey
	Until   time.Time // when the first signature in use expires; zero: none is
}

// ZoneKey is one key of a zone.
type ZoneKey struct {
	Role, Place string
	Tag         uint16
	Algorithm   string
	Signs       bool
	DS          string // of a KSK
}

func (s *Server) signingRoute(api huma.API) {
	huma.Register(api, operation(http.MethodGet, "/zones/{name}/dnssec", "zone-dnssec", "How a zone is signed, where its rolls stand, and what its parent should have", statestore.CanRead, http.StatusNotFound),
		func(ctx context.Context, in *namedInput) (*output[apitype.Signing], error) {
			c := callOf(ctx)
			name := strings.ToLower(strings.TrimSuffix(in.Name, ".")) + "."
			if c.st.Spec.Zones[name] == nil {
				return nil, notFound("zone", in.Name)
			}
			return envelope(c, "zone-dnssec", s.signing(c.st, name)), nil
		})
}

// signing describes a zone's signing; all but the keys is of the state.
func (s *Server) signing(st *statestore.State, zone string) apitype.Signing {
	v := apitype.Signing{Zone: zone, Node: s.cfg.Node, Mode: "off", Keys: []apitype.SigningKey{}, Parent: []string{}, Rolls: []apitype.SigningRoll{}}
	d, marks := st.Spec.Zones[zone].DNSSEC, st.Signing[zone]
	if d == nil || marks == nil {
		return v
	}
	v.Mode, v.Algorithm, v.Denial = string(d.Mode), string(d.Algorithm), string(d.Denial)
	v.Since, v.LeaveDue = marks.Mode.Since, marks.Mode.LeaveDue(d)
	if s.cfg.ZoneKeys != nil {
		has := s.cfg.ZoneKeys(zone)
		v.Problem, v.Until = has.Problem, has.Until
		for _, k := range has.Keys {
			v.Keys = append(v.Keys, apitype.SigningKey{
				Role: k.Role, Place: k.Place, Secret: secretOf(d, k.Role, k.Place), Tag: k.Tag, Algorithm: k.Algorithm, Signs: k.Signs, DS: k.DS,
			})
		}
	}
	if i := slices.IndexFunc(v.Keys, func(k apitype.SigningKey) bool { return k.Role == "ksk" && k.Place == "active" }); i >= 0 && d.Mode == statestore.Signed {
		// Resolvers must have forgotten the answers that had no signatures.
		v.Parent, v.ParentFrom = []string{v.Keys[i].DS}, marks.Mode.Since.Add(marks.Mode.TTL.D())
	}
	for _, step := range policy.SigningSteps(st, zone) {
		r := apitype.SigningRoll{Role: step.Role, Secret: step.Keys.Secret, Next: step.Keys.Next, Previous: step.Keys.Previous, Since: step.Since}
		if step.Then.Secret != "" {
			r.Then = &apitype.SigningStep{Secret: step.Then.Secret, Previous: step.Then.Previous, Due: step.Due, Ready: !st.Now.Before(step.Due)}
		}
		v.Rolls = append(v.Rolls, r)
	}
	return v
}

// secretOf names the secret that a key is in.
func secretOf(d *statestore.DNSSEC, role, place string) string {
	keys := d.ZSK
	if role == "ksk" {
		keys = d.KSK
	}
	switch place {
	case "next":
		return keys.Next
	case "previous":
		return keys.Previous
	}
	return keys.Secret
}
