package routing

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/statestore"
)

func TestTheTraceOfAKeySaysWhoPublishesIt(t *testing.T) {
	st := testState()
	st.Spec.Zones[testZone].DNSSEC = &statestore.DNSSEC{Mode: statestore.Signed}
	table, err := Compile(st)
	require.NoError(t, err)
	note := func(name, typ string) string {
		_, tr := Select(table, query(name, typ))
		steps := tr.Steps()
		return steps[len(steps)-1].Note
	}
	for _, typ := range []string{"DNSKEY", "CDS", "CDNSKEY"} {
		require.Equal(t, "signing adds it: quorate zone dnssec status gslb.test", note(testZone, typ))
	}
	require.Equal(t, "the name has no MX records", note(testZone, "MX"))
	require.NotContains(t, note("web."+testZone, "DNSKEY"), "signing")
	st.Spec.Zones[testZone].DNSSEC = nil
	table, err = Compile(st)
	require.NoError(t, err)
	require.Equal(t, "the name has no DNSKEY records", note(testZone, "DNSKEY"))
}
