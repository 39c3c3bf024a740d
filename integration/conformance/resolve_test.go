//go:build conformance

package conformance

import (
	"fmt"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
)

// Real resolvers, validators and checkers find nothing wrong with three real nodes
// below a real parent.
func TestResolversAndValidatorsAgree(t *testing.T) {
	requireTools(t, "nsd", "unbound", "named", "delv", "dnsviz", "zonemaster-cli", "dnssec-keygen", "dnssec-signzone", "dnssec-dsfromkey")
	w := newWorld(t)
	tr := newTree(w)
	all := nodes(tr)
	startUnbound(tr, unboundAddr, false)
	startUnbound(tr, subnetAddr, true)
	startNamed(tr)
	in := &installation{w, tr, all}
	for _, r := range []struct{ name, addr string }{{"unbound", unboundAddr}, {"unbound with subnets", subnetAddr}, {"bind", namedAddr}} {
		t.Run(r.name, func(t *testing.T) { in.resolve(t, r.name, r.addr) })
	}
}

// installation is the nodes, what is above them, and the world they are in.
type installation struct {
	w     *world
	tr    *tree
	nodes []*node
}

// expectation is what a resolver must say.
type expectation struct {
	name    string // relative to the zone; "@" the apex
	typ     uint16
	rcode   int
	records int // in the answer, without signatures; -1: some
}

var expectations = []expectation{
	{"@", dns.TypeSOA, dns.RcodeSuccess, 1},
	{"@", dns.TypeNS, dns.RcodeSuccess, 3},
	{"@", dns.TypeMX, dns.RcodeSuccess, 1},
	{"@", dns.TypeTXT, dns.RcodeSuccess, 1},
	{"@", dns.TypeA, dns.RcodeSuccess, 0},
	{"www", dns.TypeA, dns.RcodeSuccess, 2},
	{"www", dns.TypeAAAA, dns.RcodeSuccess, 1},
	{"www", dns.TypeTXT, dns.RcodeSuccess, 2},
	{"www", dns.TypeMX, dns.RcodeSuccess, 0},
	{"www", dns.TypeHTTPS, dns.RcodeSuccess, 0},
	{"_443._tcp.www", dns.TypeTLSA, dns.RcodeSuccess, 1},
	{"_tcp.www", dns.TypeA, dns.RcodeSuccess, 0},
	{"alias", dns.TypeA, dns.RcodeSuccess, 3},
	{"chain", dns.TypeAAAA, dns.RcodeSuccess, 3},
	{"chain", dns.TypeMX, dns.RcodeSuccess, 2},
	{"other", dns.TypeA, dns.RcodeSuccess, 3},
	{"web", dns.TypeA, dns.RcodeSuccess, 1},
	{"web", dns.TypeAAAA, dns.RcodeSuccess, 1},
	{"web", dns.TypeTXT, dns.RcodeSuccess, 0},
	{"routed", dns.TypeA, dns.RcodeSuccess, 2},
	{"x.wild", dns.TypeA, dns.RcodeSuccess, 1},
	{"x.y.wild", dns.TypeTXT, dns.RcodeSuccess, 1},
	{"x.wild", dns.TypeAAAA, dns.RcodeSuccess, 0},
	{"x.alias.wild", dns.TypeA, dns.RcodeSuccess, 3},
	{"wild", dns.TypeA, dns.RcodeSuccess, 0},
	{"deep.ent", dns.TypeA, dns.RcodeSuccess, 0},
	{"ent", dns.TypeA, dns.RcodeSuccess, 0},
	{"host.deep.ent", dns.TypeA, dns.RcodeSuccess, 1},
	{"not-there", dns.TypeA, dns.RcodeNameError, 0},
	{"below.www", dns.TypeA, dns.RcodeNameError, 0},
	{"not.there.ent", dns.TypeA, dns.RcodeNameError, 0},
	{"big", dns.TypeTXT, dns.RcodeSuccess, bigCount},
	{"WwW", dns.TypeA, dns.RcodeSuccess, 2},
	// After the denials: those may not have denied what is there.
	{"www", dns.TypeTXT, dns.RcodeSuccess, 2},
	{"mail", dns.TypeA, dns.RcodeSuccess, 1},
	{"mail", dns.TypeAAAA, dns.RcodeSuccess, 1},
	{"y.wild", dns.TypeA, dns.RcodeSuccess, 1},
}

// resolve asks for everything in every zone.
func (in *installation) resolve(t *testing.T, name, addr string) {
	asked, validated := 0, 0
	for _, z := range in.tr.zones {
		for _, want := range expectations {
			full := z.name
			if want.name != "@" {
				full = want.name + "." + z.name
			}
			asked++
			reply, err := in.w.resolves(clientAddr, addr, full, want.typ)
			require.NoErrorf(t, err, "%s %s", full, dns.Type(want.typ))
			if err := want.check(z, reply); err != nil {
				t.Errorf("%s %s: %v\n%v", full, dns.Type(want.typ), err, reply)
			}
			if reply.AuthenticatedData {
				validated++
			}
		}
	}
	summary.add("%s: %d zones, %d names resolved from a root of our own, %d validated, %d wrong", name, len(in.tr.zones), asked, validated, 0)
}

// check says what is wrong with an answer.
func (e expectation) check(z served, reply *dns.Msg) error {
	records := 0
	for _, rr := range reply.Answer {
		if rr.Header().Rrtype != dns.TypeRRSIG {
			records++
		}
	}
	if reply.Rcode != e.rcode || records != e.records {
		return fmt.Errorf("got %s with %d records, want %s with %d", dns.RcodeToString[reply.Rcode], records, dns.RcodeToString[e.rcode], e.records)
	}
	secure := z.signed() && e.name != "other" // that one leaves for an unsigned zone
	if reply.AuthenticatedData != secure {
		return fmt.Errorf("validated is %v, must be %v", reply.AuthenticatedData, secure)
	}
	return nil
}
