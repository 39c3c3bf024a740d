package dnssec

import (
	"crypto/sha256"
	"sync"
	"sync/atomic"

	"github.com/miekg/dns"
)

// digestSize is the length of what names a signature: a digest of all it depends
// on. A short hash would let somebody look for two names that share one.
const digestSize = sha256.Size

// shards is how many locks the cache has.
const shards = 64

// entry is a signature. Only used and renewing change.
type entry struct {
	span
	zone string
	sig  *dns.RRSIG

	used     atomic.Int64 // Unix seconds
	renewing atomic.Bool
}

// cache keeps signatures, at most about its size of them: each shard has a young and
// an old generation, and when the young one is full it becomes the old one, whose
// entries are forgotten unless they were used meanwhile.
type cache struct {
	limit  int // of a generation of a shard
	shards [shards]shard
}

type shard struct {
	mu         sync.Mutex // guards all below
	young, old map[[digestSize]byte]*entry
	flights    map[[digestSize]byte]*flight
}

// flight is a signature being made. e and err are set before done is closed.
type flight struct {
	done chan struct{}
	e    *entry
	err  error
}

func newCache(size int) *cache {
	return &cache{limit: max(1, size/shards/2)}
}

func (c *cache) shard(id *[digestSize]byte) *shard { return &c.shards[id[digestSize-1]%shards] }

// get returns the entry or nil.
func (c *cache) get(id *[digestSize]byte) *entry {
	s := c.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.getLocked(id, c.limit)
}

func (s *shard) getLocked(id *[digestSize]byte, limit int) *entry {
	if e := s.young[*id]; e != nil {
		return e
	}
	e := s.old[*id]
	if e != nil {
		s.putLocked(id, e, limit)
	}
	return e
}

func (s *shard) putLocked(id *[digestSize]byte, e *entry, limit int) {
	if len(s.young) >= limit {
		s.old, s.young = s.young, nil
	}
	if s.young == nil {
		s.young = map[[digestSize]byte]*entry{}
	}
	s.young[*id] = e
	delete(s.old, *id)
}

// put replaces an entry.
func (c *cache) put(id *[digestSize]byte, e *entry) {
	s := c.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.putLocked(id, e, c.limit)
}

// join returns the flight of an id, and whether the caller is the one to fly it: it
// calls land then. An entry that came meanwhile is returned instead.
func (c *cache) join(id *[digestSize]byte, good func(*entry) bool) (f *flight, first bool, e *entry) {
	s := c.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.getLocked(id, c.limit); e != nil && good(e) {
		return nil, false, e
	}
	if f := s.flights[*id]; f != nil {
		return f, false, nil
	}
	f = &flight{done: make(chan struct{})}
	if s.flights == nil {
		s.flights = map[[digestSize]byte]*flight{}
	}
	s.flights[*id] = f
	return f, true, nil
}

// land ends a flight. With neither entry nor error it ended in a panic.
func (c *cache) land(id *[digestSize]byte, f *flight) {
	s := c.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.flights, *id)
	switch {
	case f.e != nil:
		s.putLocked(id, f.e, c.limit)
	case f.err == nil:
		f.err = errPanicked
	}
	close(f.done)
}

// each calls f for every entry.
func (c *cache) each(f func(*entry)) {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		for _, e := range s.young {
			f(e)
		}
		for _, e := range s.old {
			f(e)
		}
		s.mu.Unlock()
	}
}
