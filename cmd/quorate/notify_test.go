package main

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestNotifyTellsWhoeverAskedToBeTold(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	notify("READY=1") // nobody asked

	path := filepath.Join(t.TempDir(), "notify")
	listener, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	t.Setenv("NOTIFY_SOCKET", path)
	notify("READY=1")
	require.NoError(t, listener.SetReadDeadline(time.Now().Add(5*time.Second)))
	buf := make([]byte, 64)
	n, err := listener.Read(buf)
	require.NoError(t, err)
	require.Equal(t, "READY=1", string(buf[:n]))
}
