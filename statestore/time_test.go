package statestore

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestG10LogTimeOnlyGrows(t *testing.T) {
	now := start
	for _, tt := range []struct {
		name string
		now  time.Time
		meta Meta
		want time.Time
	}{
		{"the first entry sets it from the wall clock", time.Time{}, Meta{Wall: now, Elapsed: time.Hour}, now},
		{"monotonic time is added", now, Meta{Wall: now.Add(-time.Hour), Elapsed: time.Second}, now.Add(time.Second)},
		{"a day is added unclamped", now, Meta{Elapsed: 24 * time.Hour}, now.Add(24 * time.Hour)},
		{"a clock set back adds nothing", now, Meta{Elapsed: -time.Hour, Rebased: true}, now},
		{"the wall clock decides nothing", now, Meta{Wall: now.Add(1000 * time.Hour)}, now},
		{"time ends with the calendar", time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), Meta{Elapsed: 48 * time.Hour}, time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)},
	} {
		require.Equal(t, tt.want, logTime(tt.now, tt.meta), tt.name)
	}
}

// request applies cmd under ann's request id, issued so long after the start of
// the log.
func (r *rig) request(id string, issued, elapsed time.Duration, cmd Command) error {
	r.t.Helper()
	return r.doMeta(cmd, Meta{Actor: "ann", Request: id, Issued: start.Add(issued), Elapsed: elapsed})
}

func TestG8RequestTakesEffectOnce(t *testing.T) {
	r := running(t)
	freeze := FreezeService{Reason: "x"}
	require.NoError(t, r.request("r1", time.Minute, time.Second, freeze))
	version, count := r.st().Versions, r.st().Audit.Count

	require.NoError(t, r.request("r1", time.Minute, time.Second, freeze), "the retry finds the outcome")
	require.Equal(t, version, r.st().Versions)
	require.Equal(t, count, r.st().Audit.Count)

	err := r.request("r1", time.Minute, time.Second, FreezeService{Reason: "y"})
	require.ErrorIs(t, err, ErrRequestReused)
	require.ErrorIs(t, r.request("r1", time.Minute, time.Second, Tick{}), ErrRequestReused)
	require.NoError(t, r.doMeta(freeze, Meta{Actor: "bob", Request: "r1", Issued: start.Add(time.Minute)}), "ids are per actor")
}

func TestG8RefusedRequestStaysRefused(t *testing.T) {
	r := running(t)
	thaw := ThawService{Service: "web"}
	require.ErrorIs(t, r.request("r1", time.Minute, 0, thaw), ErrNotFound)
	r.must(FreezeService{Service: "web", Reason: "x"})
	err := r.request("r1", time.Minute, 0, thaw)
	require.ErrorIs(t, err, ErrNotFound, "the retry of a refused request is not another try")
	require.EqualError(t, err, "services/web: is not frozen")
	require.Contains(t, r.st().Freezes, "web")
}

func TestG8RequestOlderThanTheWindowIsUnknown(t *testing.T) {
	r := running(t)
	freeze := FreezeService{Reason: "x"}
	require.NoError(t, r.request("r1", time.Minute, 0, freeze))
	require.NoError(t, r.request("far", 40*time.Hour, 0, freeze), "issued by a clock that is ahead")
	require.NoError(t, r.doMeta(Tick{}, Meta{Elapsed: requestWindow + time.Minute}))
	version := r.st().Versions
	require.ErrorIs(t, r.request("r2", time.Minute, 0, freeze), ErrRequestUnknown, "never executed, new or not")
	require.NoError(t, r.request("far", 40*time.Hour, 0, freeze))
	require.Equal(t, version, r.st().Versions, "remembered for as long as its own window lasts")

	require.NoError(t, r.request("r3", 25*time.Hour, 0, freeze))
	require.NotContains(t, r.st().Requests, "ann r1", "forgotten")
	require.ErrorIs(t, r.request("r1", time.Minute, 0, freeze), ErrRequestUnknown, "it may have been done")
	require.Contains(t, r.st().Requests, "ann far")
	require.ErrorIs(t, r.doMeta(freeze, Meta{Actor: "ann", Request: "r4"}), ErrInvalid, "an id without its time")
}

func TestRequestsAreBounded(t *testing.T) {
	st := emptyState()
	st.Now = start
	full := map[string]*Request{}
	for i := range maxRequests {
		full[fmt.Sprint("ann ", i)] = &Request{Issued: start.Add(time.Duration(i) * time.Millisecond), At: start}
	}
	st.Requests = full
	st.remember(KindTick, nil, entry{now: start, meta: Meta{Actor: "ann", Request: "new", Issued: start.Add(time.Hour)}}, nil)
	require.Len(t, st.Requests, maxRequests)
	require.NotContains(t, st.Requests, "ann 0", "the oldest goes")
	done, err := st.remembered(KindTick, nil, Meta{Actor: "ann", Request: "0", Issued: start})
	require.True(t, done)
	require.ErrorIs(t, err, ErrRequestUnknown, "what was forgotten is never executed again")
	require.Len(t, full, maxRequests)
}
