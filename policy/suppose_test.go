package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

func TestParseConditions(t *testing.T) {
	tests := []struct {
		text string
		want []string // nil: an error
		err  string
	}{
		{"eu=down", []string{"eu=down"}, ""},
		{"eu=down, us=drained", []string{"eu=down", "us=drained"}, ""},
		{"web/eu=up,web/us=down", []string{"web/eu=up", "web/us=down"}, ""},
		{"web=us,CUT-17=approved,eu-west=lost", []string{"web=us", "CUT-17=approved", "eu-west=lost"}, ""},
		{"eu=down,eu=down", []string{"eu=down"}, ""},
		{"eu=down,eu=drained", []string{"eu=down", "eu=drained"}, ""},
		{"eu", nil, `condition "eu": must be CLUSTER=down`},
		{"=down", nil, "must be CLUSTER=down"},
		{"eu=", nil, "must be CLUSTER=down"},
		{"", nil, "must be CLUSTER=down"},
		{"a=b=c", nil, "must be CLUSTER=down"},
		{"a/b/c=down", nil, `must name SERVICE/CLUSTER, is "a/b/c"`},
		{"/eu=down", nil, "must name SERVICE/CLUSTER"},
		{"web/eu=drained", nil, `SERVICE/CLUSTER is down or up, is "drained"`},
		{"eu=down,eu=up", nil, "contradicts eu=down"},
		{"eu=drained,eu=undrained", nil, "contradicts eu=drained"},
		{"web=us,web=eu", nil, "contradicts web=us"},
		{"eu,us", nil, `condition "us"`},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			got, err := ParseConditions([]string{tt.text})
			if tt.want == nil {
				require.ErrorContains(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			var texts []string
			for _, c := range got {
				texts = append(texts, c.String())
			}
			require.Equal(t, tt.want, texts)
		})
	}
}

func supposed(t *testing.T, st *statestore.State, text string) (*statestore.State, []string) {
	t.Helper()
	conds, err := ParseConditions([]string{text})
	require.NoError(t, err)
	next, notes, err := Suppose(st, conds)
	require.NoError(t, err)
	return next, notes
}

func TestSupposeNamesWhatIsNotThere(t *testing.T) {
	w := upWorld(t, web(func(s *statestore.Service) { s.Clusters.Exclude = []string{"ap"} }))
	conds, err := ParseConditions([]string{"mars=down", "wbe/eu=down", "web/ap=down", "web=ap", "wbe=eu", "moon=lost", "CUT-9=approved"})
	require.NoError(t, err)
	_, _, err = Suppose(w.st(), conds)
	for _, text := range []string{
		`condition "mars=down": no cluster is named mars; there are ap, eu, us`, `condition "wbe/eu=down": no service is named wbe; there are web`,
		`condition "web/ap=down": ap is no candidate of web; they are eu, us`, `condition "web=ap": ap is no candidate`, `condition "wbe=eu": no service`,
		`condition "moon=lost": nothing is in region moon; regions are ap, ap-south, eu, eu-west, us, us-east`, `condition "CUT-9=approved": there is no cutover CUT-9`,
	} {
		require.ErrorContains(t, err, text)
	}
}

func TestSupposeAnswersWhoWouldAnswer(t *testing.T) {
	w := upWorld(t)
	before := w.st()
	st, notes := supposed(t, before, "eu=down,us=drained")
	require.Empty(t, notes)
	require.Equal(t, []Outcome{{
		Service: "web", Before: Shares(before.Spec.Services["web"], before.Services["web"].Rotation.V4, statestore.Pool{}),
		After: []ClusterShare{{"ap", 100}}, Moves: true, Text: "ap 33%, eu 33%, us 33% -> ap: eu is down, us is drained",
	}}, Outcomes(before, st))
	require.Same(t, before, w.st())
	require.Len(t, before.Services["web"].Rotation.V4.Shares, 3, "the state itself is as it was")
	require.Nil(t, before.Clusters["us"].Drain)
	require.False(t, st.Suspect("web"), "the votes agree with what is supposed")

	st, notes = supposed(t, before, "eu=drained,us=drained")
	require.Equal(t, []string{"draining eu, us would be refused: 2 clusters would be drained (eu, us), max_drained is 1"}, notes)
	require.Len(t, st.Services["web"].Rotation.V4.Shares, 1, "it is shown all the same")

	st, _ = supposed(t, before, "eu=down,us=down,ap=down")
	require.Equal(t, "no candidate is up: serve_last", Outcomes(before, st)[0].Text)

	st, _ = supposed(t, before, "web=us")
	require.Equal(t, "ap 33%, eu 33%, us 33% -> us: pinned to us by a person: supposed", Outcomes(before, st)[0].Text)
}

func TestSupposeSaysWhatWouldStopAutomation(t *testing.T) {
	w := upWorld(t, func(sp *statestore.Spec) { sp.Safety.Changes.Causes = 1 })
	_, notes := supposed(t, w.st(), "eu=down,us=down")
	require.Equal(t, []string{"eu, us would be out within 10m0s, the budget is 1: automation would freeze everything and ask a person before it had moved all of this"}, notes)
	w.do(statestore.FreezeService{Service: "web", Reason: "change window"})
	_, notes = supposed(t, w.st(), "eu=down")
	require.Equal(t, []string{"web is frozen by test (change window): automation would not move it before somebody thaws it"}, notes)
}

func TestALostRegion(t *testing.T) {
	inRegions := func(sp *statestore.Spec) { // the clusters stand where the members are
		for name, c := range sp.Clusters {
			copied := *c
			copied.Region = name
			sp.Clusters[name] = &copied
		}
	}
	w := upWorld(t, inRegions)
	st, notes := supposed(t, w.st(), "eu=lost")
	require.Empty(t, notes)
	require.Equal(t, []ClusterShare{{"ap", 50}, {"us", 50}}, Outcomes(w.st(), st)[0].After)
	text, holds := QuorumOutlook(w.st(), []Condition{{"eu", isLost}})
	require.Equal(t, "2 of 3 voters left: quorum holds", text)
	require.True(t, holds)

	st, notes = supposed(t, w.st(), "eu=lost,us=lost,web=ap")
	require.Equal(t, []string{"1 of 3 voters left: no quorum, answers stay as they are"}, notes)
	require.Equal(t, "nothing changes", Outcomes(w.st(), st)[0].Text)
	require.Nil(t, st.Services["web"].Override, "nobody can pin anything either")

	// Two eligible regions cannot decide the loss of either.
	w = newWorld(t, testSpec(inRegions), "eu", "us")
	m := member("us")
	m.Name, m.Observes = "us-2", false
	w.do(statestore.UpsertMember{Member: m})
	for _, o := range []string{"eu-1", "us-1"} {
		w.vote(o, health.Up, "eu", "us", "ap")
	}
	w.settle()
	st, notes = supposed(t, w.st(), "eu=lost")
	require.Equal(t, []string{"web/eu stays up: 1 of 2 regions are left to say that it is down, 2 must"}, notes)
	require.Equal(t, "nothing changes", Outcomes(w.st(), st)[0].Text)
}

func TestWithoutQuorumStaleAnswersAreSaid(t *testing.T) {
	w := upWorld(t, web(func(s *statestore.Service) { s.OnStale.Answer = statestore.StaleServFail }))
	_, notes := supposed(t, w.st(), "eu=lost,us=lost")
	require.Equal(t, "web would be answered with servfail after 30s without a leader (on_stale)", notes[1])
}

// clone returns a world that goes on from the same state on its own.
func (w *world) clone() *world {
	return &world{t: w.t, store: statestore.NewStoreAt(w.st()), index: w.index, seq: maps.Clone(w.seq)}
}

// side has every observer that is heard vote side on the targets.
func (w *world) side(of func(health.Target) (health.Side, bool)) {
	w.t.Helper()
	for _, name := range sortedKeys(w.st().Members) {
		id := health.ObserverID(name)
		if o := w.st().Observers[id]; o != nil && o.Silent {
			continue
		}
		votes := map[health.Target]health.Vote{}
		for target, ts := range TargetStates(w.st()) {
			if v, ok := ts.Votes[id]; ok {
				votes[target] = v
			}
			if side, ok := of(target); ok {
				votes[target] = health.Vote{Side: side, Since: epoch}
			}
		}
		w.voteFull(name, votes)
	}
}

// What is supposed is what really comes to be: the same conditions, brought about by
// votes and commands, end in the same rotations.
func TestSupposeIsWhatPlanAndApplyComeTo(t *testing.T) {
	three := []string{"eu", "us", "ap"}
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, testSpec(func(sp *statestore.Spec) {
			for name, c := range sp.Clusters {
				copied := *c
				copied.Region = name
				sp.Clusters[name] = &copied
			}
			sp.Clusters["eu"].IPv4 = addrs("192.0.2.10", "192.0.2.11")
			sp.Clusters["us"].IPv6 = addrs("2001:db8::20")
			sp.Services["web"].MinHealthy = rapid.IntRange(0, 2).Draw(t, "min_healthy")
			sp.Services["web"].OnAllDown.Mode = rapid.SampledFrom([]statestore.AllDownMode{statestore.ServeLast, statestore.ServeAll, statestore.NoData}).Draw(t, "mode")
			api := testService("api")
			api.Policy = statestore.Policy{Type: statestore.Failover, Order: []string{"us", "ap", "eu"}}
			sp.Services["api"] = api
			db()(sp)
			sp.Safety.Changes.Causes, sp.Safety.MaxDrained = 0, 0
		}), regions...)
		for _, o := range sortedKeys(w.st().Members) {
			w.vote(o, rapid.SampledFrom([]health.Side{health.Up, health.Up, health.Down}).Draw(t, o), rapid.SliceOfDistinct(rapid.SampledFrom(three), rapid.ID[string]).Draw(t, o+" on")...)
		}
		w.settle()
		if c := rapid.SampledFrom(append(three, "")).Draw(t, "drained before"); c != "" && len(CheckDrain(w.st(), c, nil)) == 0 {
			w.do(statestore.DrainCluster{Cluster: c, Reason: "test", Rotations: DrainRotations(w.st(), c, nil)})
		}
		w.settle()

		var texts []string
		facts := map[string]health.Side{}
		for _, of := range append(three, "web/eu", "api/us", "db/eu") {
			switch rapid.SampledFrom([]string{"", "", isDown, isUp}).Draw(t, of) {
			case isDown:
				facts[of] = health.Down
			case isUp:
				facts[of] = health.Up
			}
		}
		for _, of := range append([]string{"web/eu", "api/us", "db/eu"}, three...) {
			if side, ok := facts[of]; ok {
				texts = append(texts, of+"="+side.String())
			}
		}
		lost := rapid.SampledFrom([]string{"", "", "", "us"}).Draw(t, "lost")
		if lost != "" {
			texts = append(texts, lost+"=lost")
		}
		undrained := rapid.SampledFrom([]string{"", "eu"}).Draw(t, "undrained")
		if undrained != "" {
			texts = append(texts, undrained+"=undrained")
		}
		drained := rapid.SliceOfDistinct(rapid.SampledFrom([]string{"us", "ap"}), rapid.ID[string]).Draw(t, "drained")
		for _, c := range drained {
			texts = append(texts, c+"=drained")
		}
		pinned := rapid.SampledFrom([]string{"", "", "eu", "us", "ap"}).Draw(t, "pinned")
		if pinned != "" {
			texts = append(texts, "web="+pinned)
		}
		var conds []Condition
		if len(texts) > 0 {
			var err error
			conds, err = ParseConditions(texts)
			require.NoError(t, err)
		}
		got, notes, err := Suppose(w.st(), conds)
		require.NoError(t, err)
		for _, n := range notes {
			if strings.Contains(n, "refused") {
				t.Skip("it cannot come to be")
			}
		}

		real := w.clone() // another one, that it happens to
		if lost != "" {
			real.do(statestore.ObserverSilent{Observer: health.ObserverID(lost + "-1")})
		}
		real.side(func(target health.Target) (health.Side, bool) {
			for _, of := range []string{target.Service + "/" + target.Cluster, target.Cluster} {
				if side, ok := facts[of]; ok {
					return side, true
				}
			}
			return health.Down, target.Cluster == lost
		})
		real.settle()
		if undrained != "" && real.st().Clusters[undrained].Drain != nil {
			real.do(statestore.UndrainCluster{Cluster: undrained, Rotations: UndrainRotations(real.st(), undrained)})
			real.settle()
		}
		if len(drained) > 0 {
			slices.Sort(drained)
			real.do(statestore.DrainClusters{Clusters: drained, Reason: "test", Rotations: DrainsRotations(real.st(), drained, nil)})
			real.settle()
		}
		if pinned != "" {
			real.do(statestore.OverrideService{Service: "web", Cluster: pinned, Reason: "test", Rotations: OverrideRotations(real.st(), "web", pinned)})
			real.settle()
		}
		for name, want := range real.st().Services {
			have := got.Services[name].Rotation
			require.True(t, want.Rotation.V4.Equal(have.V4), "%s %v: supposed %+v, is %+v", name, texts, have.V4, want.Rotation.V4)
			require.True(t, want.Rotation.V6.Equal(have.V6), "%s %v: supposed %+v, is %+v", name, texts, have.V6, want.Rotation.V6)
			require.Equal(t, real.st().Suspect(name), got.Suspect(name), "%s %v", name, texts)
		}
	})
}

func TestSupposeIsDeterministic(t *testing.T) { // G15
	w := newWorld(t, manySpec(30), regions...)
	w.all(health.Up, sortedKeys(w.st().Spec.Clusters)...)
	w.settle()
	conds, err := ParseConditions([]string{"eu=lost", "c03=down,c07=down,c11=down,c20=down,c21=down", "c01=drained"})
	require.NoError(t, err)
	var first string
	for range 20 {
		st, notes, err := Suppose(w.st(), conds)
		require.NoError(t, err)
		text := fmt.Sprint(notes, Outcomes(w.st(), st))
		if first == "" {
			first = text
		}
		require.Equal(t, first, text)
	}
}

func TestASupposedSpecIsWhatApplyLeaves(t *testing.T) {
	w := upWorld(t, reporting)
	w.do(statestore.ReportCapacity{Cluster: "eu", Capacity: 40})
	w.settle()
	w.vote("eu-1", health.Down, "us") // suspect
	spec := clone(w.st().Spec, func(sp *statestore.Spec) {
		db()(sp)
		sp.Services["web"].MinHealthy = 2
		check := *sp.Services["web"].Checks.All[0]
		check.TCP = &statestore.TCPCheck{Port: 8080}
		sp.Services["web"].Checks.All = []*statestore.Check{&check}
		us := *sp.Clusters["us"]
		us.CapacityFrom = nil
		sp.Clusters["us"] = &us
		sp.Clusters["sa"] = &statestore.Cluster{Region: "sa-east", IPv4: addrs("192.0.2.40"), Capacity: 10}
	})
	got := SupposeSpec(w.st(), spec)
	w.do(applyOf(w.st(), spec))
	for name, want := range w.st().Services {
		have := got.Services[name]
		require.True(t, want.Rotation.V4.Equal(have.Rotation.V4), "%+v", have.Rotation.V4)
		require.Equal(t, w.st().Suspect(name), got.Suspect(name))
		for target, ts := range want.Targets {
			require.Equal(t, ts.Verdict.Side, have.Targets[target].Verdict.Side)
			require.Equal(t, ts.Verdict.Number, have.Targets[target].Verdict.Number)
		}
	}
	require.Equal(t, w.st().Services["db"].Ownership.Active, got.Services["db"].Ownership.Active)
	for name, want := range w.st().Clusters {
		require.Equal(t, want.Reported, got.Clusters[name].Reported, name)
	}
}
