package api

import (
	"cmp"
	"context"
	"encoding/json"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/routing"
)

const (
	// trafficWait bounds asking the other nodes what their clients asked for: what this
	// node saw is here already.
	trafficWait = time.Second

	// trafficKept is how long what a node said, or that it said nothing, is good for:
	// a page that asks every second does not ask them every second.
	trafficKept = 5 * time.Second

	// trafficOld is how long what a node said counts that cannot be reached any more.
	trafficOld = time.Minute
)

// Traffic is what clients asked a node's DNS for lately, by service.
type Traffic struct {
	Hour     time.Duration    `json:"hour"`   // how much of the last hour that is
	Recent   time.Duration    `json:"recent"` // of the last ten minutes
	Services []ServiceTraffic `json:"services"`
}

// ServiceTraffic is what clients asked one service for.
type ServiceTraffic struct {
	Service        string           `json:"service"`
	Answers        uint64           `json:"answers"` // in the last hour
	Recent         uint64           `json:"recent"`  // in the last ten minutes
	Networks       []NetworkTraffic `json:"networks,omitempty"`
	RecentNetworks int              `json:"recent_networks"`
	More           bool             `json:"more,omitempty"` // RecentNetworks are not all
}

// NetworkTraffic is how many queries came from a network.
type NetworkTraffic struct {
	Prefix  netip.Prefix `json:"prefix"`
	Queries uint64       `json:"queries"` // in the last hour
	Recent  uint64       `json:"recent,omitempty"`
}

// traffic is that of all nodes that told theirs, together.
type traffic struct {
	told    []string // nodes, sorted
	untold  []string // members that answer DNS but told nothing
	hour    time.Duration
	recent  time.Duration
	service map[string]*serviceTraffic
}

type serviceTraffic struct {
	answers        uint64 // in the last hour
	recentAnswers  uint64
	perSecond      float64          // in the last ten minutes
	networks       []NetworkTraffic // the busiest first
	recentNetworks int              // at least
	more           bool
}

// toldTraffic is what one node told.
type toldTraffic struct {
	at time.Time
	tr *Traffic // nil: it told nothing
}

// trafficCache keeps what the other nodes told.
type trafficCache struct {
	mu   sync.Mutex // guards told
	told map[string]toldTraffic
}

// get returns what a node told last, and whether it need not be asked again.
func (tc *trafficCache) get(node string, now time.Time) (*Traffic, bool) {
	tc.mu.Lock()
	defer tc.mu.Unlock()
	t, ok := tc.told[node]
	if !ok || now.Sub(t.at) > trafficOld {
		return nil, false
	}
	return t.tr, now.Sub(t.at) < trafficKept
}

func (tc *trafficCache) put(node string, now time.Time, tr *Traffic) {
	tc.mu.Lock()
	defer tc.mu.Unlock()
	if tc.told == nil {
		tc.told = map[string]toldTraffic{}
	}
	tc.told[node] = toldTraffic{now, tr}
}

// traffic asks every node that can be reached what its clients asked for. It answers
// within trafficWait, with what it has.
func (s *Server) traffic(ctx context.Context) traffic {
	if s.cfg.Traffic == nil {
		return traffic{}
	}
	all := map[string]*Traffic{s.cfg.Node: new(s.cfg.Traffic())}
	var asked []string
	now := s.cfg.Now()
	for _, srv := range s.cfg.Quorum().Servers {
		if srv.Name == s.cfg.Node {
			continue
		}
		tr, fresh := s.told.get(srv.Name, now)
		all[srv.Name] = tr
		if !fresh && srv.Reachable && s.cfg.Call != nil {
			asked = append(asked, srv.Name)
		}
	}
	answers := make([]*Traffic, len(asked))
	var wg sync.WaitGroup
	for i, node := range asked {
		wg.Go(func() { answers[i] = s.askTraffic(ctx, node) })
	}
	wg.Wait()
	for i, node := range asked {
		s.told.put(node, now, answers[i])
		all[node] = answers[i]
	}
	return addTraffic(all)
}

// askTraffic returns what a node's clients asked for; nil: it does not say.
func (s *Server) askTraffic(ctx context.Context, node string) *Traffic {
	body, err := json.Marshal(question{Traffic: true})
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, trafficWait)
	defer cancel()
	reply, err := s.cfg.Call(ctx, node, PeerMethod, body)
	if err != nil {
		return nil // it is named as one that told nothing
	}
	tr := new(Traffic)
	if json.Unmarshal(reply, tr) != nil {
		return nil
	}
	return tr
}

// trafficForPeer answers another node's question.
func (s *Server) trafficForPeer() ([]byte, error) {
	if s.cfg.Traffic == nil {
		return nil, unsupported("tell what clients ask for")
	}
	return json.Marshal(s.cfg.Traffic())
}

// addTraffic adds up what nodes told.
func addTraffic(all map[string]*Traffic) traffic {
	out := traffic{service: map[string]*serviceTraffic{}}
	networks := map[string]map[netip.Prefix]NetworkTraffic{}
	for _, node := range sortedKeys(all) {
		tr := all[node]
		if tr == nil {
			out.untold = append(out.untold, node)
			continue
		}
		out.told = append(out.told, node)
		out.hour, out.recent = max(out.hour, tr.Hour), max(out.recent, tr.Recent)
		for _, sv := range tr.Services {
			sum := out.service[sv.Service]
			if sum == nil {
				sum = &serviceTraffic{}
				out.service[sv.Service], networks[sv.Service] = sum, map[netip.Prefix]NetworkTraffic{}
			}
			sum.add(tr.Recent, sv, networks[sv.Service])
		}
	}
	for name, sum := range out.service {
		sum.settle(networks[name])
	}
	return out
}

// add adds one node's part of a service. The networks of two nodes may be the same.
func (t *serviceTraffic) add(recent time.Duration, sv ServiceTraffic, networks map[netip.Prefix]NetworkTraffic) {
	t.answers += sv.Answers
	t.recentAnswers += sv.Recent
	if recent > 0 {
		t.perSecond += float64(sv.Recent) / recent.Seconds()
	}
	here := 0
	for _, n := range sv.Networks {
		sum := networks[n.Prefix]
		sum.Prefix, sum.Queries, sum.Recent = n.Prefix, sum.Queries+n.Queries, sum.Recent+n.Recent
		networks[n.Prefix] = sum
		if n.Recent > 0 {
			here++
		}
	}
	t.recentNetworks = max(t.recentNetworks, sv.RecentNetworks)
	t.more = t.more || sv.More || here < sv.RecentNetworks
}

func (t *serviceTraffic) settle(networks map[netip.Prefix]NetworkTraffic) {
	here := 0
	for _, n := range networks {
		t.networks = append(t.networks, n)
		if n.Recent > 0 {
			here++
		}
	}
	t.recentNetworks = max(t.recentNetworks, here)
	slices.SortFunc(t.networks, func(a, b NetworkTraffic) int {
		return cmp.Or(cmp.Compare(b.Queries, a.Queries), a.Prefix.Compare(b.Prefix))
	})
}

// view is a service's traffic as people see it; nil where no node knows any.
func (t traffic) view(table *routing.Table, service string) *apitype.ServiceTraffic {
	if len(t.told) == 0 {
		return nil
	}
	out := &apitype.ServiceTraffic{
		Seconds: t.recent.Seconds(), Regions: []apitype.RegionTraffic{}, Nodes: t.told, MissingNodes: orEmpty(t.untold),
	}
	sum := t.service[service]
	if sum == nil {
		return out
	}
	out.Answers, out.AnswersPerSecond = sum.recentAnswers, sum.perSecond
	out.Networks, out.MoreNetworks = sum.recentNetworks, sum.more
	if table != nil {
		out.Regions = regionsOf(table, service, sum)
	}
	return out
}

// regionsOf says where those are who asked lately, and what they get now.
func regionsOf(t *routing.Table, service string, sum *serviceTraffic) []apitype.RegionTraffic {
	all, byRegion := uint64(0), map[string]*serviceTraffic{}
	for _, n := range sum.networks {
		if n.Recent == 0 {
			continue
		}
		region := t.Client(n.Prefix).Region
		if byRegion[region] == nil {
			byRegion[region] = &serviceTraffic{}
		}
		part := byRegion[region]
		part.networks, part.recentAnswers = append(part.networks, n), part.recentAnswers+n.Recent
		all += n.Recent
	}
	out := []apitype.RegionTraffic{}
	for _, region := range sortedKeys(byRegion) {
		part := byRegion[region]
		out = append(out, apitype.RegionTraffic{
			Region: region, Percent: 100 * float64(part.recentAnswers) / float64(all), Answers: orEmpty(observedParts(t, service, part)),
		})
	}
	slices.SortStableFunc(out, func(a, b apitype.RegionTraffic) int { return cmp.Compare(b.Percent, a.Percent) })
	return out
}
