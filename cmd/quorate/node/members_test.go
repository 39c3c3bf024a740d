package node

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/consensus"
	"github.com/quorate/quorate/statestore"
)

func TestARefusedMemberRecordIsSaidOnceAndNotAskedForEverySecond(t *testing.T) {
	var out bytes.Buffer
	w := memberWriter{log: slog.New(slog.NewTextHandler(&out, nil))}
	refused := &statestore.Refusal{Code: statestore.ErrInvalid.Code, Text: "its region cannot change"}
	require.Equal(t, memberRefused, w.failed(refused))
	require.Equal(t, memberRefused, w.failed(refused))
	require.Equal(t, 1, strings.Count(out.String(), "level=WARN"), "%s", out.String())
	require.Contains(t, out.String(), "its region cannot change")

	require.Equal(t, memberCheck, w.failed(errors.New("no leader")), "a quorum that is away comes back")
	require.Equal(t, 1, strings.Count(out.String(), "level=WARN"), "%s", out.String())

	w.done()
	w.failed(refused)
	require.Equal(t, 2, strings.Count(out.String(), "level=WARN"), "what was right in between is said again: %s", out.String())
}

func TestANodeThatJustStartedDoesNotCallOthersUnreachable(t *testing.T) {
	never := consensus.Server{Name: "us-1", Voter: true, Seen: -1}
	leads := consensus.Health{Quorum: true, Leader: "us-1", LastContact: time.Second / 2}

	v := serverView(never, consensus.Health{}, time.Second)
	require.True(t, v.Awaited)
	require.False(t, v.Reachable)
	require.False(t, serverView(never, consensus.Health{}, time.Minute).Awaited, "it had its time")

	v = serverView(never, leads, time.Second)
	require.True(t, v.Reachable, "its word was heard")
	require.False(t, v.Awaited)
	require.Equal(t, time.Second/2, v.LastSeen)

	gone := never
	gone.Seen = 3 * time.Second
	require.False(t, serverView(gone, consensus.Health{}, time.Second).Awaited, "it was heard, and then no more")
}

func TestARefusedRemovalIsOneSentence(t *testing.T) {
	err := fmt.Errorf("remove us-1: %w", fmt.Errorf("%w: us-1 still answers", consensus.ErrUnsafe))
	require.Equal(t, "us-1 still answers", whyUnsafe(err))
	require.Equal(t, consensus.ErrUnsafe.Error(), whyUnsafe(consensus.ErrUnsafe))
}
