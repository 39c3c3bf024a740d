package policy

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

func edited(w *world, edit func(*statestore.Spec)) *statestore.Spec {
	spec := clone(w.st().Spec)
	if s := spec.Services["db"]; s != nil && s.Stateful != nil {
		copied := *s.Stateful
		s.Stateful = &copied
	}
	edit(spec)
	return spec
}

func TestWhatASpecMayNotDoToAStatefulService(t *testing.T) {
	fencing := func(w *world) {
		w.propose(statestore.Planned, "us")
		w.sign(person("bob"))
		w.sign(person("carol"))
		w.step(statestore.KindBeginCutover, Waits{})
	}
	open := func(w *world) { w.propose(statestore.Planned, "us") }
	without := func(cluster string) func(*statestore.Spec) {
		return func(sp *statestore.Spec) { delete(sp.Clusters, cluster); sp.Services["db"].Policy.Order = nil }
	}
	exclude := func(cluster string) func(*statestore.Spec) {
		return func(sp *statestore.Spec) { sp.Services["db"].Clusters.Exclude = []string{cluster} }
	}
	nothing := func(*world) {}
	for _, tt := range []struct {
		name  string
		given func(*world)
		edit  func(*statestore.Spec)
		rule  string
		says  string
	}{
		{"to become stateless", nothing, func(sp *statestore.Spec) { sp.Services["db"].Stateful = nil }, RuleStateful, "remove the service first"},
		{"its name given to a service elsewhere", nothing, func(sp *statestore.Spec) {
			other := *sp.Services["db"]
			stateful := *other.Stateful
			stateful.Preferred, other.Stateful = "us", &stateful
			sp.Services["other"] = &other
			delete(sp.Services, "db")
		}, RuleStateful, "services.other.names: other would answer db with another cluster than eu"},
		{"the active cluster removed", nothing, without("eu"), RuleActive, "it is active on eu"},
		{"the active cluster excluded", nothing, exclude("eu"), RuleActive, "move it first: quorate cutover propose db --planned"},
		{"a standby removed", nothing, without("ap"), "", ""},
		{"the service removed", nothing, func(sp *statestore.Spec) { delete(sp.Services, "db") }, "", ""},
		{"the service removed with a cutover open", open, func(sp *statestore.Spec) { delete(sp.Services, "db") }, RuleCutoverPending, "CUT-1 is open"},
		{"the destination of an open one removed", open, without("us"), RuleCutoverPending, "CUT-1 goes to us"},
		{"something changed with a cutover open", open, func(sp *statestore.Spec) { sp.Services["db"].TTL.Normal++ }, "", ""},
		{"something changed while it is under way", fencing, func(sp *statestore.Spec) { sp.Services["db"].TTL.Normal++ }, RuleCutoverPending, "CUT-1 is under way"},
		{"another service changed while it is under way", fencing, func(sp *statestore.Spec) { sp.Services["web"].TTL.Normal++ }, "", ""},
		{"the service removed while it is under way", fencing, func(sp *statestore.Spec) { delete(sp.Services, "db") }, RuleCutoverPending, "CUT-1 is open"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := dbWorld(t)
			tt.given(w)
			spec := edited(w, tt.edit)
			f := CheckSpec(w.st(), spec)
			f.Blockers = slices.DeleteFunc(f.Blockers, func(b Blocker) bool { return b.Rule == RuleInUse }) // it is about web
			if tt.rule == "" {
				require.Empty(t, f.Blockers)
				w.do(applyOf(w.st(), spec))
				return
			}
			require.NotEmpty(t, f.Blockers)
			require.Equal(t, tt.rule, f.Blockers[0].Rule)
			require.Contains(t, f.Blockers[0].Reason, tt.says)
			require.Error(t, w.try(applyOf(w.st(), spec)), "apply is of the same opinion")
		})
	}
}

func TestAnApplyMovesNoStatefulService(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(*statestore.Spec)
		says string
	}{
		{"another preferred side", func(sp *statestore.Spec) { sp.Services["db"].Stateful.Preferred = "ap" }, "services.db: no answer changes now; the next proposal would go eu -> ap"},
		{"another order", func(sp *statestore.Spec) { sp.Services["db"].Policy.Order = []string{"ap", "us", "eu"} }, "services.db: no answer changes now; the next proposal would go eu -> ap"},
		{"an order that puts it last", func(sp *statestore.Spec) { sp.Services["db"].Policy.Order = []string{"us", "ap", "eu"} }, "services.db: no answer changes now; the next proposal would go eu -> us"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := dbWorld(t)
			spec := edited(w, tt.edit)
			require.Contains(t, CheckSpec(w.st(), spec).Warnings, tt.says)
			d := DiffSpec(w.st(), spec)
			require.Equal(t, ClassStateful, d.Class)
			require.Empty(t, d.Answers)
			w.do(applyOf(w.st(), spec))
			require.Zero(t, w.settle())
			clusters, _ := w.pool("db")
			require.Equal(t, []string{"eu"}, clusters)
		})
	}
}

func TestBackOnTheSideThatBecomesPreferred(t *testing.T) {
	w := dbWorld(t)
	w.move(statestore.Planned, "us")
	spec := edited(w, func(sp *statestore.Spec) { sp.Services["db"].Stateful.Preferred = "us" })
	require.Contains(t, CheckSpec(w.st(), spec).Warnings, "services.db: no answer changes now; it is on us, which would be its preferred side")
}

func TestAServiceThatComesBackGoesOnWhereItWas(t *testing.T) {
	w := dbWorld(t)
	w.move(statestore.Planned, "us")
	with := w.st().Spec
	w.do(applyOf(w.st(), edited(w, func(sp *statestore.Spec) { delete(sp.Services, "db") })))
	back := clone(with)
	require.Contains(t, CheckSpec(w.st(), back).Warnings, "services.db: it was here before and goes on where it was active, on us; a spec moves no stateful service")
	elsewhere := clone(with)
	elsewhere.Services["db"].Clusters.Only, elsewhere.Services["db"].Policy.Order = []string{"eu", "ap"}, []string{"eu", "ap"}
	require.Contains(t, CheckSpec(w.st(), elsewhere).Warnings, "services.db: it was here before and active on us, which is no candidate any more; it starts unconfirmed: quorate thaw db --active CLUSTER")
	w.do(applyOf(w.st(), back))
	clusters, _ := w.pool("db")
	require.Equal(t, []string{"us"}, clusters)
}

func TestG4NotEnforcedIsSaidOfWhatIsNew(t *testing.T) {
	g4 := func(f Findings) int {
		n := 0
		for _, s := range f.Warnings {
			if strings.Contains(s, "services.db: G4 not enforced") {
				n++
			}
		}
		return n
	}
	w := upWorld(t)
	require.Equal(t, 1, g4(CheckSpec(w.st(), clone(w.st().Spec, db()))))
	require.Equal(t, ClassStateful, DiffSpec(w.st(), clone(w.st().Spec, db())).Class)
	w = dbWorld(t)
	require.Zero(t, g4(CheckSpec(w.st(), edited(w, func(sp *statestore.Spec) { sp.Services["web"].TTL.Normal++ }))))
	one := edited(w, func(sp *statestore.Spec) {
		sp.Services["db"].Clusters.Only, sp.Services["db"].Policy.Order = []string{"eu"}, []string{"eu"}
	})
	require.Contains(t, CheckSpec(w.st(), one).Warnings, "services.db: it has one cluster only, so there is nowhere to move it")
}

func TestAStatelessServiceMayBecomeStateful(t *testing.T) {
	w := upWorld(t)
	spec := clone(w.st().Spec, func(sp *statestore.Spec) {
		db()(sp)
		sp.Services["web"].Policy = sp.Services["db"].Policy
		sp.Services["web"].Stateful = sp.Services["db"].Stateful
		delete(sp.Services, "db")
	})
	require.Empty(t, CheckSpec(w.st(), spec).Blockers)
	d := DiffSpec(w.st(), spec)
	require.Equal(t, ClassStateful, d.Class)
	w.do(applyOf(w.st(), spec))
	require.Equal(t, "eu", w.st().Ownership("web").Active)
	clusters, _ := w.pool("web")
	require.Equal(t, []string{"eu"}, clusters)
}

func TestADrainMovesNoStatefulService(t *testing.T) {
	w := dbWorld(t)
	impact := func(cluster string) Impact {
		for _, im := range DrainImpact(w.st(), cluster, nil) {
			if im.Service == "db" {
				return im
			}
		}
		require.Fail(t, "no impact on db")
		return Impact{}
	}
	im := impact("eu")
	require.False(t, im.Moves)
	require.Equal(t, []string{"active here: not moved by a drain. Run: quorate cutover propose db --to us --planned"}, im.Warnings)
	require.Equal(t, []string{"eu stays active; us is no destination while it is drained"}, impact("us").Warnings)

	w.all(health.Down, "us", "ap")
	w.settle()
	for _, b := range CheckDrain(w.st(), "eu", []string{"db"}) {
		require.NotContains(t, b.Reason, "db", "nothing happens to it")
	}
	w.do(statestore.DrainCluster{Cluster: "eu", Services: []string{"db"}, Reason: "upgrade", Rotations: DrainRotations(w.st(), "eu", []string{"db"})})
	require.Empty(t, w.planned(Waits{}))
	clusters, _ := w.pool("db")
	require.Equal(t, []string{"eu"}, clusters)
}

func TestAStatefulServiceAnswersWithItsActiveSideOnly(t *testing.T) {
	two := func(sp *statestore.Spec) {
		db()(sp)
		sp.Clusters["eu"] = &statestore.Cluster{Region: "eu-west", IPv4: addrs("192.0.2.10", "192.0.2.11")}
	}
	w := upWorld(t, two)
	endpoints := func() int { return len(w.st().Services["db"].Rotation.V4.Shares[0].Endpoints) }
	require.Equal(t, 2, endpoints())

	down := map[health.Target]health.Vote{}
	for target, ts := range TargetStates(w.st()) {
		down[target] = ts.Votes["eu-1"]
	}
	down[health.Target{Service: "db", Cluster: "eu", Endpoint: addrs("192.0.2.11")[0]}] = health.Vote{Side: health.Down, Since: epoch}
	for _, o := range []string{"eu-1", "us-1", "ap-1"} {
		w.voteFull(o, down)
	}
	w.settle()
	require.Equal(t, 1, endpoints(), "the one that is up")
	require.Empty(t, Unwell(w.st()))

	losses := len(w.st().Losses)
	w.all(health.Down, "eu")
	w.settle()
	require.Equal(t, 2, endpoints(), "none is up: all of them, and nobody else")
	clusters, mode := w.pool("db")
	require.Equal(t, []string{"eu"}, clusters)
	require.Empty(t, mode)
	require.Equal(t, []string{"db"}, Unwell(w.st()))
	require.Len(t, w.st().Losses, losses+1, "web's; db lost nothing")
}
