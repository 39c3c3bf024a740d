package dnsserver

import (
	"github.com/miekg/dns"

	"github.com/quorate/quorate/routing"
)

// limitAction is what a verdict is counted as.
var limitAction = [...]string{limitDrop: "drop", limitSlip: "slip", limitNote: "log"}

// limitRate counts the answer against its client's rate, and drops it, or what is in
// it, when that is above.
//
// In place of a truncated answer, who spoke of cookies gets BADCOOKIE with a good one,
// and with that is never limited again (RFC 7873 5.2.3).
func (m *message) limitRate(s *Server, req request) {
	l := s.limit.Load()
	if l == nil || req.proto != UDP || m.edns.cookie.good {
		return
	}
	name, qtype, c := m.kind(l)
	v := l.take(req.client.Addr(), name, qtype, c, s.clock())
	if v == limitPass {
		return
	}
	req.shard.add(s.metrics.counters.limited(m.zone, limitAction[v]))
	if v == limitNote {
		return
	}
	m.dropped = v == limitDrop
	m.Answer, m.Ns, m.Extra, m.answer.Clusters, m.edns.errors = nil, nil, nil, nil, nil
	if m.edns.cookie.reply != nil {
		m.Rcode, m.Authoritative = dns.RcodeBadCookie, false
	} else {
		m.Truncated = true
	}
}

// kind is what the answer is one of many of.
func (m *message) kind(l *limiter) (name uint64, qtype uint16, c category) {
	a := &m.answer
	if m.Rcode != dns.RcodeSuccess && m.Rcode != dns.RcodeNameError || m.qname == nil || a.Zone == nil {
		return 0, 0, limitError
	}
	at := a.Wild // all that a wildcard stands for is one name
	if len(a.Chain) > 0 {
		at = a.Chain[0].Wild
	}
	switch a.Kind {
	case routing.NameError:
		at, c = a.Zone.Name, limitNXDomain
	case routing.NoData:
		c = limitNoData
	case routing.Delegation:
		at, qtype = a.Owner, dns.TypeNS
	default:
		qtype = m.Question[0].Qtype
	}
	if at == "" {
		return l.hashName(m.qname), qtype, c
	}
	var wire [maxName + 1]byte
	n, err := dns.PackDomainName(at, wire[:], 0, nil, false)
	if err != nil {
		return 0, 0, limitError
	}
	return l.hashName(wire[:n]), qtype, c
}
