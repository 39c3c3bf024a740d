package routing

import (
	"net/netip"
	"time"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

const testZone = "gslb.test."

func dur(d time.Duration) statestore.Duration { return statestore.Duration(d) }

func addrs(list ...string) []netip.Addr {
	var out []netip.Addr
	for _, a := range list {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}

func share(cluster string, weight int, endpoints ...string) statestore.Share {
	return statestore.Share{Cluster: cluster, Weight: weight, Endpoints: addrs(endpoints...)}
}

func testService(typ statestore.PolicyType, names ...string) *statestore.Service {
	return &statestore.Service{
		Zone: testZone, Names: names,
		Policy:    statestore.Policy{Type: typ, Order: []string{"eu", "us"}},
		TTL:       statestore.TTL{Normal: dur(30 * time.Second), Changing: dur(5 * time.Second)},
		OnAllDown: statestore.OnAllDown{Mode: statestore.ServeLast},
		OnStale:   statestore.OnStale{After: dur(30 * time.Second), Answer: statestore.StaleKeep},
		Answer:    statestore.Answer{Clusters: 1, Addresses: 8},
	}
}

func testMember(name string, role statestore.MemberRole, dns statestore.Advertise) *statestore.Member {
	return &statestore.Member{Name: name, Role: role, DNS: dns}
}

// testState is three nodes, two clusters and some names: web is weighted at "web"
// and the apex, db is failover with IPv4 only.
func testState() *statestore.State {
	st := &statestore.State{
		Index: 40, Generation: 1, TableIndex: 33, Revision: 2,
		Members: map[string]*statestore.Member{
			"us-1": testMember("us-1", statestore.Voter, statestore.Advertise{IPv4: addrs("203.0.113.2")}),
			"eu-1": testMember("eu-1", statestore.Voter, statestore.Advertise{IPv4: addrs("203.0.113.1"), IPv6: addrs("2001:db8:f::1")}),
			"ap-1": testMember("ap-1", statestore.Nonvoter, statestore.Advertise{Name: "ns-ap.example.net.", IPv4: addrs("203.0.113.3")}),
			"aa-1": testMember("aa-1", statestore.Voter, statestore.Advertise{}),
		},
		Spec: &statestore.Spec{
			Zones: map[string]*statestore.Zone{testZone: {
				NSTTL: dur(time.Hour),
				SOA:   statestore.SOA{Refresh: dur(time.Hour), Retry: dur(15 * time.Minute), Expire: dur(7 * 24 * time.Hour), NegativeTTL: dur(30 * time.Second)},
				Records: map[string]map[string][]string{
					"@":          {"TXT": {`"v=spf1 -all"`}, "CAA": {`0 issue "letsencrypt.org"`}},
					"status":     {"CNAME": {"status.example.net."}},
					"www":        {"CNAME": {"web"}},
					"gone":       {"CNAME": {"nowhere"}},
					"loop":       {"CNAME": {"loop"}},
					"deep.empty": {"TXT": {"below"}},
					"*.wild":     {"A": {"192.0.2.77"}},
					"x.wild":     {"TXT": {"hides the wildcard"}},
					"*.alias":    {"CNAME": {"db"}},
				},
			}},
			Clusters: map[string]*statestore.Cluster{
				"eu": {Region: "eu-west", IPv4: addrs("192.0.2.10", "192.0.2.11"), IPv6: addrs("2001:db8:1::10")},
				"us": {Region: "us-east", IPv4: addrs("198.51.100.10")},
			},
			Services: map[string]*statestore.Service{
				"web": testService(statestore.Weighted, "web", "@"),
				"db":  testService(statestore.Failover, "db"),
			},
		},
		Services: map[string]*statestore.ServiceState{
			"web": {Rotation: statestore.Rotation{
				Number: 3,
				V4:     statestore.Pool{Shares: []statestore.Share{share("eu", 75, "192.0.2.10", "192.0.2.11"), share("us", 25, "198.51.100.10")}},
				V6:     statestore.Pool{Shares: []statestore.Share{share("eu", 75, "2001:db8:1::10")}},
			}},
			"db": {Rotation: statestore.Rotation{
				Number: 1,
				V4:     statestore.Pool{Shares: []statestore.Share{share("eu", 0, "192.0.2.10", "192.0.2.11"), share("us", 0, "198.51.100.10")}},
			}},
		},
		Clusters:  map[string]*statestore.ClusterState{"eu": {}, "us": {}},
		Observers: map[health.ObserverID]*statestore.Observer{},
	}
	st.Spec.Services["db"].Clusters.Only = []string{"eu", "us"}
	for name, run := range st.Services {
		run.Targets = map[health.Target]*statestore.TargetState{}
		for c, cl := range st.Spec.Clusters {
			for _, e := range cl.Endpoints() {
				run.Targets[health.Target{Service: name, Cluster: c, Endpoint: e}] = &statestore.TargetState{Verdict: health.Verdict{Number: 1, Side: health.Up}}
			}
		}
	}
	st.Spec.Clusters["us"].IPv6 = nil
	return st
}

func query(name, typ string) Query {
	number, _ := ParseType(typ)
	return Query{Name: name, Type: number, Client: netip.MustParseAddr("203.0.113.99")}
}

// prepared are the table's services in the order of their numbers.
func prepared(t *Table) []*service {
	var list []*service
	for _, s := range t.services.all() {
		list = append(list, s)
	}
	return list
}
