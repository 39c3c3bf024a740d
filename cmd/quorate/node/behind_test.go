package node

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
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

// P5, G5: a node whose floor is lost starts, and answers stateful services once it
// has caught up, not before: its state may be older than what it answered.
func TestALostFloorIsCaughtUpWith(t *testing.T) {
	damages := map[string]func(t *testing.T, path string){
		"removed": func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) },
		"damaged": func(t *testing.T, path string) {
			require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte{0x5a}, 128<<10), 0o600))
		},
	}
	for _, name := range []string{"removed", "damaged"} {
		t.Run(name, func(t *testing.T) {
			o := newOrders(t)
			o.move("us")
			o.says("us")
			o.stop()
			damages[name](t, filepath.Join(o.dir, lkgFolder, "lkg.floor"))
			n, err := Open(o.cfg, Options{Version: "test", Socket: filepath.Join(t.TempDir(), "sock")})
			require.NoError(t, err)
			require.Equal(t, "SERVFAIL", answered(t, n))
			n.close() // and it crashes before it has caught up
			require.True(t, (&dataDir{path: o.dir}).isBehind())
			o.start()
			o.says("us")
			require.Eventually(t, func() bool { return !o.n.dir.isBehind() }, 10*time.Second, 10*time.Millisecond)
			o.stop()
			o.start()
			require.Equal(t, "us", answered(t, o.n), "it has a floor again")
		})
	}
}

func TestANewNodeIsBehindUntilThereIsAQuorum(t *testing.T) {
	o := newOrders(t)
	require.Eventually(t, func() bool { return !o.n.dir.isBehind() }, 10*time.Second, 10*time.Millisecond)
	o.says("eu")
	cfg := ordersNode(t, seededDir(t, "other"))
	n, err := Open(cfg, Options{Version: "test", Socket: filepath.Join(t.TempDir(), "sock")})
	require.NoError(t, err)
	defer n.close()
	require.True(t, n.tables.behind)
	require.True(t, n.dir.isBehind())
}

// A node that is behind and hears no quorum, however often it starts.
func TestWhoIsBehindStaysSoWithoutAQuorum(t *testing.T) {
	o := newOrders(t)
	o.says("eu")
	o.stop()
	require.NoError(t, (&dataDir{path: o.dir}).markBehind())
	for range 2 {
		n, err := Open(o.cfg, Options{Version: "test", Socket: filepath.Join(t.TempDir(), "sock")})
		require.NoError(t, err)
		require.NoError(t, n.raft.Close()) // alone it would be a quorum
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		require.NoError(t, n.catchUp(ctx))
		stop()
		require.False(t, n.tables.current.Load())
		require.Equal(t, "SERVFAIL", answered(t, n))
		n.close()
	}
	o.start()
	o.says("eu")
}

// A crash must find either the epochs that the node has answered with, or the mark.
func TestBeingBehindEndsOnceEpochsAreKept(t *testing.T) {
	o := newOrders(t)
	o.says("eu")
	o.stop()
	require.NoError(t, (&dataDir{path: o.dir}).markBehind())
	n, err := Open(o.cfg, Options{Version: "test", Socket: filepath.Join(t.TempDir(), "sock")})
	require.NoError(t, err)
	d := &disk{fails: errors.New("input/output error")}
	n.tables.floor = d
	o.run(n)
	require.Eventually(t, func() bool { return d.tried() > 1 }, 20*time.Second, 10*time.Millisecond)
	require.True(t, n.dir.isBehind())
	require.Equal(t, "SERVFAIL", answered(t, n))
	d.set(func(d *disk) { d.fails = nil })
	o.says("eu")
	require.Eventually(t, func() bool { return !n.dir.isBehind() }, 10*time.Second, 10*time.Millisecond)
}

func TestBeingBehindOutlivesARestart(t *testing.T) {
	dir, err := openDataDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(dir.close)
	require.False(t, dir.isBehind())
	require.NoError(t, dir.markBehind())
	require.True(t, dir.isBehind())
}
