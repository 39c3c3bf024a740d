package dnsserver

import (
	"errors"
	"fmt"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
)

// checkReply holds an answer against what its query deserves, and what every answer
// must be.
func checkReply(query, reply []byte, proto Proto) error {
	want := classify(query)
	if want == deservesSilence {
		if reply != nil {
			return fmt.Errorf("got %x, want silence", reply)
		}
		return nil
	}
	if len(reply) < 12 {
		return fmt.Errorf("got %x, want %s", reply, want)
	}
	if reply[0] != query[0] || reply[1] != query[1] {
		return fmt.Errorf("the id %x is not the query's", reply[:2])
	}
	const givenBack = 0x79 // opcode and rd
	if reply[2]&0x80 == 0 || reply[2]&givenBack != query[2]&givenBack || reply[3]&0xf0 != 0 {
		return fmt.Errorf("header bits %x to a query of %x", reply[2:4], query[2:4])
	}
	var m dns.Msg
	if err := m.Unpack(reply); err != nil {
		return fmt.Errorf("%x does not read back: %v", reply, err)
	}
	if m.Truncated && proto == TCP {
		return errors.New("truncated over TCP")
	}
	if parsed, err := parse(query); err == nil && len(parsed.questions) == 1 {
		if err := echoed(query, reply); err != nil {
			return err
		}
		if opt := m.IsEdns0(); (opt != nil) != (len(parsed.opts) > 0) {
			return fmt.Errorf("an OPT record in the answer: %t, %d in the query", opt != nil, len(parsed.opts))
		}
	}
	got := rcodeLabel(m.Rcode)
	switch {
	case want == deservesAnswer && (got == "NOERROR" || got == "NXDOMAIN" || got == "REFUSED"):
		limit := 512
		if opt := m.IsEdns0(); opt != nil {
			limit = 1232
		}
		if proto == UDP && len(reply) > limit {
			return fmt.Errorf("%d octets over UDP", len(reply))
		}
		return nil
	case got != want:
		return fmt.Errorf("got %s, want %s", got, want)
	case len(m.Answer)+len(m.Ns) > 0 || m.Authoritative:
		return fmt.Errorf("%s with data", got)
	case len(reply) > 2*len(query):
		return fmt.Errorf("%d octets to %d", len(reply), len(query))
	}
	return nil
}

// echoed reports whether the question is given back octet for octet.
func echoed(query, reply []byte) error {
	_, end, _ := nameAt(query, 12)
	if reply[5] != 1 || len(reply) < end+4 || string(reply[12:end+4]) != string(query[12:end+4]) {
		return fmt.Errorf("the question of %x is not given back: %x", query, reply)
	}
	return nil
}

// TestMalformedPackets: each packet of the corpus gets what it deserves, over both
// protocols: nothing panics, and no error has data or is twice as long as its query.
func TestMalformedPackets(t *testing.T) {
	cfg := testConfig(testTable(t))
	s := New(cfg)
	corpus := malformed()
	require.GreaterOrEqual(t, len(corpus), 5000)
	deserved := map[string]int{}
	for i, p := range corpus {
		deserved[classify(p)]++
		for _, proto := range []Proto{UDP, TCP} {
			if err := checkReply(p, s.Respond(cfg.Table(), p, someClient, proto), proto); err != nil {
				t.Errorf("packet %d over %s, %x: %v", i, proto, p, err)
			}
		}
	}
	require.Zero(t, counted(t, s.metrics.panics))
	t.Log(len(corpus), "packets:", deserved)
	for _, class := range []string{deservesSilence, deservesAnswer, "FORMERR", "NOTIMP", "REFUSED", "BADVERS", "BADCOOKIE"} {
		require.GreaterOrEqual(t, deserved[class], 10, "packets that deserve %s", class)
	}
}

// A sample of the corpus over real sockets, after which the server is as it was.
func TestMalformedPacketsOverSockets(t *testing.T) {
	s := startPrepared(t, testConfig(testTable(t)))
	udp, tcp := udpExchange(t, s), tcpExchange(t, s)
	for i, p := range malformed() {
		if i%10 != 0 || len(p) > 512 || len(p) == 0 {
			continue
		}
		require.NoError(t, checkReply(p, udp(p), UDP), "packet %d: %x", i, p)
		if i%50 == 0 {
			require.NoError(t, checkReply(p, tcp(p), TCP), "packet %d: %x", i, p)
		}
	}
	require.Zero(t, counted(t, s.metrics.panics))
	q := rawQuery(0, asking("web.gslb.test.", dns.TypeA, dns.ClassINET))
	require.Contains(t, shown(t, s, udp(q)), "192.0.2.1")
	require.Contains(t, shown(t, s, tcp(q)), "192.0.2.1")
}

func FuzzRespond(f *testing.F) {
	for _, q := range legalQueries() {
		f.Add(q, false)
	}
	for i, p := range malformed() {
		if i%50 == 0 {
			f.Add(p, i%100 == 0)
		}
	}
	cfg := testConfig(testTable(f))
	s := New(cfg)
	f.Fuzz(func(t *testing.T, query []byte, tcp bool) {
		proto := UDP
		if tcp {
			proto = TCP
		}
		reply := s.Respond(cfg.Table(), query, someClient, proto)
		if counted(t, s.metrics.panics) > 0 {
			t.Fatalf("Respond(%x) panicked", query)
		}
		if err := checkReply(query, reply, proto); err != nil {
			t.Fatalf("Respond(%x): %v", query, err)
		}
	})
}
