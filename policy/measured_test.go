package policy

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

const host = "lb.dr.example.net"

// from makes measurements of the observers eu-1, us-1 and ap-1, in this order.
func from(of func(m *Measurement, i int), n int) []Measurement {
	var ms []Measurement
	for i := range n {
		m := Measurement{Observer: health.ObserverID(regions[i] + "-1")}
		of(&m, i)
		ms = append(ms, m)
	}
	return ms
}

func says(values ...float64) []Measurement {
	return from(func(m *Measurement, i int) {
		if values[i] >= 0 {
			m.Capacity = map[string]float64{"eu": values[i]}
		}
	}, len(values))
}

func TestCapacityNeedsAMajorityAndAChange(t *testing.T) {
	const silent = -1
	stale := statestore.ReportCapacity{Cluster: "eu", Stale: true}
	is := func(n int) statestore.Command { return statestore.ReportCapacity{Cluster: "eu", Capacity: n} }
	tests := []struct {
		name      string
		had       int // -1: nothing reported
		says      []float64
		listening time.Duration
		want      statestore.Command
	}{
		{"the first report", -1, []float64{80, 80, 80}, 0, is(80)},
		{"two of three regions", -1, []float64{80, 80, silent}, 0, is(80)},
		{"one is not enough", -1, []float64{80, silent, silent}, time.Hour, nil},
		{"the median of three", 100, []float64{0, 60, 70}, 0, is(60)},
		{"a small change is not worth an entry", 80, []float64{75, 75, 75}, 0, nil},
		{"a tenth of what is declared is", 80, []float64{70, 70, 70}, 0, is(70)},
		{"to nothing, always", 5, []float64{0, 0, 0}, 0, is(0)},
		{"from nothing, always", 0, []float64{1, 1, 1}, 0, is(1)},
		{"one of two that report moves nothing", 80, []float64{80, 0, silent}, 0, nil},
		{"two of two that agree on less do", 80, []float64{20, 0, silent}, 0, is(20)},
		{"stale after max_age", 80, []float64{80, silent, silent}, time.Minute, stale},
		{"a new leader has to listen first", 80, []float64{80, silent, silent}, time.Minute - 1, nil},
		{"nonsense is no report", 80, []float64{math.NaN(), math.Inf(1), 1e12}, time.Minute, stale},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := upWorld(t, reporting)
			if tt.had >= 0 {
				w.do(statestore.ReportCapacity{Cluster: "eu", Capacity: tt.had})
			}
			plan := Measured(w.st(), says(tt.says...), tt.listening)
			if tt.want == nil {
				require.Empty(t, plan)
				return
			}
			require.Len(t, plan, 1)
			require.Equal(t, tt.want, plan[0].Command)
			w.do(plan[0].Command)
			require.Empty(t, Measured(w.st(), says(tt.says...), tt.listening))
		})
	}
}

func byLatency(sp *statestore.Spec) { sp.Services["web"].Policy.Type = statestore.Latency }

func rtts(ms ...float64) []Measurement {
	return from(func(m *Measurement, i int) {
		m.RTT = map[netip.Addr]time.Duration{addrs("192.0.2.10")[0]: time.Duration(ms[i] * 1e6)}
	}, len(ms))
}

func TestLatencyIsCommittedWhenItMatters(t *testing.T) {
	w := upWorld(t, byLatency)
	plan := Measured(w.st(), rtts(20, 90.04, 150), time.Hour)
	require.Len(t, plan, 1)
	w.do(plan[0].Command)
	a := addrs("192.0.2.10")[0]
	require.Equal(t, 90*time.Millisecond, w.st().Latency["us"][a].D())
	for _, tt := range []struct {
		name string
		eu   float64
		want bool
	}{
		{"the same", 20, false},
		{"a tenth more", 22, false},
		{"a quarter more", 25, true},
		{"a fifth less", 16, true},
		{"a tenth less", 18.1, false},
	} {
		require.Equal(t, tt.want, len(Measured(w.st(), rtts(tt.eu, 90, 150), time.Hour)) == 1, tt.name)
	}
	w.do(statestore.MeasureLatency{RTT: map[string]map[netip.Addr]statestore.Duration{"eu": {a: statestore.Duration(2 * time.Millisecond)}}})
	require.Empty(t, Measured(w.st(), rtts(3.5, 90, 150), time.Hour), "below two milliseconds nobody notices")

	other := upWorld(t)
	require.Empty(t, Measured(other.st(), rtts(20, 90, 150), time.Hour), "nothing is ranked by round trip here")
}

func TestLatencyIsTheMedianOfARegion(t *testing.T) {
	w := upWorld(t, byLatency)
	for _, n := range []string{"eu-2", "eu-3"} {
		m := member("eu")
		m.Name = n
		w.do(statestore.UpsertMember{Member: m})
	}
	a := addrs("192.0.2.10")[0]
	ms := []Measurement{
		{Observer: "eu-2", RTT: map[netip.Addr]time.Duration{a: 10 * time.Millisecond}},
		{Observer: "eu-1", RTT: map[netip.Addr]time.Duration{a: 900 * time.Millisecond}},
		{Observer: "eu-3", RTT: map[netip.Addr]time.Duration{a: 12 * time.Millisecond}},
		{Observer: "mars-1", RTT: map[netip.Addr]time.Duration{a: time.Millisecond}},
	}
	plan := Measured(w.st(), ms, time.Hour)
	require.Equal(t, statestore.MeasureLatency{RTT: map[string]map[netip.Addr]statestore.Duration{"eu": {a: statestore.Duration(12 * time.Millisecond)}}}, plan[0].Command)
}

// Two clusters that are equally far, each with a tenth of noise, never take turns.
func TestEqualLatenciesNeverAlternate(t *testing.T) {
	w := upWorld(t, byLatency)
	random := rand.New(rand.NewPCG(1, 2))
	x, y := addrs("192.0.2.10")[0], addrs("192.0.2.20")[0]
	nearer, turns, commits := 0, 0, 0
	for range 10_000 {
		noisy := func() time.Duration {
			return time.Duration(float64(20*time.Millisecond) * (0.9 + 0.2*random.Float64()))
		}
		ms := from(func(m *Measurement, _ int) { m.RTT = map[netip.Addr]time.Duration{x: noisy(), y: noisy()} }, 3)
		for _, p := range Measured(w.st(), ms, time.Hour) {
			w.do(p.Command)
			commits++
		}
		now := 1
		if l := w.st().Latency["eu"]; l[y] < l[x] {
			now = 2
		}
		if nearer != 0 && now != nearer {
			turns++
		}
		nearer = now
	}
	require.Zero(t, turns)
	require.Equal(t, 1, commits, "the first values, and never again")
}

// Of two that differ one is wrong: without a number to keep to, neither counts (G1).
func TestTwoRegionsThatDifferBeginNoCapacity(t *testing.T) {
	undeclared := func(sp *statestore.Spec) { sp.Clusters["eu"].Capacity = 0 }
	w := newWorld(t, testSpec(reporting, undeclared), regions...)
	says := func(values ...float64) []Proposal {
		return Measured(w.st(), from(func(m *Measurement, i int) { m.Capacity = map[string]float64{"eu": values[i]} }, len(values)), time.Hour)
	}
	require.Empty(t, says(10, 90))
	require.Empty(t, says(0, 90))
	for _, alike := range [][]float64{{100, 95}, {10, 90, 95}} {
		plan := says(alike...)
		require.Len(t, plan, 1, "%v", alike)
	}
}

// What a member measured that does not observe is nobody's word.
func TestOnlyObserversAreHeard(t *testing.T) {
	w := newWorld(t, testSpec(named, reporting), regions...)
	m := member("eu")
	m.Name, m.Observes = "eu-2", false
	w.do(statestore.UpsertMember{Member: m})
	say := func(from ...health.ObserverID) []Proposal {
		var ms []Measurement
		for _, o := range from {
			ms = append(ms, Measurement{Observer: o, Resolved: sees("192.0.2.40"), Capacity: map[string]float64{"eu": 10}})
		}
		return Measured(w.st(), ms, 0)
	}
	require.Empty(t, say("us-1", "eu-2"))
	require.Empty(t, say("us-1", "nobody"))
	require.Len(t, say("us-1", "eu-1"), 2)
}

// Whatever one observer says, alone it changes no address and no capacity.
func TestNoLoneObserverChangesAnything(t *testing.T) { // G1
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, testSpec(named, reporting), regions[:rapid.IntRange(2, 3).Draw(t, "regions")]...)
		set := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"203.0.113.1", "203.0.113.2", "203.0.113.3", "2001:db8::1"}), 1, 3, rapid.ID[string])
		had := set.Draw(t, "had")
		w.known(had...)
		capacity := rapid.IntRange(0, 100).Draw(t, "capacity")
		w.do(statestore.ReportCapacity{Cluster: "eu", Capacity: capacity})
		lone := rapid.IntRange(0, len(w.st().Members)-1).Draw(t, "lone")
		ms := from(func(m *Measurement, i int) {
			switch {
			case i == lone:
				m.Resolved = sees(set.Draw(t, "lone sees")...)
				m.Capacity = map[string]float64{"eu": rapid.Float64Range(0, 200).Draw(t, "lone says")}
			case rapid.Bool().Draw(t, fmt.Sprint("reports", i)):
				m.Resolved = sees(had...)
				m.Capacity = map[string]float64{"eu": float64(capacity)}
			}
		}, len(w.st().Members))
		require.Empty(t, Measured(w.st(), ms, 0))
		if plan := Measured(w.st(), ms, time.Hour); len(plan) > 0 { // only to say that too few are heard
			require.Equal(t, statestore.ReportCapacity{Cluster: "eu", Stale: true}, plan[0].Command)
		}
	})
}

func TestTheOrderOfMeasurementsDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, testSpec(named, reporting, byLatency), regions...)
		for _, n := range []string{"eu-2", "us-2"} {
			m := member(n[:2])
			m.Name = n
			w.do(statestore.UpsertMember{Member: m})
		}
		var ms []Measurement
		for _, n := range sortedKeys(w.st().Members) {
			set := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"203.0.113.1", "203.0.113.2", "203.0.113.3"}), 1, 3, rapid.ID[string]).Draw(t, n)
			ms = append(ms, Measurement{
				Observer: health.ObserverID(n), Resolved: sees(set...),
				Capacity: map[string]float64{"eu": rapid.Float64Range(0, 100).Draw(t, n+" capacity")},
				RTT:      map[netip.Addr]time.Duration{addrs("192.0.2.10")[0]: time.Duration(rapid.IntRange(1, 1e9).Draw(t, n+" rtt"))},
			})
		}
		want := Measured(w.st(), ms, time.Hour)
		require.Equal(t, want, Measured(w.st(), rapid.Permutation(ms).Draw(t, "order"), time.Hour))
		for _, p := range want {
			w.do(p.Command)
		}
	})
}
