package node

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// I11: the reported age is never below the true one, restarts included.
func TestAgeGoesOnAcrossARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), contactFile)
	t0 := time.Now().Truncate(time.Second)
	at := func(s int) time.Time { return t0.Add(time.Duration(s) * time.Second) }

	c := openContact(path, at(0))
	c.opened(at(1))
	require.Equal(t, 3*time.Second, c.age(2*time.Second, at(3)), "a first run counts from its start")
	require.Equal(t, 100*time.Millisecond, c.age(100*time.Millisecond, at(4)))
	require.NoError(t, c.note(at(4)))

	c = openContact(path, at(60))
	c.opened(at(61))
	require.Equal(t, 59*time.Second, c.age(2*time.Second, at(63)), "nobody heard since 4")
	require.Equal(t, time.Second, c.age(time.Second, at(70)), "a leader was heard at 69")
	require.Equal(t, 20*time.Second, c.age(20*time.Second, at(89)), "and not since")

	c = openContact(path, at(-60))
	c.opened(at(-60))
	require.Equal(t, time.Second, c.age(time.Second, at(-59)), "a clock that was set back adds nothing")
}

func TestOnlyWhatWasHeardIsNoted(t *testing.T) {
	path := filepath.Join(t.TempDir(), contactFile)
	ended, cancel := context.WithCancel(t.Context())
	c := openContact(path, time.Now().Add(-time.Minute))
	c.run(ended, func() time.Duration { cancel(); return time.Hour }, slog.New(slog.DiscardHandler))
	require.NoFileExists(t, path)

	ended, cancel = context.WithCancel(t.Context())
	c.run(ended, func() time.Duration { cancel(); return time.Second / 2 }, slog.New(slog.DiscardHandler))
	require.FileExists(t, path)
	c = openContact(path, time.Now().Add(time.Hour))
	require.InDelta(t, time.Hour+time.Second/2, c.before, float64(5*time.Second))
}
