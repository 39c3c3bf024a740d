package consensus

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

func TestCheckStorePassesWhatRaftWroteAndFindsDamage(t *testing.T) { // A15
	dir := filepath.Join(t.TempDir(), "raft")
	require.NoError(t, CheckStore(dir), "no store yet")
	s, err := openStorage(dir, hclog.NewNullLogger())
	require.NoError(t, err)
	for i := range uint64(200) {
		require.NoError(t, s.Log.StoreLog(&raft.Log{Index: i + 1, Term: 1, Data: make([]byte, 300)}))
	}
	require.NoError(t, s.Close())
	require.NoError(t, checkInChild(t, dir))

	path := filepath.Join(dir, storeFile)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, whole[:len(whole)/2], 0o600))
	require.Error(t, checkInChild(t, dir), "truncated")
	garbled := append([]byte(nil), whole...)
	for i := 2 * 4096; i < len(garbled); i += 64 {
		garbled[i] ^= 0xff
	}
	require.NoError(t, os.WriteFile(path, garbled, 0o600))
	require.Error(t, checkInChild(t, dir), "garbled")

	to, err := Quarantine(dir, time.Unix(1, 0))
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(to, storeFile))
	require.NoDirExists(t, dir)
	require.NoError(t, CheckStore(dir))
}

// checkInChild checks in a process of its own, as production does: bbolt panics on a
// goroutine of its own, which nobody can recover.
func checkInChild(t *testing.T, dir string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestCheckStoreChild$")
	cmd.Env = append(os.Environ(), "CHECK_STORE="+dir)
	return cmd.Run()
}

func TestCheckStoreChild(t *testing.T) {
	if dir := os.Getenv("CHECK_STORE"); dir != "" {
		require.NoError(t, CheckStore(dir))
	}
}

func TestASecondProcessDoesNotOpenTheStore(t *testing.T) {
	dir := t.TempDir()
	s, err := openStorage(dir, hclog.NewNullLogger())
	require.NoError(t, err)
	_, err = openStorage(dir, hclog.NewNullLogger())
	require.ErrorContains(t, err, "timeout")
	require.NoError(t, s.Close())
}

func TestAPoisonedStoreIsNeverUsedAgain(t *testing.T) { // A1
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		mem := raft.NewInmemStore()
		slow := &slowLog{InmemStore: mem, release: release}
		var reasons []error
		g := newGuard(&Storage{Log: slow, Stable: mem}, time.Second, func(err error) { reasons = append(reasons, err) })
		require.NoError(t, g.StoreLog(&raft.Log{Index: 1}))
		slow.stalled.Store(true)
		require.ErrorIs(t, g.StoreLog(&raft.Log{Index: 2}), errPoisoned)
		slow.stalled.Store(false)
		require.ErrorIs(t, g.StoreLog(&raft.Log{Index: 3}), errPoisoned)
		require.ErrorIs(t, g.SetUint64([]byte("k"), 1), errPoisoned)
		_, err := g.LastIndex()
		require.ErrorIs(t, err, errPoisoned)
		require.Len(t, reasons, 1)
		close(release)
		synctest.Wait()
		last, err := mem.LastIndex()
		require.NoError(t, err)
		require.EqualValues(t, 2, last, "index 3 was never written")
	})
}

type slowLog struct {
	*raft.InmemStore
	release chan struct{}
	stalled atomic.Bool
}

func (s *slowLog) StoreLogs(l []*raft.Log) error {
	if s.stalled.Load() {
		<-s.release
	}
	return s.InmemStore.StoreLogs(l)
}

func TestProfilesAreValidAndBrokenOnesAreNot(t *testing.T) {
	for _, p := range []Profile{WAN(), LAN(), Test()} {
		require.NoError(t, p.Validate())
		require.NoError(t, raft.ValidateConfig(p.raftConfig("n/a")))
		c := p.raftConfig("n/a")
		require.LessOrEqual(t, c.LeaderLeaseTimeout, p.hasty().HeartbeatTimeout)
		require.False(t, c.PreVoteDisabled)
		require.False(t, c.ShutdownOnRemove)
	}
	tests := []struct {
		name   string
		breaks func(*Profile)
		want   string
	}{
		{"lease above half a heartbeat", func(p *Profile) { p.Lease = p.Heartbeat }, "heartbeat must be at least twice the lease"},
		{"election below heartbeat", func(p *Profile) { p.Election = p.Heartbeat / 2 }, "election must be at least the heartbeat"},
		{"transport below heartbeat", func(p *Profile) { p.Transport = time.Millisecond }, "transport must be at least"},
		{"propose below two elections", func(p *Profile) { p.Propose = p.Election }, "propose must be at least two elections"},
		{"no lease", func(p *Profile) { p.Lease = 0 }, "lease must be at least"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := LAN()
			tt.breaks(&p)
			require.ErrorContains(t, p.Validate(), tt.want)
		})
	}
	_, err := ProfileNamed("moon")
	require.ErrorContains(t, err, `is "moon"`)
}
