package dnsserver

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
)

// What a packet deserves.
const (
	deservesSilence = "silence"
	deservesAnswer  = "an answer" // of the table: NOERROR, NXDOMAIN or REFUSED
)

// classify says what a packet deserves, by the rules and in their order, with nothing
// of the code under test.
func classify(p []byte) string {
	switch {
	case len(p) < 12, p[2] >= 0x80:
		return deservesSilence
	}
	switch p[2] >> 3 {
	case 0:
	case 4, 5:
		return "REFUSED"
	default:
		return "NOTIMP"
	}
	m, err := parse(p)
	switch {
	case err != nil:
		return "FORMERR"
	case len(m.opts) > 1, len(m.opts) == 1 && (m.opts[0].section != 2 || len(m.opts[0].owner) > 0 || m.opts[0].pointed):
		return "FORMERR"
	case len(m.opts) == 1 && m.opts[0].ttl>>16&0xff > 0:
		return "BADVERS"
	}
	cookie := -1
	if len(m.opts) == 1 {
		options, err := split(m.opts[0].data)
		if err != nil {
			return "FORMERR"
		}
		subnets := 0
		for _, o := range options {
			switch o.code {
			case 10:
				if cookie < 0 {
					if cookie = len(o.data); cookie != 8 && (cookie < 16 || cookie > 40) {
						return "FORMERR"
					}
				}
			case 8:
				if subnets++; subnets == 1 && !subnetGood(o.data) {
					return "FORMERR"
				}
			}
		}
	}
	if len(m.questions) == 0 && m.counts == [3]int{0, 0, 1} && cookie >= 0 {
		if cookie > 8 {
			return "BADCOOKIE" // nobody here knows the secret
		}
		return "NOERROR"
	}
	if len(m.questions) != 1 || m.counts[0] != 0 || m.counts[2] > 2 {
		return "FORMERR"
	}
	q := m.questions[0]
	if m.counts[1] > 1 || m.counts[1] == 1 && q.qtype != 251 {
		return "FORMERR"
	}
	switch {
	case q.qtype == 128:
		return "FORMERR"
	case q.class != 1, q.qtype == 0, q.qtype == 41, q.qtype >= 249 && q.qtype <= 254:
		return "REFUSED"
	}
	return deservesAnswer
}

type parsedQuestion struct {
	labels       [][]byte
	qtype, class int
}

type parsedRecord struct {
	section int
	owner   [][]byte
	pointed bool
	ttl     uint32
	data    []byte
}

type parsedMessage struct {
	questions []parsedQuestion
	counts    [3]int
	opts      []parsedRecord
}

var errParse = errors.New("malformed")

// parse reads a message from left to right.
func parse(p []byte) (m parsedMessage, err error) {
	at := 12
	number := func(n int) int {
		if err != nil || at+n > len(p) {
			err = errParse
			return 0
		}
		v := 0
		for range n {
			v = v<<8 | int(p[at])
			at++
		}
		return v
	}
	word := func(i int) int { return int(p[i])<<8 | int(p[i+1]) }
	for range word(4) {
		labels, end, pointed := nameAt(p, at)
		if end < 0 || pointed {
			return m, errParse
		}
		at = end
		m.questions = append(m.questions, parsedQuestion{labels, number(2), number(2)})
		if err != nil {
			return m, err
		}
	}
	for section := range 3 {
		m.counts[section] = word(6 + 2*section)
		for range m.counts[section] {
			labels, end, pointed := nameAt(p, at)
			if end < 0 {
				return m, errParse
			}
			at = end
			rrtype, _, ttl, length := number(2), number(2), number(4), number(2)
			if err != nil || at+length > len(p) {
				return m, errParse
			}
			if rrtype == 41 {
				m.opts = append(m.opts, parsedRecord{section, labels, pointed, uint32(ttl), p[at : at+length]})
			}
			at += length
		}
	}
	return m, nil
}

// nameAt reads a name, following pointers that lead before where the name, or what a
// pointer before led to, began. end is -1 for what is none.
func nameAt(p []byte, at int) (labels [][]byte, end int, pointed bool) {
	end, size := -1, 1
	for began := at; ; {
		if at >= len(p) {
			return nil, -1, false
		}
		n := int(p[at])
		switch {
		case n >= 192:
			if at+1 >= len(p) {
				return nil, -1, false
			}
			to := (n-192)*256 + int(p[at+1])
			if to < 12 || to >= began {
				return nil, -1, false
			}
			if !pointed {
				end, pointed = at+2, true
			}
			began, at = to, to
		case n > 63 || at+n >= len(p):
			return nil, -1, false
		case n == 0:
			if !pointed {
				end = at + 1
			}
			return labels, end, pointed
		default:
			if size += n + 1; size > 255 {
				return nil, -1, false
			}
			labels = append(labels, p[at+1:at+1+n])
			at += n + 1
		}
	}
}

type parsedOption struct {
	code int
	data []byte
}

func split(data []byte) (options []parsedOption, err error) {
	for len(data) > 0 {
		if len(data) < 4 {
			return nil, errParse
		}
		n := int(data[2])<<8 | int(data[3])
		if 4+n > len(data) {
			return nil, errParse
		}
		options = append(options, parsedOption{int(data[0])<<8 | int(data[1]), data[4 : 4+n]})
		data = data[4+n:]
	}
	return options, nil
}

// subnetGood follows RFC 7871 6 bit by bit.
func subnetGood(d []byte) bool {
	if len(d) < 4 || d[3] != 0 {
		return false
	}
	longest := map[int]int{0: 0, 1: 32, 2: 128}
	bits, known := longest[int(d[0])<<8|int(d[1])]
	prefix := int(d[2])
	if !known || prefix > bits {
		return false
	}
	addr := d[4:]
	octets := prefix / 8
	if prefix%8 != 0 {
		octets++
	}
	if len(addr) != octets {
		return false
	}
	for bit := prefix; bit < 8*octets; bit++ {
		if addr[bit/8]>>(7-bit%8)&1 == 1 {
			return false
		}
	}
	return true
}

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

// legalQueries are what the corpus is made from.
func legalQueries() [][]byte {
	var out [][]byte
	for _, name := range []string{"web.gslb.test.", "WWW.gslb.test.", "gslb.test.", "nope.gslb.test.", "text.gslb.test.", "big.gslb.test.", "example.com.", "."} {
		for _, qtype := range []uint16{dns.TypeA, dns.TypeNS, dns.TypeTXT, dns.TypeANY, 1000} {
			q := asking(name, qtype, dns.ClassINET)
			out = append(
				out, rawQuery(bitRD, q), rawQuery(0, q, optRecord(1232, 0, flagDO)),
				rawQuery(0, q, optRecord(4096, 0, 0, optionOf(3), optionOf(8, 0, 1, 24, 0, 198, 51, 100), optionOf(10, 1, 2, 3, 4, 5, 6, 7, 8))),
			)
		}
	}
	return out
}

// malformed returns the corpus: the same packets in every run.
func malformed() [][]byte {
	r := rand.New(rand.NewPCG(5, 1035))
	legal := legalQueries()
	pick := func() []byte { return append([]byte(nil), legal[r.IntN(len(legal))]...) }
	noise := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return b
	}
	pointer := func(to int) []byte { return []byte{0xc0 | byte(to>>8), byte(to)} }
	var out [][]byte
	add := func(p []byte) { out = append(out, p) }
	for range 800 { // some bits turned
		p := pick()
		for range 1 + r.IntN(8) {
			p[r.IntN(len(p))] ^= 1 << r.IntN(8)
		}
		add(p)
	}
	for range 600 { // a bit after the header turned, where the length and types are
		p := pick()
		p[12+r.IntN(len(p)-12)] ^= 1 << r.IntN(8)
		add(p)
	}
	for range 500 { // octets overwritten by what means something
		p := pick()
		p[r.IntN(len(p))] = []byte{0, 1, 0x3f, 0x40, 0x80, 0xc0, 0xff, 41}[r.IntN(8)]
		add(p)
	}
	for _, p := range []int{0, 1, 2, 3, 20, 40, 60, 80, 100, 119} { // cut at every octet
		for n := range legal[p] {
			add(legal[p][:n:n])
		}
	}
	for range 500 { // counts that are wrong
		p := pick()
		at := 4 + 2*r.IntN(4)
		binary.BigEndian.PutUint16(p[at:], []uint16{0, 1, 2, 3, 255, 256, 65535, uint16(r.Uint32())}[r.IntN(8)])
		add(p)
	}
	for range 300 { // header noise
		p := pick()
		copy(p[2:4], noise(2))
		add(p)
	}
	for range 400 { // pointers in the question: to itself, to each other, into the header, forward, after labels
		var name []byte
		for range r.IntN(3) {
			name = append(name, 1, 'a')
		}
		name = append(name, pointer([]int{0, 2, 11, 12, 13, 14, 16, 18, 30, 200, 0x3fff}[r.IntN(11)])...)
		p := rawQuery(0, append(append(name, pointer(12)...), 0, 1, 0, 1))
		add(append(p, noise(r.IntN(20))...))
	}
	for range 400 { // pointers of other records' owners
		p := rawQuery(0, asking("web.gslb.test.", dns.TypeA, dns.ClassINET))
		p[11] = byte(1 + r.IntN(2))
		to := []int{0, 11, 12, 16, 25, len(p), len(p) + 1, len(p) + 2, 300}[r.IntN(9)]
		p = append(p, pointer(to)...)
		p = append(p, 0, byte(41+r.IntN(2)*9), 0x10, 0, 0, 0, 0, 0, 0, 0)
		add(append(p, pointer(len(p)-12+r.IntN(14))...))
	}
	for range 300 { // names too long, labels too long, labels of no known kind
		var name []byte
		for range r.IntN(8) {
			name = append(append(name, 63), noise(63)...)
		}
		n := []int{1, 61, 62, 63, 64, 127, 191}[r.IntN(7)]
		name = append(append(append(name, byte(n)), noise(n)...), 0)
		add(rawQuery(0, append(name, 0, 1, 0, 1), optRecord(1232, 0, 0)))
	}
	for range 100 { // names of 254, 255 and 256 octets
		var name []byte
		for range 3 {
			name = append(append(name, 63), noise(63)...)
		}
		n := 60 + r.IntN(3)
		add(rawQuery(0, append(append(append(append(name, byte(n)), noise(n)...), 0), 0, 1, 0, 1)))
	}
	for range 400 { // OPT records: two, three, elsewhere, not at the root, of other versions
		q := asking("web.gslb.test.", uint16(r.IntN(300)), dns.ClassINET)
		records := [][]byte{optRecord(uint16(r.Uint32()), byte(r.IntN(2)), uint16(r.Uint32()))}
		for range r.IntN(3) {
			o := optRecord(1232, byte(r.IntN(3)), 0)
			if r.IntN(3) == 0 {
				o = append([]byte{1, 'x'}, o...)
			}
			records = append(records, o)
		}
		p := rawQuery(0, q, records...)
		if r.IntN(2) == 0 { // among the answers or authorities
			at := 6 + 2*r.IntN(2)
			p[at+1], p[11] = 1, p[11]-1
		}
		add(p)
	}
	for range 200 { // whole records where a query has none
		p := rawQuery(0, asking("web.gslb.test.", []uint16{dns.TypeA, dns.TypeIXFR}[r.IntN(2)], dns.ClassINET))
		for section := range 3 {
			n := r.IntN(3)
			p[7+2*section] = byte(n)
			for range n {
				p = append(p, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1)
			}
		}
		add(p)
	}
	for range 700 { // options: lengths that lie, cookies and subnets of every shape
		var options [][]byte
		for range 1 + r.IntN(3) {
			code := []uint16{3, 8, 8, 8, 10, 10, 9, 11, 12, 15, 100, 65001}[r.IntN(12)]
			data := noise(r.IntN(44))
			if code == 8 && len(data) > 4 && r.IntN(4) > 0 {
				data[0], data[1], data[2], data[3] = 0, byte(r.IntN(4)), byte(r.IntN(34)), byte(r.IntN(5)/4)
				if n := (int(data[2]) + 7) / 8; r.IntN(3) > 0 && len(data) >= 4+n {
					data = data[:4+n]
				}
			}
			o := optionOf(code, data...)
			if r.IntN(6) == 0 {
				o[3] += byte(r.IntN(5)) - 2
			}
			options = append(options, o)
		}
		var q []byte
		if r.IntN(4) > 0 {
			q = asking("web.gslb.test.", dns.TypeA, dns.ClassINET)
		}
		add(rawQuery(0, q, optRecord(1232, 0, 0, options...)))
	}
	for range 200 { // more questions than one
		q := asking("web.gslb.test.", dns.TypeA, dns.ClassINET)
		n := 2 + r.IntN(10)
		p := rawQuery(0, nil)
		p[5] = byte(n)
		for range n {
			p = append(p, q...)
		}
		add(p)
	}
	for range 300 { // noise, with and without a header
		p := noise(r.IntN(600))
		if len(p) > 12 && r.IntN(2) == 0 {
			copy(p[2:12], []byte{0, 0, 0, 1, 0, 0, 0, 0, 0, 0})
		}
		add(p)
	}
	for range 100 { // something after the end
		add(append(pick(), noise(r.IntN(100))...))
	}
	return out
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
	s := start(t, testConfig(testTable(t)), "127.0.0.1:0")
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
