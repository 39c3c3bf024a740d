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

// named adds a cluster dr that is named by a hostname.
func named(sp *statestore.Spec) {
	sp.Clusters["dr"] = &statestore.Cluster{Region: "eu-central", Hostname: host}
}

func sees(texts ...string) map[string]Resolved {
	return map[string]Resolved{"dr": {Hostname: host, Addrs: addrs(texts...)}}
}

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
