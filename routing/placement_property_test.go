package routing_test

import (
	"encoding/binary"
	"maps"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/quorate/quorate/routing"
	"github.com/quorate/quorate/routing/routingtest"
	"github.com/quorate/quorate/statestore"
)

func table(t require.TestingT, w routingtest.World) *routing.Table {
	tab, err := routing.Update(nil, w.State, routing.Local{Geo: w.Geo})
	require.NoError(t, err)
	return tab
}

func serviceOf(q routing.Query) string { return strings.TrimSuffix(q.Name, "."+routingtest.Zone) }

// TestSelectIsTheModel: for random specs, health and clients, the answer is one that
// the naive model allows: its kind, only clusters in rotation or those that stand in
// for them, only addresses that are offered, residency always kept, and a cluster of
// the lowest rank unless that one spills.
func TestSelectIsTheModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := routingtest.Draw(rt)
		tab := table(rt, w)
		for range 8 {
			q := routingtest.DrawQuery(rt, w.State)
			a, tr := routing.Select(tab, q)
			e := model{w}.expect(serviceOf(q), q)
			steps := tr.Steps()
			require.Equal(rt, e.kind, a.Kind, "%v\n%v", q, steps)
			if a.Kind != routing.NoError {
				continue
			}
			spec := w.State.Spec.Services[a.Service]
			for _, c := range a.Clusters {
				require.Positive(rt, e.named[c], "%s is answered, %v\n%v", c, e.named, steps)
				require.Contains(rt, e.allowed, c, "residency\n%v", steps)
			}
			if q.Type != routing.TypeHTTPS {
				for _, addr := range a.Addresses() {
					from := slices.Concat(a.Clusters, []string{""})
					require.True(rt, slices.ContainsFunc(from, func(c string) bool { return slices.Contains(e.offer[c], addr) }), "%s\n%v", addr, steps)
				}
				require.LessOrEqual(rt, len(a.Addresses()), spec.Answer.Addresses)
			}
		}
	})
}

// TestSharesAreTheModel: what a sample of clients gets is exactly what the model
// counts.
func TestSharesAreTheModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := routingtest.Draw(rt)
		tab := table(rt, w)
		for range 4 {
			q := routingtest.DrawQuery(rt, w.State)
			e := model{w}.expect(serviceOf(q), q)
			shares, kind := tab.Shares(q.Name, q.Type, routing.SampleClient{Client: q.Client, Subnet: q.Subnet})
			require.Equal(rt, e.kind, kind)
			got := map[string]float64{}
			for _, s := range shares {
				require.Positive(rt, s.Percent)
				got[s.Cluster] = s.Percent
			}
			require.Len(rt, got, len(e.named), "%v, want %v", got, e.named)
			for c, p := range e.named {
				require.InDelta(rt, p, got[c], 1e-6, "%v, want %v", got, e.named)
			}
		}
	})
}

// TestDrawsFollowTheShares: over 100,000 draws each cluster has its share within one
// percent of all.
func TestDrawsFollowTheShares(t *testing.T) {
	const draws = 100_000
	checked := 0
	for seed := range 12 {
		w := rapid.Custom(routingtest.Draw).Example(seed)
		tab := table(t, w)
		for name := range w.State.Spec.Services {
			if w.State.Spec.Services[name].Policy.Sticky {
				continue
			}
			c := routing.SampleClient{Client: netip.MustParseAddr("10.0.0.77")}
			q := c.Query(name+"."+routingtest.Zone, routing.TypeA)
			shares, kind := tab.Shares(q.Name, q.Type, c)
			if kind != routing.NoError {
				continue
			}
			checked++
			count, rnd := map[string]int{}, rand.New(rand.NewPCG(uint64(seed), 1))
			for range draws {
				q.Draw = rnd.Uint64()
				a, _ := routing.Select(tab, q)
				for _, cl := range a.Clusters {
					count[cl]++
				}
			}
			for _, s := range shares {
				if s.Cluster != "" {
					require.InDelta(t, s.Percent, 100*float64(count[s.Cluster])/draws, 1, "%s of %s", s.Cluster, name)
				}
			}
		}
	}
	require.Greater(t, checked, 3)
}

// TestScopeIsSound: every address that has the answer's scope in common with the
// client gets the same answer for the same draw, and no other scope.
func TestScopeIsSound(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := routingtest.Draw(rt)
		tab := table(rt, w)
		for range 4 {
			q := routingtest.DrawQuery(rt, w.State)
			a, tr := routing.Select(tab, q)
			asked := q.Client
			if q.Subnet.IsValid() && q.Subnet.Bits() > 0 {
				asked = q.Subnet.Addr()
			}
			if q.Subnet.IsValid() && q.Subnet.Bits() == 0 {
				require.Zero(rt, a.Scope)
				continue
			}
			block := netip.PrefixFrom(asked, int(a.Scope)).Masked()
			for range 6 {
				o := q
				o.Subnet, o.Client = netip.Prefix{}, inside(rt, block)
				b, otr := routing.Select(tab, o)
				if a.Scope == 0 && asked.Is4() != o.Client.Is4() {
					continue
				}
				require.Equal(rt, a, b, "%s and %s of %s\n%v\n%v", asked, o.Client, block, tr.Steps(), otr.Steps())
			}
		}
	})
}

// inside draws an address of a block, more often one near the networks.
func inside(rt *rapid.T, block netip.Prefix) netip.Addr {
	if near := routingtest.DrawAddr(rt); block.Contains(near) {
		return near
	}
	b := block.Addr().AsSlice()
	for i := block.Bits(); i < len(b)*8; i++ {
		if rapid.Bool().Draw(rt, "bit") {
			b[i/8] |= 1 << (7 - i%8)
		}
	}
	addr, _ := netip.AddrFromSlice(b)
	return addr
}

// TestWhatDoesNotDependOnTheClientHasScopeZero: what does not depend on the client says so.
func TestWhatDoesNotDependOnTheClientHasScopeZero(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := routingtest.Draw(rt)
		for _, s := range w.State.Spec.Services {
			s.Policy.Sticky, s.Policy.Affinity, s.Residency = false, statestore.NoAffinity, nil
			if s.Policy.Type != statestore.Failover {
				s.Policy.Type = statestore.Weighted
			}
		}
		a, _ := routing.Select(table(rt, w), routingtest.DrawQuery(rt, w.State))
		require.Zero(rt, a.Scope)
	})
}

// TestEveryNodeAnswersAlike: a table compiled at once and one that came by a chain of
// updates, over other specs, rotations and GeoIP files, give the same answers and the
// same reasons.
func TestEveryNodeAnswersAlike(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := routingtest.Draw(rt)
		chain := table(rt, w)
		for range rapid.IntRange(1, 4).Draw(rt, "steps") {
			w = stepped(rt, w)
			next, err := routing.Update(chain, w.State, routing.Local{Geo: w.Geo})
			require.NoError(rt, err)
			chain = next
		}
		fresh := table(rt, w)
		for i := range fresh.Zones {
			require.Equal(rt, fresh.Zones[i], chain.Zones[i])
		}
		for range 6 {
			q := routingtest.DrawQuery(rt, w.State)
			a, tr := routing.Select(fresh, q)
			b, other := routing.Select(chain, q)
			require.Equal(rt, a, b)
			require.Equal(rt, tr.Steps(), other.Steps())
		}
		require.Equal(rt, routing.Sample(fresh), routing.Sample(chain))
	})
}

// stepped returns the world after one change, sharing what did not change.
func stepped(rt *rapid.T, w routingtest.World) routingtest.World {
	st := *w.State
	st.TableIndex++
	other := routingtest.Draw(rt)
	switch rapid.IntRange(0, 5).Draw(rt, "change") {
	case 0, 1: // a rotation
		name := rapid.SampledFrom(slices.Sorted(maps.Keys(st.Services))).Draw(rt, "of")
		st.Services = maps.Clone(st.Services)
		run := *st.Services[name]
		run.Rotation = routingtest.DrawRotation(rt, st.Spec, name, run.Rotation.Number+1)
		st.Services[name] = &run
	case 2: // the round trips
		st.Latency = other.State.Latency
	case 3: // another GeoIP file
		w.Geo, w.Entries = other.Geo, other.Entries
	case 4: // the same spec, read again
		sp := *st.Spec
		st.Spec = &sp
	case 5: // everything
		other.State.TableIndex = st.TableIndex
		return other
	}
	w.State = &st
	return w
}

// TestSampleIsWhereItSays: a sample names each region and CIDR once,
// and its client is where it says.
func TestSampleIsWhereItSays(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := routingtest.Draw(rt)
		m := model{w}
		seen := map[string]bool{}
		for _, c := range routing.Sample(table(rt, w)) {
			require.False(rt, seen[c.Name])
			seen[c.Name] = true
			if c.Client.IsValid() {
				require.Equal(rt, c.Region, m.locate(c.Client).region, c.Name)
			}
		}
		for _, cl := range w.State.Spec.Clusters {
			require.True(rt, seen["region "+cl.Region])
		}
	})
}

// stickyWorld is a sticky weighted service over clusters with these weights.
func stickyWorld(weights map[string]int) routingtest.World {
	st := &statestore.State{
		Spec: &statestore.Spec{
			Zones:    map[string]*statestore.Zone{routingtest.Zone: {}},
			Clusters: map[string]*statestore.Cluster{},
			Services: map[string]*statestore.Service{"web": {Zone: routingtest.Zone, Names: []string{"web"}, Policy: statestore.Policy{Type: statestore.Weighted, Sticky: true}, Answer: statestore.Answer{Clusters: 1}}},
		},
		Services: map[string]*statestore.ServiceState{"web": {}},
	}
	pool := &st.Services["web"].Rotation.V4
	for i, name := range slices.Sorted(maps.Keys(weights)) {
		addrs := []netip.Addr{netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})}
		st.Spec.Clusters[name] = &statestore.Cluster{IPv4: addrs}
		pool.Shares = append(pool.Shares, statestore.Share{Cluster: name, Weight: weights[name], Endpoints: addrs})
	}
	return routingtest.World{State: st}
}

// sides is which cluster each of n networks sticks to.
func sides(t require.TestingT, weights map[string]int, n int) []string {
	tab := table(t, stickyWorld(weights))
	out := make([]string, n)
	for i := range out {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], uint32(i)<<8|uint32(i%251))
		a, _ := routing.Select(tab, routing.Query{Name: "web." + routingtest.Zone, Type: routing.TypeA, Client: netip.AddrFrom4(b), Draw: uint64(i)})
		out[i] = a.Clusters[0]
	}
	return out
}

// TestStickyMovesOnlyWhoMust: a cluster that leaves, comes or changes its weight moves
// its share of the networks and only to or from itself; and weights hold.
func TestStickyMovesOnlyWhoMust(t *testing.T) {
	const networks = 4000
	rapid.Check(t, func(rt *rapid.T) {
		weights, total := map[string]int{}, 0
		for _, name := range []string{"a", "b", "c", "d", "e"}[:rapid.IntRange(2, 5).Draw(rt, "clusters")] {
			weights[name] = rapid.IntRange(1, 20).Draw(rt, "weight")
			total += weights[name]
		}
		before := sides(rt, weights, networks)
		count := map[string]int{}
		for _, c := range before {
			count[c]++
		}
		for c, w := range weights {
			require.InDelta(rt, float64(w)/float64(total), float64(count[c])/networks, 0.04, "share of %s: %v of %v", c, count, weights)
		}
		changed := rapid.SampledFrom(slices.Sorted(maps.Keys(weights))).Draw(rt, "changed")
		after := maps.Clone(weights)
		if left := rapid.Bool().Draw(rt, "leaves"); left {
			delete(after, changed)
		} else {
			after[changed] = rapid.IntRange(1, 20).Draw(rt, "new weight")
		}
		moved := 0
		for i, c := range sides(rt, after, networks) {
			if c != before[i] {
				moved++
				require.True(rt, c == changed || before[i] == changed, "network %d went from %s to %s when %s changed", i, before[i], c, changed)
			}
		}
		rest := float64(total - weights[changed])
		share := math.Abs(float64(weights[changed])/float64(total) - float64(after[changed])/(rest+float64(after[changed])))
		require.LessOrEqual(rt, float64(moved)/networks, share+0.04)
	})
}

// TestStickyIsTheSameEverywhere: the hash is part of what nodes of different releases and
// processors must agree on.
func TestStickyIsTheSameEverywhere(t *testing.T) {
	got := strings.Join(sides(t, map[string]int{"a": 1, "b": 2, "c": 3}, 32), "")
	require.Equal(t, "bbccabcaccccccbcbcbbbabccbcbccac", got)
}
