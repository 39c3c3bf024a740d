package probe

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
)

// allStarts returns every start, sorted.
func (w *world) allStarts() []time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []time.Time
	for _, starts := range w.starts {
		all = append(all, starts...)
	}
	slices.SortFunc(all, time.Time.Compare)
	return all
}

// mostInASecond returns the most starts of any second from on.
func mostInASecond(starts []time.Time, from time.Time) int {
	most, first := 0, 0
	for i, at := range starts {
		if at.Before(from) {
			first = i + 1
			continue
		}
		for at.Sub(starts[first]) >= time.Second {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

func addrsOf(in []TargetChecks) []string {
	var out []string
	for _, tc := range in {
		out = append(out, tc.Target.Endpoint.String())
	}
	return out
}

func TestTheLossOfAThousandTargetsStartsNoStorm(t *testing.T) {
	for _, lost := range []string{"refused", "hung"} {
		t.Run(lost, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				in := many(1000)
				p := launch(t, Config{MaxConcurrency: 1000}, w, in...)
				time.Sleep(time.Minute)
				steady := w.startsIn(time.Now().Add(-10*time.Second), time.Now()) / 10
				require.Equal(t, 100, steady)
				if lost == "hung" {
					w.set(w.hung, true, addrsOf(in)...)
				} else {
					w.set(w.down, true, addrsOf(in)...)
				}
				at := time.Now()
				time.Sleep(8 * time.Second)
				synctest.Wait()
				require.NotZero(t, p.Status().Backlog, "rechecks wait")
				require.Less(t, p.Status().Late, 10*time.Second)
				time.Sleep(22*time.Second + 3*time.Second + beat) // an interval for each of fall, and the timeout
				for target, v := range p.Votes() {
					require.Equal(t, health.Down, v.Side, "%v", target)
				}
				time.Sleep(30 * time.Second)
				require.LessOrEqual(t, mostInASecond(w.allStarts(), at), 2*steady)
				require.Zero(t, p.Status().Backlog, "it is over")
			})
		})
	}
}

func TestARecheckThatWaitsIsMadeAtTheNextRegularStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		in := many(1000)
		for i := range in {
			in[i].All[0].Fall = 8 // more rechecks than the pace lets through
		}
		launch(t, Config{MaxConcurrency: 1000}, w, in...)
		time.Sleep(30 * time.Second)
		w.set(w.down, true, addrsOf(in)...)
		time.Sleep(time.Minute)
		for _, addr := range addrsOf(in) {
			starts := w.startsOf(addr)
			for i := range starts[1:] {
				// It is wanted after two seconds, and the next turn comes within ten.
				require.LessOrEqual(t, starts[i+1].Sub(starts[i]), 12*time.Second, addr)
			}
		}
	})
}

func TestAHostGetsTwentyStartsASecondOrTwiceItsOwnRate(t *testing.T) {
	tests := []struct {
		name   string
		checks int
		most   int
	}{
		{"a few checks may take twenty", 60, 20},
		{"many checks may take twice what they need", 400, 80},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				in := webInput()
				in.All = nil
				for i := range tt.checks {
					in.All = append(in.All, tcpCheck(fmt.Sprint(i), 1+i))
				}
				others := many(2000) // enough that the pace of all is not what holds
				p := launch(t, Config{MaxConcurrency: 1000}, w, append(others, in)...)
				time.Sleep(time.Minute)
				at := time.Now()
				w.set(w.down, true, "192.0.2.10")
				time.Sleep(31 * time.Second)
				require.Equal(t, health.Down, p.Votes()[webEU].Side)
				most := mostInASecond(w.startsOf("192.0.2.10"), at)
				require.LessOrEqual(t, most, tt.most)
				require.Greater(t, most, tt.most*2/3, "the rechecks used what they may")
			})
		})
	}
}

func TestWhatWaitsIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		reg := prometheus.NewPedanticRegistry()
		in := many(100)
		p := launch(t, Config{MaxConcurrency: 10, Registerer: reg}, w, in...)
		gauges := func(backlog int, late string) {
			t.Helper()
			require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(fmt.Sprintf(`
# HELP quorate_probe_backlog Probes that are due and wait for max_concurrency or for the pace of rechecks.
# TYPE quorate_probe_backlog gauge
quorate_probe_backlog %d
# HELP quorate_probe_late_seconds How late the longest waiting probe is.
# TYPE quorate_probe_late_seconds gauge
quorate_probe_late_seconds %s
`, backlog, late)), "quorate_probe_backlog", "quorate_probe_late_seconds"))
		}
		time.Sleep(30 * time.Second)
		require.Zero(t, p.Status().Backlog)
		gauges(0, "0")
		w.set(w.deaf, true, addrsOf(in)...) // ten runs, and none of them ends
		time.Sleep(20*time.Second + beat)
		synctest.Wait()
		require.Equal(t, 90, p.Status().Backlog)
		require.Equal(t, 10, p.Status().Running)
		late := p.Status().Late
		require.Greater(t, late, 18*time.Second)
		require.Less(t, late, 21*time.Second)
		gauges(90, fmt.Sprint(late.Seconds()))
	})
}

func TestTwentyThousandChecksKeepTheirIntervalsAndReturnFromAPauseWithoutABurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const checks, rate = 20_000, 2_000
		w := newWorld()
		p := New(Config{MaxConcurrency: checks}) // only the schedule holds it back
		standStill := stall(p)
		p.measure = w.measure
		in := many(checks)
		for i := range in {
			in[i].All[0].Rise = 1
		}
		p.SetPlan(BuildPlan(in))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = p.Run(ctx) }()
		defer func() { cancel(); <-done }()
		begin := time.Now()
		time.Sleep(20*time.Second - 1)
		starts := w.allStarts()
		require.Len(t, starts, 2*checks)
		for _, tc := range in {
			at := w.startsOf(tc.Target.Endpoint.String())
			require.Len(t, at, 2)
			require.Equal(t, 10*time.Second, at[1].Sub(at[0]))
		}
		require.InDelta(t, rate, mostInASecond(starts, begin), rate/10)

		standStill(20 * time.Second)
		time.Sleep(20*time.Second + beat)
		resumed := time.Now()
		time.Sleep(10 * time.Second)
		require.InDelta(t, rate, mostInASecond(w.allStarts(), resumed), rate/10)

		// What is removed stops at once, runs under way included.
		w.set(w.hung, true, addrsOf(in)...)
		time.Sleep(time.Second)
		p.SetPlan(Plan{})
		removed := time.Now()
		synctest.Wait()
		require.Zero(t, w.count(&w.total))
		time.Sleep(10 * time.Second)
		require.Zero(t, w.startsIn(removed.Add(1), time.Now()))
	})
}

func TestTakingUpALargePlanIsNoStandstill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		p := prepare(Config{}, w, webInput())
		var slow atomic.Bool // as many thousand are
		p.newChecker = func(c Check, endpoint netip.Addr) (checker, error) {
			if slow.Load() {
				time.Sleep(2 * stallGap)
			}
			return p.runner.newChecker(c, endpoint)
		}
		begin(t, p)
		h := watch(t, p, webEU)
		time.Sleep(20 * time.Second)
		slow.Store(true)
		p.SetPlan(BuildPlan(append(many(1), webInput())))
		time.Sleep(20 * time.Second)
		require.Equal(t, "unknown up:ok", h.sides())
	})
}

func TestAWindowHoldsTheLastStarts(t *testing.T) {
	now := time.Now()
	var w window
	w.resize(3)
	for range 3 {
		_, full := w.full(now)
		require.False(t, full)
		w.add(now)
		now = now.Add(100 * time.Millisecond)
	}
	until, full := w.full(now)
	require.True(t, full)
	require.Equal(t, now.Add(paceWindow-300*time.Millisecond), until)

	w.resize(5) // a plan with more probes came
	_, full = w.full(now)
	require.False(t, full)
	w.add(now)
	w.add(now)
	_, full = w.full(now)
	require.True(t, full, "the starts before count on")

	w.resize(2)
	until, full = w.full(now)
	require.True(t, full)
	require.Equal(t, now.Add(paceWindow), until, "the latest are kept")
	_, full = w.full(now.Add(paceWindow))
	require.False(t, full)
}

func TestEqualChecksOfManyServicesAreOneProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		var in []TargetChecks
		for i := range 5_000 {
			in = append(in, TargetChecks{
				Target: health.Target{Service: fmt.Sprintf("s%d", i), Cluster: "eu", Endpoint: netip.MustParseAddr("192.0.2.10")},
				All:    []Check{tcpCheck("c", 80), tcpCheck("same", 80)},
			})
		}
		p := launch(t, Config{}, w, in...)
		time.Sleep(20 * time.Second)
		require.Equal(t, 1, p.Status().Probes)
		require.Len(t, p.takePlan().Probes[0].Names, 10_000)
		require.LessOrEqual(t, len(w.startsOf("192.0.2.10")), 4)
		for _, tc := range in {
			require.Equal(t, health.Up, p.Votes()[tc.Target].Side)
			require.Len(t, p.Samples(tc.Target), 2)
		}
	})
}
