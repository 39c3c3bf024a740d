package probe

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// answers stands for everything a survey asks, in virtual time.
type answers struct {
	mu       sync.Mutex
	addrs    map[string][]netip.Addr // by hostname; none is a failure
	ttl      time.Duration
	capacity map[string]float64 // by cluster; none is a failure
	hung     bool
	asked    map[string][]time.Time
	running  int
	most     int
}

func newAnswers() *answers {
	return &answers{addrs: map[string][]netip.Addr{}, ttl: 20 * time.Second, capacity: map[string]float64{}, asked: map[string][]time.Time{}}
}

func (a *answers) begin(what string) (end func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked[what] = append(a.asked[what], time.Now())
	a.running++
	a.most = max(a.most, a.running)
	return func() { a.mu.Lock(); a.running--; a.mu.Unlock() }
}

func (a *answers) wait(ctx context.Context) error {
	a.mu.Lock()
	hung := a.hung
	a.mu.Unlock()
	if hung {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (a *answers) resolve(ctx context.Context, hostname string) ([]netip.Addr, time.Duration, error) {
	defer a.begin(hostname)()
	if err := a.wait(ctx); err != nil {
		return nil, 0, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if addrs := a.addrs[hostname]; addrs != nil {
		return addrs, a.ttl, nil
	}
	return nil, 0, errors.New("no such name")
}

func (a *answers) read(ctx context.Context, p CapacityPlan) (float64, error) {
	defer a.begin(p.Cluster)()
	if err := a.wait(ctx); err != nil {
		return 0, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if v, ok := a.capacity[p.Cluster]; ok {
		return v, nil
	}
	return 0, errors.New("no report")
}

func (a *answers) set(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
}

func (a *answers) times(what string) []time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]time.Time(nil), a.asked[what]...)
}

// ask runs the survey of a prober over a until the test ends.
func (a *answers) ask(t *testing.T, plan Plan) *Prober {
	t.Helper()
	p := launch(t, Config{Node: "eu-1", Log: slog.New(slog.DiscardHandler)}, newWorld())
	p.survey.mu.Lock() // not taken up yet, since there was no plan
	p.survey.resolve, p.survey.capacity = a.resolve, a.read
	p.survey.mu.Unlock()
	p.SetPlan(plan)
	return p
}

func addrs(list ...string) []netip.Addr {
	var out []netip.Addr
	for _, s := range list {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

// A step of the wall clock makes no report old, nor an old one fresh.
func TestG10EveryTimeTheSurveyComparesIsMonotonic(t *testing.T) {
	p := New(Config{})
	s := p.survey
	plan := lbPlan()
	plan.Capacities = []CapacityPlan{{Cluster: "eu", HTTP: &CapacityHTTP{Port: 80, JSON: "$.n"}}}
	s.setPlan(plan)
	s.adopt(time.Now())
	due := func(when string) {
		require.Len(t, s.errands, 2)
		for key, e := range s.errands {
			require.Contains(t, e.due.String(), " m=", "%s: %v", when, key)
		}
	}
	due("at first")
	for _, e := range s.errands {
		s.take(errandDone{e: e, addrs: addrs("192.0.2.1"), value: 5, again: time.Second}, time.Now())
	}
	due("after an answer")
	require.Contains(t, s.reports["eu"].at.String(), " m=")
	for _, e := range s.errands {
		s.take(errandDone{e: e, err: errors.New("none")}, time.Now())
	}
	due("after a failure")
}

func lbPlan() Plan {
	return Plan{Names: []HostnamePlan{{"dr", "lb.dr.example.net"}}}
}

// fired reports whether ch is closed.
func fired(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

func TestAHostnameIsAskedForAgainWhenItsTTLIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAnswers()
		a.addrs["lb.dr.example.net"] = addrs("192.0.2.1")
		p := a.ask(t, lbPlan())
		changed := p.MeasurementsChanged()
		time.Sleep(61 * time.Second)
		require.True(t, fired(changed))
		changed = p.MeasurementsChanged()
		want := map[string]Resolved{"dr": {"lb.dr.example.net", addrs("192.0.2.1")}}
		require.Equal(t, want, p.Measurements().Resolved)
		at := a.times("lb.dr.example.net")
		require.Len(t, at, 4)
		require.Equal(t, 20*time.Second, at[1].Sub(at[0]))
		require.False(t, fired(changed), "the same again is no change")

		a.set(func() { a.addrs["lb.dr.example.net"] = addrs("192.0.2.2") })
		time.Sleep(20 * time.Second)
		require.True(t, fired(changed))
		require.Equal(t, addrs("192.0.2.2"), p.Measurements().Resolved["dr"].Addrs)
	})
}

func TestWhatDoesNotResolveIsNotReportedAndAskedForMoreAndMoreSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAnswers()
		a.addrs["lb.dr.example.net"] = addrs("192.0.2.1")
		p := a.ask(t, lbPlan())
		time.Sleep(5 * time.Second)
		changed := p.MeasurementsChanged()
		a.set(func() { delete(a.addrs, "lb.dr.example.net") })
		time.Sleep(20 * time.Second)
		require.True(t, fired(changed))
		require.Empty(t, p.Measurements().Resolved)
		time.Sleep(3 * time.Minute)
		at := a.times("lb.dr.example.net")[1:]
		for i, want := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
			require.Equal(t, want*time.Second, at[i+1].Sub(at[i]))
		}
		a.set(func() { a.addrs["lb.dr.example.net"] = addrs("192.0.2.1") })
		time.Sleep(30 * time.Second)
		require.Len(t, p.Measurements().Resolved, 1)
	})
}

func TestARemovedNameIsForgottenAndItsQuestionGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAnswers()
		a.addrs["lb.dr.example.net"] = addrs("192.0.2.1")
		p := a.ask(t, lbPlan())
		time.Sleep(5 * time.Second)
		a.set(func() { a.hung = true })
		time.Sleep(20 * time.Second)
		a.set(func() { require.Equal(t, 1, a.running) })
		changed := p.MeasurementsChanged()
		p.SetPlan(Plan{})
		synctest.Wait()
		a.set(func() { require.Zero(t, a.running) })
		require.True(t, fired(changed))
		require.Empty(t, p.Measurements().Resolved)
		n := len(a.times("lb.dr.example.net"))
		time.Sleep(5 * time.Minute)
		require.Len(t, a.times("lb.dr.example.net"), n)
	})
}

func TestANewHostnameReplacesWhatTheOldOneSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAnswers()
		a.addrs["lb.dr.example.net"] = addrs("192.0.2.1")
		p := a.ask(t, lbPlan())
		time.Sleep(5 * time.Second)
		p.SetPlan(lbPlan()) // unchanged
		synctest.Wait()
		require.Len(t, p.Measurements().Resolved, 1)
		p.SetPlan(Plan{Names: []HostnamePlan{{"dr", "new.dr.example.net"}}})
		synctest.Wait()
		require.Empty(t, p.Measurements().Resolved)
	})
}

func TestFewQuestionsAreAskedAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAnswers()
		a.hung = true
		var plan Plan
		for i := range 100 {
			plan.Names = append(plan.Names, HostnamePlan{Cluster: string(rune('a' + i)), Hostname: string(rune('a' + i))})
		}
		a.ask(t, plan)
		time.Sleep(3 * time.Minute)
		a.set(func() {
			require.Equal(t, surveyAtOnce, a.most)
			require.Len(t, a.asked, 100, "each had its turn")
		})
	})
}

func capacityPlan() Plan {
	return Plan{Capacities: []CapacityPlan{{Cluster: "eu", MaxAge: 60 * time.Second, HTTP: &CapacityHTTP{Port: 80, JSON: "$"}, Endpoints: addrs("192.0.2.1")}}}
}

func TestACapacityIsReadThriceInItsMaxAgeAndKeptThatLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAnswers()
		a.capacity["eu"] = 80
		p := a.ask(t, capacityPlan())
		changed := p.MeasurementsChanged()
		time.Sleep(30 * time.Second)
		require.True(t, fired(changed))
		require.Equal(t, map[string]float64{"eu": 80}, p.Measurements().Capacity)
		at := a.times("eu")
		require.Equal(t, 20*time.Second, at[1].Sub(at[0]))
		a.set(func() { delete(a.capacity, "eu") })
		last := at[len(at)-1]
		time.Sleep(time.Until(last.Add(60 * time.Second)))
		require.Len(t, p.Measurements().Capacity, 1, "it is not older than that")
		time.Sleep(time.Second)
		require.Empty(t, p.Measurements().Capacity)

		changed = p.MeasurementsChanged()
		a.set(func() { a.capacity["eu"] = 80 })
		time.Sleep(20 * time.Second)
		require.True(t, fired(changed), "that it is back is a change, though the value is the same")
	})
}

func TestTheIntervalOfACapacityFollowsItsMaxAgeWithinBounds(t *testing.T) {
	tests := []struct {
		name         string
		maxAge, want time.Duration
	}{
		{"a third", 60 * time.Second, 20 * time.Second},
		{"a second at least", time.Second, time.Second},
		{"a minute at most", time.Hour, time.Minute},
		{"without an age", 0, 20 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, CapacityPlan{MaxAge: tt.maxAge}.interval())
		})
	}
}

func TestAReportOutlivesAChangeOfEndpointsButNotOfItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAnswers()
		a.capacity["eu"] = 80
		p := a.ask(t, capacityPlan())
		time.Sleep(5 * time.Second)
		other := capacityPlan()
		other.Capacities[0].Endpoints = addrs("192.0.2.2")
		p.SetPlan(other)
		synctest.Wait()
		require.Len(t, p.Measurements().Capacity, 1)
		other = capacityPlan()
		other.Capacities[0].HTTP = &CapacityHTTP{Port: 80, JSON: "$.other"}
		p.SetPlan(other)
		synctest.Wait()
		require.Empty(t, p.Measurements().Capacity)
	})
}

func TestRoundTripsAreSmoothedAndForgottenWithTheirEndpoint(t *testing.T) {
	endpoint := netip.MustParseAddr("192.0.2.10")
	table := rttTable{smoothed: map[netip.Addr]time.Duration{}}
	table.add(endpoint, 0)
	require.Empty(t, table.list(), "nothing was measured")
	table.add(endpoint, 10*time.Millisecond)
	require.Equal(t, 10*time.Millisecond, table.list()[endpoint], "the first is the average")
	table.add(endpoint, 20*time.Millisecond)
	require.Equal(t, 12*time.Millisecond, table.list()[endpoint])
	table.add(endpoint, 2*time.Millisecond)
	require.Equal(t, 10*time.Millisecond, table.list()[endpoint])
	table.keep(BuildPlan([]TargetChecks{webInput()}))
	require.Len(t, table.list(), 1)
	table.keep(Plan{})
	require.Empty(t, table.list())
}
