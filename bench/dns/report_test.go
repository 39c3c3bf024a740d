package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A burst that is slow because the machine is slow is not slow beside its
// neighbours.
func TestABurstIsDividedByTheMeanOfItsNeighbours(t *testing.T) {
	r := &results{order: []string{"floor", "a", "b"}, turns: map[string][]turn{
		"a": {
			{burst{QPS: 90}, burst{QPS: 80}, burst{QPS: 120}},
			{burst{QPS: 36}, burst{QPS: 50}, burst{QPS: 30}},
			{burst{QPS: 80}, burst{QPS: 100}, burst{QPS: 100}},
		},
		"b": {
			{burst{QPS: 45}, burst{QPS: 80}, burst{QPS: 120}},
			{burst{QPS: 18}, burst{QPS: 50}, burst{QPS: 30}},
			{burst{QPS: 20}, burst{QPS: 100}, burst{QPS: 100}},
		},
	}}
	require.Equal(t, spread{0.9, 0.8, 0.9}, r.against("a", qps))
	require.Equal(t, spread{2, 2, 4}, r.between("a", "b", qps))
	require.Equal(t, spread{}, r.against("nobody", qps))
}

func TestTheMedianOfAnEvenNumberIsBetweenItsMiddles(t *testing.T) {
	require.Equal(t, spread{2.5, 1, 4}, spreadOf([]float64{4, 1, 3, 2}))
}

func TestOnlyUndisturbedBurstsCount(t *testing.T) {
	full := burst{OK: 50_000, OwnCPU: 0.99, ServerCPU: 0.97}
	udp, tcp, paced := load{tool: "dnsblast"}, load{tool: "tcpblast"}, load{tool: "dnsblast", paced: true}
	with := func(change func(*burst)) burst {
		b := full
		change(&b)
		return b
	}
	for _, tt := range []struct {
		name      string
		burst     burst
		load      load
		disturbed bool
	}{
		{"both cores busy", full, udp, false},
		{"the load was held up", with(func(b *burst) { b.OwnCPU = 0.94 }), udp, true},
		{"the server was held up", with(func(b *burst) { b.ServerCPU = 0.92 }), udp, true},
		{"a queue was full for a moment", with(func(b *burst) { b.Lost = 50 }), udp, false},
		{"answers were lost", with(func(b *burst) { b.Lost = 51 }), udp, true},
		{"nothing came", with(func(b *burst) { b.OK = 0 }), udp, true},
		{"load over TCP waits for its server", with(func(b *burst) { b.OwnCPU = 0.5 }), tcp, false},
		{"a server over TCP waits between connections", with(func(b *burst) { b.ServerCPU = 0.86 }), tcp, false},
		{"a server over TCP was held up", with(func(b *burst) { b.ServerCPU = 0.84 }), tcp, true},
		{"a paced server idles", with(func(b *burst) { b.ServerCPU = 0.1 }), paced, false},
		{"paced load must keep its schedule", with(func(b *burst) { b.OwnCPU = 0.9 }), paced, true},
	} {
		require.Equal(t, tt.disturbed, tt.burst.disturbed(tt.load) != "", tt.name)
	}
}

func TestAGateIsMissedByWhatIsBelowItOrCannotBeHad(t *testing.T) {
	at := func(v float64) spread { return spread{v, v, v} }
	rep := &report{figures: []figure{
		{what: "fast", against: "floor", value: at(0.95), gate: 0.8, goal: 0.9},
		{what: "so so", against: "floor", value: at(0.8), gate: 0.8, goal: 0.9},
		{what: "slow", against: "floor", value: at(0.79), gate: 0.8, goal: 0.9},
		{what: "small", value: at(20), unit: "MiB", gate: 40, goal: 20, most: true},
		{what: "large", value: at(41), unit: "MiB", gate: 40, goal: 20, most: true},
		{what: "alone", against: "knot", gate: 1, goal: 2, absent: "not installed"},
	}}
	var verdicts []string
	for _, f := range rep.figures {
		verdicts = append(verdicts, f.verdict())
	}
	require.Equal(t, []string{atGoal, atGate, missed, atGoal, missed, unknown}, verdicts)
	require.Equal(t, []string{
		"slow / floor: 0.790 [0.790-0.790], must be >= 0.8",
		"large: 41 MiB, must be <= 40 MiB",
		"alone / knot: not installed, must be >= 1",
	}, rep.missed())
}

func TestThePictureIsSoundXML(t *testing.T) {
	rep := &report{groups: []group{{title: "A & B <", servers: []serverLine{
		{name: "floor", ratio: spread{1, 1, 1}},
		{name: "quorate", ratio: spread{0.9, 0.8, 1.2}},
		{name: "gone", absent: "not installed"},
	}}}}
	picture := rep.svg()
	d := xml.NewDecoder(strings.NewReader(picture))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
	}
	require.Contains(t, picture, "quorate")
	require.NotContains(t, picture, "gone")
	require.NotContains(t, picture, "%!", "a figure is not drawn")
}
