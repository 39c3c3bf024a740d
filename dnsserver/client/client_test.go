package client

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
)

// serve answers the first query on a UDP socket with what replies returns.
func serve(t *testing.T, replies func(q *dns.Msg) []*dns.Msg) string {
	t.Helper()
	conn, err := net.ListenPacket("udp4", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 4096)
		n, from, err := conn.ReadFrom(buf)
		if err != nil {
			return
		}
		q := new(dns.Msg)
		if q.Unpack(buf[:n]) != nil {
			return
		}
		for _, m := range replies(q) {
			if wire, err := m.Pack(); err == nil {
				_, _ = conn.WriteTo(wire, from)
			}
		}
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		<-done
	})
	return conn.LocalAddr().String()
}

func answer(q *dns.Msg, ip string) *dns.Msg {
	m := new(dns.Msg)
	m.SetReply(q)
	m.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 7}, A: net.ParseIP(ip)}}
	return m
}

func TestQueryTakesOnlyTheAnswerToItsQuestion(t *testing.T) {
	server := serve(t, func(q *dns.Msg) []*dns.Msg {
		otherID := answer(q, "192.0.2.66")
		otherID.Id++
		otherName := answer(q, "192.0.2.67")
		otherName.Question = []dns.Question{{Name: "other.test.", Qtype: dns.TypeA, Qclass: dns.ClassINET}}
		notAResponse := answer(q, "192.0.2.68")
		notAResponse.Response = false
		return []*dns.Msg{otherID, otherName, notAResponse, answer(q, "192.0.2.1")}
	})
	r, err := Query(t.Context(), server, "web.gslb.test", "a", Options{})
	require.NoError(t, err)
	require.Equal(t, "192.0.2.1", r.Addresses[0].String())
	require.Len(t, r.Addresses, 1)
	require.Equal(t, 7*time.Second, r.TTL)
	require.Equal(t, "web.gslb.test.", r.Name)
	require.Equal(t, []string{"web.gslb.test.\t7\tIN\tA\t192.0.2.1"}, r.Records)
}

func TestQueryErrorsAreOneClearLine(t *testing.T) {
	silent := serve(t, func(*dns.Msg) []*dns.Msg { return nil })
	closed, err := net.ListenPacket("udp4", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	tests := []struct {
		name, server, ask, qtype, want string
	}{
		{"nobody answers", silent, "x.test", "A", "query " + silent + " for x.test. A: no answer in time"},
		{"nobody is there", closed.LocalAddr().String(), "x.test", "A", "query " + closed.LocalAddr().String() + " for x.test. A: connection refused"},
		{"no such type", silent, "x.test", "ADDR", `cannot ask: record type must be one such as A or AAAA, is "ADDR"`},
		{"no name", silent, "", "A", `cannot ask: name must be a domain name, is ""`},
		{"a name too long", silent, strings.Repeat("a", 64), "A", `cannot ask: name must be a domain name, is "` + strings.Repeat("a", 64) + `"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Query(t.Context(), tt.server, tt.ask, tt.qtype, Options{Timeout: 50 * time.Millisecond})
			require.EqualError(t, err, tt.want)
		})
	}
}

func TestQueryAsksForTheClientsOfANetwork(t *testing.T) {
	for _, subnet := range []string{"192.0.2.0/24", "2001:db8:1::/56"} {
		server := serve(t, func(q *dns.Msg) []*dns.Msg {
			m := answer(q, "192.0.2.1")
			got := q.IsEdns0().Option[0].(*dns.EDNS0_SUBNET)
			m.SetEdns0(1232, false)
			got.SourceScope = got.SourceNetmask - 1
			m.IsEdns0().Option = []dns.EDNS0{got}
			return []*dns.Msg{m}
		})
		want := netip.MustParsePrefix(subnet)
		r, err := Query(t.Context(), server, "web.gslb.test", "A", Options{Subnet: want})
		require.NoError(t, err)
		require.NotNil(t, r.Scope)
		require.Equal(t, uint8(want.Bits()-1), *r.Scope)
	}
}
