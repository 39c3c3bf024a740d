package config

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/statestore"
)

// placed returns the service x of the spec around the cases, and the spec.
func placed(t *testing.T, service, more string) (*statestore.Service, *statestore.Spec) {
	t.Helper()
	r, errs := ParseSpec("spec", []byte(marker+"x\nservices: { x: { checks: { all: [ok] }, "+service+" } }\n"+more+"\n"+marker+"base\n"+around))
	require.Empty(t, Format(errs))
	require.Empty(t, FormatNotes(r.Unused))
	return r.Spec.Services["x"], r.Spec
}

func TestPolicies(t *testing.T) {
	tests := []struct {
		name, policy string
		want         statestore.Policy
	}{
		{"weights are left to capacities", "type: weighted", statestore.Policy{Type: "weighted"}},
		{"latency needs no more", "type: latency", statestore.Policy{Type: "latency"}},
		{"geo without a map", "type: geo", statestore.Policy{Type: "geo"}},
		{"geo with nothing but its default", "type: geo, map: { default: nearest }", statestore.Policy{Type: "geo"}},
		{"geo takes places, and all others go to the nearest", "type: geo, map: { us-east: [NA, SA], eu-west: [EU, IE], default: nearest }", statestore.Policy{
			Type: "geo", Map: map[string][]string{"us-east": {"NA", "SA"}, "eu-west": {"EU", "IE"}},
		}},
		{"NO is Norway", "type: geo, map: { eu-west: [NO] }", statestore.Policy{Type: "geo", Map: map[string][]string{"eu-west": {"NO"}}}},
		{"nobody is preferred", "type: geo, affinity: none, sticky: none", statestore.Policy{Type: "geo"}},
		{"one's own is preferred", "type: failover, order: [us, eu, dr], affinity: local", statestore.Policy{Type: "failover", Order: []string{"us", "eu", "dr"}, Affinity: "local"}},
		{"the network sticks", "type: weighted, affinity: remote, sticky: client_subnet", statestore.Policy{Type: "weighted", Affinity: "remote", Sticky: true}},
		{"failover has nothing to stick to", "type: failover, order: [us, eu, dr], sticky: none", statestore.Policy{Type: "failover", Order: []string{"us", "eu", "dr"}}},
		{"spillover is to the nearest", "type: geo, spillover: { to: nearest, at: 0.2 }", statestore.Policy{Type: "geo", Spillover: &statestore.Spillover{At: 0.2}}},
		{"spillover may be all that is said", "type: latency, spillover: {}", statestore.Policy{Type: "latency", Spillover: &statestore.Spillover{}}},
		{"spillover has its order", "type: geo, spillover: { order: [dr, us] }", statestore.Policy{Type: "geo", Spillover: &statestore.Spillover{Order: []string{"dr", "us"}}}},
		{"failover spills in its own order", "type: failover, order: [us, eu, dr], spillover: { at: 0.5 }", statestore.Policy{
			Type: "failover", Order: []string{"us", "eu", "dr"}, Spillover: &statestore.Spillover{At: 0.5},
		}},
		{"what is local spills under weighted", "type: weighted, affinity: local, spillover: { at: 0.5 }", statestore.Policy{
			Type: "weighted", Affinity: "local", Spillover: &statestore.Spillover{At: 0.5},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, _ := placed(t, "policy: { "+tt.policy+" }", "")
			require.Equal(t, tt.want, s.Policy)
		})
	}
}

func TestResidencyAndMinHealthy(t *testing.T) {
	s, _ := placed(t, "policy: { type: geo }, residency: { EU: [eu, dr], CH: [us, eu] }, min_healthy: 2", "")
	require.Equal(t, map[string][]string{"EU": {"eu", "dr"}, "CH": {"us", "eu"}}, s.Residency)
	require.Equal(t, 2, s.MinHealthy)

	s, _ = placed(t, "policy: { type: geo }, min_healthy: 1", "")
	require.Nil(t, s.Residency)
	require.Zero(t, s.MinHealthy, "as if it were not set")

	s, _ = placed(t, "policy: { type: geo }, min_healthy: 9", "clusters: { ap: { region: ap, capacity: 1, hostname: lb.example.net } }")
	require.Equal(t, 9, s.MinHealthy, "what a hostname comes to is not known yet")
}

// What names a cluster that the selector leaves out is no part of the effective spec.
func TestWhatIsNoCandidateHasNoEffect(t *testing.T) {
	s, _ := placed(t, "clusters: { exclude: [dr] }, policy: { type: geo }, residency: { EU: [dr, eu] }, overrides: { dr: { weight: 1 }, us: { weight: 2 } }", "")
	require.Equal(t, map[string][]string{"EU": {"eu"}}, s.Residency)
	require.Len(t, s.Overrides, 1)
	require.Contains(t, s.Overrides, "us")
}

func TestOverrides(t *testing.T) {
	s, _ := placed(t, `names: [api], ttl: { normal: 20s, changing: 4s }, policy: { type: weighted }, overrides: {
      eu: { weight: 0 }, us: { host: "{service}.us.example.net", ttl: 15s }, dr: { ttl: { normal: 3s } } }`, "")
	require.Equal(t, map[string]*statestore.ClusterOverride{
		"eu": {Weight: new(0)},
		"us": {Host: "api.us.example.net", TTL: &statestore.TTL{Normal: sec(15), Changing: sec(15)}},
		"dr": {TTL: &statestore.TTL{Normal: sec(3), Changing: sec(3)}},
	}, s.Overrides)
}

func TestRecordsOfAService(t *testing.T) {
	s, _ := placed(t, "policy: { type: geo }, https_record: {}, srv: { port: 53, proto: udp }", "")
	require.Equal(t, &statestore.HTTPSRecord{}, s.HTTPSRecord)
	require.Equal(t, &statestore.SRVRecord{Port: 53, Proto: "udp"}, s.SRV)
	s, _ = placed(t, "policy: { type: geo }", "")
	require.Nil(t, s.HTTPSRecord)
	require.Nil(t, s.SRV)
	// Other records may stand at the same name.
	placed(t, "policy: { type: geo }, https_record: {}, srv: { port: 53 }", "zones: { gslb.example.com: { records: { x: { TXT: [a] }, _x._udp: { SRV: [a] } } } }")
}

func TestRegionsAndClusters(t *testing.T) {
	_, sp := placed(t, "policy: { type: geo }", `
regions: { ap: { countries: [SG, ID, MY] }, af: { coordinates: [-33, 18.5] } }
clusters:
  ap: { region: ap, capacity: 10, hostname: LB.ap.example.net, capacity_from: { http: { json: "$.free" } } }
  af: { region: af, capacity: 10, ipv4: [192.0.2.99], cidrs: [192.0.2.0/24], capacity_from: { prometheus: {
    url: "http://metrics.example.net/federate", metric: kube_deployment_status_replicas_available, of: kube_deployment_spec_replicas,
    labels: { deployment: web }, max_age: 30s, change: 5 } } }
`)
	require.Equal(t, &statestore.Region{Countries: []string{"ID", "MY", "SG"}}, sp.Regions["ap"])
	require.Equal(t, &statestore.Region{Coordinates: &statestore.Coordinates{Latitude: -33, Longitude: 18.5}}, sp.Regions["af"])
	require.Equal(t, &statestore.Cluster{
		Region: "ap", Capacity: 10, Hostname: "lb.ap.example.net.",
		CapacityFrom: &statestore.CapacityFrom{MaxAge: sec(60), Change: 10, HTTP: &statestore.CapacityHTTP{Port: 443, Path: "/", JSON: "$.free"}},
	}, sp.Clusters["ap"])
	require.Equal(t, &statestore.Cluster{
		Region: "af", Capacity: 10, IPv4: []netip.Addr{netip.MustParseAddr("192.0.2.99")}, CIDRs: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
		CapacityFrom: &statestore.CapacityFrom{MaxAge: sec(30), Change: 5, Prometheus: &statestore.CapacityPrometheus{
			URL: "http://metrics.example.net/federate", Metric: "kube_deployment_status_replicas_available", Of: "kube_deployment_spec_replicas",
			Labels: map[string]string{"deployment": "web"},
		}},
	}, sp.Clusters["af"])
	r, errs := ParseSpec("s", []byte(doc("", weighted+"check: {http: {}}")))
	require.Empty(t, errs)
	require.Nil(t, r.Spec.Regions)
}

func TestCountriesAreSortedAndKnown(t *testing.T) {
	seen := map[string]bool{}
	for _, list := range []string{countries, continents} {
		last := ""
		for i := 0; i < len(list); i += 3 {
			c := list[i : i+2]
			require.Less(t, last, c)
			require.True(t, i+2 == len(list) || list[i+2] == ' ', c)
			last = c
			seen[c] = true
		}
	}
	require.Len(t, seen, 250+3, "ISO 3166-1, XK, and AN, EU and OC, which are no countries")
	for _, c := range []string{"", "A", "D ", "E A", "ie", "ZZ"} {
		require.False(t, oneOfCodes(countries, c), c)
	}
}

func TestWhereANodeLooksThingsUp(t *testing.T) {
	n, errs, _ := ParseNode("n", []byte(aroundNode+"dns: { geoip: { database: city.mmdb, reload: 5m } }\nobserver: { resolver: [\"192.0.2.53:53\", \"[2001:db8::53]:5353\"] }\n"))
	require.Empty(t, Format(errs))
	require.Empty(t, n.Unused)
	require.Equal(t, GeoIP{Database: "city.mmdb", Reload: sec(300).D()}, n.DNS.GeoIP)
	require.Equal(t, []netip.AddrPort{netip.MustParseAddrPort("192.0.2.53:53"), netip.MustParseAddrPort("[2001:db8::53]:5353")}, n.Observer.Resolvers)

	n, errs, _ = ParseNode("n", []byte(aroundNode))
	require.Empty(t, Format(errs))
	require.Equal(t, GeoIP{Reload: sec(3600).D()}, n.DNS.GeoIP)
	require.Nil(t, n.Observer.Resolvers)
}
