//go:build integration

package cluster

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/api/client"
	dnsclient "github.com/quorate/quorate/dnsserver/client"
)

// hosts returns where nodes are.
func hosts(nodes []*node) []*host {
	var hs []*host
	for _, n := range nodes {
		hs = append(hs, n.host)
	}
	return hs
}

// health waits until a health endpoint of n answers with code.
func (in *installation) health(n *node, path string, code int) {
	in.t.Helper()
	eventually(in.t, settle, fmt.Sprintf("%s: %s is %d", n.name, path, code), func(ctx context.Context) error {
		got, err := n.health(ctx, path)
		if err == nil && got != code {
			err = fmt.Errorf("is %d", got)
		}
		return err
	})
}

// P-24: with every link between nodes cut, every node goes on answering, says
// since when, and comes back by itself.
func TestAllLinksCut(t *testing.T) {
	in := install(t, weighted)
	in.cut(in.nodes...)
	for _, n := range in.nodes {
		others := hosts(in.others(n))
		n.mute(t, others...)
		n.deafen(t, others...)
	}
	for _, n := range in.nodes {
		in.health(n, "/quorumz", 503)
		require.Contains(t, n.must("status"), "NO QUORUM since")
	}
	in.sites["eu"].down()
	stays(t, 6*time.Second, "nothing changes and everybody is ready", func(ctx context.Context) error {
		for _, n := range in.nodes {
			if code, err := n.health(ctx, "/readyz"); err != nil || code != 200 {
				return fmt.Errorf("%s: readyz %d, %v", n.name, code, err)
			}
			if err := in.committed(ctx, n, "eu", "us", "ap"); err != nil {
				return err
			}
		}
		return nil
	})
	for _, n := range in.nodes {
		n.mend(t)
	}
	in.caughtUp(in.nodes...)
	in.moved(in.nodes, "us", "ap")
}

// P-5, G6: a leader that hears but is not heard, or the other way round, loses
// the others, who go on; what it is asked to write it refuses.
func TestOneWayDrop(t *testing.T) {
	in := install(t, weighted)
	for _, tt := range []struct {
		name string
		drop func(h *host, t *testing.T, others ...*host)
	}{
		{"muted", (*host).mute},
		{"deafened", (*host).deafen},
	} {
		sick := in.leader()
		others := in.others(sick)
		in.cut(sick)
		begun := time.Now()
		tt.drop(sick.host, t, hosts(others)...)
		in.writeThrough(others[0], settle)
		fmt.Printf("MEASURED %-38s leader %s to the next committed write: %s\n", t.Name(), tt.name, time.Since(begun).Round(time.Millisecond))

		begun = time.Now()
		in.sites["us"].down()
		in.moved(others, "ap", "eu")
		fmt.Printf("MEASURED %-38s site lost then, to answers that leave it out: %s\n", t.Name(), time.Since(begun).Round(time.Millisecond))
		in.health(sick, "/quorumz", 503)
		_, stderr, code := sick.cli("freeze", "spare", "--reason", "a minority must not")
		require.Equalf(t, client.ExitNoQuorum, code, "a write through the %s node: %s", tt.name, stderr)
		require.NoError(t, in.committed(t.Context(), sick, "eu", "us", "ap"))

		sick.mend(t)
		in.caughtUp(sick)
		in.moved(in.nodes, "ap", "eu")
		for _, n := range in.nodes {
			s, _, err := n.service(t.Context(), "spare")
			require.NoError(t, err)
			require.False(t, s.Frozen, "%s has the write that was refused", n.name)
		}
		in.sites["us"].up()
		in.moved(in.nodes, "eu", "us", "ap")
	}
}

// sequence asks n one question after the other and keeps each answer that differs
// from the one before: no node may ever go back.
func (in *installation) sequence(n *node) (stop func() []netip.Addr) {
	ctx, cancel := context.WithCancel(context.Background())
	var (
		wg  sync.WaitGroup
		got []netip.Addr
	)
	c, err := dialFrom(ctx, in.client, n.server())
	require.NoError(in.t, err)
	wg.Go(func() {
		defer func() { _ = c.Close() }() // nothing was buffered
		for ctx.Err() == nil {
			reply, err := c.Query(ctx, webName, "A", dnsclient.Options{Timeout: queryTimeout})
			if err == nil && len(reply.Addresses) > 0 && (len(got) == 0 || got[len(got)-1] != reply.Addresses[0]) {
				got = append(got, reply.Addresses[0])
			}
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
	return func() []netip.Addr {
		cancel()
		wg.Wait()
		return got
	}
}

// P-2, I1b: a leader that was stopped while the others moved on answers nothing
// older than what it answered before, and follows.
func TestStoppedLeaderNeverGoesBack(t *testing.T) {
	in := install(t, failover)
	sick := in.leader()
	others := in.others(sick)
	var sequences []func() []netip.Addr
	for _, n := range in.nodes {
		sequences = append(sequences, in.sequence(n))
	}
	in.watch.away(sick.name)
	in.cut(sick)
	sick.signal(syscall.SIGSTOP)
	stopped := time.Now()
	in.sites["eu"].down()
	in.moved(others, "us")
	fmt.Printf("MEASURED %-38s leader stopped and site lost, to answers that leave it out: %s\n", t.Name(), time.Since(stopped).Round(time.Millisecond))
	eventually(t, settle, "the stop ends", func(context.Context) error {
		if left := 5*time.Second - time.Since(stopped); left > 0 {
			return fmt.Errorf("%s left", left)
		}
		return nil
	})
	sick.signal(syscall.SIGCONT)
	in.answering(sick)
	in.caughtUp(sick)
	in.moved(in.nodes, "us")
	pause(t, 2*time.Second)
	want := []netip.Addr{in.sites["eu"].addr, in.sites["us"].addr}
	for i, n := range in.nodes {
		require.Equal(t, want, sequences[i](), "what %s answered, in order", n.name)
	}
	in.writeThrough(sick, settle)
}
