package routing

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/quorate/quorate/statestore"
)

func typeNames(types []uint16) string {
	names := make([]string, len(types))
	for i, typ := range types {
		names[i] = TypeName(typ)
	}
	return strings.Join(names, " ")
}

// delegating is a state with delegations, a DNAME and a zone below the zone.
func delegating() *statestore.State {
	st := testState()
	st.Spec.Zones[testZone].Records = map[string]map[string][]string{
		"@":             {"TXT": {"apex"}},
		"child":         {"NS": {"ns1.child", "ns.other", "ns.example."}, "DS": {"1 13 2 " + strings.Repeat("00", 32)}},
		"ns1.child":     {"A": {"192.0.2.53"}, "AAAA": {"2001:db8::53"}},
		"other":         {"NS": {"ns.other"}},
		"ns.other":      {"A": {"192.0.2.54"}},
		"old":           {"DNAME": {"new"}, "TXT": {"beside"}},
		"host.new":      {"A": {"192.0.2.80"}},
		"*.new":         {"TXT": {"wild"}},
		"to-child":      {"CNAME": {"www.child"}},
		"to-old":        {"CNAME": {"host.old"}},
		"signed.nested": {"DS": {"2 13 2 " + strings.Repeat("00", 32)}},
		"x":             {"TYPE65534": {"\\# 4 01020304"}},
	}
	nested := *st.Spec.Zones[testZone]
	nested.Records = map[string]map[string][]string{"www": {"A": {"192.0.2.81"}}}
	st.Spec.Zones["signed.nested."+testZone] = &nested
	plain := nested
	st.Spec.Zones["plain.nested."+testZone] = &plain
	return st
}

func TestTypes(t *testing.T) {
	st := delegating()
	st.Spec.Services["web"].HTTPSRecord = &statestore.HTTPSRecord{}
	st.Spec.Services["db"].SRV = &statestore.SRVRecord{Port: 5432, Proto: "tcp"}
	st.Spec.Services["db"].Clusters.Only = []string{"us"}
	table := compile(t, st)
	tests := []struct {
		name, ask, want string
		exists          bool
	}{
		{"the apex has those of its service and its own", "gslb.test.", "A NS SOA TXT AAAA HTTPS", true},
		{"a service", "WEB.gslb.test", "A AAAA HTTPS", true},
		{"a service without candidates of a family", "db.gslb.test.", "A", true},
		{"the port of a service", "_db._tcp.gslb.test.", "SRV", true},
		{"a delegation", "child.gslb.test.", "NS DS", true},
		{"glue is not ours", "ns1.child.gslb.test.", "", false},
		{"a dname and what is beside it", "old.gslb.test.", "TXT DNAME", true},
		{"below a dname", "host.old.gslb.test.", "", false},
		{"an empty non-terminal", "new.gslb.test.", "", true},
		{"a wildcard by its name", "*.new.gslb.test.", "TXT", true},
		{"an alias", "to-child.gslb.test.", "CNAME", true},
		{"an unknown type", "x.gslb.test.", "TYPE65534", true},
		{"a name server", "ns-eu-1.gslb.test.", "A AAAA", true},
		{"no name", "nope.gslb.test.", "", false},
		{"out of zone", "example.", "", false},
		{"the apex of a zone below", "signed.nested.gslb.test.", "NS SOA", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			types, exists := table.Types(tt.ask)
			require.Equal(t, tt.want, typeNames(types))
			require.Equal(t, tt.exists, exists)
		})
	}
	types, exists := table.TypesIn(testZone, "signed.nested.gslb.test.")
	require.Equal(t, "NS DS", typeNames(types), "a zone below is a delegation in the upper one")
	require.True(t, exists)
	types, _ = table.TypesIn(testZone, "plain.nested.gslb.test.")
	require.Equal(t, "NS", typeNames(types))
	_, exists = table.TypesIn(testZone, "www.plain.nested.gslb.test.")
	require.False(t, exists, "a name of the zone below is not in the upper one")
}

func TestNeighbours(t *testing.T) {
	table := compile(t, delegating())
	chain := []string{table.layout.zones[0].name}
	for {
		_, after := table.NeighboursIn(testZone, chain[len(chain)-1])
		if after == chain[0] {
			break
		}
		chain = append(chain, after)
	}
	require.Equal(t, strings.Fields(`gslb.test. child.gslb.test. db.gslb.test. plain.nested.gslb.test. signed.nested.gslb.test.
		*.new.gslb.test. host.new.gslb.test. ns-eu-1.gslb.test. ns-us-1.gslb.test. old.gslb.test. other.gslb.test.
		to-child.gslb.test. to-old.gslb.test. web.gslb.test. x.gslb.test.`), chain)
	tests := []struct{ name, ask, before, after string }{
		{"a name that is there is its own", "child.gslb.test.", "child.gslb.test.", "db.gslb.test."},
		{"a name below a cut", "a.child.gslb.test.", "child.gslb.test.", "db.gslb.test."},
		{"an empty non-terminal", "nested.gslb.test.", "db.gslb.test.", "plain.nested.gslb.test."},
		{"after the last comes the apex", "zz.gslb.test.", "x.gslb.test.", "gslb.test."},
		{"in the zone below", "a.plain.nested.gslb.test.", "plain.nested.gslb.test.", "ns-eu-1.plain.nested.gslb.test."},
		{"out of zone", "example.", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before, after := table.Neighbours(tt.ask)
			require.Equal(t, tt.before, before)
			require.Equal(t, tt.after, after)
		})
	}
}

// TestSortKeyIsCanonicalOrder compares with a comparison label by label, octet by octet.
func TestSortKeyIsCanonicalOrder(t *testing.T) {
	wire := func(name string) [][]byte {
		var labels [][]byte
		b := make([]byte, 256)
		_, err := dns.PackDomainName(name, b, 0, nil, false)
		require.NoError(t, err)
		for at := 0; b[at] != 0; at += int(b[at]) + 1 {
			labels = append(labels, b[at+1:at+1+int(b[at])])
		}
		slices.Reverse(labels)
		return labels
	}
	label := rapid.SliceOfN(rapid.SampledFrom([]string{`\000`, `\001`, `\002`, `\.`, `\\`, "a", "b", "z", `\255`}), 1, 3)
	name := rapid.Custom(func(rt *rapid.T) string {
		s := ""
		for range rapid.IntRange(0, 3).Draw(rt, "labels") {
			s += strings.Join(label.Draw(rt, "label"), "") + "."
		}
		return s + "test."
	})
	rapid.Check(t, func(rt *rapid.T) {
		a, b := name.Draw(rt, "a"), name.Draw(rt, "b")
		want := slices.CompareFunc(wire(a), wire(b), func(x, y []byte) int { return slices.Compare(x, y) })
		require.Equal(rt, want, strings.Compare(sortKey(a), sortKey(b)), fmt.Sprintf("%q, %q", a, b))
	})
}
