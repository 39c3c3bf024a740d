package statestore

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
)

// BenchmarkCastVotes is one observer's vote on one of ten thousand services.
func BenchmarkCastVotes(b *testing.B) {
	r := newRig(b)
	sp := testSpec()
	var rotations []RotationChange
	for i := range 10_000 {
		s := *sp.Services["web"]
		name := fmt.Sprintf("s%d", i)
		s.Names = []string{name}
		sp.Services[name] = &s
		ch := change("dr", "eu", "us")
		ch.Service = name
		rotations = append(rotations, ch)
	}
	rotations = append(rotations, change("dr", "eu", "us"))
	r.must(Initialize{Installation: "demo"}, UpsertMember{member("eu")}, UpsertMember{member("us")}, UpsertMember{member("ap")},
		ApplySpec{Spec: sp, Rotations: rotations})
	r.allVote(health.Up)
	entries := make([][]byte, b.N)
	seq := r.seq("eu-1")
	for i := range entries {
		t := health.Target{Service: fmt.Sprintf("s%d", i%10_000), Cluster: "eu", Endpoint: netip.MustParseAddr("192.0.2.10")}
		side := []health.Side{health.Down, health.Up}[i/10_000%2]
		data, err := Encode(CastVotes{Batches: []VoteBatch{{
			Observer: "eu-1", Prev: seq + uint64(i), Seq: seq + uint64(i) + 1,
			Votes: map[health.Target]health.Vote{t: {Side: side, Since: start}},
		}}}, Meta{Actor: "automation", Wall: start})
		require.NoError(b, err)
		entries[i] = data
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i, data := range entries {
		if err := r.store.Apply(r.index+1+uint64(i), 1, data).Err; err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkHash is the state of one thousand services.
func BenchmarkHash(b *testing.B) {
	r := running(b)
	st := *r.st()
	st.Services = map[string]*ServiceState{}
	for i := range 1000 {
		st.Services[fmt.Sprintf("s%d", i)] = r.st().Services["web"]
	}
	for b.Loop() {
		st.Hash()
	}
}
