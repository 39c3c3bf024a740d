package node

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

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
