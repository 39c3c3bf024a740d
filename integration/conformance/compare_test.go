//go:build conformance

package conformance

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// said is what of an answer is compared. Everything in it is in one spelling.
type said struct {
	rcode    int
	aa       bool
	question string   // exactly as it came back
	answer   []string // sorted
	soa      []string // in authority, the serial set to 0
	ns       []string // in authority, sorted
	glue     []string // addresses of the name servers in ns that lie below its owner, sorted
}

// saidBy reads an answer.
func saidBy(m *dns.Msg) said {
	s := said{rcode: m.Rcode, aa: m.Authoritative}
	if len(m.Question) == 1 {
		s.question = m.Question[0].String()
	}
	for _, rr := range m.Answer {
		s.answer = append(s.answer, spelling(rr))
	}
	cut, hosts := "", map[string]bool{}
	for _, rr := range m.Ns {
		switch rr := rr.(type) {
		case *dns.SOA:
			s.soa = append(s.soa, spelling(rr))
		case *dns.NS:
			s.ns = append(s.ns, spelling(rr))
			cut = strings.ToLower(rr.Hdr.Name)
			hosts[strings.ToLower(rr.Ns)] = true
		}
	}
	for _, rr := range m.Extra {
		name := strings.ToLower(rr.Header().Name)
		if hosts[name] && !m.Authoritative && dns.IsSubDomain(cut, name) {
			s.glue = append(s.glue, spelling(rr))
		}
	}
	for _, list := range [][]string{s.answer, s.ns, s.glue} {
		slices.Sort(list)
	}
	return s
}

// spelling writes a record so that equal ones are equal text: names in lower case,
// data in its wire form, a serial as 0.
func spelling(rr dns.RR) string {
	rr = dns.Copy(rr)
	if rr, ok := rr.(*dns.SOA); ok {
		rr.Serial = 0
	}
	h := rr.Header()
	buf := make([]byte, dns.Len(rr)+64)
	end, err := dns.PackRR(rr, buf, 0, nil, false)
	if err != nil {
		return fmt.Sprintf("%v: %v", rr, err)
	}
	start, _ := dns.PackDomainName(h.Name, make([]byte, 256), 0, nil, false) // it was packed just now
	data := buf[start+10 : end]
	if named[h.Rrtype] {
		data = lower(data)
	}
	return fmt.Sprintf("%s %d %s %s", strings.ToLower(h.Name), h.Ttl, dns.Type(h.Rrtype), hex.EncodeToString(data))
}

// lower puts the ASCII letters of wire data in lower case. Length octets are below
// them, and equal data stays equal.
func lower(data []byte) []byte {
	out := slices.Clone(data)
	for i, c := range out {
		if c >= 'A' && c <= 'Z' {
			out[i] = c - 'A' + 'a'
		}
	}
	return out
}

// named are the types whose data holds names that servers may put in lower case
// (RFC 4034 6.2).
var named = map[uint16]bool{
	dns.TypeNS: true, dns.TypeCNAME: true, dns.TypeSOA: true, dns.TypePTR: true, dns.TypeMX: true, dns.TypeSRV: true,
	dns.TypeRP: true, dns.TypeAFSDB: true, dns.TypeKX: true, dns.TypeRT: true, dns.TypePX: true, dns.TypeMINFO: true,
	dns.TypeNAPTR: true,
}

// parts names in what two answers differ.
func (s said) parts(o said) []string {
	var parts []string
	for _, p := range []struct {
		name string
		same bool
	}{
		{"rcode", s.rcode == o.rcode},
		{"aa", s.aa == o.aa},
		{"question", s.question == o.question},
		{"answer", slices.Equal(s.answer, o.answer)},
		{"soa", slices.Equal(s.soa, o.soa)},
		{"ns", slices.Equal(s.ns, o.ns)},
		{"glue", slices.Equal(s.glue, o.glue)},
	} {
		if !p.same {
			parts = append(parts, p.name)
		}
	}
	return parts
}

func (s said) String() string {
	return fmt.Sprintf("%s aa=%v question=%q\n    answer %v\n    soa %v\n    ns %v\n    glue %v", dns.RcodeToString[s.rcode], s.aa, s.question, s.answer, s.soa, s.ns, s.glue)
}
