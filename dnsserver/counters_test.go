package dnsserver

import (
	"fmt"
	"maps"
	"sync"
	"testing"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/routing"
)

// sumOf is what all shards together counted of a series.
func sumOf(c *counters, n series) uint64 {
	_, values := c.sums()
	return values[n]
}

func TestAScrapeSumsWhatAllWorkersCounted(t *testing.T) {
	const workers, rounds = 4, 3000 // enough series to grow past several chunks
	var c counters
	common := c.outcome("gslb.test.", "A", UDP, false, 0)
	var writing, reading sync.WaitGroup
	done := make(chan struct{})
	reading.Go(func() {
		last := uint64(0)
		for {
			now := sumOf(&c, common)
			if now < last {
				t.Errorf("a counter went back from %d to %d", last, now)
			}
			last = now
			select {
			case <-done:
				return
			default:
			}
		}
	})
	for w := range workers {
		writing.Go(func() {
			sh := c.shard()
			for i := range rounds {
				sh.add(common)
				sh.add(c.answer(fmt.Sprint("service-", i), fmt.Sprint("cluster-", w%2)))
			}
		})
	}
	writing.Wait()
	close(done)
	reading.Wait()
	require.EqualValues(t, workers*rounds, sumOf(&c, common))
	known, values := c.sums()
	require.Len(t, known, 1+2*rounds, "each combination has one number")
	for i, k := range known[1:] {
		require.EqualValues(t, workers/2, values[i+1], "%+v", k)
	}
}

func TestManyGoroutinesMayShareAShard(t *testing.T) {
	var c counters
	n, sh := c.ecs("gslb.test."), c.shard()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 10_000 {
				sh.add(n)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 40_000, sumOf(&c, n))
}

func TestARunLosesNothing(t *testing.T) {
	var c counters
	a, b := c.ecs("a."), c.ecs("b.")
	r := run{shard: c.shard()}
	for _, n := range []series{b, b, a, b, a, a} {
		r.add(n)
	}
	require.EqualValues(t, 1, sumOf(&c, a))
	require.EqualValues(t, 3, sumOf(&c, b))
	r.flush()
	r.flush()
	require.EqualValues(t, 3, sumOf(&c, a))
}

func TestCountingAllocatesNothing(t *testing.T) {
	var c counters
	sh := c.shard()
	var all []series
	for i := range 3 * chunkCells {
		all = append(all, c.answer("web", fmt.Sprint(i)))
	}
	service := c.service("web")
	at := 0
	require.Zero(t, testing.AllocsPerRun(10_000, func() {
		sh.add(all[at%len(all)])
		at += 7
		if i, weight := sh.due(1); i >= 0 {
			sh.saw(weight, service, prefixOf(at))
		}
	}))
}

func TestNumbersOutliveWhatTheyWereGivenFor(t *testing.T) {
	var c counters
	numbers := map[string]series{}
	for i := range 2 * chunkCells {
		numbers[fmt.Sprint(i)] = c.answer("web", fmt.Sprint(i))
	}
	again := map[string]series{}
	for name := range numbers {
		again[name] = c.answer("web", name)
	}
	require.True(t, maps.Equal(numbers, again))
	require.NotEqual(t, c.answer("a", "b"), c.limited("a", "b"), "the metric is part of the combination")
	require.NotEqual(t, c.outcome("z.", "A", UDP, false, 0), c.outcome("z.", "A", UDP, true, 0))
	require.NotEqual(t, c.outcome("z.", "A", UDP, false, 0), c.outcome("z.", "A", TCP, false, 0))
}

// scraped are the values of a metric, by its labels as a scrape writes them.
func scraped(t *testing.T, reg *prometheus.Registry, metric string) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	out := map[string]float64{}
	for _, f := range families {
		if f.GetName() != metric {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := ""
			for _, l := range m.GetLabel() {
				labels += l.GetName() + "=" + l.GetValue() + " "
			}
			out[labels] = m.GetCounter().GetValue()
		}
	}
	return out
}

func TestWhatTheTableHasNoMoreIsNotShown(t *testing.T) {
	full := testTable(t)
	table := full
	reg := prometheus.NewPedanticRegistry()
	cfg := testConfig(full)
	cfg.Registerer = reg
	cfg.Table = func() *routing.Table { return table }
	s := New(cfg)
	ask(t, s, newQuery("web.gslb.test.", dns.TypeA), UDP)
	before := scraped(t, reg, "quorate_dns_answers_total")
	require.EqualValues(t, 1, before["cluster=eu service=web "])

	st := *full.State()
	spec := *st.Spec
	spec.Services = maps.Clone(spec.Services)
	delete(spec.Services, "web")
	st.Spec = &spec
	st.Index++
	var err error
	table, err = full.Suppose(&st)
	require.NoError(t, err)
	require.NotContains(t, scraped(t, reg, "quorate_dns_answers_total"), "cluster=eu service=web ")
	require.EqualValues(t, 1, scraped(t, reg, "quorate_dns_queries_total")["family=4 proto=udp qtype=A zone=gslb.test. "], "the zone is still there")

	table = full
	ask(t, s, newQuery("web.gslb.test.", dns.TypeA), UDP)
	require.EqualValues(t, 2, scraped(t, reg, "quorate_dns_answers_total")["cluster=eu service=web "], "it goes on from where it was")
}

func TestAQueryWithoutAnswerIsNoResponse(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	cfg := testConfig(testTable(t))
	cfg.Registerer = reg
	s := New(cfg)
	s.shared.add(s.metrics.counters.outcome("gslb.test.", "A", UDP, false, unanswered))
	s.shared.add(s.metrics.counters.limited("gslb.test.", "drop"))
	require.EqualValues(t, 1, scraped(t, reg, "quorate_dns_queries_total")["family=4 proto=udp qtype=A zone=gslb.test. "])
	for labels, n := range scraped(t, reg, "quorate_dns_responses_total") {
		require.Zero(t, n, labels)
	}
	require.EqualValues(t, 1, scraped(t, reg, "quorate_dns_rate_limited_total")["action=drop zone=gslb.test. "])
	problems, err := testutil.GatherAndLint(reg)
	require.NoError(t, err)
	require.Empty(t, problems)
}

func BenchmarkCount(b *testing.B) {
	var c counters
	outcome, answer := c.outcome("gslb.test.", "A", UDP, false, 0), c.answer("web", "eu")
	b.RunParallel(func(pb *testing.PB) {
		sh := c.shard()
		outcomes := run{shard: sh}
		for i := 0; pb.Next(); i++ {
			if i%32 == 0 { // a batch
				outcomes.flush()
				sh.due(32)
			}
			outcomes.add(outcome)
			sh.add(answer)
		}
	})
}
