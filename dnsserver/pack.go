package dnsserver

import (
	"fmt"

	"github.com/miekg/dns"

	"github.com/quorate/quorate/routing"
)

// pack writes the message within its limit. Additional records go first, silently;
// then whole sets go and TC says so (RFC 2181 9).
func (s *Server) pack(m *message) []byte {
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
			if m.answer.Kind != routing.Delegation { // glue is not optional (RFC 9471 3.1)
				continue
			}
		case len(m.Ns) > 0:
			m.Ns = dropLastSet(m.Ns)
		case len(m.Answer) > 0:
			m.Answer = dropLastSet(m.Answer)
		default:
			return bare(wire, m.Rcode&0xf) // not even the question fits: limits are 512 at least
		}
		if !m.Truncated {
			m.Truncated = true
			m.shard.add(s.metrics.counters.truncated(m.zone))
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
