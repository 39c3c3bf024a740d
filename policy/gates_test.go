package policy

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

func TestGateClasses(t *testing.T) {
	const (
		emergency = statestore.Emergency
		planned   = statestore.Planned
		back      = statestore.Back
		clean     = statestore.Clean
		blocked   = statestore.Blocked
		none      = statestore.NotConfigured
	)
	down := func(w *world) { w.all(health.Down, "eu") }
	moved := func(w *world) { w.move(planned, "us") }
	frozen := func(service string) func(*world) {
		return func(w *world) { w.do(statestore.FreezeService{Service: service, Reason: "look"}) }
	}
	var nothing func(*world)
	later := func(first func(*world), d time.Duration) func(*world) {
		return func(w *world) { first(w); w.pass(d) }
	}
	automatic := func(k statestore.CutoverKind) Move { return Move{Service: "db", Kind: k, Automatic: true} }
	asked := func(k statestore.CutoverKind) Move { return Move{Service: "db", Kind: k} }
	tests := []struct {
		name  string
		given func(*world)
		move  Move
		gate  statestore.Gate
		class statestore.GateClass
		why   string
	}{
		{"down by all", down, asked(emergency), statestore.GateSourceDown, clean, "eu is down by 3 of 3 regions for 1s"},
		{"down by two of three", func(w *world) { w.vote("us-1", health.Down, "eu"); w.vote("ap-1", health.Down, "eu") }, asked(emergency), statestore.GateSourceDown, clean, "eu is down by 2 of 3 regions for 0s"},
		{"up", nothing, asked(emergency), statestore.GateSourceDown, blocked, "eu is up by 3 of 3 regions: a planned move needs no such waiver"},
		{"outvoted", func(w *world) { w.vote("eu-1", health.Down, "eu") }, asked(emergency), statestore.GateSourceDown, blocked, "eu is up by 2 of 3 regions: a planned move needs no such waiver"},
		{"contested", func(w *world) { w.vote("ap-1", health.Unknown, "eu"); w.vote("us-1", health.Down, "eu") }, asked(emergency), statestore.GateSourceDown, blocked, "eu is contested: 1 of 3 regions say up, 1 down, down needs 2"},
		{"unobserved", func(w *world) { w.silent("us-1", "ap-1"); w.vote("eu-1", health.Up, "us") }, asked(emergency), statestore.GateSourceDown, blocked, "eu is unobserved: only 1 of 3 regions vote, down needs 2; it was up"},

		{"destination up", nothing, asked(planned), statestore.GateDestination, clean, "us is up for 1s"},
		{"destination drained", func(w *world) {
			w.do(statestore.DrainCluster{Cluster: "us", Reason: "upgrade", Rotations: DrainRotations(w.st(), "us", nil)})
		}, Move{Service: "db", To: "us", Kind: planned}, statestore.GateDestination, blocked, "us is drained: upgrade"},
		{"drained for another service", func(w *world) {
			w.do(statestore.DrainCluster{Cluster: "us", Services: []string{"web"}, Reason: "upgrade", Rotations: DrainRotations(w.st(), "us", []string{"web"})})
		}, Move{Service: "db", To: "us", Kind: planned}, statestore.GateDestination, clean, "us is up for 2s"},
		{"destination down", func(w *world) { w.all(health.Down, "us"); w.pass(time.Minute) }, Move{Service: "db", To: "us", Kind: planned}, statestore.GateDestination, blocked, "us is down for 1m1s"},
		{"fresh failback", moved, asked(back), statestore.GateDestination, blocked, "eu is up for 6s, a failback needs 10m0s"},
		{"ripe failback", later(moved, 10*time.Minute), asked(back), statestore.GateDestination, clean, "eu is up for 10m6s, a failback needs 10m0s"},

		{"lag", nothing, asked(planned), statestore.GateLag, none, "no lag is measured: nobody knows how much us is behind eu"},
		{"fence", nothing, asked(planned), statestore.GateFenced, none, "no fence and no writer lease: G4 not enforced, nothing stops writes to eu"},
		{"resync", moved, asked(back), statestore.GateResync, none, "nobody knows whether eu follows epoch 2"},

		{"all heard", nothing, asked(planned), statestore.GateNodesAcknowledged, clean, "all 3 members are heard"},
		{"one silent", func(w *world) { w.silent("ap-1") }, asked(planned), statestore.GateNodesAcknowledged, blocked, "cannot be expected to stop answering with eu: ap-1"},
		{"two silent", func(w *world) { w.silent("us-1", "ap-1") }, asked(planned), statestore.GateNodesAcknowledged, blocked, "cannot be expected to stop answering with eu: ap-1, us-1"},

		{"no other", nothing, asked(planned), statestore.GateNoOther, clean, "no other cutover of db is open"},

		{"thawed", nothing, asked(planned), statestore.GateNotFrozen, clean, "not frozen"},
		{"frozen", frozen("db"), asked(planned), statestore.GateNotFrozen, blocked, "frozen by test: look"},
		{"all frozen", frozen(""), asked(planned), statestore.GateNotFrozen, blocked, "frozen by test: look"},
		{"another frozen", frozen("web"), asked(planned), statestore.GateNotFrozen, clean, "not frozen"},

		{"never moved", nothing, automatic(emergency), statestore.GateCooldown, clean, "it has not moved lately"},
		{"automation soon after a move", moved, automatic(emergency), statestore.GateCooldown, blocked, "CUT-1 was done only 0s ago, the cool-down is 1h0m0s"},
		{"a person's emergency soon after", moved, asked(emergency), statestore.GateCooldown, clean, "asked by a person"},
		{"a planned move soon after", moved, asked(planned), statestore.GateCooldown, clean, "asked by a person"},
		{"a failback soon after", moved, asked(back), statestore.GateCooldown, blocked, "CUT-1 was done only 0s ago, the cool-down is 1h0m0s"},
		{"automation an hour later", later(moved, time.Hour), automatic(emergency), statestore.GateCooldown, clean, "CUT-1 was done 1h0m0s ago, the cool-down is 1h0m0s"},
		{"after a cutover that was only wanted", func(w *world) {
			w.propose(planned, "us")
			w.do(statestore.RejectCutover{ID: w.open().ID, Reason: "no", Signer: person("bob")})
		}, automatic(emergency), statestore.GateCooldown, clean, "it has not moved lately"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := dbWorld(t)
			if tt.given != nil {
				tt.given(w)
			}
			g := gate(t, MoveGates(w.st(), tt.move), tt.gate)
			require.Equal(t, tt.class, g.Class, g.Why)
			require.Equal(t, tt.why, g.Why)
		})
	}
}

func TestTheDestinationThatNobodyJudgedIsUnknown(t *testing.T) {
	w := newWorld(t, testSpec(db()), regions...)
	w.all(health.Up, "eu")
	g := gate(t, MoveGates(w.st(), Move{Service: "db", Kind: statestore.Planned}), statestore.GateDestination)
	require.Equal(t, statestore.UnknownGate, g.Class)
	require.Equal(t, "us has not been judged yet", g.Why)
}

func TestEachKindHasItsGates(t *testing.T) {
	w := dbWorld(t)
	for _, kind := range statestore.CutoverKinds() {
		var names []statestore.Gate
		for _, g := range judge(w.st(), Move{Service: "db", To: "us", Kind: kind}) {
			names = append(names, g.Name)
		}
		require.Equal(t, statestore.Gates(kind), names, "%s", kind)
		in := slices.DeleteFunc(statestore.AllGates(), func(g statestore.Gate) bool { return !slices.Contains(names, g) })
		require.Equal(t, names, in, "%s: all of them, in the order in which gates are shown", kind)
	}
	require.Empty(t, judge(w.st(), Move{Service: "web", To: "us", Kind: statestore.Planned}), "stateless")
	require.Empty(t, judge(w.st(), Move{Service: "no", To: "us", Kind: statestore.Planned}), "unknown")
}

func TestWhoCanWaiveWhat(t *testing.T) {
	w := dbWorld(t)
	w.silent("ap-1")
	co := w.propose(statestore.Emergency, "")
	for name, need := range map[statestore.Gate]int{
		statestore.GateSourceDown:        2,
		statestore.GateDestination:       0, // clean
		statestore.GateLag:               1,
		statestore.GateFenced:            1,
		statestore.GateNodesAcknowledged: 2,
		statestore.GateCooldown:          0, // clean
	} {
		g := gate(t, Gates(w.st(), co), name)
		require.Equal(t, need, g.Need, "%s", name)
		require.True(t, g.Waivable, "%s", name)
	}
	require.False(t, gate(t, Gates(w.st(), co), statestore.GateNoOther).Waivable)

	w.sign(root("oncall"))
	gates := Gates(w.st(), w.open())
	require.Equal(t, []string{"oncall"}, gate(t, gates, statestore.GateFenced).Waived)
	require.True(t, gate(t, gates, statestore.GateFenced).Passed(), "one person is enough where nothing is configured")
	require.False(t, gate(t, gates, statestore.GateSourceDown).Passed())
	require.False(t, gate(t, gates, statestore.GateNodesAcknowledged).Passed())
}

func TestApprovalBlockersNameEveryGateAtOnce(t *testing.T) {
	w := dbWorld(t)
	w.silent("ap-1")
	w.do(statestore.FreezeService{Service: "db", Reason: "look"})
	co := w.propose(statestore.Emergency, "")
	rules := func(bs []Blocker) []string {
		var names []string
		for _, b := range bs {
			names = append(names, b.Rule)
		}
		return names
	}
	all := []string{"source_down_by_quorum", "lag_within_rpo", "source_fenced", "nodes_acknowledged", "not_frozen"}
	require.Equal(t, all, rules(ApprovalBlockers(w.st(), co, nil, root("oncall"))))
	require.Equal(t, all, rules(ApprovalBlockers(w.st(), co, nil, statestore.Signer{})), "anybody")
	waivers := []statestore.Waiver{{Gate: "source_down_by_quorum"}, {Gate: "lag_within_rpo"}, {Gate: "source_fenced"}, {Gate: "not_frozen"}}
	require.Equal(t, all[3:4], rules(ApprovalBlockers(w.st(), co, waivers, root("oncall"))))

	bob := ApprovalBlockers(w.st(), co, waivers, person("bob"))
	require.Equal(t, []string{"source_down_by_quorum", "nodes_acknowledged"}, rules(bob))
	require.False(t, bob[0].Waivable, "not by an ordinary approver")
	require.Contains(t, bob[0].Reason, "only break-glass signatures waive it")
	require.True(t, bob[1].Waivable)

	viewer := ApprovalBlockers(w.st(), co, waivers, statestore.Signer{User: "eve", Groups: []string{"viewer"}, Via: statestore.ViaDemo})
	require.Equal(t, all, rules(viewer), "a waiver by who may not waive is none")

	w.sign(root("oncall"))
	require.Equal(t, []string{"source_down_by_quorum", "nodes_acknowledged", "not_frozen"}, rules(ApprovalBlockers(w.st(), w.open(), nil, root("other"))),
		"what one person waived well enough is passed")
}

func TestGatesOfAnEndedCutoverAreWhatWasSigned(t *testing.T) {
	w := dbWorld(t)
	w.all(health.Down, "eu")
	w.propose(statestore.Emergency, "us")
	w.sign(person("bob"))
	w.sign(person("carol"))
	w.step(statestore.KindBeginCutover, Waits{})

	w.do(statestore.FreezeService{Service: "db", Reason: "look"})
	w.all(health.Up, "eu")
	w.all(health.Down, "us")
	gates := Gates(w.st(), w.open())
	require.Equal(t, statestore.Clean, gate(t, gates, statestore.GateSourceDown).Class, "judged when it began, and never later")
	require.Equal(t, statestore.Clean, gate(t, gates, statestore.GateNotFrozen).Class)
	require.Equal(t, statestore.Blocked, gate(t, gates, statestore.GateDestination).Class, "judged once more")
	require.NotEmpty(t, Stuck(w.st(), w.open()))

	w.all(health.Up, "us")
	w.step(statestore.KindPublishCutover, w.heard())
	w.all(health.Down, "us")
	gates = Gates(w.st(), w.st().Cutovers["CUT-1"])
	require.Equal(t, statestore.Clean, gate(t, gates, statestore.GateDestination).Class)
	require.Equal(t, []string{"bob"}, gate(t, gates, statestore.GateFenced).Waived)
	require.True(t, gate(t, gates, statestore.GateFenced).Passed())
}
