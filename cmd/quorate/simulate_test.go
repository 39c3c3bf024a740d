package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/api/apitype"
)

func TestWhatAllSampledClientsShareIsSaidOnce(t *testing.T) {
	move := func(client, region, after string) apitype.ClientMove {
		return apitype.ClientMove{Client: client, Region: region, Before: "eu", After: after}
	}
	tests := []struct {
		name  string
		reach apitype.ServiceReach
		want  string
	}{
		{"nobody moves", apitype.ServiceReach{Service: "web"}, ""},
		{
			"all move alike",
			apitype.ServiceReach{Service: "web", Moved: 2, Moves: []apitype.ClientMove{move("region eu-west", "eu-west", "us"), move("cluster us 192.0.2.0/24", "us-east", "us")}},
			"clients  web: 2 of 2 sampled clients get another answer\n         every one of them: eu -> us\n",
		},
		{
			"they part",
			apitype.ServiceReach{Service: "web", Moved: 1, Lost: 1, Moves: []apitype.ClientMove{move("region eu-west", "eu-west", "NODATA"), move("cluster us 192.0.2.0/24", "us-east", "us")}},
			"clients  web: 1 of 2 sampled clients get another answer, 1 GET NONE\n" +
				"         region eu-west                     eu -> NODATA\n" +
				"         cluster us 192.0.2.0/24 (us-east)  eu -> us\n",
		},
		{
			"more than are named",
			apitype.ServiceReach{Service: "web", Moved: 2, Moves: []apitype.ClientMove{move("region eu-west", "eu-west", "us")}},
			"clients  web: 2 of 2 sampled clients get another answer\n         region eu-west  eu -> us\n         and 1 more\n",
		},
		{
			"some asked lately",
			apitype.ServiceReach{
				Service: "web", Sampled: 3, Moved: 2,
				Moves:    []apitype.ClientMove{move("region eu-west", "eu-west", "us"), {Client: "network 198.51.100.0/24", Region: "eu-west", Percent: 12.34, Before: "eu", After: "us"}},
				Observed: &apitype.ObservedReach{Seconds: 3700, Networks: 2, CoveredPercent: 87, MovedPercent: 12.34, LostPercent: 0.2, MissingNodes: []string{"ap-1"}},
			},
			"clients  web: 2 of 3 sampled clients get another answer\n" +
				"         12% of the queries of the last hour would get another cluster, 0.2% NONE   (2 client networks, which make 87% of them; nothing known of ap-1)\n" +
				"         region eu-west                            eu -> us\n" +
				"         network 198.51.100.0/24 (eu-west)  12.3%  eu -> us\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			reachTable(&out, apitype.ClientReach{Sampled: 2, Services: []apitype.ServiceReach{tt.reach}}, 8)
			require.Equal(t, tt.want, out.String())
		})
	}
}
