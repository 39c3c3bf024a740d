package dnsserver

import (
	"slices"
	"sync"
	"sync/atomic"
)

// series is one combination of labels that is counted, by a number that the registry
// gave it for good.
type series uint32

// unanswered stands for the response code of a query that gets no response.
const unanswered = 1<<16 - 1

// chunkCells is how many counters a shard grows by: 4 KiB, which the allocator aligns
// so that no two shards share a cache line.
const chunkCells = 512

type chunk [chunkCells]atomic.Uint64

// shard is one worker's counters. Each worker that answers has its own, so that no two
// cores write to one cache line; a scrape sums them all. More than one goroutine may
// add to a shard (those of TCP by package net do): nothing is lost, they are only slower.
type shard struct {
	chunks atomic.Pointer[[]*chunk] // replaced by a longer list, never shortened
	sampler
}

// add counts one. It takes no lock and allocates nothing: the registry has grown every
// shard before anyone learns the number of a series.
func (sh *shard) add(n series) { sh.addTimes(n, 1) }

func (sh *shard) addTimes(n series, times uint64) {
	(*sh.chunks.Load())[n/chunkCells][n%chunkCells].Add(times)
}

// run adds up what one goroutine counts of one series in a row, which is cheaper than
// an atomic addition each: nearly all queries of a batch are of the same outcome. What
// it holds is seen once flush was called, after each batch.
type run struct {
	shard *shard
	n     series
	times uint64
}

func (r *run) add(n series) {
	if n != r.n {
		r.flush()
		r.n = n
	}
	r.times++
}

func (r *run) flush() {
	if r.times > 0 {
		r.shard.addTimes(r.n, r.times)
		r.times = 0
	}
}

// grow makes room for n series.
func (sh *shard) grow(n int) {
	var have []*chunk
	if p := sh.chunks.Load(); p != nil {
		have = *p
	}
	for len(have)*chunkCells < n {
		have = append(have[:len(have):len(have)], new(chunk))
	}
	sh.chunks.Store(&have)
}

// value is what was counted of a series.
func (sh *shard) value(n series) uint64 {
	chunks := *sh.chunks.Load()
	if at := int(n / chunkCells); at < len(chunks) {
		return chunks[at][n%chunkCells].Load()
	}
	return 0
}

// what is counted: which metric, or metrics, a series belongs to.
type what uint8

const (
	countedOutcome   what = iota // queries_total and responses_total
	countedAnswer                // answers_total
	countedECS                   // ecs_queries_total
	countedTruncated             // truncated_total
	countedLimited               // rate_limited_total
	countedDropped               // dropped_total
	countedService               // none: the number stands for a service
)

// combination is a combination of labels.
type combination struct {
	a, b   string // zone and type; service and cluster; zone; zone and action
	rcode  uint16
	what   what
	proto  Proto
	family byte // '4' or '6'
}

// counters numbers the combinations and owns the shards. A number is for good: it
// outlives the zone, service or cluster that it was given for, so that one that comes
// back goes on counting where it stopped.
type counters struct {
	numbers sync.Map // combination -> series; read without a lock

	mu     sync.Mutex    // guards what follows
	known  []combination // by series; only ever appended to
	shards []*shard
}

// shard makes a worker's shard. It is never given back: workers live as long as the
// server.
func (c *counters) shard() *shard {
	c.mu.Lock()
	defer c.mu.Unlock()
	sh := &shard{sampler: sampler{seen: newSketch(workerSketch)}}
	sh.grow(max(1, len(c.known)))
	c.shards = append(c.shards, sh)
	return sh
}

// number returns the series of a combination, a new one if it is new. It takes a lock
// only then.
func (c *counters) number(k combination) series {
	if n, ok := c.numbers.Load(k); ok {
		return n.(series)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n, ok := c.numbers.Load(k); ok {
		return n.(series)
	}
	n := series(len(c.known))
	c.known = append(c.known, k)
	for _, sh := range c.shards {
		sh.grow(len(c.known))
	}
	c.numbers.Store(k, n)
	return n
}

// outcome is a query of a zone ("none": nobody's) and the response code it got. qtype
// is a label, of qtypeLabel; v6 says which family it came by; rcode may be unanswered.
func (c *counters) outcome(zone, qtype string, proto Proto, v6 bool, rcode int) series {
	family := byte('4')
	if v6 {
		family = '6'
	}
	return c.number(combination{what: countedOutcome, a: zone, b: qtype, proto: proto, family: family, rcode: uint16(rcode)})
}

// answer is an answer of a service that names a cluster. One that names several is
// counted for each.
func (c *counters) answer(service, cluster string) series {
	return c.number(combination{what: countedAnswer, a: service, b: cluster})
}

// ecs is a query that named its client's subnet.
func (c *counters) ecs(zone string) series { return c.number(combination{what: countedECS, a: zone}) }

// truncated is an answer that was too long for UDP.
func (c *counters) truncated(zone string) series {
	return c.number(combination{what: countedTruncated, a: zone})
}

// dropped is a packet that is no query: reason is "short" or "response".
func (c *counters) dropped(reason string) series {
	return c.number(combination{what: countedDropped, a: reason})
}

// limited is a query over its client's rate: action is what was done, "drop", "slip"
// or "log".
func (c *counters) limited(zone, action string) series {
	return c.number(combination{what: countedLimited, a: zone, b: action})
}

// service is the number of a service: sightings are stored with it.
func (c *counters) service(name string) series {
	return c.number(combination{what: countedService, a: name})
}

// nameOf is the service that a number stands for.
func (c *counters) nameOf(service series) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known[service].a
}

// workers are the shards there are.
func (c *counters) workers() []*shard {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.shards)
}

// sums adds up all shards: every combination known, with its value. Nobody who counts
// waits for it.
func (c *counters) sums() ([]combination, []uint64) {
	c.mu.Lock()
	known := c.known[:len(c.known):len(c.known)]
	c.mu.Unlock()
	values := make([]uint64, len(known))
	for _, sh := range c.workers() {
		for i := range values {
			values[i] += sh.value(series(i))
		}
	}
	return known, values
}
