//go:build integration

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/api/client"
)

// generation checks which life of the installation n has orders in, and where.
func (in *installation) generation(ctx context.Context, n *node, generation uint64, site string, unconfirmed bool) error {
	s, _, err := n.service(ctx, "orders")
	if err != nil {
		return err
	}
	o := s.Stateful
	if o == nil || o.Generation != generation || o.Active != site || o.Unconfirmed != unconfirmed {
		return fmt.Errorf("%s has %+v, want %s in generation %d, unconfirmed %t", n.name, o, site, generation, unconfirmed)
	}
	return nil
}

// I7, P-14: two of three nodes are destroyed while a move waits for people. The
// third goes on in another generation, answers what it did, and moves nothing until
// a person has named the active side. A node of the generation before that comes
// back with its disk disturbs nobody, and once it has joined again it answers
// nothing older than the others do. Then everything burns, and a backup is restored
// that is older than the last move.
func TestI7RecoverAndRestoreWithStatefulServices(t *testing.T) {
	in := installWith(t, weighted, stateful("orders", "60s"), "sa-1")
	first, old, gone, fresh := in.nodes[0], in.nodes[1], in.nodes[2], in.nodes[3]
	confirm := func(site string) {
		t.Helper()
		first.must("thaw", "orders", "--active", site, "--reason", "it took the last writes", "--confirm", "orders")
	}
	stop := in.follow()

	co := in.propose(first, "us", "planned")
	require.NoError(t, in.approve(first, co.ID))
	in.ordersMoved(in.others(), "us", 2)
	pending := in.propose(first, "ap", "planned")
	pause(t, 300*time.Millisecond) // the last known good file is flushed every 100 ms
	in.kill(old, gone)
	require.NoError(t, os.RemoveAll(gone.dir))
	in.watch.gone(gone.name)
	in.kill(first)
	begun := time.Now()
	first.must("recover", "-c", first.yaml, "--reason", "two of three burnt down", "--confirm", first.name)
	in.restart(first)
	eventually(t, settle, "it leads alone", func(ctx context.Context) error { return in.quorate(ctx, first, 1) })
	fmt.Printf("MEASURED %-38s recover to a quorum of one: %s\n", t.Name(), time.Since(begun).Round(10*time.Millisecond))
	require.NoError(t, in.answersOrders(t.Context(), first, "us"), "what it last answered")
	in.ended([]*node{first}, pending.ID, "void")
	stdout, stderr, code := first.cli("cutover", "propose", "orders", "--to", "ap", "--planned", "--reason", "too soon")
	require.Equalf(t, client.ExitRefused, code, "%s%s", stdout, stderr)
	_, _, code = first.cli("approve", pending.ID, "--evidence", pending.Evidence, "--reason", "too late", "--confirm", "orders")
	require.Equal(t, client.ExitConflict, code)
	confirm("eu")
	eventually(t, settle, "the named side is answered", func(ctx context.Context) error {
		return errors.Join(in.generation(ctx, first, 2, "eu", false), in.answersOrders(ctx, first, "eu"))
	})

	// A node that joins hears of us, of nobody, and of eu on its way.
	in.joinLate(fresh, first)
	eventually(t, settle, "a new node answers", func(ctx context.Context) error { return in.answersOrders(ctx, fresh, "eu") })

	eventually(t, settle, "it is a voter", func(ctx context.Context) error { return in.quorate(ctx, first, 2) })

	// The one of the generation before: nobody hears it, and it says how old it is.
	in.restart(old)
	require.NoError(t, in.answersOrders(t.Context(), old, "us"), "nobody can tell it")
	stays(t, 3*time.Second, "it disturbs nobody", func(ctx context.Context) error { return in.quorate(ctx, first, 2) })
	in.health(old, "/quorumz", 503)
	for _, n := range []*node{first, fresh} {
		require.NoError(t, in.generation(t.Context(), n, 2, "eu", false))
		require.NoError(t, in.answersOrders(t.Context(), n, "eu"))
	}
	in.kill(old)
	stop()
	stop = in.follow()
	in.watch.gone(old.name)
	in.joinLate(old, first)
	eventually(t, settle, "it answers as the others do", func(ctx context.Context) error { return in.answersOrders(ctx, old, "eu") })
	log := stop()
	for _, n := range in.nodes {
		inOrder(t, log, n, "eu")
	}
	eventually(t, settle, "all is well", in.allWell)

	// Everything burns; the backup is from before the last move.
	snap := filepath.Join(t.TempDir(), "quorate.snap")
	first.must("backup", "save", snap)
	co = in.propose(first, "us", "planned")
	require.NoError(t, in.approve(first, co.ID))
	in.ended(in.others(), co.ID, "done")
	in.kill(first, old, fresh)
	for _, n := range in.nodes {
		require.NoError(t, os.RemoveAll(n.dir))
		in.watch.gone(n.name)
	}
	begun = time.Now()
	first.must("backup", "restore", snap, "-c", first.yaml, "--new-installation", "--reason", "all burnt down", "--confirm", filepath.Base(snap))
	in.restart(first)
	eventually(t, settle, "it leads alone", func(ctx context.Context) error { return in.quorate(ctx, first, 1) })
	fmt.Printf("MEASURED %-38s restore on a clean machine to a quorum of one: %s\n", t.Name(), time.Since(begun).Round(10*time.Millisecond))
	require.NoError(t, in.generation(t.Context(), first, 2, "eu", true), "the last one that somebody knew of")
	confirm("us")
	in.joinLate(fresh, first)
	for _, n := range []*node{first, fresh} {
		eventually(t, settle, n.name+" answers the side that was named", func(ctx context.Context) error {
			return errors.Join(in.generation(ctx, n, 3, "us", false), in.answersOrders(ctx, n, "us"))
		})
	}
	first.must("history", "orders")
}
