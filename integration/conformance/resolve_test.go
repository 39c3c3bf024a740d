//go:build conformance

package conformance

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
)

// installation is three nodes, what is above and below their zones, and the world that
// they are in.
type installation struct {
	w     *world
	tr    *tree
	nodes []*node
}

// Real resolvers, validators and checkers find nothing wrong with three real nodes
// below a real parent.
func TestResolversAndValidatorsAgree(t *testing.T) {
	requireTools(t, "nsd", "unbound", "unbound-control", "named", "delv", "dnsviz", "zonemaster-cli", "dnssec-keygen", "dnssec-signzone", "dnssec-dsfromkey")
	w := newWorld(t)
	tr := newTree(w)
	in := &installation{w, tr, nodes(tr)}
	u := startUnbound(tr, unboundAddr, false)
	startUnbound(tr, subnetAddr, true)
	startNamed(tr)
	resolvers := []resolver{{"unbound", unboundAddr, false}, {"unbound with subnets", subnetAddr, true}, {"bind", namedAddr, true}}
	for _, r := range resolvers {
		t.Run(r.name+" resolves everything", func(t *testing.T) { in.resolve(t, r) })
	}
	t.Run("unbound denies by NSEC records it has, and nothing that is there", in.aggressive)
	t.Run("unbound says who asks", in.subnet)
	t.Run("delv validates", in.delv)
	t.Run("dnsviz finds no error", in.dnsviz)
	t.Run("zonemaster finds no error", in.zonemaster)
	for _, bad := range []string{"wrong 0x20", "Capsforid"} {
		require.NotContains(t, u.text(), bad, "the case of the question came back")
	}
	// From here on nodes are missing.
	for _, r := range resolvers {
		t.Run(r.name+" resolves while nodes die", func(t *testing.T) { in.loss(t, r) })
	}
}

// resolver is where one listens, and whether nodes hang while it is asked. Who changes
// the case of names asks all servers again when one is silent, and waits for all.
type resolver struct {
	name, addr string
	hang       bool
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
	{"big", dns.TypeTXT, dns.RcodeSuccess, bigCount}, // over TCP
	{"www.sub", dns.TypeA, dns.RcodeSuccess, 1},
	{"www.secure", dns.TypeA, dns.RcodeSuccess, 1},
	{"secure", dns.TypeDS, dns.RcodeSuccess, 1},
	{"sub", dns.TypeDS, dns.RcodeSuccess, 0},
	{"not-there.secure", dns.TypeA, dns.RcodeNameError, 0},
	{"WwW", dns.TypeA, dns.RcodeSuccess, 2},
	// After the denials: those may not have denied what is there.
	{"www", dns.TypeTXT, dns.RcodeSuccess, 2},
	{"mail", dns.TypeA, dns.RcodeSuccess, 1},
	{"mail", dns.TypeAAAA, dns.RcodeSuccess, 1},
	{"y.wild", dns.TypeA, dns.RcodeSuccess, 1},
}

// full is the name in a zone.
func full(name string, z served) string {
	if name == "@" {
		return z.name
	}
	return name + "." + z.name
}

// resolve asks for everything in every zone.
func (in *installation) resolve(t *testing.T, r resolver) {
	asked, validated, wrong := 0, 0, 0
	for _, z := range in.tr.zones {
		for _, want := range expectations {
			asked++
			name := full(want.name, z)
			reply, err := in.w.resolves(clientAddr, r.addr, name, want.typ)
			require.NoErrorf(t, err, "%s %s", name, dns.Type(want.typ))
			if err := want.check(z, reply); err != nil {
				wrong++
				t.Errorf("%s %s: %v\n%v", name, dns.Type(want.typ), err, reply)
			}
			if reply.AuthenticatedData {
				validated++
			}
		}
	}
	summary.add("%s: %d zones from a root of our own, %d answers, %d validated, %d wrong", r.name, len(in.tr.zones), asked, validated, wrong)
}

// check says what is wrong with an answer.
func (e expectation) check(z served, reply *dns.Msg) error {
	records := 0
	for _, rr := range reply.Answer {
		if rr.Header().Rrtype != dns.TypeRRSIG {
			records++
		}
	}
	rcode := e.rcode
	compact := z.denial == "compact" && !e.below()
	if rcode == dns.RcodeNameError && compact {
		rcode = dns.RcodeSuccess // and NXNAME says the rest (RFC 9824 3.4)
		if !says(reply, dns.TypeNXNAME) {
			return errors.New("no NSEC record says that the name does not exist")
		}
	}
	if reply.Rcode != rcode || records != e.records {
		return fmt.Errorf("got %s with %d records, want %s with %d", dns.RcodeToString[reply.Rcode], records, dns.RcodeToString[rcode], e.records)
	}
	secure := z.signed() && e.name != "other" && e.name != "www.sub" // those end in zones that are not signed
	if reply.AuthenticatedData != secure {
		return fmt.Errorf("validated is %v, must be %v", reply.AuthenticatedData, secure)
	}
	return nil
}

// below reports whether a zone below answers, or its cut.
func (e expectation) below() bool {
	return strings.HasSuffix(e.name, "sub") || strings.HasSuffix(e.name, "secure")
}

// says reports whether an NSEC record of the answer lists a type.
func says(reply *dns.Msg, typ uint16) bool {
	return slices.ContainsFunc(reply.Ns, func(rr dns.RR) bool {
		nsec, ok := rr.(*dns.NSEC)
		return ok && slices.Contains(nsec.TypeBitMap, typ)
	})
}
