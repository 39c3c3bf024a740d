package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAHangUpStopsNoNodeAndReadsAgain(t *testing.T) {
	read := make(chan struct{}, 1)
	undo := onHangUps(func() { read <- struct{}{} })
	defer undo()
	require.NoError(t, syscall.Kill(syscall.Getpid(), syscall.SIGHUP))
	select {
	case <-read:
	case <-time.After(10 * time.Second):
		t.Fatal("nothing is read")
	}
}

func TestANodeFileIsReadAgainWholeOrNotAtAll(t *testing.T) {
	path := filepath.Join(t.TempDir(), "node.yaml")
	write := func(text string) {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	const good = `
node: { name: eu-1, region: eu-west }
peer: { advertise: "192.0.2.1:7654" }
log: { level: debug }
`
	write(good)
	cfg, source, err := rereadNode(path)
	require.NoError(t, err)
	require.Equal(t, good, source)
	require.Equal(t, "debug", cfg.Log.Level)

	write(good + "log2: { level: debug }\ndata_dirr: /srv\n")
	_, _, err = rereadNode(path)
	require.ErrorContains(t, err, "log2")
	require.ErrorContains(t, err, "data_dirr", "every fault at once")

	write(good + "spec_source: { file: /etc/quorate/spec.yaml }\n")
	_, _, err = rereadNode(path)
	require.ErrorContains(t, err, "spec_source")
}
