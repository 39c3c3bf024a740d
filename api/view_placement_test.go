package api

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

// ail casts everybody's votes: up, but degraded at a cluster.
func (r *rig) ail(seq uint64, cluster, why string) {
	r.t.Helper()
	var batches []statestore.VoteBatch
	for _, o := range []health.ObserverID{"ap-1", "eu-1", "us-1"} {
		b := statestore.VoteBatch{Observer: o, Seq: seq, Prev: seq - 1, Votes: map[health.Target]health.Vote{}}
		for _, t := range r.store.State().Spec.Targets() {
			v := health.Vote{Side: health.Up, Since: time.Now()}
			if t.Cluster == cluster {
				v.Degraded = why
			}
			b.Votes[t] = v
		}
		batches = append(batches, b)
	}
	r.must(statestore.CastVotes{Batches: batches})
}

func (r *rig) banners(role string) map[string]string {
	r.t.Helper()
	out := map[string]string{}
	for _, b := range items[apitype.Status](r.t, r.as(role, "GET", "/v1/status", ""))[0].Banners {
		out[b.Code] += b.Text + "\n"
	}
	return out
}

func TestDegradedIsShownAndMovesNothing(t *testing.T) {
	r := newRig(t)
	before := r.service("web")
	require.Equal(t, []string{}, before.Degraded)
	r.ail(2, "eu", "cert")
	web := r.service("web")
	require.Equal(t, []string{"eu (cert)"}, web.Degraded)
	require.Equal(t, before.Rotation, web.Rotation)
	require.Contains(t, web.Notes, "eu degraded (cert)")
	for _, target := range web.Targets {
		want := ""
		if target.Cluster == "eu" {
			want = "cert"
		}
		require.Equal(t, want, target.Verdict.Degraded, target.Target)
		require.Equal(t, want, target.Votes[0].Degraded, target.Target)
		require.Equal(t, health.Up, target.Verdict.Side)
	}
	require.Equal(t, "eu is degraded, and stays in answers: shop (cert), web (cert), front door (cert)\n", r.banners("viewer")["degraded"])
	require.Equal(t, "eu is degraded, and stays in answers: web (cert), front door (cert)\n", r.banners("webops")["degraded"])

	page := r.get("/").body
	require.Contains(t, page, "◐ degraded</span> cert")
	require.Contains(t, page, "◐ DEGRADED</b> 3/3 cert")
	require.Contains(t, page, "● UP", "the others are well")
	require.Contains(t, page, "web/eu/192.0.2.10 up, degraded: cert")
}

func TestClustersSayWhereTheyAreAndWhatTheyCanTake(t *testing.T) {
	r := newRig(t)
	spec := testSpec()
	spec.Clusters["lb"] = &statestore.Cluster{
		ID: 9, Region: "eu-west", Hostname: "lb.test.", Capacity: 100,
		CapacityFrom: &statestore.CapacityFrom{HTTP: &statestore.CapacityHTTP{Port: 443, Path: "/", JSON: "$.n"}, MaxAge: statestore.Duration(time.Minute), Change: 10},
	}
	spec.Services["web"].Clusters.Only = append(spec.Services["web"].Clusters.Only, "lb")
	r.apply1(spec)
	cluster := func() apitype.Cluster { return items[apitype.Cluster](t, r.get("/v1/clusters/lb"))[0] }
	require.Equal(t, "lb.test.", cluster().Hostname)
	require.Equal(t, 100, cluster().Capacity)
	require.Nil(t, cluster().Reported)
	b := r.banners("viewer")
	require.Contains(t, b["unresolved"], "lb has no address: the observers have not agreed on what lb.test. resolves to")
	require.Equal(t, "lb: no fresh report of its capacity; the declared 100 counts\n", b["capacity-stale"])

	r.must(statestore.ResolveCluster{Cluster: "lb", Hostname: "lb.test.", Addrs: addrs("203.0.113.99")},
		statestore.ReportCapacity{Cluster: "lb", Capacity: 0})
	require.Equal(t, 0, *cluster().Reported, "nothing is a report too")
	definition, err := json.Marshal(cluster().Definition)
	require.NoError(t, err)
	require.Contains(t, string(definition), "203.0.113.99", "the addresses as they are resolved")
	b = r.banners("viewer")
	require.Empty(t, b["unresolved"]+b["capacity-stale"])
	page := r.get("/").body
	require.Contains(t, page, "reported capacity")
	require.Contains(t, page, "0 of 100")
	require.Contains(t, page, "lb.test.")
	r.must(statestore.ReportCapacity{Cluster: "lb", Stale: true})
	require.NotEmpty(t, r.banners("viewer")["capacity-stale"])
	for _, kind := range []string{"cluster.resolved", "cluster.capacity"} {
		require.Contains(t, r.get("/v1/history?service=web").body, kind)
		require.NotContains(t, r.get("/v1/history?service=shop").body, kind)
	}
}

func TestNodesWithOtherGeoFilesAreTold(t *testing.T) {
	r := newRig(t)
	build := func(node, geo string) {
		m := *r.store.State().Members[node]
		m.Geo = geo
		r.must(statestore.UpsertMember{Member: m})
	}
	build("eu-1", "2026-10-07")
	require.Empty(t, r.banners("viewer")["geo-differs"], "no service asks where clients are")
	spec := testSpec()
	spec.Services["web"].Policy = statestore.Policy{Type: statestore.Geo}
	r.apply1(spec)
	require.Equal(t, "nodes may answer the same client differently: GeoIP file 2026-10-07 on eu-1; none on ap-1, us-1\n", r.banners("viewer")["geo-differs"])
	build("us-1", "2026-10-07")
	build("ap-1", "2026-09-01")
	require.Equal(t, "nodes may answer the same client differently: GeoIP file 2026-09-01 on ap-1; 2026-10-07 on eu-1, us-1\n", r.banners("viewer")["geo-differs"])
	m := *r.store.State().Members["ap-1"]
	m.DNS = statestore.Advertise{}
	r.must(statestore.UpsertMember{Member: m})
	require.Empty(t, r.banners("viewer")["geo-differs"], "a node that answers nobody differs from nobody")
	members := items[apitype.Member](t, r.get("/v1/members"))
	require.Equal(t, "2026-09-01", members[0].Geo)
	web := r.service("web")
	require.True(t, web.ByClient)
	require.False(t, r.service("shop").ByClient)
	require.Contains(t, r.get("/").body, "by client, in parts of the weight")
}

func TestABacklogOfChecksIsTold(t *testing.T) {
	waiting, late := 12, time.Second
	r := newRig(t, func(c *Config) { c.Backlog = func() (int, time.Duration) { return waiting, late } })
	require.Empty(t, r.banners("viewer")["probe-backlog"], "a burst of rechecks is no trouble")
	late = 4 * time.Second
	require.Equal(t, "eu-1 has 12 checks waiting, the oldest for 4s: see observer.max_concurrency\n", r.banners("viewer")["probe-backlog"])
	waiting = 0
	require.Empty(t, r.banners("viewer")["probe-backlog"])
}

// A check whose CA this node cannot read has no opinion here: people must see why, and
// before the last node that can is lost.
func TestSecretsThatThisNodeLacksAreTold(t *testing.T) {
	var missing []string
	r := newRig(t, func(c *Config) { c.MissingSecrets = func() []string { return missing } })
	require.Empty(t, r.banners("viewer")["secret-unresolved"])
	missing = []string{"secret bus-hmac: not in secrets of node.yaml", "secret door-ca: file /etc/ca is empty"}
	require.Equal(t, "eu-1 cannot use what the spec names: secret bus-hmac: not in secrets of node.yaml; secret door-ca: file /etc/ca is empty\n",
		r.banners("viewer")["secret-unresolved"])
}

func TestAFullClusterIsTold(t *testing.T) {
	st := newRig(t).store.State()
	notes := placementNotes(st, "web", statestore.Rotation{V4: statestore.Pool{Shares: []statestore.Share{
		{Cluster: "eu", Spill: 40, Endpoints: []netip.Addr{eu4}}, {Cluster: "us", Endpoints: []netip.Addr{us4}},
	}}})
	require.Equal(t, "eu is nearly full: 40% of its clients go on", strings.Join(notes, "\n"))
}
