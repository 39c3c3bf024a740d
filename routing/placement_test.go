package routing

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/routing/geo"
	"github.com/quorate/quorate/statestore"
)

// placed is testState with three clusters in three regions, of which us is the last in
// the order of failover, and a GeoIP file.
func placed(edit func(*statestore.State, *statestore.Service)) (*statestore.State, Local) {
	st := geoState()
	sp := st.Spec
	sp.Regions["ap"] = &statestore.Region{Coordinates: &statestore.Coordinates{Latitude: 35.7, Longitude: 139.7}}
	sp.Clusters["ap"] = &statestore.Cluster{Region: "ap", IPv4: addrs("198.51.100.20")}
	sp.Clusters["eu"].CIDRs = []netip.Prefix{netip.MustParsePrefix("10.8.0.0/16")}
	web := sp.Services["web"]
	st.Services["web"].Rotation.V4.Shares = []statestore.Share{
		share("ap", 0, "198.51.100.20"), share("eu", 0, "192.0.2.10", "192.0.2.11"), share("us", 0, "198.51.100.10"),
	}
	if edit != nil {
		edit(st, web)
	}
	index, err := geo.New([]geo.Entry{
		{Prefix: netip.MustParsePrefix("81.2.69.0/24"), Place: geo.Place{Country: "GB", Continent: "EU"}},
		{Prefix: netip.MustParsePrefix("99.0.0.0/8"), Place: geo.Place{Country: "US", Continent: "NA", Located: true, Latitude: 40.7, Longitude: -74}},
		{Prefix: netip.MustParsePrefix("126.0.0.0/8"), Place: geo.Place{Country: "JP", Continent: "AS", Located: true, Latitude: 35, Longitude: 135}},
	}, "2026-10-07")
	if err != nil {
		panic(err)
	}
	return st, Local{Geo: index}
}

func placedTable(t testing.TB, edit func(*statestore.State, *statestore.Service)) *Table {
	t.Helper()
	st, local := placed(edit)
	table, err := Update(nil, st, local)
	require.NoError(t, err)
	return table
}

// leave takes clusters out of web's rotation.
func leave(names ...string) func(*statestore.State, *statestore.Service) {
	return func(st *statestore.State, _ *statestore.Service) {
		p := &st.Services["web"].Rotation.V4
		var left []statestore.Share
		for _, sh := range p.Shares {
			if !strings.Contains(strings.Join(names, " "), sh.Cluster) {
				left = append(left, sh)
			}
		}
		p.Shares = left
	}
}

func both(edits ...func(*statestore.State, *statestore.Service)) func(*statestore.State, *statestore.Service) {
	return func(st *statestore.State, s *statestore.Service) {
		for _, e := range edits {
			e(st, s)
		}
	}
}

func TestPlacement(t *testing.T) {
	const gb, us, jp, inEU, unknown = "81.2.69.142", "99.1.2.3", "126.1.2.3", "10.8.1.1", "203.0.113.99"
	policy := func(edit func(*statestore.Policy)) func(*statestore.State, *statestore.Service) {
		return func(_ *statestore.State, s *statestore.Service) { edit(&s.Policy) }
	}
	local := policy(func(p *statestore.Policy) {
		*p = statestore.Policy{Type: statestore.Failover, Order: []string{"us", "ap", "eu"}, Affinity: statestore.LocalAffinity}
	})
	remote := policy(func(p *statestore.Policy) {
		*p = statestore.Policy{Type: statestore.Failover, Order: []string{"eu", "us", "ap"}, Affinity: statestore.RemoteAffinity}
	})
	mapped := policy(func(p *statestore.Policy) {
		p.Map = map[string][]string{"ap": {"EU"}, "us-east": {"GB"}}
	})
	resides := func(_ *statestore.State, s *statestore.Service) { s.Residency = map[string][]string{"EU": {"eu"}} }
	order := policy(func(p *statestore.Policy) { p.Spillover = &statestore.Spillover{Order: []string{"ap", "us", "eu"}} })
	latency := func(st *statestore.State, s *statestore.Service) {
		s.Policy = statestore.Policy{Type: statestore.Latency}
		ms := func(n int) statestore.Duration { return dur(time.Duration(n) * time.Millisecond) }
		st.Latency = map[string]map[netip.Addr]statestore.Duration{"eu-west": {
			netip.MustParseAddr("192.0.2.11"): ms(90), netip.MustParseAddr("192.0.2.10"): ms(95), netip.MustParseAddr("198.51.100.10"): ms(80),
		}}
	}
	nearer := func(st *statestore.State, _ *statestore.Service) {
		st.Latency["eu-west"][netip.MustParseAddr("192.0.2.10")] = dur(70 * time.Millisecond)
	}
	full := func(cluster string) func(*statestore.State, *statestore.Service) {
		return func(st *statestore.State, _ *statestore.Service) {
			for i := range st.Services["web"].Rotation.V4.Shares {
				if sh := &st.Services["web"].Rotation.V4.Shares[i]; sh.Cluster == cluster {
					sh.Spill = 100
				}
			}
		}
	}
	weightless := func(clusters ...string) func(*statestore.State, *statestore.Service) {
		return func(st *statestore.State, _ *statestore.Service) {
			for i := range st.Services["web"].Rotation.V4.Shares {
				sh := &st.Services["web"].Rotation.V4.Shares[i]
				sh.Weight = 1
				if slices.Contains(clusters, sh.Cluster) {
					sh.Weight = 0
				}
			}
		}
	}
	mode := func(m statestore.AllDownMode) func(*statestore.State, *statestore.Service) {
		return func(_ *statestore.State, s *statestore.Service) { s.OnAllDown.Mode = m }
	}
	tests := []struct {
		name   string
		edit   func(*statestore.State, *statestore.Service)
		client string
		want   string // clusters, or the kind
		scope  uint8
	}{
		{"geo by the country of a region", nil, gb, "eu", 24},
		{"geo by coordinates", nil, us, "us", 8},
		{"geo of another continent", nil, jp, "ap", 8},
		{"geo by the cluster's network", nil, inEU, "eu", 16},
		{"geo goes to the next nearest when the nearest is out", leave("eu"), gb, "us", 24},
		{"the map's country beats its continent", mapped, gb, "us", 24},
		{"the map's continent when the country's is out", both(mapped, leave("us")), gb, "ap", 24},
		{"local affinity beats the order", local, gb, "eu", 24},
		{"local affinity, then the order", both(local, leave("eu")), gb, "us", 24},
		{"local affinity by the cluster's network", local, inEU, "eu", 16},
		{"local affinity of nobody known follows the order", local, unknown, "us", 1},
		{"remote affinity avoids the own region", remote, gb, "us", 24},
		{"remote affinity comes home when nothing else is left", both(remote, leave("us", "ap")), gb, "eu", 0},
		{"residency keeps a client at home", both(local, remote, resides), gb, "eu", 24},
		{"residency binds only whom it names", both(resides, leave("us")), us, "eu", 8},
		{"two residency rules both hold", func(_ *statestore.State, s *statestore.Service) {
			s.Residency = map[string][]string{"EU": {"ap", "eu"}, "GB": {"ap", "us"}}
		}, gb, "ap", 24},
		{"residency never answers with another cluster", both(resides, leave("eu"), mode(statestore.NoData)), gb, "NODATA", 24},
		{"residency with serve_last answers with its own, down", both(resides, leave("eu"), mode(statestore.ServeLast)), gb, "eu", 24},
		{"residency forbids a cluster that is no candidate any more", both(resides, leave("eu", "us"), func(_ *statestore.State, s *statestore.Service) {
			s.Clusters.Only, s.OnAllDown.Mode = []string{"eu", "us"}, statestore.ServeLast
		}), gb, "eu", 24},
		{"residency with servfail", both(resides, leave("eu"), mode(statestore.ServFail)), gb, "SERVFAIL", 24},
		{"spillover.order stands for nearness when the nearest is out", both(order, leave("eu")), gb, "ap", 24},
		{"spillover.order is nothing to those whose best is in", both(order, leave("eu")), us, "us", 8},
		{"spillover.order is nothing to those whose best that is allowed is in", both(order, func(_ *statestore.State, s *statestore.Service) {
			s.Residency = map[string][]string{"EU": {"ap", "us"}}
		}), gb, "us", 24},
		{"a full cluster's clients go on to the nearest", full("eu"), gb, "us", 24},
		{"a full cluster's clients go on in spillover.order", both(order, full("eu")), gb, "ap", 24},
		{"a full cluster is nothing to others' clients", full("eu"), jp, "ap", 8},
		{"the nearest without a weight stands by", weightless("eu"), gb, "us", 24},
		{"the nearest without a weight stands by, and spillover.order says for whom", both(order, weightless("eu")), gb, "ap", 24},
		{"affinity sends nobody to what has no weight", both(local, weightless("eu")), gb, "us", 24},
		{"the lowest round trip to what has no weight counts for nothing", both(latency, weightless("us")), gb, "eu", 24},
		{"without a weight beside those that residency forbids", both(resides, weightless("eu")), gb, "eu", 24},
		{"without a weight like all that are left", both(weightless("eu", "us"), leave("ap")), gb, "eu", 24},
		{"latency takes the lowest round trip", latency, gb, "us", 24},
		{"latency of a cluster is that of its nearest endpoint", both(latency, nearer), gb, "eu", 24},
		{"latency: measured beats unmeasured", both(latency, leave("us")), gb, "eu", 24},
		{"latency: nothing measured from there, so nearest", latency, jp, "ap", 8},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q := query("web.gslb.test.", "A")
			q.Client = netip.MustParseAddr(tt.client)
			a, tr := Select(placedTable(t, tt.edit), q)
			got := a.Kind.String()
			if a.Kind == NoError {
				got = strings.Join(a.Clusters, " ")
			}
			require.Equal(t, tt.want, got, "%v", tr.Steps())
			require.Equal(t, tt.scope, a.Scope, "%v", tr.Steps())
		})
	}
}

func TestTTLOverrides(t *testing.T) {
	table := placedTable(t, func(_ *statestore.State, s *statestore.Service) {
		s.Overrides = map[string]*statestore.ClusterOverride{"us": {TTL: &statestore.TTL{Normal: dur(7 * time.Second), Changing: dur(time.Second)}}}
		s.Answer.Clusters = 3
	})
	a, _ := Select(table, query("web.gslb.test.", "A"))
	require.EqualValues(t, 7, a.Set.TTL, "of several the least")
	table = placedTable(t, func(_ *statestore.State, s *statestore.Service) {
		s.Overrides = map[string]*statestore.ClusterOverride{"us": {TTL: &statestore.TTL{Normal: dur(7 * time.Second), Changing: dur(time.Second)}}}
	})
	for client, want := range map[string]uint32{"99.1.2.3": 7, "81.2.69.142": 30} {
		q := query("web.gslb.test.", "A")
		q.Client = netip.MustParseAddr(client)
		a, _ := Select(table, q)
		require.Equal(t, want, a.Set.TTL, "%s", client)
	}
}

func TestHTTPSRecordFollowsTheRotation(t *testing.T) {
	https := func(_ *statestore.State, s *statestore.Service) {
		s.HTTPSRecord = &statestore.HTTPSRecord{ALPN: []string{"h2", "h3"}}
	}
	q := query("web.gslb.test.", "HTTPS")
	q.Client = netip.MustParseAddr("81.2.69.142")
	a, _ := Select(placedTable(t, https), q)
	require.Equal(t, `NOERROR HTTPS 1 . alpn="h2,h3" ipv4hint="192.0.2.10,192.0.2.11" ipv6hint="2001:db8:1::10"`, shown(a))
	a, _ = Select(placedTable(t, both(https, leave("eu"))), q)
	require.Equal(t, `NOERROR HTTPS 1 . alpn="h2,h3" ipv6hint="2001:db8:1::10"`, shown(a), "eu is out over IPv4 alone")
	v6 := func(st *statestore.State, _ *statestore.Service) {
		st.Services["web"].Rotation.V6 = statestore.Pool{AllDown: statestore.ServeLast, Shares: []statestore.Share{share("eu", 0, "2001:db8:1::10")}}
	}
	a, _ = Select(placedTable(t, both(https, leave("eu"), v6)), q)
	require.Equal(t, `NOERROR HTTPS 1 . alpn="h2,h3" ipv4hint="198.51.100.10"`, shown(a), "a family that is down is not mixed in")
	a, _ = Select(placedTable(t, nil), q)
	require.Equal(t, "NODATA", shown(a), "without https_record")
}

func TestPortsAndHTTPSOfAStatefulServiceFollowItsSide(t *testing.T) {
	ask := func(edit func(*statestore.Ownership), local Local, name, typ string) string {
		st := owned(edit)
		st.Spec.Services["db"].HTTPSRecord = &statestore.HTTPSRecord{}
		st.Spec.Services["db"].SRV = &statestore.SRVRecord{Port: 5432, Proto: "tcp"}
		table, err := Update(nil, st, local)
		require.NoError(t, err)
		a, tr := Select(table, query(name, typ))
		require.NotEmpty(t, tr.Steps())
		return shown(a)
	}
	active := func(*statestore.Ownership) {}
	moving := func(o *statestore.Ownership) { o.Next = 13 }
	withheld := Local{Withheld: map[string]string{"db": "its epoch is not on disk"}}
	require.Contains(t, ask(active, Local{}, "db.gslb.test.", "HTTPS"), `NOERROR HTTPS 1 . ipv4hint="192.0.2.10`)
	require.Equal(t, "NOERROR SRV 0 0 5432 db.gslb.test.", ask(active, Local{}, "_db._tcp.gslb.test.", "SRV"))
	for _, typ := range []string{"A", "HTTPS"} {
		require.Equal(t, "SERVFAIL", ask(moving, Local{}, "db.gslb.test.", typ))
		require.Equal(t, "SERVFAIL", ask(active, withheld, "db.gslb.test.", typ))
	}
	require.Equal(t, "SERVFAIL", ask(moving, Local{}, "_db._tcp.gslb.test.", "SRV"))
	require.Equal(t, "SERVFAIL", ask(active, withheld, "_db._tcp.gslb.test.", "SRV"))
}

// The whole-number sphere agrees with the one of floating point.
func TestPositions(t *testing.T) {
	for lat := -90.0; lat <= 90; lat += 7.3 {
		for lon := -180.0; lon <= 180; lon += 11.9 {
			p := positionOf(lat, lon)
			length := p.x*p.x/one + p.y*p.y/one + p.z*p.z/one
			require.InDelta(t, one, length, 64, "%v %v", lat, lon)
		}
	}
	tokyo, osaka, london := positionOf(35.7, 139.7), positionOf(34.7, 135.5), positionOf(51.5, -0.1)
	require.Less(t, tokyo.apart(osaka), tokyo.apart(london))
	require.InDelta(t, 4*one, positionOf(90, 0).apart(positionOf(-90, 0))/one, 16)
	fiji, samoa := positionOf(-18, 178), positionOf(-13.8, -172)
	require.Less(t, fiji.apart(samoa), fiji.apart(positionOf(-18, 150)), "over the date line")
}

func TestStandInsShareByTheWeightsPolicyGivesThem(t *testing.T) {
	half := 50
	tests := []struct {
		name string
		edit func(*statestore.State, *statestore.Service)
		want string
	}{
		{"no weight is declared", nil, "eu 50% us 50%"},
		{"one cluster's weight is overridden", func(_ *statestore.State, s *statestore.Service) {
			s.Overrides = map[string]*statestore.ClusterOverride{"eu": {Weight: new(int)}, "us": {Weight: &half}}
		}, "us 100%"},
		{"one cluster's weight is overridden and the other has none", func(_ *statestore.State, s *statestore.Service) {
			s.Overrides = map[string]*statestore.ClusterOverride{"us": {Weight: new(int)}}
			*s.Overrides["us"].Weight = 1
		}, "eu 50% us 50%"},
		{"by capacity", func(st *statestore.State, _ *statestore.Service) {
			for _, c := range st.Spec.Clusters {
				c.Capacity = 10
			}
			st.Spec.Clusters["eu"].Capacity = 30
		}, "eu 75% us 25%"},
		{"the weights of the spec", func(_ *statestore.State, s *statestore.Service) {
			s.Policy.Weights = map[string]int{"eu": 1, "us": 3, "ap": 6}
		}, "eu 25% us 75%"},
	}
	for _, tt := range tests {
		for _, rotation := range []string{"of a cluster that residency forbids", "not yet committed"} {
			t.Run(tt.name+", rotation "+rotation, func(t *testing.T) {
				table := placedTable(t, func(st *statestore.State, s *statestore.Service) {
					s.Policy = statestore.Policy{Type: statestore.Weighted}
					s.Residency = map[string][]string{"EU": {"eu", "us"}}
					s.OnAllDown.Mode = statestore.ServeAll
					if tt.edit != nil {
						tt.edit(st, s)
					}
					leave("eu", "us")(st, s)
					if rotation == "not yet committed" {
						st.Services["web"].Rotation = statestore.Rotation{}
					}
				})
				shares, kind := table.Shares("web.gslb.test.", TypeA, SampleClient{Client: netip.MustParseAddr("81.2.69.142")})
				require.Equal(t, NoError, kind)
				var got []string
				for _, sh := range shares {
					if sh.Percent > 0 {
						got = append(got, fmt.Sprintf("%s %.0f%%", sh.Cluster, sh.Percent))
					}
				}
				require.Equal(t, tt.want, strings.Join(got, " "))
			})
		}
	}
}
