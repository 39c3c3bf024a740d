package dnsserver

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// sampleEvery is how many queries one sample stands for when there are many: what a
	// sample costs is then nothing beside them.
	sampleEvery = 64
	// samplesWhole is how many queries a minute each worker samples one by one before it
	// samples every 64th: a quiet server knows all its clients.
	samplesWhole = 1024
	// samplePeriod is how often samplesWhole starts anew.
	samplePeriod = int64(time.Minute)
	// workerSketch is how many networks of services a worker remembers until they are
	// gathered: whoever makes more than a 256th of its queries is among them.
	workerSketch = 256
)

// tookBounds are the upper bounds of the histogram's buckets: 250 ns, and four times
// more each, to 262 ms.
var tookBounds = func() (bounds [11]time.Duration) {
	for i := range bounds {
		bounds[i] = 250 * time.Nanosecond << (2 * i)
	}
	return bounds
}()

// histogram counts how long queries took, in cells of one worker.
type histogram struct {
	cells [len(tookBounds) + 1]atomic.Uint64 // the last: longer than all bounds
	sum   atomic.Uint64                      // nanoseconds
}

// sampler picks some of a worker's queries, to be timed and to have their clients
// looked at. Each stands for as many as its weight says: the weights add up to all
// queries that came. Distances vary, so that clients who ask in turns are not always
// met at the same one.
type sampler struct {
	came atomic.Uint64 // queries
	next atomic.Uint64 // number of the query to sample
	from atomic.Uint64 // number of the first query that no sample stands for yet

	period atomic.Int64 // which samplePeriod it is
	whole  atomic.Int64 // samples in it

	took [2]histogram // by Proto

	mu     sync.Mutex // guards seen; a worker never waits for it
	seen   *sketch    // clients since it was last taken
	missed atomic.Uint64
}

// due is told that n queries came and returns which of them to sample, from 0, and how
// many queries it stands for; -1 is none. Usually it is one atomic addition.
func (sm *sampler) due(n int) (at int, weight uint32) {
	end := sm.came.Add(uint64(n))
	next := sm.next.Load()
	if next >= end {
		return -1, 0
	}
	begin := end - uint64(n)
	picked := max(next, begin)
	if !sm.next.CompareAndSwap(next, max(picked+sm.distance(picked), end)) {
		return -1, 0 // another connection's goroutine has it
	}
	weight = 1
	if from := sm.from.Swap(picked + 1); picked > from {
		weight = uint32(min(picked+1-from, 1<<20)) // far above any distance
	}
	return int(picked - begin), weight
}

// distance is how far the next sample is: 1, or 64 on average.
func (sm *sampler) distance(picked uint64) uint64 {
	if sm.whole.Load() < samplesWhole {
		return 1
	}
	return 1 + mix(picked)%(2*sampleEvery-1)
}

// timed records how long a sampled query took.
func (sm *sampler) timed(weight uint32, proto Proto, start time.Time) {
	took := time.Since(start)
	h, at := &sm.took[proto], 0
	for at < len(tookBounds) && took > tookBounds[at] {
		at++
	}
	h.cells[at].Add(uint64(weight))
	h.sum.Add(uint64(weight) * uint64(max(0, took)))
	if period := start.Unix() * int64(time.Second) / samplePeriod; sm.period.Swap(period) != period {
		sm.whole.Store(0)
	}
	sm.whole.Add(1)
}

// saw records whose query a sampled one was: service is a number of counters.service,
// client is its address or, where it came with ECS, its subnet.
func (sm *sampler) saw(weight uint32, service series, client netip.Prefix) {
	if !sm.mu.TryLock() {
		sm.missed.Add(uint64(weight)) // it is being read, for an instant
		return
	}
	defer sm.mu.Unlock()
	sm.seen.partly = sm.seen.partly || weight > 1
	sm.seen.add(sighting{packNetwork(client), service}, uint64(weight))
}

// take returns the clients seen since it was last called, and leaves an empty sketch
// in their place: the worker misses no more than a sample.
func (sm *sampler) take(empty *sketch) *sketch {
	sm.mu.Lock()
	defer sm.mu.Unlock()
	seen := sm.seen
	sm.seen = empty
	return seen
}

// mix is splitmix64's step: bits that look random from a counter.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
