package client

import (
	"context"
	"net/http"
	"strings"

	"github.com/quorate/quorate/api/apitype"
)

// Override answers a stateless service with one cluster.
func (c *Client) Override(ctx context.Context, service string, r apitype.OverrideRequest, key string) (*Result[apitype.Act], error) {
	return Do[apitype.Act](ctx, c, Request{Method: http.MethodPut, Path: overridePath(service), Body: r, Key: key})
}

// ClearOverride lets the policy answer again.
func (c *Client) ClearOverride(ctx context.Context, service string, r apitype.ClearOverrideRequest, key string) (*Result[apitype.Act], error) {
	return Do[apitype.Act](ctx, c, Request{Method: http.MethodDelete, Path: overridePath(service), Body: r, Key: key})
}

func overridePath(service string) string { return "/services" + below(service) + "/override" }

// Drains takes several clusters out at once, judged together.
func (c *Client) Drains(ctx context.Context, r apitype.DrainsRequest, key string) (*Result[apitype.Act], error) {
	return Do[apitype.Act](ctx, c, Request{Method: http.MethodPost, Path: "/drains", Body: r, Key: key})
}

// Probe runs a service's checks at a cluster once, which takes up to 15 s.
func (c *Client) Probe(ctx context.Context, r apitype.ProbeRequest) (*Result[apitype.ProbeReport], error) {
	return Do[apitype.ProbeReport](ctx, c, Request{Method: http.MethodPost, Path: "/probes", Body: r})
}

// Question is what a node is asked to explain.
type Question struct {
	Name   string
	Type   string   // empty: A
	Client string   // address that the query comes from
	ECS    string   // client subnet of the query
	Node   string   // that answers; empty: the one that is talked to
	If     []string // what to suppose, such as "eu=down"; empty: it is as it is
}

// Explain asks how a node answers.
func (c *Client) Explain(ctx context.Context, q Question) (*Result[apitype.Explanation], error) {
	return Get[apitype.Explanation](ctx, c, "/explain", query(
		"name", q.Name, "type", q.Type, "client", q.Client, "ecs", q.ECS, "node", q.Node, "if", strings.Join(q.If, ",")))
}

// Simulate asks who would answer what, if. Region is one to lose besides; empty: none.
func (c *Client) Simulate(ctx context.Context, conditions []string, region string) (*Result[apitype.Simulation], error) {
	return Get[apitype.Simulation](ctx, c, "/simulate", query("if", strings.Join(conditions, ","), "lose_region", region))
}

// Replay judges recorded votes by another spec.
func (c *Client) Replay(ctx context.Context, r apitype.ReplayRequest) (*Result[apitype.Replay], error) {
	return Do[apitype.Replay](ctx, c, Request{Method: http.MethodPost, Path: "/replays", Body: r})
}
