package dnsserver

import (
	"encoding/binary"
	"time"

	"github.com/miekg/dns"

	"github.com/quorate/quorate/dnsserver/wire"
)

// read reads a query whole and settles what its form alone decides: header rules
// first, then EDNS. The message it returns has no answer yet.
func (s *Server) read(req request, query []byte) *message {
	q := receive(query)
	m := &message{proto: req.proto, shard: req.shard, limit: dns.MaxMsgSize, table: req.table}
	m.Id, m.Response, m.Opcode, m.RecursionDesired = binary.BigEndian.Uint16(query), true, q.opcode(), query[2]&1 != 0
	m.edns = readEDNS(&q)
	if q.questions == 1 && q.name != nil {
		name, _, err := dns.UnpackDomainName(q.name, 0)
		if err != nil {
			q.malformed = true
		} else {
			m.qname = q.name
			m.Question = []dns.Question{{Name: name, Qtype: q.qtype, Qclass: q.qclass}}
		}
	}
	m.qtype, m.zone = "other", "none"
	if c := &m.edns.cookie; c.client != nil {
		c.answer(s.cookieSecrets(), req.client.Addr(), time.Now())
	}
	if req.proto == UDP {
		m.limit = min(m.edns.limit(), s.cfg.UDPSize, udpSize)
	}
	if req.proto == TCP && m.edns.keepalive {
		m.edns.idle = s.tcpIdle() // over UDP there is nothing to keep (RFC 7828 3.3.1)
	}
	m.judge(&q)
	if req.proto == UDP && m.asks() && q.qtype == dns.TypeANY && !m.edns.cookie.good {
		m.limit = min(m.limit, wire.ANYLimit(len(query)))
	}
	return m
}

// judge settles a query that asks nothing the table could answer.
func (m *message) judge(q *received) {
	switch {
	case m.Opcode == dns.OpcodeNotify || m.Opcode == dns.OpcodeUpdate:
		m.refuse(dns.ExtendedErrorCodeProhibited) // nobody may change the zone from here
	case m.Opcode != dns.OpcodeQuery:
		m.settle(dns.RcodeNotImplemented, dns.ExtendedErrorCodeNotSupported)
	case q.malformed || m.edns.malformed:
		m.Rcode = dns.RcodeFormatError
	case m.edns.version > 0:
		m.Rcode = dns.RcodeBadVers
	case q.questions == 0 && m.edns.cookie.client != nil && q.empty():
		m.cookieOnly()
	case q.questions != 1 || !q.plausible():
		m.Rcode = dns.RcodeFormatError
	case q.qtype == typeNXNAME:
		m.settle(dns.RcodeFormatError, extendedInvalidQueryType)
	case q.qclass != dns.ClassINET:
		m.refuse(dns.ExtendedErrorCodeNotSupported)
	case q.qtype == dns.TypeAXFR || q.qtype == dns.TypeIXFR:
		m.refuse(dns.ExtendedErrorCodeProhibited)
	case wire.Meta(q.qtype):
		m.refuse(dns.ExtendedErrorCodeNotSupported)
	case m.table == nil:
		m.refuse(dns.ExtendedErrorCodeNotReady)
	}
}

const (
	// typeNXNAME stands in NSEC records of names that are not there; nobody may ask for
	// it (RFC 9824 3.5).
	typeNXNAME = 128
	// extendedInvalidQueryType says that they did (RFC 9824 3.5, RFC 8914).
	extendedInvalidQueryType = 30
)

// settle ends a query with a code and, for who speaks EDNS, why.
func (m *message) settle(rcode int, why uint16) {
	m.Rcode = rcode
	m.edns.explain(why, "")
}

func (m *message) refuse(why uint16) { m.settle(dns.RcodeRefused, why) }

// cookieOnly answers a query without a question, which asks for a cookie or whether
// the one it brings is good (RFC 7873 5.4).
func (m *message) cookieOnly() {
	m.settled = true
	if c := m.edns.cookie; len(c.server) > 0 && !c.good {
		m.Rcode = dns.RcodeBadCookie
	}
}

// empty reports whether there is nothing but the OPT record.
func (q *received) empty() bool {
	return q.count(answerSection) == 0 && q.count(authoritySection) == 0 && q.count(additionalSection) == 1
}

// plausible reports whether the counts are ones that a query can have: an SOA beside
// IXFR (RFC 1995 3), and OPT with TSIG or SIG(0). Others are how parsers are attacked.
func (q *received) plausible() bool {
	authority := q.count(authoritySection)
	return q.count(answerSection) == 0 && (authority == 0 || authority == 1 && q.qtype == dns.TypeIXFR) && q.count(additionalSection) <= 2
}
