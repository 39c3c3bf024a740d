package dnssec

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
)

// ErrBusy says that the budget of signatures is used up: the answer is refused
// rather than that all others wait.
var ErrBusy = errors.New("no more signatures now")

var errPanicked = errors.New("making the signature panicked")

// Origin says whose choice an owner's name is, and with it how many signatures there
// can be.
type Origin uint8

// The origins. Each has its own cache and its own budget: questions that somebody
// makes up never cost the zone's own names theirs.
const (
	Own  Origin = iota // the name is in the zone
	Made               // the client made it up: a denial, or what a wildcard gave
	origins
)

// Limits bound what signing costs. A zero value takes the default.
type Limits struct {
	Signers   int // at once; default: one a CPU
	PerSecond int // signatures of made-up names; of own names four times that. Default: 2,500 a CPU
	Kept      int // signatures of own names; of made-up ones a quarter. Default: 65,536
}

// Defaults of Limits. A signature takes some 40 microseconds, so made-up names take
// a tenth of each CPU at most.
const (
	defaultPerSecond = 2_500
	defaultKept      = 65_536
)

// Signer makes signatures and keeps them. Its methods may be called from anywhere.
type Signer struct {
	lanes [origins]lane
	slots chan struct{}
}

type lane struct {
	cache  *cache
	budget *budget

	made, refused atomic.Uint64
}

// NewSigner returns a signer with nothing kept.
func NewSigner(l Limits) *Signer {
	cpus := runtime.GOMAXPROCS(0)
	if l.Signers == 0 {
		l.Signers = cpus
	}
	if l.PerSecond == 0 {
		l.PerSecond = defaultPerSecond * cpus
	}
	if l.Kept == 0 {
		l.Kept = defaultKept
	}
	s := &Signer{slots: make(chan struct{}, l.Signers)}
	// The zone's own names may come all at once: after a start, or a roll.
	s.lanes[Own] = lane{cache: newCache(l.Kept), budget: newBudget(4*l.PerSecond, 4*l.PerSecond)}
	s.lanes[Made] = lane{cache: newCache(l.Kept / 4), budget: newBudget(l.PerSecond, max(1, l.PerSecond/10))}
	return s
}

// Signature is the RRSIG of a set and how long it is the one to use.
type Signature struct {
	RRSIG *dns.RRSIG // shared: copy it to change it
	From  time.Time  // it is not valid before: a clock that is set back may get there
	Until time.Time  // a newer one is made from then on
}

// Sign returns the signatures of a set by each key that signs its type. They are
// made now or were kept; ErrBusy: they would have had to be made.
func (s *Signer) Sign(now time.Time, z *Zone, set Set, origin Origin) ([]Signature, error) {
	if z.Err != nil {
		return nil, z.Err
	}
	keys := z.signers(set.Type)
	list := make([]Signature, 0, len(keys))
	content := digestOf(set)
	for i := range keys {
		e, err := s.one(now, z, &keys[i], set, content, origin)
		if err != nil {
			return nil, err
		}
		list = append(list, Signature{e.sig, time.Unix(e.inception, 0), time.Unix(e.next, 0)})
	}
	return list, nil
}

func (s *Signer) one(now time.Time, z *Zone, key *signing, set Set, content [digestSize]byte, origin Origin) (*entry, error) {
	id := key.id(content)
	seconds, l := now.Unix(), &s.lanes[origin]
	e := l.cache.get(&id)
	switch {
	case e == nil || !e.good(seconds):
		return s.wait(now, z, key, set, &id, l)
	case e.current(seconds):
	case e.renewing.CompareAndSwap(false, true):
		// It is good still: who finds it makes the next one, if there is budget for it,
		// and all others go on with this one.
		defer e.renewing.Store(false)
		if l.budget.take(now.UnixNano()) {
			next, err := s.make(now, z, key, set, &id, l)
			if err != nil {
				return nil, err
			}
			l.cache.put(&id, next)
			e = next
		}
	}
	e.used.Store(seconds)
	return e, nil
}

// wait makes a signature that nothing can stand in for, or waits for who makes it.
func (s *Signer) wait(now time.Time, z *Zone, key *signing, set Set, id *[digestSize]byte, l *lane) (*entry, error) {
	seconds := now.Unix()
	f, first, e := l.cache.join(id, func(e *entry) bool { return e.good(seconds) })
	switch {
	case e != nil:
		e.used.Store(seconds)
		return e, nil
	case !first:
		<-f.done
		return f.e, f.err
	}
	defer l.cache.land(id, f)
	if !l.budget.take(now.UnixNano()) {
		l.refused.Add(1)
		f.err = ErrBusy
		return nil, ErrBusy
	}
	f.e, f.err = s.make(now, z, key, set, id, l)
	return f.e, f.err
}

// make makes a signature (RFC 4034 3.1, 6).
func (s *Signer) make(now time.Time, z *Zone, key *signing, set Set, id *[digestSize]byte, l *lane) (*entry, error) {
	s.slots <- struct{}{}
	defer func() { <-s.slots }()
	e := &entry{span: z.windows.at(id, now.Unix()), zone: z.Name}
	e.used.Store(now.Unix())
	e.sig = &dns.RRSIG{
		Hdr:       dns.RR_Header{Ttl: set.TTL},
		Algorithm: key.key.algorithm, KeyTag: key.tag, SignerName: z.Name,
		Inception: uint32(e.inception), Expiration: uint32(e.expiration), OrigTtl: set.TTL,
	}
	if err := e.sig.Sign(deterministic{key.key.signer}, set.Records(set.Owner)); err != nil {
		return nil, fmt.Errorf("sign %s of %s: %w", dns.Type(set.Type), set.Owner, err)
	}
	l.made.Add(1)
	return e, nil
}

// digestOf digests a set whatever the order of its records is: it is part of no
// signature (RFC 4034 6.3).
func digestOf(set Set) [digestSize]byte {
	var space [1024]byte
	b := append(space[:0], set.Owner...)
	b = append(b, 0)
	b = binary.BigEndian.AppendUint16(b, set.Type)
	b = binary.BigEndian.AppendUint32(b, set.TTL)
	rdata := set.Rdata
	if len(rdata) > 1 && !slices.IsSortedFunc(rdata, bytes.Compare) {
		rdata = slices.Clone(rdata)
		slices.SortFunc(rdata, bytes.Compare)
	}
	for _, r := range rdata {
		b = binary.BigEndian.AppendUint16(b, uint16(len(r)))
		b = append(b, r...)
	}
	return sha256.Sum256(b)
}

// id names the signature of a set by a key.
func (k *signing) id(content [digestSize]byte) [digestSize]byte {
	var b [2 * digestSize]byte
	copy(b[:], k.prefix[:])
	copy(b[digestSize:], content[:])
	return sha256.Sum256(b[:])
}

// idle is after how long a signature that nobody asked for does not count as served.
const idle = 600 // seconds

// Earliest returns when the first of the signatures expires that each zone is served
// with, by zone; one that is not asked for is not there.
func (s *Signer) Earliest(now time.Time) map[string]time.Time {
	first, seconds := map[string]int64{}, now.Unix()
	for i := range s.lanes {
		s.lanes[i].cache.each(func(e *entry) {
			if !e.current(seconds) && (seconds-e.used.Load() >= idle || !e.good(seconds)) {
				return
			}
			if have, ok := first[e.zone]; !ok || e.expiration < have {
				first[e.zone] = e.expiration
			}
		})
	}
	at := make(map[string]time.Time, len(first))
	for zone, seconds := range first {
		at[zone] = time.Unix(seconds, 0)
	}
	return at
}

// Counts is what a signer did.
type Counts struct {
	Made    [2]uint64 // signatures, by Origin
	Refused [2]uint64 // for lack of budget, by Origin
}

// Counts returns what the signer did so far.
func (s *Signer) Counts() Counts {
	var c Counts
	for i := range s.lanes {
		c.Made[i], c.Refused[i] = s.lanes[i].made.Load(), s.lanes[i].refused.Load()
	}
	return c
}
