package dnsserver

import (
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"github.com/quorate/quorate/dnsserver/wire"
	"github.com/quorate/quorate/routing"
)

// worker is what one goroutine that answers queries has of its own.
type worker struct {
	*shard
	proto    Proto
	outcomes run
	query    wire.Query // of the query that is being answered
	from     *published // what it is answered from

	unsigned *wire.Variant // the last query lacked only its signatures; nil: it did not

	sampled int // which query of the batch is sampled; -1: none
	weight  uint32
}

func (s *Server) newWorker(sh *shard, proto Proto) *worker {
	w := &worker{shard: sh, proto: proto, outcomes: run{shard: sh}}
	w.query.Draw = s.cfg.Draw
	w.query.Keys = func(zone int) any { return s.keysOf(w.from, zone) }
	w.query.Limit, w.query.Stream = min(s.cfg.UDPSize, udpSize), proto == TCP
	if proto == TCP {
		w.query.Limit = dns.MaxMsgSize
	}
	return w
}

// fast answers the query in buf[:n] in its place, if it is one that answers are
// prepared for, and returns the answer's size; 0 is silence. It reports false, and
// leaves the query as it is, where the general path must answer. It takes no lock and
// allocates nothing. sample is as in request.
func (s *Server) fast(w *worker, buf []byte, n int, client netip.Addr, sample uint32) (size int, ok bool) {
	p := w.from
	if w.unsigned = nil; p.wire == nil {
		return 0, false
	}
	w.query.Client = client
	a, ok := p.wire.Answer(buf, n, &w.query)
	if !ok {
		w.unsigned = a.Variant
		return 0, false
	}
	v := a.Variant
	size, rcode := a.Size, int(v.Rcode)
	if l := s.limit.Load(); l != nil && w.proto == UDP {
		switch verdict := s.limitFast(l, w, &a, client); verdict {
		case limitPass:
		case limitNote, limitSlip, limitDrop:
			w.add(s.metrics.counters.limited(p.zoneName(int(v.Zone)), limitAction[verdict]))
			if verdict == limitSlip {
				size = a.Empty(buf)
			}
			if verdict == limitDrop {
				size, rcode = 0, unanswered
			}
			if verdict != limitNote {
				w.outcomes.add(p.outcome(&s.metrics.counters, int(v.Zone), a.Type, w.proto, client.Is6(), rcode))
				return size, true
			}
		}
	}
	w.outcomes.add(p.outcome(&s.metrics.counters, int(v.Zone), a.Type, w.proto, client.Is6(), rcode))
	if v.Answer > 0 {
		w.add(series(v.Answer - 1))
	}
	if sample > 0 && v.Service > 0 {
		w.saw(sample, series(v.Service-1), netip.PrefixFrom(client, client.BitLen()))
	}
	return size, true
}

// limitFast holds a prepared answer against its client's rate, by the same kinds as
// the general path.
func (s *Server) limitFast(l *limiter, w *worker, a *wire.Served, client netip.Addr) verdict {
	name, qtype, c := uint64(0), uint16(0), limitError
	switch a.Variant.Kind {
	case routing.NoError:
		name, qtype, c = l.hashName(a.Name), a.Type, limitAnswer
	case routing.NoData:
		name, c = l.hashName(a.Name), limitNoData
	case routing.NameError:
		name, c = l.hashName(w.from.wire.ZoneName(a.Variant.Zone)), limitNXDomain
	}
	return l.take(client, name, qtype, c, w.query.Now.Sub(s.made))
}

// typeLabels are the labels of labelledTypes, and last that of all other types.
var typeLabels = func() []string {
	var list []string
	for _, l := range labelledTypes {
		list = append(list, l)
	}
	slices.Sort(list)
	return append(list, "other")
}()

// typeNumbers are the numbers of types in typeLabels.
var typeNumbers = func() (numbers [dns.TypeCAA + 1]uint8) {
	for typ := range numbers {
		numbers[typ] = uint8(slices.Index(typeLabels, qtypeLabel(uint16(typ))))
	}
	return numbers
}()

// fastCodes are the response codes that prepared answers have, and unanswered.
var fastCodes = [...]int{dns.RcodeSuccess, dns.RcodeNameError, dns.RcodeRefused, dns.RcodeServerFailure, unanswered}

// outcomes are the series of one zone's outcomes, each plus one, as they were looked
// up for the first time: a series exists when something was counted in it.
type outcomes [16 * len(fastCodes) * 4]atomic.Uint32

// outcome returns the series of a query and its response code.
func (p *published) outcome(c *counters, zone int, qtype uint16, proto Proto, v6 bool, rcode int) series {
	typ := len(typeLabels) - 1
	if int(qtype) < len(typeNumbers) {
		typ = int(typeNumbers[qtype])
	}
	at := (typ*len(fastCodes)+codeNumber(rcode))*4 + int(proto)*2
	if v6 {
		at++
	}
	cell := &p.outcomes[zone+1][at]
	if n := cell.Load(); n > 0 {
		return series(n - 1)
	}
	n := c.outcome(p.zoneName(zone), typeLabels[typ], proto, v6, rcode)
	cell.Store(uint32(n) + 1)
	return n
}

func codeNumber(rcode int) int {
	switch rcode {
	case dns.RcodeSuccess:
		return 0
	case dns.RcodeNameError:
		return 1
	case dns.RcodeRefused:
		return 2
	case dns.RcodeServerFailure:
		return 3
	}
	return 4
}

// zoneName is the label of a zone.
func (p *published) zoneName(zone int) string {
	if zone < 0 {
		return "none"
	}
	return p.table.Zones[zone].Name
}

// begin takes in what a batch of queries has in common.
func (w *worker) begin(p *published, age time.Duration) {
	w.from = p
	w.query.Stale, w.query.Now = age, time.Now()
}

// end makes what was counted since begin seen.
func (w *worker) end() { w.outcomes.flush() }
