package probe

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
)

// samePort listens on a port that is free over UDP and TCP.
func samePort(t *testing.T) (net.PacketConn, net.Listener) {
	t.Helper()
	for range 20 { // somebody else's connection may have the one
		udp, err := net.ListenPacket("udp", "127.0.0.1:0")
		require.NoError(t, err)
		if tcp, err := net.Listen("tcp", udp.LocalAddr().String()); err == nil {
			return udp, tcp
		}
		require.NoError(t, udp.Close())
	}
	require.FailNow(t, "no port is free over both UDP and TCP")
	return nil, nil
}

// serveDNS answers over UDP and TCP on the same port until the test ends.
func serveDNS(t *testing.T, answer dns.HandlerFunc) int {
	udp, tcp := samePort(t)
	for _, srv := range []*dns.Server{{PacketConn: udp, Handler: answer}, {Listener: tcp, Handler: answer}} {
		started := make(chan struct{})
		srv.NotifyStartedFunc = func() { close(started) }
		go func() { _ = srv.ActivateAndServe() }()
		<-started
		t.Cleanup(func() { _ = srv.Shutdown() })
	}
	return portOf(t, tcp.Addr())
}

func TestDNSCheck(t *testing.T) {
	var asked atomic.Pointer[dns.Msg]
	port := serveDNS(t, func(w dns.ResponseWriter, q *dns.Msg) {
		asked.Store(q)
		m := new(dns.Msg).SetReply(q)
		_, overUDP := w.RemoteAddr().(*net.UDPAddr)
		record := func(s string) {
			rr, err := dns.NewRR(s)
			if err == nil {
				m.Answer = append(m.Answer, rr)
			}
		}
		switch name := strings.ToLower(q.Question[0].Name); name {
		case "good.example.":
			record("good.example. 60 IN CNAME web.example.")
			record("web.example. 60 IN A 192.0.2.7")
		case "none.example.":
			m.Rcode = dns.RcodeNameError
		case "fail.example.":
			m.Rcode, m.Question = dns.RcodeServerFailure, nil
		case "bare.example.":
			m.Question = nil
		case "long.example.":
			if overUDP {
				m.Truncated = true
				break
			}
			record("long.example. 60 IN A 192.0.2.8")
		case "cut.example.":
			if overUDP {
				m.Truncated = true
				break
			}
			_ = w.Close()
			return
		case "other.example.":
			m.Question[0].Name = "good.example."
		case "othertype.example.":
			m.Question[0].Qtype = dns.TypeAAAA
		case "query.example.":
			m.Response = false
		case "late.example.": // a response to an earlier query comes first
			early := m.Copy()
			early.Id++
			early.Rcode = dns.RcodeRefused
			_ = w.WriteMsg(early)
			record("late.example. 60 IN A 192.0.2.9")
		case "junk.example.":
			b := binary.BigEndian.AppendUint16(nil, q.Id)
			_, _ = w.Write(append(b, 0xff, 0xff, 0xff))
			return
		case "silent.example.":
			return
		}
		_ = w.WriteMsg(m)
	})
	free, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	closed := int(free.LocalAddr().(*net.UDPAddr).AddrPort().Port())
	require.NoError(t, free.Close())

	a := func(name string) DNSCheck { return DNSCheck{Name: name, Type: "A", RCode: "NOERROR"} }
	matching := func(name, re string) DNSCheck { return DNSCheck{Name: name, Type: "a", AnswerRegex: re} }
	tests := []struct {
		name   string
		check  DNSCheck
		reason Reason
		detail string
	}{
		{"an answer", a("good.example"), ReasonOK, ""},
		{"the case of the name does not matter", a("GOOD.example."), ReasonOK, ""},
		{"data that matches", matching("good.example.", `^192\.0\.2\.`), ReasonOK, ""},
		{"any record may match", matching("good.example.", `^web\.example\.$`), ReasonOK, ""},
		{"data that does not match", matching("good.example.", `^198\.`), ReasonBody, "no answer matches: NOERROR, CNAME web.example., A 192.0.2.7"},
		{"no data", matching("late2.example.", "."), ReasonBody, "no answer matches: NOERROR without answers"},
		{"no such name", a("none.example."), ReasonStatus, "rcode NXDOMAIN"},
		{"no such name is what is wanted", DNSCheck{Name: "none.example.", Type: "A", RCode: "nxdomain"}, ReasonOK, ""},
		{"a server that fails and repeats no question", a("fail.example."), ReasonStatus, "rcode SERVFAIL"},
		{"an answer to no question", a("bare.example."), ReasonDNS, "answers another question"},
		{"a truncated answer is asked for over TCP", matching("long.example.", `192\.0\.2\.8`), ReasonOK, ""},
		{"TCP fails", a("cut.example."), ReasonOther, "over tcp, since the answer was truncated"},
		{"an answer to another name", a("other.example."), ReasonDNS, "answers another question"},
		{"an answer for another type", a("othertype.example."), ReasonDNS, "answers another question"},
		{"a query comes back", a("query.example."), ReasonDNS, "a query, not a response"},
		{"an answer to another query is passed over", matching("late.example.", `192\.0\.2\.9`), ReasonOK, ""},
		{"junk", a("junk.example."), ReasonDNS, "no DNS message"},
		{"silence", a("silent.example."), ReasonTimeout, "read response"},
		{"nobody listens", DNSCheck{Port: closed, Name: "a.example.", Type: "A"}, ReasonRefused, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.check.Port == 0 {
				tt.check.Port = port
			}
			c := Check{Timeout: 10 * time.Second, DNS: &tt.check}
			if tt.reason == ReasonTimeout {
				c.Timeout = 150 * time.Millisecond
			}
			r := localProber(nil).Once(t.Context(), c, loopback)
			require.Equal(t, tt.reason, r.Reason, r.Detail)
			require.Contains(t, r.Detail, tt.detail)
		})
	}
	q := asked.Load()
	require.True(t, q.RecursionDesired)
	require.Equal(t, uint16(dnsUDPSize), q.IsEdns0().UDPSize())
}

func TestADNSCheckThatCannotBeMade(t *testing.T) {
	for _, c := range []DNSCheck{
		{Name: "", Type: "A"},
		{Name: "a..b", Type: "A"},
		{Name: strings.Repeat("a", 64) + ".b", Type: "A"},
		{Name: "a", Type: "XX"},
		{Name: "a", Type: ""},
		{Name: "a", Type: "A", RCode: "NO"},
		{Name: "a", Type: "A", AnswerRegex: "("},
	} {
		_, err := (&runner{}).newDNS(&c, loopback)
		require.Error(t, err, "%+v", c)
	}
}

// The policy holds for datagrams and echoes too.
func TestEveryProtocolAsksThePolicy(t *testing.T) {
	for name, check := range map[string]Check{
		"http":  {HTTP: &HTTPCheck{Port: 80}},
		"https": {HTTPS: &HTTPCheck{Port: 443}},
		"tcp":   {TCP: &TCPCheck{Port: 1}},
		"tls":   {TLS: &HandshakeCheck{Port: 1}},
		"grpc":  {GRPC: &GRPCCheck{Port: 1}},
		"dns":   {DNS: &DNSCheck{Port: 53, Name: "a.example.", Type: "A"}},
		"icmp":  {ICMP: &ICMPCheck{Count: 1}},
	} {
		for _, addr := range []string{"127.0.0.1", "::1", "169.254.169.254", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "fe80::1", "224.0.0.1"} {
			r := New(Config{}).Once(t.Context(), check, netip.MustParseAddr(addr))
			require.Equal(t, ReasonDenied, r.Reason, "%s %s: %s", name, addr, r.Detail)
			require.Equal(t, "connect", r.Phases[len(r.Phases)-1].Name)
		}
	}
}

func FuzzReadDNS(f *testing.F) {
	c, err := (&runner{}).newDNS(&DNSCheck{Name: "a.example.", Type: "A"}, loopback)
	require.NoError(f, err)
	d := c.(*dnsChecker)
	var m dns.Msg
	m.SetQuestion("a.example.", dns.TypeA)
	m.Id, m.Response = 7, true
	good, err := m.Pack()
	require.NoError(f, err)
	f.Add(append(binary.BigEndian.AppendUint16(nil, uint16(len(good))), good...))
	f.Add([]byte{0, 1, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		buf := make([]byte, maxBody)
		for _, in := range [][]byte{b, b[min(2, len(b)):]} {
			if m, _, err := d.readStream(iotest.OneByteReader(bytes.NewReader(in)), buf, 7); err == nil {
				_ = d.judge(m)
				_ = answerText(m)
			}
			if m, _, err := d.readDatagram(bytes.NewReader(in), buf, 7); err == nil {
				_ = d.judge(m)
			}
		}
	})
}
