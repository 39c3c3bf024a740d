package dnsserver

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"runtime/debug"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/quorate/quorate/routing"
)

const (
	// udpSize is the longest answer over UDP that crosses networks unfragmented (RFC 9715).
	udpSize = 1232
	// plainSize is the limit of a client without EDNS (RFC 1035 4.2.1).
	plainSize = 512
	// headerSize is the length of a message's header. Shorter packets are dropped.
	headerSize = 12
	// panicLogEvery bounds how often a panic is logged; each one is counted.
	panicLogEvery = time.Second
)

// request is one query's circumstances.
type request struct {
	table  *routing.Table // nil: none yet
	age    time.Duration
	client netip.AddrPort
	proto  Proto
}

// Respond returns the answer to a query, or nil where silence is right: to a
// response, and to what has no header. UDP and TCP both answer by it.
func (s *Server) Respond(table *routing.Table, query []byte, client netip.AddrPort, proto Proto) []byte {
	return s.respondSafely(request{table, s.cfg.Age(), client, proto}, query)
}

// respondSafely keeps a panic from ending the process: it is counted, and the
// client hears SERVFAIL and asks another node.
func (s *Server) respondSafely(req request, query []byte) (reply []byte) {
	start := time.Now()
	defer func() {
		if r := recover(); r != nil {
			s.metrics.panics.Inc()
			if now := time.Now().UnixNano(); now-s.panicLogged.Swap(now) > int64(panicLogEvery) {
				s.log.Error("answering a query panicked", keyPanic, fmt.Sprint(r), keyStack, string(debug.Stack()))
			}
			reply = bare(query, dns.RcodeServerFailure)
		}
	}()
	if len(query) < headerSize || query[2]&0x80 != 0 {
		return nil // an answer to a response would make two servers talk for ever
	}
	reply = s.respond(req, query)
	s.metrics.took[req.proto].Observe(time.Since(start).Seconds())
	return reply
}

// bare is an answer of a header alone, for queries that cannot be read.
func bare(query []byte, rcode int) []byte {
	if len(query) < headerSize {
		return nil
	}
	h := make([]byte, headerSize)
	copy(h, query[:2])
	h[2] = 0x80 | query[2]&0x79 // QR; the query's opcode and RD
	h[3] = byte(rcode)
	return h
}

// respond is the general path: it reads the query whole and builds the answer
// with miekg/dns.
func (s *Server) respond(req request, query []byte) []byte {
	q := new(dns.Msg)
	err := q.Unpack(query)
	if err == nil && pointed(query) {
		err = errPointed
	}
	m := &message{proto: req.proto, limit: dns.MaxMsgSize}
	m.Id, m.Response, m.Opcode, m.RecursionDesired = q.Id, true, q.Opcode, q.RecursionDesired
	if err != nil {
		m.Id, m.Opcode, m.RecursionDesired = binary.BigEndian.Uint16(query), int(query[2]>>3&0xf), query[2]&1 != 0
	} else if len(q.Question) == 1 {
		m.Question = q.Question
	}
	m.qtype, m.zone = "other", "none"
	m.decide(s, req, q, query, err)
	s.count(req, m)
	return s.pack(m, req)
}

// message is an answer being made, with what is counted of it.
type message struct {
	dns.Msg
	edns   edns
	proto  Proto
	limit  int    // octets
	zone   string // label: a configured zone or "none"
	qtype  string // label: a known type or "other"
	answer routing.Answer
}

// decide fills the message: header rules first, then EDNS, then the table.
func (m *message) decide(s *Server, req request, q *dns.Msg, query []byte, unreadable error) {
	if unreadable == nil {
		m.edns = readEDNS(q)
	}
	if req.proto == UDP {
		m.limit = min(m.edns.limit(), s.cfg.UDPSize)
	}
	switch {
	case m.Opcode == dns.OpcodeNotify || m.Opcode == dns.OpcodeUpdate:
		m.Rcode = dns.RcodeRefused // nobody may change the zone from here
	case m.Opcode != dns.OpcodeQuery:
		m.Rcode = dns.RcodeNotImplemented
	case unreadable != nil, len(q.Question) != 1, oversized(query), m.edns.malformed:
		m.Rcode = dns.RcodeFormatError
	case m.edns.version > 0:
		m.Rcode = dns.RcodeBadVers
	case q.Question[0].Qclass != dns.ClassINET, meta(q.Question[0].Qtype), req.table == nil:
		m.Rcode = dns.RcodeRefused
	default:
		m.ask(s, req, q.Question[0])
	}
}

// oversized reports counts that no query has: they are how parsers are attacked.
func oversized(query []byte) bool {
	count := func(at int) uint16 { return binary.BigEndian.Uint16(query[at:]) }
	return count(6) > 1 || count(8) > 1 || count(10) > 2
}

var errPointed = errors.New("the question's name holds a pointer")

// pointed reports whether the first question's name holds a compression pointer:
// it could only lead into the header or forward.
func pointed(query []byte) bool {
	for at := headerSize; at < len(query) && query[at] != 0; at += 1 + int(query[at]) {
		if query[at]&0xc0 != 0 {
			return true
		}
	}
	return false
}

// meta reports a type that asks for something else than records. ANY is not among
// them: it has an answer.
func meta(qtype uint16) bool {
	return qtype == dns.TypeOPT || qtype == dns.TypeNone || (qtype >= dns.TypeTKEY && qtype <= dns.TypeMAILA)
}

// ask fills the message with what the table selects.
func (m *message) ask(s *Server, req request, question dns.Question) {
	a, _ := routing.Select(req.table, routing.Query{
		Name:   question.Name,
		Type:   question.Qtype,
		Client: req.client.Addr().Unmap(),
		Subnet: m.edns.subnet,
		Draw:   s.cfg.Draw(),
		Stale:  req.age,
	})
	m.answer, m.qtype = a, qtypeLabel(question.Qtype)
	if m.edns.subnet.IsValid() {
		m.edns.ecs.SourceScope = a.Scope // RFC 7871 7.2.1
	}
	if a.Zone != nil {
		m.zone = a.Zone.Name
	}
	switch a.Kind {
	case routing.Refused:
		m.Rcode = dns.RcodeRefused
	case routing.ServFail:
		m.Rcode = dns.RcodeServerFailure
	case routing.NameError:
		m.Rcode = dns.RcodeNameError
	}
	if a.Kind == routing.Refused || a.Kind == routing.ServFail {
		m.edns.withheld = a.Withheld
		return
	}
	m.Authoritative, m.edns.stale = true, a.Stale
	for _, c := range a.Chain {
		m.Answer = appendSet(m.Answer, spelled(question.Name, c.Owner), c.Set)
	}
	if a.Kind != routing.NoError {
		m.Ns = appendSet(m.Ns, spelled(question.Name, a.Zone.Name), a.Zone.Negative)
		return
	}
	if a.Set != nil {
		m.Answer = appendSet(m.Answer, spelled(question.Name, a.Owner), a.Set)
	}
	for _, g := range a.Additional {
		m.Extra = appendSet(m.Extra, spelled(question.Name, g.Owner), g.Set)
	}
}

// spelled returns name as the client spelled it, if the question ends in it: the
// case is kept, and compression finds it.
func spelled(question, name string) string {
	if at := len(question) - len(name); at >= 0 && strings.EqualFold(question[at:], name) && (at == 0 || question[at-1] == '.') {
		return question[at:]
	}
	return name
}

// appendSet appends a prepared set as records at owner.
func appendSet(to []dns.RR, owner string, set *routing.RRset) []dns.RR {
	for _, rdata := range set.Rdata {
		h := dns.RR_Header{Name: owner, Rrtype: set.Type, Class: dns.ClassINET, Ttl: set.TTL, Rdlength: uint16(len(rdata))}
		rr, _, err := dns.UnpackRRWithHeader(h, rdata, 0)
		if err != nil {
			panic(fmt.Sprintf("prepared %s record of %s does not read back: %v", dns.Type(set.Type), owner, err))
		}
		to = append(to, rr)
	}
	return to
}

// pack writes the message within its limit. Additional records go first, silently;
// then whole sets go and TC says so (RFC 2181 9).
func (s *Server) pack(m *message, req request) []byte {
	m.Compress = true
	extra := m.Extra
	for {
		m.Extra = extra
		if opt := m.edns.reply(s.cfg); opt != nil {
			m.Extra = append(extra[:len(extra):len(extra)], opt)
		}
		wire, err := m.Pack()
		if err != nil {
			panic(fmt.Sprintf("pack an answer: %v", err))
		}
		switch {
		case len(wire) <= m.limit:
			return wire
		case len(extra) > 0:
			extra = dropLastSet(extra)
			continue
		case len(m.Ns) > 0:
			m.Ns = dropLastSet(m.Ns)
		case len(m.Answer) > 0:
			m.Answer = dropLastSet(m.Answer)
		default:
			return bare(wire, m.Rcode&0xf) // not even the question fits: limits are 512 at least
		}
		if !m.Truncated {
			m.Truncated = true
			s.metrics.truncated.WithLabelValues(m.zone).Inc()
		}
	}
}

// dropLastSet removes the records of the last record's owner and type.
func dropLastSet(rrs []dns.RR) []dns.RR {
	last := rrs[len(rrs)-1].Header()
	n := len(rrs)
	for n > 0 && rrs[n-1].Header().Rrtype == last.Rrtype && rrs[n-1].Header().Name == last.Name {
		n--
	}
	return rrs[:n]
}
