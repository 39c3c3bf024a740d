package statestore

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
)

func TestApplySpecKeepsWhatIsProbedTheSameWay(t *testing.T) {
	r := running(t)
	r.down("us")
	before := r.st()
	sp := testSpec()
	sp.Services["web"].TTL.Normal *= 2
	sp.Clusters["eu"].Check = &Check{Name: "door", TCP: &TCPCheck{Port: 8443}}
	r.must(ApplySpec{Base: 1, Spec: sp, Reason: "slower"})
	after := r.st()

	require.Same(t, before.Services["web"].Targets[web("us")], after.Services["web"].Targets[web("us")])
	require.Equal(t, health.Down, r.verdict(web("us")).Side)
	for _, target := range []health.Target{web("eu"), door("eu")} {
		v := r.verdict(target)
		require.Equal(t, health.Unknown, v.Side, "%s is probed through another front door", target)
		require.Equal(t, uint64(2), v.Number, "its numbers go on")
		ts, _ := after.Target(target)
		require.Empty(t, ts.Votes)
	}
	require.Equal(t, before.Services["web"].Rotation, after.Services["web"].Rotation)
	require.Equal(t, uint64(2), after.Revision)
	require.Len(t, after.Revisions, 2)
	require.Equal(t, "ann", after.Revisions[1].Author)
	require.Same(t, after.Spec, after.Revisions[1].Spec)
	e := r.lastEvent()
	require.Equal(t, "spec.applied", e.Type)
	require.Contains(t, e.Text, "revision 2 applied: 0 added, 2 changed, 0 removed: slower")
	require.Contains(t, string(e.Detail), `"changed":["clusters/eu","services/web"]`)
}

func TestApplySpecRemovesWhatIsGone(t *testing.T) {
	r := running(t)
	r.must(FreezeService{Service: "web", Reason: "x"}, FreezeService{Reason: "x"})
	sp := testSpec()
	delete(sp.Clusters, "eu")
	r.must(ApplySpec{Base: 1, Spec: sp, Rotations: []RotationChange{change("dr", "us")}})
	require.NotContains(t, r.st().Clusters, "eu")
	_, ok := r.st().Target(web("eu"))
	require.False(t, ok)
	delete(sp.Services, "web")
	r.must(ApplySpec{Base: 2, Spec: sp})
	require.Empty(t, r.st().Services)
	require.Equal(t, []string{""}, sortedKeys(r.st().Freezes))
}

func TestRemovalBelowTheFloorNamesTheServices(t *testing.T) {
	r := running(t)
	r.down("us")
	r.cast("ap-1", health.Down, web("dr"))
	r.cast("us-1", health.Down, web("dr"))
	sp := testSpec()
	delete(sp.Clusters, "eu")
	err := r.do(ApplySpec{Base: 1, Spec: sp, Rotations: []RotationChange{{Service: "web", V4: Pool{AllDown: ServeLast, Shares: pool("dr", "us").Shares}}}})
	require.ErrorIs(t, err, ErrFloor)
	require.ErrorContains(t, err, "web would lose eu and be served by 0, the floor is 1")
	require.Equal(t, uint64(1), r.st().Revision)
}

func TestRevisionsAreBounded(t *testing.T) {
	r := running(t)
	sp := testSpec()
	sp.Retention.Revisions = 3
	for base := uint64(1); base < 6; base++ {
		r.must(ApplySpec{Base: base, Spec: sp, Source: fmt.Sprint(base)})
	}
	require.Len(t, r.st().Revisions, 3)
	require.Equal(t, uint64(4), r.st().Revisions[0].Number)
	require.Equal(t, r.st().Revision, r.st().Revisions[2].Number)
	for base := uint64(6); base < 9; base++ {
		r.must(ApplySpec{Base: base, Spec: sp, Source: strings.Repeat("#", maxRevisionText*2/5)})
	}
	require.Len(t, r.st().Revisions, 2, "by the size of their texts too")
}

func TestG13BadSpecLeavesTheRunningRevision(t *testing.T) {
	r := running(t)
	before := r.st()
	sp := testSpec()
	sp.Services["web"].Zone = "nowhere."
	require.ErrorIs(t, r.do(ApplySpec{Base: 1, Spec: sp}), ErrInvalid)
	require.Same(t, before.Spec, r.st().Spec)
	require.Equal(t, before.TableIndex, r.st().TableIndex)
}

func TestCandidates(t *testing.T) {
	tests := []struct {
		sel  Selector
		want []string
	}{
		{Selector{}, []string{"dr", "eu", "us"}},
		{Selector{Match: "tier=dr"}, []string{"dr"}},
		{Selector{Match: "region in (eu, us)"}, []string{"eu", "us"}},
		{Selector{Match: "tier notin (dr)"}, []string{"eu", "us"}},
		{Selector{Only: []string{"us", "eu", "us"}}, []string{"eu", "us"}},
		{Selector{Exclude: []string{"eu"}}, []string{"dr", "us"}},
		{Selector{Match: "bad in"}, nil},
	}
	for _, tt := range tests {
		sp := testSpec()
		sp.Services["web"].Clusters = tt.sel
		require.Equal(t, tt.want, sp.Candidates("web"), "%+v", tt.sel)
	}
	require.Nil(t, testSpec().Candidates("no"))
	require.Len(t, testSpec().Targets(), 4, "three of the service and a front door")
}

func TestOrderedCandidates(t *testing.T) {
	sp := testSpec()
	require.Equal(t, []string{"dr", "eu", "us"}, sp.Ordered("web"), "no order: by name")
	sp.Services["web"].Policy = Policy{Type: Failover, Order: []string{"us", "gone", "us", "dr"}}
	require.Equal(t, []string{"us", "dr", "eu"}, sp.Ordered("web"), "what order leaves out comes last")
	require.Empty(t, sp.Ordered("no"))
}

func TestServiceDigest(t *testing.T) {
	digest := testSpec().ServiceDigest("web")
	for name, edit := range map[string]func(*Spec){
		"ttl":       func(s *Spec) { s.Services["web"].TTL.Normal++ },
		"candidate": func(s *Spec) { s.Clusters["eu"].Capacity = 9 },
		"fewer":     func(s *Spec) { s.Services["web"].Clusters.Exclude = []string{"eu"} },
	} {
		require.NotEqual(t, digest, edited(edit).ServiceDigest("web"), "%s", name)
	}
	for name, edit := range map[string]func(*Spec){
		"nothing":   func(*Spec) {},
		"safety":    func(s *Spec) { s.Safety.MaxDrained = 9 },
		"unrelated": func(s *Spec) { s.Services["api"] = &Service{}; s.Services["web"].Clusters.Match = "" },
	} {
		require.Equal(t, digest, edited(edit).ServiceDigest("web"), "%s", name)
	}
	require.Empty(t, testSpec().ServiceDigest("no"))
}

func TestTableIndexMovesOnlyWithTheAnswers(t *testing.T) {
	advertised := func(m Member) Member {
		m.DNS.IPv4 = append(m.DNS.IPv4, eu4)
		return m
	}
	versioned := member("eu")
	versioned.Version = "1.0.1"
	for _, tt := range []struct {
		name  string
		cmd   func(*rig) Command
		moves bool
	}{
		{"a tick", func(*rig) Command { return Tick{} }, false},
		{"a version", func(*rig) Command { return UpsertMember{versioned} }, false},
		{"a DNS address", func(*rig) Command { return UpsertMember{advertised(member("eu"))} }, true},
		{"a freeze", func(*rig) Command { return FreezeService{Reason: "x"} }, false},
		{"a token", func(*rig) Command { return PutToken{ID: "t", User: "ann", Hash: [32]byte{1}} }, false},
		{"the first vote against", func(r *rig) Command {
			return CastVotes{Batches: []VoteBatch{r.vote("eu-1", health.Down, web("eu"))}}
		}, true},
		{"a vote on a front door", func(r *rig) Command {
			return CastVotes{Batches: []VoteBatch{r.vote("eu-1", health.Down, door("eu"))}}
		}, false},
		{"a spec", func(*rig) Command { return ApplySpec{Base: 1, Spec: testSpec()} }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := running(t)
			before := r.st().TableIndex
			r.must(tt.cmd(r))
			require.Equal(t, tt.moves, r.st().TableIndex == r.index, "table index %d -> %d", before, r.st().TableIndex)
		})
	}
}
