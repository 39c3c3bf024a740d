package dnsserver

import (
	"encoding/binary"
	"hash/maphash"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"
)

// RateLimit bounds the answers over UDP to one client network, a /24 or a /56, since
// whoever asks may have forged its address. Clients over TCP and with a valid cookie
// have shown theirs and are never limited. The zero value limits nothing.
type RateLimit struct {
	// PerSecond is how many answers of one kind a network gets: of one name and type,
	// NODATA of one name, NXDOMAIN of one zone, errors of any. It gets allKinds times
	// as many in all. As much as one second's may come at once. 0: no limit.
	PerSecond int

	Slip    int            // every Slip-th answer above it is sent truncated, the others not at all; 0: none is
	Exempt  []netip.Prefix // networks that are not limited
	LogOnly bool           // count what would not be answered, and answer it
}

// allKinds is how many kinds' worth of answers a network gets in all: what bounds
// somebody who asks for many names. A large resolver asks for many, but with a
// cookie.
const allKinds = 10

// category is the kind of an answer, as far as limiting goes: what an attacker can
// repeat without end is one kind.
type category uint8

// The categories.
const (
	limitAnswer   category = iota // by owner of the records (a wildcard, not what it stands for) and type; a referral by its cut
	limitNoData                   // by name
	limitNXDomain                 // by zone
	limitError                    // all together
)

// verdict is what becomes of an answer.
type verdict uint8

// The verdicts.
const (
	limitPass verdict = iota
	limitDrop         // send nothing
	limitSlip         // send it without records and with TC: a client that is there asks over TCP
	limitNote         // pass, and count that it would not (RateLimit.LogOnly)
)

// limiter holds what networks have had. Any number of goroutines share one, without
// a lock, and it allocates nothing after it was made.
type limiter struct {
	rule  RateLimit
	seed  maphash.Seed // nobody can know whom they share a bucket with
	kinds *buckets     // of a network and a kind
	all   *buckets     // of a network
}

// Limit bounds the answers from now on by another rule. What networks have had is
// forgotten, unless the rule is the same.
func (s *Server) Limit(rule RateLimit) {
	if old := s.limit.Load(); old != nil && old.rule.same(rule) {
		return
	}
	s.limit.Store(newLimiter(rule))
}

func (r RateLimit) same(o RateLimit) bool {
	return r.PerSecond == o.PerSecond && r.Slip == o.Slip && r.LogOnly == o.LogOnly && slices.Equal(r.Exempt, o.Exempt)
}

// clock is the time since the server was made, for the limiter.
func (s *Server) clock() time.Duration { return time.Since(s.made) }

// newLimiter returns nil for a rule that limits nothing. A nil limiter passes all.
func newLimiter(rule RateLimit) *limiter {
	if rule.PerSecond <= 0 {
		return nil
	}
	return &limiter{
		rule:  rule,
		seed:  maphash.MakeSeed(),
		kinds: newBuckets(kindSets, rule.PerSecond, rule.Slip),
		all:   newBuckets(networkSets, rule.PerSecond*allKinds, rule.Slip),
	}
}

// take counts an answer over UDP to a client without a valid cookie, and says whether
// it is sent. The name is hashName's of what the category goes by, 0 for errors; now
// is Server.clock's.
func (l *limiter) take(client netip.Addr, name uint64, qtype uint16, c category, now time.Duration) verdict {
	if l == nil {
		return limitPass
	}
	var key [19]byte // network, name, type, category
	networkKey(key[:8], client)
	if l.exempt(client) {
		return limitPass
	}
	network := maphash.Bytes(l.seed, key[:8])
	switch c {
	case limitError:
		name, qtype = 0, 0
	case limitNoData, limitNXDomain:
		qtype = 0
	}
	binary.LittleEndian.PutUint64(key[8:], name)
	binary.LittleEndian.PutUint16(key[16:], qtype)
	key[18] = byte(c)
	v := l.kinds.take(maphash.Bytes(l.seed, key[:]), now)
	if v == limitPass {
		v = l.all.take(network, now)
	}
	if v != limitPass && l.rule.LogOnly {
		return limitNote
	}
	return v
}

// hashName hashes a name in wire format, whatever its case. It is the same for both
// paths, so that both count in one bucket.
func (l *limiter) hashName(wire []byte) uint64 {
	if l == nil {
		return 0
	}
	var lower [maxName]byte
	n := copy(lower[:], wire)
	for i, b := range lower[:n] {
		if 'A' <= b && b <= 'Z' {
			lower[i] = b + ('a' - 'A') // no length octet is in that range (RFC 1035 2.3.4)
		}
	}
	return maphash.Bytes(l.seed, lower[:n])
}

func (l *limiter) exempt(client netip.Addr) bool {
	for _, p := range l.rule.Exempt {
		if p.Contains(client.Unmap().WithZone("")) {
			return true
		}
	}
	return false
}

// networkKey writes what counts as one client: a /24 or a /56, told apart by the
// last octet.
func networkKey(key []byte, client netip.Addr) {
	if client = client.Unmap(); client.Is4() {
		a := client.As4()
		copy(key, a[:3])
		key[7] = 4
		return
	}
	a := client.As16()
	copy(key, a[:7])
	key[7] = 6
}

const (
	ways        = 8       // buckets of a set: a cache line
	kindSets    = 1 << 13 // 512 KiB
	networkSets = 1 << 12 // 256 KiB

	// A bucket is one word: 20 bits that tell keys of a set apart, 7 bits that count
	// answers not sent since the last that slipped, and until when the tokens are
	// taken, in tokens since the start modulo 2^37: 38 hours at the highest rate.
	untilBits = 37
	untilMask = 1<<untilBits - 1
	slipBits  = 7
	slipMask  = 1<<slipBits - 1
	tagShift  = untilBits + slipBits
)

// buckets are token buckets in a table of fixed size. Where a set is full, the key
// that comes takes over the bucket that is emptied least, with what was taken from
// it: no key ever gets more than its rate, however many others there are, and one
// gets less only in a set full of others that are near their limit.
type buckets struct {
	rate, burst uint64 // tokens a second, and tokens at most
	slip        uint64
	mask        uint64
	sets        [][ways]atomic.Uint64
}

func newBuckets(sets, rate, slip int) *buckets {
	return &buckets{
		rate: uint64(rate), burst: uint64(rate), slip: uint64(max(0, min(slip, slipMask))),
		mask: uint64(sets - 1), sets: make([][ways]atomic.Uint64, sets),
	}
}

// take takes a token from the bucket of a key, if one is left.
func (b *buckets) take(key uint64, now time.Duration) verdict {
	set := &b.sets[key&b.mask]
	tag := key >> tagShift
	tokens := b.tokens(now)
	for {
		at, word := choose(set, tag, tokens, b.burst)
		taken := missing(word, tokens, b.burst)
		slips := word >> untilBits & slipMask
		if word>>tagShift != tag {
			slips = 0
		}
		v, until := limitDrop, word&untilMask
		switch {
		case taken < b.burst:
			v, until = limitPass, (tokens+taken+1)&untilMask
		case b.slip == 0:
			return limitDrop
		case slips+1 >= b.slip:
			v, slips = limitSlip, 0
		default:
			slips++
		}
		if at.CompareAndSwap(word, tag<<tagShift|slips<<untilBits|until) {
			return v
		}
	}
}

// tokens is how many tokens any bucket has been given since the start.
func (b *buckets) tokens(now time.Duration) uint64 {
	s, rest := uint64(now/time.Second), uint64(now%time.Second)
	return s*b.rate + rest*b.rate/uint64(time.Second)
}

// missing is how many tokens a bucket lacks. Callers' clocks differ a little, so a
// bucket may look emptier than it can be; what is out of range was taken long ago. One
// that nobody has used lacks nothing, wherever the tokens begin anew.
func missing(word, tokens, burst uint64) uint64 {
	if n := (word - tokens) & untilMask; word != 0 && n <= 2*burst {
		return min(n, burst)
	}
	return 0
}

// choose finds the bucket of a tag in its set, or the one to take over.
func choose(set *[ways]atomic.Uint64, tag, tokens, burst uint64) (*atomic.Uint64, uint64) {
	var at *atomic.Uint64
	var word uint64
	least := uint64(1) << 63
	for i := range set {
		w := set[i].Load()
		if w>>tagShift == tag {
			return &set[i], w
		}
		if n := missing(w, tokens, burst); n < least {
			at, word, least = &set[i], w, n
		}
	}
	return at, word
}
