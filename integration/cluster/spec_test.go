//go:build integration

package cluster

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/api/client"
)

// G13: garbage, an empty spec and an unknown key leave the running revision, and
// with it every answer, untouched; whether the command line or a node reads them.
func TestBadSpecChangesNothing(t *testing.T) {
	in := install(t, weighted)
	good := spec(weighted, "")
	running, err := in.nodes[0].api.Spec(t.Context())
	require.NoError(t, err)
	before, _, err := in.nodes[0].service(t.Context(), "web")
	require.NoError(t, err)

	tests := []struct {
		name, text string
		code       int
	}{
		{"empty", "", client.ExitUsage},
		{"only a comment", "# nothing\n", client.ExitUsage},
		{"garbage", "\x00\xff\x13{{{:::]", client.ExitUsage},
		{"another file", "PK\x03\x04 not yaml at all: [unclosed", client.ExitUsage},
		{"cut off in the middle", good[:len(good)/2], client.ExitUsage},
		{"unknown key", strings.Replace(good, "policy:", "polizy:", 1), client.ExitUsage},
		{"unknown check key", strings.Replace(good, "path: /healthz", "pfad: /healthz", 1), client.ExitUsage},
		{"no services", good[:strings.Index(good, "services:")] + "services: {}\n", client.ExitRefused}, // valid, and stopped by the guard on deletes
		{"two documents", good + "---\n" + good, client.ExitUsage},
	}
	for i, tt := range tests {
		n := in.nodes[i%len(in.nodes)]
		path := filepath.Join(t.TempDir(), "spec.yaml")
		require.NoError(t, os.WriteFile(path, []byte(tt.text), 0o644))
		stdout, stderr, code := n.cli("apply", "-f", path, "--reason", "bad on purpose")
		require.Equalf(t, tt.code, code, "%s by apply:\n%s%s", tt.name, stdout, stderr)
		require.NotContains(t, stderr, "goroutine ", "%s: a stack trace", tt.name)

		_, err := n.api.PutSpec(t.Context(), apitype.ApplyRequest{Source: tt.text, Reason: "bad on purpose"}, running.Meta.ETag, "")
		require.Equalf(t, tt.code, client.ExitCode(err), "%s by the API: %v", tt.name, err)
	}

	stays(t, 2*time.Second, "nothing changed", func(ctx context.Context) error {
		for _, n := range in.nodes {
			now, err := n.api.Spec(ctx)
			if err != nil {
				return err
			}
			if now.Items[0].Number != running.Items[0].Number || now.Items[0].Source != running.Items[0].Source {
				return fmt.Errorf("%s runs revision %d", n.name, now.Items[0].Number)
			}
			if s, _, err := n.service(ctx, "web"); err != nil || s.Rotation != before.Rotation {
				return fmt.Errorf("%s has rotation %d, %v", n.name, s.Rotation, err)
			}
		}
		return nil
	})
	for _, n := range in.nodes {
		require.Equal(t, in.everyAnswer(n), []netip.Addr{in.sites["eu"].addr, in.sites["us"].addr, in.sites["ap"].addr})
	}
}

// everyAnswer collects the addresses that n answers, sorted.
func (in *installation) everyAnswer(n *node) []netip.Addr {
	in.t.Helper()
	var all []netip.Addr
	for range 100 {
		addrs, err := n.ask(in.t.Context(), in.client, queryTimeout)
		require.NoError(in.t, err)
		all = append(all, addrs...)
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all)
}
