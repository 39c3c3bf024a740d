package statestore

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/health"
)

func ms(n int) Duration { return Duration(n) * Duration(time.Millisecond) }

func rtt(region string, addr netip.Addr, n int) MeasureLatency {
	return MeasureLatency{RTT: map[string]map[netip.Addr]Duration{region: {addr: ms(n)}}}
}

func TestAReportedCapacityIsKeptAndChangesNoAnswer(t *testing.T) {
	r := placed(t)
	planned, before, table := r.auto("web"), r.st().Services["web"], r.st().TableIndex
	r.must(ReportCapacity{Cluster: "eu", Capacity: 40})
	require.Equal(t, Reported{40, r.st().Now, r.st().Versions}, *r.st().Clusters["eu"].Reported)
	require.Same(t, before, r.st().Services["web"])
	require.Equal(t, table, r.st().TableIndex)
	require.False(t, r.st().Deadlines(), "a report ends by a leader's word alone")
	e := r.lastEvent()
	require.Equal(t, "cluster.capacity", e.Type)
	require.Equal(t, "eu reports a capacity of 40", e.Text)
	require.JSONEq(t, `{"reported":40,"declared":100}`, string(e.Detail))
	r.refuses(planned, ErrStale, "what this rests on has changed: a reported capacity")

	count := r.st().Audit.Count
	r.must(ReportCapacity{Cluster: "eu", Capacity: 40})
	require.Equal(t, count, r.st().Audit.Count, "the same again is no change")
	r.must(ReportCapacity{Cluster: "eu"})
	require.Zero(t, r.st().Clusters["eu"].Reported.Capacity, "nothing is a report too")
	require.JSONEq(t, `{"was":40,"reported":0,"declared":100}`, string(r.lastEvent().Detail))
	r.must(ReportCapacity{Cluster: "eu", Stale: true})
	require.Nil(t, r.st().Clusters["eu"].Reported)
	require.Equal(t, "eu reports no capacity any more; 100 counts, as declared", r.lastEvent().Text)
	count = r.st().Audit.Count
	r.must(ReportCapacity{Cluster: "eu", Stale: true})
	require.Equal(t, count, r.st().Audit.Count)
}

func TestCapacityIsNoBasisOfAStatefulService(t *testing.T) {
	r := placed(t)
	basis := r.st().Basis("db")
	r.must(ReportCapacity{Cluster: "eu", Capacity: 40})
	require.Equal(t, basis, r.st().Basis("db"), "what it can take does not starve a cutover")
	require.Equal(t, map[string]uint64{"eu": r.st().Versions}, r.st().Basis("web").Reports)
}

func TestAReportGoesWithWhatItWasOf(t *testing.T) {
	for name, tt := range map[string]struct {
		edit  func(*Spec)
		stays bool
	}{
		"another max_age":           {func(sp *Spec) { sp.Clusters["eu"].CapacityFrom.MaxAge *= 2 }, true},
		"another path":              {func(sp *Spec) { sp.Clusters["eu"].CapacityFrom.HTTP.Path = "/other" }, false},
		"another declared capacity": {func(sp *Spec) { sp.Clusters["eu"].Capacity = 200 }, false},
		"none":                      {func(sp *Spec) { sp.Clusters["eu"].CapacityFrom = nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := placed(t)
			r.must(ReportCapacity{Cluster: "eu", Capacity: 40})
			r.must(ApplySpec{Base: 1, Spec: placedEdited(tt.edit)})
			require.Equal(t, tt.stays, r.st().Clusters["eu"].Reported != nil)
		})
	}
	r := placed(t)
	r.must(ReportCapacity{Cluster: "eu", Capacity: 40}, r.resolve(lb[0], lb[1]))
	require.NotNil(t, r.st().Clusters["eu"].Reported, "addresses of another are nothing to it")
}

func TestMeasuredLatencyRenewsWhoAnswersByIt(t *testing.T) {
	r := placed(t)
	r.must(rtt("eu", us4, 80))
	require.Equal(t, map[string]map[netip.Addr]Duration{"eu": {us4: ms(80)}}, r.st().Latency)
	require.Equal(t, r.index, r.st().TableIndex)
	e := r.lastEvent()
	require.Equal(t, "latency.measured", e.Type)
	require.Equal(t, "eu to 192.0.2.20 is 80ms", e.Text)
	require.JSONEq(t, `{"changes":[{"region":"eu","endpoint":"192.0.2.20","is":"80ms"}]}`, string(e.Detail))

	before := r.st()
	r.must(MeasureLatency{RTT: map[string]map[netip.Addr]Duration{"us": {us4: ms(2), eu4: ms(81)}, "eu": {us4: ms(60)}}})
	st := r.st()
	require.Equal(t, "eu to 192.0.2.20 is 60ms; us to 192.0.2.10 is 81ms; us to 192.0.2.20 is 2ms", r.lastEvent().Text)
	require.NotSame(t, before.Services["near"], st.Services["near"], "it answers by latency")
	require.Same(t, before.Services["web"], st.Services["web"], "it does not")
	require.Equal(t, ms(80), before.Latency["eu"][us4], "an older state is left alone")

	count := st.Audit.Count
	r.must(rtt("us", us4, 2))
	require.Equal(t, count, r.st().Audit.Count, "the same again is no change")
	require.Equal(t, st.TableIndex, r.st().TableIndex)
	require.Len(t, r.st().Latency["us"], 2, "what is not named stays")
}

func TestLatencyMovesTheTableOnlyWhereSomebodyAnswersByIt(t *testing.T) {
	r := placed(t, func(sp *Spec) { sp.Services["near"].Clusters.Only = []string{"eu", "dr"} })
	table, near := r.st().TableIndex, r.st().Services["near"]
	r.must(rtt("eu", us4, 80)) // No candidate of near.
	require.Equal(t, table, r.st().TableIndex)
	require.Same(t, near, r.st().Services["near"])
	r.must(rtt("eu", lb[0], 80))
	require.Equal(t, r.index, r.st().TableIndex)
}

func TestLatencyOfWhatIsUnknownIsPassedOver(t *testing.T) {
	r := placed(t)
	r.must(MeasureLatency{RTT: map[string]map[netip.Addr]Duration{"eu": {us4: ms(80), lb[2]: ms(9)}, "mars": {us4: ms(1)}}})
	require.Equal(t, map[string]map[netip.Addr]Duration{"eu": {us4: ms(80)}}, r.st().Latency)
	r.must(r.resolve(lb[0], lb[2]), rtt("ap", lb[0], 10), rtt("ap", lb[2], 11), rtt("us", lb[2], 12))
	r.must(r.resolve(lb[0]))
	require.Equal(t, map[string]map[netip.Addr]Duration{"eu": {us4: ms(80)}, "ap": {lb[0]: ms(10)}}, r.st().Latency, "an endpoint that goes")
	r.must(RemoveMember{Name: "ap-1", Reason: "x"}, ApplySpec{Base: 1, Spec: placedSpec()})
	require.Equal(t, map[string]map[netip.Addr]Duration{"eu": {us4: ms(80)}}, r.st().Latency, "a region without a member")
}

func TestMeasureRefusals(t *testing.T) {
	tests := []struct {
		name string
		cmd  Command
		want *Refusal
		text string
	}{
		{"capacity of an unknown cluster", ReportCapacity{Cluster: "mars"}, ErrNotFound, "cluster mars: not found"},
		{"capacity of one that does not report", ReportCapacity{Cluster: "us", Capacity: 1}, ErrStale, "cluster us: its capacity is not reported"},
		{"negative capacity", ReportCapacity{Cluster: "eu", Capacity: -1}, ErrInvalid, "must be 0 to 1000000000, is -1"},
		{"boundless capacity", ReportCapacity{Cluster: "eu", Capacity: 1_000_000_001}, ErrInvalid, "must be 0 to 1000000000"},
		{"stale with a capacity", ReportCapacity{Cluster: "eu", Capacity: 1, Stale: true}, ErrInvalid, "a stale report must have no capacity, is 1"},
		{"no round trip", MeasureLatency{}, ErrStale, "names no round trip"},
		{"none that is known", rtt("mars", us4, 1), ErrStale, "names no round trip"},
		{"nothing", rtt("eu", us4, 0), ErrInvalid, "eu to 192.0.2.20: must be above 0 and at most 1m0s, is 0s"},
		{"negative", rtt("eu", us4, -1), ErrInvalid, "is -1ms"},
		{"above a minute", rtt("eu", us4, 60_001), ErrInvalid, "is 1m0.001s"},
		{"a bad one among good ones", MeasureLatency{RTT: map[string]map[netip.Addr]Duration{"eu": {us4: ms(1)}, "us": {us4: 0}}}, ErrInvalid, "us to 192.0.2.20"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { placed(t).refuses(tt.cmd, tt.want, tt.text) })
	}
	placed(t).must(rtt("eu", us4, 60_000))
}

// castDegraded has the observers vote up on eu for web, with a word on how it is.
func (r *rig) castDegraded(why string, observers ...string) {
	r.t.Helper()
	for _, o := range observers {
		b := r.vote(o, health.Up, web("eu"))
		b.Votes[web("eu")] = health.Vote{Side: health.Up, Since: start, Degraded: why}
		r.must(CastVotes{Batches: []VoteBatch{b}})
	}
}

func TestDegradedIsShownAndNeverJudged(t *testing.T) {
	r := running(t)
	verdict, table := r.verdict(web("eu")), r.st().TableIndex
	r.castDegraded("cert", "eu-1")
	require.Empty(t, r.st().Degraded(web("eu")), "one region of three")
	r.castDegraded("cert", "us-1")
	require.Equal(t, "cert", r.st().Degraded(web("eu")))
	require.Equal(t, verdict, r.verdict(web("eu")))
	require.Equal(t, table, r.st().TableIndex)
	require.False(t, r.st().Suspect("web"))
	require.Equal(t, "votes.changed", r.lastEvent().Type)
	require.Empty(t, r.st().Degraded(web("us")))
	require.Empty(t, r.st().Degraded(target("no", "eu", eu4)), "what is not configured")

	r.must(ObserverSilent{Observer: "us-1"})
	require.Empty(t, r.st().Degraded(web("eu")), "a silent observer's word is set aside")
	r.castDegraded("cert", "ap-1")
	require.Equal(t, "cert", r.st().Degraded(web("eu")))
}

func TestDegradedIsOfWhatIsUp(t *testing.T) {
	r := running(t)
	r.castDegraded("latency", "eu-1", "us-1")
	down := func(o string) VoteBatch {
		b := r.vote(o, health.Down, web("eu"))
		b.Votes[web("eu")] = health.Vote{Side: health.Down, Since: start, Degraded: "latency"}
		return b
	}
	r.must(CastVotes{Batches: []VoteBatch{down("eu-1"), down("us-1")}})
	require.Equal(t, health.Down, r.verdict(web("eu")).Side)
	require.Empty(t, r.st().Degraded(web("eu")))
}

func TestRecordedVotesStayInTheirEvent(t *testing.T) {
	r := running(t)
	b := r.vote("us-1", health.Down, web("eu"), door("eu"))
	b.Votes[web("dr")] = r.st().Services["web"].Targets[web("dr")].Votes["us-1"] // As it was.
	r.must(CastVotes{Batches: []VoteBatch{b}})
	require.NotContains(t, string(r.lastEvent().Detail), `"cast"`, "of a batch that is not recorded there are none")
	b = r.vote("us-1", health.Up, web("eu"), web("us"), door("eu"), target("no", "eu", eu4))
	b.Recorded = true
	b.Votes[web("us")] = r.st().Services["web"].Targets[web("us")].Votes["us-1"]
	r.must(CastVotes{Batches: []VoteBatch{b}})
	require.Contains(t, string(r.lastEvent().Detail),
		`"cast":[{"observer":"us-1","target":"eu/192.0.2.10","vote":{"side":"up","reason":"timeout","since":"2026-03-01T12:00:00Z"}},`+
			`{"observer":"us-1","target":"web/eu/192.0.2.10","vote":{"side":"up","reason":"timeout","since":"2026-03-01T12:00:00Z"}}]`)

	full := VoteBatch{Observer: "us-1", Seq: r.seq("us-1") + 1, Full: true, Recorded: true, Votes: map[health.Target]health.Vote{}}
	r.must(CastVotes{Batches: []VoteBatch{full}})
	require.Contains(t, string(r.lastEvent().Detail), `{"observer":"us-1","target":"web/us/192.0.2.20","vote":{"side":"unknown","since":"0001-01-01T00:00:00Z"}}`,
		"a vote that goes is one on record")
}

func TestRecordedVotesAreBounded(t *testing.T) {
	r := running(t)
	sp := testSpec()
	for a := netip.MustParseAddr("198.51.100.0"); len(sp.Clusters["us"].IPv4) < maxCast; a = a.Next() {
		sp.Clusters["us"].IPv4 = append(sp.Clusters["us"].IPv4, a)
	}
	r.must(ApplySpec{Base: 1, Spec: sp})
	b := r.vote("us-1", health.Down, r.st().Spec.ServiceTargets("web")...)
	b.Recorded = true
	r.must(CastVotes{Batches: []VoteBatch{b}})
	require.Contains(t, string(r.lastEvent().Detail), `"cast_more":2}`)
}
