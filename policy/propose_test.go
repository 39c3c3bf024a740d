package policy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

func TestWhatForbidsAProposal(t *testing.T) {
	const planned = statestore.Planned
	nothing := func(*world) {}
	for _, tt := range []struct {
		name  string
		given func(*world)
		move  Move
		want  []string
	}{
		{"nothing", nothing, Move{Service: "db", Kind: planned}, nil},
		{"no such service", nothing, Move{Service: "no", Kind: planned}, []string{RuleUnknownService}},
		{"a stateless one", nothing, Move{Service: "web", Kind: planned}, []string{RuleStateless}},
		{"no such kind", nothing, Move{Service: "db", Kind: "drill"}, []string{RuleKind}},
		{"no such cluster", nothing, Move{Service: "db", To: "mars", Kind: planned}, []string{RuleNoDestination}},
		{"where it is", nothing, Move{Service: "db", To: "eu", Kind: planned}, []string{RuleAlreadyActive}},
		{"back to where it is", nothing, Move{Service: "db", Kind: statestore.Back}, []string{RuleAlreadyActive}},
		{"back, but elsewhere", func(w *world) { w.move(planned, "us") }, Move{Service: "db", To: "ap", Kind: statestore.Back}, []string{RuleKind}},
		{"one is open", func(w *world) { w.propose(planned, "us") }, Move{Service: "db", To: "ap", Kind: planned}, []string{RuleCutoverOpen}},
		{"unconfirmed, and no candidate: both at once", func(w *world) {
			w.do(statestore.BeginGeneration{Generation: 2, Member: member("eu"), Reason: "lost"})
		}, Move{Service: "db", To: "mars", Kind: planned}, []string{RuleUnconfirmed, RuleNoDestination}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := dbWorld(t)
			tt.given(w)
			cmd, _, blockers := Propose(w.st(), tt.move, person("alice"))
			var rules []string
			for _, b := range blockers {
				rules = append(rules, b.Rule)
				require.NotEmpty(t, b.Reason)
				require.False(t, b.Waivable)
			}
			require.Equal(t, tt.want, rules)
			cmd.Reason = "test"
			err := w.try(cmd)
			require.Equal(t, tt.want == nil, err == nil, "apply is of the same opinion: %v", err)
		})
	}
}

func TestAServiceWithOneClusterHasNowhereToGo(t *testing.T) {
	w := dbWorld(t, func(s *statestore.Service) { s.Clusters.Only = []string{"eu"}; s.Policy.Order = []string{"eu"} })
	_, _, blockers := Propose(w.st(), Move{Service: "db", Kind: statestore.Planned}, person("alice"))
	require.Len(t, blockers, 1)
	require.Equal(t, RuleNoDestination, blockers[0].Rule)
	w.all(health.Down, "eu")
	require.Empty(t, w.planned(waited(time.Hour)), "automation keeps quiet about what it cannot propose")
}

func TestAFailbackGoesToThePreferredSide(t *testing.T) {
	w := dbWorld(t)
	w.move(statestore.Planned, "ap")
	cmd, gates, blockers := Propose(w.st(), Move{Service: "db", Kind: statestore.Back}, person("alice"))
	require.Empty(t, blockers)
	require.Equal(t, "eu", cmd.To)
	require.Equal(t, statestore.Back, cmd.Evidence.Kind)
	require.Equal(t, "alice", cmd.Signer.User)
	require.Len(t, gates, len(cmd.Evidence.Gates))
	for i, g := range gates {
		require.Equal(t, g.Name, cmd.Evidence.Gates[i].Gate)
		require.Equal(t, g.Class, cmd.Evidence.Gates[i].Class)
	}
}

func TestG4IsNotEnforced(t *testing.T) {
	w := dbWorld(t)
	require.False(t, G4Enforced(w.st().Spec.Services["db"]))
}
