package client

import (
	"context"
	"net/http"

	"github.com/quorate/quorate/api/apitype"
)

// Cutovers asks for cutovers, newest first. State is open, done, all or a phase;
// empty filters match all.
func (c *Client) Cutovers(ctx context.Context, state, service string) (*Result[apitype.Cutover], error) {
	return Get[apitype.Cutover](ctx, c, "/cutovers", query("state", state, "service", service))
}

// Cutover asks for one cutover.
func (c *Client) Cutover(ctx context.Context, id string) (*Result[apitype.Cutover], error) {
	return Get[apitype.Cutover](ctx, c, "/cutovers"+below(id), nil)
}

// CutoverReport asks for a cutover with its events.
func (c *Client) CutoverReport(ctx context.Context, id string) (*Result[apitype.CutoverReport], error) {
	return Get[apitype.CutoverReport](ctx, c, "/cutovers"+below(id)+"/report", nil)
}

// Propose proposes a cutover.
func (c *Client) Propose(ctx context.Context, r apitype.CutoverRequest, key string) (*Result[apitype.Cutover], error) {
	return Do[apitype.Cutover](ctx, c, Request{Method: http.MethodPost, Path: "/cutovers", Body: r, Key: key})
}

// Approve signs the evidence of a cutover.
func (c *Client) Approve(ctx context.Context, id string, r apitype.ApproveRequest, key string) (*Result[apitype.Cutover], error) {
	return Do[apitype.Cutover](ctx, c, Request{Method: http.MethodPost, Path: "/cutovers" + below(id) + "/approve", Body: r, Key: key})
}

// Reject ends a cutover that has not begun.
func (c *Client) Reject(ctx context.Context, id string, r apitype.DecideRequest, key string) (*Result[apitype.Cutover], error) {
	return Do[apitype.Cutover](ctx, c, Request{Method: http.MethodPost, Path: "/cutovers" + below(id) + "/reject", Body: r, Key: key})
}

// Abort ends a cutover that has begun: the source goes on under a new epoch.
func (c *Client) Abort(ctx context.Context, id string, r apitype.DecideRequest, key string) (*Result[apitype.Cutover], error) {
	return Do[apitype.Cutover](ctx, c, Request{Method: http.MethodPost, Path: "/cutovers" + below(id) + "/abort", Body: r, Key: key})
}
