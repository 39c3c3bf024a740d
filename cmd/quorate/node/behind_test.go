package node

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/statestore/lkg"
)

// P5: a node that joins goes through all of history. It answers with none of it,
// acknowledges nothing by it, and keeps no epoch of it.
func TestANodeThatIsBehindAnswersNoHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{}
		p, f := testPublisher(d), &feed{st: stateAt(1, 1), changed: make(chan struct{})}
		p.behind, p.caught = true, make(chan struct{}, 1)
		var wg sync.WaitGroup
		defer wg.Wait()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		wg.Go(func() { p.run(ctx, f) })
		synctest.Wait()
		for i, o := range []struct {
			active string
			epoch  uint64
		}{{"eu", 1}, {"us", 2}, {"eu", 3}} {
			f.put(ownedAt(uint64(10+i), active(o.active, o.epoch)))
			require.Equal(t, "SERVFAIL", answers(p, "db"))
			require.Equal(t, "us", answers(p, "web"))
			e, _ := p.table.Load().Epoch("db")
			require.Equal(t, notCaughtUp, e.Withheld)
		}
		began := ownedAt(20, fencing(3, 4))
		f.put(began)
		require.Empty(t, acks(p, began))
		time.Sleep(time.Minute)
		require.Zero(t, d.tried())
		require.False(t, answersAll(began, p.table.Load()))

		f.put(ownedAt(21, active("us", 4)))
		require.Equal(t, "SERVFAIL", answers(p, "db"))
		p.caughtUp()
		synctest.Wait()
		require.Equal(t, "us", answers(p, "db"), "at once")
		require.Equal(t, lkg.Mark{Generation: 1, Epoch: 4, Active: lkg.KeyOf("us")}, d.Floor().Services[lkg.KeyOf("db")])
		require.True(t, answersAll(f.State(), p.table.Load()))
	})
}

// A state that was read before the node had caught up is history still.
func TestCatchingUpMakesNoEarlierStateCurrent(t *testing.T) {
	p := testPublisher(&disk{})
	p.behind = true
	early := ownedAt(10, active("eu", 1))
	p.caughtUp() // while that one is on its way into the table
	require.NoError(t, p.publish(early))
	require.Equal(t, "SERVFAIL", answers(p, "db"))
}

func TestBeingBehindOutlivesARestart(t *testing.T) {
	dir, err := openDataDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(dir.close)
	require.False(t, dir.isBehind())
	require.NoError(t, dir.markBehind())
	require.True(t, dir.isBehind())
}
