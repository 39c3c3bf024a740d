package node

import (
	"log/slog"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/statestore"
)

// stateAt is a state with one zone, at a place in the history of tables.
func stateAt(generation, tableIndex uint64) *statestore.State {
	return &statestore.State{
		Index: tableIndex, Generation: generation, TableIndex: tableIndex, Revision: 1,
		Spec: &statestore.Spec{Zones: map[string]*statestore.Zone{"gslb.test.": {}}},
	}
}

func TestG2ATableNeverGoesBack(t *testing.T) {
	p := &publisher{log: slog.New(slog.DiscardHandler)}
	serves := func() [2]uint64 { return [2]uint64{p.table.Load().Generation, p.table.Load().Index} }
	for _, step := range []struct {
		name       string
		generation uint64
		index      uint64
		want       [2]uint64
	}{
		{"the first", 1, 10, [2]uint64{1, 10}},
		{"a replaying log", 1, 3, [2]uint64{1, 10}},
		{"the same again", 1, 10, [2]uint64{1, 10}},
		{"a newer one", 1, 11, [2]uint64{1, 11}},
		{"a recovery starts its log anew", 2, 4, [2]uint64{2, 4}},
		{"the life before, however long it got", 1, 500, [2]uint64{2, 4}},
	} {
		require.NoError(t, p.publish(stateAt(step.generation, step.index)), step.name)
		require.Equal(t, step.want, serves(), step.name)
	}
}

func TestTheKeptStateShowsUntilRaftHasCaughtUp(t *testing.T) {
	kept := stateAt(1, 10)
	v := newView(statestore.NewStoreAt(stateAt(1, 4)), kept)
	require.Same(t, kept, v.State())
	require.EqualValues(t, 12, newView(statestore.NewStoreAt(stateAt(1, 12)), kept).State().Index)
	require.EqualValues(t, 2, newView(statestore.NewStoreAt(stateAt(2, 2)), kept).State().Index, "a higher generation is newer whatever its index")
	require.EqualValues(t, 4, newView(statestore.NewStoreAt(stateAt(1, 4)), nil).State().Index, "nothing was kept")
}

func TestAFrontDoorIsOneProbeWithAllItsNames(t *testing.T) {
	tcp := func(port int) *statestore.Check {
		return &statestore.Check{Name: "check", TCP: &statestore.TCPCheck{Port: port}}
	}
	host := &statestore.Check{Name: "check", HTTP: &statestore.HTTPCheck{Port: 80, Path: "/", Host: "{service}.{zone}"}}
	spec := &statestore.Spec{
		Zones: map[string]*statestore.Zone{"gslb.test.": {}},
		Clusters: map[string]*statestore.Cluster{
			"eu": {Region: "eu", IPv4: []netip.Addr{netip.MustParseAddr("192.0.2.1")}, Check: tcp(443)},
		},
		Services: map[string]*statestore.Service{
			"api": {Zone: "gslb.test.", Names: []string{"api"}, Checks: statestore.Checks{All: []*statestore.Check{host}}},
			"web": {Zone: "gslb.test.", Names: []string{"web"}, Checks: statestore.Checks{All: []*statestore.Check{host}}},
		},
	}
	plan := probePlan(spec)
	require.Len(t, plan.Targets, 3, "two services and the front door")
	require.Len(t, plan.Probes, 3, "a host of its own for each service, one front door for all")
	door := plan.Targets[0].All[0].Probe
	require.True(t, plan.Targets[0].Target.FrontDoor())
	for _, target := range plan.Targets[1:] {
		require.Len(t, target.All, 2)
		require.Equal(t, door, target.All[1].Probe, "%s stands on the front door too", target.Target)
	}
	require.NotEqual(t, plan.Targets[1].All[0].Probe, plan.Targets[2].All[0].Probe)
}

func TestTheRecordedRoleGoesBeforeTheWantedOne(t *testing.T) {
	n := &Node{cfg: &config.Node{Name: "ap-1", Voter: true}, view: newView(statestore.NewStore(), nil)}
	require.Equal(t, statestore.Voter, n.role(), "nothing is recorded yet")
	n.view = newView(statestore.NewStoreAt(&statestore.State{
		Index: 1, Members: map[string]*statestore.Member{"ap-1": {Name: "ap-1", Role: statestore.Nonvoter}},
	}), nil)
	require.Equal(t, statestore.Nonvoter, n.role(), "an operator demoted it")
}
