package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/statestore"
)

// asking returns a network that asked so often, in the last ten minutes all of it.
func asking(prefix string, queries uint64) NetworkTraffic {
	return NetworkTraffic{Prefix: netip.MustParsePrefix(prefix), Queries: queries, Recent: queries}
}

func trafficOf(service string, answers uint64, networks ...NetworkTraffic) Traffic {
	return Traffic{Hour: 30 * time.Minute, Recent: 10 * time.Minute, Services: []ServiceTraffic{{
		Service: service, Answers: answers, Recent: answers, Networks: networks, RecentNetworks: len(networks),
	}}}
}

// tell lets this node and two peers tell their traffic; nil: it cannot be had.
func (r *rig) tell(own Traffic, peers map[string]*Traffic) *atomic.Int64 {
	asked := new(atomic.Int64)
	r.server.cfg.Traffic = func() Traffic { return own }
	r.server.cfg.Call = func(_ ctxt, node, _ string, body []byte) ([]byte, error) {
		var q question
		if err := json.Unmarshal(body, &q); err != nil || !q.Traffic {
			return nil, errors.New("another question")
		}
		asked.Add(1)
		if peers[node] == nil {
			return nil, errors.New("cut off")
		}
		return json.Marshal(peers[node])
	}
	return asked
}

func TestAPlanTellsWhatBecomesOfTheQueriesOfTheLastHour(t *testing.T) {
	r := newPlacedRig(t)
	r.tell(
		trafficOf("web", 700, asking("10.1.7.0/24", 600), asking("10.2.8.0/24", 100)),
		map[string]*Traffic{"us-1": new(trafficOf("web", 300, asking("10.2.8.0/24", 100), asking("10.2.9.0/24", 200)))},
	)
	spec := placedSpec()
	spec.Clusters["eu"].CIDRs = []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("10.2.9.0/24")}
	spec.Clusters["us"].CIDRs = []netip.Prefix{netip.MustParsePrefix("10.2.8.0/24")}
	web := reached(r.plan(spec).Clients, "web")
	require.NotNil(t, web.Observed)
	require.Equal(t, apitype.ObservedReach{
		Seconds: 1800, Networks: 3, Queries: 1000, CoveredPercent: 100, MovedPercent: 20, MissingNodes: []string{"ap-1"},
	}, *web.Observed)
	require.Contains(t, web.Moves, apitype.ClientMove{Client: "network 10.2.9.0/24", Region: "us-east", Percent: 20, Before: "us", After: "eu"})
	require.Equal(t, 6+3, web.Sampled, "two regions, four networks of clusters, and those who asked")
	require.Equal(t, "20% of the queries of the last 30m would get another cluster   (3 client networks; nothing known of ap-1)", web.Observed.Text())
}

func TestAPlanTellsWhatBecomesOfWeights(t *testing.T) {
	r := newRig(t)
	r.votes(2, true, nil)
	r.tell(trafficOf("shop", 10, asking("192.0.2.0/24", 10)), nil)
	spec := testSpec()
	spec.Services["shop"].Policy = statestore.Policy{Type: statestore.Weighted, Weights: map[string]int{"eu": 80, "us": 20}}
	shop := reached(r.plan(spec).Clients, "shop")
	require.Equal(t, "eu 50%, us 50%", shop.Moves[0].Before)
	require.InDelta(t, 30, shop.Observed.MovedPercent, 1e-9, "of each client's answers three in ten go elsewhere")
	require.Zero(t, shop.Observed.LostPercent)
	delete(spec.Services, "shop")
	shop = reached(r.plan(spec).Clients, "shop")
	require.InDelta(t, 100, shop.Observed.LostPercent, 1e-9)
	require.Zero(t, shop.Observed.MovedPercent)
}

func TestOnlyTheBusiestNetworksAreLookedAt(t *testing.T) {
	r := newPlacedRig(t)
	var networks []NetworkTraffic
	for i := range 2 * maxObserved {
		networks = append(networks, asking(fmt.Sprintf("10.1.%d.%d/32", i/256, i%256), uint64(1000-i)))
	}
	r.tell(trafficOf("web", 1, networks...), nil)
	spec := placedSpec()
	spec.Services["web"].Policy.Affinity = statestore.RemoteAffinity
	web := reached(r.plan(spec).Clients, "web")
	require.Equal(t, maxObserved, web.Observed.Networks)
	require.InDelta(t, 56.2, web.Observed.CoveredPercent, 0.1)
	require.InDelta(t, 100, web.Observed.MovedPercent, 1e-9)
	require.Len(t, web.Moves, maxMoves)
	require.Equal(t, web.Sampled, web.Moved)
}

func TestACutoverTellsWhoAsksForItsService(t *testing.T) {
	r := newStatefulRig(t)
	quiet := trafficOf("web", 5)
	peers := map[string]*Traffic{
		"us-1": new(trafficOf("orders-db", 12_000, asking("10.2.8.0/24", 30), asking("203.0.113.0/24", 30))),
		"ap-1": &quiet,
	}
	asked := r.tell(trafficOf("orders-db", 6000, asking("203.0.113.0/24", 40)), peers)
	r.proposed()
	require.EqualValues(t, 2, asked.Load())
	co := items[apitype.Cutover](t, r.as("alice", "GET", "/v1/cutovers/CUT-1", ""))[0]
	require.EqualValues(t, 2, asked.Load(), "what a node told is good for a moment")
	tr := co.Reach.Traffic
	require.NotNil(t, tr)
	require.Equal(t, 2, tr.Networks, "who asks two nodes is one network")
	require.EqualValues(t, 18_000, tr.Answers)
	require.InDelta(t, 30, tr.AnswersPerSecond, 1e-9)
	require.Equal(t, []apitype.RegionTraffic{{Region: "", Percent: 100, Answers: []apitype.Percent{{Cluster: "eu", Percent: 100}}}}, tr.Regions)
	require.Equal(t, []string{"ap-1", "eu-1", "us-1"}, tr.Nodes)
	require.Empty(t, tr.MissingNodes)
	require.Equal(t, "2 client networks in the last 10m, ~30 answers/s", tr.Text())
	page := r.as("alice", "GET", "/cutovers/CUT-1", "").body
	require.Contains(t, page, "2 client networks in the last 10m, ~30 answers/s")
	require.Contains(t, page, "unknown 100%")

	r.set(func() { r.quorum.Servers[2].Reachable = false })
	r.server.told = trafficCache{}
	tr = items[apitype.Cutover](t, r.as("alice", "GET", "/v1/cutovers/CUT-1", ""))[0].Reach.Traffic
	require.Equal(t, []string{"ap-1"}, tr.MissingNodes, "who cannot be reached is not waited for")
	require.Contains(t, tr.Text(), "(nothing known of ap-1)")

	r.as("alice", "POST", "/v1/cutovers/CUT-1/reject", `{"reason":"not now"}`)
	ended := items[apitype.Cutover](t, r.as("alice", "GET", "/v1/cutovers/CUT-1", ""))[0]
	require.Nil(t, ended.Reach.Traffic, "it would be of now, not of then")
}

func TestNobodyAskedIsSaid(t *testing.T) {
	r := newStatefulRig(t)
	r.tell(Traffic{Hour: 4 * time.Minute, Recent: 4 * time.Minute}, nil)
	require.Equal(t, "nobody asked in the last 4m (nothing known of ap-1, us-1)", r.proposed().Reach.Traffic.Text())
}

func TestANodeTellsItsTrafficToPeers(t *testing.T) {
	r := newRig(t)
	body, err := json.Marshal(question{Traffic: true})
	require.NoError(t, err)
	_, err = r.server.Peer(t.Context(), "us-1", body)
	require.Error(t, err, "it does not know any")
	want := trafficOf("web", 3, asking("192.0.2.0/24", 3))
	r.tell(want, nil)
	reply, err := r.server.Peer(t.Context(), "us-1", body)
	require.NoError(t, err)
	var got Traffic
	require.NoError(t, json.Unmarshal(reply, &got))
	require.Equal(t, want, got)
}

func TestMoreNetworksThanWereTold(t *testing.T) {
	one, two := trafficOf("web", 1, asking("192.0.2.0/24", 1)), trafficOf("web", 1, asking("198.51.100.0/24", 1))
	one.Services[0].RecentNetworks = 412 // of which it told one
	sum := addTraffic(map[string]*Traffic{"a": &one, "b": &two}).service["web"]
	require.Equal(t, 412, sum.recentNetworks)
	require.True(t, sum.more)
	one.Services[0].RecentNetworks = 1
	sum = addTraffic(map[string]*Traffic{"a": &one, "b": &two}).service["web"]
	require.Equal(t, 2, sum.recentNetworks)
	require.False(t, sum.more)
}

func TestAServiceTellsWhatItsClientsGet(t *testing.T) {
	r := newPlacedRig(t)
	require.Nil(t, items[apitype.Service](t, r.get("/v1/services/web"))[0].Traffic)
	r.tell(trafficOf("web", 10, asking("10.1.7.0/24", 9), asking("10.2.7.0/24", 1)), nil)
	require.Equal(t, []apitype.RegionTraffic{
		{Region: "eu-west", Percent: 90, Answers: []apitype.Percent{{Cluster: "eu", Percent: 100}}},
		{Region: "us-east", Percent: 10, Answers: []apitype.Percent{{Cluster: "us", Percent: 100}}},
	}, items[apitype.Service](t, r.get("/v1/services/web"))[0].Traffic.Regions)
	require.Empty(t, items[apitype.Service](t, r.get("/v1/services/shop"))[0].Traffic.Regions)
}

func TestADrainTellsWhereThoseWhoAskGo(t *testing.T) {
	r := newPlacedRig(t)
	drain := func() apitype.Impact {
		t.Helper()
		act := items[apitype.Act](t, r.post("/v1/clusters/eu/drain", `{"reason":"upgrade","for":"2h","dry_run":true}`))[0]
		for _, im := range act.Impact {
			if im.Service == "web" {
				return im
			}
		}
		t.Fatal("web is not said")
		return apitype.Impact{}
	}
	before := drain()
	require.Zero(t, before.ObservedSeconds, "no node knows who asks")
	r.tell(trafficOf("shop", 1), nil)
	require.Equal(t, before, drain(), "nobody asked for web")
	r.tell(trafficOf("web", 10, asking("10.1.7.0/24", 9), asking("10.2.7.0/24", 1)), nil)
	im := drain()
	require.Equal(t, []apitype.Percent{{Cluster: "eu", Percent: 90}, {Cluster: "us", Percent: 10}}, im.Before)
	require.Equal(t, []apitype.Percent{{Cluster: "us", Percent: 100}}, im.After)
	require.EqualValues(t, 1800, im.ObservedSeconds)
	require.True(t, im.Moves)
}
