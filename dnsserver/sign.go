package dnsserver

import (
	"errors"
	"slices"
	"time"

	"github.com/miekg/dns"

	"github.com/quorate/quorate/dnsserver/dnssec"
	"github.com/quorate/quorate/routing"
)

// signErrorEvery bounds how often a signature that cannot be made is logged.
const signErrorEvery = time.Second

// errKeysMissing says that this node has no keys for a zone that the spec wants
// signed, and does not know why either.
var errKeysMissing = errors.New("this node has not read the zone's keys")

// signed reports whether the spec wants the zone signed, and returns its keys; one that
// cannot be signed has Err.
func (s *Server) signed(table *routing.Table, zone *routing.Zone) (*dnssec.Zone, bool) {
	if zone == nil {
		return nil, false
	}
	spec := table.State().Spec.Zones[zone.Name]
	if spec == nil || spec.DNSSEC == nil {
		return nil, false
	}
	if s.cfg.Keys != nil {
		if z := s.cfg.Keys(zone.Name); z != nil {
			return z, true
		}
	}
	return dnssec.Unsignable(zone.Name, errKeysMissing), true
}

// askedType is the type to select by: records that signing makes are wherever others
// are, aliases not followed, as ANY finds them.
func (s *Server) askedType(table *routing.Table, name string, qtype uint16) uint16 {
	if qtype != dns.TypeNSEC && qtype != dns.TypeRRSIG {
		return qtype
	}
	if _, signed := s.signed(table, zoneOf(table, routing.Canonical(name))); signed {
		return dns.TypeANY
	}
	return qtype
}

// zoneOf returns the zone of ours that a name is in, or nil.
func zoneOf(table *routing.Table, name string) *routing.Zone {
	for off, end := 0, false; !end; off, end = dns.NextLabel(name, off) {
		i, ok := slices.BinarySearchFunc(table.Zones, name[off:], func(z *routing.Zone, name string) int {
			switch {
			case z.Name < name:
				return -1
			case z.Name > name:
				return 1
			}
			return 0
		})
		if ok {
			return table.Zones[i]
		}
	}
	return nil
}

// made answers a query for a record that signing makes: keys at the apex, NSEC, and
// the one RRSIG that is said to be at each name (RFC 8482 4.1: one is enough).
func (m *message) made(s *Server, a *routing.Answer) {
	qtype := m.Question[0].Qtype
	keys := qtype == dns.TypeDNSKEY || qtype == dns.TypeCDS || qtype == dns.TypeCDNSKEY
	z, signed := s.signed(m.table, a.Zone)
	switch {
	case !keys && qtype != dns.TypeNSEC && qtype != dns.TypeRRSIG:
		return
	case !signed || a.Kind != routing.NoError && a.Kind != routing.NoData && a.Kind != routing.NameError:
		return
	case keys && (a.Owner != z.Name || a.Kind == routing.NameError):
		return
	case z.Err != nil:
		m.zone = z.Name
		m.unsigned(s, z.Err)
		return
	case !keys && !z.Compact && a.Kind != routing.NoError:
		return // there is no NSEC record
	}
	set, ok := z.Apex(qtype)
	switch d := m.denier(z, a.Zone); {
	case ok:
	case a.Kind == routing.NameError:
		// RFC 9824 has the name be there with an NSEC record, which cannot deny itself.
		m.lie = true
		set = d.nothing(a.Owner)
	default:
		set = d.own(a.Owner, a.Wild)
	}
	a.Kind, a.Additional = routing.NoError, nil
	if qtype != dns.TypeRRSIG {
		a.Set = &routing.RRset{Type: set.Type, TTL: set.TTL, Rdata: set.Rdata}
		return
	}
	sigs, err := s.signer.Sign(time.Now(), z, set, m.originOf(z, a.Wild))
	if err != nil {
		m.zone = z.Name
		m.unsigned(s, err)
		return
	}
	a.Set = nil
	m.rrsigs = m.place(sigs, spelled(m.Question[0].Name, a.Owner), set.TTL)
}

// originOf says whose choice a name is that records of wild answer: with compact
// denial each gets its own signature.
func (m *message) originOf(z *dnssec.Zone, wild string) dnssec.Origin {
	if m.lie || wild != "" && z.Compact {
		return dnssec.Made
	}
	return dnssec.Own
}

// place returns signatures as records at owner.
func (m *message) place(sigs []dnssec.Signature, owner string, ttl uint32) []dns.RR {
	rrs := make([]dns.RR, len(sigs))
	for i, sig := range sigs {
		rr := *sig.RRSIG
		rr.Hdr = dns.RR_Header{Name: owner, Rrtype: dns.TypeRRSIG, Class: dns.ClassINET, Ttl: ttl}
		rrs[i] = &rr
		if m.until.IsZero() || sig.Until.Before(m.until) {
			m.until = sig.Until
		}
		if sig.From.After(m.from) {
			m.from = sig.From
		}
	}
	return rrs
}

// unsigned takes everything back: what cannot be signed of a signed zone is no
// answer, since a validator would take it for a forgery.
func (m *message) unsigned(s *Server, err error) {
	m.Answer, m.Ns, m.Extra, m.rrsigs = nil, nil, nil, nil
	m.Authoritative, m.Rcode, m.answer.Clusters = false, dns.RcodeServerFailure, nil
	m.settled = true
	if errors.Is(err, dnssec.ErrBusy) {
		m.edns.explain(dns.ExtendedErrorCodeNotReady, err.Error())
		return
	}
	m.edns.explain(dns.ExtendedErrorCodeDNSKEYMissing, "")
	if now := time.Now().UnixNano(); now-s.signLogged.Swap(now) > int64(signErrorEvery) {
		s.log.Error("an answer cannot be signed", keyZone, m.zone, keyErr, err)
	}
}

// sign adds to a filled message what who asked for signatures needs to trust it
// (RFC 4035 3.1): the signatures of its sets and the proof of what is not there.
func (m *message) sign(s *Server) {
	if !m.edns.do || !m.Authoritative && m.answer.Kind != routing.Delegation || m.settled || m.dropped || m.Truncated {
		return
	}
	b := &signing{m: m, s: s, now: time.Now()}
	b.authority() // first: its proof of what is asked for counts as proof of the rest too
	b.answer()
	b.additional()
	if b.err != nil {
		m.unsigned(s, b.err)
		return
	}
	m.Answer = append(m.Answer, b.answers...)
	m.Ns = append(m.Ns, b.proofs...)
	m.Extra = append(m.Extra, b.extra...)
}

// signing is a message that is being signed. The first error ends it.
type signing struct {
	m   *message
	s   *Server
	now time.Time
	err error

	answers, proofs, extra []dns.RR
	proved                 []string // owners of NSEC sets in proofs
}

// rrset signs a set of a zone, which wild gave owner, or owner its own; nothing of an
// unsigned zone. The DS of a zone of ours is of the one above it.
func (b *signing) rrset(zone *routing.Zone, owner, wild string, set *routing.RRset) []dns.RR {
	z, ok := b.s.signed(b.m.table, zone)
	if !ok || b.err != nil {
		return nil
	}
	signed := dnssec.Set{Owner: owner, Type: set.Type, TTL: set.TTL, Rdata: set.Rdata}
	if wild != "" && !z.Compact {
		signed.Owner = wild // RFC 4035 5.3.2
	}
	return b.signatures(z, owner, signed, set.TTL, b.m.originOf(z, wild))
}

func (b *signing) signatures(z *dnssec.Zone, owner string, set dnssec.Set, ttl uint32, origin dnssec.Origin) []dns.RR {
	sigs, err := b.s.signer.Sign(b.now, z, set, origin)
	if err != nil {
		b.err = err
		return nil
	}
	return b.m.place(sigs, spelled(b.m.Question[0].Name, owner), ttl)
}

// answer signs the answer section.
func (b *signing) answer() {
	a := &b.m.answer
	for i, c := range a.Chain {
		if i > 0 && a.Chain[i-1].Set.Type == dns.TypeDNAME && c.Set.Type == dns.TypeCNAME {
			continue // made from the DNAME, which is signed (RFC 6672 5.3.1)
		}
		b.answers = append(b.answers, b.rrset(zoneOf(b.m.table, c.Owner), c.Owner, c.Wild, c.Set)...)
		b.expansion(c.Owner, c.Wild)
	}
	if a.Kind == routing.NoError && a.Set != nil {
		b.answers = append(b.answers, b.rrset(a.Zone, a.Owner, a.Wild, a.Set)...)
		b.expansion(a.Owner, a.Wild)
	}
}

// authority signs the authority section.
func (b *signing) authority() {
	a := &b.m.answer
	z, ok := b.s.signed(b.m.table, a.Zone)
	if !ok || b.err != nil {
		return
	}
	switch a.Kind {
	case routing.NoData, routing.NameError:
		// The SOA is signed with its own TTL, which is above that of a negative answer.
		soa := dnssec.Set{Owner: z.Name, Type: dns.TypeSOA, TTL: a.Zone.SOA.TTL, Rdata: a.Zone.SOA.Rdata}
		b.proofs = append(b.proofs, b.signatures(z, z.Name, soa, a.Zone.Negative.TTL, dnssec.Own)...)
		b.deny(z)
	case routing.Delegation:
		if a.DS == nil {
			b.prove(z, b.m.denier(z, a.Zone).at(a.Owner, 0), dnssec.Own)
			return
		}
		set := dnssec.Set{Owner: a.Owner, Type: dns.TypeDS, TTL: a.DS.TTL, Rdata: a.DS.Rdata}
		b.proofs = append(b.proofs, set.Records(spelled(b.m.Question[0].Name, a.Owner))...)
		b.proofs = append(b.proofs, b.signatures(z, a.Owner, set, set.TTL, dnssec.Own)...)
	}
}

// additional signs the addresses of name servers that are in zones of ours. Beside a
// referral they are glue, and that is not (RFC 4035 2.2). Those that cannot be signed go
// without: the answer does not depend on them (RFC 4035 3.1.1).
func (b *signing) additional() {
	a := &b.m.answer
	if len(b.m.Extra) == 0 || a.Kind == routing.Delegation || b.err != nil {
		return
	}
	for _, g := range a.Additional {
		if types, _ := b.m.table.Types(g.Owner); slices.Contains(types, g.Set.Type) {
			b.extra = append(b.extra, b.rrset(zoneOf(b.m.table, g.Owner), g.Owner, g.Wild, g.Set)...)
			b.err = nil
		}
	}
}
