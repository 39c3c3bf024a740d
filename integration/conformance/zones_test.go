//go:build conformance

package conformance

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// zoneFile is one generated zone. What is in it depends on the seed alone.
type zoneFile struct {
	name  string // lower case, with the final dot
	soa   soa
	ns    []string
	ttl   uint32 // of SOA and NS
	sets  map[string][]set
	cuts  []string // names that are delegated
	inner []string // zones inside this one
}

type soa struct {
	mname, rname                    string
	refresh, retry, expire, minimum uint32
}

// set is the records of one type at one name.
type set struct {
	typ   uint16
	ttl   uint32
	rdata []string
}

// generator makes one zone.
type generator struct {
	*rand.Rand
	z *zoneFile
}

// generate makes the zones of a seed: about one in six lies inside another.
func generate(seed uint64, count int) []*zoneFile {
	var zones []*zoneFile
	for i := 0; len(zones) < count; i++ {
		g := generator{Rand: rand.New(rand.NewPCG(seed, uint64(i)))}
		z := g.zone(fmt.Sprintf("z%04d.test.", i))
		zones = append(zones, z)
		for _, inner := range []string{"inner", "deep.er"} {
			if len(zones) < count && g.IntN(10) == 0 {
				zones = append(zones, g.nested(z, inner))
			}
		}
	}
	return zones
}

// zone makes a zone with a bit of everything.
func (g *generator) zone(name string) *zoneFile {
	g.z = &zoneFile{name: name, sets: map[string][]set{}, ttl: g.ttl()}
	g.apex()
	for range 2 + g.IntN(6) {
		g.fill(g.name(g.owner()), 1+g.IntN(3))
	}
	for range g.IntN(3) {
		g.wildcard()
	}
	for range g.IntN(4) {
		g.chain()
	}
	for range g.IntN(3) {
		g.cut(g.owner())
	}
	if g.IntN(6) == 0 {
		g.rename()
	}
	if g.IntN(8) == 0 {
		g.large()
	}
	return g.z
}

// nested makes a zone inside another, which delegates it. The master file of the outer
// zone has the cut; quorate derives it, and is told the DS alone.
func (g *generator) nested(outer *zoneFile, owner string) *zoneFile {
	inner := g.zone(owner + "." + outer.name)
	for name := range outer.sets {
		if dns.IsSubDomain(inner.name, name) || dns.IsSubDomain(name, inner.name) && len(outer.at(name, dns.TypeNS)) > 0 {
			delete(outer.sets, name) // what is in the inner zone, and cuts above it
		}
	}
	outer.inner = append(outer.inner, inner.name)
	outer.add(inner.name, g.ttl(), dns.TypeNS, slices.Clone(inner.ns)...)
	for _, host := range inner.ns {
		for _, s := range inner.sets[host] {
			if dns.IsSubDomain(inner.name, host) && (s.typ == dns.TypeA || s.typ == dns.TypeAAAA) {
				outer.add(host, s.ttl, s.typ, s.rdata...)
			}
		}
	}
	if g.IntN(2) == 0 {
		outer.add(inner.name, g.ttl(), dns.TypeDS, ds(g))
	}
	return inner
}

// ds draws the data of a DS record.
func ds(g *generator) string { return fmt.Sprintf("%d 13 2 %s", g.IntN(65536), hexes(g, 32)) }

// ttl draws a TTL.
func (g *generator) ttl() uint32 {
	return []uint32{1, 30, 60, 300, 3600, 86400}[g.IntN(6)]
}

// labels are few, so that names meet, and lie above and below one another.
var labels = []string{"a", "b", "c", "www", "mail", "_tcp", "_443", "x-1", "db", `dot\.ted`, `bin\001\255`, "sixty-three-octets-is-what-a-label-may-have-at-most-and-this-is"}

// owner draws a relative name of one to four labels.
func (g *generator) owner() string {
	parts := make([]string, 1+min(g.IntN(4), g.IntN(4)))
	for i := range parts {
		parts[i] = labels[min(g.IntN(len(labels)), g.IntN(len(labels)))]
	}
	return strings.Join(parts, ".")
}

// name makes a relative name absolute.
func (g *generator) name(owner string) string { return owner + "." + g.z.name }

// add adds a set with any TTL.
func (g *generator) add(name string, typ uint16, rdata ...string) bool {
	return g.z.add(name, g.ttl(), typ, rdata...)
}

// add adds a set, if the rules of CNAME let it be there.
func (z *zoneFile) add(name string, ttl uint32, typ uint16, rdata ...string) bool {
	there := z.sets[name]
	for _, s := range there {
		if s.typ == typ || s.typ == dns.TypeCNAME {
			return false
		}
	}
	if typ == dns.TypeCNAME && (len(there) > 0 || name == z.name) {
		return false
	}
	z.sets[name] = append(there, set{typ, ttl, distinct(rdata)})
	return true
}

// at returns the data of one type at a name.
func (z *zoneFile) at(name string, typ uint16) []string {
	for _, s := range z.sets[name] {
		if s.typ == typ {
			return s.rdata
		}
	}
	return nil
}

// distinct leaves out what is the same record.
func distinct(rdata []string) []string {
	slices.Sort(rdata)
	return slices.Compact(rdata)
}

// fill puts up to n types at a name.
func (g *generator) fill(name string, n int) {
	for range n {
		k := kinds[g.IntN(len(kinds))]
		if g.IntN(2) == 0 {
			k = kinds[g.IntN(common)]
		}
		var rdata []string
		for range 1 + min(g.IntN(4), g.IntN(4)) {
			rdata = append(rdata, k.draw(g))
		}
		g.add(name, k.typ, rdata...)
	}
}

// apex draws SOA, name servers inside and outside, and more types.
func (g *generator) apex() {
	z := g.z
	for i := range 1 + g.IntN(4) {
		ns := []string{"ns%d." + z.name, "ns%d.servers." + z.name, "ns%d.elsewhere.example."}[g.IntN(3)]
		ns = fmt.Sprintf(ns, i)
		z.ns = append(z.ns, ns)
		if dns.IsSubDomain(z.name, ns) && g.IntN(5) > 0 {
			g.addresses(ns)
		}
	}
	z.soa = soa{z.ns[0], "hostmaster." + z.name, g.ttl(), g.ttl(), g.ttl(), g.ttl()}
	g.fill(z.name, g.IntN(4))
}

// addresses gives a host an IPv4 address, an IPv6 address, or both.
func (g *generator) addresses(name string) {
	which := g.IntN(4)
	if which != 1 {
		g.add(name, dns.TypeA, ipv4(g))
	}
	if which != 0 {
		g.add(name, dns.TypeAAAA, ipv6(g))
	}
}

// wildcard makes a wildcard, sometimes with names beside it, below it, or a
// wildcard that is an alias.
func (g *generator) wildcard() {
	above := g.z.name
	if g.IntN(2) == 0 {
		above = g.name(g.owner())
	}
	wild := "*." + above
	switch g.IntN(4) {
	case 0:
		// It leads to what no alias leads away from: circles are refused at plan.
		to := []string{"www.elsewhere.example.", g.z.name, g.name("plain")}[g.IntN(3)]
		g.add(g.name("plain"), dns.TypeA, ipv4(g))
		g.add(wild, dns.TypeCNAME, to)
	default:
		g.fill(wild, 1+g.IntN(3))
	}
	if g.IntN(2) == 0 {
		g.fill("a.b."+above, 1) // shadows part of the wildcard
	}
}

// target draws where an alias leads: to data, to nothing, out of the zone.
func (g *generator) target() string {
	switch g.IntN(7) {
	case 0:
		return "www.elsewhere.example."
	case 1:
		return g.name("not.there")
	case 2:
		return fmt.Sprintf("www.z%04d.test.", g.IntN(2000)) // another zone, perhaps
	case 3:
		return g.z.name
	case 4:
		return g.name(g.owner())
	}
	names := g.z.names()
	return names[g.IntN(len(names))]
}

// chain makes aliases of aliases. Each has a name nothing leads back to, so no
// chain is a circle: those are refused at plan.
func (g *generator) chain() {
	to := g.target()
	for strings.HasPrefix(to, "*.") || strings.HasPrefix(to, "link") {
		to = g.z.name
	}
	at := g.IntN(1000)
	for i := range 1 + min(g.IntN(7), g.IntN(7)) {
		from := fmt.Sprintf("link%d-%d.%s", at, i, g.z.name)
		if !g.add(from, dns.TypeCNAME, to) {
			return
		}
		to = from
	}
}

// cut delegates a name, with glue, and hides something at and below it.
func (g *generator) cut(owner string) {
	name := g.name(owner)
	for _, s := range g.z.sets[name] {
		if s.typ == dns.TypeCNAME {
			return
		}
	}
	var ns []string
	for i := range 1 + g.IntN(3) {
		ns = append(ns, []string{
			fmt.Sprintf("ns%d.%s", i, name),          // needs glue
			name,                                     // the cut itself
			g.name(fmt.Sprintf("beside%d", i)),       // a host of ours
			fmt.Sprintf("ns%d.provider.example.", i), // somebody else's
		}[min(g.IntN(4), g.IntN(4))])
	}
	g.delegate(name, distinct(ns))
	if g.IntN(2) == 0 {
		g.fill("occluded."+name, 1)
	}
	if g.IntN(4) == 0 {
		g.fill(name, 1)
	}
	if g.IntN(4) == 0 {
		g.fill("*."+name, 1)
	}
}

// delegate adds the records of a cut: NS, glue and perhaps DS.
func (g *generator) delegate(name string, ns []string) {
	if name == g.z.name || !g.add(name, dns.TypeNS, slices.Clone(ns)...) {
		return
	}
	g.z.cuts = append(g.z.cuts, name)
	for _, host := range ns {
		if dns.IsSubDomain(g.z.name, host) {
			g.addresses(host)
		}
	}
	if g.IntN(2) == 0 {
		g.add(name, dns.TypeDS, ds(g))
	}
}

// rename makes a DNAME. Nothing is below it: every server refuses that.
func (g *generator) rename() {
	to := []string{"elsewhere.example.", g.name("renamed"), "renamed.elsewhere.example."}[g.IntN(3)]
	g.add(g.name("old."+g.owner()), dns.TypeDNAME, to)
	g.fill("a."+g.name("renamed"), 2)
}

// large makes a set that no UDP answer holds.
func (g *generator) large() {
	var rdata []string
	typ := []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeTXT}[g.IntN(3)]
	for range 40 + g.IntN(200) {
		switch typ {
		case dns.TypeA:
			rdata = append(rdata, ipv4(g))
		case dns.TypeAAAA:
			rdata = append(rdata, ipv6(g))
		default:
			rdata = append(rdata, fmt.Sprintf("%q", hexes(g, 1+g.IntN(100))))
		}
	}
	g.add(g.name("large"), typ, rdata...)
}

// names lists what has records, sorted.
func (z *zoneFile) names() []string { return slices.Sorted(maps.Keys(z.sets)) }

// unnamed are types that a peer has no name for: they are written in the form for
// unknown types.
var unnamed = map[uint16]bool{dns.TypePX: true, dns.TypeX25: true}

// master writes a master file of the zone with sets of it.
func (z *zoneFile) master(sets map[string][]set) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %d IN SOA %s %s 1 %d %d %d %d\n", z.name, z.ttl, z.soa.mname, z.soa.rname, z.soa.refresh, z.soa.retry, z.soa.expire, z.soa.minimum)
	for _, ns := range z.ns {
		fmt.Fprintf(&b, "%s %d IN NS %s\n", z.name, z.ttl, ns)
	}
	for _, name := range slices.Sorted(maps.Keys(sets)) {
		for _, s := range sets[name] {
			for _, rdata := range s.rdata {
				typ := dns.Type(s.typ).String()
				if unnamed[s.typ] {
					typ, rdata = generic(name, typ, rdata)
				}
				fmt.Fprintf(&b, "%s %d IN %s %s\n", name, s.ttl, typ, rdata)
			}
		}
	}
	return b.String()
}

// generic writes a record of a known type as RFC 3597 does of unknown ones.
func generic(name, typ, rdata string) (number, text string) {
	rr, err := dns.NewRR(name + " IN " + typ + " " + rdata)
	if err != nil {
		panic(fmt.Sprintf("generated %s record %q: %v", typ, rdata, err))
	}
	var unknown dns.RFC3597
	if err := unknown.ToRFC3597(rr); err != nil {
		panic(fmt.Sprintf("generated %s record %q: %v", typ, rdata, err))
	}
	return fmt.Sprintf("TYPE%d", rr.Header().Rrtype), fmt.Sprintf(`\# %d %s`, len(unknown.Rdata)/2, unknown.Rdata)
}
