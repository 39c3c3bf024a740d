package dnsserver

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/miekg/dns"

	"github.com/quorate/quorate/dnsserver/wire"
	"github.com/quorate/quorate/routing"
)

// published is what queries are answered from: a routing table with its prepared
// answers, swapped as one. It is immutable but for the numbers it looks up once.
type published struct {
	table    *routing.Table
	wire     *wire.Table // nil until prepared: the general path answers everything
	outcomes []outcomes  // by zone number plus one; the first is for no zone
}

// publisher swaps tables in and has their answers prepared.
type publisher struct {
	now atomic.Pointer[published]

	mu     sync.Mutex // guards what follows, and storing now
	last   *published // newest with prepared answers
	newest *routing.Table
	due    chan struct{} // holds one: answers are to be prepared for all names
}

// Publish makes the server answer from a table. Where only services differ from the
// table before, their answers are prepared first, which takes microseconds; where names
// do, the general path answers from the new table until keepPrepared has prepared it.
// A table that is older than the present one must not be handed in.
func (s *Server) Publish(t *routing.Table) {
	p := &s.published
	p.mu.Lock()
	defer p.mu.Unlock()
	p.newest = t
	if p.last == nil || !p.last.table.SameNames(t) {
		p.now.Store(&published{table: t})
		select {
		case p.due <- struct{}{}:
		default: // told already
		}
		return
	}
	p.putLocked(&published{table: t, wire: wire.Build(p.last.wire, t, &maker{s: s, table: t}), outcomes: p.last.outcomes})
}

func (p *publisher) putLocked(next *published) {
	p.last = next
	p.now.Store(next)
}

// keepPrepared prepares the answers of tables with other names until ctx is done.
func (s *Server) keepPrepared(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.published.due:
			s.prepare()
		}
	}
}

// prepare prepares all answers of the newest table. Tables that come meanwhile answer
// by the general path, and their changes are made up for at the end.
func (s *Server) prepare() {
	p := &s.published
	p.mu.Lock()
	t := p.newest
	p.mu.Unlock()
	if t == nil {
		return
	}
	made := &published{table: t, wire: wire.Build(nil, t, &maker{s: s, table: t}), outcomes: make([]outcomes, len(t.Zones)+1)}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.newest == t:
		p.putLocked(made)
	case p.newest.SameNames(t):
		p.putLocked(&published{table: p.newest, wire: wire.Build(made.wire, p.newest, &maker{s: s, table: p.newest}), outcomes: made.outcomes})
	}
}

// current is what queries are answered from now: one atomic load.
func (s *Server) current() *published {
	if p := s.published.now.Load(); p != nil {
		return p
	}
	return &published{table: s.cfg.Table()}
}

// maker builds the messages of prepared answers: it is the general path's builder.
type maker struct {
	s     *Server
	table *routing.Table
	m     message // the last one: ten thousand of them are no garbage
	asked [1]dns.Question
}

// Message implements wire.Maker. An answer whose making panics is left to the general
// path, where that costs who asks for it SERVFAIL, and nobody the process.
func (mk *maker) Message(name string, qtype uint16, a routing.Answer) (msg, options []byte) {
	defer func() {
		if r := recover(); r != nil {
			mk.s.panicked(r)
			msg, options = nil, nil
		}
	}()
	m := mk.filled(name, qtype, a)
	if opt := m.edns.reply(mk.s.cfg); len(opt.Option) > 0 {
		buf := make([]byte, dns.Len(opt))
		if n, err := dns.PackRR(opt, buf, 0, nil, false); err == nil {
			options = buf[optSize:n:n]
		}
	}
	m.edns = edns{}
	return mk.s.pack(m), options
}

// filled is the answer to a question that came with EDNS, until the next one is.
func (mk *maker) filled(name string, qtype uint16, a routing.Answer) *message {
	m := &mk.m
	*m = message{limit: dns.MaxMsgSize, shard: mk.s.shared, table: mk.table, edns: edns{present: true}}
	mk.asked[0] = dns.Question{Name: name, Qtype: qtype, Qclass: dns.ClassINET}
	m.Response, m.Question = true, mk.asked[:]
	m.fill(a)
	return m
}

// signPrepared has a prepared answer of a signed zone signed, for the next one who asks with
// DO. An answer whose signatures cannot be made is left to the general path.
func (s *Server) signPrepared(p *published, v *wire.Variant) {
	name, qtype, a, ok := p.wire.Source(v)
	if !ok {
		return
	}
	for _, c := range a.Chain {
		if zoneOf(p.table, c.Owner) != a.Zone {
			return // the keys of more than one zone
		}
	}
	keys := s.keysOf(p, int(v.Zone))
	m := (&maker{s: s, table: p.table}).filled(name, qtype, a)
	m.edns.do = true
	if m.sign(s); m.settled || m.until.IsZero() {
		return
	}
	m.edns = edns{}
	v.Sign(s.pack(m), m.from, m.until, keys)
}

// keysOf is what a zone is signed with now.
func (s *Server) keysOf(p *published, zone int) any {
	z, _ := s.signed(p.table, p.table.Zones[zone])
	return z
}

// Labels implements wire.Maker.
func (mk *maker) Labels(a routing.Answer) wire.Labels {
	var l wire.Labels
	c := &mk.s.metrics.counters
	if len(a.Clusters) == 1 {
		l.Answer = uint32(c.answer(a.Service, a.Clusters[0])) + 1
	}
	_, l.Signed = mk.s.signed(mk.table, a.Zone)
	for _, link := range a.Chain {
		_, signed := mk.s.signed(mk.table, zoneOf(mk.table, link.Owner))
		l.Signed = l.Signed || signed
	}
	if a.Service != "" {
		l.Service = uint32(c.service(a.Service)) + 1
	}
	return l
}
