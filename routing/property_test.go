package routing

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

// genState draws a state with up to three services over up to four clusters whose
// rotations hold what a committed one may: no empty pool where a candidate has an
// address, unless on_all_down declares it.
func genState(rt *rapid.T) *statestore.State {
	st := testState()
	st.TableIndex = rapid.Uint64Range(1, 1<<30).Draw(rt, "index")
	st.Spec.Clusters = map[string]*statestore.Cluster{}
	for i := range rapid.IntRange(1, 4).Draw(rt, "clusters") {
		c := &statestore.Cluster{}
		for e := range rapid.IntRange(0, 2).Draw(rt, "v4") {
			c.IPv4 = append(c.IPv4, netip.AddrFrom4([4]byte{192, 0, byte(i), byte(e)}))
		}
		for e := range rapid.IntRange(0, 2).Draw(rt, "v6") {
			c.IPv6 = append(c.IPv6, netip.AddrFrom16([16]byte{0x20, 1, 13: byte(i), 15: byte(e)}))
		}
		st.Spec.Clusters[fmt.Sprintf("c%d", i)] = c
	}
	st.Spec.Services, st.Services = map[string]*statestore.Service{}, map[string]*statestore.ServiceState{}
	for i := range rapid.IntRange(1, 3).Draw(rt, "services") {
		name := fmt.Sprintf("s%d", i)
		s := testService(rapid.SampledFrom([]statestore.PolicyType{statestore.Failover, statestore.Weighted, statestore.Geo, statestore.Latency}).Draw(rt, "policy"), name)
		s.Policy.Order = nil
		s.Policy.Affinity = rapid.SampledFrom([]statestore.Affinity{statestore.NoAffinity, statestore.LocalAffinity, statestore.RemoteAffinity}).Draw(rt, "affinity")
		s.Policy.Sticky = s.Policy.Type != statestore.Failover && rapid.Bool().Draw(rt, "sticky")
		s.Answer = statestore.Answer{Clusters: rapid.IntRange(1, 3).Draw(rt, "per answer"), Addresses: rapid.IntRange(1, 4).Draw(rt, "addresses")}
		s.OnStale.Answer = rapid.SampledFrom([]statestore.StaleAnswer{statestore.StaleKeep, statestore.StaleServFail, statestore.StaleRefuse}).Draw(rt, "on_stale")
		st.Spec.Services[name] = s
		st.Services[name] = &statestore.ServiceState{Rotation: genRotation(rt, st.Spec, uint64(i)+1), Targets: map[health.Target]*statestore.TargetState{}}
	}
	return st
}

func genRotation(rt *rapid.T, sp *statestore.Spec, number uint64) statestore.Rotation {
	pool := func(family string, of func(*statestore.Cluster) []netip.Addr) statestore.Pool {
		var all []statestore.Share
		for _, c := range slices.Sorted(maps.Keys(sp.Clusters)) {
			if e := of(sp.Clusters[c]); len(e) > 0 {
				all = append(all, statestore.Share{Cluster: c, Weight: rapid.IntRange(0, 100).Draw(rt, "weight"), Endpoints: e, Spill: rapid.SampledFrom([]int{0, 0, 99, 100}).Draw(rt, "spill")})
			}
		}
		mode := rapid.SampledFrom([]statestore.AllDownMode{"", "", "", statestore.ServeLast, statestore.ServeAll, statestore.NoData, statestore.ServFail}).Draw(rt, "all down "+family)
		if mode == "" && rapid.IntRange(0, 3).Draw(rt, "empty "+family) == 0 {
			return statestore.Pool{} // nobody has judged or planned yet, or a mistake
		}
		if len(all) == 0 || mode == statestore.NoData || mode == statestore.ServFail {
			return statestore.Pool{AllDown: mode}
		}
		first := rapid.IntRange(0, len(all)-1).Draw(rt, "first")
		return statestore.Pool{AllDown: mode, Shares: all[first:]}
	}
	return statestore.Rotation{
		Number: number,
		V4:     pool("v4", func(c *statestore.Cluster) []netip.Addr { return c.IPv4 }),
		V6:     pool("v6", func(c *statestore.Cluster) []netip.Addr { return c.IPv6 }),
	}
}

func genQuery(rt *rapid.T, st *statestore.State) Query {
	names := slices.Sorted(maps.Keys(st.Spec.Services))
	return Query{
		Name:  rapid.SampledFrom(names).Draw(rt, "service") + "." + testZone,
		Type:  rapid.SampledFrom([]uint16{TypeA, TypeAAAA}).Draw(rt, "type"),
		Draw:  rapid.Uint64().Draw(rt, "draw"),
		Stale: rapid.SampledFrom([]time.Duration{0, time.Hour}).Draw(rt, "stale"),
	}
}

// TestG5NeverEmptyByAccident: a configured name answers NOERROR and not empty,
// unless on_all_down or on_stale says otherwise or no candidate has the family.
func TestG5NeverEmptyByAccident(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		st := genState(rt)
		table, err := Compile(st)
		require.NoError(rt, err)
		q := genQuery(rt, st)
		a, tr := Select(table, q)
		service := a.Service
		spec, rot := st.Spec.Services[service], st.Services[service].Rotation
		p, family := rot.V4, func(c *statestore.Cluster) bool { return len(c.IPv4) > 0 }
		if q.Type == TypeAAAA {
			p, family = rot.V6, func(c *statestore.Cluster) bool { return len(c.IPv6) > 0 }
		}
		want := NoError
		switch {
		case q.Stale > 0 && spec.OnStale.Answer == statestore.StaleServFail:
			want = ServFail
		case q.Stale > 0 && spec.OnStale.Answer == statestore.StaleRefuse:
			want = Refused
		case !slices.ContainsFunc(slices.Collect(maps.Values(st.Spec.Clusters)), family):
			want = NoData
		case p.AllDown == statestore.NoData:
			want = NoData
		case p.AllDown == statestore.ServFail:
			want = ServFail
		}
		require.Equal(rt, want, a.Kind, "%v", tr.Steps())
		if want == NoError {
			require.NotEmpty(rt, a.Addresses())
			require.LessOrEqual(rt, len(a.Addresses()), spec.Answer.Addresses)
			require.LessOrEqual(rt, len(a.Clusters), spec.Answer.Clusters)
		}
	})
}

func TestFailoverNeverUnitesGroups(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		st := genState(rt)
		for _, s := range st.Spec.Services {
			s.Policy.Type = statestore.Failover
		}
		table, err := Compile(st)
		require.NoError(rt, err)
		a, _ := Select(table, genQuery(rt, st))
		require.LessOrEqual(rt, len(a.Clusters), 1)
		for _, addr := range a.Addresses() {
			c := st.Spec.Clusters[a.Clusters[0]]
			require.Contains(rt, c.Endpoints(), addr)
		}
	})
}

func TestSelectIsTotal(t *testing.T) {
	table := compile(t, testState())
	rapid.Check(t, func(rt *rapid.T) {
		name := rapid.OneOf(rapid.String(), rapid.StringMatching(`([a-c*\\]{0,3}\.){0,4}(web\.|wild\.|empty\.)?(gslb\.test\.?)?`)).Draw(rt, "name")
		a, tr := Select(table, Query{Name: name, Type: rapid.Uint16().Draw(rt, "type"), Draw: rapid.Uint64().Draw(rt, "draw")})
		require.NotEmpty(rt, tr.Steps())
		if within(Canonical(name), testZone) {
			require.NotEqual(rt, Refused, a.Kind)
			require.NotNil(rt, a.Zone)
		} else {
			require.Equal(rt, Refused, a.Kind)
		}
		if a.Kind == NoError {
			require.True(rt, a.Set != nil || len(a.Chain) > 0)
		}
	})
}

// TestUpdateIsCompile walks random changes and compares the updated table with one
// compiled anew: by every service and by what it answers.
func TestUpdateIsCompile(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		st := genState(rt)
		table, err := Compile(st)
		require.NoError(rt, err)
		for range rapid.IntRange(1, 6).Draw(rt, "steps") {
			st = changed(rt, st)
			fresh, err := Compile(st)
			require.NoError(rt, err)
			table, err = Update(table, st, Local{})
			require.NoError(rt, err)
			require.Equal(rt, fresh.Zones, table.Zones)
			require.Equal(rt, fresh.layout, table.layout)
			require.Equal(rt, prepared(fresh), prepared(table))
			require.Equal(rt, []uint64{fresh.Generation, fresh.Index, fresh.Revision}, []uint64{table.Generation, table.Index, table.Revision})
		}
	})
}

// changed returns a state after one random change, sharing what did not change.
func changed(rt *rapid.T, st *statestore.State) *statestore.State {
	next := *st
	next.TableIndex++
	names := slices.Sorted(maps.Keys(st.Spec.Services))
	name := rapid.SampledFrom(names).Draw(rt, "changed")
	switch rapid.IntRange(0, 6).Draw(rt, "change") {
	case 0: // a rotation
		next.Services = maps.Clone(st.Services)
		run := *st.Services[name]
		run.Rotation = genRotation(rt, st.Spec, run.Rotation.Number+1)
		next.Services[name] = &run
	case 1: // a target turns suspect
		next.Services = maps.Clone(st.Services)
		run := *st.Services[name]
		run.Targets = map[health.Target]*statestore.TargetState{{Service: name, Cluster: "c0"}: {Verdict: health.Verdict{Mark: health.Contested}}}
		next.Services[name] = &run
	case 2: // a member's address
		next.Members = maps.Clone(st.Members)
		m := *st.Members["us-1"]
		m.DNS.IPv4 = []netip.Addr{netip.AddrFrom4([4]byte{203, 0, 113, rapid.Byte().Draw(rt, "ns")})}
		next.Members["us-1"] = &m
	case 3: // a spec with one service less, and others equal but not identical
		next.Revision++
		sp := *st.Spec
		sp.Services = map[string]*statestore.Service{}
		next.Services = maps.Clone(st.Services)
		for n, s := range st.Spec.Services {
			c := *s
			sp.Services[n] = &c
		}
		if len(names) > 1 {
			delete(sp.Services, name)
			delete(next.Services, name)
		}
		next.Spec = &sp
	case 4: // a TTL
		next.Revision++
		sp := *st.Spec
		sp.Services = maps.Clone(st.Spec.Services)
		s := *sp.Services[name]
		s.TTL.Normal += dur(time.Second)
		sp.Services[name] = &s
		next.Spec = &sp
	case 5: // a recovery
		next.Generation++
		next.Services = map[string]*statestore.ServiceState{}
		for n, run := range st.Services {
			r := *run
			r.Rotation = genRotation(rt, st.Spec, run.Rotation.Number)
			next.Services[n] = &r
		}
	case 6: // a cutover opens, begins or ends
		next.Services = maps.Clone(st.Services)
		run := *st.Services[name]
		run.Ownership = &statestore.Ownership{
			Active: "c0", Epoch: rapid.Uint64Range(1, 3).Draw(rt, "epoch"), Next: rapid.Uint64Range(0, 1).Draw(rt, "next"),
			Open: rapid.SampledFrom([]string{"", "CUT-1"}).Draw(rt, "open"), Unconfirmed: rapid.Bool().Draw(rt, "unconfirmed"),
		}
		next.Services[name] = &run
	}
	return &next
}

func TestUpdateSharesWhatDidNotChange(t *testing.T) {
	st := testState()
	table := compile(t, st)
	next := *st
	next.TableIndex++
	next.Services = maps.Clone(st.Services)
	run := *st.Services["web"]
	run.Rotation.Number++
	run.Rotation.V4.Shares = run.Rotation.V4.Shares[1:]
	next.Services["web"] = &run
	after, err := Update(table, &next, Local{})
	require.NoError(t, err)
	require.Same(t, table.layout, after.layout)
	require.Same(t, table.service("db"), after.service("db"))
	require.NotSame(t, table.service("web"), after.service("web"))
	a, _ := Select(after, query("web.gslb.test.", "A"))
	require.Equal(t, "NOERROR A 198.51.100.10", shown(a))
	a, _ = Select(table, query("web.gslb.test.", "A"))
	require.Equal(t, "NOERROR A 192.0.2.10,192.0.2.11", shown(a), "the old table stays as it was")

	// Another revision with the same service keeps its entry too.
	again := next
	sp := *next.Spec
	again.Spec, again.Revision = &sp, 3
	third, err := Update(after, &again, Local{})
	require.NoError(t, err)
	require.Same(t, after.service("web"), third.service("web"))
}
