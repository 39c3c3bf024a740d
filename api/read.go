package api

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

// reading is what every GET takes.
type reading struct {
	Consistency string `query:"consistency" enum:"local,linearizable" doc:"linearizable asks the leader first"`
}

// output is an envelope as huma writes it.
type output[T any] struct {
	Body apitype.Envelope[T]
}

// envelope wraps items of one kind.
func envelope[T any](c *call, kind string, items ...T) *output[T] {
	return &output[T]{Body: apitype.Envelope[T]{
		API: apitype.Version, Kind: kind, Revision: c.st.Revision, AsOf: c.asOf, Items: orEmpty(items),
	}}
}

// operation describes an operation and who may call it.
func operation(method, path, id, summary string, need statestore.Capability, errs ...int) huma.Operation {
	return huma.Operation{
		Method: method, Path: "/v1" + path, OperationID: id, Summary: summary,
		Metadata:    map[string]any{metaCan: need},
		Security:    []map[string][]string{{"bearer": {}}},
		Description: "Needs the capability `" + string(need) + "`.",
		Errors:      append([]int{http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests}, errs...),
	}
}

// namedInput names one object in the path.
type namedInput struct {
	reading
	Name string `path:"name" maxLength:"253"`
}

type votesInput struct {
	reading
	Name    string `path:"name" maxLength:"253"`
	Cluster string `query:"cluster" doc:"only this cluster"`
}

func (s *Server) readRoutes(api huma.API) {
	huma.Register(api, operation(http.MethodGet, "/status", "status", "Quorum, banners, and a summary of every service and cluster", statestore.CanRead),
		func(ctx context.Context, _ *reading) (*output[apitype.Status], error) {
			c := callOf(ctx)
			return envelope(c, "status", s.status(c)), nil
		})
	huma.Register(api, operation(http.MethodGet, "/members", "members", "The nodes of the installation", statestore.CanRead),
		func(ctx context.Context, _ *reading) (*output[apitype.Member], error) {
			c := callOf(ctx)
			return envelope(c, "member", s.members(c.st)...), nil
		})
	huma.Register(api, operation(http.MethodGet, "/services", "services", "Every service and what it answers now", statestore.CanRead),
		func(ctx context.Context, _ *reading) (*output[apitype.Service], error) {
			c := callOf(ctx)
			var items []apitype.Service
			for _, name := range sortedKeys(c.st.Spec.Services) {
				if c.st.Can(c.p, statestore.CanRead, name) {
					items = append(items, serviceView(c.st, s.now(c.st), name))
				}
			}
			return envelope(c, "service", items...), nil
		})
	huma.Register(api, operation(http.MethodGet, "/services/{name}", "service", "One service: definition, answers, votes", statestore.CanRead, http.StatusNotFound),
		func(ctx context.Context, in *namedInput) (*output[apitype.Service], error) {
			c := callOf(ctx)
			if err := s.seeService(c, in.Name); err != nil {
				return nil, err
			}
			view := serviceView(c.st, s.now(c.st), in.Name)
			view.Traffic = s.traffic(ctx).view(s.cfg.Table(), in.Name)
			return envelope(c, "service", view), nil
		})
	huma.Register(api, operation(http.MethodGet, "/services/{name}/votes", "votes", "Every observer's vote on a service's targets", statestore.CanRead, http.StatusNotFound),
		func(ctx context.Context, in *votesInput) (*output[apitype.TargetVotes], error) {
			c := callOf(ctx)
			if err := s.seeService(c, in.Name); err != nil {
				return nil, err
			}
			if in.Cluster != "" && !slices.Contains(c.st.Spec.Candidates(in.Name), in.Cluster) {
				return nil, notFound("cluster of "+in.Name, in.Cluster)
			}
			var targets []apitype.TargetVotes
			if ss := c.st.Services[in.Name]; ss != nil {
				targets = targetsView(c.st, ss.Targets, in.Cluster)
			}
			return envelope(c, "votes", targets...), nil
		})
	huma.Register(api, operation(http.MethodGet, "/clusters", "clusters", "Every cluster, its front door and its drain", statestore.CanRead),
		func(ctx context.Context, _ *reading) (*output[apitype.Cluster], error) {
			c := callOf(ctx)
			var items []apitype.Cluster
			for _, name := range sortedKeys(c.st.Spec.Clusters) {
				items = append(items, clusterView(c.st, name))
			}
			return envelope(c, "cluster", items...), nil
		})
	huma.Register(api, operation(http.MethodGet, "/clusters/{name}", "cluster", "One cluster: definition, front door, votes", statestore.CanRead, http.StatusNotFound),
		func(ctx context.Context, in *namedInput) (*output[apitype.Cluster], error) {
			c := callOf(ctx)
			if c.st.Spec.Clusters[in.Name] == nil {
				return nil, notFound("cluster", in.Name)
			}
			return envelope(c, "cluster", clusterView(c.st, in.Name)), nil
		})
}

// seeService refuses a service that does not exist or that the caller may not read.
func (s *Server) seeService(c *call, name string) error {
	if c.st.Spec.Services[name] == nil {
		return notFound("service", name)
	}
	return allow(c.st, c.p, statestore.CanRead, name)
}

func serviceView(st *statestore.State, now time.Time, name string) apitype.Service {
	out := apitype.Service{
		ServiceSummary: serviceSummary(st, now, name),
		Definition:     st.Spec.Services[name],
		Targets:        []apitype.TargetVotes{},
	}
	if ss := st.Services[name]; ss != nil {
		out.Targets = targetsView(st, ss.Targets, "")
	}
	if f, ok := st.Frozen(name); ok {
		out.Freeze = &apitype.Freeze{Service: name, By: f.By, Reason: f.Reason, At: f.At, Until: f.Until}
	}
	return out
}

func clusterView(st *statestore.State, name string) apitype.Cluster {
	out := apitype.Cluster{
		ClusterSummary: clusterSummary(st, name),
		Definition:     st.Spec.Clusters[name],
		Targets:        []apitype.TargetVotes{},
		Services:       servicesOf(st, name),
	}
	if cs := st.Clusters[name]; cs != nil {
		out.Targets = targetsView(st, cs.Targets, "")
	}
	return out
}

// status is the answer to "what is wrong, and is what I see current".
func (s *Server) status(c *call) apitype.Status {
	st := c.st
	out := apitype.Status{
		Node: s.cfg.Node, Version: s.cfg.Version,
		Installation: st.Installation, Generation: st.Generation,
		Revision: st.Revision, Index: st.Index,
		Quorum:   s.quorum(),
		Services: []apitype.ServiceSummary{},
		Clusters: []apitype.ClusterSummary{},
		Waiting:  waiting(st, c.p),
	}
	for _, name := range sortedKeys(st.Spec.Services) {
		if st.Can(c.p, statestore.CanRead, name) {
			out.Services = append(out.Services, serviceSummary(st, s.now(st), name))
		}
	}
	for _, name := range sortedKeys(st.Spec.Clusters) {
		out.Clusters = append(out.Clusters, clusterSummary(st, name))
	}
	out.Banners = s.banners(st, out)
	return out
}

func (s *Server) quorum() apitype.Quorum {
	q := s.cfg.Quorum()
	out := apitype.Quorum{
		Available: q.HasQuorum, Voters: q.Voters, VotersUp: q.VotersUp,
		Leader: q.Leader, Tolerates: q.Tolerates, StaleSeconds: q.Stale.Seconds(),
	}
	if !q.HasQuorum {
		out.StaleSince = s.cfg.Now().Add(-q.Stale).UTC().Truncate(time.Second)
	}
	return out
}

// members joins what the state and what Raft know of each node.
func (s *Server) members(st *statestore.State) []apitype.Member {
	q := s.cfg.Quorum()
	var out []apitype.Member
	for _, name := range sortedKeys(st.Members) {
		m := st.Members[name]
		v := apitype.Member{
			Name: m.Name, Region: m.Region, Role: string(m.Role), Raft: "none", LastSeenSeconds: -1,
			Peer: m.Peer, API: m.API, DNS: slices.Concat(m.DNS.IPv4, m.DNS.IPv6), DNSName: m.DNS.Name,
			Version: m.Version, Supports: m.Supports, CA: m.CA, Geo: m.Geo, Observer: "none",
		}
		v.DNS = orEmpty(v.DNS)
		if i := slices.IndexFunc(q.Servers, func(s RaftServer) bool { return s.Name == name }); i >= 0 {
			srv := q.Servers[i]
			v.Reachable, v.LastSeenSeconds, v.Trails = srv.Reachable, srv.LastSeen.Seconds(), srv.Trails
			v.Awaited = srv.Awaited
			v.ClockOffset = srv.Offset.Seconds()
			switch {
			case name == q.Leader:
				v.Raft = "leader"
			case srv.Voter:
				v.Raft = "voter"
			default:
				v.Raft = "nonvoter"
			}
		}
		if m.Observes {
			v.Observer = observerState(st.Observers[health.ObserverID(name)])
		}
		out = append(out, v)
	}
	return out
}

// eventMatches reports whether an event is one of the types (comma list, each a
// type or a prefix ending in "*") and about the service; empty filters match all.
func eventMatches(e statestore.Event, types, service string) bool {
	if service != "" && e.Subject != "services/"+service && !strings.HasPrefix(e.Subject, "services/"+service+"/") {
		return false
	}
	if types == "" {
		return true
	}
	for t := range strings.SplitSeq(types, ",") {
		t = strings.TrimSpace(t)
		if p, ok := strings.CutSuffix(t, "*"); (ok && strings.HasPrefix(e.Type, p)) || t == e.Type {
			return true
		}
	}
	return false
}
