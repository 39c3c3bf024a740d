package node

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/config"
	dnsclient "github.com/quorate/quorate/dnsserver/client"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/statestore"
)

const aloneSpec = `
version: 1
defaults: { quorum: { min_votes: 1 } }
zones: { gslb.example.com: {} }
clusters: { eu: { region: eu-west, ipv4: [192.0.2.10] } }
services: { web: { policy: { type: weighted }, check: { tcp: { port: 443 } } } }
`

// A node that ever had a table answers, whatever happens to its other files.
func TestG5DamagedFilesStopNoAnswer(t *testing.T) {
	dir := seededDir(t, "data")
	n, err := tryOpenAlone(t, dir, `"127.0.0.1:0"`)
	require.NoError(t, err)
	runUntil(t, n, func() bool {
		st := n.Store().State()
		if st.Members["eu-1"] == nil {
			return false
		}
		if st.Revision == 0 {
			applySpec(t, n, aloneSpec)
		}
		return st.Revision == 1
	})

	for _, file := range []string{identityFile, filepath.Join(meshFolder, "peer.crt"), filepath.Join(meshFolder, "ca.crt"), filepath.Join(meshFolder, "peer.key")} {
		t.Run(file, func(t *testing.T) {
			path := filepath.Join(dir, file)
			whole, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, []byte("garbage"), 0o600))
			n, err := tryOpenAlone(t, dir, `"127.0.0.1:0"`)
			require.NoError(t, err)
			require.Error(t, n.alone)
			server := n.dns.Addrs()[0].String()
			runUntil(t, n, func() bool {
				r, err := dnsclient.Query(t.Context(), server, "web.gslb.example.com", "A", dnsclient.Options{})
				return err == nil && len(r.Addresses) == 1 && r.Addresses[0] == netip.MustParseAddr("192.0.2.10")
			})
			require.NoError(t, os.WriteFile(path, whole, 0o600))
		})
	}

	n, err = tryOpenAlone(t, dir, `"127.0.0.1:0"`)
	require.NoError(t, err)
	require.NoError(t, n.alone, "mended, it does everything again")
	n.close()
}

// What a person has to set right ends the start, table or not.
func TestAWrongNameEndsTheStart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, writeJSON(filepath.Join(dir, identityFile), identity{Name: "us-1", Nonce: "1"}))
	_, err := tryOpenAlone(t, dir, `"127.0.0.1:0"`)
	require.ErrorContains(t, err, `belongs to node "us-1"`)
}

func applySpec(t *testing.T, n *Node, source string) {
	t.Helper()
	result, errs := config.ParseSpec("spec.yaml", []byte(source))
	require.Empty(t, errs)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	st := n.Store().State()
	res, err := n.propose(ctx, statestore.ApplySpec{
		Base: st.Revision, Source: source, Spec: result.Spec, Rotations: policy.DiffSpec(st, result.Spec).Rotations,
	})
	require.NoError(t, err)
	require.NoError(t, res.Err)
}
