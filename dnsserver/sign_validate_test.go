package dnsserver

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
)

// keyring holds the keys of signed zones, by zone.
type keyring map[string][]*dns.DNSKEY

// trusted fetches the keys of the signed zones and checks that each KSK signs them.
func trusted(t *testing.T, s *Server) keyring {
	k := keyring{}
	for _, z := range []string{zone, childZone} {
		m := askSigned(t, s, z, dns.TypeDNSKEY)
		var set []dns.RR
		var sigs []*dns.RRSIG
		for _, rr := range m.Answer {
			switch rr := rr.(type) {
			case *dns.DNSKEY:
				k[z] = append(k[z], rr)
				set = append(set, rr)
			case *dns.RRSIG:
				sigs = append(sigs, rr)
			}
		}
		require.Len(t, set, 2)
		require.Len(t, sigs, 1)
		for _, key := range k[z] {
			if key.Flags&dns.SEP != 0 {
				require.NoError(t, sigs[0].Verify(key, set))
			}
		}
	}
	return k
}

// signerOf returns the zone that signed a set of the message; of any set if name is empty.
func signerOf(m *dns.Msg, name string, qtype uint16) string {
	for _, rr := range slices.Concat(m.Answer, m.Ns, m.Extra) {
		if sig, ok := rr.(*dns.RRSIG); ok && (name == "" || strings.EqualFold(sig.Hdr.Name, name) && sig.TypeCovered == qtype) {
			return sig.SignerName
		}
	}
	return ""
}

// validation is a message that is being checked by RFC 4035 5.
type validation struct {
	keys  keyring
	m     *dns.Msg
	name  string
	qtype uint16
	nsecs []*dns.NSEC
}

// sets returns the RRsets of a section with the signatures that cover them.
func sets(section []dns.RR) (out [][]dns.RR, sigs []*dns.RRSIG) {
	for _, rr := range section {
		if sig, ok := rr.(*dns.RRSIG); ok {
			sigs = append(sigs, sig)
			continue
		}
		i := slices.IndexFunc(out, func(set []dns.RR) bool {
			return strings.EqualFold(set[0].Header().Name, rr.Header().Name) && set[0].Header().Rrtype == rr.Header().Rrtype
		})
		if i < 0 {
			out = append(out, []dns.RR{rr})
			continue
		}
		out[i] = append(out[i], rr)
	}
	return out, sigs
}

func (v *validation) check(now time.Time) error {
	if plain := "plain." + zone; dns.IsSubDomain(plain, v.name) && (v.qtype != dns.TypeDS || !strings.EqualFold(plain, v.name)) {
		if signerOf(v.m, "", 0) != "" {
			return errors.New("an unsigned zone has signatures")
		}
		return nil
	}
	if v.m.Rcode == dns.RcodeServerFailure {
		return errors.New("servfail")
	}
	authority, authoritySigs := sets(v.m.Ns)
	for _, set := range authority {
		h := set[0].Header()
		if h.Rrtype == dns.TypeNS && !v.m.Authoritative {
			continue // of a referral, which the parent does not sign
		}
		if err := v.signed(set, authoritySigs, now); err != nil {
			return err
		}
		if n, ok := set[0].(*dns.NSEC); ok {
			v.nsecs = append(v.nsecs, n)
		}
	}
	answers, answerSigs := sets(v.m.Answer)
	if v.qtype == dns.TypeRRSIG && len(answerSigs) > 0 {
		return nil // signatures are not signed
	}
	at := dns.CanonicalName(v.name)
	found := false
	for i, set := range answers {
		h := set[0].Header()
		if h.Rrtype == dns.TypeDNAME && dns.CanonicalName(h.Name) != at && dns.IsSubDomain(h.Name, at) {
			if err := v.signed(set, answerSigs, now); err != nil {
				return err
			}
			continue
		}
		if dns.CanonicalName(h.Name) != at {
			return fmt.Errorf("%s out of place in the answer, want one of %s", set[0], at)
		}
		made := h.Rrtype == dns.TypeCNAME && i > 0 && answers[i-1][0].Header().Rrtype == dns.TypeDNAME
		err := v.signed(set, answerSigs, now)
		switch {
		case made && err == nil:
			return fmt.Errorf("%v is made from a DNAME, and signed", set[0])
		case !made && err != nil:
			return err
		}
		if h.Rrtype == v.qtype || v.qtype == dns.TypeANY {
			found = true
			break
		}
		at = dns.CanonicalName(set[0].(*dns.CNAME).Target)
	}
	switch {
	case found, !dns.IsSubDomain(zone, at):
		return nil
	case v.m.Authoritative || len(v.m.Answer) > 0 && v.m.Rcode != 0:
		return v.negative(at)
	}
	return v.referral()
}

// signed checks that a set has a good signature, and, where a wildcard gave it, that
// the name is not there (RFC 4035 5.3).
func (v *validation) signed(set []dns.RR, sigs []*dns.RRSIG, now time.Time) error {
	h := set[0].Header()
	for _, sig := range sigs {
		if !strings.EqualFold(sig.Hdr.Name, h.Name) || sig.TypeCovered != h.Rrtype {
			continue
		}
		if sig.Hdr.Name != h.Name || sig.Hdr.Ttl != h.Ttl {
			return fmt.Errorf("%v: the signature has another spelling or TTL: %v", set[0], sig)
		}
		if !sig.ValidityPeriod(now) {
			return fmt.Errorf("%v is not valid now", sig)
		}
		if h.Ttl > sig.OrigTtl {
			return fmt.Errorf("%v: TTL above the original one", set[0])
		}
		for _, key := range v.keys[sig.SignerName] {
			if key.KeyTag() != sig.KeyTag {
				continue
			}
			if err := sig.Verify(key, set); err != nil {
				return fmt.Errorf("%v: %w", set[0], err)
			}
			if !dns.IsSubDomain(sig.SignerName, h.Name) {
				return fmt.Errorf("%v: signed by a zone it is not in", set[0])
			}
			if h.Rrtype == dns.TypeDS && strings.EqualFold(sig.SignerName, h.Name) {
				return fmt.Errorf("%v: signed by the zone that it is about", set[0])
			}
			labels := dns.CountLabel(h.Name)
			if strings.HasPrefix(h.Name, "*.") {
				labels--
			}
			if int(sig.Labels) < labels {
				return v.denied(h.Name)
			}
			return nil
		}
	}
	return fmt.Errorf("no signature of %v", set[0])
}

func (v *validation) denied(name string) error {
	for _, rr := range v.m.Ns {
		if n, ok := rr.(*dns.NSEC); ok && covers(n, name) {
			return nil
		}
	}
	return fmt.Errorf("no proof that %s itself is not there", name)
}

func (v *validation) matching(name string) *dns.NSEC {
	for _, n := range v.nsecs {
		if dns.CanonicalName(n.Hdr.Name) == dns.CanonicalName(name) {
			return n
		}
	}
	return nil
}

// negative checks the proof that the type is not at the name, or the name is not there
// (RFC 4035 5.4, RFC 9824).
func (v *validation) negative(name string) error {
	if v.m.Rcode == dns.RcodeYXDomain {
		return nil
	}
	if n := v.matching(name); n != nil {
		switch {
		case v.m.Rcode != dns.RcodeSuccess:
			return fmt.Errorf("rcode %d and an NSEC record of the name", v.m.Rcode)
		case slices.Contains(n.TypeBitMap, dns.TypeNXNAME):
			if len(n.TypeBitMap) != 3 {
				return fmt.Errorf("%v is of a name that is not there, and has types", n)
			}
		case slices.Contains(n.TypeBitMap, v.qtype), slices.Contains(n.TypeBitMap, dns.TypeCNAME):
			return fmt.Errorf("%v does not deny %s", n, dns.Type(v.qtype))
		case slices.Contains(n.TypeBitMap, dns.TypeNS) != slices.Contains(n.TypeBitMap, dns.TypeSOA) && v.qtype != dns.TypeDS:
			return fmt.Errorf("%v is of the upper zone, or of none", n)
		}
		return nil
	}
	if err := v.denied(name); err != nil {
		return err
	}
	for _, n := range v.nsecs {
		if covers(n, name) && dns.IsSubDomain(name, n.NextDomain) {
			if v.m.Rcode != dns.RcodeSuccess {
				return errors.New("an empty non-terminal is no name error")
			}
			return nil
		}
	}
	encloser := v.encloser(name)
	wild := "*." + encloser
	if n := v.matching(wild); n != nil {
		if v.m.Rcode != dns.RcodeSuccess || slices.Contains(n.TypeBitMap, v.qtype) || slices.Contains(n.TypeBitMap, dns.TypeCNAME) {
			return fmt.Errorf("%v does not deny %s", n, dns.Type(v.qtype))
		}
		return nil
	}
	if v.m.Rcode != dns.RcodeNameError {
		return errors.New("the name is denied and the code says it is there")
	}
	return v.denied(wild)
}

// encloser is the longest name above one that is denied which the proof shows to be there.
func (v *validation) encloser(name string) string {
	best := 0
	for _, n := range v.nsecs {
		if covers(n, name) {
			best = max(best, dns.CompareDomainName(name, n.Hdr.Name), dns.CompareDomainName(name, n.NextDomain))
		}
	}
	labels := dns.SplitDomainName(name)
	return dns.Fqdn(strings.Join(labels[len(labels)-best:], "."))
}

// referral checks that the delegation is secure, or provably not (RFC 4035 5.2).
func (v *validation) referral() error {
	var cut string
	ds := false
	for _, rr := range v.m.Ns {
		switch rr.(type) {
		case *dns.NS:
			cut = rr.Header().Name
		case *dns.DS:
			ds = true
		}
	}
	if cut == "" {
		return errors.New("neither answer nor proof nor referral")
	}
	n := v.matching(cut)
	switch {
	case ds && n == nil:
		return nil
	case ds, n == nil, !slices.Contains(n.TypeBitMap, dns.TypeNS), slices.Contains(n.TypeBitMap, dns.TypeSOA), slices.Contains(n.TypeBitMap, dns.TypeDS):
		return fmt.Errorf("referral to %s: DS %v, NSEC %v", cut, ds, n)
	}
	return nil
}

// covers reports whether an NSEC record denies that name is there. The last of a
// chain leads to the apex.
func covers(n *dns.NSEC, name string) bool {
	owner, next := order(n.Hdr.Name), order(n.NextDomain)
	at := order(name)
	if slices.CompareFunc(owner, next, bytes.Compare) >= 0 {
		return slices.CompareFunc(owner, at, bytes.Compare) < 0 && dns.IsSubDomain(n.NextDomain, name)
	}
	return slices.CompareFunc(owner, at, bytes.Compare) < 0 && slices.CompareFunc(at, next, bytes.Compare) < 0
}

// order returns a name's labels as RFC 4034 6.1 compares them.
func order(name string) (labels [][]byte) {
	wire := make([]byte, 256)
	if _, err := dns.PackDomainName(dns.CanonicalName(name), wire, 0, nil, false); err != nil {
		panic(err)
	}
	for at := 0; wire[at] != 0; at += 1 + int(wire[at]) {
		labels = append(labels, wire[at+1:at+1+int(wire[at])])
	}
	slices.Reverse(labels)
	return labels
}
