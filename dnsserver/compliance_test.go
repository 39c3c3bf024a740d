package dnsserver

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
)

// Header bits as they stand in octets 2 and 3 (RFC 1035 4.1.1, RFC 2535 6.1).
const (
	bitQR = 1 << 15
	bitAA = 1 << 10
	bitTC = 1 << 9
	bitRD = 1 << 8
	bitRA = 1 << 7
	bitZ  = 1 << 6
	bitAD = 1 << 5
	bitCD = 1 << 4
)

// rawQuery is a query put together by hand, so that what no library would send is sent.
func rawQuery(header uint16, question []byte, records ...[]byte) []byte {
	b := binary.BigEndian.AppendUint16([]byte{0x12, 0x67}, header)
	count := byte(1)
	if question == nil {
		count = 0
	}
	b = append(b, 0, count, 0, 0, 0, 0, 0, byte(len(records)))
	b = append(b, question...)
	for _, r := range records {
		b = append(b, r...)
	}
	return b
}

func opcode(n uint16) uint16 { return n << 11 }

// asking is a question in wire format.
func asking(name string, qtype, class uint16) []byte {
	var b []byte
	for l := range strings.SplitSeq(strings.TrimSuffix(name, "."), ".") {
		if l != "" {
			b = append(append(b, byte(len(l))), l...)
		}
	}
	b = append(b, 0)
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(b, qtype), class)
}

// optRecord is an OPT record with flags and options as they come.
func optRecord(size uint16, version byte, flags uint16, options ...[]byte) []byte {
	b := binary.BigEndian.AppendUint16([]byte{0, 0, 41}, size)
	b = append(b, 0, version)
	b = binary.BigEndian.AppendUint16(b, flags)
	n := 0
	for _, o := range options {
		n += len(o)
	}
	b = binary.BigEndian.AppendUint16(b, uint16(n))
	for _, o := range options {
		b = append(b, o...)
	}
	return b
}

func optionOf(code uint16, data ...byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, code)
	return append(binary.BigEndian.AppendUint16(b, uint16(len(data))), data...)
}

// shown writes all that an answer says: code, header bits, question, sections, and
// the OPT record with its version, size, flags and options. A server cookie is shown
// as what it is worth.
func shown(t *testing.T, s *Server, reply []byte) string {
	t.Helper()
	if reply == nil {
		return "silence"
	}
	require.Equal(t, []byte{0x12, 0x67}, reply[:2], "the id")
	var m dns.Msg
	require.NoError(t, m.Unpack(reply), "%x", reply)
	bits := binary.BigEndian.Uint16(reply[2:])
	out := []string{rcodeLabel(m.Rcode)}
	for _, b := range []struct {
		bit  uint16
		name string
	}{{bitQR, "qr"}, {bitAA, "aa"}, {bitTC, "tc"}, {bitRD, "rd"}, {bitRA, "ra"}, {bitZ, "z"}, {bitAD, "ad"}, {bitCD, "cd"}} {
		if bits&b.bit != 0 {
			out[0] += " " + b.name
		}
	}
	if code := bits >> 11 & 0xf; code != 0 {
		out[0] += fmt.Sprintf(" opcode=%d", code)
	}
	for _, q := range m.Question {
		out = append(out, strings.Join(strings.Fields(strings.TrimPrefix(q.String(), ";")), " "))
	}
	for _, section := range [][]dns.RR{m.Answer, m.Ns, m.Extra} {
		if l := lines(section); l != "" {
			out = append(out, l)
		}
	}
	o := m.IsEdns0()
	if o == nil {
		return strings.Join(out, "; ")
	}
	opt := fmt.Sprintf("opt v%d %d", o.Version(), o.UDPSize())
	if flags := o.Hdr.Ttl & 0xffff; flags != 0 {
		opt += fmt.Sprintf(" flags=%04x", flags)
	}
	for _, o := range o.Option {
		switch o := o.(type) {
		case *dns.EDNS0_NSID:
			opt += fmt.Sprintf(" nsid=%s", unhex(t, o.Nsid))
		case *dns.EDNS0_SUBNET:
			opt += " ecs=" + o.String()
		case *dns.EDNS0_EDE:
			opt += strings.TrimSuffix(fmt.Sprintf(" ede=%d:%s", o.InfoCode, o.ExtraText), ":")
		case *dns.EDNS0_COOKIE:
			c, ok := readCookie(unhex(t, o.Cookie))
			require.True(t, ok)
			c.answer(s.cookieSecrets(), someLoopback, time.Now())
			opt += fmt.Sprintf(" cookie=%x good=%t", c.client, c.good)
		default:
			opt += fmt.Sprintf(" option=%d", o.Option())
		}
	}
	return strings.Join(append(out, opt), "; ")
}

// TestEDNSCompliance asks what ISC's genreport asks, and more: what every kind of
// query gets, to the last bit, over UDP and TCP from bound sockets.
func TestEDNSCompliance(t *testing.T) {
	cfg := testConfig(testTable(t))
	s := startPrepared(t, cfg)
	over := map[string]func([]byte) []byte{"udp": udpExchange(t, s), "tcp": tcpExchange(t, s)}
	const (
		web   = "web.gslb.test. IN A"
		webA  = "web.gslb.test. 20 IN A 192.0.2.1"
		soa   = "gslb.test. 30 IN SOA ns-eu-1.gslb.test. hostmaster.gslb.test. 67108873 3600 900 604800 30"
		soaQ  = "gslb.test. IN SOA"
		soaA  = "gslb.test. 3600 IN SOA ns-eu-1.gslb.test. hostmaster.gslb.test. 67108873 3600 900 604800 30"
		plain = "NOERROR qr aa; " + web + "; " + webA
		opt   = "; opt v0 1232"
	)
	a := asking("web.gslb.test.", dns.TypeA, dns.ClassINET)
	apex := asking("gslb.test.", dns.TypeSOA, dns.ClassINET)
	unknown := optionOf(100)
	cookieOption := optionOf(10, 1, 2, 3, 4, 5, 6, 7, 8)
	subnet := optionOf(8, 0, 1, 24, 0, 198, 51, 100)
	type row struct {
		name  string
		query []byte
		want  string
	}
	rows := []row{
		{"plain", rawQuery(0, a), plain},
		{"plain soa", rawQuery(0, apex), "NOERROR qr aa; " + soaQ + "; " + soaA},
		{"case is kept", rawQuery(0, asking("WeB.gSlB.tEsT.", dns.TypeA, dns.ClassINET)), "NOERROR qr aa; WeB.gSlB.tEsT. IN A; WeB.gSlB.tEsT. 20 IN A 192.0.2.1"},

		// Header bits: rd is given back, all others are the server's own.
		{"rd", rawQuery(bitRD, a), "NOERROR qr aa rd; " + web + "; " + webA},
		{"aa", rawQuery(bitAA, a), plain},
		{"tc", rawQuery(bitTC, a), plain},
		{"ra", rawQuery(bitRA, a), plain},
		{"z", rawQuery(bitZ, a), plain},
		{"ad", rawQuery(bitAD, a), plain},
		{"cd is cleared (RFC 4035 3.1.6)", rawQuery(bitCD, a), plain},
		{"a code in a query", rawQuery(5, a), plain},
		{"all bits but qr", rawQuery(bitAA|bitTC|bitRD|bitRA|bitZ|bitAD|bitCD|0xf, a), "NOERROR qr aa rd; " + web + "; " + webA},
		{"all bits and edns", rawQuery(bitAA|bitTC|bitRD|bitRA|bitZ|bitAD|bitCD|0xf, a, optRecord(4096, 0, 0)), "NOERROR qr aa rd; " + web + "; " + webA + opt},

		// Types and classes.
		{"an unknown type", rawQuery(0, asking("web.gslb.test.", 1000, dns.ClassINET)), "NOERROR qr aa; web.gslb.test. IN TYPE1000; " + soa},
		{"an unknown type that is not there", rawQuery(0, asking("nope.gslb.test.", 1000, dns.ClassINET)), "NXDOMAIN qr aa; nope.gslb.test. IN TYPE1000; " + soa},
		{"any", rawQuery(0, asking("web.gslb.test.", dns.TypeANY, dns.ClassINET)), `NOERROR qr aa; web.gslb.test. IN ANY; web.gslb.test. 3600 IN HINFO "RFC8482" ""`},
		{"nxname is nobody's question (RFC 9824 3.5)", rawQuery(0, asking("web.gslb.test.", 128, dns.ClassINET), optRecord(1232, 0, 0)), "FORMERR qr; web.gslb.test. IN NXNAME" + opt + " ede=30"},
		{"version.bind", rawQuery(0, asking("version.bind.", dns.TypeTXT, dns.ClassCHAOS)), "REFUSED qr; version.bind. CH TXT"},
		{"id.server", rawQuery(0, asking("id.server.", dns.TypeTXT, dns.ClassCHAOS)), "REFUSED qr; id.server. CH TXT"},
		{"hesiod", rawQuery(0, asking("web.gslb.test.", dns.TypeA, dns.ClassHESIOD)), "REFUSED qr; web.gslb.test. HS A"},
		{"class any", rawQuery(0, asking("web.gslb.test.", dns.TypeA, dns.ClassANY), optRecord(1232, 0, 0)), "REFUSED qr; web.gslb.test. CLASS255 A" + opt + " ede=21"},
		{"an unknown class", rawQuery(0, asking("web.gslb.test.", dns.TypeA, 4711)), "REFUSED qr; web.gslb.test. CLASS4711 A"},
		{"out of zone", rawQuery(0, asking("example.com.", dns.TypeA, dns.ClassINET)), "REFUSED qr; example.com. IN A"},
		{"out of zone, and why", rawQuery(0, asking("example.com.", dns.TypeA, dns.ClassINET), optRecord(1232, 0, 0)), "REFUSED qr; example.com. IN A" + opt + " ede=20"},
		{"axfr", rawQuery(0, asking("gslb.test.", dns.TypeAXFR, dns.ClassINET), optRecord(1232, 0, 0)), "REFUSED qr; gslb.test. IN AXFR" + opt + " ede=18"},
		{"ixfr", rawQuery(0, asking("gslb.test.", dns.TypeIXFR, dns.ClassINET)), "REFUSED qr; gslb.test. IN IXFR"},
		{"maila", rawQuery(0, asking("gslb.test.", dns.TypeMAILA, dns.ClassINET)), "REFUSED qr; gslb.test. IN MAILA"},

		// Opcodes.
		{"notify", rawQuery(opcode(4)|bitAA, apex), "REFUSED qr opcode=4; " + soaQ},
		{"update", rawQuery(opcode(5), apex, optRecord(1232, 0, 0)), "REFUSED qr opcode=5; " + soaQ + opt + " ede=18"},

		// EDNS.
		{"edns", rawQuery(0, a, optRecord(4096, 0, 0)), plain + opt},
		{"edns with soa", rawQuery(0, apex, optRecord(4096, 0, 0)), "NOERROR qr aa; " + soaQ + "; " + soaA + opt},
		{"a code in the opt record", rawQuery(0, a, []byte{0, 0, 41, 16, 0, 7, 0, 0, 0, 0, 0}), plain + opt},
		{"size 0", rawQuery(0, a, optRecord(0, 0, 0)), plain + opt},
		{"two opt records", rawQuery(0, a, optRecord(4096, 0, 0), optRecord(4096, 0, 0)), "FORMERR qr; " + web + opt},
		{"two opt records, the second of version 1", rawQuery(0, a, optRecord(4096, 0, 0), optRecord(4096, 1, 0)), "FORMERR qr; " + web + opt},
		{"not at the root", rawQuery(0, a, append([]byte{1, 'x'}, optRecord(4096, 0, 0)...)), "FORMERR qr; " + web + opt},
		{"do and co: only do is given back of an unsigned zone", rawQuery(0, a, optRecord(1232, 0, 0xc000)), plain + opt + " flags=8000"},

		// Options.
		{"nsid", rawQuery(0, a, optRecord(1232, 0, 0, optionOf(3))), plain + opt + " nsid=eu-1"},
		{"nsid with data that nobody should send", rawQuery(0, a, optRecord(1232, 0, 0, optionOf(3, 9, 9))), plain + opt + " nsid=eu-1"},
		{"nsid twice", rawQuery(0, a, optRecord(1232, 0, 0, optionOf(3), optionOf(3))), plain + opt + " nsid=eu-1"},
		{"expire is of transfers", rawQuery(0, apex, optRecord(1232, 0, 0, optionOf(9))), "NOERROR qr aa; " + soaQ + "; " + soaA + opt},
		{"tcp keepalive", rawQuery(0, a, optRecord(1232, 0, 0, optionOf(11))), plain + opt},
		{"padding", rawQuery(0, a, optRecord(1232, 0, 0, optionOf(12, 0, 0, 0, 0))), plain + opt},
		{"chain", rawQuery(0, a, optRecord(1232, 0, 0, optionOf(13, 0))), plain + opt},
		{"ede in a query", rawQuery(0, a, optRecord(1232, 0, 0, optionOf(15, 0, 1))), plain + opt},
		{"an option of the experimental range", rawQuery(0, a, optRecord(1232, 0, 0, optionOf(65001, 1, 2, 3))), plain + opt},
		{"cookie", rawQuery(0, a, optRecord(1232, 0, 0, cookieOption)), plain + opt + " cookie=0102030405060708 good=true"},
		{"cookie with a server cookie that is not ours", rawQuery(0, a, optRecord(1232, 0, 0, optionOf(10, 1, 2, 3, 4, 5, 6, 7, 8, 1, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4))), plain + opt + " cookie=0102030405060708 good=true"},
		{"cookie twice: the first counts", rawQuery(0, a, optRecord(1232, 0, 0, cookieOption, optionOf(10, 9))), plain + opt + " cookie=0102030405060708 good=true"},
		{"cookie of 7 octets", rawQuery(0, a, optRecord(1232, 0, 0, optionOf(10, 1, 2, 3, 4, 5, 6, 7))), "FORMERR qr; " + web + opt},
		{"cookie of 15 octets", rawQuery(0, a, optRecord(1232, 0, 0, optionOf(10, make([]byte, 15)...))), "FORMERR qr; " + web + opt},
		{"cookie of 41 octets", rawQuery(0, a, optRecord(1232, 0, 0, optionOf(10, make([]byte, 41)...))), "FORMERR qr; " + web + opt},
		{"an empty cookie", rawQuery(0, a, optRecord(1232, 0, 0, optionOf(10))), "FORMERR qr; " + web + opt},
		{"no question but a cookie", rawQuery(0, nil, optRecord(1232, 0, 0, cookieOption)), "NOERROR qr" + opt + " cookie=0102030405060708 good=true"},
		{"no question but a bad cookie", rawQuery(0, nil, optRecord(1232, 0, 0, optionOf(10, make([]byte, 24)...))), "BADCOOKIE qr" + opt + " cookie=0000000000000000 good=true"},
		{"no question and no cookie", rawQuery(0, nil, optRecord(1232, 0, 0)), "FORMERR qr" + opt},
		{"no question", rawQuery(0, nil), "FORMERR qr"},
		{"subnet", rawQuery(0, a, optRecord(1232, 0, 0, subnet)), plain + opt + " ecs=198.51.100.0/24/0"},
		{"subnet IPv6", rawQuery(0, a, optRecord(1232, 0, 0, optionOf(8, 0, 2, 32, 0, 0x20, 1, 0xd, 0xb8))), plain + opt + " ecs=[2001:db8::]/32/0"},
		{"subnet of nobody", rawQuery(0, a, optRecord(1232, 0, 0, optionOf(8, 0, 1, 0, 0))), plain + opt + " ecs=0.0.0.0/0/0"},
		{"subnet of nobody, as dig has it", rawQuery(0, a, optRecord(1232, 0, 0, optionOf(8, 0, 0, 0, 0))), plain + opt + " ecs=0.0.0.0/0/0"},
		{"subnet twice: the first counts", rawQuery(0, a, optRecord(1232, 0, 0, subnet, optionOf(8, 9))), plain + opt + " ecs=198.51.100.0/24/0"},
		{"subnet with bits beyond the prefix", rawQuery(0, a, optRecord(1232, 0, 0, optionOf(8, 0, 1, 20, 0, 198, 51, 100))), "FORMERR qr; " + web + opt},
		{"subnet with an octet too many", rawQuery(0, a, optRecord(1232, 0, 0, optionOf(8, 0, 1, 24, 0, 198, 51, 100, 0))), "FORMERR qr; " + web + opt},
		{"subnet with an octet too few", rawQuery(0, a, optRecord(1232, 0, 0, optionOf(8, 0, 1, 24, 0, 198, 51))), "FORMERR qr; " + web + opt},
		{"subnet longer than an address", rawQuery(0, a, optRecord(1232, 0, 0, optionOf(8, 0, 1, 33, 0, 198, 51, 100, 1, 0))), "FORMERR qr; " + web + opt},
		{"subnet of an unknown family", rawQuery(0, a, optRecord(1232, 0, 0, optionOf(8, 0, 3, 24, 0, 198, 51, 100))), "FORMERR qr; " + web + opt},
		{"subnet of no family with a prefix", rawQuery(0, a, optRecord(1232, 0, 0, optionOf(8, 0, 0, 8, 0, 198))), "FORMERR qr; " + web + opt},
		{"subnet with a scope", rawQuery(0, a, optRecord(1232, 0, 0, optionOf(8, 0, 1, 24, 24, 198, 51, 100))), "FORMERR qr; " + web + opt},
		{"subnet cut short", rawQuery(0, a, optRecord(1232, 0, 0, optionOf(8, 0, 1, 24))), "FORMERR qr; " + web + opt},
		{"an option longer than the record", rawQuery(0, a, optRecord(1232, 0, 0, []byte{0, 3, 0, 1})), "FORMERR qr; " + web + opt},
		{"half an option", rawQuery(0, a, optRecord(1232, 0, 0, []byte{0, 3, 0})), "FORMERR qr; " + web + opt},
		{"all options", rawQuery(bitRD, a, optRecord(4096, 0, flagDO, optionOf(3), optionOf(9), subnet, cookieOption, unknown)), "NOERROR qr aa rd; " + web + "; " + webA + opt + " flags=8000 nsid=eu-1 cookie=0102030405060708 good=true ecs=198.51.100.0/24/0"},
		{"options of another version are not read", rawQuery(0, a, optRecord(4096, 1, 0, []byte{0, 3, 0})), "BADVERS qr; " + web + opt},

		// Records beside the question.
		{"an answer in a query", append(append([]byte{0x12, 0x67, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0}, a...), 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0), "FORMERR qr; " + web},
		{"an authority in a query", append(append([]byte{0x12, 0x67, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0}, a...), 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0), "FORMERR qr; " + web},
		{"opt among the answers", append(append([]byte{0x12, 0x67, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0}, a...), optRecord(1232, 0, 0)...), "FORMERR qr; " + web + opt},
		{"a signature beside opt", rawQuery(0, a, optRecord(1232, 0, 0), []byte{0, 0, 250, 0, 255, 0, 0, 0, 0, 0, 0}), plain + opt},
		{"three additional records", rawQuery(0, a, optRecord(1232, 0, 0), []byte{0, 0, 250, 0, 255, 0, 0, 0, 0, 0, 0}, []byte{0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0}), "FORMERR qr; " + web + opt},
		{"octets after the end", append(rawQuery(0, a), 1, 2, 3), plain},
		{"two questions", append(append([]byte{0x12, 0x67, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0}, a...), a...), "FORMERR qr"},
		{"a response", rawQuery(bitQR, a), "silence"},
	}
	// Every opcode nobody knows, with and without a question.
	for n := uint16(1); n < 16; n++ {
		if n == 4 || n == 5 {
			continue
		}
		rows = append(
			rows,
			row{fmt.Sprintf("opcode %d", n), rawQuery(opcode(n), nil), fmt.Sprintf("NOTIMP qr opcode=%d", n)},
			row{fmt.Sprintf("opcode %d with all bits", n), rawQuery(opcode(n)|bitAA|bitTC|bitRD|bitRA|bitZ|bitAD|bitCD, a, optRecord(1232, 0, 0)), fmt.Sprintf("NOTIMP qr rd opcode=%d; %s%s ede=21", n, web, opt)},
		)
	}
	// Every combination of version, flags and options.
	for version := range byte(2) {
		for _, flags := range []uint16{0, flagDO, 0x0080, 0x7fff &^ flagCO, 0xffff &^ flagCO} {
			for i, options := range [][][]byte{nil, {unknown}, {optionOf(3)}, {cookieOption}, {subnet}, {unknown, optionOf(3), cookieOption, subnet}} {
				want := plain + opt
				if version > 0 {
					want = "BADVERS qr; " + web + opt
				}
				if flags&flagDO != 0 {
					want += " flags=8000"
				}
				if version == 0 {
					want += []string{"", "", " nsid=eu-1", " cookie=0102030405060708 good=true", " ecs=198.51.100.0/24/0", " nsid=eu-1 cookie=0102030405060708 good=true ecs=198.51.100.0/24/0"}[i]
				}
				rows = append(rows, row{fmt.Sprintf("version %d flags %04x options %d", version, flags, i), rawQuery(0, a, optRecord(4096, version, flags, options...)), want})
			}
		}
	}
	for _, tt := range rows {
		for proto, exchange := range over {
			t.Run(tt.name+" over "+proto, func(t *testing.T) {
				want := tt.want
				if tt.name == "tcp keepalive" && proto == "tcp" {
					want += " option=11" // over UDP there is nothing to keep (RFC 7828 3.3.1)
				}
				require.Equal(t, want, shown(t, s, exchange(tt.query)), "%x", tt.query)
			})
		}
	}
}

// TestTruncationCompliance: over UDP what fits in whole sets, never above what the
// client takes nor above 1232; over TCP all of it.
func TestTruncationCompliance(t *testing.T) {
	s := startPrepared(t, testConfig(testTable(t)))
	udp, tcp := udpExchange(t, s), tcpExchange(t, s)
	tests := []struct {
		name    string
		query   []byte
		udp     string
		longest int
		over    int // records over TCP
	}{
		{"60 addresses without edns", rawQuery(0, asking("big.gslb.test.", dns.TypeA, dns.ClassINET)), "NOERROR qr aa tc; big.gslb.test. IN A", 512, 60},
		{"60 addresses in 512", rawQuery(0, asking("big.gslb.test.", dns.TypeA, dns.ClassINET), optRecord(512, 0, 0)), "NOERROR qr aa tc; big.gslb.test. IN A; opt v0 1232", 512, 60},
		{"a size below 512 means 512", rawQuery(0, asking("big.gslb.test.", dns.TypeA, dns.ClassINET), optRecord(1, 0, 0)), "NOERROR qr aa tc; big.gslb.test. IN A; opt v0 1232", 512, 60},
		{"1300 octets of text in 1232", rawQuery(0, asking("text.gslb.test.", dns.TypeTXT, dns.ClassINET), optRecord(4096, 0, 0)), "NOERROR qr aa tc; text.gslb.test. IN TXT; opt v0 1232", 1232, 6},
		{"1300 octets of text in 65535", rawQuery(0, asking("text.gslb.test.", dns.TypeTXT, dns.ClassINET), optRecord(65535, 0, 0)), "NOERROR qr aa tc; text.gslb.test. IN TXT; opt v0 1232", 1232, 6},
		{"options stay", rawQuery(0, asking("text.gslb.test.", dns.TypeTXT, dns.ClassINET), optRecord(1232, 0, flagDO, optionOf(3))), "NOERROR qr aa tc; text.gslb.test. IN TXT; opt v0 1232 flags=8000 nsid=eu-1", 1232, 6},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			reply := udp(tt.query)
			require.Equal(t, tt.udp, shown(t, s, reply))
			require.LessOrEqual(t, len(reply), tt.longest)
			var m dns.Msg
			require.NoError(t, m.Unpack(tcp(tt.query)))
			require.Len(t, m.Answer, tt.over)
			require.False(t, m.Truncated)
		})
	}
	require.Contains(t, shown(t, s, udp(rawQuery(0, asking("big.gslb.test.", dns.TypeA, dns.ClassINET), optRecord(1232, 0, 0)))), "198.18.0.59", "60 addresses fit in 1232")
}

// startPrepared runs a server on loopback that answers ordinary queries from prepared
// answers, as a node does.
func startPrepared(t *testing.T, cfg Config) *Server {
	s := start(t, cfg, "127.0.0.1:0")
	s.Publish(cfg.Table())
	s.prepare()
	require.NotNil(t, s.current().wire)
	return s
}

// udpExchange returns what asks over one UDP socket; nil is silence, told by the
// answer to a query sent after it.
func udpExchange(t *testing.T, s *Server) func([]byte) []byte {
	c, err := net.Dial("udp", s.Addrs()[0].String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	probe := rawQuery(opcode(15), nil)
	probe[0], probe[1] = 0xff, 0xff
	buf := make([]byte, 65536)
	return func(query []byte) []byte {
		_, err := c.Write(query)
		require.NoError(t, err)
		_, err = c.Write(probe)
		require.NoError(t, err)
		var reply []byte
		for {
			require.NoError(t, c.SetReadDeadline(time.Now().Add(5*time.Second)))
			n, err := c.Read(buf)
			require.NoError(t, err)
			if n == len(probe) && buf[0] == 0xff && buf[1] == 0xff {
				return reply
			}
			require.Nil(t, reply, "two answers to %x", query)
			reply = append([]byte(nil), buf[:n]...)
		}
	}
}

// tcpExchange returns what asks over a TCP connection of its own; nil is that it was
// closed.
func tcpExchange(t *testing.T, s *Server) func([]byte) []byte {
	return func(query []byte) []byte {
		c, err := net.Dial("tcp", s.Addrs()[0].String())
		require.NoError(t, err)
		defer func() { _ = c.Close() }()
		require.NoError(t, c.SetDeadline(time.Now().Add(5*time.Second)))
		_, err = c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(query))), query...))
		require.NoError(t, err)
		var prefix [2]byte
		if _, err := io.ReadFull(c, prefix[:]); err != nil {
			return nil
		}
		reply := make([]byte, binary.BigEndian.Uint16(prefix[:]))
		_, err = io.ReadFull(c, reply)
		require.NoError(t, err)
		return reply
	}
}

// someLoopback is who asks a server bound to loopback.
var someLoopback = netip.MustParseAddr("127.0.0.1")
