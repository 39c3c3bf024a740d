package statestore

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
)

func TestG1LoneObserverChangesNothing(t *testing.T) {
	r := running(t)
	before := r.verdict(web("eu"))
	table := r.st().TableIndex
	r.cast("ap-1", health.Down, web("eu"), door("eu"))

	after := r.verdict(web("eu"))
	require.Equal(t, health.Up, after.Side)
	require.Equal(t, before.Number, after.Number)
	require.Equal(t, before.Index, after.Index)
	require.Equal(t, health.Settled, after.Mark, "two of three regions still say up")
	require.True(t, r.st().Suspect("web"))
	require.Greater(t, r.st().TableIndex, table, "a suspect service answers with the shorter TTL")
	require.Equal(t, "votes.changed", r.lastEvent().Type)
	require.Contains(t, r.lastEvent().Text, "ap-1 votes")
}

func TestG1TwoRegionsOfThreeTurnAVerdict(t *testing.T) {
	r := running(t)
	number := r.verdict(web("eu")).Number
	r.cast("ap-1", health.Down, web("eu"))
	r.cast("us-1", health.Down, web("eu"))

	v := r.verdict(web("eu"))
	require.Equal(t, health.Down, v.Side)
	require.Equal(t, number+1, v.Number)
	require.Equal(t, r.index, v.Index)
	require.Equal(t, r.st().Now, v.Since)
	require.Equal(t, []health.Decider{{Observer: "ap-1", Region: "ap", Reason: "timeout"}, {Observer: "us-1", Region: "us", Reason: "timeout"}}, v.Deciding)
	require.Equal(t, health.Up, r.verdict(web("us")).Side)
	e := r.lastEvent()
	require.Equal(t, "verdict.changed", e.Type)
	require.Equal(t, "services/web", e.Subject)
	require.Contains(t, e.Text, "web/eu/192.0.2.10 up -> down by 2 of 3 regions")
	require.Contains(t, string(e.Detail), `"deciding":[{"observer":"ap-1"`)
}

func TestG1SilentObserversRegionStaysInTheDenominator(t *testing.T) {
	r := running(t)
	r.must(ObserverSilent{Observer: "eu-1"})
	require.Len(t, r.st().Eligible("web"), 3)
	r.cast("ap-1", health.Down, web("eu"))
	require.Equal(t, health.Up, r.verdict(web("eu")).Side, "one of three is no majority, although one is silent")
	r.cast("us-1", health.Down, web("eu"))
	require.Equal(t, health.Down, r.verdict(web("eu")).Side)
}

func TestG1SilenceIsNeverDown(t *testing.T) {
	r := running(t)
	for _, o := range []health.ObserverID{"eu-1", "us-1", "ap-1"} {
		r.must(ObserverSilent{Observer: o})
	}
	require.Equal(t, health.Up, r.verdict(web("eu")).Side)
	require.Equal(t, health.Unobserved, r.verdict(web("eu")).Mark)
}

// Within a region of two observers that disagree, the silence of one leaves the
// region to the other. Nobody has voted, so no verdict may turn.
func TestSilenceTurnsNoVerdict(t *testing.T) {
	r := running(t)
	twin := member("us")
	twin.Name = "us-2"
	r.must(UpsertMember{twin})
	r.allVote(health.Up)
	r.cast("ap-1", health.Down, web("eu"))
	r.cast("us-1", health.Down, web("eu"))
	require.Equal(t, health.Up, r.verdict(web("eu")).Side, "us is divided")
	r.must(ObserverSilent{Observer: "us-2"})
	require.Equal(t, health.Up, r.verdict(web("eu")).Side)
	require.Equal(t, "observer.silent", r.lastEvent().Type)
}

func TestMembershipTurnsNoVerdict(t *testing.T) {
	r := running(t)
	r.cast("ap-1", health.Down, web("eu"))
	number := r.verdict(web("eu")).Number
	r.must(RemoveMember{Name: "us-1"})
	r.must(UpsertMember{member("sa")})
	require.Equal(t, health.Up, r.verdict(web("eu")).Side)
	require.Equal(t, number, r.verdict(web("eu")).Number)
	ts, _ := r.st().Target(web("eu"))
	require.NotContains(t, ts.Votes, health.ObserverID("us-1"))
	require.NotContains(t, r.st().Observers, health.ObserverID("us-1"))
}

func TestNewTermCountsOnlyConfirmedObservers(t *testing.T) {
	r := running(t)
	r.cast("ap-1", health.Down, web("eu")) // The dead observer's vote.
	r.term++
	r.must(Tick{})
	for id, o := range r.st().Observers {
		require.False(t, o.Confirmed, "%s", id)
	}
	r.must(ConfirmObservers{Observers: map[health.ObserverID]uint64{"us-1": r.seq("us-1"), "eu-1": r.seq("eu-1")}})
	r.cast("us-1", health.Down, web("eu"))
	require.Equal(t, health.Up, r.verdict(web("eu")).Side, "ap-1 has not confirmed its vote to this term")

	r.must(ConfirmObservers{Observers: map[health.ObserverID]uint64{"ap-1": r.seq("ap-1")}})
	require.Equal(t, health.Down, r.verdict(web("eu")).Side, "confirming makes its votes count")
	require.Equal(t, "verdict.changed", r.lastEvent().Type)
}

func TestAnElectionAloneMovesNoAnswer(t *testing.T) {
	r := running(t)
	r.cast("ap-1", health.Down, web("eu"))
	table := r.st().TableIndex
	r.term++
	r.must(Tick{})
	require.True(t, r.st().Suspect("web"))
	require.Equal(t, table, r.st().TableIndex)
}

func TestSilentObserverMakesNothingSuspect(t *testing.T) {
	r := running(t)
	r.cast("ap-1", health.Down, web("eu"))
	require.True(t, r.st().Suspect("web"))
	before := r.st().Services["web"]
	r.must(ObserverSilent{Observer: "ap-1"})
	require.False(t, r.st().Suspect("web"))
	require.NotSame(t, before, r.st().Services["web"], "who compares pointers sees the change")
	require.Equal(t, r.index, r.st().TableIndex, "the TTL is the normal one again")
	b := r.vote("ap-1", health.Down, web("eu"))
	b.Full = true
	r.must(CastVotes{Batches: []VoteBatch{b}})
	require.True(t, r.st().Suspect("web"))
	require.Equal(t, r.index, r.st().TableIndex)

	m := member("ap")
	m.Observes = false
	r.must(UpsertMember{m})
	require.False(t, r.st().Suspect("web"), "a member that stops observing leaves no votes behind")
	require.NotContains(t, r.st().Observers, health.ObserverID("ap-1"))
	require.Equal(t, r.index, r.st().TableIndex)
}

func TestConfirmObservers(t *testing.T) {
	r := running(t)
	r.term++
	r.must(Tick{})
	r.must(ConfirmObservers{Observers: map[health.ObserverID]uint64{"eu-1": r.seq("eu-1") + 1, "us-1": r.seq("us-1"), "nobody": 1}})
	require.False(t, r.st().Observers["eu-1"].Confirmed, "another sequence number is not confirmed")
	require.True(t, r.st().Observers["us-1"].Confirmed)
	require.Equal(t, "observers.confirmed", r.lastEvent().Type)

	count := r.st().Audit.Count
	r.must(ConfirmObservers{Observers: map[health.ObserverID]uint64{"us-1": r.seq("us-1")}})
	require.Equal(t, count, r.st().Audit.Count, "confirming twice changes nothing")

	r.must(ConfirmObservers{Reset: true, Observers: map[health.ObserverID]uint64{"eu-1": r.seq("eu-1")}})
	require.True(t, r.st().Observers["eu-1"].Confirmed)
	require.False(t, r.st().Observers["us-1"].Confirmed, "a leader that stalled sets aside who has not confirmed")

	r.must(ObserverSilent{Observer: "ap-1"})
	r.must(ConfirmObservers{Observers: map[health.ObserverID]uint64{"ap-1": r.seq("ap-1")}})
	require.True(t, r.st().Observers["ap-1"].Silent, "a silent observer returns with a full set only")
	b := r.vote("ap-1", health.Up, web("eu"))
	b.Full = true
	r.must(CastVotes{Batches: []VoteBatch{b}})
	require.True(t, r.st().Observers["ap-1"].Counts())
}

func TestFullBatchReplacesAllVotes(t *testing.T) {
	r := running(t)
	b := r.vote("ap-1", health.Down, web("us"))
	b.Full = true
	r.must(CastVotes{Batches: []VoteBatch{b}})
	ts, _ := r.st().Target(web("eu"))
	require.NotContains(t, ts.Votes, health.ObserverID("ap-1"))
	ts, _ = r.st().Target(web("us"))
	require.Equal(t, health.Down, ts.Votes["ap-1"].Side)
}

func TestVoteBatches(t *testing.T) {
	tests := []struct {
		name string
		edit func(*VoteBatch)
		want string
	}{
		{"the batch before again", func(b *VoteBatch) { b.Seq--; b.Prev-- }, "eu-1 is at 1, not before 1"},
		{"a gap", func(b *VoteBatch) { b.Seq++; b.Prev++ }, "eu-1 is at 1, not at 2"},
		{"an old full set", func(b *VoteBatch) { b.Full = true; b.Seq = 1 }, "eu-1 is at 1, not before 1"},
		{"a stranger", func(b *VoteBatch) { b.Observer = "evil-1" }, "evil-1 is not a member"},
		{"a member that does not observe", func(b *VoteBatch) { b.Observer = "dns-1" }, "dns-1 does not observe"},
		{"a member that never sent a full set", func(b *VoteBatch) { b.Observer = "sa-1"; b.Prev = 0 }, "sa-1 has never sent a full set"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := running(t)
			quiet := member("dns")
			quiet.Observes = false
			r.must(UpsertMember{quiet}, UpsertMember{member("sa")})
			b := r.vote("eu-1", health.Down, web("eu"))
			tt.edit(&b)
			err := r.do(CastVotes{Batches: []VoteBatch{b}})
			require.ErrorIs(t, err, ErrStale)
			require.ErrorContains(t, err, tt.want)
			ts, _ := r.st().Target(web("eu"))
			require.Equal(t, health.Up, ts.Votes["eu-1"].Side)

			good := r.vote("us-1", health.Down, web("eu"))
			require.NoError(t, r.do(CastVotes{Batches: []VoteBatch{b, good}}), "a stale batch does not hold back another observer's")
			require.Contains(t, string(r.lastEvent().Detail), tt.want)
		})
	}
}

func TestVotesOnUnknownTargetsArePassedOver(t *testing.T) {
	r := running(t)
	gone := health.Target{Service: "gone", Cluster: "eu", Endpoint: eu4}
	r.cast("eu-1", health.Down, gone, web("eu"))
	ts, _ := r.st().Target(web("eu"))
	require.Equal(t, health.Down, ts.Votes["eu-1"].Side)
}

func TestObserversSelector(t *testing.T) {
	r := newRig(t)
	labelled := member("us")
	labelled.Labels = map[string]string{"trusted": "yes"}
	sp := testSpec()
	sp.Services["web"].Quorum.Observers = "trusted=yes"
	r.must(Initialize{Installation: "demo"}, UpsertMember{member("eu")}, UpsertMember{labelled},
		ApplySpec{Spec: sp, Rotations: []RotationChange{change("eu", "us")}})
	require.Equal(t, []string{"us"}, r.st().Eligible("web"))
	require.Equal(t, []string{"eu", "us"}, r.st().Eligible(""))
	require.Equal(t, health.Rule{Up: 1, Down: 1}, r.st().Rule(web("eu")))
	require.Equal(t, health.Rule{Up: 2, Down: 2}, r.st().Rule(door("eu")))
	require.Len(t, r.st().Ballots(web("eu")), 1)
}

func TestThresholds(t *testing.T) {
	for _, tt := range []struct {
		th       Threshold
		eligible int
		want     int
	}{{ThresholdMajority, 3, 2}, {ThresholdMajority, 4, 3}, {ThresholdAll, 5, 5}, {4, 5, 4}} {
		require.Equal(t, tt.want, tt.th.Regions(tt.eligible), "%+v", tt)
	}
}

func (r *rig) lastEvent() Event { return r.st().Events[len(r.st().Events)-1] }
