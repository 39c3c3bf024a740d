package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/consensus/mesh"
)

// openAlone opens the only node of an installation on free ports.
func openAlone(t *testing.T, dir string) *Node {
	t.Helper()
	n, err := tryOpenAlone(t, dir)
	require.NoError(t, err)
	return n
}

func tryOpenAlone(t *testing.T, dir string, dns ...string) (*Node, error) {
	t.Helper()
	cfg, errs, _ := config.ParseNode("node.yaml", fmt.Appendf(nil, `
node: { name: eu-1, region: eu-west }
data_dir: %q
dns: { listen: [%s] }
api: { listen: "127.0.0.1:0" }
peer: { listen: "127.0.0.1:0", advertise: "127.0.0.1:1", profile: lan }
`, dir, strings.Join(dns, ", ")))
	require.Empty(t, errs)
	return Open(cfg, Options{Version: "test", Socket: filepath.Join(dir, "sock")})
}

// seededDir makes the data directory of the first node of an installation.
func seededDir(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.Mkdir(dir, 0o700))
	_, err := mesh.InitDir(MeshDir(dir), "test", "eu-1", mesh.RoleVoter, time.Now())
	require.NoError(t, err)
	require.NoError(t, WriteSeed(dir, Seed{Installation: "test"}))
	return dir
}

func TestASocketReplacesNoFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.Mkdir(dir, 0o700))
	_, err := mesh.InitDir(MeshDir(dir), "test", "eu-1", mesh.RoleVoter, time.Now())
	require.NoError(t, err)
	path := filepath.Join(dir, "sock")
	require.NoError(t, os.WriteFile(path, []byte("dear"), 0o600))
	_, err = tryOpenAlone(t, dir)
	require.ErrorContains(t, err, "no socket")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "dear", string(text))
}

// runUntil runs n until ok, then stops it.
func runUntil(t *testing.T, n *Node, ok func() bool) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	require.Eventually(t, ok, 20*time.Second, 20*time.Millisecond)
	stop()
	require.NoError(t, <-ended)
}

// A voter under its old id with an empty log has forgotten its votes.
func TestANodeWhoseLogIsGoneComesBackUnderAnotherID(t *testing.T) {
	dir := seededDir(t, "data")

	n := openAlone(t, dir)
	first := n.id.Nonce
	runUntil(t, n, func() bool {
		var id identity
		_, err := readJSON(filepath.Join(dir, identityFile), &id)
		return err == nil && id.Started && n.Store().State().Members["eu-1"] != nil
	})

	n = openAlone(t, dir)
	require.Equal(t, first, n.id.Nonce, "a restart changes nothing")
	n.close()

	require.NoError(t, os.RemoveAll(filepath.Join(dir, raftFolder)))
	n = openAlone(t, dir)
	second := n.id.Nonce
	require.NotEqual(t, first, second)
	require.NotNil(t, n.Store().State().Members["eu-1"], "what it kept for DNS is there")
	n.close()

	n = openAlone(t, dir)
	require.Equal(t, second, n.id.Nonce, "the new id waits to be let in")
	n.close()
}

// Who left and who came while a node was away, perhaps the leader itself, it learns
// from them only.
func TestWhoIsNoMemberIsRefusedOnlyByANodeThatIsUpToDate(t *testing.T) {
	dir := seededDir(t, "data")
	n := openAlone(t, dir)
	runUntil(t, n, func() bool { return n.Store().State().Members["eu-1"] != nil && !n.allowed("us-1") })

	n = openAlone(t, dir)
	require.NotNil(t, n.Store().State().Members["eu-1"])
	require.True(t, n.allowed("us-1"), "the kept state may be old")
	n.close()

	require.NoError(t, os.RemoveAll(filepath.Join(dir, raftFolder)))
	n = openAlone(t, dir)
	require.True(t, n.allowed("us-1"), "and the log may be gone")
	n.close()
}

// What was kept of another installation would win over all that the new one says,
// since its index is higher.
func TestADirectoryOfAnotherInstallationStartsAnew(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.Mkdir(dir, 0o700))
	begin := func(installation string) *Node {
		_, err := mesh.InitDir(MeshDir(dir), installation, "eu-1", mesh.RoleVoter, time.Now())
		require.NoError(t, err)
		require.NoError(t, WriteSeed(dir, Seed{Installation: installation}))
		return openAlone(t, dir)
	}
	for _, installation := range []string{"first", "second"} {
		n := begin(installation)
		runUntil(t, n, func() bool {
			st := n.Store().State()
			return st.Installation == installation && st.Members["eu-1"] != nil
		})
		for _, old := range []string{meshFolder, raftFolder, identityFile} {
			require.NoError(t, os.RemoveAll(filepath.Join(dir, old)))
		}
	}
}
