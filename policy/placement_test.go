package policy

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

// supposing returns the state with other running sides, as commands would leave them.
func supposing(st *statestore.State, edits ...func(*statestore.State)) *statestore.State {
	next := *st
	next.Services, next.Clusters = map[string]*statestore.ServiceState{}, map[string]*statestore.ClusterState{}
	for name, s := range st.Services {
		copied := *s
		copied.Targets = maps.Clone(s.Targets)
		next.Services[name] = &copied
	}
	for name, c := range st.Clusters {
		copied := *c
		next.Clusters[name] = &copied
	}
	for _, edit := range edits {
		edit(&next)
	}
	return &next
}

func pin(service, cluster string) func(*statestore.State) {
	return func(st *statestore.State) {
		st.Services[service].Override = &statestore.Override{Cluster: cluster, By: "sre-1", Reason: "load test", Version: 1}
	}
}

func reports(cluster string, capacity int) func(*statestore.State) {
	return func(st *statestore.State) {
		st.Clusters[cluster].Reported = &statestore.Reported{Capacity: capacity, Version: 1}
	}
}

func reporting(sp *statestore.Spec) {
	for name, declared := range map[string]int{"eu": 100, "us": 50, "ap": 20} {
		c := *sp.Clusters[name]
		c.Capacity = declared
		c.CapacityFrom = &statestore.CapacityFrom{HTTP: &statestore.CapacityHTTP{Port: 443, Path: "/capacity", JSON: "$.available"}, MaxAge: statestore.Duration(60e9), Change: 10}
		sp.Clusters[name] = &c
	}
}

func weightsOf(rc statestore.RotationChange) map[string]int {
	got := map[string]int{}
	for _, s := range rc.V4.Shares {
		got[s.Cluster] = s.Weight
	}
	return got
}

func TestReportedCapacityAndOverridesAreWeights(t *testing.T) {
	over := func(cluster string, weight int) func(*statestore.Spec) {
		return web(func(s *statestore.Service) {
			s.Overrides = map[string]*statestore.ClusterOverride{cluster: {Weight: &weight}}
		})
	}
	tests := []struct {
		name  string
		edits []func(*statestore.Spec)
		runs  []func(*statestore.State)
		want  map[string]int
	}{
		{"declared without a report", []func(*statestore.Spec){reporting}, nil, map[string]int{"eu": 100, "us": 50, "ap": 20}},
		{"a report beats what is declared", []func(*statestore.Spec){reporting}, []func(*statestore.State){reports("eu", 30)}, map[string]int{"eu": 30, "us": 50, "ap": 20}},
		{"one that reports nothing left stands by", []func(*statestore.Spec){reporting}, []func(*statestore.State){reports("eu", 0)}, map[string]int{"eu": 0, "us": 50, "ap": 20}},
		{"an override beats both", []func(*statestore.Spec){reporting, over("eu", 7)}, []func(*statestore.State){reports("eu", 30)}, map[string]int{"eu": 7, "us": 50, "ap": 20}},
		{"an override beats weights", []func(*statestore.Spec){web(func(s *statestore.Service) {
			s.Policy.Weights = map[string]int{"eu": 1, "us": 2, "ap": 3}
		}), over("us", 9)}, nil, map[string]int{"eu": 1, "us": 9, "ap": 3}},
		{"a report without capacity_from counts no more", []func(*statestore.Spec){}, []func(*statestore.State){reports("eu", 30)}, map[string]int{"eu": 1, "us": 1, "ap": 1}},
		{"geo shares by the same weights", []func(*statestore.Spec){reporting, web(func(s *statestore.Service) {
			s.Policy.Type = statestore.Geo
		})}, []func(*statestore.State){reports("us", 5)}, map[string]int{"eu": 100, "us": 5, "ap": 20}},
		{"failover is by order only", []func(*statestore.Spec){reporting, over("eu", 7), web(func(s *statestore.Service) {
			s.Policy = statestore.Policy{Type: statestore.Failover, Order: []string{"us", "eu", "ap"}}
		})}, []func(*statestore.State){reports("us", 5)}, map[string]int{"eu": 1, "us": 1, "ap": 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := upWorld(t, tt.edits...)
			require.Equal(t, tt.want, weightsOf(Wanted(supposing(w.st(), tt.runs...), "web")))
		})
	}
}

func TestAClusterWithLittleLeftPassesClientsOn(t *testing.T) {
	spillover := web(func(s *statestore.Service) {
		s.Policy.Type = statestore.Geo
		s.Policy.Spillover = &statestore.Spillover{At: 0.2}
	})
	tests := []struct {
		name string
		runs []func(*statestore.State)
		want map[string]int
	}{
		{"without a report", nil, map[string]int{"eu": 0, "us": 0, "ap": 0}},
		{"at the threshold", []func(*statestore.State){reports("eu", 20)}, map[string]int{"eu": 0, "us": 0, "ap": 0}},
		{"half way to nothing", []func(*statestore.State){reports("eu", 10)}, map[string]int{"eu": 50, "us": 0, "ap": 0}},
		{"nothing left", []func(*statestore.State){reports("eu", 0)}, map[string]int{"eu": 100, "us": 0, "ap": 0}},
		{"nothing left anywhere: there is nobody to pass on to", []func(*statestore.State){reports("eu", 0), reports("us", 0), reports("ap", 0)}, map[string]int{"eu": 0, "us": 0, "ap": 0}},
		{"more than was declared", []func(*statestore.State){reports("eu", 300)}, map[string]int{"eu": 0, "us": 0, "ap": 0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := upWorld(t, reporting, spillover)
			got := map[string]int{}
			for _, s := range Wanted(supposing(w.st(), tt.runs...), "web").V4.Shares {
				got[s.Cluster] = s.Spill
			}
			require.Equal(t, tt.want, got)
		})
	}
	w := upWorld(t, reporting, spillover)
	require.Equal(t, "eu reports 10 of 100 and passes 50% of its clients on", Wanted(supposing(w.st(), reports("eu", 10)), "web").Reason)
}

func TestTheReasonNamesWhatAClusterReports(t *testing.T) {
	w := upWorld(t, reporting)
	require.Equal(t, "eu reports a capacity of 30", Wanted(supposing(w.st(), reports("eu", 30)), "web").Reason)
}

func TestMinHealthyLeavesBeforeTheLastEndpointDies(t *testing.T) {
	threeEach := func(sp *statestore.Spec) {
		for name, a := range map[string][]string{
			"eu": {"192.0.2.10", "192.0.2.11", "192.0.2.12"}, "us": {"192.0.2.20", "192.0.2.21", "192.0.2.22"}, "ap": {"192.0.2.30"},
		} {
			sp.Clusters[name] = &statestore.Cluster{Region: sp.Clusters[name].Region, IPv4: addrs(a...)}
		}
	}
	tests := []struct {
		name  string
		need  int
		floor int
		down  []string
		want  []string
	}{
		{"all well; one with fewer endpoints needs all of them", 2, 1, nil, []string{"ap", "eu", "us"}},
		{"two of three are enough", 2, 1, []string{"192.0.2.10"}, []string{"ap", "eu", "us"}},
		{"one of three is not", 2, 1, []string{"192.0.2.10", "192.0.2.11"}, []string{"ap", "us"}},
		{"one of three is, without min_healthy", 0, 1, []string{"192.0.2.10", "192.0.2.11"}, []string{"ap", "eu", "us"}},
		{"the floor is kept", 2, 3, []string{"192.0.2.10", "192.0.2.11"}, []string{"ap", "eu", "us"}},
		{"nobody well: all that have one left", 2, 1, []string{"192.0.2.10", "192.0.2.11", "192.0.2.20", "192.0.2.21", "192.0.2.30"}, []string{"eu", "us"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := upWorld(t, threeEach, web(func(s *statestore.Service) { s.MinHealthy = tt.need }), func(sp *statestore.Spec) { sp.Safety.MinServingClusters = tt.floor })
			w.addresses(health.Down, tt.down...)
			w.settle()
			got, mode := w.pool("web")
			require.Equal(t, tt.want, got)
			require.Empty(t, mode)
		})
	}
	w := upWorld(t, threeEach, web(func(s *statestore.Service) { s.MinHealthy = 2 }))
	w.addresses(health.Down, "192.0.2.10", "192.0.2.11")
	w.settle()
	require.Equal(t, "eu has 1 of 3 endpoints up, min_healthy is 2", w.st().Services["web"].Rotation.Reason)
}

// addresses has every observer vote side on the addresses, for all services.
func (w *world) addresses(side health.Side, texts ...string) {
	w.t.Helper()
	for _, name := range sortedKeys(w.st().Members) {
		votes := map[health.Target]health.Vote{}
		for target, ts := range TargetStates(w.st()) {
			if v, ok := ts.Votes[health.ObserverID(name)]; ok {
				votes[target] = v
			}
			for _, a := range addrs(texts...) {
				if target.Endpoint == a {
					votes[target] = health.Vote{Side: side, Since: epoch}
				}
			}
		}
		w.voteFull(name, votes)
	}
}

func TestAPinAnswersWithOneClusterAndYields(t *testing.T) {
	clusters := func(p statestore.Pool) (names []string) {
		for _, s := range p.Shares {
			names = append(names, s.Cluster)
		}
		return names
	}
	w := upWorld(t, func(sp *statestore.Spec) { sp.Clusters["eu"].IPv6 = addrs("2001:db8::10") })
	rc := Wanted(supposing(w.st(), pin("web", "us")), "web")
	require.Equal(t, []string{"us"}, clusters(rc.V4))
	require.Equal(t, []string{"eu"}, clusters(rc.V6), "us has no IPv6: AAAA goes on as without the pin")
	require.Equal(t, "pinned to us by sre-1: load test", rc.Reason)
	require.Empty(t, OverrideNote(supposing(w.st(), pin("web", "us")), "web"))

	w.all(health.Down, "us")
	st := supposing(w.st(), pin("web", "us"))
	require.Equal(t, []string{"ap", "eu"}, clusters(Wanted(st, "web").V4), "a pin never beats a verdict")
	require.Equal(t, "us is down", OverrideNote(st, "web"))
	w.all(health.Up, "us")

	w.do(statestore.DrainCluster{Cluster: "us", Reason: "upgrade", Rotations: DrainRotations(w.st(), "us", nil)})
	st = supposing(w.st(), pin("web", "us"))
	require.Equal(t, []string{"ap", "eu"}, clusters(Wanted(st, "web").V4), "nor a drain")
	require.Equal(t, "us is drained", OverrideNote(st, "web"))
}

func TestWhatMakesWayForAPinIsNoLoss(t *testing.T) {
	w := upWorld(t)
	st := supposing(w.st(), pin("web", "us"))
	require.Empty(t, lost(st, Wanted(st, "web"), st.Services["web"].Rotation))
	require.Len(t, Plan(st, Waits{}), 1)
}

func TestCheckOverride(t *testing.T) {
	stateful := func(sp *statestore.Spec) {
		s := testService("db")
		s.Policy = statestore.Policy{Type: statestore.Failover, Order: []string{"eu", "us", "ap"}}
		s.Stateful = &statestore.Stateful{
			Preferred: "eu", Approval: statestore.ApprovalPolicy{Required: 1, WaiversRequired: 1, From: []string{"approver"}, TTL: statestore.Duration(60e9)},
		}
		sp.Services["db"] = s
		sp.Services["web"].Clusters.Exclude = []string{"ap"}
	}
	w := upWorld(t, stateful)
	require.Empty(t, CheckOverride(w.st(), "web", "us"))
	require.Equal(t, []string{RuleUnknownService, RuleUnknownCluster}, rules(CheckOverride(w.st(), "wbe", "mars")))
	require.Equal(t, []string{RuleOverrideStateful}, rules(CheckOverride(w.st(), "db", "us")))
	require.Equal(t, []string{RuleOverrideCandidate}, rules(CheckOverride(w.st(), "web", "ap")))

	w.do(statestore.DrainCluster{Cluster: "us", Reason: "upgrade", Rotations: DrainRotations(w.st(), "us", nil)})
	require.Equal(t, []string{RuleOverrideDrained}, rules(CheckOverride(w.st(), "web", "us")))
	w.all(health.Down, "us")
	got := CheckOverride(w.st(), "web", "us")
	require.Equal(t, []string{RuleOverrideDrained, RuleOverrideUp}, rules(got), "all at once")
	require.False(t, got[1].Waivable)
}

func TestOfANewServiceNobodyKnowsTheLoad(t *testing.T) {
	w := upWorld(t, reporting)
	spec := clone(w.st().Spec, func(sp *statestore.Spec) {
		sp.Services["api"] = testService("api")
		sp.Services["api"].Policy = statestore.Policy{Type: statestore.Failover, Order: []string{"ap", "eu", "us"}}
	})
	answers := DiffSpec(w.st(), spec).Answers
	require.Len(t, answers, 1)
	require.Empty(t, answers[0].Before)
	require.Empty(t, answers[0].Warnings)
}

func TestOverrideImpactShowsWhoTakesTheClients(t *testing.T) {
	w := upWorld(t, reporting)
	im := OverrideImpact(w.st(), "web", "ap")[0]
	require.Equal(t, []ClusterShare{{"ap", 100}}, im.After)
	require.InDelta(t, 100*150.0/170, im.Moved, 0.01)
	require.Equal(t, []string{"ap would be at 850% of its capacity"}, im.Warnings)

	pinned := supposing(w.st(), pin("web", "ap"))
	pinned.Services["web"].Rotation.V4.Shares = Wanted(pinned, "web").V4.Shares
	require.Len(t, ClearOverrideRotations(pinned, "web"), 1)
	require.Len(t, ClearOverrideImpact(pinned, "web")[0].After, 3)
	require.Empty(t, OverrideRotations(pinned, "web", "ap"), "it answers so already")
}

func TestDrainsAreJudgedTogether(t *testing.T) {
	w := upWorld(t, func(sp *statestore.Spec) { sp.Safety.MaxDrained = 2 })
	require.Empty(t, CheckDrains(w.st(), []string{"eu", "us"}, nil))
	require.Len(t, DrainsRotations(w.st(), []string{"us", "eu"}, nil), 1)
	got := CheckDrains(w.st(), []string{"us", "eu", "ap"}, nil)
	require.Equal(t, []string{RuleLastServing, RuleMaxDrained}, rules(got))
	require.Equal(t, "ap, eu and us are the last clusters that are not drained for web", got[0].Reason)

	w = upWorld(t, func(sp *statestore.Spec) { sp.Safety.MaxDrained, sp.Safety.MinServingClusters = 3, 2 })
	require.Empty(t, CheckDrain(w.st(), "eu", nil), "each alone keeps the floor")
	require.Empty(t, CheckDrain(w.st(), "us", nil))
	require.Equal(t, []string{RuleMinServing}, rules(CheckDrains(w.st(), []string{"eu", "us"}, nil)), "both together do not")
	require.Equal(t, []string{RuleUnknownCluster}, rules(CheckDrains(w.st(), []string{"eu", "mars"}, nil)))

	impact := DrainsImpact(w.st(), []string{"eu", "us"}, nil)
	require.Len(t, impact, 1)
	require.Equal(t, []ClusterShare{{"ap", 100}}, impact[0].After)
	require.InDelta(t, 200.0/3, impact[0].Moved, 0.01)
}

func TestAnImpactSaysWhomResidencyLeavesWithout(t *testing.T) {
	w := upWorld(t, web(func(s *statestore.Service) {
		s.Residency = map[string][]string{"EU": {"eu"}, "US": {"us", "ap"}}
	}))
	// A drain takes clusters out of rotations; those who may have no other get it still.
	want := []string{"clients in EU go on getting eu all the same: residency lets them have eu only"}
	require.Equal(t, want, DrainImpact(w.st(), "eu", nil)[0].Warnings)
	nodata := upWorld(t, web(func(s *statestore.Service) {
		s.Residency = map[string][]string{"EU": {"eu"}}
		s.OnAllDown.Mode = statestore.NoData
	}))
	require.Equal(t, []string{"clients in EU get no cluster (on_all_down nodata): residency lets them have eu only"}, DrainImpact(nodata.st(), "eu", nil)[0].Warnings)
	require.Equal(t, want, OverrideImpact(w.st(), "web", "us")[0].Warnings)
	require.Empty(t, DrainImpact(w.st(), "us", nil)[0].Warnings)
}

func TestAPlanSaysThatAPinEnds(t *testing.T) {
	w := upWorld(t)
	w.do(statestore.OverrideService{Service: "web", Cluster: "us", Reason: "load test", Rotations: OverrideRotations(w.st(), "web", "us")})
	of := func(spec *statestore.Spec) []string {
		for _, im := range DiffSpec(w.st(), spec).Answers {
			if im.Service == "web" {
				return im.Warnings
			}
		}
		return nil
	}
	require.Equal(t, []string{"the pin to us ends: us is no candidate any more"},
		of(clone(w.st().Spec, web(func(s *statestore.Service) { s.Clusters.Exclude = []string{"us"} }))))
	require.Contains(t, of(clone(w.st().Spec, web(func(s *statestore.Service) {
		s.Policy = statestore.Policy{Type: statestore.Failover, Order: []string{"eu", "us", "ap"}}
		s.Stateful = &statestore.Stateful{Preferred: "eu"}
	}))), "the pin to us ends: the service becomes stateful")
	require.Empty(t, of(clone(w.st().Spec, web(func(s *statestore.Service) { s.Clusters.Exclude = []string{"ap"} }))))
}
