package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/statestore"
)

type planInput struct {
	writing
	Body apitype.PlanRequest
}

type planIDInput struct {
	reading
	ID string `path:"id" maxLength:"64"`
}

type applyInput struct {
	writing
	ID   string `path:"id" maxLength:"64"`
	Body *apitype.ApplyRequest
}

// planID names a plan by what it was made of, so that every node can check it.
func planID(base uint64, source string) string {
	sum := sha256.Sum256([]byte(strconv.FormatUint(base, 10) + "\n" + source))
	return strconv.FormatUint(base+1, 10) + "-" + hex.EncodeToString(sum[:4])
}

// plan is what applying a spec would change, with a sample of the clients that it
// reaches.
func (s *Server) plan(ctx context.Context, c *call, written *statestore.Spec, source string, warnings []string) apitype.Plan {
	spec := written.WithAddresses(c.st.Spec)
	p, _ := makePlan(c.st, spec, source, warnings)
	p.Warnings = append(p.Warnings, empowerWarning(c, spec)...)
	p.Clients = s.planReach(ctx, c.st, spec)
	return p
}

// planReach compares the answers of a sample of clients, and of those who asked lately,
// under the present spec and under another one.
func (s *Server) planReach(ctx context.Context, st *statestore.State, spec *statestore.Spec) apitype.ClientReach {
	before := s.tableOf(s.cfg.Table(), st)
	after := s.tableOf(before, policy.SupposeSpec(st, spec))
	return reach(before, after, s.traffic(ctx), func(string) bool { return true })
}

// makePlan judges a spec, with the addresses that its hostnames stand for, against
// the state. The rotations are those that ApplySpec has to carry.
func makePlan(st *statestore.State, spec *statestore.Spec, source string, warnings []string) (apitype.Plan, []statestore.RotationChange) {
	diff, found := policy.DiffSpec(st, spec), policy.CheckSpec(st, spec)
	p := apitype.Plan{
		ID: planID(st.Revision, source), Base: st.Revision, Next: st.Revision + 1,
		Class: string(diff.Class), Changes: []apitype.Change{}, Answers: impactsView(diff.Answers),
		Guards: apitype.Guards{
			Updates: diff.Guards.Updates, MaxUpdates: diff.Guards.MaxUpdates,
			Deletes: diff.Guards.Deletes, MaxDeletes: diff.Guards.MaxDeletes,
			NSChanged: diff.Guards.NSChanged, Exceeded: orEmpty(diff.Guards.Exceeded),
		},
		Blockers: blockersView(found.Blockers),
		Warnings: append(slices.Clone(orEmpty(warnings)), found.Warnings...),
		Matches:  matchesView(policy.Matches(st.Spec, spec)),
		Clients:  apitype.ClientReach{Services: []apitype.ServiceReach{}},
	}
	for _, ch := range diff.Changes {
		p.Changes = append(p.Changes, apitype.Change{Op: ch.Op, Path: ch.Path, Old: ch.Old, New: ch.New})
	}
	p.Blockers = append(p.Blockers, tooLarge(spec, source, diff.Rotations)...)
	return p, diff.Rotations
}

// surelyFits is how long a text is whose entry is not worth measuring, in bytes.
const surelyFits = statestore.MaxEntry / 8

// tooLarge refuses a spec that fits no log entry with its text.
func tooLarge(spec *statestore.Spec, source string, rotations []statestore.RotationChange) []apitype.Blocker {
	if len(source) < surelyFits {
		return nil
	}
	_, err := statestore.Encode(statestore.ApplySpec{Spec: spec, Source: source, Rotations: rotations}, statestore.Meta{})
	if !errors.Is(err, statestore.ErrTooLarge) {
		return nil // what cannot be encoded otherwise, the proposer says
	}
	return []apitype.Blocker{{Rule: policy.RuleRefused, Reason: fmt.Sprintf(
		"spec: must fit a log entry together with its text: %s; take static records out, or serve a zone elsewhere", err)}}
}

func matchesView(ms []policy.Match) []apitype.Match {
	out := make([]apitype.Match, len(ms))
	for i, m := range ms {
		out[i] = apitype.Match{Service: m.Service, Selector: m.Selector, Clusters: orEmpty(m.Clusters), Came: m.Came, Went: m.Went}
	}
	return out
}

func (s *Server) createPlan(ctx context.Context, in *planInput) (*output[apitype.Plan], error) {
	c := callOf(ctx)
	spec, warnings, prob := s.decode(in.Body.Name, in.Body.Source)
	if prob != nil {
		return nil, prob
	}
	p := s.plan(ctx, c, spec, in.Body.Source, warnings)
	s.plans.put(keptPlan{plan: p, source: in.Body.Source, name: in.Body.Name})
	return envelope(c, "plan", p), nil
}

func (s *Server) applyPlan(ctx context.Context, in *applyInput) (*output[apitype.Plan], error) {
	c := callOf(ctx)
	req := apitype.ApplyRequest{}
	if in.Body != nil {
		req = *in.Body
	}
	if req.Source == "" {
		kept, ok := s.plans.get(in.ID)
		if !ok {
			p := notFound("plan of this node", in.ID)
			p.Next = "send the spec's source along, or plan again"
			return nil, p
		}
		req.Source, req.Name = kept.source, kept.name
	}
	return s.apply(ctx, c, req, func(st *statestore.State) error {
		want := planID(st.Revision, req.Source)
		if in.ID == want {
			return nil
		}
		if next, _, _ := strings.Cut(in.ID, "-"); next == strconv.FormatUint(st.Revision+1, 10) {
			return invalidField("/source", "must be the text that plan %s was made from, is another", in.ID)
		}
		return stalePlan("plan %s was made on another revision; revision %d is current", in.ID, st.Revision)
	})
}

func stalePlan(format string, args ...any) *apitype.Problem {
	p := problem(http.StatusConflict, apitype.ProblemStalePlan, format, args...)
	p.Next = "quorate plan -f FILE"
	return p
}

// empowerWarning says in a plan that its author may not apply it.
func empowerWarning(c *call, spec *statestore.Spec) []string {
	if err := mayEmpower(c.st, c.p, spec); err != nil {
		return []string{err.Error()}
	}
	return nil
}

type keptPlan struct {
	plan         apitype.Plan
	source, name string
}

// planCache keeps the latest plans of this node.
type planCache struct {
	mu    sync.Mutex // protects order and plans
	order []string
	plans map[string]keptPlan
}

func newPlanCache() *planCache { return &planCache{plans: map[string]keptPlan{}} }

func (pc *planCache) put(p keptPlan) {
	pc.mu.Lock()
	defer pc.mu.Unlock()
	if _, ok := pc.plans[p.plan.ID]; !ok {
		pc.order = append(pc.order, p.plan.ID)
	}
	pc.plans[p.plan.ID] = p
	for len(pc.order) > maxPlans {
		delete(pc.plans, pc.order[0])
		pc.order = pc.order[1:]
	}
}

func (pc *planCache) get(id string) (keptPlan, bool) {
	pc.mu.Lock()
	defer pc.mu.Unlock()
	p, ok := pc.plans[id]
	return p, ok
}
