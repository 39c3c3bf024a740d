package statestore

import (
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
)

// What a spec may not say about probing and placing, whatever decoded it.
func TestPlacementSpecRefusals(t *testing.T) {
	web := func(edit func(*Service)) func(*Spec) { return func(sp *Spec) { edit(sp.Services["web"]) } }
	check := func(c Check) func(*Spec) {
		c.Name = "probe"
		return web(func(s *Service) { s.Checks.Any = []*Check{&c} })
	}
	dr := func(edit func(*Cluster)) func(*Spec) { return func(sp *Spec) { edit(sp.Clusters["dr"]) } }
	from := func(edit func(*CapacityFrom)) func(*Spec) {
		return func(sp *Spec) { edit(sp.Clusters["eu"].CapacityFrom) }
	}
	region := func(r *Region) func(*Spec) {
		return func(sp *Spec) { sp.Regions = map[string]*Region{"eu": r, "us": {Countries: []string{"US"}}} }
	}
	at := func(lat, lon float64) *Region {
		return &Region{Coordinates: &Coordinates{Latitude: lat, Longitude: lon}}
	}
	tests := []struct {
		name string
		edit func(*Spec)
		text string
	}{
		{"an empty region", region(nil), "regions.eu: must not be empty"},
		{"too far north", region(at(90.1, 0)), "regions.eu.coordinates: must be a latitude of -90 to 90 and a longitude of -180 to 180, is 90.1, 0"},
		{"too far west", region(at(0, -180.1)), "is 0, -180.1"},
		{"a country that is none", region(&Region{Countries: []string{"ie"}}), `regions.eu.countries: must be codes of two upper-case letters, is "ie"`},
		{"a country in two regions", region(&Region{Countries: []string{"US"}}), "regions.us.countries: US is of eu already"},
		{"a country twice", region(&Region{Countries: []string{"IE", "IE"}}), "IE is of eu already"},

		{"an affinity that is none", web(func(s *Service) { s.Policy.Affinity = "near" }), `services.web.policy.affinity: must be local or remote or not there, is "near"`},
		{"a continent that is none", web(func(s *Service) { s.Policy.Map = map[string][]string{"eu": {"Europe"}} }), "services.web.policy.map.eu: must be codes of two"},
		{"a continent for two regions", web(func(s *Service) { s.Policy.Map = map[string][]string{"eu": {"EU"}, "us": {"NA", "EU"}} }), "services.web.policy.map.us: EU is of eu already"},
		{"spilling to nowhere", web(func(s *Service) { s.Policy.Spillover = &Spillover{Order: []string{"mars"}} }), `services.web.policy.spillover.order: no cluster is named "mars"`},
		{"spilling above all", web(func(s *Service) { s.Policy.Spillover = &Spillover{At: 1.5} }), "services.web.policy.spillover.at: must be 0 to 1, is 1.5"},
		{"spilling below nothing", web(func(s *Service) { s.Policy.Spillover = &Spillover{At: -0.1} }), "is -0.1"},
		{"residency of nobody", web(func(s *Service) { s.Residency = map[string][]string{"EU": {"mars"}} }), `services.web.residency.EU: no cluster is named "mars"`},
		{"residency nowhere", web(func(s *Service) { s.Residency = map[string][]string{"EU": {}} }), "services.web.residency.EU: must name one of its clusters (dr, eu, us)"},
		{"residency where it never is", web(func(s *Service) { s.Clusters.Exclude, s.Residency = []string{"dr"}, map[string][]string{"EU": {"dr"}} }), "must name one of its clusters (eu, us)"},
		{"residency of a word", web(func(s *Service) { s.Residency = map[string][]string{"Europe": {"eu"}} }), `services.web.residency: must be codes of two upper-case letters, is "Europe"`},
		{"fewer than none healthy", web(func(s *Service) { s.MinHealthy = -1 }), "services.web.min_healthy: must not be negative, is -1"},
		{"an answer of fewer than none", web(func(s *Service) { s.Answer.Clusters = -1 }), "services.web.answer: must not be negative"},
		{"an override of nobody", web(func(s *Service) { s.Overrides = map[string]*ClusterOverride{"mars": {}} }), `services.web.overrides: no cluster is named "mars"`},
		{"an empty override", web(func(s *Service) { s.Overrides = map[string]*ClusterOverride{"eu": nil} }), "services.web.overrides.eu: must not be empty"},
		{"a negative weight", web(func(s *Service) { s.Overrides = map[string]*ClusterOverride{"eu": {Weight: new(-1)}} }), "services.web.overrides.eu.weight: must not be negative, is -1"},
		{"a negative ttl", web(func(s *Service) { s.Overrides = map[string]*ClusterOverride{"eu": {TTL: &TTL{Changing: -1}}} }), "services.web.overrides.eu.ttl: must not be negative"},
		{"a host that is none", web(func(s *Service) { s.Overrides = map[string]*ClusterOverride{"eu": {Host: "a b"}} }), `services.web.overrides.eu.host: must be a host name, is "a b"`},
		{"a host of two lines", web(func(s *Service) { s.Overrides = map[string]*ClusterOverride{"eu": {Host: "a\r\nb: c"}} }), "must be a host name"},
		{"sorry for nothing", web(func(s *Service) { s.OnAllDown = OnAllDown{Mode: Sorry, Sorry: []netip.Addr{{}}} }), "services.web.on_all_down.sorry: must be addresses"},
		{"an empty protocol", web(func(s *Service) { s.HTTPSRecord = &HTTPSRecord{ALPN: []string{"h2", ""}} }), "services.web.https_record.alpn: must be of 1 to 255 octets each"},
		{"a long protocol", web(func(s *Service) { s.HTTPSRecord = &HTTPSRecord{ALPN: []string{strings.Repeat("h", 256)}} }), "https_record.alpn"},
		{"no port to find", web(func(s *Service) { s.SRV = &SRVRecord{Proto: "tcp"} }), "services.web.srv.port: must be 1 to 65535, is 0"},
		{"a protocol to find that is none", web(func(s *Service) { s.SRV = &SRVRecord{Port: 1, Proto: "sctp"} }), `services.web.srv.proto: must be tcp or udp, is "sctp"`},

		{"a check of nothing", check(Check{}), "services.web.checks.any.probe: must be one of http, https, tcp, tls, grpc, dns and icmp, is 0 of them"},
		{"a check of two kinds", check(Check{TCP: &TCPCheck{Port: 1}, ICMP: &ICMPCheck{Count: 1}}), "is 2 of them"},
		{"an empty check", web(func(s *Service) { s.Checks.Any = []*Check{nil} }), "services.web.checks.any: must not hold an empty check"},
		{"no port", check(Check{TCP: &TCPCheck{}}), "services.web.checks.any.probe.tcp.port: must be 1 to 65535, is 0"},
		{"a port too high", check(Check{HTTP: &HTTPCheck{Port: 65536}}), "probe.http.port: must be 1 to 65535, is 65536"},
		{"https without a port", check(Check{HTTPS: &HTTPCheck{}}), "probe.https.port"},
		{"tls without a port", check(Check{TLS: &HandshakeCheck{}}), "probe.tls.port"},
		{"grpc without a port", check(Check{GRPC: &GRPCCheck{}}), "probe.grpc.port"},
		{"dns without a question", check(Check{DNS: &DNSCheck{Port: 53}}), "probe.dns: must have a name, a type and an rcode"},
		{"no echo", check(Check{ICMP: &ICMPCheck{}}), "probe.icmp.count: must be 1 to 100, is 0"},
		{"a flood", check(Check{ICMP: &ICMPCheck{Count: 101}}), "must be 1 to 100, is 101"},
		{"more lost than sent", check(Check{ICMP: &ICMPCheck{Count: 1, MaxLoss: 1.1}}), "probe.icmp.max_loss: must be 0 to 1, is 1.1"},
		{"a status that is none", check(Check{HTTP: &HTTPCheck{Port: 1, Expect: HTTPExpect{Status: []StatusRange{{200, 600}}}}}), "probe.http.expect.status: must be 100 to 599, is 200-600"},
		{"a range from behind", check(Check{HTTPS: &HTTPCheck{Port: 1, Expect: HTTPExpect{Status: []StatusRange{{299, 200}}}}}), "is 299-200"},
		{"less than no body", check(Check{HTTP: &HTTPCheck{Port: 1, Expect: HTTPExpect{MaxBody: -1}}}), "probe.http.expect: must not be negative"},
		{"a front door of nothing", dr(func(c *Cluster) { c.Check = &Check{Name: "door"} }), "clusters.dr.check.door: must be one of"},

		{"a hostname that is none", dr(func(c *Cluster) { c.Hostname = "a b.example.net" }), `clusters.dr.hostname: must be a host name, is "a b.example.net"`},
		{"a hostname without a label", dr(func(c *Cluster) { c.Hostname = "a..b" }), "must be a host name"},
		{"the root", dr(func(c *Cluster) { c.Hostname = "." }), "must be a host name"},
		{"a long hostname", dr(func(c *Cluster) { c.Hostname = strings.Repeat("a.", 127) + "aa" }), "must be a host name"},
		{"capacity from nowhere", from(func(c *CapacityFrom) { c.HTTP = nil }), "clusters.eu.capacity_from: must be either http or prometheus"},
		{"capacity from two places", from(func(c *CapacityFrom) { c.Prometheus = &CapacityPrometheus{URL: "http://x/", Metric: "m"} }), "must be either"},
		{"capacity without a port", from(func(c *CapacityFrom) { c.HTTP.Port = 0 }), "clusters.eu.capacity_from.http.port: must be 1 to 65535, is 0"},
		{"capacity without a path", from(func(c *CapacityFrom) { c.HTTP.JSON = "" }), "clusters.eu.capacity_from.http: must have a path and a json"},
		{"capacity without a metric", from(func(c *CapacityFrom) { c.HTTP, c.Prometheus = nil, &CapacityPrometheus{URL: "http://x/"} }), "clusters.eu.capacity_from.prometheus: must have a url and a metric"},
		{"capacity that never ages", from(func(c *CapacityFrom) { c.MaxAge = 0 }), "clusters.eu.capacity_from.max_age: must be positive, is 0s"},
		{"capacity that hardly changes", from(func(c *CapacityFrom) { c.Change = 101 }), "clusters.eu.capacity_from.change: must be 0 to 100 percent, is 101"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := placed(t)
			r.refuses(ApplySpec{Base: 1, Spec: placedEdited(tt.edit)}, ErrInvalid, tt.text)
		})
	}
	var f findings
	checkRegions(&f, &Spec{Regions: map[string]*Region{"x": at(math.NaN(), 0)}})
	require.Len(t, f, 1, "what is no number is in no range")
}

// everything has each key of placement and each kind of check.
func everything(sp *Spec) {
	s := sp.Services["web"]
	s.Policy = Policy{
		Type: Geo, Affinity: LocalAffinity, Map: map[string][]string{"eu": {"EU", "AF"}, "us": {"NA"}},
		Spillover: &Spillover{Order: []string{"dr", "us"}, At: 0.2}, Sticky: true,
	}
	s.Residency = map[string][]string{"EU": {"eu", "dr"}}
	s.MinHealthy = 2
	s.Overrides = map[string]*ClusterOverride{"dr": {Weight: new(5), Host: "web.dr.example.net", TTL: &TTL{Normal: Duration(time.Minute)}}}
	s.HTTPSRecord, s.SRV = &HTTPSRecord{ALPN: []string{"h2", "h3"}}, &SRVRecord{Port: 443, Proto: "tcp"}
	s.Answer = Answer{Clusters: 2, Addresses: 8}
	s.Checks.Any = []*Check{
		{Name: "http", HTTP: &HTTPCheck{Port: 80}},
		{Name: "https", HTTPS: &HTTPCheck{Port: 443, TLS: &TLSCheck{Verify: true}, Expect: HTTPExpect{
			Status: []StatusRange{{200, 299}}, JSON: map[string]string{"$.db": "ready"}, MaxLatency: ms(800), MaxBody: 1 << 16,
		}, Warn: Warn{CertExpiresAfter: Duration(time.Hour)}}},
		{Name: "tcp", TCP: &TCPCheck{Port: 5432}},
		{Name: "tls", TLS: &HandshakeCheck{Port: 465}},
		{Name: "grpc", GRPC: &GRPCCheck{Port: 443}},
		{Name: "dns", DNS: &DNSCheck{Port: 53, Name: "x.", Type: "A", RCode: "NOERROR"}},
		{Name: "icmp", ICMP: &ICMPCheck{Count: 3, MaxLoss: 0.5}},
	}
	sp.Regions = map[string]*Region{
		"eu": {Coordinates: &Coordinates{Latitude: 53.35, Longitude: -6.26}, Countries: []string{"GB", "IE"}},
		"ap": {Coordinates: &Coordinates{Latitude: -90, Longitude: 180}},
		"us": {},
	}
	sp.Clusters["us"].CapacityFrom = &CapacityFrom{
		Prometheus: &CapacityPrometheus{URL: "http://m.example.net/", Metric: "a", Of: "b"}, MaxAge: Duration(time.Minute),
	}
}

func TestASpecOfEverythingIsTakenAndReadsBack(t *testing.T) {
	r := placed(t)
	sp := placedEdited(everything)
	r.must(ApplySpec{Base: 1, Spec: sp})
	require.Contains(t, string(r.lastEvent().Detail), `"added":["regions/ap","regions/eu","regions/us"]`)
	require.JSONEq(t, asJSON(t, sp.WithAddresses(r.st().Spec)), asJSON(t, r.st().Spec))
	sp.Regions["us"] = &Region{Countries: []string{"US"}}
	r.must(ApplySpec{Base: 2, Spec: sp})
	require.Contains(t, string(r.lastEvent().Detail), `"changed":["regions/us"]`)
}

// What a change of the spec has judged anew: nothing but what is probed in another
// way.
func TestWhichTargetsASpecHasJudgedAnew(t *testing.T) {
	tests := []struct {
		name string
		edit func(*Spec)
		anew []string // clusters of web
	}{
		{"a policy", func(sp *Spec) { sp.Services["web"].Policy = Policy{Type: Geo, Affinity: LocalAffinity} }, nil},
		{"residency", func(sp *Spec) { sp.Services["web"].Residency = map[string][]string{"EU": {"eu"}} }, nil},
		{"weights and times of a cluster", func(sp *Spec) {
			sp.Services["web"].Overrides = map[string]*ClusterOverride{"eu": {Weight: new(3), TTL: &TTL{Normal: 1}}}
		}, nil},
		{"records", func(sp *Spec) { sp.Services["web"].SRV = &SRVRecord{Port: 1, Proto: "udp"} }, nil},
		{"regions", func(sp *Spec) { sp.Regions = map[string]*Region{"eu": {}} }, nil},
		{"min_healthy", func(sp *Spec) { sp.Services["web"].MinHealthy = 2 }, nil},
		{"a host for one cluster", func(sp *Spec) {
			sp.Services["web"].Overrides = map[string]*ClusterOverride{"us": {Host: "us.example.net"}, "eu": {Weight: new(1)}}
		}, []string{"us"}},
		{"how often and how patiently it is asked", func(sp *Spec) {
			c := sp.Services["web"].Checks.All[0]
			c.Interval, c.Timeout, c.Fall, c.Rise, c.Recheck, c.StaleAfter = 1, 2, 3, 4, 5, 6
			sp.Clusters["eu"].Check.Fall = 9
		}, nil},
		{"another name for a check", func(sp *Spec) { sp.Services["web"].Checks.All[0].Name = "other" }, nil},
		{"a check", func(sp *Spec) { sp.Services["web"].Checks.All[0].TCP.Port = 81 }, []string{"dr", "eu", "us"}},
		{"a front door", func(sp *Spec) { sp.Clusters["eu"].Check.TCP.Port = 81 }, []string{"eu"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := placed(t)
			r.must(ApplySpec{Base: 1, Spec: placedEdited(tt.edit)})
			var anew []string
			for _, c := range []string{"dr", "eu", "us"} {
				if r.verdict(target("web", c, r.st().Spec.Clusters[c].IPv4[0])).Side != health.Up {
					anew = append(anew, c)
				}
			}
			require.Equal(t, tt.anew, anew)
		})
	}
	r := placed(t)
	host := func(h string) *Spec {
		return placedEdited(func(sp *Spec) { sp.Services["web"].Overrides = map[string]*ClusterOverride{"us": {Host: h}} })
	}
	r.must(ApplySpec{Base: 1, Spec: host("a.example.net")})
	r.allVote(health.Up)
	r.must(ApplySpec{Base: 2, Spec: host("a.example.net")})
	require.Equal(t, health.Up, r.verdict(web("us")).Side, "the same host again")
	r.must(ApplySpec{Base: 3, Spec: placedSpec()})
	require.Equal(t, health.Unknown, r.verdict(web("us")).Side, "the host is gone")
}

// Another warning moves nothing, so it takes no verdict away either.
func TestAnotherWarningHasNothingJudgedAnew(t *testing.T) {
	soon, later := Warn{CertExpiresAfter: 1}, Warn{CertExpiresAfter: 2, MaxLatency: 3}
	kinds := map[string]func(Warn) *Check{
		"http":  func(w Warn) *Check { return &Check{HTTP: &HTTPCheck{Port: 80, Warn: w}} },
		"https": func(w Warn) *Check { return &Check{HTTPS: &HTTPCheck{Port: 443, Warn: w}} },
		"tls":   func(w Warn) *Check { return &Check{TLS: &HandshakeCheck{Port: 443, Warn: w}} },
	}
	for name, check := range kinds {
		t.Run(name, func(t *testing.T) {
			with := func(w Warn) *Spec {
				return placedEdited(func(sp *Spec) {
					sp.Clusters["eu"].Check = check(w)
					sp.Services["web"].Checks = Checks{All: []*Check{{TCP: &TCPCheck{Port: 1}}}, Any: []*Check{check(w)}}
				})
			}
			r := placed(t)
			r.must(ApplySpec{Base: 1, Spec: with(soon)})
			r.allVote(health.Up)
			before := r.st().Services["web"].Targets
			r.must(ApplySpec{Base: 2, Spec: with(later)})
			require.Equal(t, before, r.st().Services["web"].Targets)
			require.Equal(t, health.Up, r.verdict(door("eu")).Side)
			require.Equal(t, check(later), r.st().Spec.Clusters["eu"].Check, "the warning itself is taken")
		})
	}
}

func TestTheDigestCoversPlacement(t *testing.T) {
	base := placedEdited(everything)
	for name, edit := range map[string]func(*Spec){
		"affinity":      func(sp *Spec) { sp.Services["web"].Policy.Affinity = RemoteAffinity },
		"map":           func(sp *Spec) { sp.Services["web"].Policy.Map["us"] = nil },
		"spillover":     func(sp *Spec) { sp.Services["web"].Policy.Spillover.At = 0.3 },
		"sticky":        func(sp *Spec) { sp.Services["web"].Policy.Sticky = false },
		"residency":     func(sp *Spec) { delete(sp.Services["web"].Residency, "EU") },
		"min_healthy":   func(sp *Spec) { sp.Services["web"].MinHealthy++ },
		"overrides":     func(sp *Spec) { sp.Services["web"].Overrides["dr"].Host = "x" },
		"https_record":  func(sp *Spec) { sp.Services["web"].HTTPSRecord = nil },
		"srv":           func(sp *Spec) { sp.Services["web"].SRV.Port++ },
		"expect":        func(sp *Spec) { sp.Services["web"].Checks.Any[1].HTTPS.Expect.MaxBody++ },
		"addresses":     func(sp *Spec) { sp.Clusters["dr"].IPv4 = lb[:1] },
		"hostname":      func(sp *Spec) { sp.Clusters["dr"].Hostname = "x" },
		"capacity_from": func(sp *Spec) { sp.Clusters["eu"].CapacityFrom.Change++ },
	} {
		other := placedEdited(everything)
		edit(other)
		require.NotEqual(t, base.ServiceDigest("web"), other.ServiceDigest("web"), name)
	}
}

func TestRotationsOfTheNewPolicies(t *testing.T) {
	spill := func(percents ...int) func(*Pool) {
		return func(p *Pool) {
			for i, s := range percents {
				p.Shares[i].Spill = s
			}
		}
	}
	weights := func(ws ...int) func(*Pool) {
		return func(p *Pool) {
			for i, w := range ws {
				p.Shares[i].Weight = w
			}
		}
	}
	tests := []struct {
		name   string
		policy PolicyType
		edit   func(*Pool)
		text   string // of the refusal; empty: taken
	}{
		{"a part of one spills", Latency, spill(40), ""},
		{"all of one spill", Latency, spill(100), ""},
		{"all of all but one spill", Geo, spill(100, 100), ""},
		{"all of all spill", Geo, spill(100, 100, 100), "every cluster sends all of its clients on"},
		{"less than nobody spills", Geo, spill(-1), "dr has the spill -1, it must be 0 to 100"},
		{"more than all spill", Weighted, spill(0, 101), "eu has the spill 101, it must be 0 to 100"},
		{"a weight of nothing stands by", Weighted, weights(0, 0, 1), ""},
		{"weighted without a weight", Weighted, weights(0, 0, 0), "no cluster has a weight"},
		{"geo without a weight", Geo, weights(0, 0, 0), "no cluster has a weight"},
		{"latency without a weight", Latency, weights(0, 0, 0), "no cluster has a weight"},
		{"failover without a weight", Failover, weights(0, 0, 0), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := placed(t, func(sp *Spec) { sp.Services["near"].Policy.Type = tt.policy })
			c := r.auto("near")
			tt.edit(&c.V4)
			number := r.st().Services["near"].Rotation.Number
			if tt.text != "" {
				r.refuses(c, ErrInvalid, "service near: rotation v4: "+tt.text)
				return
			}
			r.must(c)
			require.Equal(t, number+1, r.st().Services["near"].Rotation.Number, "it is another answer")
		})
	}
}

func TestTheCacheClockWaitsForTheLongestTTL(t *testing.T) {
	r := placed(t, func(sp *Spec) {
		sp.Services["web"].Overrides = map[string]*ClusterOverride{"dr": {TTL: &TTL{Normal: Duration(time.Hour), Changing: 1}}, "us": {TTL: &TTL{Normal: 1}}}
	})
	r.must(r.pin("web", "us", 0))
	require.Equal(t, r.st().Now.Add(time.Hour), r.st().Services["web"].Rotation.Clears)
	require.Equal(t, 30*time.Second, r.st().Spec.Services["near"].LongestTTL())
}
