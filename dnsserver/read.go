package dnsserver

import (
	"encoding/binary"
	"errors"

	"github.com/miekg/dns"
)

// read reads a query whole and settles what its form alone decides: header rules
// first, then EDNS. The message it returns has no answer yet.
func (s *Server) read(req request, query []byte) *message {
	q := new(dns.Msg)
	err := q.Unpack(query)
	if err == nil && pointed(query) {
		err = errPointed
	}
	m := &message{proto: req.proto, shard: req.shard, limit: dns.MaxMsgSize, table: req.table}
	m.Id, m.Response, m.Opcode, m.RecursionDesired = q.Id, true, q.Opcode, q.RecursionDesired
	if err != nil {
		m.Id, m.Opcode, m.RecursionDesired = binary.BigEndian.Uint16(query), int(query[2]>>3&0xf), query[2]&1 != 0
	} else {
		m.edns = readEDNS(q)
		if len(q.Question) == 1 {
			m.Question = q.Question
		}
	}
	m.qtype, m.zone = "other", "none"
	if req.proto == UDP {
		m.limit = min(m.edns.limit(), s.cfg.UDPSize)
	}
	m.judge(q, query, err)
	return m
}

// judge sets the code of a query that asks nothing the table could answer.
func (m *message) judge(q *dns.Msg, query []byte, unreadable error) {
	switch {
	case m.Opcode == dns.OpcodeNotify || m.Opcode == dns.OpcodeUpdate:
		m.Rcode = dns.RcodeRefused // nobody may change the zone from here
	case m.Opcode != dns.OpcodeQuery:
		m.Rcode = dns.RcodeNotImplemented
	case unreadable != nil, len(q.Question) != 1, oversized(query), m.edns.malformed:
		m.Rcode = dns.RcodeFormatError
	case m.edns.version > 0:
		m.Rcode = dns.RcodeBadVers
	case q.Question[0].Qclass != dns.ClassINET, meta(q.Question[0].Qtype), m.table == nil:
		m.Rcode = dns.RcodeRefused
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
