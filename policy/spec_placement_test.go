package policy

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

func TestARemovedClusterIsDrainedFirst(t *testing.T) {
	w := upWorld(t, func(sp *statestore.Spec) { sp.Services["api"] = testService("api") })
	gone := clone(w.st().Spec, func(sp *statestore.Spec) { delete(sp.Clusters, "ap") })
	f := CheckSpec(w.st(), gone)
	require.Equal(t, []Blocker{{Rule: RuleInUse, Waivable: true, Reason: "clusters.ap: api and web are still answered with it; " +
		`first: quorate drain ap --reason "...", and wait until old answers are gone; or have apply do both: quorate apply -f FILE --cascade --reason "..."`}}, f.Blockers)
	require.NoError(t, w.clone().try(applyOf(w.st(), gone)), "forced it is applied")

	drain := func(c string, services ...string) {
		w.do(statestore.DrainCluster{Cluster: c, Services: services, Reason: "test", Rotations: DrainRotations(w.st(), c, services)})
	}
	drain("eu")
	f = CheckSpec(w.st(), gone)
	require.Contains(t, f.Blockers[0].Reason, "first: quorate undrain eu, quorate drain ap ", "max_drained is 1")
	w.do(statestore.UndrainCluster{Cluster: "eu", Rotations: UndrainRotations(w.st(), "eu")})
	drain("ap", "web")
	f = CheckSpec(w.st(), gone)
	require.Contains(t, f.Blockers[0].Reason, "clusters.ap: api is still answered with it")
	drain("ap")
	require.Empty(t, CheckSpec(w.st(), gone).Blockers)
}

func TestAnOpenSelectorOfAStatefulServiceIsSaid(t *testing.T) {
	sa := func(sp *statestore.Spec) {
		sp.Clusters["sa"] = &statestore.Cluster{Region: "sa-east", Labels: map[string]string{"env": "prod"}, IPv4: addrs("192.0.2.40")}
	}
	open := db(func(s *statestore.Service) {
		s.Clusters.Match = "env!=test"
		s.Policy = statestore.Policy{Type: statestore.Weighted}
	})
	w := upWorld(t, open)
	f := CheckSpec(w.st(), clone(w.st().Spec, sa))
	require.Empty(t, f.Blockers)
	require.Contains(t, f.Warnings, `services.db.clusters: match: "env!=test" takes in sa, which is new to it, as a side it may move to; `+
		`to keep it out: clusters: {only: [ap, eu, us]}`)
	closed := upWorld(t, db(func(s *statestore.Service) { s.Clusters.Only = []string{"eu", "us", "ap"} }))
	require.Empty(t, CheckSpec(closed.st(), clone(closed.st().Spec, sa)).Warnings)
}

func TestResidencySaysWhoIsLeftWithout(t *testing.T) {
	w := upWorld(t)
	geo := func(name string) {
		m := *w.st().Members[name]
		m.Geo = "2026-10-07"
		w.do(statestore.UpsertMember{Member: m})
	}
	for _, name := range sortedKeys(w.st().Members) {
		geo(name)
	}
	in := func(clusters ...string) *statestore.Spec {
		return clone(w.st().Spec, web(func(s *statestore.Service) { s.Residency = map[string][]string{"EU": clusters} }))
	}
	require.Empty(t, CheckSpec(w.st(), in("eu", "us")).Warnings)
	w.all(health.Down, "us")
	w.settle()
	require.Equal(t, []string{"services.web.residency.EU: only eu is left for clients in EU: us is down"}, CheckSpec(w.st(), in("eu", "us")).Warnings)
	require.Equal(t, []string{"services.web.residency.EU: clients in EU go on getting us all the same: us is down"}, CheckSpec(w.st(), in("us")).Warnings)
	w.do(applyOf(w.st(), in("eu", "us")))
	require.Empty(t, CheckSpec(w.st(), clone(w.st().Spec, func(sp *statestore.Spec) { sp.Safety.MaxDrained = 2 })).Warnings, "said when it was applied")

	none := clone(w.st().Spec, web(func(s *statestore.Service) {
		s.Clusters.Exclude = []string{"ap"}
		s.Residency = map[string][]string{"EU": {"ap"}}
	}))
	require.Contains(t, rules(CheckSpec(w.st(), none).Blockers), RuleResidency)
}

func TestAskingWhereClientsAreTakesAGeoIPFile(t *testing.T) {
	w := upWorld(t)
	f := CheckSpec(w.st(), clone(w.st().Spec, web(func(s *statestore.Service) {
		s.Policy = statestore.Policy{Type: statestore.Geo, Map: map[string][]string{"eu-west": {"EU"}, "mars": {"AF"}}}
	})))
	require.Equal(t, []string{
		"services.web.policy.map.mars: no candidate is in mars, so its clients go to the nearest",
		"services.web: it asks where clients are, and ap-1, eu-1 and us-1 have no GeoIP file (dns.geoip.database in node.yaml): there only cidrs tell",
	}, f.Warnings)
	f = CheckSpec(w.st(), clone(w.st().Spec, web(func(s *statestore.Service) { s.Policy = statestore.Policy{Type: statestore.Geo} })))
	require.Contains(t, strings.Join(f.Warnings, "\n"), "geo with neither a map nor coordinates")
}

func TestTheOwnerOfAnSRVRecordIsNotTaken(t *testing.T) {
	w := upWorld(t)
	srv := web(func(s *statestore.Service) { s.SRV = &statestore.SRVRecord{Port: 443, Proto: "tcp"} })
	require.Empty(t, CheckSpec(w.st(), clone(w.st().Spec, srv)).Blockers)
	f := CheckSpec(w.st(), clone(w.st().Spec, srv, func(sp *statestore.Spec) {
		z := *sp.Zones["gslb.example.com."]
		z.Records = map[string]map[string][]string{"_web._tcp": {"SRV": {"0 0 443 www"}}}
		sp.Zones["gslb.example.com."] = &z
	}))
	require.Equal(t, []string{RuleNameServer}, rules(f.Blockers))
	require.Contains(t, f.Blockers[0].Reason, "services.web.srv: _web._tcp.gslb.example.com. is already zones.gslb.example.com.records._web._tcp.SRV")
}

func TestANewHostnameMustNotLeaveAServiceWithoutAnAddress(t *testing.T) {
	w := drWorld(t, func(sp *statestore.Spec) {
		s := testService("only")
		s.Clusters.Only = []string{"dr"}
		sp.Services["only"] = s
	})
	moved := clone(w.st().Spec, func(sp *statestore.Spec) {
		sp.Clusters["dr"] = &statestore.Cluster{Region: "eu-central", Hostname: "lb2.dr.example.net"}
	})
	f := CheckSpec(w.st(), moved)
	require.Equal(t, []string{RuleMinServing, RuleMinServing}, rules(f.Blockers))
	require.Contains(t, f.Blockers[1].Reason, "services.only: it would have no address until a hostname is resolved")
	require.Error(t, w.try(applyOf(w.st(), moved)), "Apply agrees")
}

func TestWhatApplyRefusesIsABlocker(t *testing.T) {
	w := upWorld(t)
	f := CheckSpec(w.st(), clone(w.st().Spec, web(func(s *statestore.Service) {
		s.Policy.Spillover = &statestore.Spillover{Order: []string{"mars"}, At: 2}
	})))
	require.Equal(t, []string{RuleRefused}, rules(f.Blockers))
	require.Contains(t, f.Blockers[0].Reason, `no cluster is named "mars"`)
	require.Contains(t, f.Blockers[0].Reason, "spillover.at: must be 0 to 1", "all at once")
}

func TestMatches(t *testing.T) {
	w := upWorld(t, web(func(s *statestore.Service) { s.Clusters.Match = "region!=mars" }))
	require.Empty(t, Matches(w.st().Spec, w.st().Spec))
	spec := clone(w.st().Spec, func(sp *statestore.Spec) {
		delete(sp.Clusters, "ap")
		sp.Clusters["sa"] = &statestore.Cluster{Region: "sa-east", IPv4: addrs("192.0.2.40")}
		sp.Services["api"] = testService("api")
		sp.Services["api"].Clusters = statestore.Selector{Only: []string{"eu", "us"}, Exclude: []string{"us"}}
	})
	require.Equal(t, []Match{
		{Service: "api", Selector: "only: [eu, us], exclude: [us]", Clusters: []string{"eu"}},
		{Service: "web", Selector: `match: "region!=mars"`, Clusters: []string{"eu", "sa", "us"}, Came: []string{"sa"}, Went: []string{"ap"}},
	}, Matches(w.st().Spec, spec))
}

// classed says the class of each key's change. A key that is missing here fails.
func TestEveryKeyHasAClass(t *testing.T) {
	second := statestore.Duration(time.Second)
	weight := 3
	cluster := map[string]struct {
		edit func(*statestore.Cluster)
		want Class
	}{
		"ID":           {func(c *statestore.Cluster) { c.ID = 9 }, ClassIdentity},
		"Region":       {func(c *statestore.Cluster) { c.Region = "elsewhere" }, ClassIdentity},
		"CIDRs":        {func(c *statestore.Cluster) { c.CIDRs = prefixes("10.0.0.0/8") }, ClassIdentity},
		"Labels":       {func(c *statestore.Cluster) { c.Labels = map[string]string{"a": "b"} }, ClassNone},
		"IPv4":         {func(c *statestore.Cluster) { c.IPv4 = addrs("192.0.2.99") }, ClassAnswers},
		"IPv6":         {func(c *statestore.Cluster) { c.IPv6 = addrs("2001:db8::99") }, ClassAnswers},
		"Capacity":     {func(c *statestore.Cluster) { c.Capacity = 7 }, ClassNone},
		"Check":        {func(c *statestore.Cluster) { c.Check = testService("x").Checks.All[0] }, ClassNone},
		"Hostname":     {func(c *statestore.Cluster) { c.Hostname = host; c.IPv4 = nil }, ClassAnswers},
		"CapacityFrom": {func(c *statestore.Cluster) { c.CapacityFrom = &statestore.CapacityFrom{MaxAge: second} }, ClassNone},
	}
	service := map[string]struct {
		edit func(*statestore.Service)
		want Class
	}{
		"Zone":       {func(s *statestore.Service) { s.Zone = "other.example.com." }, ClassIdentity},
		"Names":      {func(s *statestore.Service) { s.Names = []string{"www"} }, ClassIdentity},
		"Owner":      {func(s *statestore.Service) { s.Owner = "team" }, ClassNone},
		"Clusters":   {func(s *statestore.Service) { s.Clusters.Exclude = []string{"ap"} }, ClassAnswers},
		"Checks":     {func(s *statestore.Service) { s.Checks.Any = s.Checks.All }, ClassNone},
		"Quorum":     {func(s *statestore.Service) { s.Quorum.MinVotes = 3 }, ClassNone},
		"Policy":     {func(s *statestore.Service) { s.Policy.Affinity = statestore.LocalAffinity }, ClassAnswers},
		"TTL":        {func(s *statestore.Service) { s.TTL.Normal += second }, ClassTTL},
		"OnAllDown":  {func(s *statestore.Service) { s.OnAllDown.Mode = statestore.NoData }, ClassAnswers},
		"OnStale":    {func(s *statestore.Service) { s.OnStale.Answer = statestore.StaleServFail }, ClassAnswers},
		"Answer":     {func(s *statestore.Service) { s.Answer.Clusters = 2 }, ClassAnswers},
		"Stateful":   {func(s *statestore.Service) { s.Stateful = &statestore.Stateful{Preferred: "eu"} }, ClassStateful},
		"Residency":  {func(s *statestore.Service) { s.Residency = map[string][]string{"EU": {"eu"}} }, ClassAnswers},
		"MinHealthy": {func(s *statestore.Service) { s.MinHealthy = 2 }, ClassAnswers},
		"Overrides": {func(s *statestore.Service) {
			s.Overrides = map[string]*statestore.ClusterOverride{"eu": {Weight: &weight}}
		}, ClassAnswers},
		"HTTPSRecord": {func(s *statestore.Service) { s.HTTPSRecord = &statestore.HTTPSRecord{} }, ClassAnswers},
		"SRV":         {func(s *statestore.Service) { s.SRV = &statestore.SRVRecord{Port: 443, Proto: "tcp"} }, ClassAnswers},
	}
	w := upWorld(t)
	for field := range reflect.TypeFor[statestore.Cluster]().Fields() {
		c, ok := cluster[field.Name]
		require.True(t, ok, "clusters.%s has no class here", field.Name)
		d := DiffSpec(w.st(), clone(w.st().Spec, func(sp *statestore.Spec) {
			eu := *sp.Clusters["eu"]
			c.edit(&eu)
			sp.Clusters["eu"] = &eu
		}))
		require.NotEmpty(t, d.Changes, "clusters.%s is not compared", field.Name)
		require.Equal(t, c.want, d.Class, "clusters.%s", field.Name)
	}
	for field := range reflect.TypeFor[statestore.Service]().Fields() {
		c, ok := service[field.Name]
		require.True(t, ok, "services.%s has no class here", field.Name)
		d := DiffSpec(w.st(), clone(w.st().Spec, web(c.edit)))
		require.NotEmpty(t, d.Changes, "services.%s is not compared", field.Name)
		require.Equal(t, c.want, d.Class, "services.%s", field.Name)
	}
	located := clone(w.st().Spec, func(sp *statestore.Spec) {
		sp.Regions = map[string]*statestore.Region{"eu-west": {Countries: []string{"IE"}}}
	})
	require.Equal(t, ClassAnswers, DiffSpec(w.st(), located).Class)
	w.do(applyOf(w.st(), located))
	require.Equal(t, ClassIdentity, DiffSpec(w.st(), clone(located, func(sp *statestore.Spec) {
		sp.Regions = map[string]*statestore.Region{"eu-west": {Coordinates: &statestore.Coordinates{Latitude: 53, Longitude: -6}, Countries: []string{"IE"}}}
	})).Class)
	require.Equal(t, ClassIdentity, DiffSpec(w.st(), clone(located, func(sp *statestore.Spec) { sp.Regions = nil })).Class)
}

func TestAPolicyThatRoutesAnewMovesClients(t *testing.T) {
	w := upWorld(t)
	d := DiffSpec(w.st(), clone(w.st().Spec, web(func(s *statestore.Service) { s.Policy.Type = statestore.Geo })))
	require.Len(t, d.Answers, 1)
	require.True(t, d.Answers[0].Moves, "the same rotation, but other answers from it")
	require.Zero(t, d.Answers[0].Moved, "who moves, only the clients' places tell")
}
