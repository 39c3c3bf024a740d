package policy

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/statestore"
)

func TestRecordsDifferOneByOne(t *testing.T) {
	w := upWorld(t)
	type records map[string]map[string][]string
	type ttls map[string]map[string]uint32
	with := func(r records, ttl ttls) *statestore.Spec {
		return clone(w.st().Spec, func(sp *statestore.Spec) {
			z := *sp.Zones["gslb.example.com."]
			z.Records, z.TTLs = r, ttl
			sp.Zones = map[string]*statestore.Zone{"gslb.example.com.": &z}
		})
	}
	a, b := map[string][]string{"A": {"192.0.2.1"}}, map[string][]string{"A": {"192.0.2.2"}}
	hour, minute := map[string]uint32{"A": 3600}, map[string]uint32{"A": 60}
	tests := []struct {
		name     string
		old, now *statestore.Spec
		want     []string
		class    Class
	}{
		{"the first ones", with(nil, nil), with(records{"a": a, "b": b}, ttls{"b": hour}), []string{
			"+ a {A: [192.0.2.1]}", "+ b {A: {data: [192.0.2.2], ttl: 1h0m0s}}",
		}, ClassAnswers},
		{"the last ones", with(records{"a": a, "b": b}, nil), with(nil, nil), []string{"- a {A: [192.0.2.1]}", "- b {A: [192.0.2.2]}"}, ClassAnswers},
		{"data", with(records{"a": a}, nil), with(records{"a": b}, nil), []string{"~ a.A [192.0.2.1] -> [192.0.2.2]"}, ClassAnswers},
		{"data beside a ttl", with(records{"a": a}, ttls{"a": hour}), with(records{"a": b}, ttls{"a": hour}), []string{"~ a.A.data [192.0.2.1] -> [192.0.2.2]"}, ClassAnswers},
		{"a ttl", with(records{"a": a}, ttls{"a": hour}), with(records{"a": a}, ttls{"a": minute}), []string{"~ a.A.ttl 1h0m0s -> 1m0s"}, ClassTTL},
		{"a type", with(records{"a": a}, nil), with(records{"a": {"A": a["A"], "TXT": {`"x"`}}}, nil), []string{`+ a.TXT ["x"]`}, ClassAnswers},
		{"nothing", with(records{"a": a}, ttls{"a": hour}), with(records{"a": a}, ttls{"a": hour}), nil, ClassNone},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			var d Diff
			d.Class = ClassNone
			for _, c := range CompareSpecs(tt.old, tt.now) {
				d.raise(classOf(c))
				got = append(got, line(c))
			}
			require.Equal(t, tt.want, got)
			require.Equal(t, tt.class, d.Class)
		})
	}
}

// line is a change of a zone's records as a plan prints it.
func line(c Change) string {
	const of = "zones.gslb.example.com.records."
	said := c.Op + " " + strings.TrimPrefix(c.Path, of)
	if c.Op == "~" {
		return said + " " + c.Old + " -> " + c.New
	}
	return said + " " + c.Old + c.New
}

func TestANewZoneSaysHowManyRecordsItHas(t *testing.T) {
	w := upWorld(t)
	cs := CompareSpecs(w.st().Spec, clone(w.st().Spec, func(sp *statestore.Spec) {
		sp.Zones = map[string]*statestore.Zone{
			"gslb.example.com.": sp.Zones["gslb.example.com."],
			"empty.example.":    {},
			"full.example.":     {Records: map[string]map[string][]string{"a": {"A": {"192.0.2.1", "192.0.2.2"}, "TXT": {"x"}}}, TTLs: map[string]map[string]uint32{"a": {"A": 60}}},
		}
	}))
	require.Len(t, cs, 2)
	require.Equal(t, "zone", cs[0].New)
	require.Equal(t, "zone, 3 records", cs[1].New)
}

func TestSigningDiffersUnderTheKeysOfTheSpec(t *testing.T) {
	w := upWorld(t)
	with := func(valid statestore.Duration) *statestore.Spec {
		return clone(w.st().Spec, func(sp *statestore.Spec) {
			sp.Zones = map[string]*statestore.Zone{"gslb.example.com.": {DNSSEC: &statestore.DNSSEC{Mode: statestore.Signed, Valid: valid}}}
		})
	}
	cs := CompareSpecs(with(1), with(2))
	require.Len(t, cs, 1)
	require.Equal(t, "zones.gslb.example.com.dnssec.signatures_valid", cs[0].Path)
}
