package consensus_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/consensus"
	"github.com/quorate/quorate/consensus/consensustest"
	"github.com/quorate/quorate/statestore"
)

// token is a command that is done once and refused when done again.
func token(i int) statestore.Command {
	return statestore.PutToken{ID: fmt.Sprintf("t%d", i), User: "ann", Groups: []string{"ops"}, Hash: [32]byte{1}}
}

func TestANodePerRegionElectsALeaderWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		c := consensustest.New(t, 3, consensustest.Options{})
		took := time.Since(start)
		t.Logf("first leader after %s", took)
		require.Less(t, took, 1600*time.Millisecond)
		leader := c.WaitLeader()
		c.Propose(leader, token(1))
		c.Settle()
	})
}

func TestAFollowerForwardsAndHasAppliedWhatItReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := consensustest.New(t, 3, consensustest.Options{})
		follower := c.Follower(c.WaitLeader())
		for i := range 10 {
			res := c.Propose(follower, token(i))
			require.GreaterOrEqual(t, c.Store(follower).State().Index, res.Index)
			require.Contains(t, c.Store(follower).State().Tokens, fmt.Sprintf("t%d", i))
		}
		res, err := c.Node(follower).Propose(context.Background(), token(1), consensus.Origin{Actor: "ann"})
		require.NoError(t, err)
		require.ErrorIs(t, res.Err, statestore.ErrExists)
		c.Settle()
	})
}

func freeze(at time.Time) statestore.Command {
	return statestore.FreezeService{Reason: "at " + at.String()}
}

func thaw() statestore.Command { return statestore.ThawService{} }
