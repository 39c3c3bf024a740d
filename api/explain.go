package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/routing"
	"github.com/quorate/quorate/statestore"
)

type explainInput struct {
	reading
	Name   string `query:"name" required:"true" maxLength:"255" doc:"the name asked"`
	Type   string `query:"type" maxLength:"16" doc:"A when absent"`
	Client string `query:"client" doc:"address the query comes from"`
	ECS    string `query:"ecs" doc:"client subnet of the query"`
	Node   string `query:"node" doc:"the node that answers; this one when absent"`
	If     string `query:"if" maxLength:"4096" doc:"comma list of what to suppose, such as eu=down; the answer is then nobody's"`
}

// question is a request between nodes: to explain a name, who has acknowledged the
// cutover named, to run checks, or what clients asked for.
type question struct {
	Acknowledged string                `json:"acknowledged,omitempty"`
	Probe        *apitype.ProbeRequest `json:"probe,omitempty"`
	Traffic      bool                  `json:"traffic,omitempty"`

	Name   string `json:"name"`
	Type   string `json:"type"`
	Client string `json:"client,omitempty"`
	ECS    string `json:"ecs,omitempty"`

	If []string `json:"if,omitempty"`
}

func (s *Server) explain(ctx context.Context, in *explainInput) (*output[apitype.Explanation], error) {
	c := callOf(ctx)
	q := question{Name: in.Name, Type: in.Type, Client: in.Client, ECS: in.ECS, If: conditionsOf(in.If)}
	if len(q.If) > 0 {
		if err := maySuppose(c, q.If); err != nil {
			return nil, err
		}
		if err := s.takeWhatIf(c); err != nil {
			return nil, err
		}
	}
	if in.Node == "" || in.Node == s.cfg.Node {
		ex, err := s.answer(q)
		if err != nil {
			return nil, err
		}
		return s.explained(c, ex)
	}
	if c.st.Members[in.Node] == nil {
		return nil, notFound("member", in.Node)
	}
	if _, err := parseQuestion(q); err != nil {
		return nil, err
	}
	if len(q.If) > 0 { // what is wrong with the conditions is said here, and not as a fault of that node
		if _, err := s.suppose(c.st, q.If, "?if"); err != nil {
			return nil, err
		}
	}
	if s.cfg.Call == nil {
		return nil, unsupported("ask another node")
	}
	body, err := json.Marshal(q)
	if err != nil {
		return nil, s.internal("encode a question", err)
	}
	reply, err := s.cfg.Call(ctx, in.Node, PeerMethod, body)
	if err != nil {
		return nil, problem(http.StatusBadGateway, apitype.ProblemNotReachable, "ask node %s: %v", in.Node, err)
	}
	var ex apitype.Explanation
	if err := json.Unmarshal(reply, &ex); err != nil {
		return nil, problem(http.StatusBadGateway, apitype.ProblemNotReachable, "ask node %s: %v", in.Node, err)
	}
	return s.explained(c, ex)
}

func (s *Server) explained(c *call, ex apitype.Explanation) (*output[apitype.Explanation], error) {
	if ex.Service != "" {
		if err := allow(c.st, c.p, statestore.CanRead, ex.Service); err != nil {
			return nil, err
		}
	}
	steps := ex.Steps
	if len(ex.Conditions) > 0 && len(steps) > 0 {
		if !c.st.Can(c.p, statestore.CanRead, "") {
			steps[0].Note = "" // it names services
		}
		steps = steps[1:]
	}
	if hint := s.meant(c, ex); hint != "" && len(steps) > 0 {
		first := &steps[0]
		first.Note = strings.TrimSuffix("did you mean "+hint+"? "+first.Note, " ")
	}
	return envelope(c, "explanation", ex), nil
}

// meant is the full name of the service that somebody may have meant who asked for
// a name without a dot: its key, or its name inside its zone. Empty: none.
func (s *Server) meant(c *call, ex apitype.Explanation) string {
	label := strings.TrimSuffix(ex.Name, ".")
	if ex.Rcode != routing.Refused.String() || label == "" || strings.Contains(label, ".") {
		return ""
	}
	byName := ""
	for _, key := range sortedKeys(c.st.Spec.Services) {
		svc := c.st.Spec.Services[key]
		if len(svc.Names) == 0 || !c.st.Can(c.p, statestore.CanRead, key) {
			continue
		}
		has := slices.Contains(svc.Names, label)
		switch full := func(n string) string { return strings.TrimSuffix(fqdn(n, svc.Zone), ".") }; {
		case key == label && !has:
			return full(svc.Names[0])
		case key == label:
			return full(label)
		case has && byName == "":
			byName = full(label)
		}
	}
	return byName
}

// Peer answers what another node sent by Config.Call with PeerMethod.
func (s *Server) Peer(ctx context.Context, _ string, body []byte) ([]byte, error) {
	var q question
	if err := unmarshalStrict(body, &q); err != nil {
		return nil, fmt.Errorf("explain for a peer: %w", err)
	}
	switch {
	case q.Acknowledged != "":
		return s.acknowledgedForPeer(q.Acknowledged)
	case q.Probe != nil:
		return s.probeForPeer(ctx, *q.Probe)
	case q.Traffic:
		return s.trafficForPeer()
	}
	ex, err := s.answer(q)
	if err != nil {
		return nil, fmt.Errorf("explain for a peer: %w", err)
	}
	reply, err := json.Marshal(ex)
	if err != nil {
		return nil, fmt.Errorf("explain for a peer: %w", err)
	}
	return reply, nil
}

func parseQuestion(q question) (routing.Query, error) {
	out := routing.Query{Name: q.Name, Type: routing.TypeA, Client: netip.IPv4Unspecified()}
	if q.Name == "" {
		return out, invalidField("?name", "must be a name, is empty")
	}
	if q.Type != "" {
		t, ok := routing.ParseType(strings.ToUpper(q.Type))
		if !ok {
			return out, invalidField("?type", "must be a record type such as A or AAAA, is %q", q.Type)
		}
		out.Type = t
	}
	if q.Client != "" {
		a, err := netip.ParseAddr(q.Client)
		if err != nil {
			return out, invalidField("?client", "must be an IP address, is %q", q.Client)
		}
		out.Client = a
	}
	if q.ECS != "" {
		p, err := netip.ParsePrefix(q.ECS)
		if err != nil {
			return out, invalidField("?ecs", "must be a network such as 192.0.2.0/24, is %q", q.ECS)
		}
		out.Subnet = p.Masked()
	}
	return out, nil
}

// answer asks the very function that DNS asks (G14).
func (s *Server) answer(q question) (apitype.Explanation, error) {
	query, err := parseQuestion(q)
	if err != nil {
		return apitype.Explanation{}, err
	}
	t := s.cfg.Table()
	if t == nil {
		return apitype.Explanation{}, problem(http.StatusServiceUnavailable, apitype.ProblemNoQuorum, "node %s has no table yet", s.cfg.Node)
	}
	query.Stale = s.cfg.Quorum().Stale
	steps := []apitype.Step{}
	if len(q.If) > 0 {
		supposed, sup, err := s.supposedTable(t, q.If)
		if err != nil {
			return apitype.Explanation{}, err
		}
		t, steps = supposed, append(steps, supposeStep(sup))
	}
	a, trace := routing.Select(t, query)
	ex := apitype.Explanation{
		Node: s.cfg.Node, Revision: t.Revision, Index: t.Index,
		Name: routing.Canonical(q.Name), Type: strings.ToUpper(q.Type), Service: a.Service,
		Rcode: a.Kind.String(), TTL: uint32(a.TTL().Seconds()),
		Answers: []string{}, Clusters: orEmpty(a.Clusters), Steps: steps, Conditions: q.If, Scope: int(a.Scope),
	}
	if ex.Type == "" {
		ex.Type = "A"
	}
	for _, al := range a.Chain {
		ex.Answers = append(ex.Answers, al.Set.Text...)
	}
	if a.Set != nil {
		ex.Answers = append(ex.Answers, a.Set.Text...)
	}
	for _, step := range trace.Steps() {
		ex.Steps = append(ex.Steps, apitype.Step{Step: step.Step, Text: step.Text, Note: step.Note})
	}
	return ex, nil
}

func (s *Server) explainRoute(api huma.API) {
	huma.Register(api, operation(http.MethodGet, "/explain", "explain", "How a node answers a question, step by step", statestore.CanRead,
		http.StatusNotFound, http.StatusUnprocessableEntity, http.StatusBadGateway, http.StatusServiceUnavailable), s.explain)
}
