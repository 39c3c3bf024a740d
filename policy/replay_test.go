package policy

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

// eu is the one target whose votes these tests change.
var euTarget = health.Target{Service: "web", Cluster: "eu", Endpoint: addrs("192.0.2.10")[0]}

// after commits a command so much log time after the one before.
func (w *world) after(d time.Duration, cmd statestore.Command) {
	w.t.Helper()
	w.index++
	data, err := statestore.Encode(cmd, statestore.Meta{Actor: "test", Wall: epoch, Elapsed: d})
	require.NoError(w.t, err)
	require.NoError(w.t, w.store.Apply(w.index, 1, data).Err)
}

// cast has observers change their vote on the target together, in a recorded batch.
func (w *world) cast(d time.Duration, sides map[string]health.Side) {
	w.t.Helper()
	var batches []statestore.VoteBatch
	since := w.st().Now.Add(d)
	for _, o := range sortedKeys(sides) {
		prev := w.seq[o]
		w.seq[o]++
		batches = append(batches, statestore.VoteBatch{
			Observer: health.ObserverID(o), Seq: w.seq[o], Prev: prev, Recorded: true,
			Votes: map[health.Target]health.Vote{euTarget: {Side: sides[o], Since: since}},
		})
	}
	w.after(d, statestore.CastVotes{Batches: batches})
}

func checked(edit func(*statestore.Check)) func(*statestore.Spec) {
	return web(func(s *statestore.Service) {
		c := *s.Checks.All[0]
		edit(&c)
		s.Checks.All = []*statestore.Check{&c}
	})
}

// blip is a world in which eu was down for a short while: eu-1 saw 4 bad results, us-1 3.
func blip(t *testing.T) (w *world, down, up time.Time) {
	t.Helper()
	w = upWorld(t)
	w.pass(time.Minute)
	w.cast(10*time.Second, map[string]health.Side{"eu-1": health.Down})
	w.cast(time.Second, map[string]health.Side{"us-1": health.Down})
	down = w.st().Now
	w.cast(2*time.Second, map[string]health.Side{"eu-1": health.Up, "us-1": health.Up})
	up = w.st().Now
	w.pass(time.Minute)
	return w, down, up
}

func TestReplay(t *testing.T) {
	w, down, up := blip(t)
	start := down.Add(-time.Minute)
	clock := func(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05Z") }
	fall := func(n int) func(*statestore.Spec) { return checked(func(c *statestore.Check) { c.Fall = n }) }
	tests := []struct {
		name  string
		edit  func(*statestore.Spec)
		want  string // empty: nothing would have been otherwise
		would []Turn
		warns string
	}{
		{"the same spec", func(*statestore.Spec) {}, "", nil, ""},
		{"fall 5", fall(5), "with fall 5 it would not have gone down on " + clock(down) + " (eu-1 saw 4 bad results, us-1 3)", nil, ""},
		{"fall 4 is reached by one of them", fall(4), "with fall 4 it would not have gone down on " + clock(down) + " (us-1 saw 3 bad results)", nil, ""},
		{
			"fall 2", fall(2), "with fall 2 it would have gone down 1s earlier, on " + clock(down.Add(-time.Second)),
			[]Turn{{down.Add(-time.Second), health.Down}, {up, health.Up}},
			"web: fewer results change a vote",
		},
		{
			"rise 3 comes back later", checked(func(c *statestore.Check) { c.Rise = 3 }), "with rise 3 it would have come back 1s later, on " + clock(up.Add(time.Second)),
			[]Turn{{down, health.Down}, {up.Add(time.Second), health.Up}},
			"",
		},
		{
			"a quorum of all", web(func(s *statestore.Service) { s.Quorum.Down = statestore.ThresholdAll }),
			"with 3 regions for down it would not have gone down on " + clock(down), nil, "",
		},
		{
			"fewer observers", web(func(s *statestore.Service) { s.Quorum.Observers = "region!=us" }),
			`with observers "region!=us" it would not have gone down on ` + clock(down), nil, "",
		},
		{"another check", checked(func(c *statestore.Check) { c.TCP = &statestore.TCPCheck{Port: 8080} }), "", nil, "web: its checks look at something else"},
		{"a new service", func(sp *statestore.Spec) { sp.Services["api"] = testService("api") }, "", nil, "api is new: nothing is recorded of it"},
		{"no candidate any more", web(func(s *statestore.Service) { s.Clusters.Exclude = []string{"eu"} }), "", nil, "web/eu/192.0.2.10 is no target under the new spec"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Replay(w.st(), clone(w.st().Spec, tt.edit), start)
			require.Equal(t, 4, got.Votes)
			require.Equal(t, down.Add(-time.Second), got.Since)
			require.Equal(t, w.st().Now, got.Until)
			if tt.warns == "" {
				require.Empty(t, got.Warnings)
			} else {
				require.Len(t, got.Warnings, 1)
				require.Contains(t, got.Warnings[0], tt.warns)
			}
			if tt.want == "" {
				require.Empty(t, got.Targets)
				return
			}
			require.Len(t, got.Targets, 1)
			require.Equal(t, tt.want, got.Targets[0].Text)
			require.Equal(t, []Turn{{down, health.Down}, {up, health.Up}}, got.Targets[0].Was)
			require.Equal(t, tt.would, got.Targets[0].Would)
		})
	}
}

func TestReplaySaysWhatTheRecordDoesNotTell(t *testing.T) {
	w, _, _ := blip(t)
	require.Equal(t, []string{"no vote is recorded since " + stampOf(w.st().Now)}, Replay(w.st(), w.st().Spec, w.st().Now).Warnings)
	w.do(statestore.ObserverSilent{Observer: "ap-1"})
	w.do(applyOf(w.st(), clone(w.st().Spec)))
	got := Replay(w.st(), w.st().Spec, epoch.Add(time.Minute))
	require.Len(t, got.Warnings, 2)
	require.Contains(t, got.Warnings[0], "ap-1 was silent from")
	require.Contains(t, got.Warnings[1], "a revision was applied on")
}

// What a replay tells under another quorum is what happens when the same votes are
// cast under it.
func TestAReplayedQuorumIsWhatWouldHaveHappened(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		strict := web(func(s *statestore.Service) {
			s.Quorum.Down = rapid.SampledFrom([]statestore.Threshold{statestore.ThresholdMajority, statestore.ThresholdAll}).Draw(t, "down")
			s.Quorum.Up = rapid.SampledFrom([]statestore.Threshold{statestore.ThresholdMajority, statestore.ThresholdAll}).Draw(t, "up")
		})
		spec := testSpec()
		other := clone(spec, strict)
		was, would := recorded(t, spec), recorded(t, other)
		for range rapid.IntRange(1, 20).Draw(t, "changes") {
			sides := map[string]health.Side{}
			for _, o := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"eu-1", "us-1", "ap-1"}), 1, 3, rapid.ID[string]).Draw(t, "observers") {
				sides[o] = rapid.SampledFrom([]health.Side{health.Up, health.Down, health.Down, health.Unknown}).Draw(t, o)
			}
			d := time.Duration(rapid.IntRange(2, 20).Draw(t, "after")) * time.Second
			was.cast(d, sides)
			would.cast(d, sides)
		}
		requireReplay(t, was, would, other)
	})
}

// What a replay tells under another fall is what observers that need so many results
// would have voted, when they probe at the pace of rechecks.
func TestAReplayedFallIsWhatWouldHaveHappened(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const fall, rise = 3, 2
		newFall := rapid.IntRange(fall, 7).Draw(t, "fall")
		spec := testSpec()
		other := clone(spec, checked(func(c *statestore.Check) { c.Fall = newFall }))
		was, would := recorded(t, spec), recorded(t, other)
		results := map[string][]bool{}
		for _, r := range regions {
			for good := true; len(results[r]) < 60; good = !good {
				n := rapid.IntRange(1, 9).Draw(t, fmt.Sprint(r, good))
				if good {
					n += rise // shorter ones leave no trace in the record
				}
				for range n {
					results[r] = append(results[r], good)
				}
			}
		}
		for _, r := range regions { // both worlds see the end of everything
			results[r] = append(results[r][:55:55], true, true, true, true, true)
		}
		votes := map[string]*[2]simple{}
		for _, r := range regions {
			votes[r] = &[2]simple{{fall: fall, rise: rise, side: health.Up}, {fall: newFall, rise: rise, side: health.Up}}
		}
		for second := range 60 {
			for i, w := range []*world{was, would} {
				sides := map[string]health.Side{}
				for _, r := range regions {
					if side, turned := votes[r][i].add(results[r][second]); turned {
						sides[r+"-1"] = side
					}
				}
				if len(sides) > 0 {
					w.cast(time.Second, sides)
				} else {
					w.after(time.Second, statestore.Tick{})
				}
			}
		}
		requireReplay(t, was, would, other)
	})
}

// simple is the hysteresis of an observer, as simply as it can be said.
type simple struct {
	fall, rise, run int
	side            health.Side
}

func (s *simple) add(good bool) (health.Side, bool) {
	if good == (s.side == health.Up) {
		s.run = 0
		return s.side, false
	}
	s.run++
	switch {
	case good && s.run >= s.rise:
		s.side, s.run = health.Up, 0
	case !good && s.run >= s.fall:
		s.side, s.run = health.Down, 0
	default:
		return s.side, false
	}
	return s.side, true
}

// recorded is a world that begins with everything up.
func recorded(t tester, spec *statestore.Spec) *world {
	w := newWorld(t, spec, regions...)
	w.all(health.Up, "eu", "us", "ap")
	w.pass(time.Minute)
	return w
}

// requireReplay replays what was recorded in one world under the spec of another, and
// expects the turns of that one.
func requireReplay(t tester, was, would *world, spec *statestore.Spec) {
	t.Helper()
	since := epoch.Add(time.Minute)
	turns := func(w *world) []Turn {
		r := &replay{st: w.st(), spec: spec}
		r.read(since)
		if tr := r.tracks[euTarget]; tr != nil {
			return tr.turns
		}
		return nil
	}
	got := Replay(was.st(), spec, since)
	require.Empty(t, Replay(was.st(), was.st().Spec, since).Targets, "the same spec comes to the same")
	for _, w := range got.Warnings {
		require.NotContains(t, w, "do not follow")
	}
	if sameTurns(turns(was), turns(would)) {
		require.Empty(t, got.Targets)
		return
	}
	require.Len(t, got.Targets, 1)
	require.Equal(t, turns(was), got.Targets[0].Was)
	require.Equal(t, turns(would), got.Targets[0].Would)
	require.NotEmpty(t, got.Targets[0].Text)
}
