package records

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	tests := []struct {
		name, owner, typ string
		rdata            []string
		want             string // owner and texts, or the error
	}{
		{"an address", "www", "A", []string{"192.0.2.1"}, "www.gslb.test. 192.0.2.1"},
		{"a type in lower case", "www", "txt", []string{"hello"}, `www.gslb.test. "hello"`},
		{"the apex", "@", "TXT", []string{`"v=spf1 -all"`}, `gslb.test. "v=spf1 -all"`},
		{"case of the owner", "WwW", "A", []string{"192.0.2.1"}, "www.gslb.test. 192.0.2.1"},
		{"a relative name", "mail", "MX", []string{"10 mx"}, "mail.gslb.test. 10 mx.gslb.test."},
		{"a wildcard", "*.apps", "A", []string{"192.0.2.1"}, "*.apps.gslb.test. 192.0.2.1"},
		{"an unknown type", "x", "TYPE65280", []string{`\# 2 abcd`}, `x.gslb.test. \# 2 abcd`},
		{"no data of an unknown type", "x", "TYPE65280", []string{`\# 0`}, `x.gslb.test. \# 0`},
		{"a known type by its number", "x", "TYPE1", []string{"192.0.2.1"}, "x.gslb.test. 192.0.2.1"},
		{"a known type in generic form", "x", "MX", []string{`\# 5 000a 017800`}, "x.gslb.test. 10 x."},
		{"a type that only asks", "x", "TYPE250", []string{`\# 0`}, "type must not be TSIG: it is not a record"},
		{"the mark of a name that is not there", "x", "TYPE128", []string{`\# 0`}, "type must not be NXNAME: it is not a record"},
		{"no number of a type", "x", "TYPE065534", []string{`\# 0`}, `type must be a DNS record type such as A or TXT, is "TYPE065534"`},
		{"a delegation", "child", "NS", []string{"ns1.child", "Ns.example."}, "child.gslb.test. ns1.child.gslb.test. Ns.example."},
		{"name servers of the apex", "@", "NS", []string{"ns."}, "NS of the apex is derived; set zones.ZONE.ns"},
		{"a ds of the apex", "@", "DS", []string{"1 13 2 00"}, "DS must stand in the zone above, beside the delegation (RFC 4035 2.4)"},
		{"a delegated wildcard", "*", "NS", []string{"ns."}, "NS must not stand at a wildcard (RFC 4592 4)"},
		{"two dnames", "x", "DNAME", []string{"a.", "b."}, "DNAME must be one record, is 2"},
		{"an escaped owner", `a\.b\065`, "A", []string{"192.0.2.1"}, `a\.ba.gslb.test. 192.0.2.1`},
		{"no type at all", "x", "ADDRESS", []string{"192.0.2.1"}, `type must be a DNS record type such as A or TXT, is "ADDRESS"`},
		{"no address", "x", "A", []string{"2001:db8::1"}, `A record must be valid, "2001:db8::1" is not: bad A A: "2001:db8::1"`},
		{"two lines", "x", "TXT", []string{"a\nb"}, `TXT record must be one line, is "a\nb"`},
		{"nothing", "x", "TXT", nil, "TXT must have at least one record, has none"},
		{"twice the same", "x", "A", []string{"192.0.2.1", "192.0.2.1"}, `A records must differ, "192.0.2.1" is there twice`},
		{"twice but for case", "x", "MX", []string{"1 Mail", "1 mail"}, `MX records must differ, "1 mail" is there twice`},
		{"numbers that are letters of another case are no case", "x", "MX", []string{"65 a", "97 a"}, "x.gslb.test. 65 a.gslb.test. 97 a.gslb.test."},
		{"nor is text", "x", "TXT", []string{"A", "a"}, `x.gslb.test. "A" "a"`},
		{"soa", "@", "SOA", []string{"a b 1 2 3 4 5"}, "type must not be SOA: it is derived; set zones.ZONE.soa"},
		{"cname at the apex", "@", "CNAME", []string{"x.example."}, "CNAME must not stand at the apex: a name with SOA and NS cannot be an alias (RFC 1034 3.6.2)"},
		{"two cnames", "x", "CNAME", []string{"a.", "b."}, "CNAME must be one record, is 2"},
		{"an absolute owner", "x.gslb.test.", "A", []string{"192.0.2.1"}, `owner must be relative to gslb.test., is "x.gslb.test."`},
		{"a wildcard inside", "a.*.b", "A", []string{"192.0.2.1"}, `owner must have a wildcard only as its whole first label, is "a.*.b"`},
		{"a comment", "x", "A", []string{"192.0.2.1\t; a comment"}, `A record must have no comment, "192.0.2.1\t; a comment" has "; a comment": put what has a semicolon into quotes`},
		{"a semicolon outside quotes", "x", "TXT", []string{"v=DKIM1; p=AA"}, `TXT record must have no comment, "v=DKIM1; p=AA" has "; p=AA": put what has a semicolon into quotes`},
		{"a semicolon inside quotes", "x", "TXT", []string{`"v=DKIM1; p=AA"`}, `x.gslb.test. "v=DKIM1; p=AA"`},
		{"a digest", "x", "DS", []string{"1 13 2 " + strings.Repeat("AB", 32)}, "x.gslb.test. 1 13 2 " + strings.Repeat("AB", 32)},
		{"a digest of another length", "x", "DS", []string{"1 13 2 ABCD"}, "DS record must have a digest of 32 octets for digest type 2, has 2"},
		{"a digest of a type without a length", "x", "DS", []string{"1 13 250 ABCD"}, "x.gslb.test. 1 13 250 ABCD"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			set, err := Parse("gslb.test.", tt.owner, tt.typ, tt.rdata)
			if err != nil {
				require.Equal(t, tt.want, err.Error())
				return
			}
			got := set.Owner
			for _, text := range set.Text {
				got += " " + text
			}
			require.Equal(t, tt.want, got)
		})
	}
}

func TestParseGivesWireRdata(t *testing.T) {
	set, err := Parse("gslb.test.", "x", "MX", []string{"10 mx"})
	require.NoError(t, err)
	require.Equal(t, [][]byte{[]byte("\x00\x0a\x02mx\x04gslb\x04test\x00")}, set.Rdata)
	set, err = Parse("gslb.test.", "x", "CNAME", []string{"Web"})
	require.NoError(t, err)
	require.Equal(t, []string{"web.gslb.test."}, set.Targets)
}

func TestParseOfLargeSets(t *testing.T) {
	var list []string
	for i := range 3900 {
		list = append(list, fmt.Sprintf("10.0.%d.%d", i/256, i%256))
	}
	set, err := Parse("gslb.test.", "x", "A", list)
	require.NoError(t, err)
	require.Len(t, set.Rdata, 3900)
	for i := range 100 {
		list = append(list, fmt.Sprintf("10.1.%d.%d", i/256, i%256))
	}
	_, err = Parse("gslb.test.", "x", "A", list)
	require.EqualError(t, err, "A records of one name must fit one message, are more than 63488 octets")
}

func FuzzParse(f *testing.F) {
	f.Add("www", "A", "192.0.2.1")
	f.Add("*", "TXT", `"a" "b"`)
	f.Add(`a\.b`, "SVCB", "1 . alpn=h2")
	f.Fuzz(func(t *testing.T, owner, typ, rdata string) {
		set, err := Parse("gslb.test.", owner, typ, []string{rdata})
		if err == nil && (len(set.Rdata) != 1 || len(set.Text) != 1) {
			t.Errorf("Parse(%q, %q, %q) = %+v, want one record", owner, typ, rdata, set)
		}
	})
}
