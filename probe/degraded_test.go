package probe

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
)

func TestDegradedFollowsFallAndRise(t *testing.T) {
	tests := []struct {
		name    string
		results string // l: latency, c: cert, a dot: well
		want    string // after each
	}{
		{"fall in a row", "lll", "..l"},
		{"one that is well starts anew", "ll.ll", "....."},
		{"rise in a row end it", "lll..", "..ll."},
		{"one is not enough", "lll.l.l", "..lllll"},
		{"either reason counts", "lclll", "..lll"},
		{"the last reason is told", "llc", "..c"},
		{"another reason needs its own run", "lllccc", "..lllc"},
		{"two that take turns do not flap", "lllclclc", "..llllll"},
	}
	word := map[rune]string{'l': DegradedLatency, 'c': DegradedCert, '.': ""}
	letter := map[string]string{DegradedLatency: "l", DegradedCert: "c", "": "."}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var d degradation
			var got strings.Builder
			for _, r := range tt.results {
				d.add(word[r], 3, 2)
				got.WriteString(letter[d.is])
			}
			require.Equal(t, tt.want, got.String())
		})
	}
}

func TestWhatMakesATargetDegraded(t *testing.T) {
	probe := func(why string) *probeState { return &probeState{degraded: degradation{is: why}} }
	up, down := opinion{health.Up, ReasonOK}, opinion{health.Down, ReasonRefused}
	tests := []struct {
		name  string
		all   []*probeState
		any   []*probeState
		sides []opinion // of any
		want  string
	}{
		{"none is", []*probeState{probe(""), probe("")}, nil, nil, ""},
		{"the first of all that is", []*probeState{probe(""), probe(DegradedCert), probe(DegradedLatency)}, nil, nil, DegradedCert},
		{"one of any is well", nil, []*probeState{probe(DegradedCert), probe("")}, []opinion{up, up}, ""},
		{"the well one is down", nil, []*probeState{probe(DegradedCert), probe("")}, []opinion{up, down}, DegradedCert},
		{"a degraded one is down", []*probeState{probe("")}, []*probeState{probe(DegradedCert), probe("")}, []opinion{down, up}, ""},
		{"all of any are", nil, []*probeState{probe(DegradedLatency), probe(DegradedCert)}, []opinion{up, up}, DegradedLatency},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, (&targetState{all: tt.all, any: tt.any}).degradedOf(tt.sides))
		})
	}
}

func TestADegradedTargetStaysUpAndSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		p := launch(t, Config{}, w, webInput())
		h := watch(t, p, webEU)
		time.Sleep(20 * time.Second)
		w.mu.Lock()
		w.degraded = DegradedLatency
		w.mu.Unlock()
		time.Sleep(21 * time.Second)
		require.Equal(t, "unknown up:ok", h.sides(), "two results are not enough")
		since := p.Votes()[webEU].Since
		time.Sleep(10 * time.Second)
		require.Equal(t, health.Vote{Side: health.Up, Reason: "ok", Since: since, Degraded: "latency"}, p.Votes()[webEU])
		require.Equal(t, DegradedLatency, p.Samples(webEU)[0].Results[5].Degraded)

		w.set(w.down, true, "192.0.2.10")
		time.Sleep(20 * time.Second)
		require.Equal(t, health.Down, p.Votes()[webEU].Side)
		require.Empty(t, p.Votes()[webEU].Degraded, "what is down is not degraded")
		w.set(w.down, false, "192.0.2.10")
		time.Sleep(20 * time.Second)
		require.Equal(t, "latency", p.Votes()[webEU].Degraded, "it is still slow")
		w.mu.Lock()
		w.degraded = ""
		w.mu.Unlock()
		time.Sleep(20 * time.Second)
		require.Empty(t, p.Votes()[webEU].Degraded)
		require.Equal(t, health.Up, p.Votes()[webEU].Side)
	})
}

// Another schedule and another warning of the same question throw away nothing: the
// vote holds, the results stay to be looked at, and no change is reported.
func TestAnotherScheduleOrWarningForgetsNothing(t *testing.T) {
	input := func(edit func(*Check)) TargetChecks {
		c := Check{
			Name: "check", Interval: 10 * time.Second, Timeout: 3 * time.Second, Fall: 3, Rise: 2, Recheck: 2 * time.Second,
			HTTP: &HTTPCheck{Port: 80, Warn: Warn{MaxLatency: time.Second}},
		}
		edit(&c)
		return TargetChecks{Target: webEU, All: []Check{c}}
	}
	tests := []struct {
		name string
		edit func(*Check)
		same bool
	}{
		{"another warning", func(c *Check) { c.HTTP.Warn = Warn{MaxLatency: 2 * time.Second} }, true},
		{"no warning", func(c *Check) { c.HTTP.Warn = Warn{} }, true},
		{"a larger fall and interval", func(c *Check) { c.Fall, c.Interval, c.Timeout = 5, 20*time.Second, 5*time.Second }, true},
		{"another path", func(c *Check) { c.HTTP.Path = "/other" }, false},
		{"another status", func(c *Check) { c.HTTP.Expect.Status = []StatusRange{{200, 499}} }, false},
		{"another kind", func(c *Check) { c.HTTPS, c.HTTP = c.HTTP, nil }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				p := launch(t, Config{}, w, input(func(*Check) {}))
				h := watch(t, p, webEU)
				time.Sleep(time.Minute)
				was := len(p.Samples(webEU)[0].Results)
				require.Equal(t, "unknown up:ok", h.sides())
				p.SetPlan(BuildPlan([]TargetChecks{input(tt.edit)}))
				time.Sleep(100 * time.Millisecond)
				if !tt.same {
					require.Equal(t, "unknown up:ok unknown", h.sides())
					require.Empty(t, p.Samples(webEU)[0].Results)
					return
				}
				require.Equal(t, "unknown up:ok", h.sides())
				require.Len(t, p.Samples(webEU)[0].Results, was)
				w.set(w.down, true, "192.0.2.10")
				time.Sleep(2 * time.Minute)
				require.Equal(t, "unknown up:ok down:refused", h.sides(), "it goes on being probed")
			})
		})
	}
}

func TestOnlyAChangeOfDegradedIsReported(t *testing.T) {
	votes := func(degraded string) map[health.Target]health.Vote {
		return map[health.Target]health.Vote{webEU: {Side: health.Up, Reason: "ok", Degraded: degraded}}
	}
	require.Empty(t, diff(votes(""), votes("")))
	require.Equal(t, votes("cert"), diff(votes(""), votes("cert")))
	require.Empty(t, diff(votes("cert"), votes("cert")))
	require.Equal(t, votes("latency"), diff(votes("cert"), votes("latency")))
	require.Equal(t, votes(""), diff(votes("latency"), votes("")))
}

func TestSamplesLoseNothingThatIsShown(t *testing.T) {
	at := time.Now().Round(0)
	results := []Result{
		{At: at, Took: 1234567 * time.Nanosecond, OK: true, Reason: ReasonOK},
		{At: at.Add(time.Second), Took: 3 * time.Second, Reason: ReasonTimeout, Detail: "no answer"},
		{
			At: at.Add(2 * time.Second), Took: time.Millisecond, OK: true, Reason: ReasonOK, RTT: 250 * time.Microsecond,
			Degraded: DegradedCert, CertExpiry: time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC),
		},
	}
	var r ring
	for _, res := range results {
		r.add(res, reasonIndex(res.Reason))
	}
	results[0].Took = 1234 * time.Microsecond
	require.Equal(t, results, r.list())
	for range keptResults - 1 {
		r.add(results[1], reasonIndex(ReasonTimeout))
	}
	got := r.list()
	require.Len(t, got, keptResults)
	require.Equal(t, results[2], got[0], "the oldest that is kept, and its own detail")
	require.Equal(t, results[1], got[keptResults-1])
}
