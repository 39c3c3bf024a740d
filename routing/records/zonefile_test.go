package records

import (
	"fmt"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
)

// told is a file in lines: its records, what is ignored, what is wrong.
func told(f File) string {
	var lines []string
	for _, r := range f.Records {
		lines = append(lines, fmt.Sprintf("%d %s %d %s %s", r.Line, r.Owner, r.TTL, r.Type, r.Data))
	}
	for _, n := range f.Ignored {
		lines = append(lines, fmt.Sprintf("%d ignored %s", n.Line, n.Text))
	}
	for _, n := range f.Errors {
		lines = append(lines, fmt.Sprintf("%d error %s", n.Line, n.Text))
	}
	return strings.Join(lines, "\n")
}

func TestReadFile(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"nothing", "\n ; a comment\n\n", ""},
		{"a ttl of the file and one of its own", "$TTL 1h\na A 192.0.2.1\nb 60 IN A 192.0.2.2\nc A 192.0.2.3\n", "2 a 3600 A 192.0.2.1\n3 b 60 A 192.0.2.2\n4 c 3600 A 192.0.2.3"},
		{"the last ttl stated", "a 60 A 192.0.2.1\nb A 192.0.2.2\n", "1 a 60 A 192.0.2.1\n2 b 60 A 192.0.2.2"},
		{"the owner before", "$TTL 9\na A 192.0.2.1\n  TXT x\n\tMX 5 m\n", "2 a 9 A 192.0.2.1\n3 a 9 TXT \"x\"\n4 a 9 MX 5 m.gslb.test."},
		{"an origin", "$TTL 9\n$ORIGIN sub\na CNAME b\n@ TXT x\n$ORIGIN gslb.test.\n@ TXT y\n", "3 a.sub 9 CNAME b.sub.gslb.test.\n4 sub 9 TXT \"x\"\n6 @ 9 TXT \"y\""},
		{"parentheses over lines, with comments", "$TTL 9\na TXT ( one ; not (this\n  two ) ; end\nb A 192.0.2.1", "2 a 9 TXT \"one\" \"two\"\n4 b 9 A 192.0.2.1"},
		{"what looks like syntax inside quotes", "$TTL 9\na TXT \"; ( \\\" )\"\n", `2 a 9 TXT "; ( \" )"`},
		{"an end of line of Windows", "$TTL 9\r\na A 192.0.2.1\r\n", "2 a 9 A 192.0.2.1"},
		{"a byte order mark", "\ufeffa 9 A 192.0.2.1\n", "1 a 9 A 192.0.2.1"},
		{"any case", "$ttl 9\nWWW in a 192.0.2.1\n", "2 www 9 A 192.0.2.1"},
		{"a wildcard and escapes", "$TTL 9\n*.x A 192.0.2.1\na\\.b\\065 A 192.0.2.2\n", "2 *.x 9 A 192.0.2.1\n3 a\\.ba 9 A 192.0.2.2"},
		{"types by number", "$TTL 9\na TYPE65534 \\# 4 01020304\na TYPE1 \\# 4 c0000201\n", "2 a 9 TYPE65534 \\# 4 01020304\n3 a 9 A 192.0.2.1"},
		{"generated ones", "$TTL 9\n$GENERATE 1-3 host-$ A 192.0.2.$\nx A 192.0.2.9\n", "2 host-1 9 A 192.0.2.1\n2 host-2 9 A 192.0.2.2\n2 host-3 9 A 192.0.2.3\n3 x 9 A 192.0.2.9"},
		{"a delegation", "$TTL 9\nsub NS ns.sub\nsub DS 1 13 2 0000000000000000000000000000000000000000000000000000000000000000\nns.sub A 192.0.2.1\n", "2 sub 9 NS ns.sub.gslb.test.\n3 sub 9 DS 1 13 2 0000000000000000000000000000000000000000000000000000000000000000\n4 ns.sub 9 A 192.0.2.1"},
		{
			"what is derived", "$TTL 9\n@ SOA a b 1 2 3 4 5\n NS ns1\n NS ns2\n TXT x\n", "5 @ 9 TXT \"x\"\n2 ignored SOA is ignored: it is derived, its times are zones.gslb.test.soa\n" +
				"3 ignored NS of the apex are ignored: they are the nodes that answer, or zones.gslb.test.ns",
		},
		{
			"everything wrong at once", "$TTL soon\n$INCLUDE other\n$WHAT\n$ORIGIN\n TXT x\na A 1.2.3\nb 9 A 192.0.2.1\nc.example. A 192.0.2.1\nb SOA a b 1 2 3 4 5\nb CH TXT x\n@ DNSKEY 257 3 13 AA==\nb TXT \"open\nb MX (\n",
			"7 b 9 A 192.0.2.1\n1 error must be $TTL and a time such as 3600 or 1h, is \"soon\"\n2 error must not include other files: a zone_file holds the whole zone\n" +
				"3 error must be $ORIGIN, $TTL or $GENERATE, is $WHAT\n4 error must be $ORIGIN and one value\n5 error must begin with an owner, begins with a blank before any other record\n" +
				"6 error must be a record, is not: missing TTL with no previous value: \"A\"\n8 error owner must be in zone gslb.test., is c.example.\n9 error SOA must be at the apex gslb.test., is at b.gslb.test.\n" +
				"10 error class must be IN, is CH\n11 error DNSKEY must not be in the file, the server makes it: hand in the unsigned zone\n12 error must close what it opens, a quote or parenthesis is left open\n" +
				"13 error must close what it opens, a quote or parenthesis is left open",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { require.Equal(t, tt.want, told(ReadFile("gslb.test", tt.text))) })
	}
}

func TestGenerateIsBounded(t *testing.T) {
	for _, what := range []string{"a$ A 192.0.2.1", "@ NS a$"} {
		f := ReadFile("gslb.test.", "$TTL 9\n"+strings.Repeat("$GENERATE 1-60000 "+what+"\n", 50))
		require.Len(t, f.Errors, 1, what)
		require.Equal(t, 4, f.Errors[0].Line, "the rest is not made")
		require.Contains(t, f.Errors[0].Text, "at most 131072 records")
	}
}

// TestFileDataReadsBack: of every type that the library can make an empty record of,
// what a file says becomes text that Parse reads to the same octets.
func TestFileDataReadsBack(t *testing.T) {
	samples := []string{
		"AFSDB 1 x", "APL 1:192.0.2.0/24 !2:2001:db8::/32", "CAA 0 issue \"ca.example\"", "CERT PKIX 1 8 AAAA", "CSYNC 1 3 A NS", "DHCID AAIBY2/AuCccgoJbsaxcQc9TUapptP69",
		"DLV 1 13 2 00", "EUI48 00-00-5e-00-53-2a", "EUI64 00-00-5e-ef-10-00-00-2a", "GPOS -32.6882 116.8652 10.0", "HINFO a \"b c\"",
		"HIP 2 200100107B1A74DF365639CC39F1D578 AwEAAbdxyhNuSutc5EMzxTs9LBPCIkOFH8cIvM4p9+LrV4e19WzK00+CI6zBCQTdtWsuxKbWIy87UOoJTwkUs7lBu+Upr1gsNrut79ryra+bSRGQb1slImA8YVJyuIDsj7kwzG7jnERNqnWxZ48AWkskmdHaVDP4BcelrTI3rMXdXF5D rvs.example.",
		"HTTPS 1 . alpn=h2,h3 ipv4hint=192.0.2.1", "IPSECKEY 10 1 2 192.0.2.38 AQNRU3mG7TVTO2BkR47usntb102uFJtugbo6BSGvgqt4AQ==", "KX 10 x", "L32 10 10.1.2.0", "L64 10 2001:0db8:1140:1000",
		"LOC 42 21 54 N 71 06 18 W -24m 30m", "LP 10 l64.example.", "MB x", "MG x", "MINFO a b", "MR x", "MX 10 x", "NAPTR 100 50 \"s\" \"z3950+I2L+I2C\" \"\" _z3950._tcp.example.", "NID 10 0014:4fff:ff20:ee64",
		"OPENPGPKEY AAAA", "PTR x", "PX 10 a b", "RP a b", "RT 10 x", "SMIMEA 3 1 1 00", "SPF \"v=spf1\"", "SRV 1 2 3 x", "SSHFP 1 1 00", "SVCB 1 x port=53", "TA 1 13 2 00", "TALINK a b", "TLSA 3 1 1 00",
		"TXT \"a\" \"b\\\\c\\\"d\\007\"", "UID 1", "GID 1", "UINFO \"x\"", "URI 10 1 \"https://a.example/\"", "X25 311061700956", "ZONEMD 1 1 1 " + strings.Repeat("0", 96), "TYPE65534 \\# 3 000102",
	}
	for _, s := range samples {
		f := ReadFile("gslb.test.", "$TTL 9\nx "+s+"\n")
		require.Empty(t, f.Errors, s)
		require.Len(t, f.Records, 1, s)
		r := f.Records[0]
		set, err := Parse("gslb.test.", r.Owner, r.Type, []string{r.Data})
		require.NoError(t, err, s)
		rr, err := dns.NewRR("$ORIGIN gslb.test.\nx 9 " + s)
		require.NoError(t, err, s)
		want, err := pack(rr)
		require.NoError(t, err, s)
		require.Equal(t, want, set.Rdata[0], "%s became %s", s, r.Data)
	}
}

func FuzzReadFile(f *testing.F) {
	f.Add("$TTL 1h\na A 192.0.2.1\n TXT ( \"x\" ; c\n )\n$GENERATE 1-3 b$ A 192.0.2.$\n")
	f.Add("$ORIGIN x\n@ 9 IN TYPE65534 \\# 1 00\n\" ( \n")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(strings.ToUpper(text), "$GENERATE") && len(text) > 60 {
			return // many records are slow, not wrong
		}
		for _, r := range ReadFile("gslb.test.", text).Records {
			if _, err := Parse("gslb.test.", r.Owner, r.Type, []string{r.Data}); err != nil {
				t.Errorf("ReadFile(%q) has %+v, which does not read back: %v", text, r, err)
			}
		}
	})
}
