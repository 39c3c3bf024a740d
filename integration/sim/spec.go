package sim

import (
	"net/netip"
	"time"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

const zone = "gslb.test."

// spec is what installations serve: web over three clusters by equal weight, and
// shop over the same in order.
func spec() *statestore.Spec {
	return &statestore.Spec{
		Version: 1,
		Zones:   map[string]*statestore.Zone{zone: {}},
		Clusters: map[string]*statestore.Cluster{
			"eu": {Region: "eu", IPv4: []netip.Addr{netip.MustParseAddr("192.0.2.10")}},
			"us": {Region: "us", IPv4: []netip.Addr{netip.MustParseAddr("192.0.2.20")}},
			"ap": {Region: "ap", IPv4: []netip.Addr{netip.MustParseAddr("192.0.2.30")}},
		},
		Services: map[string]*statestore.Service{
			"web":  service("web", statestore.Policy{Type: statestore.Weighted}),
			"shop": service("shop", statestore.Policy{Type: statestore.Failover, Order: []string{"eu", "us", "ap"}}),
		},
		Safety: statestore.Safety{
			MinServingClusters: 1, MaxDrained: 1,
			Changes: statestore.Budget{Causes: 100, Per: statestore.Duration(10 * time.Minute)},
		},
	}
}

func service(name string, p statestore.Policy) *statestore.Service {
	second := statestore.Duration(time.Second)
	return &statestore.Service{
		Zone: zone, Names: []string{name},
		Checks: statestore.Checks{All: []*statestore.Check{{
			Name: "check", Interval: second, Timeout: second / 2, Fall: 3, Rise: 2, Recheck: second / 5, StaleAfter: 3 * second,
			TCP: &statestore.TCPCheck{Port: 80},
		}}},
		Quorum:    statestore.Quorum{MinVotes: 2},
		Policy:    p,
		TTL:       statestore.TTL{Normal: 30 * second, Changing: 5 * second},
		OnAllDown: statestore.OnAllDown{Mode: statestore.ServeLast},
		OnStale:   statestore.OnStale{After: 30 * second, Answer: statestore.StaleKeep},
		Answer:    statestore.Answer{Clusters: 1, Addresses: 8},
	}
}

// target is a service at a cluster's address.
func target(service, cluster string) health.Target {
	return health.Target{Service: service, Cluster: cluster, Endpoint: spec().Clusters[cluster].IPv4[0]}
}
