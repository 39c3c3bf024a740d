package dnsserver

import (
	"fmt"
	"strings"

	"github.com/miekg/dns"

	"github.com/quorate/quorate/routing"
)

// ask fills the message with what the table selects.
func (m *message) ask(s *Server, req request) {
	question := m.Question[0]
	a, _ := routing.Select(req.table, routing.Query{
		Name:   question.Name,
		Type:   s.askedType(req.table, question.Name, question.Qtype),
		Client: req.client.Addr().Unmap(),
		Subnet: m.edns.subnet,
		Draw:   s.cfg.Draw(),
		Stale:  req.age,
	})
	m.qtype = qtypeLabel(question.Qtype)
	m.made(s, &a)
	if m.settled {
		return
	}
	m.fill(a)
	m.Answer = append(m.Answer, m.rrsigs...)
}

// fill makes the message say what the table selected.
func (m *message) fill(a routing.Answer) {
	question := m.Question[0]
	m.answer = a
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
	case routing.NameTooLong:
		m.Rcode = dns.RcodeYXDomain
	}
	if a.Kind == routing.Refused || a.Kind == routing.ServFail {
		m.excuse(a)
		return
	}
	// Of a referral the chain alone is ours to say (RFC 1034 6.2.6).
	m.Authoritative = a.Kind != routing.Delegation || len(a.Chain) > 0
	if a.Stale {
		m.edns.explain(dns.ExtendedErrorCodeStaleAnswer, "")
	}
	for _, c := range a.Chain {
		m.Answer = appendSet(m.Answer, spelled(question.Name, c.Owner), c.Set)
	}
	switch a.Kind {
	case routing.NoData, routing.NameError:
		m.Ns = appendSet(m.Ns, spelled(question.Name, a.Zone.Name), a.Zone.Negative)
		return
	case routing.Delegation:
		m.Ns = appendSet(m.Ns, spelled(question.Name, a.Owner), a.Set)
	default:
		if a.Set != nil {
			m.Answer = appendSet(m.Answer, spelled(question.Name, a.Owner), a.Set)
		}
	}
	for _, g := range a.Additional {
		m.Extra = appendSet(m.Extra, spelled(question.Name, g.Owner), g.Set)
	}
}

// excuse says why nobody is answered (RFC 8914).
func (m *message) excuse(a routing.Answer) {
	switch {
	case a.Zone == nil:
		m.edns.explain(dns.ExtendedErrorCodeNotAuthoritative, "")
	case a.Stale:
		m.edns.explain(dns.ExtendedErrorCodeNotReady, "no quorum heard")
	case a.Withheld != "":
		m.edns.explain(dns.ExtendedErrorCodeNotReady, a.Withheld)
	default:
		m.edns.explain(dns.ExtendedErrorCodeNetworkError, "") // nothing that could serve is up
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
