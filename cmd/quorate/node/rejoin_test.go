package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/consensus/mesh"
	"github.com/quorate/quorate/statestore"
)

// A node whose store was damaged or lost is told to be removed and to join again:
// that has to work in the data directory it has.
func TestARemovedNodeJoinsAgainInItsOldDirectory(t *testing.T) {
	dir := seededDir(t, "first")
	n := openAlone(t, dir)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	defer func() {
		stop()
		require.NoError(t, <-ended)
	}()
	require.Eventually(t, func() bool { return n.Store().State().Members["eu-1"] != nil }, 20*time.Second, 20*time.Millisecond)

	second := filepath.Join(t.TempDir(), "second")
	cfg, errs, _ := config.ParseNode("node.yaml", fmt.Appendf(nil, `
node: { name: us-1, region: us-east, role: nonvoter }
data_dir: %q
dns: { listen: [] }
api: { listen: "127.0.0.1:0" }
peer: { listen: "127.0.0.1:0", advertise: "127.0.0.1:2", profile: lan }
`, second))
	require.Empty(t, errs)
	token := func() string {
		s, err := n.mintJoinToken()
		require.NoError(t, err)
		res, err := n.propose(ctx, statestore.PutJoinToken{ID: s.ID, Hash: s.Hash, Role: statestore.Nonvoter, For: time.Hour})
		require.NoError(t, errors.Join(err, res.Err))
		return s.Token
	}
	join := func(token string) error {
		_, err := Join(ctx, cfg, "test", n.peers.Addr().String(), token)
		return err
	}
	id := func() (id identity) {
		_, err := readJSON(filepath.Join(second, identityFile), &id)
		require.NoError(t, err)
		return id
	}
	require.NoError(t, join(token()))
	first := id()
	require.NoError(t, os.WriteFile(filepath.Join(second, "kept"), nil, 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(second, raftFolder), 0o700))

	err := join(token())
	require.ErrorIs(t, err, mesh.ErrHasIdentity)
	require.ErrorContains(t, err, "remove it first", "a member does not join twice")
	require.Equal(t, first, id())
	require.DirExists(t, filepath.Join(second, raftFolder))

	// A roll of the CA that stopped midway is in nobody's way.
	unfinished, err := mesh.NewAuthority("test", time.Now())
	require.NoError(t, err)
	ca, err := trustedCA(unfinished.CertificatePEM())
	require.NoError(t, err)
	res, err := n.propose(ctx, statestore.TrustCA{CA: ca})
	require.NoError(t, errors.Join(err, res.Err))

	require.NoError(t, n.removeMember(ctx, "us-1", "its log was lost", api.Origin{Actor: "test"}))
	again := token()
	require.NoError(t, join(again))
	require.NotEqual(t, first.Nonce, id().Nonce)
	require.Equal(t, id().Nonce, n.Store().State().Members["us-1"].Nonce)
	require.NoDirExists(t, filepath.Join(second, raftFolder), "the old log is moved aside")
	require.FileExists(t, filepath.Join(second, "kept"))
	require.FileExists(t, filepath.Join(second, behindFile), "what it has kept may be long over")
	m, err := mesh.Open(mesh.Config{Dir: MeshDir(second)})
	require.NoError(t, err)
	require.Equal(t, "us-1", m.Identity().Name)
	require.NoError(t, m.Close())

	foreign, err := mesh.NewJoinToken(fmt.Sprintf("%064x", 7))
	require.NoError(t, err)
	require.ErrorContains(t, join(foreign.Text()), "not one of the token's installation")
}
