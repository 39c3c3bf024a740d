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

// Votes asks for the votes on a service, on all its clusters when none is named.
func (c *Client) Votes(ctx context.Context, service, cluster string) (*Result[apitype.TargetVotes], error) {
	return Get[apitype.TargetVotes](ctx, c, "/services"+below(service)+"/votes", query("cluster", cluster))
}

// Clusters asks for all clusters, or for one.
func (c *Client) Clusters(ctx context.Context, name string) (*Result[apitype.Cluster], error) {
	return Get[apitype.Cluster](ctx, c, "/clusters"+below(name), nil)
}

// Members asks for the nodes.
func (c *Client) Members(ctx context.Context) (*Result[apitype.Member], error) {
	return Get[apitype.Member](ctx, c, "/members", nil)
}

// ExplainQuery is a question to explain.
type ExplainQuery struct{ Name, Type, Client, ECS, Node string }

// Explain asks how a node answers a question.
func (c *Client) Explain(ctx context.Context, q ExplainQuery) (*Result[apitype.Explanation], error) {
	return Get[apitype.Explanation](ctx, c, "/explain", query("name", q.Name, "type", q.Type, "client", q.Client, "ecs", q.ECS, "node", q.Node))
}

// Drain takes a cluster out. An empty key is made fresh.
func (c *Client) Drain(ctx context.Context, cluster string, r apitype.DrainRequest, key string) (*Result[apitype.Act], error) {
	return Do[apitype.Act](ctx, c, Request{Method: http.MethodPost, Path: "/clusters" + below(cluster) + "/drain", Body: r, Key: key})
}

// Undrain brings a cluster back.
func (c *Client) Undrain(ctx context.Context, cluster string, r apitype.UndrainRequest, key string) (*Result[apitype.Act], error) {
	return Do[apitype.Act](ctx, c, Request{Method: http.MethodDelete, Path: "/clusters" + below(cluster) + "/drain", Body: r, Key: key})
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

// Revisions asks for all revisions, newest first.
func (c *Client) Revisions(ctx context.Context) (*Result[apitype.Revision], error) {
	return Get[apitype.Revision](ctx, c, "/spec/revisions", nil)
}

// Revision asks for one revision with its text.
func (c *Client) Revision(ctx context.Context, n uint64) (*Result[apitype.Spec], error) {
	return Get[apitype.Spec](ctx, c, "/spec/revisions/"+strconv.FormatUint(n, 10), nil)
}

// PutSpec replaces the spec of the revision that etag names.
func (c *Client) PutSpec(ctx context.Context, r apitype.ApplyRequest, etag, key string) (*Result[apitype.Plan], error) {
	return Do[apitype.Plan](ctx, c, Request{Method: http.MethodPut, Path: "/spec", Body: r, IfMatch: etag, Key: key})
}

// Rollback makes an older revision's spec the next revision.
func (c *Client) Rollback(ctx context.Context, r apitype.RollbackRequest, key string) (*Result[apitype.Plan], error) {
	return Do[apitype.Plan](ctx, c, Request{Method: http.MethodPost, Path: "/spec/rollback", Body: r, Key: key})
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

// History asks for what moved answers.
func (c *Client) History(ctx context.Context, service string, limit int) (*Result[apitype.Event], error) {
	v := query("service", service)
	if limit > 0 {
		v.Set("limit", strconv.Itoa(limit))
	}
	return Get[apitype.Event](ctx, c, "/history", v)
}

// Tokens asks for the bearer tokens, without secrets.
func (c *Client) Tokens(ctx context.Context) (*Result[apitype.Token], error) {
	return Get[apitype.Token](ctx, c, "/tokens", nil)
}

// CreateToken makes a bearer token.
func (c *Client) CreateToken(ctx context.Context, r apitype.TokenRequest, key string) (*Result[apitype.Token], error) {
	return Do[apitype.Token](ctx, c, Request{Method: http.MethodPost, Path: "/tokens", Body: r, Key: key})
}

// RevokeToken revokes a bearer token.
func (c *Client) RevokeToken(ctx context.Context, id, key string) (*Result[apitype.Act], error) {
	return Do[apitype.Act](ctx, c, Request{Method: http.MethodDelete, Path: "/tokens" + below(id), Key: key})
}

// CreateJoinToken makes a join token.
func (c *Client) CreateJoinToken(ctx context.Context, r apitype.JoinTokenRequest, key string) (*Result[apitype.JoinToken], error) {
	return Do[apitype.JoinToken](ctx, c, Request{Method: http.MethodPost, Path: "/members/join-tokens", Body: r, Key: key})
}

// RemoveMember removes a member for good.
func (c *Client) RemoveMember(ctx context.Context, name string, r apitype.RemoveRequest, key string) (*Result[apitype.Act], error) {
	return Do[apitype.Act](ctx, c, Request{Method: http.MethodDelete, Path: "/members" + below(name), Body: r, Key: key})
}

// SetRole promotes a member to voter or demotes it to nonvoter.
func (c *Client) SetRole(ctx context.Context, name string, voter bool, key string) (*Result[apitype.Act], error) {
	verb := "/demote"
	if voter {
		verb = "/promote"
	}
	return Do[apitype.Act](ctx, c, Request{Method: http.MethodPost, Path: "/members" + below(name) + verb, Key: key})
}

// CA asks for the trusted mesh CAs.
func (c *Client) CA(ctx context.Context) (*Result[apitype.CA], error) {
	return Get[apitype.CA](ctx, c, "/ca", nil)
}

// RollCA makes a new mesh CA.
func (c *Client) RollCA(ctx context.Context, key string) (*Result[apitype.CA], error) {
	return Do[apitype.CA](ctx, c, Request{Method: http.MethodPost, Path: "/ca/roll", Key: key})
}

// RetireCA stops trusting a mesh CA.
func (c *Client) RetireCA(ctx context.Context, fingerprint, key string) (*Result[apitype.Act], error) {
	return Do[apitype.Act](ctx, c, Request{Method: http.MethodDelete, Path: "/ca" + below(fingerprint), Key: key})
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
