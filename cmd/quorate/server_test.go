package main

import (
	"log/slog"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAHangUpStopsNoNode(t *testing.T) {
	lines := make(chan string, 1)
	defer outliveHangUps(slog.New(slog.NewTextHandler(writerFunc(func(b []byte) (int, error) {
		lines <- string(b)
		return len(b), nil
	}), nil)))()
	require.NoError(t, syscall.Kill(syscall.Getpid(), syscall.SIGHUP))
	select {
	case line := <-lines:
		require.Contains(t, line, "restart")
	case <-time.After(10 * time.Second):
		t.Fatal("nothing is said")
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }
