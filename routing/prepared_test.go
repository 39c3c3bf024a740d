package routing_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/quorate/quorate/routing"
	"github.com/quorate/quorate/routing/routingtest"
	"github.com/quorate/quorate/statestore"
)

// TestThePreparedAnswerIsTheSelectedOne: for random specs, states and clients, what is
// chosen among the prepared answers is what Select answers, and it says when it cannot
// tell: several clusters, or a node that is cut off.
func TestThePreparedAnswerIsTheSelectedOne(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := routingtest.Draw(rt)
		tab := table(rt, w)
		names := slices.Collect(tab.Names())
		for range 8 {
			q := routingtest.DrawQuery(rt, w.State)
			q.Stale = rapid.SampledFrom([]statestore.Duration{0, 0, statestore.Duration(1 << 45)}).Draw(rt, "stale").D()
			if rapid.Bool().Draw(rt, "any name") {
				q.Name = rapid.SampledFrom(names).Draw(rt, "name")
			}
			q.Type = rapid.SampledFrom([]uint16{q.Type, routing.TypeHTTPS, routing.TypeSRV, routing.TypeANY, routing.TypeNS, 16}).Draw(rt, "asked")
			want, tr := routing.Select(tab, q)
			p, ok := tab.Prepare(q.Name, q.Type)
			require.True(rt, ok)
			if !slices.Contains(tab.Answered(q.Name), q.Type) {
				require.Contains(rt, []routing.Kind{routing.NoData, routing.NoError}, want.Kind)
				require.Nil(rt, want.Set, "a type with an answer of its own")
			}
			n, ok := p.Choose(tab, &q)
			if !ok {
				require.True(rt, len(want.Clusters) > 1 || want.Stale, "%v\n%v", q, tr.Steps())
				continue
			}
			if draws := p.Plans()[p.Plan(tab, &q)]; draws != nil {
				at := slices.IndexFunc(draws, func(d routing.Draws) bool { return q.Draw <= d.Last })
				require.Equal(rt, n, draws[at].Number, "the draws of the plan")
			}
			got := p.Answers[n]
			want.Scope, got.AllDown = 0, want.AllDown
			require.Equal(rt, want, got, "%v\n%v", q, tr.Steps())
		}
	})
}

// TestDrawsAreDividedExactly: the highest draw of each part gets it, and the next one
// gets the next.
func TestDrawsAreDividedExactly(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := routingtest.Draw(rt)
		tab := table(rt, w)
		q := routingtest.DrawQuery(rt, w.State)
		p, ok := tab.Prepare(q.Name, q.Type)
		require.True(rt, ok)
		draws := p.Plans()[p.Plan(tab, &q)]
		for i, d := range draws {
			for at, want := range map[uint64]int{d.Last: i, d.Last + 1: (i + 1) % len(draws)} {
				q.Draw = at
				n, ok := p.Choose(tab, &q)
				require.True(rt, ok)
				require.Equal(rt, draws[want].Number, n, "draw %d of %v", at, draws)
			}
		}
	})
}

// TestChangedServicesAreThose: exactly the services that something else is answered
// for change between two tables, and what else is prepared is shared.
func TestChangedServicesAreThose(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := routingtest.Draw(rt)
		before := table(rt, w)
		next := *w.State
		next.TableIndex++
		next.Services = map[string]*statestore.ServiceState{}
		for name, run := range w.State.Services {
			next.Services[name] = run
		}
		name := rapid.SampledFrom(slices.Sorted(slices.Values(keys(next.Services)))).Draw(rt, "service")
		run := statestore.ServiceState{}
		if old := next.Services[name]; old != nil {
			run = *old
		}
		run.Rotation = routingtest.DrawRotation(rt, next.Spec, name, run.Rotation.Number+1)
		next.Services[name] = &run
		after, err := routing.Update(before, &next, routing.Local{Geo: w.Geo})
		require.NoError(rt, err)
		require.True(rt, after.SameNames(before))
		changed := slices.Collect(after.ChangedServices(before))
		require.Len(rt, changed, 1, "the rotation has another number")
		p, ok := after.Prepare(w.State.Spec.Services[name].Names[0]+"."+routingtest.Zone, routing.TypeA)
		require.True(rt, ok)
		require.Equal(rt, changed[0], p.Service)
	})
}

func keys[V any](m map[string]V) []string {
	var list []string
	for k := range m {
		list = append(list, k)
	}
	return list
}
