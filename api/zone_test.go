package api

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/api/apitype"
)

func TestZoneShowsWhatIsServed(t *testing.T) {
	r := newRig(t)
	z := items[apitype.Zone](t, r.get("/v1/zones/GSLB.test"))[0]
	require.Equal(t, "gslb.test.", z.Zone)
	require.Positive(t, z.Serial)
	require.Contains(t, z.Services, "web")
	require.Equal(t, []string{"SOA", "gslb.test."}, []string{z.Sets[0].Type, z.Sets[0].Owner})
	require.True(t, z.Sets[0].Derived)
	require.Contains(t, z.Services, "shop")
	z = items[apitype.Zone](t, r.as("webops", "GET", "/v1/zones/gslb.test", ""))[0]
	require.Equal(t, []string{"web"}, z.Services, "what one may not read is not told")
	require.Equal(t, 404, r.get("/v1/zones/example.com").status)
	require.Equal(t, 401, r.as("", "GET", "/v1/zones/gslb.test", "").status)
}
