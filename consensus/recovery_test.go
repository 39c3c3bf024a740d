package consensus_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/consensus"
	"github.com/quorate/quorate/consensus/consensustest"
	"github.com/quorate/quorate/statestore"
)

// TestA20ALostQuorumGoesOnFromOneStore: what the survivor's store amounts to is what
// it had applied, and a store made of it leads alone, under another id and in a
// later term.
func TestA20ALostQuorumGoesOnFromOneStore(t *testing.T) {
	dirs, nonce := map[string]string{}, "a"
	c := consensustest.New(t, 3, consensustest.Options{
		Disk: true, Profile: consensus.Test(),
		Config: func(name string, cfg *consensus.Config) {
			if dirs[name] == "" {
				dirs[name] = cfg.Dir
			}
			cfg.Dir, cfg.Nonce = dirs[name], nonce
		},
	})
	leader := c.WaitLeader()
	c.Propose(leader, statestore.Initialize{Installation: "demo"})
	c.Propose(leader, statestore.FreezeService{Reason: "one"})
	c.Propose(leader, statestore.ThawService{Reason: "two"})
	c.Settle()
	want, term := c.Store(leader).State(), c.Node(leader).Health().Term
	c.Close()

	st, storeTerm, err := consensus.ReadStore(dirs[leader])
	require.NoError(t, err)
	require.Equal(t, want.Index, st.Index)
	require.Equal(t, want.Hash(), st.Hash())
	require.GreaterOrEqual(t, storeTerm, term)
	require.ErrorContains(t, consensus.Rebuild(dirs[leader], st, consensus.Server{Name: leader, Nonce: "b"}), "holds one already")

	_, err = consensus.Quarantine(dirs[leader], time.Unix(1, 0))
	require.NoError(t, err)
	require.NoError(t, consensus.Rebuild(dirs[leader], st, consensus.Server{Name: leader, Nonce: "b"}))
	require.NoError(t, consensus.CheckStore(dirs[leader]))
	again, againTerm, err := consensus.ReadStore(dirs[leader])
	require.NoError(t, err)
	require.Equal(t, want.Hash(), again.Hash(), "a rebuilt store reads as it was written")
	require.Equal(t, st.Term, againTerm)

	nonce = "b"
	c.Restart(leader)
	c.WaitLeader(leader)
	require.Equal(t, want.Hash(), c.Store(leader).State().Hash())
	res := c.Propose(leader, statestore.FreezeService{Reason: "three"})
	require.Greater(t, res.Index, want.Index)
	require.Greater(t, c.Store(leader).State().Term, want.Term)
	servers := c.Node(leader).Servers()
	require.Len(t, servers, 1)
	require.Equal(t, "b", servers[0].Nonce)
	require.True(t, servers[0].Voter)

	now := c.Store(leader).State()
	c.Restart(leader)
	c.Until("what was committed since", func() bool { return c.Store(leader).State().Index >= now.Index })
}

func TestReadStoreSaysWhatItCannotRead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "raft")
	st, _, err := consensus.ReadStore(dir)
	require.NoError(t, err)
	require.Nil(t, st, "no store")

	st = statestore.NewStore().State()
	first := *st
	first.Index, first.Term, first.Installation = 7, 3, "demo"
	require.NoError(t, consensus.Rebuild(dir, &first, consensus.Server{Name: "n1", Nonce: "a"}))
	got, term, err := consensus.ReadStore(dir)
	require.NoError(t, err)
	require.EqualValues(t, 7, got.Index)
	require.EqualValues(t, 3, term)

	var file string
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, _ error) error {
		if strings.HasSuffix(path, "state.bin") {
			file = path
		}
		return nil
	}))
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	data[len(data)/2] ^= 1
	require.NoError(t, os.WriteFile(file, data, 0o600))
	_, _, err = consensus.ReadStore(dir)
	require.ErrorContains(t, err, "read snapshots under "+dir)
}
