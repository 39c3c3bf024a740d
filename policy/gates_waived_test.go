package policy

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

func TestAWaiverOfWhoLostTheRightPassesNoGate(t *testing.T) {
	w := dbWorld(t)
	w.do(statestore.PutToken{ID: "t-1", User: "dora", Groups: []string{"approver"}, Hash: [32]byte{1}, Root: true})
	w.all(health.Down, "eu")
	w.propose(statestore.Emergency, "us")
	w.sign(person("bob"))
	w.sign(person("carol"))
	w.step(statestore.KindBeginCutover, Waits{})
	w.all(health.Down, "us")
	for _, s := range []statestore.Signer{{User: "dora", Token: "t-1", Via: statestore.ViaToken}, person("bob")} {
		w.do(statestore.ApproveCutover{
			ID: "CUT-1", Evidence: w.open().Digest, Reason: "it is all we have", Signer: s,
			Waivers: []statestore.Waiver{{Gate: statestore.GateDestination}},
		})
	}
	destination := func() Gate { return gate(t, Gates(w.st(), w.open()), statestore.GateDestination) }
	require.Equal(t, []string{"dora", "bob"}, destination().Waived)
	require.True(t, destination().Passed())
	require.Empty(t, Stuck(w.st(), w.open()))

	w.do(statestore.RevokeToken{ID: "t-1"})
	require.Equal(t, []string{"bob"}, destination().Waived)
	require.False(t, destination().Passed())
	require.Contains(t, Stuck(w.st(), w.open()), "us is down")
	require.Empty(t, w.planned(w.heard()))
}
