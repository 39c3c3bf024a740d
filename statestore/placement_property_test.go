package statestore

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/quorate/quorate/health"
)

// Whatever people and automation do to where services are answered from, it replays
// to the same state, and these hold after each entry: no service that has an address
// is without an answer but by its owner's word (G5), a pin that can be kept is kept,
// automation takes out no more than its budget and never what serves last (G11), and
// who answers by what changed is told.
func TestG15PlacementSnapshotEqualsReplay(t *testing.T) {
	base := placed(t)
	done := map[string]int{}
	var outs map[string]time.Time // by cluster that automation took out, when
	property := replays(t, base, func(rt *rapid.T, r *rig) Command {
		if r.index == base.index {
			outs = map[string]time.Time{}
		}
		return anyPlacement(rt, r)
	}, func(rt *rapid.T, before, st *State, cmd Command, err error) {
		answered(rt, st)
		keepsPins(rt, before, st, cmd, err)
		withinBounds(rt, before, st, cmd, err, outs)
		renewed(rt, before, st)
		fits(rt, before, st, cmd, err)
		if err == nil && st.Audit.Count > before.Audit.Count {
			done[fmt.Sprintf("%T", cmd)]++
		}
	})
	checkUntil(t, property, func() bool {
		for _, c := range []Command{
			OverrideService{}, ClearOverride{}, DrainClusters{}, ResolveCluster{}, ReportCapacity{}, MeasureLatency{}, Rotate{}, ApplySpec{}, CastVotes{},
		} {
			if done[fmt.Sprintf("%T", c)] == 0 {
				return false
			}
		}
		return true
	})
}

// answered: a service with an address is answered, but where its owner chose a mode
// that names nobody.
func answered(rt *rapid.T, st *State) {
	for name, s := range st.Services {
		for _, f := range []struct {
			pool Pool
			is   func(netip.Addr) bool
		}{{s.Rotation.V4, netip.Addr.Is4}, {s.Rotation.V6, netip.Addr.Is6}} {
			candidates := st.Spec.Candidates(name)
			if s.Ownership != nil {
				candidates = []string{s.Ownership.Active}
			}
			var has []netip.Addr
			for _, c := range candidates {
				for _, a := range st.Spec.Clusters[c].Endpoints() {
					if f.is(a) {
						has = append(has, a)
					}
				}
			}
			n := 0
			for _, sh := range f.pool.Shares {
				for _, a := range sh.Endpoints {
					n++
					if !slices.Contains(st.Spec.Clusters[sh.Cluster].Endpoints(), a) {
						rt.Fatalf("%s answers with %s, which is not agreed on for %s", name, a, sh.Cluster)
					}
				}
			}
			if n == 0 && len(has) > 0 && f.pool.AllDown != NoData {
				rt.Fatalf("%s answers with nothing, it has %v", name, has)
			}
		}
	}
}

// keepsPins: no command that installs a rotation leaves a pin that can be kept.
func keepsPins(rt *rapid.T, before, st *State, cmd Command, err error) {
	if err != nil {
		return
	}
	for name, s := range st.Services {
		o := s.Override
		if o == nil {
			continue
		}
		if s.Ownership != nil || !slices.Contains(st.Spec.Candidates(name), o.Cluster) {
			rt.Fatalf("%s is pinned to %s, which it cannot answer with", name, o.Cluster)
		}
		old := before.Services[name]
		if old != nil && old.Rotation.Number == s.Rotation.Number && old.Override == o {
			continue // It may have become possible, and automation follows.
		}
		up := map[bool]bool{} // by family
		for target, ts := range s.Targets {
			if target.Cluster == o.Cluster && ts.Verdict.Side == health.Up {
				up[target.Endpoint.Is6()] = true
			}
		}
		if st.Clusters[o.Cluster].Drain.Covers(name) {
			continue
		}
		for six, p := range map[bool]Pool{false: s.Rotation.V4, true: s.Rotation.V6} {
			if up[six] && (p.AllDown != "" || len(p.Shares) != 1 || p.Shares[0].Cluster != o.Cluster) {
				rt.Fatalf("entry %d (%T): %s is pinned to %s and answers %+v", st.Index, cmd, name, o.Cluster, p)
			}
		}
	}
}

// withinBounds: what automation takes out is within the budget, and a cluster that
// is up only goes while another one that is up stays.
func withinBounds(rt *rapid.T, before, st *State, cmd Command, err error, outs map[string]time.Time) {
	if c, ok := cmd.(ThawService); ok && err == nil && c.Service == "" && !c.Expired {
		clear(outs) // A person has looked.
	}
	switch cmd.(type) {
	case Rotate, ResolveCluster:
	default:
		return
	}
	if err != nil {
		return
	}
	up := func(name, cluster string, six bool) bool {
		for target, ts := range st.Services[name].Targets {
			if target.Cluster == cluster && target.Endpoint.Is6() == six && ts.Verdict.Side == health.Up {
				return true
			}
		}
		return false
	}
	for name, s := range st.Services {
		old := before.Services[name]
		if _, frozen := before.Frozen(name); frozen && s.Rotation.Number != old.Rotation.Number {
			rt.Fatalf("entry %d (%T): %s is frozen and was rotated", st.Index, cmd, name)
		}
		for six, p := range map[bool]struct{ old, next Pool }{
			false: {old.Rotation.V4, s.Rotation.V4}, true: {old.Rotation.V6, s.Rotation.V6},
		} {
			pinned := s.Override != nil && up(name, s.Override.Cluster, six) && !st.Clusters[s.Override.Cluster].Drain.Covers(name)
			serving := slices.ContainsFunc(names(p.next), func(c string) bool { return up(name, c, six) })
			for _, c := range names(p.old) {
				if slices.Contains(names(p.next), c) || pinned || st.Clusters[c].Drain.Covers(name) {
					continue
				}
				outs[c] = st.Now
				if up(name, c, six) && !serving {
					rt.Fatalf("entry %d (%T): %s loses %s, which serves last: %+v", st.Index, cmd, name, c, p)
				}
			}
		}
	}
	causes := 0
	for _, at := range outs {
		if st.Now.Sub(at) < st.Spec.Safety.Changes.Per.D() {
			causes++
		}
	}
	if limit := st.Spec.Safety.Changes.Causes; causes > limit {
		rt.Fatalf("entry %d (%T): automation took out %v, the budget is %d", st.Index, cmd, outs, limit)
	}
}

// renewed: what DNS answers, and what explains it, changes only with the pointers
// that routing compares.
func renewed(rt *rapid.T, before, st *State) {
	if st.Spec != before.Spec {
		if st.TableIndex != st.Index {
			rt.Fatalf("entry %d: another spec behind the same table index", st.Index)
		}
		return
	}
	for name, s := range st.Services {
		old := before.Services[name]
		differs := old.Override != s.Override || old.Rotation.Number != s.Rotation.Number
		if st.Spec.Services[name].Policy.Type == Latency {
			for _, target := range st.Spec.ServiceTargets(name) {
				for _, region := range []string{"eu", "us", "ap"} {
					differs = differs || before.Latency[region][target.Endpoint] != st.Latency[region][target.Endpoint]
				}
			}
		}
		if differs && (s == old || st.TableIndex != st.Index) {
			rt.Fatalf("entry %d: %s answers otherwise behind the same pointer or table index", st.Index, name)
		}
	}
}

// fits: what is kept of addresses, capacities and round trips is of what there is.
func fits(rt *rapid.T, before, st *State, cmd Command, err error) {
	dr := st.Spec.Clusters["dr"]
	if !slices.IsSortedFunc(dr.Endpoints(), netip.Addr.Compare) || len(dr.IPv4) > MaxResolved || len(dr.IPv6) > MaxResolved {
		rt.Fatalf("dr is %v", dr.Endpoints())
	}
	if was := before.Spec.Clusters["dr"]; !slices.Equal(was.Endpoints(), dr.Endpoints()) {
		_, resolves := cmd.(ResolveCluster)
		if err != nil || !resolves && was.Hostname == dr.Hostname || resolves && st.Revision != before.Revision {
			rt.Fatalf("entry %d (%T): dr was %v and is %v", st.Index, cmd, was.Endpoints(), dr.Endpoints())
		}
	}
	for _, rev := range st.Revisions {
		if len(rev.Spec.Clusters["dr"].Endpoints()) > 0 {
			rt.Fatalf("revision %d has addresses", rev.Number)
		}
	}
	for name, c := range st.Clusters {
		if c.Reported != nil && st.Spec.Clusters[name].CapacityFrom == nil {
			rt.Fatalf("%s reports a capacity and has no source of it", name)
		}
	}
	known := map[netip.Addr]bool{}
	for _, c := range st.Spec.Clusters {
		for _, a := range c.Endpoints() {
			known[a] = true
		}
	}
	for region, rtts := range st.Latency {
		for a, d := range rtts {
			if !known[a] || d <= 0 || d.D() > time.Minute {
				rt.Fatalf("%s to %s is %s, of endpoints %v", region, a, d, known)
			}
		}
	}
}

// anyPlacement draws a command about where services are answered from, or about
// what that follows. Most carry the rotations that a leader would, some do not.
func anyPlacement(t *rapid.T, r *rig) Command {
	st := r.st()
	cluster := rapid.SampledFrom([]string{"eu", "us", "dr"}).Draw(t, "cluster")
	service := rapid.SampledFrom([]string{"web", "near", "web", "near", "db"}).Draw(t, "service")
	lasts := time.Duration(rapid.IntRange(0, 3).Draw(t, "hours")) * time.Hour
	carried := func(changes []RotationChange) []RotationChange {
		switch rapid.IntRange(0, 9).Draw(t, "carried") {
		case 0:
			return nil
		case 1:
			return append(changes, wanted(st, service))
		}
		return changes
	}
	switch rapid.IntRange(0, 19).Draw(t, "command") {
	case 0, 1, 2:
		c := r.pinAny(service, cluster, lasts)
		c.Rotations = carried(c.Rotations)
		return c
	case 3:
		c := r.unpin(service)
		c.Expired, c.Rotations = rapid.Bool().Draw(t, "expired"), carried(c.Rotations)
		return c
	case 4, 5:
		clusters := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"dr", "eu", "us"}), 1, 3, rapid.ID[string]).Draw(t, "clusters")
		c := r.drainAll(slices.Sorted(slices.Values(clusters))...)
		c.For, c.Rotations = lasts, carried(c.Rotations)
		return c
	case 6:
		return UndrainCluster{Cluster: cluster, Rotations: carried(r.after(func(st *State) { st.setDrain(cluster, st.Clusters[cluster], nil) }))}
	case 7, 8, 9:
		addrs := rapid.SliceOfNDistinct(rapid.SampledFrom(lb), 0, 4, rapid.ID[netip.Addr]).Draw(t, "addrs")
		if rapid.IntRange(0, 9).Draw(t, "sorted") > 0 {
			slices.SortFunc(addrs, netip.Addr.Compare)
		}
		c := r.resolve(addrs...)
		c.Rotations = carried(c.Rotations)
		return c
	case 10:
		return ReportCapacity{Cluster: cluster, Capacity: rapid.IntRange(-1, 3).Draw(t, "capacity") * 10, Stale: rapid.IntRange(0, 2).Draw(t, "stale") == 0}
	case 11, 12:
		c := MeasureLatency{RTT: map[string]map[netip.Addr]Duration{}}
		for range rapid.IntRange(0, 3).Draw(t, "regions") {
			region := rapid.SampledFrom([]string{"eu", "us", "ap", "mars"}).Draw(t, "region")
			addr := rapid.SampledFrom(append([]netip.Addr{eu4, eu6, us4}, lb...)).Draw(t, "addr")
			c.RTT[region] = map[netip.Addr]Duration{addr: ms(rapid.IntRange(0, 9).Draw(t, "ms"))}
		}
		return c
	case 13:
		sp := placedSpec()
		sp.Services["web"].TTL.Normal = Duration(rapid.IntRange(5, 7).Draw(t, "ttl")) * Duration(time.Second)
		switch rapid.IntRange(0, 6).Draw(t, "spec") {
		case 0:
			sp.Clusters["dr"].Hostname = "lb2.dr.example.net"
		case 1:
			sp.Clusters["eu"].CapacityFrom = nil
		case 2:
			sp.Services["web"].Overrides = map[string]*ClusterOverride{cluster: {Host: "x.example.net"}}
		case 3:
			sp.Services["web"].Clusters.Exclude = []string{cluster}
		case 4:
			sp.Services["near"].Policy.Type = Weighted
		}
		return ApplySpec{Base: st.Revision, Spec: sp, Rotations: carried(r.after(func(st *State) { respecified(st, sp) }))}
	case 14:
		if rapid.Bool().Draw(t, "freeze") {
			return FreezeService{Service: service, Reason: "x"}
		}
		return ThawService{Service: rapid.SampledFrom([]string{"", service}).Draw(t, "thawed")}
	case 15, 16:
		c := r.auto(service)
		if rapid.IntRange(0, 4).Draw(t, "other") == 0 {
			c.V4 = wanted(st, rapid.SampledFrom([]string{"web", "near", "db"}).Draw(t, "as")).V4
		}
		if n := len(c.V4.Shares); n > 0 {
			c.V4.Shares[n-1].Spill = rapid.SampledFrom([]int{0, 0, 40, 100}).Draw(t, "spill")
		}
		return c
	default:
		observer := rapid.SampledFrom([]string{"eu-1", "us-1", "ap-1"}).Draw(t, "observer")
		if rapid.IntRange(0, 9).Draw(t, "member") == 0 {
			return UpsertMember{member(observer[:2])}
		}
		b := r.vote(observer, health.Unknown)
		b.Recorded = rapid.Bool().Draw(t, "recorded")
		b.Full = rapid.IntRange(0, 2).Draw(t, "full") == 0 || r.st().Observers[b.Observer] == nil
		side := rapid.SampledFrom([]health.Side{health.Up, health.Up, health.Down}).Draw(t, "side")
		for _, target := range st.Spec.ServiceTargets(service) {
			if b.Full || target.Cluster == cluster {
				b.Votes[target] = health.Vote{Side: side, Since: start, Degraded: rapid.SampledFrom([]string{"", "cert"}).Draw(t, "degraded")}
			}
		}
		return CastVotes{Batches: []VoteBatch{b}}
	}
}

// pinAny is pin for a service and a cluster that may not go together.
func (r *rig) pinAny(service, cluster string, lasts time.Duration) OverrideService {
	if r.st().Services[service] == nil {
		return OverrideService{Service: service, Cluster: cluster, Reason: "x"}
	}
	return r.pin(service, cluster, lasts)
}
