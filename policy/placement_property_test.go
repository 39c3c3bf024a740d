package policy

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

// Whatever is voted, drained, pinned, reported and resolved: Plan and Apply come to
// the rotation that a person would work out by hand.
func TestPlacementIsWhatOneWorksOutByHand(t *testing.T) {
	clusters := []string{"ap", "dr", "eu", "us"}
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, testSpec(named, reporting, func(sp *statestore.Spec) {
			sp.Clusters["dr"].Capacity = 30
			sp.Clusters["eu"].IPv4 = addrs("192.0.2.10", "192.0.2.11", "192.0.2.12")
			sp.Clusters["us"].IPv4 = addrs("192.0.2.20", "192.0.2.21")
			sp.Clusters["us"].IPv6 = addrs("2001:db8::20", "2001:db8::21")
			sp.Safety.MinServingClusters = rapid.IntRange(1, 2).Draw(t, "floor")
			sp.Safety.MaxDrained = 0
			sp.Safety.Changes.Causes = rapid.SampledFrom([]int{0, 0, 2}).Draw(t, "causes")
			s := sp.Services["web"]
			s.Policy.Type = rapid.SampledFrom([]statestore.PolicyType{statestore.Weighted, statestore.Geo, statestore.Latency, statestore.Failover}).Draw(t, "policy")
			s.MinHealthy = rapid.IntRange(0, 3).Draw(t, "min_healthy")
			if s.Policy.Type == statestore.Failover {
				s.Policy.Order = []string{"us", "dr", "eu", "ap"}
			} else if rapid.Bool().Draw(t, "overrides") {
				weight := rapid.IntRange(0, 9).Draw(t, "weight")
				s.Overrides = map[string]*statestore.ClusterOverride{"us": {Weight: &weight}}
			}
			if rapid.Bool().Draw(t, "spillover") {
				s.Policy.Spillover = &statestore.Spillover{At: 0.5}
			}
		}), regions...)
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			c := rapid.SampledFrom(clusters).Draw(t, "cluster")
			cs := w.st().Clusters[c]
			switch rapid.IntRange(0, 7).Draw(t, "step") {
			case 0:
				if cs.Drain == nil && len(CheckDrain(w.st(), c, nil)) == 0 {
					w.do(statestore.DrainClusters{Clusters: []string{c}, Reason: "test", Rotations: DrainsRotations(w.st(), []string{c}, nil)})
				} else if cs.Drain != nil {
					w.do(statestore.UndrainCluster{Cluster: c, Rotations: UndrainRotations(w.st(), c)})
				}
			case 1:
				blockers := CheckOverride(w.st(), "web", c)
				err := w.try(statestore.OverrideService{
					Service: "web", Cluster: c, Reason: "test", Rotations: OverrideRotations(w.st(), "web", c),
					For: time.Duration(rapid.IntRange(0, 3).Draw(t, "for")) * time.Second,
				})
				require.Equal(t, len(blockers) == 0, err == nil, "policy says %v, Apply says %v", blockers, err)
			case 2:
				if w.st().Services["web"].Override != nil {
					w.do(statestore.ClearOverride{Service: "web", Rotations: ClearOverrideRotations(w.st(), "web")})
				}
			case 3:
				if w.st().Spec.Clusters[c].CapacityFrom != nil {
					w.do(statestore.ReportCapacity{Cluster: c, Capacity: rapid.IntRange(0, 100).Draw(t, "capacity")})
				}
			case 4:
				set := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"203.0.113.1", "203.0.113.2", "2001:db8:9::1"}), 1, 3, rapid.ID[string]).Draw(t, "resolved")
				for _, p := range Measured(w.st(), resolvedBy(set, set, set), 0) {
					if r, is := p.Command.(statestore.ResolveCluster); is {
						w.do(r)
					}
				}
			default:
				side := rapid.SampledFrom([]health.Side{health.Up, health.Up, health.Down}).Draw(t, "side")
				of := rapid.SliceOf(rapid.SampledFrom(w.st().Spec.Clusters["eu"].Endpoints())).Draw(t, "of eu")
				w.side(func(target health.Target) (health.Side, bool) {
					return side, target.Cluster == c && (c != "eu" || slices.Contains(of, target.Endpoint))
				})
			}
			w.settle()
			if _, frozen := w.st().Frozen("web"); frozen {
				require.Positive(t, w.st().Spec.Safety.Changes.Causes)
				w.do(statestore.ThawService{}) // a person looks, and lets automation go on
				continue
			}
			requireByHand(t, w.st())
		}
	})
}

// requireByHand works out what web should answer with, family by family.
func requireByHand(t tester, st *statestore.State) {
	t.Helper()
	svc, rotation := st.Spec.Services["web"], st.Services["web"].Rotation
	for family, pool := range map[string]statestore.Pool{"v4": rotation.V4, "v6": rotation.V6} {
		up := map[string][]netip.Addr{} // endpoints that are up, of clusters that are not drained
		has := map[string]int{}
		for _, c := range st.Spec.Candidates("web") {
			for _, a := range st.Spec.Clusters[c].Endpoints() {
				if a.Is4() != (family == "v4") {
					continue
				}
				has[c]++
				ts, _ := st.Target(health.Target{Service: "web", Cluster: c, Endpoint: a})
				if ts.Verdict.Side == health.Up && st.Clusters[c].Drain == nil {
					up[c] = append(up[c], a)
				}
			}
		}
		if len(has) == 0 {
			require.Empty(t, pool.Shares)
			continue
		}
		require.NotEmpty(t, pool.Shares, "%s is empty", family)
		if len(up) == 0 {
			continue // what answers then, other tests say
		}
		want := up
		well := map[string][]netip.Addr{}
		for c, as := range up {
			if len(as) >= min(svc.MinHealthy, has[c]) {
				well[c] = as
			}
		}
		if len(well) >= st.Spec.Safety.MinServingClusters {
			want = well
		}
		if o := st.Services["web"].Override; o != nil && len(up[o.Cluster]) > 0 {
			want = map[string][]netip.Addr{o.Cluster: up[o.Cluster]}
		}
		got := map[string][]netip.Addr{}
		for _, s := range pool.Shares {
			got[s.Cluster] = s.Endpoints
		}
		require.Equal(t, want, got, "%s", family)
		require.Empty(t, pool.AllDown)
		requireWeights(t, st, pool)
	}
}

func requireWeights(t tester, st *statestore.State, pool statestore.Pool) {
	t.Helper()
	svc := st.Spec.Services["web"]
	pinned := st.Services["web"].Override != nil && len(pool.Shares) == 1 && pool.Shares[0].Cluster == st.Services["web"].Override.Cluster
	total, full := 0, true
	want, spill := map[string]int{}, map[string]int{}
	for _, s := range pool.Shares {
		declared := st.Spec.Clusters[s.Cluster].Capacity
		can := declared
		if r := st.Clusters[s.Cluster].Reported; r != nil {
			can = r.Capacity
		}
		want[s.Cluster] = can
		if o := svc.Overrides[s.Cluster]; o != nil {
			want[s.Cluster] = *o.Weight
		}
		if svc.Policy.Type == statestore.Failover {
			want[s.Cluster] = 1
		}
		total += want[s.Cluster]
		if at := svc.Policy.Spillover; at != nil && float64(can) < at.At*float64(declared) {
			spill[s.Cluster] = int(math.Round(100 - 100*float64(can)/float64(declared)/at.At))
		}
		full = full && spill[s.Cluster] == 100
	}
	for _, s := range pool.Shares {
		weight, passes := want[s.Cluster], spill[s.Cluster]
		if total == 0 || pinned {
			weight = 1
		}
		if full || pinned {
			passes = 0
		}
		require.Equal(t, weight, s.Weight, "weight of %s: %s", s.Cluster, fmt.Sprint(want))
		require.Equal(t, passes, s.Spill, "spill of %s", s.Cluster)
	}
}
