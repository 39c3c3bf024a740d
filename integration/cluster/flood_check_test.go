//go:build integration

package cluster

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Each thing that a flood must not do is planted once, and must be found.
func TestTheFloodChecksFindPlantedFaults(t *testing.T) {
	right, other := netip.MustParseAddr("10.77.0.21"), netip.MustParseAddr("10.77.0.22")
	w := newWorld(t)
	server, clientHost := w.addHost("liar", "10.77.0.11"), w.addHost("client", "10.77.0.100")
	l := newLiar(t, server)
	addr := netip.AddrPortFrom(server.addr, dnsPort).String()
	l.answer.Store(&right)
	eventually(t, settle, "the new network carries packets", func(ctx context.Context) error {
		_, err := askFrom(ctx, clientHost, addr, 100*time.Millisecond)
		return err
	})
	tests := []struct {
		name  string
		plant func()
		want  string // part of what is found; empty: nothing is
	}{
		{"right answers in time pass", func() {}, ""},
		{"late answers", func() { l.late.Store(int64(60 * time.Millisecond)) }, "99th percentile"},
		{"lost answers", func() { l.loses.Store(100) }, "have no answer"},
		{"wrong answers", func() { l.answer.Store(&other) }, "answers &{"},
		{"empty answers", func() { l.answer.Store(nil) }, "with 0 records"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l.answer.Store(&right)
			l.late.Store(0)
			l.loses.Store(0)
			tt.plant()
			c := askLegally(t, clientHost, "liar", addr, legalRate, right)
			pause(t, legalWindow+200*time.Millisecond)
			_, found := c.judge()
			if tt.want == "" {
				require.Empty(t, found)
				return
			}
			require.Contains(t, strings.Join(found, "; "), tt.want)
		})
	}
}

func TestThePulseChecksFindPlantedFaults(t *testing.T) {
	before := pulse{probes: 100, applied: 50, leaders: 2, rotation: 3, up: 3}
	tests := []struct {
		name  string
		after pulse
		want  string
	}{
		{"all goes on", pulse{probes: 160, applied: 60, leaders: 2, rotation: 3, up: 3}, ""},
		{"probes stand still", pulse{probes: 110, applied: 60, leaders: 2, rotation: 3, up: 3}, "completed 10 probes"},
		{"nothing is applied", pulse{probes: 160, applied: 50, leaders: 2, rotation: 3, up: 3}, "applied 0 entries"},
		{"another leader", pulse{probes: 160, applied: 60, leaders: 3, rotation: 3, up: 3}, "another leader"},
		{"another rotation", pulse{probes: 160, applied: 60, leaders: 2, rotation: 4, up: 3}, "a false verdict"},
		{"a target down", pulse{probes: 160, applied: 60, leaders: 2, rotation: 3, up: 2}, "a false verdict"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			found := beats("eu-1", before, tt.after, 10*time.Second, 10)
			if tt.want == "" {
				require.Empty(t, found)
				return
			}
			require.Len(t, found, 1)
			require.Contains(t, found[0], tt.want)
		})
	}
}

func TestMemoryAboveTheLimitIsFound(t *testing.T) {
	held, err := peak(os.Getpid())
	require.NoError(t, err)
	require.Greater(t, held, 1<<20)
	require.Empty(t, withinMemory("eu-1", memoryLimit))
	require.NotEmpty(t, withinMemory("eu-1", memoryLimit+1))
}

func TestMetricsAreSummedOverTheirLabels(t *testing.T) {
	text := "# HELP a_total x\na_total{b=\"c d\"} 2\na_total{b=\"e\"} 3.5\na_total_more 7\na 1\n"
	require.InDelta(t, 5.5, sumOf(text, "a_total"), 0)
	require.InDelta(t, 1, sumOf(text, "a"), 0)
	require.Zero(t, sumOf(text, "b"))
}

// Packets of the flood are the same for a seed, and do not all look alike.
func TestTheFloodIsVaried(t *testing.T) {
	packets := func(seed uint64) map[string]bool {
		rng, all := rand.New(rand.NewPCG(seed, 1)), map[string]bool{}
		for range 500 {
			all[string(forged(rng, netip.MustParseAddr("10.77.0.11"), malformed(rng, randomQuery(rng))))] = true
		}
		return all
	}
	require.Equal(t, packets(1), packets(1))
	require.NotEqual(t, packets(1), packets(2))
	require.Len(t, packets(1), 500)
}
