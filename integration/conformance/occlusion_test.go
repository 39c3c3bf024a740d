//go:build conformance

package conformance

import (
	"slices"

	"github.com/miekg/dns"
)

// accepted returns the sets that a spec may hold. The others are in the master files
// alone: data that a cut or an inner zone hides is refused by plan, and that
// it is never seen is what the peers must confirm.
func (z *zoneFile) accepted() map[string][]set {
	hosts := z.hosts()
	out := map[string][]set{}
	for name, sets := range z.sets {
		over := z.over(name)
		cut := len(z.at(name, dns.TypeNS)) > 0
		for _, s := range sets {
			address := s.typ == dns.TypeA || s.typ == dns.TypeAAAA
			switch {
			case z.cedes(name) && s.typ != dns.TypeDS:
			case over != "" && !(address && hosts[name]):
			case over == "" && cut && s.typ != dns.TypeNS && s.typ != dns.TypeDS && !(address && hosts[name]):
			default:
				out[name] = append(out[name], s)
			}
		}
	}
	return out
}

// cedes reports whether a name belongs to a zone inside this one.
func (z *zoneFile) cedes(name string) bool {
	return slices.ContainsFunc(z.inner, func(inner string) bool { return dns.IsSubDomain(inner, name) })
}

// over returns the topmost cut above a name, or "".
func (z *zoneFile) over(name string) (over string) {
	for up := name; up != z.name; {
		next, _ := dns.NextLabel(up, 0)
		if up = up[next:]; up != z.name && len(z.at(up, dns.TypeNS)) > 0 {
			over = up
		}
	}
	return over
}

// hosts are the name servers of the zone's cuts.
func (z *zoneFile) hosts() map[string]bool {
	hosts := map[string]bool{}
	for name := range z.sets {
		if z.over(name) != "" || z.cedes(name) {
			continue
		}
		for _, host := range z.at(name, dns.TypeNS) {
			hosts[host] = true
		}
	}
	return hosts
}
