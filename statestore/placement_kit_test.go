package statestore

import (
	"encoding/json"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
)

// lb is what the observers may resolve dr's hostname to, sorted.
var lb = []netip.Addr{
	netip.MustParseAddr("192.0.2.31"), netip.MustParseAddr("192.0.2.32"),
	netip.MustParseAddr("192.0.2.33"), netip.MustParseAddr("2001:db8::31"),
}

// placedSpec has three ways to choose over eu, us and dr: web is weighted, near goes
// by latency and may spill, and db is stateful on eu and us. dr is named by a
// hostname, and eu reports its capacity.
func placedSpec() *Spec {
	sp := dbSpec()
	sp.Clusters["dr"] = &Cluster{ID: 3, Region: "ap", Hostname: "lb.dr.example.net", Capacity: 20}
	sp.Clusters["eu"].IPv6 = []netip.Addr{eu6}
	sp.Clusters["eu"].Capacity = 100
	sp.Clusters["eu"].CapacityFrom = &CapacityFrom{
		HTTP: &CapacityHTTP{Port: 443, Path: "/capacity", JSON: "$.available"}, MaxAge: Duration(time.Minute), Change: 10,
	}
	sp.Clusters["us"].Capacity = 50
	near := *sp.Services["web"]
	near.Names = []string{"near"}
	near.Policy = Policy{Type: Latency, Spillover: &Spillover{At: 0.2}}
	sp.Services["near"] = &near
	sp.Safety = Safety{MinServingClusters: 1, MaxDrained: 2, Changes: Budget{Causes: 1, Per: Duration(10 * time.Minute)}}
	return sp
}

func placedEdited(edit func(*Spec)) *Spec {
	sp := placedSpec()
	edit(sp)
	return sp
}

// placed returns a rig of placedSpec with dr resolved to its first address and
// everything up and in rotation.
func placed(t testing.TB, edits ...func(*Spec)) *rig {
	t.Helper()
	r := newRig(t)
	sp := placedSpec()
	for _, edit := range edits {
		edit(sp)
	}
	r.must(
		Initialize{Installation: "demo", CA: TrustedCA{Fingerprint: "aa", PEM: "pem"}},
		UpsertMember{member("eu")}, UpsertMember{member("us")}, UpsertMember{member("ap")},
	)
	r.must(ApplySpec{Spec: sp, Source: "# placed", Rotations: r.after(func(st *State) { respecified(st, sp) })})
	r.must(r.resolve(lb[0]))
	r.allVote(health.Up)
	for _, service := range sortedKeys(r.st().Services) {
		r.must(Rotate{RotationChange: wanted(r.st(), service), Basis: r.st().Basis(service)})
	}
	return r
}

// respecified puts a spec into a state as ApplySpec does.
func respecified(st *State, sp *Spec) {
	prior := *st
	st.Spec = sp.filled().declared().WithAddresses(prior.Spec)
	st.respec(&prior, entry{now: st.Now})
}

// after returns the rotations that change with the edit of the state, as a leader
// would carry them.
func (r *rig) after(edit func(*State)) []RotationChange {
	st := *r.st()
	edit(&st)
	var changes []RotationChange
	for _, service := range sortedKeys(st.Services) {
		ch, old := wanted(&st, service), st.Services[service].Rotation
		if !ch.V4.Equal(old.V4) || !ch.V6.Equal(old.V6) {
			changes = append(changes, ch)
		}
	}
	return changes
}

// wanted is a plain policy: what is pinned, else what is up, else what nobody has
// judged, else all there is.
func wanted(st *State, service string) RotationChange {
	return RotationChange{
		Service: service, Reason: "test",
		V4: wantedPool(st, service, netip.Addr.Is4), V6: wantedPool(st, service, netip.Addr.Is6),
	}
}

func wantedPool(st *State, service string, family func(netip.Addr) bool) Pool {
	s := st.Services[service]
	from := st.Spec.Candidates(service)
	if s.Ownership != nil {
		from = []string{s.Ownership.Active}
	}
	shares := func(from []string, sides ...health.Side) (p Pool) {
		for _, c := range from {
			sh := Share{Cluster: c, Weight: 1}
			for _, a := range st.Spec.Clusters[c].Endpoints() {
				ts := s.Targets[health.Target{Service: service, Cluster: c, Endpoint: a}]
				if family(a) && slices.Contains(sides, ts.Verdict.Side) {
					sh.Endpoints = append(sh.Endpoints, a)
				}
			}
			if len(sh.Endpoints) > 0 {
				p.Shares = append(p.Shares, sh)
			}
		}
		return p
	}
	open := slices.DeleteFunc(slices.Clone(from), func(c string) bool { return s.Ownership == nil && st.Clusters[c].Drain.Covers(service) })
	if o := s.Override; o != nil && slices.Contains(open, o.Cluster) {
		if p := shares([]string{o.Cluster}, health.Up); len(p.Shares) > 0 {
			return p
		}
	}
	if p := shares(open, health.Up); len(p.Shares) > 0 {
		return p
	}
	if p := shares(open, health.Unknown); len(p.Shares) > 0 && s.Ownership == nil {
		return p
	}
	all := shares(from, health.Up, health.Down, health.Unknown)
	if len(all.Shares) > 0 && s.Ownership == nil {
		all.AllDown = ServeLast
	}
	return all
}

// resolve has dr's hostname stand for the addresses.
func (r *rig) resolve(addrs ...netip.Addr) ResolveCluster {
	return ResolveCluster{
		Cluster: "dr", Hostname: "lb.dr.example.net", Addrs: addrs,
		Rotations: r.after(func(st *State) {
			sp := *st.Spec
			named := *sp.Clusters["dr"]
			named.IPv4, named.IPv6 = nil, nil
			for _, a := range addrs {
				if a.Is4() {
					named.IPv4 = append(named.IPv4, a)
				} else {
					named.IPv6 = append(named.IPv6, a)
				}
			}
			sp.Clusters = with(sp.Clusters, "dr", &named)
			prior := *st
			st.Spec = &sp
			st.respec(&prior, entry{now: st.Now})
		}),
	}
}

// pin pins a service to a cluster, with the rotation that follows.
func (r *rig) pin(service, cluster string, lasts time.Duration) OverrideService {
	return OverrideService{
		Service: service, Cluster: cluster, For: lasts, Reason: "it smells",
		Rotations: r.after(func(st *State) {
			st.setOverride(service, &Override{Cluster: cluster}, entry{})
		}),
	}
}

func (r *rig) unpin(service string) ClearOverride {
	return ClearOverride{Service: service, Reason: "all well", Rotations: r.after(func(st *State) { st.setOverride(service, nil, entry{}) })}
}

func (r *rig) drainAll(clusters ...string) DrainClusters {
	return DrainClusters{
		Clusters: clusters, Reason: "the sea rises",
		Rotations: r.after(func(st *State) {
			for _, c := range clusters {
				st.setDrain(c, st.Clusters[c], &Drain{})
			}
		}),
	}
}

// names returns the clusters of a pool.
func names(p Pool) []string {
	var out []string
	for _, sh := range p.Shares {
		out = append(out, sh.Cluster)
	}
	return out
}

func (r *rig) answers(service string) []string {
	r.t.Helper()
	s := r.st().Services[service]
	require.NotNil(r.t, s)
	return names(s.Rotation.V4)
}

// turn has two regions vote every endpoint of a cluster to a side for a service.
func (r *rig) turn(service, cluster string, side health.Side) {
	r.t.Helper()
	var targets []health.Target
	for _, a := range r.st().Spec.Clusters[cluster].Endpoints() {
		targets = append(targets, health.Target{Service: service, Cluster: cluster, Endpoint: a})
	}
	r.cast("us-1", side, targets...)
	r.cast("ap-1", side, targets...)
}

// auto rotates the service as automation wants it now.
func (r *rig) auto(service string) Rotate {
	return Rotate{RotationChange: wanted(r.st(), service), Basis: r.st().Basis(service)}
}

func asJSON(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return string(b)
}
