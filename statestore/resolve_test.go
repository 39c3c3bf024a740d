package statestore

import (
	"bytes"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
)

func target(service, cluster string, addr netip.Addr) health.Target {
	return health.Target{Service: service, Cluster: cluster, Endpoint: addr}
}

func TestResolvedAddressesAreTargetsAndEndpoints(t *testing.T) {
	r := placed(t)
	before, revisions := r.st().Spec, r.st().Revisions
	kept, _ := r.st().Target(target("web", "dr", lb[0]))
	r.must(r.resolve(lb[0], lb[2], lb[3]))

	st := r.st()
	require.Equal(t, []netip.Addr{lb[0], lb[2]}, st.Spec.Clusters["dr"].IPv4)
	require.Equal(t, []netip.Addr{lb[3]}, st.Spec.Clusters["dr"].IPv6)
	require.Equal(t, []netip.Addr{lb[0]}, before.Clusters["dr"].IPv4, "an older spec is left alone")
	ts, ok := st.Target(target("web", "dr", lb[0]))
	require.True(t, ok)
	require.Same(t, kept, ts, "what stays keeps its votes")
	for _, a := range lb[2:] {
		ts, ok = st.Target(target("near", "dr", a))
		require.True(t, ok)
		require.Zero(t, ts.Verdict)
	}
	require.Equal(t, revisions, st.Revisions, "no revision comes of it")
	require.Equal(t, uint64(1), st.Revision)
	require.Equal(t, r.index, st.TableIndex)
	e := r.lastEvent()
	require.Equal(t, "cluster.resolved", e.Type)
	require.Equal(t, "clusters/dr", e.Subject)
	require.Equal(t, "dr (lb.dr.example.net) is 192.0.2.31, 192.0.2.33, 2001:db8::31", e.Text)
	require.JSONEq(t, `{"hostname":"lb.dr.example.net","addrs":["192.0.2.31","192.0.2.33","2001:db8::31"],"added":["192.0.2.33","2001:db8::31"]}`, string(e.Detail))

	count := st.Audit.Count
	r.must(r.resolve(lb[0], lb[2], lb[3]))
	require.Equal(t, count, r.st().Audit.Count, "the same set again is no change")
}

func TestAnAddressThatGoesLeavesTheAnswers(t *testing.T) {
	r := placed(t)
	r.must(r.resolve(lb[0], lb[1]))
	r.allVote(health.Up)
	r.must(r.auto("web"), r.auto("near"))
	c := r.resolve(lb[1])
	require.Len(t, c.Rotations, 2)
	bare := c
	bare.Rotations = nil
	r.refuses(bare, ErrStale, "192.0.2.31 is no endpoint of dr; the entry must carry a rotation for it")
	r.must(c)
	require.Equal(t, []netip.Addr{lb[1]}, r.st().Services["web"].Rotation.V4.Shares[0].Endpoints)
	_, ok := r.st().Target(target("web", "dr", lb[0]))
	require.False(t, ok)
	require.Empty(t, r.st().Losses, "the cluster goes on")
}

// A set of addresses that is another altogether takes the cluster out until it is
// judged: that is a loss by automation, and counts as one (G11).
func TestG11ResolvingCountsWhatItTakesOut(t *testing.T) {
	r := placed(t)
	r.turn("web", "us", health.Down)
	r.must(r.auto("web"))
	r.refuses(r.resolve(lb[1]), ErrBudget, "taking out dr would be 2 clusters lost within 10m0s")
	require.NoError(t, r.doMeta(Tick{}, Meta{Elapsed: 11 * time.Minute}))
	r.must(r.resolve(lb[1]))
	require.Equal(t, []Loss{{"dr", r.st().Now}}, r.st().Losses, "of two services, and one cause")
	require.Equal(t, []string{"eu"}, r.answers("web"))
}

func TestResolvingRespectsAFreezeAndTheFloor(t *testing.T) {
	r := placed(t)
	r.must(FreezeService{Service: "near", Reason: "hold"})
	r.refuses(r.resolve(lb[1]), ErrFrozen, "service near: automation is frozen by ann: hold")
	r.must(r.resolve(lb[0], lb[1])) // It changes no answer.

	r = placed(t, func(sp *Spec) { sp.Safety.MinServingClusters = 2; sp.Safety.Changes.Causes = 0 })
	c := r.resolve(lb[1])
	c.Rotations[0].V4 = pool("eu")
	r.refuses(c, ErrFloor, "service near: rotation v4: would take out what is up and leave 1 serving, the floor is 2")
}

func TestResolvingWaitsWhileAStatefulServiceMoves(t *testing.T) {
	named := func(sp *Spec) {
		sp.Clusters["us"] = &Cluster{ID: 2, Region: "us", Hostname: "lb.us.example.net"}
	}
	addrs := func(r *rig, addrs ...netip.Addr) ResolveCluster {
		return ResolveCluster{Cluster: "us", Hostname: "lb.us.example.net", Addrs: addrs, Rotations: []RotationChange{change("dr", "eu")}}
	}
	r := newRig(t)
	sp := dbEdited(named)
	r.must(
		Initialize{Installation: "demo"}, UpsertMember{member("eu")}, UpsertMember{member("us")}, UpsertMember{member("ap")},
		ApplySpec{Spec: sp, Rotations: []RotationChange{change("dr", "eu"), dbChange("eu")}}, addrs(r, us4),
	)
	for _, tok := range tokens {
		r.must(tok)
	}
	r.allVote(health.Up)
	r.dbSide("eu", health.Down)
	r.must(r.proposal(Emergency, "us", Signer{}))
	r.approve()
	digest := r.st().Spec.ServiceDigest("db")
	r.must(r.begin())
	r.refuses(addrs(r, us4, lb[0]), ErrStateful, "db cannot change while CUT-1 is under way")
	r.must(r.publish())
	require.Equal(t, "us", r.own().Active)
	r.refuses(addrs(r, lb[0]), ErrStale, "service db: rotation v4: 192.0.2.20 is no endpoint of us")
	c := addrs(r, lb[0])
	c.Rotations = append(c.Rotations, RotationChange{Service: "db", V4: Pool{Shares: []Share{{Cluster: "us", Weight: 1, Endpoints: lb[:1]}}}})
	r.must(c)
	require.Equal(t, "us", r.own().Active, "its address is another, not its side")
	require.NotEqual(t, digest, r.st().Spec.ServiceDigest("db"), "what was signed is not this any more")
}

func TestResolveRefusals(t *testing.T) {
	many := make([]netip.Addr, 0, MaxResolved+1)
	for a := netip.MustParseAddr("198.51.100.1"); len(many) <= MaxResolved; a = a.Next() {
		many = append(many, a)
	}
	with := func(addrs ...string) ResolveCluster {
		c := ResolveCluster{Cluster: "dr", Hostname: "lb.dr.example.net"}
		for _, a := range addrs {
			c.Addrs = append(c.Addrs, netip.MustParseAddr(a))
		}
		return c
	}
	tests := []struct {
		name string
		cmd  ResolveCluster
		want *Refusal
		text string
	}{
		{"unknown cluster", ResolveCluster{Cluster: "mars", Addrs: lb}, ErrNotFound, "cluster mars: not found"},
		{"no hostname", ResolveCluster{Cluster: "eu", Hostname: "x.example.net", Addrs: lb}, ErrStale, `is named by "" now, not by "x.example.net"`},
		{"no hostname on either side", ResolveCluster{Cluster: "eu", Addrs: lb}, ErrStale, `is named by ""`},
		{"another hostname", ResolveCluster{Cluster: "dr", Hostname: "x.example.net", Addrs: lb}, ErrStale, `is named by "lb.dr.example.net" now, not by "x.example.net"`},
		{"nothing", with(), ErrInvalid, "must not be empty; the last ones stay"},
		{"one twice", with("192.0.2.31", "192.0.2.31"), ErrInvalid, "must be sorted and each there once, 192.0.2.31 comes after 192.0.2.31"},
		{"unsorted", with("192.0.2.32", "192.0.2.31"), ErrInvalid, "must be sorted"},
		{"IPv6 before IPv4", with("2001:db8::31", "192.0.2.31"), ErrInvalid, "must be sorted"},
		{"with a zone", with("fe80::1%eth0"), ErrInvalid, "must be IPv4 or IPv6 addresses of hosts"},
		{"mapped", with("::ffff:192.0.2.31"), ErrInvalid, "is ::ffff:192.0.2.31"},
		{"unspecified", with("0.0.0.0"), ErrInvalid, "is 0.0.0.0"},
		{"multicast", with("ff02::1"), ErrInvalid, "is ff02::1"},
		{"none at all", ResolveCluster{Cluster: "dr", Hostname: "lb.dr.example.net", Addrs: []netip.Addr{{}}}, ErrInvalid, "is invalid IP"},
		{"too many", ResolveCluster{Cluster: "dr", Hostname: "lb.dr.example.net", Addrs: many}, ErrInvalid, "must be at most 16 of a family, is 17"},
		{"without the rotation", with("192.0.2.32"), ErrStale, "192.0.2.31 is no endpoint of dr; the entry must carry a rotation for it"},
		{"with the rotation of nobody", ResolveCluster{Cluster: "dr", Hostname: "lb.dr.example.net", Addrs: lb, Rotations: []RotationChange{{Service: "no"}}}, ErrNotFound, "service no: not found"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { placed(t).refuses(tt.cmd, tt.want, tt.text) })
	}
	r := placed(t)
	r.must(r.resolve(many[:MaxResolved]...))
}

func TestAppliedSpecsKeepWhatHostnamesStandFor(t *testing.T) {
	r := placed(t)
	sp := placedEdited(func(sp *Spec) { sp.Services["web"].TTL.Normal *= 2 })
	r.must(ApplySpec{Base: 1, Spec: sp})
	require.Equal(t, lb[:1], r.st().Spec.Clusters["dr"].IPv4)
	require.Empty(t, r.st().Revisions[1].Spec.Clusters["dr"].IPv4, "a revision is what people wrote")
	require.Equal(t, health.Up, r.verdict(target("web", "dr", lb[0])).Side)

	// The rotations of a plan are of the addresses it was made with.
	planned := sp.WithAddresses(r.st().Spec)
	require.Equal(t, lb[:1], planned.Clusters["dr"].IPv4)
	require.Same(t, planned, planned.WithAddresses(r.st().Spec), "and once more changes nothing")
	r.must(r.resolve(lb[0], lb[1]))
	r.refuses(ApplySpec{Base: 2, Spec: planned}, ErrStalePlan, "was planned with other addresses of dr (lb.dr.example.net); plan again")
	r.must(ApplySpec{Base: 2, Spec: sp.WithAddresses(r.st().Spec)})
}

func TestAnotherHostnameHasNoAddressYet(t *testing.T) {
	r := placed(t)
	sp := placedEdited(func(sp *Spec) { sp.Clusters["dr"].Hostname = "lb2.dr.example.net" })
	carried := r.after(func(st *State) { respecified(st, sp) })
	r.must(ApplySpec{Base: 1, Spec: sp, Rotations: carried})
	require.Empty(t, r.st().Spec.Clusters["dr"].Endpoints())
	require.Equal(t, []string{"eu", "us"}, r.answers("web"))
	r.refuses(r.resolve(lb[0]), ErrStale, `is named by "lb2.dr.example.net" now`)
}

// A cluster that answers must not lose all it has by a change of its hostname.
func TestG5AChangedHostnameLeavesNoServiceWithoutAnAddress(t *testing.T) {
	alone := func(sp *Spec) { sp.Services["web"].Clusters.Only = []string{"dr"} }
	r := placed(t, alone)
	require.Equal(t, []string{"dr"}, r.answers("web"))
	renamed := func(floor int) ApplySpec {
		sp := placedEdited(alone)
		sp.Safety.MinServingClusters = floor
		sp.Clusters["dr"].Hostname = "lb2.dr.example.net"
		return ApplySpec{Base: 1, Spec: sp, Rotations: r.after(func(st *State) { respecified(st, sp) })}
	}
	r.refuses(renamed(1), ErrFloor, "web would lose dr and be served by 0, the floor is 1")
	r.refuses(renamed(0), ErrEmptyRotation, "web would have no address until a hostname is resolved; add a cluster under the new hostname first")
}

func TestAServiceMayBeginWithAHostnameAlone(t *testing.T) {
	r := placed(t)
	sp := placedEdited(func(sp *Spec) {
		sp.Clusters["new"] = &Cluster{Region: "eu", Hostname: "lb.new.example.net."}
		w := *sp.Services["web"]
		w.Names, w.Clusters = []string{"api"}, Selector{Only: []string{"new"}}
		sp.Services["api"] = &w
		for _, name := range []string{"web", "near"} {
			sp.Services[name].Clusters.Exclude = []string{"new"}
		}
	})
	r.must(ApplySpec{Base: 1, Spec: sp, Rotations: r.after(func(st *State) { respecified(st, sp) })})
	require.Empty(t, r.answers("api"), "nothing can be answered yet")
	r.must(ResolveCluster{Cluster: "new", Hostname: "lb.new.example.net.", Addrs: lb[1:2], Rotations: []RotationChange{
		{Service: "api", V4: Pool{Shares: []Share{{Cluster: "new", Weight: 1, Endpoints: lb[1:2]}}}},
	}})
	require.Equal(t, []string{"new"}, r.answers("api"))
}

// A node that comes back from a snapshot has the same revisions as one that never
// left: the addresses of hostnames are no part of them.
func TestG15RevisionsAreTheSameAfterARestore(t *testing.T) {
	r := placed(t)
	r.must(r.resolve(lb[0], lb[1]))
	restored, err := ReadSnapshot(bytes.NewReader(snapshotOf(t, r.st())))
	require.NoError(t, err)
	other := NewStoreAt(restored)
	r.must(r.resolve(lb[0]), ApplySpec{Base: 1, Spec: placedSpec()})
	for i := len(r.log) - 2; i < len(r.log); i++ {
		require.NoError(t, other.Apply(uint64(i+1), r.term, r.log[i]).Err)
	}
	require.Equal(t, string(snapshotOf(t, r.st())), string(snapshotOf(t, other.State())))
}

func TestWithAddressesLeavesStaticClustersAlone(t *testing.T) {
	sp := testSpec()
	require.Same(t, sp, sp.WithAddresses(placedSpec()))
	named := placedSpec()
	named.Clusters["nil"] = nil
	require.Same(t, named, named.WithAddresses(&Spec{}), "none on either side")
	from := placedSpec()
	from.Clusters["dr"].IPv4 = lb[:2]
	got := named.WithAddresses(from)
	require.Equal(t, lb[:2], got.Clusters["dr"].IPv4)
	require.Empty(t, named.Clusters["dr"].IPv4, "the receiver is left alone")
	require.Same(t, named.Clusters["eu"], got.Clusters["eu"])
	from.Clusters["dr"].Hostname = "other.example.net"
	require.Empty(t, got.WithAddresses(from).Clusters["dr"].IPv4, "what another hostname stands for is nobody's business")
}
