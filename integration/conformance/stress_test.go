//go:build conformance

package conformance

import (
	"fmt"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
)

// aggressiveAddr is a resolver that has heard nothing yet.
const aggressiveAddr = "53.0.0.24"

// A resolver that answers from NSEC records it has (RFC 8198) hears first what is not
// there, at every name and between them. A record that denies too much would hide a
// type that a name has, such as the family of addresses that was not asked yet.
func (in *installation) aggressive(t *testing.T) {
	in.w.address(aggressiveAddr)
	u := startUnbound(in.tr, aggressiveAddr, false)
	denied, found := 0, 0
	ask := func(name string, z served, typ uint16) *dns.Msg {
		reply, err := in.w.resolves(clientAddr, aggressiveAddr, full(name, z), typ)
		require.NoErrorf(t, err, "%s %s", full(name, z), dns.Type(typ))
		require.Equalf(t, z.signed(), reply.AuthenticatedData, "%s %s\n%v", full(name, z), dns.Type(typ), reply)
		return reply
	}
	for _, z := range in.tr.zones {
		if !z.signed() {
			continue
		}
		for _, e := range expectations {
			if e.rcode == dns.RcodeSuccess && e.name != "other" && !e.below() {
				_ = ask(e.name, z, dns.TypeAFSDB) // nobody has it: only the denial counts
				denied++
			}
		}
		for i := range 40 {
			for _, parent := range []string{"", ".www", ".ent", ".deep.ent", ".web"} {
				reply := ask(fmt.Sprintf("no-%c-%d%s", 'a'+i%26, i, parent), z, dns.TypeA)
				require.Emptyf(t, reply.Answer, "%v", reply)
				denied++
			}
		}
	}
	for _, z := range in.tr.zones {
		for _, e := range expectations {
			if !z.signed() || e.rcode != dns.RcodeSuccess || e.name == "other" || e.below() && e.typ != dns.TypeDS {
				continue
			}
			found++
			require.NoErrorf(t, e.check(z, ask(e.name, z, e.typ)), "%s %s was hidden by a denial", full(e.name, z), dns.Type(e.typ))
		}
	}
	names, data := u.count(t, "num.query.aggressive.NXDOMAIN"), u.count(t, "num.query.aggressive.NOERROR")
	require.Positive(t, names, "nothing was denied by what unbound had: NSEC records are not used")
	summary.add("unbound, aggressive NSEC: %d denials (%d names and %d types without asking), then %d answers, 0 hidden", denied, names, data, found)
}

// The nodes hear who asks, so each client is sent to the cluster it is inside.
func (in *installation) subnet(t *testing.T) {
	asked := 0
	for _, z := range in.tr.zones {
		for range 3 {
			for client, want := range map[string]string{euClientAddr: sites[0].addr, usClientAddr: sites[1].addr} {
				asked++
				reply, err := in.w.resolves(client, subnetAddr, "web."+z.name, dns.TypeA)
				require.NoError(t, err)
				require.NotEmptyf(t, reply.Answer, "%v", reply)
				require.Equalf(t, want, reply.Answer[0].(*dns.A).A.String(), "for %s\n%v", client, reply)
				require.Equal(t, z.signed(), reply.AuthenticatedData)
			}
		}
	}
	summary.add("unbound, client subnet: %d answers, each for the network that asked", asked)
}

const (
	lossQueries  = 120
	lossPatience = 5 * time.Second // of a client, before it asks again (RFC 1536 1)
)

// A node dies during queries and returns. Another one hangs meanwhile, which costs a
// resolver more: nobody tells it. Each name is new, so nothing is in a cache. No
// resolution needs more than one retry.
func (in *installation) loss(t *testing.T, r resolver) {
	dead, hung := in.nodes[0], in.nodes[1]
	defer hung.resume()
	retried, slowest := 0, time.Duration(0)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for i := range lossQueries {
		<-tick.C
		switch {
		case i == lossQueries/5:
			dead.kill()
		case i == lossQueries*2/5:
			dead.run()
			in.w.until(dead.process, dead.addr, "web."+in.tr.zones[0].name, dns.TypeA)
		case i == lossQueries*3/5 && r.hang:
			hung.pause()
		case i == lossQueries*4/5:
			hung.resume()
		}
		z := in.tr.zones[i%len(in.tr.zones)]
		m := new(dns.Msg)
		m.SetQuestion(fmt.Sprintf("%s-%d.wild.%s", r.addr[len(r.addr)-2:], i, z.name), dns.TypeA)
		start := time.Now()
		reply, err := in.w.ask(clientAddr, r.addr, m, lossPatience)
		if err != nil || reply.Rcode != dns.RcodeSuccess {
			retried++
			reply, err = in.w.ask(clientAddr, r.addr, m, lossPatience)
		}
		require.NoErrorf(t, err, "query %d", i)
		require.Equalf(t, dns.RcodeSuccess, reply.Rcode, "query %d: %v", i, reply)
		require.NotEmptyf(t, reply.Answer, "query %d: %v", i, reply)
		slowest = max(slowest, time.Since(start))
	}
	what := "a node killed"
	if r.hang {
		what = "a node killed, another hung"
	}
	summary.add("%s, %s: %d names, %d retries, 0 failed, slowest %v", r.name, what, lossQueries, retried, slowest.Round(time.Millisecond))
}
