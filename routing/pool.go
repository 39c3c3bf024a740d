package routing

import (
	"math"
	"math/bits"
	"net/netip"
	"slices"
	"sort"

	"github.com/quorate/quorate/statestore"
)

// pool is the prepared answers of one record type.
type pool struct {
	typ      uint16
	fallback bool // no rotation was committed: all candidates stand in (G5)
	family   bool // a candidate has an address of the family

	picks    []pick
	plans    []plan   // at least one
	byGroup  []uint32 // plan by group of the view; nil: all have the one plan
	divided  bool     // and they do not all answer alike
	sticky   bool     // and there is something to choose
	clusters int      // clusters in an answer
	limit    int      // addresses in an answer
}

// pick is one cluster's prepared answer.
type pick struct {
	clusters  []string // one name; empty for a sorry address
	candidate int      // in the view; -1: none any more
	weight    int
	spill     int // percentage of its clients that go on
	seed      uint64
	set       *RRset
	out       bool // in no rotation: it stands in where residency allows none that is
}

// plan is the answer to one sort of clients.
type plan struct {
	kind     Kind // NoError, NoData or ServFail; Refused for an unconfirmed service that wants it
	allDown  statestore.AllDownMode
	sorry    bool
	resident bool   // no cluster in rotation is allowed
	out      bool   // the best candidate has nothing in rotation
	first    []rank // lowest first
	then     []rank // what clients go on by who spill
	simple   bool   // everybody gets the first one
}

// rank is the picks that share clients by weight.
type rank struct {
	picks []int    // never empty
	sums  []uint64 // running totals of their weights
}

// planOf returns the plan of a client, and how many bits of its address decided.
func (t *Table) planOf(s *service, p *pool, q *Query) (pl *plan, scope uint8) {
	pl = &p.plans[0]
	width := 0
	if p.byGroup != nil {
		at := t.clients.find(q)
		pl = &p.plans[p.byGroup[s.view.groupOf(at.class())]]
		if p.divided {
			width = at.bits()
		}
	}
	if p.sticky && !pl.simple {
		width = max(width, stickyBits(clientAddr(q)))
	}
	if q.Subnet.IsValid() && q.Subnet.Bits() == 0 {
		width = 0 // who does not want to be told apart stands for all that its resolver asks for
	}
	return pl, uint8(width)
}

// pick returns the answer of a plan. Only an answer of several clusters allocates.
func (p *pool) pick(pl *plan, q *Query) (*RRset, []string) {
	i, one := p.choose(pl, q)
	if one {
		pk := &p.picks[i]
		return pk.set, pk.clusters
	}
	var key uint64
	if p.sticky {
		key = stickyKey(clientAddr(q))
	}
	return p.union(p.walk(pl, q.Draw, key, nil))
}

// walk appends the picks of one answer to out: one drawn from the lowest rank, or
// from what is left where that client spills over, and then more in the order of the
// ranks. The last one left takes whoever comes.
func (p *pool) walk(pl *plan, draw, key uint64, out []int) []int {
	var gone pickSet
	var room [8]int
	late := room[:0]
	ranks := pl.first
	for len(out) < p.clusters {
		i := p.next(ranks, &gone, draw, key)
		if i < 0 {
			break
		}
		gone.add(i)
		draw = mix(draw)
		if len(out) == 0 && p.spills(i, draw, key) && !done(pl.then, &gone) {
			late, ranks = append(late, i), pl.then
			draw = mix(draw)
			continue
		}
		out = append(out, i)
	}
	for _, i := range late {
		if len(out) == p.clusters {
			break
		}
		out = append(out, i)
	}
	return out
}

// done reports whether nothing of the ranks is left.
func done(ranks []rank, gone *pickSet) bool {
	for _, r := range ranks {
		for _, i := range r.picks {
			if !gone.has(i) {
				return false
			}
		}
	}
	return true
}

// next chooses among what is left of the first rank that has something left; -1 when
// none has.
func (p *pool) next(ranks []rank, gone *pickSet, draw, key uint64) int {
	for k := range ranks {
		r := &ranks[k]
		if gone.empty() && !p.sticky {
			return r.picks[drawn(r.sums, draw)]
		}
		var total uint64
		some := false
		for _, i := range r.picks {
			if !gone.has(i) {
				total, some = total+uint64(p.picks[i].weight), true
			}
		}
		switch {
		case !some:
		case p.sticky:
			return p.drawnTo(r, gone, total == 0, key)
		default:
			return p.drawnFrom(r, gone, total, draw)
		}
	}
	return -1
}

// drawnTo returns the pick that a network's hash is drawn to.
func (p *pool) drawnTo(r *rank, gone *pickSet, equal bool, key uint64) int {
	best, high := -1, score{0, 1}
	for _, i := range r.picks {
		w := uint64(p.picks[i].weight)
		if equal {
			w = 1
		}
		if gone.has(i) || w == 0 {
			continue
		}
		if s := scoreOf(key, p.picks[i].seed, w); best < 0 || s.over(high) {
			best, high = i, s
		}
	}
	return best
}

// drawnFrom draws by weight among those that are left.
func (p *pool) drawnFrom(r *rank, gone *pickSet, total, draw uint64) int {
	equal := total == 0
	if equal {
		for _, i := range r.picks {
			if !gone.has(i) {
				total++
			}
		}
	}
	at, _ := bits.Mul64(draw, total)
	last := -1
	for _, i := range r.picks {
		if gone.has(i) {
			continue
		}
		w := uint64(1)
		if !equal {
			w = uint64(p.picks[i].weight)
		}
		if last = i; at < w {
			break
		}
		at -= w
	}
	return last
}

// spills reports whether a client of a pick goes on, by the draw or by its network.
func (p *pool) spills(i int, draw, key uint64) bool {
	pk := &p.picks[i]
	if pk.spill <= 0 {
		return false
	}
	if p.sticky {
		draw = mix(^key ^ pk.seed)
	}
	at, _ := bits.Mul64(draw, statestore.AllSpill)
	return at < uint64(pk.spill)
}

// drawn returns which running total the draw falls below.
func drawn(sums []uint64, draw uint64) int {
	if len(sums) == 1 {
		return 0
	}
	at, _ := bits.Mul64(draw, sums[len(sums)-1]) // uniform in [0, total)
	return sort.Search(len(sums), func(i int) bool { return at < sums[i] })
}

// mix turns one draw into the next (splitmix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb
	return x ^ (x >> 31)
}

// pickSet is some of a pool's picks. That of the first 64 needs no memory of its own.
type pickSet struct {
	low  uint64
	high []int
}

func (s *pickSet) add(i int) {
	if i < 64 {
		s.low |= 1 << i
	} else {
		s.high = append(s.high, i)
	}
}

func (s *pickSet) has(i int) bool {
	if i < 64 {
		return s.low&(1<<i) != 0
	}
	return slices.Contains(s.high, i)
}

func (s *pickSet) empty() bool { return s.low == 0 && len(s.high) == 0 }

// union takes the addresses of several picks in turn, so that the limit leaves each
// cluster its part. The least of their TTLs counts.
func (p *pool) union(chosen []int) (*RRset, []string) {
	out := &RRset{Type: p.typ, TTL: math.MaxUint32}
	var clusters []string
	for _, i := range chosen {
		clusters = append(clusters, p.picks[i].clusters...)
		out.TTL = min(out.TTL, p.picks[i].set.TTL)
	}
	for n, more := 0, true; more; n++ {
		more = false
		for _, i := range chosen {
			set := p.picks[i].set
			if n >= len(set.Rdata) || (p.limit > 0 && len(out.Rdata) == p.limit) {
				continue
			}
			out.Rdata = append(out.Rdata, set.Rdata[n])
			out.Text = append(out.Text, set.Text[n])
			more = true
		}
	}
	return out, clusters
}

// records is how many records one answer of the pool has at most.
func (p *pool) records() int {
	n := 0
	for _, pk := range p.picks {
		n = max(n, len(pk.set.Rdata))
	}
	return n
}

func (p *pool) same(o *pool) bool {
	return p.typ == o.typ && p.fallback == o.fallback && p.family == o.family && p.divided == o.divided && p.sticky == o.sticky && p.clusters == o.clusters && p.limit == o.limit &&
		slices.Equal(p.byGroup, o.byGroup) && slices.EqualFunc(p.picks, o.picks, samePick) && slices.EqualFunc(p.plans, o.plans, samePlan)
}

func samePick(a, b pick) bool {
	return a.candidate == b.candidate && a.weight == b.weight && a.spill == b.spill && a.out == b.out &&
		slices.Equal(a.clusters, b.clusters) && a.set.TTL == b.set.TTL && slices.Equal(a.set.Text, b.set.Text)
}

func samePlan(a, b plan) bool {
	return a.kind == b.kind && a.allDown == b.allDown && a.sorry == b.sorry && a.resident == b.resident && a.out == b.out &&
		a.simple == b.simple && slices.EqualFunc(a.first, b.first, sameRank) && slices.EqualFunc(a.then, b.then, sameRank)
}

func sameRank(a, b rank) bool { return slices.Equal(a.picks, b.picks) && slices.Equal(a.sums, b.sums) }

// addressSet prepares at most limit addresses of the type's family (0: all), or nil.
func addressSet(typ uint16, ttl uint32, addrs []netip.Addr, limit int) *RRset {
	set := &RRset{Type: typ, TTL: ttl}
	for _, a := range addrs {
		if a = a.Unmap().WithZone(""); a.Is4() != (typ == TypeA) {
			continue
		}
		if limit > 0 && len(set.Rdata) == limit {
			break
		}
		set.Rdata, set.Text = append(set.Rdata, a.AsSlice()), append(set.Text, a.String())
	}
	if len(set.Rdata) == 0 {
		return nil
	}
	return set
}
