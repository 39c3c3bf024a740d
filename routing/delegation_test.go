package routing

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/statestore"
)

// full is an answer with its zone, DS, additional names and wildcard.
func full(a Answer) string {
	s := shown(a)
	if a.DS != nil {
		s += " DS"
	}
	for _, g := range a.Additional {
		s += " +" + g.Owner + " " + TypeName(g.Set.Type)
	}
	if a.Wild != "" {
		s += " by " + a.Wild
	}
	if a.Zone != nil && a.Zone.Name != testZone {
		s += " in " + a.Zone.Name
	}
	return s
}

func TestDelegations(t *testing.T) {
	table := compile(t, delegating())
	const toChild = "NS ns1.child.gslb.test.,ns.other.gslb.test.,ns.example. DS +ns1.child.gslb.test. A +ns1.child.gslb.test. AAAA +ns.other.gslb.test. A"
	tests := []struct{ name, ask, typ, want string }{
		{"at the cut", "child.gslb.test.", "A", "DELEGATION " + toChild},
		{"the NS of the cut", "child.gslb.test.", "NS", "DELEGATION " + toChild},
		{"any at the cut", "child.gslb.test.", "ANY", "DELEGATION " + toChild},
		{"below the cut", "a.b.child.gslb.test.", "A", "DELEGATION " + toChild},
		{"glue is not an answer", "ns1.child.gslb.test.", "A", "DELEGATION " + toChild},
		{"the DS of the cut is the upper zone's", "child.gslb.test.", "DS", "NOERROR DS 1 13 2 " + strings.Repeat("00", 32)},
		{"a DS below the cut", "a.child.gslb.test.", "DS", "DELEGATION " + toChild},
		{"no DS at an unsigned cut", "other.gslb.test.", "DS", "NODATA"},
		{"an alias into the child", "to-child.gslb.test.", "A", "DELEGATION CNAME www.child.gslb.test. " + toChild},
		{"a name below a zone of ours is in that", "www.plain.nested.gslb.test.", "A", "NOERROR A 192.0.2.81 in plain.nested.gslb.test."},
		{"the DS of a zone below is the upper zone's", "signed.nested.gslb.test.", "DS", "NOERROR DS 2 13 2 " + strings.Repeat("00", 32)},
		{"and there is none", "plain.nested.gslb.test.", "DS", "NODATA"},
		{"between two apexes", "nested.gslb.test.", "A", "NODATA"},
		{"the DS of a zone without an upper one", "gslb.test.", "DS", "NODATA"},
		{"at a DNAME", "old.gslb.test.", "TXT", `NOERROR TXT "beside"`},
		{"the DNAME itself", "old.gslb.test.", "DNAME", "NOERROR DNAME new.gslb.test."},
		{"below a DNAME", "host.old.gslb.test.", "A", "NOERROR DNAME new.gslb.test. CNAME host.new.gslb.test. A 192.0.2.80"},
		{"below a DNAME by a wildcard", "a.b.old.gslb.test.", "TXT", `NOERROR DNAME new.gslb.test. CNAME a.b.new.gslb.test. TXT "wild" by *.new.gslb.test.`},
		{"the alias made by a DNAME", "host.old.gslb.test.", "CNAME", "NOERROR DNAME new.gslb.test. CNAME host.new.gslb.test."},
		{"an alias to below a DNAME", "to-old.gslb.test.", "A", "NOERROR CNAME host.old.gslb.test. DNAME new.gslb.test. CNAME host.new.gslb.test. A 192.0.2.80"},
		{"a type nobody knows", "x.gslb.test.", "TYPE65534", "NOERROR TYPE65534 \\# 4 01020304"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, tr := Select(table, query(tt.ask, tt.typ))
			require.Equal(t, tt.want, full(a))
			require.NotEmpty(t, tr.Steps())
		})
	}
}

func TestANameThatADNAMEMakesTooLong(t *testing.T) {
	st := testState()
	st.Spec.Zones[testZone].Records = map[string]map[string][]string{"o": {"DNAME": {strings.Repeat("n", 60)}}}
	long := strings.Repeat(strings.Repeat("a", 59)+".", 3)
	a, _ := Select(compile(t, st), query(long+"o.gslb.test.", "A"))
	require.Equal(t, NameError, a.Kind, "252 octets are a name, of which there is none")
	a, _ = Select(compile(t, st), query("aaaaaa."+long+"o.gslb.test.", "A"))
	require.Equal(t, NameTooLong, a.Kind)
	require.Len(t, a.Chain, 1, "the DNAME says why")
}

// TestContradictions: what CheckSpec says of data that cannot stand together.
func TestContradictions(t *testing.T) {
	tests := []struct {
		name    string
		records map[string]map[string][]string
		edit    func(*statestore.Spec)
		want    string
	}{
		{
			"a service below a cut",
			map[string]map[string][]string{"sub": {"NS": {"ns.example."}}},
			func(sp *statestore.Spec) { sp.Services["web"].Names = []string{"web.sub"} },
			"services.web.names: web.sub.gslb.test. is below sub.gslb.test., which is delegated: the service would not be answered there",
		},
		{
			"a service at a cut",
			map[string]map[string][]string{"web": {"NS": {"ns.example."}}},
			nil,
			"zones.gslb.test.records.web.NS: web.gslb.test. is a name of service web: a name that is delegated is answered elsewhere",
		},
		{
			"a port of a service below a cut",
			map[string]map[string][]string{"_tcp": {"NS": {"ns.example."}}},
			func(sp *statestore.Spec) { sp.Services["db"].SRV = &statestore.SRVRecord{Port: 1, Proto: "tcp"} },
			"services.db.srv: _db._tcp.gslb.test. is below _tcp.gslb.test., which is delegated: the record would not be answered there",
		},
		{
			"data at a cut",
			map[string]map[string][]string{"sub": {"NS": {"ns.example."}, "TXT": {"x"}}},
			nil,
			"zones.gslb.test.records.sub.TXT: sub.gslb.test. is delegated: only NS, DS and the addresses of its name servers may stand here",
		},
		{
			"data below a cut",
			map[string]map[string][]string{"sub": {"NS": {"ns.example."}}, "www.sub": {"A": {"192.0.2.1"}}},
			nil,
			"zones.gslb.test.records.www.sub.A: www.sub.gslb.test. is below sub.gslb.test., which is delegated: only NS, DS and the addresses of its name servers may stand here",
		},
		{
			"a cut below a cut",
			map[string]map[string][]string{"sub": {"NS": {"ns.example."}}, "a.sub": {"NS": {"ns.example."}}},
			nil,
			"zones.gslb.test.records.a.sub.NS: a.sub.gslb.test. is below sub.gslb.test., which is delegated: only NS, DS and the addresses of its name servers may stand here",
		},
		{
			"no glue",
			map[string]map[string][]string{"sub": {"NS": {"ns.sub"}}},
			nil,
			"zones.gslb.test.records.sub.NS: ns.sub.gslb.test. is below the delegation and must have an A or AAAA record in this zone (RFC 1034 4.2.1), has none",
		},
		{
			"a DS alone",
			map[string]map[string][]string{"sub": {"DS": {"1 13 2 " + strings.Repeat("00", 32)}}},
			nil,
			"zones.gslb.test.records.sub.DS: must be next to the NS records of a delegation, sub.gslb.test. has none (RFC 4035 2.4)",
		},
		{
			"an alias at a cut",
			map[string]map[string][]string{"sub": {"CNAME": {"x"}, "NS": {"ns.example."}}},
			nil,
			"zones.gslb.test.records.sub.NS: a CNAME must stand alone at sub.gslb.test. (RFC 1034 3.6.2)",
		},
		{
			"data below a DNAME",
			map[string]map[string][]string{"sub": {"DNAME": {"x"}}, "a.sub": {"TXT": {"x"}}},
			nil,
			"zones.gslb.test.records.a.sub.TXT: a.sub.gslb.test. is below the DNAME at sub.gslb.test. (RFC 6672 2.4), which answers for it",
		},
		{
			"a service below a DNAME at the apex",
			map[string]map[string][]string{"@": {"DNAME": {"example."}}},
			nil,
			"services.db.names: db.gslb.test. is below the DNAME at gslb.test. (RFC 6672 2.4): the service would not be answered there\n" +
				"services.web.names: web.gslb.test. is below the DNAME at gslb.test. (RFC 6672 2.4): the service would not be answered there",
		},
		{
			"a record of the upper zone in the lower",
			map[string]map[string][]string{"www.sub": {"A": {"192.0.2.1"}}},
			func(sp *statestore.Spec) { sp.Zones["sub.gslb.test."] = &statestore.Zone{} },
			"zones.gslb.test.records.www.sub.A: www.sub.gslb.test. is in zone sub.gslb.test.: the zone above has no other record there than the DS of its apex",
		},
		{
			"the delegation of a zone of ours",
			map[string]map[string][]string{"sub": {"NS": {"ns.example."}}},
			func(sp *statestore.Spec) { sp.Zones["sub.gslb.test."] = &statestore.Zone{} },
			"zones.gslb.test.records.sub.NS: sub.gslb.test. is in zone sub.gslb.test.: the zone above has no other record there than the DS of its apex",
		},
		{
			"one type under two spellings",
			map[string]map[string][]string{"x": {"A": {"192.0.2.1"}, "TYPE1": {"192.0.2.2"}}},
			nil,
			"zones.gslb.test.records.x.TYPE1: x.gslb.test. has A records already, under another spelling",
		},
		{"aliases in a circle through a DNAME", map[string]map[string][]string{"a": {"DNAME": {"b"}}, "b": {"DNAME": {"a"}}}, nil, ""},
		{"glue of a sibling", map[string]map[string][]string{"a": {"NS": {"ns.b"}}, "b": {"NS": {"ns.b"}}, "ns.b": {"A": {"192.0.2.1"}}}, nil, ""},
		{"a name server that is the cut", map[string]map[string][]string{"a": {"NS": {"a"}, "A": {"192.0.2.1"}}}, nil, ""},
		{"a name server that is a wildcard's", map[string]map[string][]string{"*": {"TXT": {"x"}}, "a": {"NS": {"ns.example."}}}, nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			st := testState()
			st.Spec.Zones[testZone].Records = tt.records
			if tt.edit != nil {
				tt.edit(st.Spec)
			}
			err := CheckSpec(st.Spec)
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, tt.want)
		})
	}
}
