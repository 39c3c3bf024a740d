package probe

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
)

func TestFirstVoteComesAfterRiseGoodResultsARecheckApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		h := watch(t, launch(t, Config{}, w, webInput()), webEU)
		time.Sleep(15 * time.Second)
		starts := w.startsOf("192.0.2.10")
		require.Equal(t, "unknown up:ok", h.sides())
		_, at := h.last()
		require.Equal(t, 2*time.Second, at.Sub(starts[0]))
	})
}

func TestDetectionCostsOneIntervalAndTheRechecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		h := watch(t, launch(t, Config{}, w, webInput()), webEU)
		time.Sleep(35 * time.Second)
		synctest.Wait()
		lastGood := w.startsOf("192.0.2.10")
		w.set(w.down, true, "192.0.2.10") // at worst right after a good probe
		time.Sleep(30 * time.Second)
		v, at := h.last()
		require.Equal(t, health.Down, v.Side)
		require.Equal(t, "refused", v.Reason)
		require.Equal(t, 10*time.Second+2*2*time.Second, at.Sub(lastGood[len(lastGood)-1]))

		w.set(w.down, false, "192.0.2.10")
		time.Sleep(13 * time.Second)
		v, _ = h.last()
		require.Equal(t, health.Up, v.Side)
	})
}

func TestASteadyProbeKeepsItsInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		launch(t, Config{}, w, webInput())
		time.Sleep(10 * time.Minute)
		starts := w.startsOf("192.0.2.10")[2:]
		require.Len(t, starts, 59)
		for i := range starts[1:] {
			require.Equal(t, 10*time.Second, starts[i+1].Sub(starts[i]))
		}
	})
}

func TestAProbeNeverOverlapsItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.set(w.hung, true, "192.0.2.10")
		in := webInput()
		in.All[0].Interval, in.All[0].Recheck, in.All[0].Timeout = time.Second, 200*time.Millisecond, 3*time.Second
		p := launch(t, Config{}, w, in)
		time.Sleep(time.Minute)
		require.Zero(t, w.count(&w.overlaps))
		require.Greater(t, len(w.startsOf("192.0.2.10")), 10)
		require.Equal(t, health.Down, p.Votes()[webEU].Side)
		require.Equal(t, "timeout", p.Votes()[webEU].Reason)
	})
}

func TestMissedStartsAreNotMadeUpFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.set(w.hung, true, "192.0.2.10")
		in := webInput()
		in.All[0].Interval, in.All[0].Recheck, in.All[0].Timeout = time.Second, 500*time.Millisecond, 3*time.Second
		p := launch(t, Config{}, w, in)
		time.Sleep(time.Minute)
		w.set(w.hung, false, "192.0.2.10")
		before := len(w.startsOf("192.0.2.10"))
		time.Sleep(20 * time.Second)
		require.Equal(t, health.Up, p.Votes()[webEU].Side)
		require.InDelta(t, 18, len(w.startsOf("192.0.2.10"))-before, 2)
	})
}

// many returns n targets with an endpoint each, over ten clusters.
func many(n int) []TargetChecks {
	var in []TargetChecks
	addr := netip.MustParseAddr("198.18.0.0")
	for i := range n {
		addr = addr.Next()
		in = append(in, TargetChecks{
			Target: health.Target{Service: "s", Cluster: fmt.Sprintf("c%d", i%10), Endpoint: addr},
			All:    []Check{tcpCheck("c", 80)},
		})
	}
	return in
}

// startsIn counts the starts in [from, to) of every endpoint.
func (w *world) startsIn(from, to time.Time) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, starts := range w.starts {
		for _, s := range starts {
			if !s.Before(from) && s.Before(to) {
				n++
			}
		}
	}
	return n
}

func TestStartsAreSpreadOverTheInterval(t *testing.T) {
	spread := func(node string) []int {
		var counts []int
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			begin := time.Now()
			launch(t, Config{Node: node}, w, many(1000)...)
			time.Sleep(time.Minute)
			for s := 30; s < 40; s++ {
				n := w.startsIn(begin.Add(time.Duration(s)*time.Second), begin.Add(time.Duration(s+1)*time.Second))
				require.InDelta(t, 100, n, 40, "second %d", s)
				counts = append(counts, n)
			}
		})
		return counts
	}
	eu := spread("eu-1")
	require.Equal(t, eu, spread("eu-1"), "the spread of a node is always the same")
	require.NotEqual(t, eu, spread("us-1"), "nodes do not probe in step")
}

func TestConcurrencyIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		in := many(200)
		for _, tc := range in {
			w.set(w.hung, true, tc.Target.Endpoint.String())
		}
		launch(t, Config{MaxConcurrency: 7}, w, in...)
		time.Sleep(time.Minute)
		require.Equal(t, 7, w.count(&w.most))
	})
}

// stall makes the loop of p stand still for d at its next turn.
func stall(p *Prober) (begin func(d time.Duration)) {
	ch := make(chan time.Duration, 1)
	p.bootTime = func() time.Duration {
		select {
		case d := <-ch:
			time.Sleep(d)
		default:
		}
		return 0
	}
	return func(d time.Duration) { ch <- d }
}

func TestG9StalledObserverVotesUnknownAndReturnsWithoutABurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		p := New(Config{MaxConcurrency: 1000})
		standStill := stall(p)
		p.measure = w.measure
		in := many(1000)
		p.SetPlan(BuildPlan(in))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = p.Run(ctx) }()
		defer func() { cancel(); <-done }()
		h := watch(t, p, in[0].Target)
		time.Sleep(20 * time.Second)
		require.Equal(t, "unknown up:ok", h.sides())

		resumed := time.Now().Add(20 * time.Second) // and what is left to the next turn
		standStill(20 * time.Second)
		time.Sleep(20*time.Second + beat)
		synctest.Wait()
		require.True(t, p.Status().Stalled)
		time.Sleep(10 * time.Second)
		for s := range 10 {
			at := resumed.Add(time.Duration(s) * time.Second)
			require.Less(t, w.startsIn(at, at.Add(time.Second)), 200, "second %d after the stall", s)
		}
		time.Sleep(5 * time.Second)
		require.Equal(t, "unknown up:ok unknown:stalled up:ok", h.sides())
		require.False(t, p.Status().Stalled)
	})
}

func TestG9ASuspendedMachineIsAStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		p := New(Config{})
		var asleep time.Duration
		p.bootTime = func() time.Duration { w.mu.Lock(); defer w.mu.Unlock(); return asleep }
		p.measure = w.measure
		p.SetPlan(BuildPlan([]TargetChecks{webInput()}))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = p.Run(ctx) }()
		defer func() { cancel(); <-done }()
		h := watch(t, p, webEU)
		time.Sleep(20 * time.Second)
		w.mu.Lock()
		asleep = time.Hour // the monotonic clock has not moved
		w.mu.Unlock()
		time.Sleep(20 * time.Second)
		require.Equal(t, "unknown up:ok unknown:stalled up:ok", h.sides())
	})
}

func TestAFailureThatAStallCutInTwoDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		p := New(Config{})
		standStill := stall(p)
		p.measure = w.measure
		in := webInput()
		in.All[0].Fall = 1
		p.SetPlan(BuildPlan([]TargetChecks{in}))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = p.Run(ctx) }()
		defer func() { cancel(); <-done }()
		h := watch(t, p, webEU)
		time.Sleep(20 * time.Second)
		w.set(w.hung, true, "192.0.2.10")
		for range 100 { // until the next probe is under way
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			if w.count(&w.total) == 1 {
				break
			}
		}
		standStill(20 * time.Second)
		time.Sleep(time.Second)
		w.set(w.hung, false, "192.0.2.10")
		time.Sleep(time.Minute)
		require.Equal(t, "unknown up:ok unknown:stalled up:ok", h.sides())
	})
}

func TestG9AVoteGoesStaleWhenItsProbeDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		h := watch(t, launch(t, Config{}, w, webInput()), webEU)
		time.Sleep(35 * time.Second)
		w.set(w.deaf, true, "192.0.2.10")
		last := w.startsOf("192.0.2.10")
		time.Sleep(40 * time.Second)
		require.Equal(t, "unknown up:ok unknown:stale", h.sides())
		_, at := h.last()
		age := at.Sub(last[len(last)-1])
		require.Greater(t, age, 30*time.Second)
		require.LessOrEqual(t, age, 30*time.Second+beat)
	})
}

func TestARemovedTargetStopsAndLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		reg := prometheus.NewPedanticRegistry()
		w.set(w.hung, true, "192.0.2.11")
		gone := target("web", "us", "192.0.2.11")
		p := launch(t, Config{Registerer: reg}, w, webInput(), TargetChecks{Target: gone, All: []Check{tcpCheck("c", 80)}})
		time.Sleep(25 * time.Second)
		require.Contains(t, p.Votes(), gone)
		require.Len(t, p.Samples(gone), 1)
		require.NotZero(t, testutil.CollectAndCount(p.metrics, "quorate_vote"))

		for synctest.Wait(); w.count(&w.total) == 0; synctest.Wait() {
			time.Sleep(100 * time.Millisecond)
		}
		require.Equal(t, 1, w.runningAt(gone.Endpoint), "it is under way")
		p.SetPlan(BuildPlan([]TargetChecks{webInput()}))
		synctest.Wait()
		removed := time.Now()
		require.Zero(t, w.runningAt(gone.Endpoint), "a run under way is cancelled")
		require.NotContains(t, p.Votes(), gone)
		require.Nil(t, p.Samples(gone))
		time.Sleep(time.Minute)
		for _, s := range w.startsOf("192.0.2.11") {
			require.False(t, s.After(removed))
		}
		require.Equal(t, health.Up, p.Votes()[webEU].Side, "the other one goes on")
		families, err := reg.Gather()
		require.NoError(t, err)
		for _, f := range families {
			require.NotContains(t, f.String(), `"us"`)
		}
	})
}

func TestAProbeKeepsWhatItHasSeenWhenThePlanChangesAroundIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		p := launch(t, Config{}, w, webInput())
		h := watch(t, p, webEU)
		time.Sleep(20 * time.Second)
		before := p.Votes()[webEU]
		shop := TargetChecks{Target: target("shop", "eu", "192.0.2.10"), All: []Check{tcpCheck("same", 80)}}
		p.SetPlan(BuildPlan([]TargetChecks{webInput(), shop}))
		synctest.Wait()
		require.Equal(t, before, p.Votes()[webEU])
		require.Equal(t, health.Up, p.Votes()[shop.Target].Side, "what is known already is known for the new name")
		require.Equal(t, "unknown up:ok", h.sides())
		n := len(w.startsOf("192.0.2.10"))
		time.Sleep(30 * time.Second)
		require.Equal(t, n+3, len(w.startsOf("192.0.2.10")), "one probe for both")
	})
}

func TestIdleProbesHoldNoGoroutine(t *testing.T) {
	before := runtime.NumGoroutine()
	in := many(10_000)
	for i := range in {
		in[i].All[0].Interval = 24 * time.Hour
	}
	p := launch(t, Config{}, newWorld(), in...)
	require.Eventually(t, func() bool { return p.Status().Probes == 10_000 }, 10*time.Second, time.Millisecond)
	require.Less(t, runtime.NumGoroutine(), before+10)
}

// G10: Go compares two times by their monotonic readings when both have one, so a
// wall-clock step changes nothing as long as every time the loop compares has.
func TestG10EveryTimeTheLoopComparesIsMonotonic(t *testing.T) {
	w := newWorld()
	w.set(w.down, true, "192.0.2.10")
	p := New(Config{Canaries: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.53:53")}})
	p.measure = w.measure
	in := webInput()
	p.SetPlan(BuildPlan([]TargetChecks{in}))
	l := newLoop(t.Context(), p)
	l.adopt(p.takePlan(), time.Now())
	var s *probeState
	for _, s = range l.probes {
	}
	ran := func(o outcome) {
		l.heap = nil
		l.running++
		l.finish(finished{s, 0, o}, time.Now())
	}
	l.canary.begin(time.Now())
	l.canary.end(true, time.Now())
	ran(outcome{Result: Result{OK: true}, reached: true})
	ran(outcome{Result: Result{OK: false}})
	l.startRun(s, time.Now())
	l.wg.Wait()
	l.sweep(time.Now())
	for name, at := range map[string]time.Time{
		"start": l.start, "seen": l.seen, "swept": l.swept, "due": s.due, "completed": s.completed,
		"run since": s.h.runSince, "canary due": l.canary.due, "canary started": l.canary.started,
		"canary proven": l.canary.proven, "cluster alive": l.clusters["eu"].alive,
		"pace": l.pace.all.starts[0], "pace of a host": s.host.window.starts[0],
	} {
		require.Contains(t, at.String(), " m=", name)
	}
	// What people are shown carries no monotonic reading, so that nobody measures with it.
	require.NotContains(t, p.Votes()[webEU].Since.String(), " m=")
}

func TestSamplesKeepTheLastTwentyResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		p := launch(t, Config{}, w, webInput())
		time.Sleep(10 * time.Minute)
		w.set(w.down, true, "192.0.2.10")
		time.Sleep(20 * time.Second)
		s := p.Samples(webEU)
		require.Len(t, s, 1)
		require.Equal(t, "c", s[0].Check)
		require.Len(t, s[0].Results, 20)
		require.False(t, s[0].Results[19].OK)
		require.True(t, s[0].Results[0].OK)
		for i := range s[0].Results[1:] {
			require.True(t, s[0].Results[i].At.Before(s[0].Results[i+1].At), "oldest first")
		}
	})
}

func TestMetricsCountEveryNameOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewPedanticRegistry()
		w := newWorld()
		w.set(w.down, true, "192.0.2.10")
		shop := TargetChecks{Target: target("shop", "eu", "192.0.2.10"), All: []Check{tcpCheck("same", 80)}}
		launch(t, Config{Registerer: reg}, w, webInput(), shop)
		time.Sleep(14*time.Second + beat)
		n := len(w.startsOf("192.0.2.10"))
		problems, err := testutil.GatherAndLint(reg)
		require.NoError(t, err)
		require.Empty(t, problems)
		require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP quorate_vote 1 if this node's own vote on some endpoint of the cluster is the state.
# TYPE quorate_vote gauge
quorate_vote{cluster="eu",service="shop",state="down"} 1
quorate_vote{cluster="eu",service="shop",state="unknown"} 0
quorate_vote{cluster="eu",service="shop",state="up"} 0
quorate_vote{cluster="eu",service="web",state="down"} 1
quorate_vote{cluster="eu",service="web",state="unknown"} 0
quorate_vote{cluster="eu",service="web",state="up"} 0
`), "quorate_vote"))
		families, err := reg.Gather()
		require.NoError(t, err)
		var refused, series float64
		for _, f := range families {
			if f.GetName() != "quorate_probe_results_total" {
				continue
			}
			for _, m := range f.GetMetric() {
				series++
				for _, l := range m.GetLabel() {
					if l.GetName() == "result" && l.GetValue() == "refused" {
						refused += m.GetCounter().GetValue()
					}
				}
			}
		}
		require.Equal(t, float64(2*n), refused)
		require.Equal(t, float64(2*len(resultReasons)), series, "counters exist at zero")
	})
}
