//go:build integration

package cluster

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
)

// resolver answers one name, on a host of its own, with what it is told: another
// set on each port, so that nodes can be told different things.
type resolver struct {
	*host
	mu      sync.Mutex
	answers map[int][]netip.Addr // by port
}

// resolverPorts are what the nodes ask, by node.
var resolverPorts = map[string]int{"eu-1": 5301, "us-1": 5302, "ap-1": 5303}

const (
	hostname     = "lb.dr.test."
	resolverAddr = "10.77.0.99"
)

func newResolver(t *testing.T, h *host) *resolver {
	t.Helper()
	r := &resolver{host: h, answers: map[int][]netip.Addr{}}
	for _, port := range resolverPorts {
		var conn net.PacketConn
		require.NoError(t, h.inside(func() (err error) {
			conn, err = new(net.ListenConfig).ListenPacket(context.Background(), "udp", netip.AddrPortFrom(h.addr, uint16(port)).String())
			return err
		}))
		server := &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) { _ = w.WriteMsg(r.answer(port, q)) })}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = server.ActivateAndServe() // ends with Shutdown
		}()
		t.Cleanup(func() {
			_ = server.Shutdown()
			<-done
		})
	}
	return r
}

// say has the nodes told these addresses from now on.
func (r *resolver) say(addrs string, nodes ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []netip.Addr
	for _, a := range strings.Fields(addrs) {
		list = append(list, netip.MustParseAddr(a))
	}
	for _, n := range nodes {
		r.answers[resolverPorts[n]] = list
	}
}

func (r *resolver) answer(port int, q *dns.Msg) *dns.Msg {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := new(dns.Msg)
	m.SetReply(q)
	m.RecursionAvailable = true
	if q.Question[0].Name != hostname {
		m.Rcode = dns.RcodeNameError
		return m
	}
	for _, a := range r.answers[port] {
		if q.Question[0].Qtype == dns.TypeA && a.Is4() {
			m.Answer = append(m.Answer, &dns.A{Hdr: dns.RR_Header{Name: hostname, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 1}, A: a.AsSlice()})
		}
	}
	return m
}
