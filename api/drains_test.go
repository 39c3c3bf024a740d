package api

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/statestore"
)

// newWideRig is a rig with two more clusters of a rack, which web uses too, and room
// to drain several.
func newWideRig(t *testing.T) *rig {
	r := newRig(t)
	spec := testSpec()
	for i, name := range []string{"rack1", "rack2"} {
		spec.Clusters[name] = &statestore.Cluster{
			ID: 10 + i, Region: "us-east", Labels: map[string]string{"rack": "a"},
			IPv4: []netip.Addr{netip.AddrFrom4([4]byte{203, 0, 113, byte(20 + i)})},
		}
	}
	spec.Services["web"].Clusters.Only = []string{"dr", "eu", "rack1", "rack2", "us"}
	spec.Safety.MaxDrained = 3
	r.apply1(spec)
	r.votes(2, true, nil)
	r.settle() // they are up, and answer now
	return r
}

func TestDrainsTakeSeveralClustersOutInOneEntry(t *testing.T) {
	r := newWideRig(t)
	drains := func(body string, headers ...string) apitype.Act {
		t.Helper()
		return items[apitype.Act](t, r.post("/v1/drains", body, headers...))[0]
	}
	dry := drains(`{"match":"rack=a","reason":"power","for":"2h","dry_run":true}`)
	require.Equal(t, "would drain rack1, rack2", dry.Text)
	require.Len(t, dry.Impact, 1, "web")
	require.Empty(t, dry.Blocked)
	require.Nil(t, r.store.State().Clusters["rack1"].Drain)

	index := r.store.State().Index
	act := drains(`{"match":"rack=a","reason":"power","for":"2h"}`)
	require.Regexp(t, `^drained rack1, rack2 until \d\d:\d\d:\d\dZ$`, act.Text)
	require.Equal(t, index+1, act.Index, "one entry")
	require.WithinDuration(t, r.store.State().Now.Add(2*time.Hour), act.Until, time.Second)
	require.True(t, act.Clears.After(r.store.State().Now))
	for _, c := range []string{"rack1", "rack2"} {
		require.Equal(t, "admin-user", r.store.State().Clusters[c].Drain.By)
	}
	history := r.get("/v1/history?service=web").body
	require.Contains(t, history, "cluster.drained")
	require.NotContains(t, r.get("/v1/history?service=shop").body, "cluster.drained", "shop has none of them")
}

func TestADrainOfOtherServicesIsNotInAServicesHistory(t *testing.T) {
	r := newWideRig(t)
	r.post("/v1/drains", `{"clusters":["eu"],"services":["web"],"reason":"web only"}`)
	require.NotNil(t, r.store.State().Clusters["eu"].Drain)
	for path, in := range map[string]bool{"/v1/history?service=web": true, "/v1/history": true, "/v1/history?service=shop": false} {
		require.Equal(t, in, strings.Contains(r.get(path).body, "web only"), path)
	}
}

func TestDrainsAreJudgedTogether(t *testing.T) {
	r := newWideRig(t)
	// Each alone would leave shop with the other.
	a := r.post("/v1/drains", `{"clusters":["eu","us"],"reason":"r"}`)
	require.Equal(t, 409, a.status, a.body)
	p := a.problem(t)
	require.Equal(t, apitype.ProblemBase+"blocked", p.Type)
	require.NotEmpty(t, p.Blockers)
	require.Nil(t, r.store.State().Clusters["eu"].Drain)
	dry := items[apitype.Act](t, r.post("/v1/drains", `{"clusters":["eu","us"],"reason":"r","dry_run":true}`))[0]
	require.Equal(t, p.Blockers, dry.Blocked, "a dry run finds what the act would")
	require.Equal(t, 409, r.post("/v1/drains", `{"clusters":["eu","dr","rack1","rack2"],"reason":"r"}`).status, "more than max_drained")
}

func TestDrainsThatAreRefused(t *testing.T) {
	r := newWideRig(t)
	tests := []struct {
		name, role, body string
		status           int
		problem, want    string
	}{
		{"a viewer", "viewer", `{"clusters":["dr"],"reason":"r"}`, 403, "forbidden", "may not drain"},
		{"a role of one service drains all", "webops", `{"clusters":["dr"],"reason":"r"}`, 403, "forbidden", "may not drain"},
		{"a role of one service drains another", "webops", `{"clusters":["dr"],"reason":"r","services":["shop"]}`, 403, "forbidden", "for service shop"},
		{"nothing", "admin", `{"reason":"r"}`, 422, "validation", "must name a cluster"},
		{"both", "admin", `{"clusters":["dr"],"match":"rack=a","reason":"r"}`, 422, "validation", "must not be given with clusters"},
		{"an unknown cluster", "admin", `{"clusters":["dr","nope"],"reason":"r"}`, 422, "validation", `is "nope"`},
		{"an unknown service", "admin", `{"clusters":["dr"],"services":["nope"],"reason":"r"}`, 422, "validation", `is "nope"`},
		{"no selector", "admin", `{"match":"rack=","reason":"r"}`, 422, "validation", "matches none"},
		{"a broken selector", "admin", `{"match":"rack in","reason":"r"}`, 422, "validation", "must be a label selector"},
		{"a selector of nothing", "admin", `{"match":"rack=b","reason":"r"}`, 422, "validation", "matches none"},
		{"no reason", "admin", `{"clusters":["dr"],"reason":""}`, 422, "validation", "must say why"},
		{"a negative duration", "admin", `{"clusters":["dr"],"reason":"r","for":"-1h"}`, 422, "validation", `is "-1h"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := r.as(tt.role, "POST", "/v1/drains", tt.body)
			require.Equal(t, tt.status, a.status, a.body)
			require.Equal(t, apitype.ProblemBase+tt.problem, a.problem(t).Type)
			require.Contains(t, a.body, jsonText(tt.want))
			for _, cs := range r.store.State().Clusters {
				require.Nil(t, cs.Drain)
			}
		})
	}
	items[apitype.Act](t, r.as("webops", "POST", "/v1/drains", `{"clusters":["dr"],"reason":"r","services":["web"]}`))
}

func TestTheSameDrainsAgainWriteNothing(t *testing.T) {
	r := newWideRig(t)
	drains := func(body string, headers ...string) apitype.Act {
		t.Helper()
		return items[apitype.Act](t, r.post("/v1/drains", body, headers...))[0]
	}
	first := drains(`{"clusters":["rack2","rack1","rack1"],"reason":"r"}`, "Idempotency-Key", "k-1")
	require.Equal(t, "drained rack1, rack2 until it is undrained", first.Text)
	require.Equal(t, first.Index, drains(`{"clusters":["rack2","rack1","rack1"],"reason":"r"}`, "Idempotency-Key", "k-1").Index)
	same := drains(`{"match":"rack=a","reason":"r"}`)
	require.Equal(t, "rack1, rack2 are drained already, until it is undrained, by admin-user: r; nothing changes", same.Text)
	require.Zero(t, same.Index)
	require.Equal(t, "rack1 is drained already, until it is undrained, by admin-user: r; nothing changes", drains(`{"clusters":["rack1"],"reason":"r"}`).Text)
	require.Equal(t, 1, countEvents(r, "cluster.drained"))
	drains(`{"match":"rack=a","reason":"another"}`)
	drains(`{"match":"rack=a","reason":"another","for":"1h"}`)
	require.Equal(t, 3, countEvents(r, "cluster.drained"))
}
