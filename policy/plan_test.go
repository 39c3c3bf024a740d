package policy

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

func TestSettledStatePlansNothing(t *testing.T) {
	require.Empty(t, Plan(upWorld(t).st(), Waits{}))
	require.Empty(t, Plan(statestore.NewStore().State(), Waits{}))
}

func TestFrozenPlansNothing(t *testing.T) {
	for _, service := range []string{"web", ""} {
		w := upWorld(t)
		w.do(statestore.FreezeService{Service: service, Reason: "change window"})
		w.all(health.Down, "eu")
		require.Empty(t, Plan(w.st(), Waits{}), "frozen: %q", service)
		w.do(statestore.ThawService{Service: service})
		require.Len(t, Plan(w.st(), Waits{}), 1, "thawed: %q", service)
	}
}

func TestLoneObserverChangesNothingAndIsNamed(t *testing.T) { // G1
	w := upWorld(t)
	w.vote("ap-1", health.Down, "eu")
	require.Empty(t, Plan(w.st(), Waits{}))
	ds := Disagreements(w.st())
	require.Len(t, ds, 1)
	require.Equal(t, health.ObserverID("ap-1"), ds[0].Observer)
	require.Equal(t, "web/eu/192.0.2.10", ds[0].Target.String())
	require.Equal(t, []health.Side{health.Down, health.Up}, []health.Side{ds[0].Side, ds[0].Verdict})

	w.vote("us-1", health.Down, "eu")
	plan := Plan(w.st(), Waits{})
	require.Len(t, plan, 1, "two regions of three do turn it")
	require.Equal(t, "services/web", plan[0].Subject)
	require.Equal(t, []string{"eu-1"}, observers(Disagreements(w.st())), "now the one that still sees it up is odd")
}

func observers(ds []Disagreement) []string {
	var names []string
	for _, d := range ds {
		names = append(names, string(d.Observer))
	}
	return names
}

func TestASetAsideVoteDisagreesWithNothing(t *testing.T) {
	w := upWorld(t)
	w.vote("ap-1", health.Down, "eu")
	w.do(statestore.ObserverSilent{Observer: "ap-1"})
	require.Empty(t, Disagreements(w.st()))
}

func TestUnrelatedChangesVoidNoPlan(t *testing.T) {
	other := func(sp *statestore.Spec) { sp.Services["api"] = testService("api") }
	w := upWorld(t, other)
	w.all(health.Down, "eu")
	plan := Plan(w.st(), Waits{})
	require.Len(t, plan, 2)
	for _, p := range plan { // one is committed, the other still holds
		w.do(p.Command)
	}
}

func TestAPlanOfAnOlderStateIsRefused(t *testing.T) {
	w := upWorld(t)
	w.all(health.Down, "eu")
	plan := Plan(w.st(), Waits{})
	w.all(health.Up, "eu")
	require.ErrorIs(t, w.try(plan[0].Command), statestore.ErrStale)
	require.Empty(t, Plan(w.st(), Waits{}))
}

func TestDrainsAndFreezesEndByThemselves(t *testing.T) {
	w := upWorld(t)
	w.do(statestore.DrainCluster{Cluster: "eu", Reason: "upgrade", For: 5 * time.Second, Rotations: DrainRotations(w.st(), "eu", nil)})
	w.do(statestore.FreezeService{Reason: "change window", For: 8 * time.Second})
	require.Empty(t, Plan(w.st(), Waits{}))
	for range 4 {
		w.do(statestore.Tick{}) // one second each
	}
	plan := Plan(w.st(), Waits{})
	require.Len(t, plan, 1, "the drain is over, the freeze is not")
	undrain := plan[0].Command.(statestore.UndrainCluster)
	require.Empty(t, undrain.Rotations, "while frozen answers stay")
	w.do(undrain)
	got, _ := w.pool("web")
	require.Equal(t, []string{"ap", "us"}, got)
	require.Empty(t, Plan(w.st(), Waits{}))
	for range 4 {
		w.do(statestore.Tick{})
	}
	w.settle()
	got, _ = w.pool("web")
	require.Equal(t, []string{"ap", "eu", "us"}, got)
	require.Empty(t, w.st().Freezes)
}

func TestAnEndedDrainCarriesItsRotations(t *testing.T) {
	w := upWorld(t)
	w.do(statestore.DrainCluster{Cluster: "eu", Reason: "upgrade", For: time.Second, Rotations: DrainRotations(w.st(), "eu", nil)})
	w.do(statestore.Tick{})
	plan := Plan(w.st(), Waits{})
	require.Len(t, plan, 1)
	require.Len(t, plan[0].Command.(statestore.UndrainCluster).Rotations, 1)
}

// manySpec has n clusters c00 and on, and a service of its own on each pair.
func manySpec(n int) *statestore.Spec {
	return testSpec(func(sp *statestore.Spec) {
		sp.Clusters, sp.Services = map[string]*statestore.Cluster{}, map[string]*statestore.Service{}
		for i := range n {
			name := fmt.Sprintf("c%02d", i)
			sp.Clusters[name] = &statestore.Cluster{Region: "eu-west", IPv4: addrs(fmt.Sprintf("192.0.2.%d", i+1))}
		}
		for i := range n {
			s := testService(fmt.Sprintf("s%02d", i))
			s.Clusters.Only = []string{fmt.Sprintf("c%02d", i), fmt.Sprintf("c%02d", (i+1)%n)}
			sp.Services[s.Names[0]] = s
		}
	})
}

func TestTheBudgetCountsCausesAndFreezes(t *testing.T) { // G11
	w := newWorld(t, manySpec(12), regions...)
	clusters := sortedKeys(w.st().Spec.Clusters)
	w.all(health.Up, clusters...)
	w.settle()

	w.all(health.Down, "c00", "c02", "c04")
	w.settle()
	require.Empty(t, w.st().Freezes, "three lost clusters, six services: three causes")
	require.Len(t, w.st().Losses, 3)

	w.all(health.Down, "c06", "c08", "c10")
	w.settle()
	f := w.st().Freezes[""]
	require.NotNil(t, f, "six clusters within the window, the budget is four")
	require.Contains(t, f.Reason, "the budget is 4")
	require.Len(t, w.st().Losses, 4, "what the budget covers is done")
	require.Empty(t, Plan(w.st(), Waits{}))
}

func TestAPersonsThawGrantsANewBudget(t *testing.T) {
	w := newWorld(t, manySpec(12), regions...)
	w.all(health.Up, sortedKeys(w.st().Spec.Clusters)...)
	w.settle()
	w.all(health.Down, "c00", "c02", "c04", "c06", "c08")
	w.settle()
	require.NotEmpty(t, w.st().Freezes)
	w.do(statestore.ThawService{})
	w.settle()
	require.Empty(t, w.st().Freezes, "one more cluster leaves, and that is all")
	for name := range w.st().Services {
		require.Equal(t, w.st().Serving(name), sortedClusters(w, name))
	}
}

func sortedClusters(w *world, service string) []string {
	names, _ := w.pool(service)
	slices.Sort(names)
	return names
}

func TestTheFreezeNamesTheClusters(t *testing.T) {
	w := newWorld(t, manySpec(12), regions...)
	w.all(health.Up, sortedKeys(w.st().Spec.Clusters)...)
	w.settle()
	w.all(health.Down, "c00", "c02", "c04", "c06", "c08")
	plan := Plan(w.st(), Waits{})
	last := plan[len(plan)-1]
	require.Equal(t, statestore.KindFreeze, last.Command.Kind())
	require.Equal(t, "automation stopped: c00, c02, c04, c06, c08 would be out within 10m0s, the budget is 4; look, then thaw", last.Reason)
}

func TestPlanIsDeterministic(t *testing.T) { // G15
	spec := manySpec(30)
	spec.Safety.Changes.Causes = 3 // which causes it covers must not depend on chance
	w := newWorld(t, spec, regions...)
	w.all(health.Up, sortedKeys(spec.Clusters)...)
	w.do(statestore.FreezeService{Service: "s29", Reason: "test", For: time.Second})
	w.all(health.Down, "c00", "c03", "c07", "c11", "c20")
	require.True(t, slices.IsSortedFunc(Plan(w.st(), Waits{}), func(a, b Proposal) int {
		return cmp.Or(cmp.Compare(a.Command.Kind(), b.Command.Kind()), cmp.Compare(a.Subject, b.Subject))
	}))
	first, err := json.Marshal(Plan(w.st(), Waits{}))
	require.NoError(t, err)
	require.Greater(t, len(first), 1000)
	for range 20 {
		again, err := json.Marshal(Plan(w.st(), Waits{}))
		require.NoError(t, err)
		require.Equal(t, string(first), string(again))
	}
}

// Whatever happens, plans come to an end, no pool is ever empty, no answer is
// drained or down while another is up, and a frozen service keeps its rotation.
func TestPlansReachAFixedPoint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, testSpec(
			func(sp *statestore.Spec) {
				sp.Clusters["eu"].IPv4 = addrs("192.0.2.10", "192.0.2.11")
				sp.Clusters["us"].IPv6 = addrs("2001:db8::20")
				sp.Services["api"] = testService("api")
				sp.Services["api"].Policy = statestore.Policy{Type: statestore.Failover, Order: []string{"us", "ap", "eu"}}
				sp.Services["api"].OnAllDown.Mode = rapid.SampledFrom([]statestore.AllDownMode{
					statestore.ServeLast, statestore.ServeAll, statestore.NoData, statestore.ServFail,
				}).Draw(t, "mode")
				sp.Safety.Changes.Causes = rapid.IntRange(0, 3).Draw(t, "causes")
			}), regions...)
		clusters := rapid.SampledFrom([]string{"eu", "us", "ap"})
		clusterOf := w.st().Spec.Clusters
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			switch rapid.IntRange(0, 7).Draw(t, "step") {
			case 0:
				c := clusters.Draw(t, "drained")
				if w.st().Clusters[c] != nil && w.st().Clusters[c].Drain == nil && len(CheckDrain(w.st(), c, nil)) == 0 {
					life := time.Duration(rapid.IntRange(0, 3).Draw(t, "for")) * time.Second
					w.do(statestore.DrainCluster{Cluster: c, Reason: "test", For: life, Rotations: DrainRotations(w.st(), c, nil)})
				}
			case 1:
				c := clusters.Draw(t, "undrained")
				if w.st().Clusters[c] != nil && w.st().Clusters[c].Drain != nil {
					w.do(statestore.UndrainCluster{Cluster: c, Rotations: UndrainRotations(w.st(), c)})
				}
			case 3:
				c := clusters.Draw(t, "toggled")
				spec := clone(w.st().Spec, func(sp *statestore.Spec) {
					if sp.Clusters[c] == nil {
						sp.Clusters[c] = clusterOf[c]
					} else {
						delete(sp.Clusters, c)
					}
					sp.Services["api"].Policy.Order = slices.DeleteFunc([]string{"us", "ap", "eu"}, func(c string) bool { return sp.Clusters[c] == nil })
				})
				// That a cluster is still answered is for people to pass over.
				blockers := slices.DeleteFunc(CheckSpec(w.st(), spec).Blockers, func(b Blocker) bool { return b.Rule == RuleInUse })
				err := w.try(applyOf(w.st(), spec))
				require.Equal(t, len(blockers) == 0, err == nil, "plan says %v, Apply says %v", blockers, err)
			case 2:
				w.do(statestore.FreezeService{Service: rapid.SampledFrom([]string{"web", "api", ""}).Draw(t, "frozen"), Reason: "test", For: 2 * time.Second})
			default:
				for _, o := range sortedKeys(w.st().Members) {
					side := rapid.SampledFrom([]health.Side{health.Up, health.Down, health.Unknown}).Draw(t, o)
					w.vote(o, side, clusters.Draw(t, o+" on"))
				}
			}
			before := w.st()
			for _, p := range Plan(before, Waits{}) {
				if r, rotates := p.Command.(statestore.Rotate); rotates {
					_, frozen := before.Frozen(r.Service)
					require.False(t, frozen, "a frozen service is rotated")
				}
			}
			w.settle()
			requireSound(t, w.st())
		}
	})
}

// requireSound checks what must hold of every settled state.
func requireSound(t tester, st *statestore.State) {
	for name, ss := range st.Services {
		_, frozen := st.Frozen(name)
		for i, p := range []statestore.Pool{ss.Rotation.V4, ss.Rotation.V6} {
			family := []func(netip.Addr) bool{netip.Addr.Is4, netip.Addr.Is6}[i]
			possible := slices.ContainsFunc(st.Spec.Candidates(name), func(c string) bool {
				return slices.ContainsFunc(st.Spec.Clusters[c].Endpoints(), family)
			})
			require.Equal(t, possible, len(p.Shares) > 0, "%s: a pool is empty", name)
		}
		if frozen {
			continue
		}
		serving := slices.DeleteFunc(st.Serving(name), func(c string) bool {
			return !slices.ContainsFunc(st.Spec.Clusters[c].Endpoints(), func(a netip.Addr) bool {
				ts, _ := st.Target(health.Target{Service: name, Cluster: c, Endpoint: a})
				return ts.Verdict.Side == health.Up
			})
		})
		for _, s := range ss.Rotation.V4.Shares {
			up := slices.Contains(serving, s.Cluster)
			switch {
			case len(serving) > 0:
				require.True(t, up, "%s answers %s while %v serve", name, s.Cluster, serving)
			case ss.Rotation.V4.AllDown == "":
				require.False(t, st.Clusters[s.Cluster].Drain.Covers(name), "%s answers a drained cluster by choice", name)
			}
		}
		if len(serving) > 0 {
			require.Empty(t, ss.Rotation.V4.AllDown, "%s says all down while %v serve", name, serving)
			require.Len(t, ss.Rotation.V4.Shares, len(serving), "%s leaves out one that serves", name)
		}
	}
}

func TestAutomationNeverTakesTheLastCluster(t *testing.T) { // G11
	w := upWorld(t)
	for _, c := range []string{"eu", "us", "ap"} {
		w.all(health.Down, c)
		w.settle()
		got, _ := w.pool("web")
		require.NotEmpty(t, got)
	}
	got, mode := w.pool("web")
	require.Equal(t, []string{"ap"}, got)
	require.Equal(t, statestore.ServeLast, mode)
}
