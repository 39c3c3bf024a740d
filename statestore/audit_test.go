package statestore

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func sum256(b []byte) [32]byte { return sha256.Sum256(b) }

func TestG12ChainVerifiesOffline(t *testing.T) {
	r := running(t)
	r.down("eu")
	r.must(r.rotate("dr", "us"), FreezeService{Reason: "look <here> & there"})
	exported, err := json.MarshalIndent(r.st().Events, "", "  ")
	require.NoError(t, err)
	read := func(b []byte) []Event {
		var events []Event
		require.NoError(t, json.Unmarshal(b, &events))
		return events
	}
	head, err := VerifyEvents([32]byte{}, read(exported))
	require.NoError(t, err)
	require.Equal(t, r.st().Audit.Head, head)
	require.Equal(t, uint64(len(r.st().Events)), r.st().Audit.Count)

	for name, edit := range map[string]func([]Event) []Event{
		"another actor": func(e []Event) []Event { e[2].Actor = "eve"; return e },
		"another detail": func(e []Event) []Event {
			e[4].Detail = bytes.Replace(e[4].Detail, []byte("web"), []byte("wab"), 1)
			return e
		},
		"another time":     func(e []Event) []Event { e[2].At = e[2].At.Add(1); return e },
		"one left out":     func(e []Event) []Event { return append(e[:2], e[3:]...) },
		"two exchanged":    func(e []Event) []Event { e[2], e[3] = e[3], e[2]; return e },
		"one twice":        func(e []Event) []Event { return append(e[:3], e[2:]...) },
		"the first is cut": func(e []Event) []Event { return e[1:] },
	} {
		_, err := VerifyEvents([32]byte{}, edit(read(exported)))
		require.Error(t, err, name)
	}
}

func TestG12EveryChangeHasOneRecordAndARefusalNone(t *testing.T) {
	r := running(t)
	count := r.st().Audit.Count
	require.Equal(t, uint64(6), count, "one for each of the six entries")
	require.Error(t, r.do(ThawService{}))
	r.must(Tick{})
	require.Equal(t, count, r.st().Audit.Count)
	r.must(FreezeService{Reason: "x"})
	require.Equal(t, count+1, r.st().Audit.Count)
	e := r.lastEvent()
	require.Equal(t, r.index, e.Index)
	require.Equal(t, "ann", e.Actor)
	require.Equal(t, r.st().Now, e.At)
}

func TestOldEventsAreDroppedAndTheChainStillVerifies(t *testing.T) {
	st := emptyState()
	st.Now = start
	for i := range maxEvents + 5 {
		require.NoError(t, st.audit(entry{index: uint64(i + 1), now: start, meta: Meta{Actor: "ann"}}, record{kind: "test"}))
	}
	require.Len(t, st.Events, maxEvents)
	require.Equal(t, uint64(6), st.Events[0].Index)
	require.Equal(t, uint64(maxEvents+5), st.Audit.Count)
	require.NoError(t, st.VerifyAudit())
	st.Events[7].Text = "forged"
	require.ErrorContains(t, st.VerifyAudit(), "event 13")
}

func TestLargeDetailsAreBoundedTogether(t *testing.T) {
	st := emptyState()
	st.Now = start
	for i := range 5 {
		rec := record{kind: "test", detail: strings.Repeat("x", maxEventDetail/3)}
		require.NoError(t, st.audit(entry{index: uint64(i + 1), now: start}, rec))
	}
	require.Len(t, st.Events, 2)
	require.NoError(t, st.VerifyAudit())
}

func TestNoSecretIsInAnEvent(t *testing.T) {
	r := story(t)
	for _, e := range r.st().Events {
		require.NotContains(t, string(e.Detail), `"hash"`, "%s", e.Type)
		require.NotContains(t, string(e.Detail), "pem", "%s", e.Type)
	}
}
