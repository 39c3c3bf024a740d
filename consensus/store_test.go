package consensus_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/consensus"
	"github.com/quorate/quorate/consensus/consensustest"
	"github.com/quorate/quorate/statestore"
)

// faulty is a store whose writes can be made to hang or fail.
type faulty struct {
	raft.LogStore
	raft.StableStore
	mu     sync.Mutex
	stall  chan struct{} // writes wait for it to close
	broken atomic.Bool   // stable writes fail
	late   atomic.Int64  // writes that came back after a stall
}

func (f *faulty) wait() {
	f.mu.Lock()
	stall := f.stall
	f.mu.Unlock()
	if stall != nil {
		<-stall
		f.late.Add(1)
	}
}

func (f *faulty) freeze() (release func()) {
	stall := make(chan struct{})
	f.mu.Lock()
	f.stall = stall
	f.mu.Unlock()
	return func() { close(stall) }
}

func (f *faulty) StoreLogs(l []*raft.Log) error { f.wait(); return f.LogStore.StoreLogs(l) }

func (f *faulty) SetUint64(k []byte, v uint64) error {
	if f.broken.Load() {
		return errors.New("input/output error")
	}
	f.wait()
	return f.StableStore.SetUint64(k, v)
}

// withFaults returns options whose stores are faulty, and those stores by name.
func withFaults() (consensustest.Options, map[string]*faulty) {
	stores := map[string]*faulty{}
	return consensustest.Options{Storage: func(name string, s *consensus.Storage) *consensus.Storage {
		f := &faulty{LogStore: s.Log, StableStore: s.Stable}
		stores[name] = f
		s.Log, s.Stable = f, f
		return s
	}}, stores
}

func TestAStalledDiskEndsTheLeaderAndAnotherIsElected(t *testing.T) { // SYN-1, A1
	synctest.Test(t, func(t *testing.T) {
		opts, stores := withFaults()
		c := consensustest.New(t, 3, opts)
		leader := c.WaitLeader()
		c.Propose(leader, token(0))
		release := stores[leader].freeze()
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		_, err := c.Node(leader).Propose(ctx, token(1), consensus.Origin{Actor: "ann"})
		cancel()
		require.ErrorIs(t, err, consensus.ErrUnknownOutcome)

		next := c.WaitLeader(c.Others(leader)...)
		require.Less(t, time.Since(start), 8*time.Second)
		c.Propose(next, token(2))
		require.Contains(t, c.Node(leader).Health().Parked, "longer than 5s")
		require.Equal(t, "parked", c.Node(leader).Health().State)
		_, err = c.Node(leader).Propose(t.Context(), token(3), consensus.Origin{Actor: "ann"})
		require.ErrorIs(t, err, consensus.ErrParked)

		release()
		time.Sleep(time.Minute)
		require.EqualValues(t, 1, stores[leader].late.Load(), "only the write that hung came back; the store was not used again")
		require.NotEmpty(t, c.Node(leader).Health().Parked)

		c.Restart(leader)
		c.WaitLeader()
		c.Settle()
	})
}

func TestAStalledFollowerCatchesUpAfterItsRestart(t *testing.T) { // A2
	synctest.Test(t, func(t *testing.T) {
		opts, stores := withFaults()
		c := consensustest.New(t, 3, opts)
		leader := c.WaitLeader()
		follower := c.Follower(leader)
		release := stores[follower].freeze()
		for i := range 5 {
			c.Propose(leader, token(i))
		}
		c.Until("parked", func() bool { return c.Node(follower).Parked() != "" })
		release()
		c.Propose(leader, token(9))
		require.Equal(t, leader, c.WaitLeader())
		c.Restart(follower)
		c.Settle()
	})
}

func TestAFailingStableStoreParksInsteadOfPanicking(t *testing.T) { // SYN-2, A3
	synctest.Test(t, func(t *testing.T) {
		opts, stores := withFaults()
		c := consensustest.New(t, 3, opts)
		leader := c.WaitLeader()
		follower := c.Follower(leader)
		stores[follower].broken.Store(true)
		c.Kill(leader) // the next election writes a term everywhere
		c.Until("parked", func() bool { return c.Node(follower).Parked() != "" })
		require.Contains(t, c.Node(follower).Health().Parked, "input/output error")
		c.Restart(leader)
		next := c.WaitLeader(c.Others(follower)...)
		c.Propose(next, token(1))
	})
}

func TestAStoreThatDoesNotOpenLeavesAParkedNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := consensustest.New(t, 3, consensustest.Options{Idle: true, Config: func(name string, cfg *consensus.Config) {
			if name == "n1" {
				cfg.Storage = func() (*consensus.Storage, error) { return nil, errors.New("no such device") }
			}
		}})
		require.Contains(t, c.Node("n1").Health().Parked, "no such device")
		require.ErrorIs(t, c.Node("n1").Bootstrap([]consensus.Server{{Name: "n1", Nonce: "a"}}), consensus.ErrParked)
		require.Positive(t, c.Node("n1").LastContact()+1)
	})
}

func TestAnUndecodableEntryParksTheNodeThatCannotReadIt(t *testing.T) { // G15
	synctest.Test(t, func(t *testing.T) {
		var logs sync.Map
		c := consensustest.New(t, 3, consensustest.Options{Storage: func(name string, s *consensus.Storage) *consensus.Storage {
			s.Log = &garbling{LogStore: s.Log, name: name, on: &logs}
			return s
		}})
		leader := c.WaitLeader()
		follower := c.Follower(leader)
		c.Propose(leader, token(1))
		c.Settle()
		logs.Store(follower, true)
		c.Propose(leader, token(2))
		c.Until("parked", func() bool { return c.Node(follower).Parked() != "" })
		require.Contains(t, c.Node(follower).Health().Parked, statestore.ErrUndecodable.Error())
		require.NotContains(t, c.Store(follower).State().Tokens, "t2")
		c.Propose(leader, token(3))
		require.Equal(t, leader, c.WaitLeader(c.Others(follower)...))
	})
}

// garbling stands for a node of an older release: it cannot read what it stores.
type garbling struct {
	raft.LogStore
	name string
	on   *sync.Map
}

func (g *garbling) StoreLogs(logs []*raft.Log) error {
	if _, ok := g.on.Load(g.name); ok {
		for i, l := range logs {
			if l.Type == raft.LogCommand {
				newer := *l
				newer.Data = []byte{99, 1, '{', '}'}
				*logs[i] = newer
			}
		}
	}
	return g.LogStore.StoreLogs(logs)
}

func TestARestartFromSnapshotAndLogGivesTheSameState(t *testing.T) { // G15, A11
	synctest.Test(t, func(t *testing.T) {
		c := consensustest.New(t, 3, consensustest.Options{})
		leader := c.WaitLeader()
		follower := c.Follower(leader)
		for i := range 20 {
			c.Propose(leader, token(i))
		}
		c.Settle()
		require.NoError(t, c.Node(follower).Snapshot(t.Context()))
		for i := range 20 {
			c.Propose(leader, token(100+i))
		}
		c.Settle()
		want := c.Store(follower).State().Hash()
		c.Restart(follower)
		c.Settle()
		require.Equal(t, want, c.Store(follower).State().Hash())
	})
}

func TestARestartOfEverybodyKeepsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := consensustest.New(t, 3, consensustest.Options{})
		for i := range 10 {
			c.Propose("n1", token(i))
		}
		c.Settle()
		want := c.Store("n1").State().Hash()
		for _, name := range c.Names() {
			c.Kill(name)
		}
		c.Restart("n1")
		time.Sleep(time.Minute)
		require.Zero(t, c.Store("n1").State().Index, "without quorum nobody knows what is committed")
		require.False(t, c.Node("n1").Health().Quorum)
		c.Restart("n2")
		c.Restart("n3")
		c.WaitLeader()
		c.Until("replay", func() bool { return c.Store("n1").State().Index > 0 })
		c.Settle()
		require.Equal(t, want, c.Store("n1").State().Hash())
	})
}

func TestARealStoreSurvivesARestart(t *testing.T) {
	c := consensustest.New(t, 3, consensustest.Options{Disk: true, Profile: consensus.Test()})
	leader := c.WaitLeader()
	for i := range 5 {
		c.Propose(leader, token(i))
	}
	c.Settle()
	want := c.Store(leader).State().Hash()
	for _, name := range c.Names() {
		c.Kill(name)
	}
	for _, name := range c.Names() {
		c.Restart(name)
	}
	c.WaitLeader()
	c.Until("replay", func() bool { return c.Store("n1").State().Index > 0 })
	c.Settle()
	require.Equal(t, want, c.Store("n1").State().Hash())
	require.Contains(t, c.Store("n1").State().Tokens, fmt.Sprintf("t%d", 4))
}

func TestARestartOfRaftInTheProcessNeverTakesTheStateBack(t *testing.T) { // G2
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		restored := map[string]int{}
		restores := func(name string) int {
			mu.Lock()
			defer mu.Unlock()
			return restored[name]
		}
		c := consensustest.New(t, 3, consensustest.Options{Config: func(name string, cfg *consensus.Config) {
			cfg.OnRestore = func(*statestore.State) {
				mu.Lock()
				defer mu.Unlock()
				restored[name]++
			}
		}})
		sick := c.WaitLeader()
		c.Propose(sick, token(1))
		require.NoError(t, c.Node(sick).Snapshot(t.Context()))
		c.Propose(sick, token(2))
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() {
			done <- c.Node(sick).Lead(ctx, func(context.Context, uint64) error { return errors.New("cannot start") })
		}()
		c.Until("another leader", func() bool {
			require.Contains(t, c.Store(sick).State().Tokens, "t2")
			name, ok := c.Node(sick).Leader()
			return ok && name != sick
		})
		cancel()
		<-done
		c.Propose(sick, token(3))
		c.Settle()
		require.Zero(t, restores(sick))
		c.Restart(sick)
		c.Settle()
		require.Equal(t, 1, restores(sick), "a new process starts from the snapshot")
	})
}

func TestANodeFarBehindIsBroughtUpBySnapshot(t *testing.T) { // A10
	synctest.Test(t, func(t *testing.T) {
		var journal atomic.Int64
		c := consensustest.New(t, 3, consensustest.Options{Config: func(name string, cfg *consensus.Config) {
			if name == "n4" {
				cfg.OnApply = func(uint64, uint64, []byte) { journal.Add(1) }
			}
		}})
		leader := c.WaitLeader()
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				for range 105 { // more than the log keeps
					_, err := c.Node(leader).Propose(context.Background(), statestore.Tick{}, consensus.Origin{Actor: "ann"})
					require.NoError(t, err)
				}
			})
		}
		wg.Wait()
		c.Propose(leader, token(1))
		require.NoError(t, c.Node(leader).Snapshot(t.Context()))
		snapshot := c.Store(leader).State().Index
		c.Add("n4", "a")
		require.NoError(t, c.Node(leader).AddVoter(t.Context(), "n4", "a"))
		c.Until("promotion", func() bool { return server(t, c, leader, "n4").Voter })
		c.Propose("n4", token(2))
		c.Settle()
		require.EqualValues(t, 1, journal.Load(), "all but the last came in the snapshot of %d", snapshot)
	})
}
