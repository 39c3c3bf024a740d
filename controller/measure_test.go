package controller

import (
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/statestore"
)

const labHost = "lb.us.example.net."

// named makes us a cluster that is named by a hostname.
func named(spec *statestore.Spec) {
	spec.Clusters["us"].IPv4, spec.Clusters["us"].Hostname = nil, labHost
}

// reporting makes us report its capacity.
func reporting(spec *statestore.Spec) {
	spec.Clusters["us"].Capacity = 100
	spec.Clusters["us"].CapacityFrom = &statestore.CapacityFrom{
		HTTP:   &statestore.CapacityHTTP{Port: 443, Path: "/capacity", JSON: "$.available"},
		MaxAge: statestore.Duration(time.Minute), Change: 10,
	}
}

// ranked makes web follow round trips.
func ranked(spec *statestore.Spec) {
	spec.Services["web"].Policy = statestore.Policy{Type: statestore.Latency}
}

// measuring is a lab that leads and whose three observers measure every 5 s what say
// tells of each of them.
func measuring(t *testing.T, say func(node string) Measurement, edits ...func(*statestore.Spec)) *lab {
	t.Helper()
	l := newLab(t, edits...)
	l.lead()
	for i, name := range []string{"ap-1", "eu-1", "us-1"} {
		o := l.observer(name)
		o.start()
		go func() {
			wait(l.ctx, time.Duration(i)*300*time.Millisecond)
			for l.ctx.Err() == nil {
				_ = l.ctl.Measure(l.ctx, name, say(name)) // nobody may lead
				wait(l.ctx, 5*time.Second)
			}
		}()
	}
	time.Sleep(3 * time.Second)
	return l
}

// word is what observers measure now.
type word struct {
	mu sync.Mutex
	m  Measurement
}

func (w *word) set(m Measurement) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.m = m
}

func (w *word) of(string) Measurement {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.m
}

// measure is one node's word, out of turn.
func (l *lab) measure(node string, m Measurement) {
	l.t.Helper()
	require.NoError(l.t, l.ctl.Measure(l.ctx, node, m))
}

func at(addrs ...string) Measurement {
	r := Resolved{Hostname: labHost}
	for _, a := range addrs {
		r.Addrs = append(r.Addrs, netip.MustParseAddr(a))
	}
	return Measurement{Resolved: map[string]Resolved{"us": r}}
}

func takes(v float64) Measurement { return Measurement{Capacity: map[string]float64{"us": v}} }

func away(eu, us time.Duration) Measurement {
	return Measurement{RTT: map[netip.Addr]statestore.Duration{
		netip.MustParseAddr("192.0.2.10"): statestore.Duration(eu), netip.MustParseAddr("192.0.2.20"): statestore.Duration(us),
	}}
}

func (l *lab) addresses() string { return fmt.Sprint(l.st().Spec.Clusters["us"].Endpoints()) }

func TestAHostnameMovesWithAMajorityOfRegionsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, named)
		l.lead()
		defer l.resign()
		require.Equal(t, "[]", l.addresses())
		l.measure("eu-1", at("192.0.2.20"))
		time.Sleep(5 * time.Second)
		require.Equal(t, "[]", l.addresses(), "one region of three is no agreement")
		start := time.Now()
		l.measure("us-1", at("192.0.2.20"))
		for l.addresses() == "[]" {
			time.Sleep(10 * time.Millisecond)
		}
		require.LessOrEqual(t, time.Since(start), 2*batchWindow, "clients may wait for it")
		require.Equal(t, "[192.0.2.20]", l.addresses())
		require.NotEmpty(t, l.targets("us"), "its endpoints are targets like any other")

		l.forget()
		l.measure("ap-1", at("192.0.2.21", "192.0.2.20"))
		l.measure("eu-1", at("192.0.2.21", "192.0.2.20"))
		l.measure("us-1", at("192.0.2.20", "192.0.2.21"))
		time.Sleep(time.Second)
		require.Equal(t, "[192.0.2.20 192.0.2.21]", l.addresses(), "in whatever order they come")
		require.Len(t, l.proposed(statestore.KindResolveCluster), 1)
		require.Len(t, l.out.lines("addresses of a hostname changed"), 2)
		require.Contains(t, l.out.lines("addresses of a hostname changed")[1], "was=[192.0.2.20] to=\"[192.0.2.20 192.0.2.21]\"")
	})
}

func TestOneLyingObserverMovesNothing(t *testing.T) { // G1
	synctest.Test(t, func(t *testing.T) {
		l := measuring(t, func(node string) Measurement {
			m := at("192.0.2.20")
			m.Capacity = map[string]float64{"us": 100}
			if node == "ap-1" {
				m = at("203.0.113.66", fmt.Sprintf("203.0.113.%d", time.Now().Second()))
				m.Capacity = map[string]float64{"us": 1e8}
			}
			return m
		}, named, reporting)
		defer l.resign()
		require.Equal(t, "[192.0.2.20]", l.addresses())
		require.Equal(t, 100, l.st().Clusters["us"].Reported.Capacity)
		l.forget()
		time.Sleep(2 * time.Minute)
		require.Equal(t, "[192.0.2.20]", l.addresses())
		require.Equal(t, 100, l.st().Clusters["us"].Reported.Capacity)
		require.Empty(t, l.proposed(statestore.KindResolveCluster, statestore.KindReportCapacity))
	})
}

func TestACapacityIsReportedAndForgottenWhenNobodyHearsOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := &word{m: takes(80)}
		l := measuring(t, now.of, reporting)
		defer l.resign()
		require.Equal(t, 80, l.st().Clusters["us"].Reported.Capacity)
		require.Len(t, l.proposed(statestore.KindReportCapacity), 1)
		reg := prometheus.NewPedanticRegistry()
		reg.MustRegister(l.ctl.metrics)
		series := func() int {
			n, err := testutil.GatherAndCount(reg, "quorate_cluster_reported_capacity")
			require.NoError(t, err)
			return n
		}
		require.Equal(t, 1, series())

		l.forget()
		now.set(takes(85))
		time.Sleep(time.Minute)
		require.Empty(t, l.proposed(statestore.KindReportCapacity), "below the change that is worth an entry")
		now.set(takes(20))
		time.Sleep(7 * time.Second)
		require.Equal(t, 20, l.st().Clusters["us"].Reported.Capacity)
		require.Len(t, l.proposed(statestore.KindReportCapacity), 1)
		require.Contains(t, l.out.lines("cluster reports its capacity")[1], "capacity=20 was=80")

		l.forget()
		now.set(Measurement{}) // observers let go of it once it is max_age old
		time.Sleep(7 * time.Second)
		require.Nil(t, l.st().Clusters["us"].Reported, "the declared one counts again")
		require.Len(t, l.proposed(statestore.KindReportCapacity), 1)
		require.Len(t, l.out.lines("no fresh report of a cluster's capacity"), 1)
		require.Zero(t, series())
	})
}

func TestANewLeaderWaitsForReportsBeforeItCallsThemStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := &word{m: takes(80)}
		l := measuring(t, now.of, reporting)
		time.Sleep(5 * time.Minute)
		l.resign()
		now.set(Measurement{})
		l.lead()
		defer func() { l.resign() }()
		began := time.Now()
		time.Sleep(59 * time.Second)
		require.NotNil(t, l.st().Clusters["us"].Reported, "a leader that has listened for less than max_age knows nothing")
		for l.st().Clusters["us"].Reported != nil {
			time.Sleep(time.Second)
		}
		require.InDelta(t, time.Minute.Seconds(), time.Since(began).Seconds(), 6)
	})
}

func TestAStalledLeaderListensAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := measuring(t, func(string) Measurement { return takes(80) }, reporting)
		defer l.resign()
		time.Sleep(5 * time.Minute)
		l.stall(time.Hour)
		time.Sleep(30 * time.Second)
		require.NotNil(t, l.st().Clusters["us"].Reported)
		require.Empty(t, l.out.lines("no fresh report"))
	})
}

func TestRoundTripsAreCommittedEveryTenSecondsAtMostAndNotWhileTheyAreSteady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eu, us := 20*time.Millisecond, 21*time.Millisecond
		now := &word{m: away(eu, us)}
		l := measuring(t, now.of, ranked)
		defer l.resign()
		time.Sleep(15 * time.Second)
		require.Len(t, l.proposed(statestore.KindMeasureLatency), 1)
		require.Len(t, l.st().Latency, 3, "of every region, in one entry")

		l.forget()
		for i := range 120 { // two clusters that are equally far take no turns
			eu, us = 20*time.Millisecond, 21*time.Millisecond
			if i%2 == 0 {
				eu, us = us, eu
			}
			now.set(away(eu, us))
			time.Sleep(5 * time.Second)
		}
		require.Empty(t, l.proposed(statestore.KindMeasureLatency))

		for range 60 { // and one that jumps about costs its share and no more
			eu = 400*time.Millisecond - eu
			now.set(away(eu, us))
			time.Sleep(5 * time.Second)
		}
		committed := l.proposed(statestore.KindMeasureLatency)
		require.NotEmpty(t, committed)
		for i := 1; i < len(committed); i++ {
			require.GreaterOrEqual(t, committed[i].at-committed[i-1].at, policy.LatencyEvery)
		}
	})
}

func TestARefusedConclusionIsNotTriedEverySecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		value := 0.0
		l := newLab(t, reporting)
		l.lead()
		defer l.resign()
		l.refuse = func(cmd statestore.Command) error {
			if _, is := cmd.(statestore.ReportCapacity); is {
				return &statestore.Refusal{Code: "test", Text: "no"}
			}
			return nil
		}
		for range 120 {
			value += 0.1 // keeps waking the loop
			l.measure("eu-1", takes(50+value/100))
			l.measure("us-1", takes(50+value/100))
			time.Sleep(time.Second)
		}
		require.Less(t, len(l.proposed(statestore.KindReportCapacity)), 12)
		require.NotEmpty(t, l.proposed(statestore.KindReportCapacity))
	})
}

func TestWhatObserversMeasuredIsLookedAtOnceASecond(t *testing.T) {
	var now time.Duration
	clock := func() time.Duration { return now }
	tick := func(d time.Duration) { now += d }
	say := func(t *tenure, v float64, addrs ...netip.Addr) bool {
		m := policy.Measurement{Observer: "eu-1", Capacity: map[string]float64{"us": v}}
		if len(addrs) > 0 {
			m.Resolved = map[string]policy.Resolved{"us": {Hostname: labHost, Addrs: addrs}}
		}
		return t.measure(m)
	}
	t.Run("steady", func(t *testing.T) {
		now = time.Hour
		tn := newTenure(1, leaseLAN, clock, 1)
		require.True(t, say(tn, 1))
		_, _, _, ok := tn.conclude()
		require.True(t, ok)
		require.False(t, say(tn, 1), "the same again is no news")
		looks := 0
		for i := range 100 {
			tick(100 * time.Millisecond)
			say(tn, float64(i+2))
			if _, _, _, ok := tn.conclude(); ok {
				looks++
			}
		}
		require.Equal(t, 10, looks, "in ten seconds")
	})
	t.Run("addresses are looked at sooner", func(t *testing.T) {
		now = time.Hour
		tn := newTenure(1, leaseLAN, clock, 1)
		say(tn, 1)
		tn.conclude()
		tick(batchWindow)
		say(tn, 2)
		_, _, wait, ok := tn.conclude()
		require.False(t, ok)
		require.Equal(t, measuredEvery-batchWindow, wait)
		say(tn, 2, netip.MustParseAddr("192.0.2.20"))
		ms, _, _, ok := tn.conclude()
		require.True(t, ok)
		require.Len(t, ms, 1)
	})
	t.Run("what is old is forgotten", func(t *testing.T) {
		now = time.Hour
		tn := newTenure(1, leaseLAN, clock, 1)
		say(tn, 1)
		tick(measuredFor)
		ms, listening, _, _ := tn.conclude()
		require.Len(t, ms, 1)
		require.Equal(t, measuredFor, listening)
		tick(measuredEvery)
		ms, _, _, ok := tn.conclude()
		require.True(t, ok)
		require.Empty(t, ms)
		require.Empty(t, tn.said)
	})
}

func TestAMeasurementHoldsOnlyWhatTheSpecAsksFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, named, reporting)
		require.ErrorIs(t, l.ctl.Measure(t.Context(), "eu-1", Measurement{}), ErrNotLeading)
		l.lead()
		defer l.resign()
		require.ErrorIs(t, l.ctl.Measure(t.Context(), "mallory", Measurement{}), ErrNotObserver)
		quiet := *l.st().Members["eu-1"]
		quiet.Name, quiet.Observes = "eu-2", false
		l.person(statestore.UpsertMember{Member: quiet})
		require.ErrorIs(t, l.ctl.Measure(t.Context(), "eu-2", Measurement{}), ErrNotObserver, "a member that does not observe")
		m := Measurement{
			RTT:      map[netip.Addr]statestore.Duration{netip.MustParseAddr("192.0.2.10"): -1, netip.MustParseAddr("203.0.113.1"): 1},
			Resolved: map[string]Resolved{"us": {Hostname: "other.example.net."}, "eu": {Hostname: labHost, Addrs: []netip.Addr{netip.MustParseAddr("192.0.2.9")}}, "x": {}},
			Capacity: map[string]float64{"us": -1, "eu": 5, "x": 5},
		}
		require.Equal(t, policy.Measurement{
			Observer: "eu-1", RTT: map[netip.Addr]time.Duration{}, Resolved: map[string]policy.Resolved{}, Capacity: map[string]float64{},
		}, known(l.st(), "eu-1", m))

		var many []netip.Addr
		for i := range 1000 {
			many = append(many, netip.AddrFrom4([4]byte{192, 0, byte(i / 256), byte(i)}))
		}
		many = append(many, many[0], netip.Addr{}, netip.AddrFrom16(many[1].As16()))
		got := known(l.st(), "eu-1", Measurement{Resolved: map[string]Resolved{"us": {Hostname: "LB.us.example.net.", Addrs: many}}})
		require.Equal(t, labHost, got.Resolved["us"].Hostname)
		require.Equal(t, many[:maxNamed], got.Resolved["us"].Addrs)
	})
}

func TestVotesAreRecordedAndSlowTargetsAreShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, os := settled(t)
		defer l.resign()
		reg := prometheus.NewPedanticRegistry()
		reg.MustRegister(l.ctl.metrics)
		slow := func(why string, nodes ...string) {
			for _, name := range nodes {
				o := os[name]
				o.turn <- struct{}{}
				v := health.Vote{Side: health.Up, Since: time.Now(), Degraded: why}
				o.votes[target("eu")], o.fresh[target("eu")] = v, v
				<-o.turn
				require.NoError(t, o.report(l.ctx))
			}
			synctest.Wait() // for the log
		}
		state := func(name string) float64 {
			families, err := reg.Gather()
			require.NoError(t, err)
			for _, f := range families {
				for _, m := range f.GetMetric() {
					labels := map[string]string{}
					for _, p := range m.GetLabel() {
						labels[p.GetName()] = p.GetValue()
					}
					if f.GetName() == "quorate_target_state" && labels["cluster"] == "eu" && labels["state"] == name {
						return m.GetGauge().GetValue()
					}
				}
			}
			return -1
		}
		slow("latency", "ap-1")
		require.Equal(t, 1.0, state("up"), "one region of three")
		for _, e := range l.proposed(statestore.KindCastVotes) {
			for _, b := range e.cmd.(statestore.CastVotes).Batches {
				require.True(t, b.Recorded)
			}
		}
		slow("latency", "us-1")
		require.Equal(t, 1.0, state("degraded"))
		require.Zero(t, state("up"))
		require.Equal(t, []string{"eu", "us"}, l.inRotation(), "never a reason to move")
		require.Len(t, l.out.lines("target is degraded"), 1)
		require.Contains(t, l.out.lines("target is degraded")[0], "target=web/eu/192.0.2.10 reason=latency")
		slow("", "us-1")
		require.Equal(t, 1.0, state("up"))
		require.Len(t, l.out.lines("target is well again"), 1)
	})
}

func TestAPinIsToldAndEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := settled(t)
		defer l.resign()
		l.person(statestore.OverrideService{
			Service: "web", Cluster: "us", For: 30 * time.Minute, Reason: "load test", Rotations: policy.OverrideRotations(l.st(), "web", "us"),
		})
		synctest.Wait()
		require.Equal(t, []string{"us"}, l.inRotation())
		told := l.out.lines("service is pinned to a cluster")
		require.Len(t, told, 1)
		require.Contains(t, told[0], `service=web to=us by=alice reason="load test"`)
		time.Sleep(31 * time.Minute)
		require.Nil(t, l.st().Services["web"].Override)
		require.Equal(t, []string{"eu", "us"}, l.inRotation())
		require.Len(t, l.proposed(statestore.KindClearOverride), 1)
		require.Len(t, l.out.lines("override ended"), 1)
	})
}
