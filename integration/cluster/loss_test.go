//go:build integration

package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The host that made the installation is destroyed: the others remove it, let a
// new node in, and renew every certificate under a new authority.
func TestFirstHostDestroyed(t *testing.T) {
	in := install(t, weighted, "sa-1")
	first, fresh := in.nodes[0], in.nodes[3]
	others := in.others(first)
	old, err := others[0].api.CA(t.Context())
	require.NoError(t, err)
	require.Len(t, old.Items, 1)

	in.kill(first)
	require.NoError(t, os.RemoveAll(first.dir))
	in.remove(first, others[0])

	in.joinLate(fresh, others[1])
	eventually(t, settle, "the new node is a voter", func(ctx context.Context) error { return in.quorate(ctx, others[0], 3) })
	eventually(t, settle, "all is well", in.allWell)

	others[1].must("ca", "roll")
	for _, n := range in.others() {
		eventually(t, settle, n.name+" trusts the new authority alone", func(ctx context.Context) error {
			cas, err := n.api.CA(ctx)
			if err != nil {
				return err
			}
			if len(cas.Items) != 1 || cas.Items[0].Fingerprint == old.Items[0].Fingerprint || len(cas.Items[0].Members) != 3 {
				return fmt.Errorf("authorities %+v", cas.Items)
			}
			return nil
		})
		require.NotContains(t, n.must("ca", "show"), old.Items[0].Fingerprint[:16])
	}

	// The renewed certificates are on disk and good: a node that restarts gets in.
	in.kill(fresh)
	in.restart(fresh)
	in.caughtUp(fresh)
	eventually(t, settle, "all is well again", in.allWell)
	in.sites["eu"].down()
	in.moved(in.others(), "us", "ap")
}

// P-7: a node whose Raft store is damaged moves it aside and answers its last
// known good table; the others go on, and let it in again.
func TestDamagedStoreIsQuarantined(t *testing.T) {
	in := install(t, weighted)
	in.sites["ap"].down()
	in.moved(in.nodes, "eu", "us")
	pause(t, 300*time.Millisecond) // the last known good file is flushed every 100 ms

	sick := in.others(in.leader())[0]
	others := in.others(sick)
	in.kill(sick)
	store := filepath.Join(sick.dir, "raft", "raft.db")
	text, err := os.ReadFile(store)
	require.NoError(t, err)
	for i := 2 * os.Getpagesize(); i < len(text); i += 7 { // both meta pages stay
		text[i] ^= 0x5a
	}
	require.NoError(t, os.WriteFile(store, text, 0o600))

	took := in.restart(sick)
	fmt.Printf("MEASURED %-38s start over a damaged store to the first right answer: %s\n", t.Name(), took.Round(time.Millisecond))
	require.NoError(t, in.answersOnly(t.Context(), sick, "eu", "us"))
	in.health(sick, "/readyz", 200) // DNS does not wait for the store
	kept, err := filepath.Glob(filepath.Join(sick.dir, "raft?*"))
	require.NoError(t, err)
	require.NotEmpty(t, kept, "the damaged store is kept aside: %s", sick.logTail(20))

	in.sites["ap"].up()
	in.moved(others, "eu", "us", "ap")
	require.NoError(t, in.answersOnly(t.Context(), sick, "eu", "us"))

	// As its log says: removed, it joins again under its name, with an empty disk.
	in.kill(sick)
	require.NoError(t, os.RemoveAll(sick.dir))
	in.remove(sick, others[0])
	in.watch.gone(sick.name)
	in.joinLate(sick, others[1])
	eventually(t, settle, "all is well", in.allWell)
	in.moved(in.nodes, "eu", "us", "ap")
}

// P-7, P-9: a Raft store that cannot even be looked at delays no answer: DNS comes
// from the last known good file before Raft opens.
func TestHangingStoreDelaysNoAnswer(t *testing.T) {
	in := install(t, weighted)
	sick := in.others(in.leader())[0]
	in.kill(sick)
	store := filepath.Join(sick.dir, "raft", "raft.db")
	require.NoError(t, os.Rename(store, store+".kept"))
	require.NoError(t, syscall.Mkfifo(store, 0o600)) // opening it for reading waits for ever

	took := in.restart(sick)
	fmt.Printf("MEASURED %-38s start over a store that hangs to the first right answer: %s\n", t.Name(), took.Round(time.Millisecond))
	require.LessOrEqual(t, took, time.Second)
	pause(t, 3*time.Second)
	require.NoError(t, in.answersOnly(t.Context(), sick, "eu", "us", "ap"))
}

// remove removes a dead member, once the others know that it is dead.
func (in *installation) remove(dead, by *node) {
	in.t.Helper()
	eventually(in.t, settle, "remove "+dead.name, func(context.Context) error {
		stdout, stderr, code := by.cli("members", "remove", dead.name, "--reason", "lost", "--confirm", dead.name)
		if code != 0 {
			return fmt.Errorf("exit %d: %s%s", code, stdout, stderr)
		}
		return nil
	})
}
