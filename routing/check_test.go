package routing

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/statestore"
)

func TestCheckSpec(t *testing.T) {
	tests := []struct {
		name string
		edit func(*statestore.Spec)
		want string
	}{
		{"nothing wrong", func(*statestore.Spec) {}, ""},
		{"a static HTTPS record at the name", func(sp *statestore.Spec) {
			sp.Zones[testZone].Records["web"] = map[string][]string{"HTTPS": {"1 . alpn=h2"}}
		}, "web.gslb.test. has the HTTPS records of service web (https_record)"},
		{"a static SRV record at its owner", func(sp *statestore.Spec) {
			sp.Zones[testZone].Records["_web._tcp"] = map[string][]string{"SRV": {"0 0 80 web"}}
		}, "_web._tcp.gslb.test. has the SRV record of service web (srv)"},
		{"an alias at its owner", func(sp *statestore.Spec) {
			sp.Zones[testZone].Records["_web._tcp"] = map[string][]string{"CNAME": {"web"}}
		}, "a CNAME must stand alone at _web._tcp.gslb.test."},
		{"a text beside it", func(sp *statestore.Spec) {
			sp.Zones[testZone].Records["_web._tcp"] = map[string][]string{"TXT": {"hello"}}
		}, ""},
		{"an owner that is too long", func(sp *statestore.Spec) {
			long := strings.Repeat("w", 63)
			sp.Services[long] = testService(statestore.Weighted, "long")
			sp.Services[long].SRV = &statestore.SRVRecord{Port: 1, Proto: "udp"}
		}, "a label must have 1 to 63 octets, has 64"},
		{"a country whose residency leaves it nothing of its continent's", func(sp *statestore.Spec) {
			sp.Services["web"].Residency = map[string][]string{"EU": {"eu"}, "GB": {"us"}}
		}, "services.web.residency.GB: must share a cluster with residency.EU (eu), which holds for clients in GB too, is us: nobody there would get an answer"},
		{"a country whose residency is within its continent's", func(sp *statestore.Spec) {
			sp.Services["web"].Residency = map[string][]string{"EU": {"eu", "us"}, "GB": {"us"}}
		}, ""},
		{"a country of another continent", func(sp *statestore.Spec) {
			sp.Services["web"].Residency = map[string][]string{"EU": {"eu"}, "US": {"us"}}
		}, ""},
		{"South America is no country", func(sp *statestore.Spec) {
			sp.Services["web"].Residency = map[string][]string{"AS": {"eu"}, "SA": {"us"}}
		}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sp := testState().Spec
			delete(sp.Zones[testZone].Records, "loop")
			sp.Services["web"].HTTPSRecord = &statestore.HTTPSRecord{}
			sp.Services["web"].SRV = &statestore.SRVRecord{Port: 443, Proto: "tcp"}
			tt.edit(sp)
			if err := CheckSpec(sp); tt.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tt.want)
			}
		})
	}
}
