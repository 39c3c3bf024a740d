package policy

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

// named adds a cluster dr that is named by a hostname.
func named(sp *statestore.Spec) {
	sp.Clusters["dr"] = &statestore.Cluster{Region: "eu-central", Hostname: host}
}

func sees(texts ...string) map[string]Resolved {
	return map[string]Resolved{"dr": {Hostname: host, Addrs: addrs(texts...)}}
}

func resolvedBy(sets ...[]string) []Measurement {
	return from(func(m *Measurement, i int) {
		if len(sets[i]) > 0 {
			m.Resolved = sees(sets[i]...)
		}
	}, len(sets))
}

func TestHostnamesNeedAMajorityOfRegions(t *testing.T) {
	a, b, c := []string{"203.0.113.1"}, []string{"203.0.113.2"}, []string(nil)
	both := []string{"203.0.113.1", "203.0.113.2"}
	tests := []struct {
		name string
		had  []string
		says [][]string
		want []string // nil: nothing is proposed
	}{
		{"all agree", nil, [][]string{a, a, a}, a},
		{"two of three agree", nil, [][]string{a, a, b}, a},
		{"two report and agree", nil, [][]string{a, a, c}, a},
		{"one alone is not enough", nil, [][]string{a, c, c}, nil},
		{"two that differ agree on nothing", nil, [][]string{a, b, c}, nil},
		{"what two see of more", nil, [][]string{both, a, both}, both},
		{"no change", a, [][]string{a, a, a}, nil},
		{"it moves with a majority", a, [][]string{b, b, a}, b},
		{"a lone observer that sees another keeps it", a, [][]string{a, b, c}, nil},
		{"a lone observer that misses one keeps it", both, [][]string{both, a, c}, nil},
		{"two that miss one drop it", both, [][]string{both, a, a}, a},
		{"nobody resolves: the last good set stays", a, [][]string{c, c, c}, nil},
		{"all see other things: the last good set stays", nil, [][]string{a, b, {"203.0.113.3"}}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := upWorld(t, named)
			if tt.had != nil {
				w.known(tt.had...)
			}
			plan := Measured(w.st(), resolvedBy(tt.says...), time.Hour)
			if tt.want == nil {
				require.Empty(t, plan)
				return
			}
			require.Len(t, plan, 1)
			require.Equal(t, addrs(tt.want...), plan[0].Command.(statestore.ResolveCluster).Addrs)
			w.do(plan[0].Command)
			require.Empty(t, Measured(w.st(), resolvedBy(tt.says...), time.Hour), "it is agreed now")
		})
	}
}

func TestAnOldHostnameCountsForNothing(t *testing.T) {
	w := upWorld(t, named)
	ms := resolvedBy([]string{"203.0.113.1"}, []string{"203.0.113.1"}, []string{"203.0.113.1"})
	for _, m := range ms[1:] {
		m.Resolved["dr"] = Resolved{Hostname: "old.example.net", Addrs: addrs("203.0.113.1")}
	}
	require.Empty(t, Measured(w.st(), ms, time.Hour))
}

func TestAHostnameIsSixteenAddressesAFamilyAtMost(t *testing.T) {
	w := upWorld(t, named)
	w.known("203.0.113.200")
	many := []string{"2001:db8::1"}
	for i := range 40 {
		many = append(many, fmt.Sprintf("203.0.113.%d", i+1))
	}
	many = append(many, "203.0.113.200")
	plan := Measured(w.st(), resolvedBy(many, many, many), time.Hour)
	got := plan[0].Command.(statestore.ResolveCluster).Addrs
	require.Len(t, got, 17)
	require.Contains(t, got, addrs("203.0.113.200")[0], "one that is in use stays")
	w.do(plan[0].Command)
	require.Empty(t, Measured(w.st(), resolvedBy(many, many, many), time.Hour), "and the choice is stable")
}

// known makes the addresses those of dr.
func (w *world) known(texts ...string) {
	w.t.Helper()
	addresses, carried := settle(w.st(), "dr", limited(addrs(texts...)))
	w.do(statestore.ResolveCluster{Cluster: "dr", Hostname: host, Addrs: addresses, Rotations: carried})
}

// drWorld is a world in which dr is resolved, up and in rotation.
func drWorld(t *testing.T, edits ...func(*statestore.Spec)) *world {
	t.Helper()
	w := upWorld(t, append([]func(*statestore.Spec){named}, edits...)...)
	w.known("203.0.113.1", "203.0.113.2")
	w.all(health.Up, "dr")
	w.settle()
	got, _ := w.pool("web")
	require.Equal(t, []string{"ap", "dr", "eu", "us"}, got)
	return w
}

func (w *world) resolve(texts ...string) {
	w.t.Helper()
	plan := Measured(w.st(), resolvedBy(texts, texts, texts), time.Hour)
	require.Len(w.t, plan, 1)
	w.do(plan[0].Command)
	w.settle()
}

func TestAMovedHostnameLeavesServicesAnswering(t *testing.T) {
	w := drWorld(t)
	number := w.st().Services["web"].Rotation.Number
	w.resolve("203.0.113.1", "203.0.113.2", "203.0.113.3")
	require.Equal(t, number, w.st().Services["web"].Rotation.Number, "one more address changes no answer before it is judged")

	w.resolve("203.0.113.2", "203.0.113.3")
	r := w.st().Services["web"].Rotation
	require.Equal(t, "203.0.113.1 is no address of dr any more", r.Reason)
	require.Contains(t, r.V4.Shares, statestore.Share{Cluster: "dr", Weight: 1, Endpoints: addrs("203.0.113.2")}, "what stands goes on")

	w.resolve("203.0.113.9")
	got, _ := w.pool("web")
	require.Equal(t, []string{"ap", "eu", "us"}, got, "all of it moved: dr waits for its verdict")
	w.all(health.Up, "dr")
	w.settle()
	got, _ = w.pool("web")
	require.Equal(t, []string{"ap", "dr", "eu", "us"}, got)
}

func TestAMovedHostnameThatIsAllThereIsAnswers(t *testing.T) {
	w := drWorld(t, func(sp *statestore.Spec) {
		s := testService("only")
		s.Clusters.Only = []string{"dr"}
		sp.Services["only"] = s
	})
	w.resolve("203.0.113.9")
	require.Equal(t, []statestore.Share{{Cluster: "dr", Weight: 1, Endpoints: addrs("203.0.113.9")}}, w.st().Services["only"].Rotation.V4.Shares,
		"better an unjudged address than none")
}

func TestAFrozenServiceKeepsItsAddresses(t *testing.T) {
	w := drWorld(t)
	w.do(statestore.FreezeService{Service: "web", Reason: "change window"})
	w.resolve("203.0.113.9")
	require.Equal(t, addrs("203.0.113.1", "203.0.113.2", "203.0.113.9"), w.st().Spec.Clusters["dr"].IPv4, "the new one is probed already")
	require.Empty(t, Measured(w.st(), resolvedBy([]string{"203.0.113.9"}, []string{"203.0.113.9"}), time.Hour), "and that is all for now")
	w.do(statestore.ThawService{Service: "web"})
	w.resolve("203.0.113.9")
	require.Equal(t, addrs("203.0.113.9"), w.st().Spec.Clusters["dr"].IPv4)
}

func TestASpentBudgetKeepsAddresses(t *testing.T) {
	w := drWorld(t, func(sp *statestore.Spec) { sp.Safety.Changes.Causes = 1 })
	w.all(health.Down, "eu")
	w.settle()
	require.Len(t, w.st().Losses, 1)
	w.resolve("203.0.113.9")
	require.Contains(t, w.st().Spec.Clusters["dr"].IPv4, addrs("203.0.113.1")[0])
	w.all(health.Up, "dr")
	w.settle()
	w.resolve("203.0.113.9")
	require.Equal(t, addrs("203.0.113.9"), w.st().Spec.Clusters["dr"].IPv4, "the new one serves, so nothing is lost by it")
}

// A region sees what most of its observers see: one liar in each of them, two regions
// full of honest ones each outvoting it, changes nothing (G1).
func TestARegionSeesWhatMostOfItsObserversSee(t *testing.T) {
	w := newWorld(t, testSpec(named, reporting), regions...)
	w.known("192.0.2.40", "192.0.2.41")
	w.do(statestore.ReportCapacity{Cluster: "eu", Capacity: 50})
	for _, region := range regions {
		for i := 2; i <= 3; i++ {
			m := member(region)
			m.Name = fmt.Sprintf("%s-%d", region, i)
			w.do(statestore.UpsertMember{Member: m})
		}
	}
	say := func(liars, of int, lie ...string) []Measurement {
		var ms []Measurement
		for _, region := range regions {
			for i := 1; i <= of; i++ {
				m := Measurement{
					Observer: health.ObserverID(fmt.Sprintf("%s-%d", region, i)),
					Resolved: sees("192.0.2.40", "192.0.2.41"), Capacity: map[string]float64{"eu": 50},
				}
				if i <= liars {
					m.Resolved, m.Capacity = sees(lie...), map[string]float64{"eu": 0}
				}
				ms = append(ms, m)
			}
		}
		return ms
	}
	for _, lie := range [][]string{{"192.0.2.66"}, {"192.0.2.40"}, {"192.0.2.40", "192.0.2.41", "192.0.2.66"}} {
		require.Empty(t, Measured(w.st(), say(1, 3, lie...), time.Hour), "one of three in every region: %v", lie)
		require.Empty(t, Measured(w.st(), say(1, 2, lie...), time.Hour), "one of two in every region: %v", lie)
		plan := Measured(w.st(), say(2, 3, lie...), time.Hour)
		require.Len(t, plan, 2, "two of three in every region: %v", lie)
		require.Equal(t, addrs(lie...), plan[0].Command.(statestore.ResolveCluster).Addrs)
		require.Zero(t, plan[1].Command.(statestore.ReportCapacity).Capacity)
	}
}
