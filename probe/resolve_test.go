package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
)

// nameServer serves records as a recursive resolver would, over UDP and TCP.
type nameServer struct {
	addr netip.AddrPort
	udp  atomic.Int64
	tcp  atomic.Int64

	records []string                         // in presentation format; the answer to a question is all of them that answer sends
	answer  func(q dns.Question, m *dns.Msg) // nil: the chain that records hold
}

func (s *nameServer) serve(t *testing.T) *nameServer {
	t.Helper()
	pc, l := samePort(t)
	s.addr = netip.MustParseAddrPort(pc.LocalAddr().String())
	for _, srv := range []*dns.Server{{PacketConn: pc}, {Listener: l}} {
		srv.Handler = dns.HandlerFunc(s.ServeDNS)
		started := make(chan struct{})
		srv.NotifyStartedFunc = func() { close(started) }
		done := make(chan struct{})
		go func() { defer close(done); _ = srv.ActivateAndServe() }()
		<-started
		t.Cleanup(func() { _ = srv.Shutdown(); <-done })
	}
	return s
}

func (s *nameServer) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	m := new(dns.Msg).SetReply(q)
	m.RecursionAvailable = true
	over := &s.udp
	if w.RemoteAddr().Network() == "tcp" {
		over = &s.tcp
	}
	over.Add(1)
	name := strings.ToLower(q.Question[0].Name)
	for i := 0; i < len(s.records); i++ {
		rr, err := dns.NewRR(s.records[i])
		if err != nil {
			panic(err)
		}
		if strings.ToLower(rr.Header().Name) != name {
			continue
		}
		if c, ok := rr.(*dns.CNAME); ok {
			m.Answer = append(m.Answer, rr)
			name, i = c.Target, -1
			if len(m.Answer) > 20 {
				break // a loop
			}
			continue
		}
		if rr.Header().Rrtype == q.Question[0].Qtype {
			m.Answer = append(m.Answer, rr)
		}
	}
	if s.answer != nil {
		s.answer(q.Question[0], m)
	}
	if over == &s.udp {
		m.Truncate(512)
	}
	_ = w.WriteMsg(m)
}

func (s *nameServer) resolver(policy AddressPolicy) *resolver {
	return &resolver{servers: []netip.AddrPort{s.addr}, dial: NewDialer(nil, Source{}), policy: policy}
}

func TestResolveHostname(t *testing.T) {
	many := []string{}
	for i := range 40 {
		many = append(many, fmt.Sprintf("many.example.net. 60 A 192.0.2.%d", 40-i))
	}
	code := func(rcode int, types ...uint16) func(dns.Question, *dns.Msg) {
		return func(q dns.Question, m *dns.Msg) {
			for _, t := range types {
				if q.Qtype == t {
					m.Rcode, m.Answer = rcode, nil
				}
			}
		}
	}
	tests := []struct {
		name    string
		host    string
		records []string
		answer  func(dns.Question, *dns.Msg)
		want    string
		ttl     time.Duration
		err     string
	}{
		{name: "both families, IPv4 first, sorted", host: "lb.example.net", want: "[192.0.2.1 192.0.2.9 2001:db8::1]", ttl: 60 * time.Second, records: []string{
			"lb.example.net. 300 A 192.0.2.9", "lb.example.net. 60 A 192.0.2.1", "lb.example.net. 120 AAAA 2001:db8::1",
		}},
		{name: "one family alone", host: "lb.example.net.", want: "[2001:db8::1]", ttl: 60 * time.Second, records: []string{"lb.example.net. 60 AAAA 2001:db8::1"}},
		{name: "the case of the name", host: "LB.Example.NET", want: "[192.0.2.1]", ttl: 60 * time.Second, records: []string{"lb.example.net. 60 A 192.0.2.1"}},
		{name: "an alias and the least TTL on the way", host: "lb.example.net", want: "[192.0.2.1]", ttl: 7 * time.Second, records: []string{
			"lb.example.net. 300 CNAME x.cdn.example.org.", "x.cdn.example.org. 7 CNAME y.cdn.example.org.", "y.cdn.example.org. 60 A 192.0.2.1",
		}},
		{name: "records of another name do not count", host: "lb.example.net", err: "no address", answer: func(q dns.Question, m *dns.Msg) {
			rr, _ := dns.NewRR("evil.example.net. 60 A 192.0.2.66")
			m.Answer = append(m.Answer, rr)
		}},
		{name: "aliases in a loop", host: "a.example.net", err: "no address", records: []string{"a.example.net. 60 CNAME b.example.net.", "b.example.net. 60 CNAME a.example.net."}},
		{name: "no TTL is a second", host: "lb.example.net", want: "[192.0.2.1]", ttl: time.Second, records: []string{"lb.example.net. 0 A 192.0.2.1"}},
		{name: "a day is five minutes", host: "lb.example.net", want: "[192.0.2.1]", ttl: 5 * time.Minute, records: []string{"lb.example.net. 86400 A 192.0.2.1"}},
		{
			name: "at most sixteen of a family", host: "many.example.net", ttl: 60 * time.Second, records: many,
			want: "[192.0.2.1 192.0.2.2 192.0.2.3 192.0.2.4 192.0.2.5 192.0.2.6 192.0.2.7 192.0.2.8 192.0.2.9 192.0.2.10 192.0.2.11 192.0.2.12 192.0.2.13 192.0.2.14 192.0.2.15 192.0.2.16]",
		},
		{name: "an address that this node may not reach is left out", host: "lb.example.net", want: "[192.0.2.1]", ttl: 60 * time.Second, records: []string{
			"lb.example.net. 60 A 192.0.2.1", "lb.example.net. 60 A 169.254.169.254", "lb.example.net. 60 A 127.0.0.1", "lb.example.net. 60 A 10.0.0.1", "lb.example.net. 60 AAAA ::1",
		}},
		{name: "nothing else", host: "lb.example.net", err: "169.254.169.254 is a metadata service", records: []string{"lb.example.net. 60 A 169.254.169.254"}},
		{name: "a name without addresses", host: "lb.example.net", err: "no address", records: []string{"lb.example.net. 60 TXT hello"}},
		{name: "no such name", host: "lb.example.net", err: "NXDOMAIN", answer: code(dns.RcodeNameError, dns.TypeA, dns.TypeAAAA)},
		{name: "a resolver that fails", host: "lb.example.net", err: "SERVFAIL", answer: code(dns.RcodeServerFailure, dns.TypeA, dns.TypeAAAA)},
		{name: "half an answer is none", host: "lb.example.net", err: "SERVFAIL", records: []string{"lb.example.net. 60 A 192.0.2.1"}, answer: code(dns.RcodeServerFailure, dns.TypeAAAA)},
		{
			name: "an alias that the server does not follow", host: "lb.example.net", err: "must be recursive", records: []string{"lb.example.net. 60 CNAME x.example.org."},
			answer: func(_ dns.Question, m *dns.Msg) { m.RecursionAvailable = false },
		},
		{name: "an answer to another question", host: "lb.example.net", err: "another question", answer: func(_ dns.Question, m *dns.Msg) { m.Question[0].Name = "other.example.net." }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := (&nameServer{records: tt.records, answer: tt.answer}).serve(t)
			got, ttl, err := s.resolver(AddressPolicy{}).resolve(t.Context(), tt.host)
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, fmt.Sprint(got))
			require.Equal(t, tt.ttl, ttl)
		})
	}
}

func TestATruncatedAnswerIsAskedForByTCP(t *testing.T) {
	s := &nameServer{}
	for i := range 100 {
		s.records = append(s.records, fmt.Sprintf("lb.example.net. 60 A 192.0.2.%d", i+1))
	}
	s.serve(t)
	got, _, err := s.resolver(AddressPolicy{}).resolve(t.Context(), "lb.example.net")
	require.NoError(t, err)
	require.Len(t, got, maxResolved)
	require.EqualValues(t, 2, s.udp.Load())
	require.EqualValues(t, 1, s.tcp.Load(), "only the family that was cut")
}

func TestTheNextResolverIsAskedWhenOneFails(t *testing.T) {
	bad := (&nameServer{answer: func(_ dns.Question, m *dns.Msg) { m.Rcode = dns.RcodeRefused }}).serve(t)
	good := (&nameServer{records: []string{"lb.example.net. 60 A 192.0.2.1"}}).serve(t)
	r := good.resolver(AddressPolicy{})
	r.servers = []netip.AddrPort{bad.addr, good.addr}
	got, _, err := r.resolve(t.Context(), "lb.example.net")
	require.NoError(t, err)
	require.Equal(t, addrs("192.0.2.1"), got)
	r.servers = []netip.AddrPort{bad.addr}
	_, _, err = r.resolve(t.Context(), "lb.example.net")
	require.ErrorContains(t, err, "REFUSED")
}

func TestAQuestionEndsWithItsContext(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0") // answers nothing
	require.NoError(t, err)
	defer pc.Close()
	r := &resolver{servers: []netip.AddrPort{netip.MustParseAddrPort(pc.LocalAddr().String())}, dial: NewDialer(nil, Source{})}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { _, _, err := r.resolve(ctx, "lb.example.net"); done <- err }()
	buf := make([]byte, 512)
	_, _, err = pc.ReadFrom(buf)
	require.NoError(t, err)
	cancel()
	require.Error(t, <-done)
}

func TestTheSystemsResolverIsAskedForEachFamilyAndTheNameAsItIs(t *testing.T) {
	notFound := &net.DNSError{Err: "no such host", Name: "lb.example.net", IsNotFound: true}
	timeout := &net.DNSError{Err: "i/o timeout", Name: "lb.example.net", IsTimeout: true}
	tests := []struct {
		name   string
		v4, v6 []netip.Addr
		e4, e6 error
		want   []netip.Addr
		err    string
	}{
		{"both", addrs("::ffff:192.0.2.1"), addrs("2001:db8::1"), nil, nil, addrs("192.0.2.1", "2001:db8::1"), ""},
		{"one family alone", addrs("192.0.2.1"), nil, nil, notFound, addrs("192.0.2.1"), ""},
		{"the other alone", nil, addrs("2001:db8::1"), notFound, nil, addrs("2001:db8::1"), ""},
		{"neither", nil, nil, notFound, notFound, nil, "no such host"},
		{"half an answer is none", addrs("192.0.2.1"), nil, nil, timeout, nil, "i/o timeout"},
		{"nor is the other half", nil, addrs("2001:db8::1"), errors.New("broken"), nil, nil, "broken"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newResolver(&Config{}, nil)
			r.system = func(_ context.Context, network, host string) ([]netip.Addr, error) {
				require.Equal(t, "lb.example.net.", host, "no search list is tried")
				if network == "ip4" {
					return tt.v4, tt.e4
				}
				require.Equal(t, "ip6", network)
				return tt.v6, tt.e6
			}
			got, ttl, err := r.resolve(t.Context(), "lb.example.net")
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
			require.Equal(t, 30*time.Second, ttl)
		})
	}
}
