package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/quorate/quorate/api/apitype"
)

// Get reads one kind of object.
func Get[T any](ctx context.Context, c *Client, path string, query url.Values) (*Result[T], error) {
	return Do[T](ctx, c, Request{Method: http.MethodGet, Path: path, Query: query})
}

// Status asks how the installation does.
func (c *Client) Status(ctx context.Context) (*Result[apitype.Status], error) {
	return Get[apitype.Status](ctx, c, "/status", nil)
}

// Services asks for all services, or for one.
func (c *Client) Services(ctx context.Context, name string) (*Result[apitype.Service], error) {
	return Get[apitype.Service](ctx, c, "/services"+below(name), nil)
}

// Freeze stops automation.
func (c *Client) Freeze(ctx context.Context, r apitype.FreezeRequest, key string) (*Result[apitype.Act], error) {
	return Do[apitype.Act](ctx, c, Request{Method: http.MethodPost, Path: "/freeze", Body: r, Key: key})
}

// Thaw lets automation go on.
func (c *Client) Thaw(ctx context.Context, r apitype.ThawRequest, key string) (*Result[apitype.Act], error) {
	return Do[apitype.Act](ctx, c, Request{Method: http.MethodDelete, Path: "/freeze", Body: r, Key: key})
}

// Spec asks for the spec in force; Meta.ETag is what PutSpec wants.
func (c *Client) Spec(ctx context.Context) (*Result[apitype.Spec], error) {
	return Get[apitype.Spec](ctx, c, "/spec", nil)
}

// PutSpec replaces the spec of the revision that etag names.
func (c *Client) PutSpec(ctx context.Context, r apitype.ApplyRequest, etag, key string) (*Result[apitype.Plan], error) {
	return Do[apitype.Plan](ctx, c, Request{Method: http.MethodPut, Path: "/spec", Body: r, IfMatch: etag, Key: key})
}

// Plan asks what a spec would change.
func (c *Client) Plan(ctx context.Context, r apitype.PlanRequest) (*Result[apitype.Plan], error) {
	return Do[apitype.Plan](ctx, c, Request{Method: http.MethodPost, Path: "/plans", Body: r})
}

// Apply applies a plan. With the source in r any node can do it.
func (c *Client) Apply(ctx context.Context, id string, r apitype.ApplyRequest, key string) (*Result[apitype.Plan], error) {
	return Do[apitype.Plan](ctx, c, Request{Method: http.MethodPost, Path: "/plans" + below(id) + "/apply", Body: r, Key: key})
}

// EventQuery picks events.
type EventQuery struct {
	After   uint64
	Limit   int
	Types   string // comma list; a final * matches any ending
	Service string
	Since   string // a time or a duration before now
}

func (q EventQuery) values() url.Values {
	v := query("types", q.Types, "service", q.Service, "since", q.Since)
	if q.After > 0 {
		v.Set("after", strconv.FormatUint(q.After, 10))
	}
	if q.Limit > 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	return v
}

// Events asks for a page of events, oldest first.
func (c *Client) Events(ctx context.Context, q EventQuery) (*Result[apitype.Event], error) {
	return Get[apitype.Event](ctx, c, "/events", q.values())
}

// RemoveMember removes a member for good.
func (c *Client) RemoveMember(ctx context.Context, name string, r apitype.RemoveRequest, key string) (*Result[apitype.Act], error) {
	return Do[apitype.Act](ctx, c, Request{Method: http.MethodDelete, Path: "/members" + below(name), Body: r, Key: key})
}

// CA asks for the trusted mesh CAs.
func (c *Client) CA(ctx context.Context) (*Result[apitype.CA], error) {
	return Get[apitype.CA](ctx, c, "/ca", nil)
}

// RollCA makes a new mesh CA.
func (c *Client) RollCA(ctx context.Context, key string) (*Result[apitype.CA], error) {
	return Do[apitype.CA](ctx, c, Request{Method: http.MethodPost, Path: "/ca/roll", Key: key})
}

// Backup writes a snapshot of the replicated state to w. After an error what was
// written is not whole.
func (c *Client) Backup(ctx context.Context, w io.Writer) (Meta, error) {
	resp, shown, err := c.send(ctx, Request{Method: http.MethodGet, Path: "/backup"}, "application/octet-stream")
	if err != nil {
		return Meta{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.Copy(w, resp.Body); err != nil {
		return Meta{}, fmt.Errorf("read the backup from %s: %w", shown, err)
	}
	return meta(resp, shown), nil
}

// below appends a name as one path element.
func below(name string) string {
	if name == "" {
		return ""
	}
	return "/" + url.PathEscape(name)
}

// query makes a query of pairs, leaving out empty values.
func query(pairs ...string) url.Values {
	v := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			v.Set(pairs[i], pairs[i+1])
		}
	}
	return v
}
