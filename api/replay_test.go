package api

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/statestore"
)

// recorded has everybody vote on a cluster at a log time, as observers do whose votes
// are recorded.
func (r *rig) recorded(seq uint64, at time.Time, cluster string, side health.Side) {
	r.t.Helper()
	var batches []statestore.VoteBatch
	for _, o := range []health.ObserverID{"ap-1", "eu-1", "us-1"} {
		b := statestore.VoteBatch{Observer: o, Seq: seq, Prev: seq - 1, Recorded: true, Votes: map[health.Target]health.Vote{}}
		for _, t := range r.store.State().Spec.Targets() {
			if t.Cluster == cluster {
				b.Votes[t] = health.Vote{Side: side, Since: at}
			}
		}
		batches = append(batches, b)
	}
	r.must(statestore.CastVotes{Batches: batches})
}

func replayBody(t *testing.T, edit func(*statestore.Spec), more string) string {
	t.Helper()
	spec := testSpec()
	for _, svc := range spec.Services {
		check := *svc.Checks.All[0]
		svc.Checks.All = []*statestore.Check{&check}
	}
	edit(spec)
	source, err := json.Marshal(specText(spec))
	require.NoError(t, err)
	return `{"source":` + string(source) + more + `}`
}

func TestAReplayTellsWhatAnotherSpecWouldHaveSpared(t *testing.T) {
	r := newRig(t)
	index := r.store.State().Index
	now := time.Now()
	r.recorded(2, now, "us", health.Down)
	r.recorded(3, now.Add(3*time.Second), "us", health.Up)
	require.Equal(t, index+2, r.store.State().Index)

	patient := replayBody(t, func(sp *statestore.Spec) {
		sp.Services["web"].Checks.All[0].Fall = 20
		sp.Services["shop"].Checks.All[0].Fall = 20
	}, "")
	rep := items[apitype.Replay](t, r.as("viewer", "POST", "/v1/replays", patient))[0]
	require.Positive(t, rep.Votes)
	require.Len(t, rep.Targets, 2, "%+v", rep)
	require.Equal(t, "shop/us/198.51.100.10", rep.Targets[0].Target)
	sides := func(turns []apitype.ReplayTurn) (out []string) {
		for _, turn := range turns {
			out = append(out, turn.Side)
		}
		return out
	}
	require.Contains(t, sides(rep.Targets[0].Was), "down")
	require.NotContains(t, sides(rep.Targets[0].Would), "down")
	require.Contains(t, rep.Targets[0].Text, "fall 20")
	require.Equal(t, index+2, r.store.State().Index, "nothing is written")

	mine := items[apitype.Replay](t, r.as("webops", "POST", "/v1/replays", patient))[0]
	require.Len(t, mine.Targets, 1)
	require.Equal(t, "web/us/198.51.100.10", mine.Targets[0].Target)
	require.NotContains(t, strings.Join(mine.Warnings, "\n"), "shop/")

	same := items[apitype.Replay](t, r.post("/v1/replays", replayBody(t, func(*statestore.Spec) {}, "")))[0]
	require.Empty(t, same.Targets, "the present spec is no difference")
	r.must(statestore.FreezeService{Reason: "audit"}) // log time goes on
	since := r.store.State().Now.Format(time.RFC3339Nano)
	later := items[apitype.Replay](t, r.post("/v1/replays", replayBody(t, func(*statestore.Spec) {}, `,"since":"`+since+`"`)))[0]
	require.Zero(t, later.Votes)
	require.Contains(t, strings.Join(later.Warnings, "\n"), "no vote is recorded since")
}

func TestReplaysThatAreRefused(t *testing.T) {
	r := newRig(t)
	same := func(more string) string { return replayBody(t, func(*statestore.Spec) {}, more) }
	tests := []struct {
		name, role, body string
		status           int
		problem, want    string
	}{
		{"nobody", "", same(""), 401, "unauthorized", "no credentials"},
		{"no spec", "viewer", `{"source":" "}`, 422, "validation", "must be a spec, is empty"},
		{"a broken spec", "viewer", `{"source":"{","name":"spec/web.yaml"}`, 422, "validation", "must be a spec"},
		{"a time to come", "viewer", same(`,"since":"2999-01-01T00:00:00Z"`), 422, "validation", "must be a time that has passed"},
		{"no time", "viewer", same(`,"since":"yesterday"`), 422, "validation", "/since"},
		{"an unknown field", "viewer", same(`,"until":"2026-01-01T00:00:00Z"`), 422, "validation", "unexpected property"},
		{"a body too large", "viewer", `{"source":"` + strings.Repeat("x", maxSpecBody) + `"}`, 413, "too-large", "4194304 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := r.as(tt.role, "POST", "/v1/replays", tt.body)
			require.Equal(t, tt.status, a.status, a.body)
			require.Equal(t, apitype.ProblemBase+tt.problem, a.problem(t).Type)
			require.Contains(t, a.body, jsonText(tt.want))
		})
	}
	large := same(`,"name":"` + strings.Repeat("x", maxBody) + `"`)
	require.Equal(t, 200, r.post("/v1/replays", large).status, "as large as a plan")
}
