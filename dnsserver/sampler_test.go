package dnsserver

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestTheWeightsOfSamplesAddUpToAllQueries(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var sm sampler
		sm.whole.Store(int64(rapid.SampledFrom([]int{0, samplesWhole}).Draw(rt, "samples before")))
		came, stood := uint64(0), uint64(0)
		for range rapid.IntRange(1, 300).Draw(rt, "batches") {
			n := rapid.IntRange(1, 64).Draw(rt, "queries")
			at, weight := sm.due(n)
			if at >= 0 {
				require.Less(rt, at, n)
				stood += uint64(weight)
				require.Equal(rt, came+uint64(at)+1, stood, "it stands for all since the one before")
			}
			came += uint64(n)
		}
		require.LessOrEqual(rt, came-stood, uint64(2*sampleEvery+64))
	})
}

func TestABusyWorkerSamplesEvery64th(t *testing.T) {
	var sm sampler
	sm.whole.Store(samplesWhole)
	samples, places := 0, map[uint64]int{}
	const queries = 1 << 20
	for i := range queries {
		if at, _ := sm.due(1); at == 0 {
			samples++
			places[uint64(i)%16]++
		}
	}
	require.InEpsilon(t, queries/sampleEvery, samples, 0.05)
	for at, n := range places {
		require.InEpsilon(t, samples/16, n, 0.15, "one in sixteen clients who ask in turns: %d", at)
	}
}

func TestAQuietWorkerSamplesAllEachMinuteAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sm := sampler{seen: newSketch(4)}
		sampled := func(queries int) (n int) {
			for range queries {
				if at, weight := sm.due(1); at == 0 {
					n++
					sm.timed(weight, UDP, time.Now())
				}
			}
			return n
		}
		require.Equal(t, samplesWhole, sampled(samplesWhole))
		require.InDelta(t, 100, sampled(100*sampleEvery), 40, "then every 64th")
		time.Sleep(time.Minute)
		sampled(4 * sampleEvery) // the next one to be sampled notices, for the one after it
		require.Equal(t, 500, sampled(500))
	})
}

func TestTheHistogramStandsForAllQueries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewPedanticRegistry()
		cfg := testConfig(testTable(t))
		cfg.Registerer = reg
		c := &New(cfg).metrics.counters
		a, b := c.shard(), c.shard()
		start := time.Now()
		time.Sleep(3 * time.Microsecond)
		a.timed(64, UDP, start)
		b.timed(1, UDP, start)
		time.Sleep(time.Second)
		a.timed(10, UDP, start)
		count, sum, buckets := c.took(UDP)
		require.EqualValues(t, 75, count)
		require.InDelta(t, 65*3e-6+10*(1+3e-6), sum, 1e-9)
		require.EqualValues(t, 0, buckets[1e-6])
		require.EqualValues(t, 65, buckets[4e-6])
		require.EqualValues(t, 65, buckets[tookBounds[len(tookBounds)-1].Seconds()])
		count, _, _ = c.took(TCP)
		require.Zero(t, count)
		_, err := reg.Gather()
		require.NoError(t, err)
	})
}

func TestAWorkerNeverWaitsForAReader(t *testing.T) {
	sm := sampler{seen: newSketch(4)}
	sm.mu.Lock()
	sm.saw(64, 1, prefixOf(1)) // would deadlock if it waited
	sm.mu.Unlock()
	require.EqualValues(t, 64, sm.missed.Load())
	sm.saw(1, 1, prefixOf(1))
	require.Equal(t, 1, sm.take(newSketch(4)).n)
}

func TestReadersTakeWhileWorkersSample(t *testing.T) {
	var c counters
	tr, service := newTraffic(&c, time.Now()), c.service("web")
	var wg sync.WaitGroup
	for w := range 3 {
		wg.Go(func() {
			sh := c.shard()
			for i := range 20_000 {
				if at, weight := sh.due(1); at == 0 {
					sh.timed(weight, UDP, time.Now())
					sh.saw(weight, service, prefixOf(w))
				}
				_ = i
			}
		})
	}
	wg.Go(func() {
		for range 50 {
			tr.read(time.Now(), 100)
		}
	})
	wg.Wait()
	got := tr.read(time.Now(), 100)
	missed := uint64(0)
	for _, sh := range c.workers() {
		missed += sh.missed.Load()
	}
	require.Len(t, got.Services, 1)
	total := uint64(0)
	for _, n := range got.Services[0].Networks {
		require.LessOrEqual(t, n.Queries, uint64(20_000))
		total += n.Queries
	}
	require.Positive(t, total)
	require.LessOrEqual(t, total+missed, uint64(60_000))
}
