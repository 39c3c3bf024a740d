package dev

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/cmd/quorate/node"
)

func TestDemosThatStartAtOnceChooseTheirPortsInTurn(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs abstract socket names")
	}
	done := takeTurn(t.Context())
	next := make(chan func(), 1)
	go func() { next <- takeTurn(t.Context()) }()
	select {
	case <-next:
		require.Fail(t, "two demos choose at once")
	case <-time.After(100 * time.Millisecond):
	}
	done()
	(<-next)()
}

func TestAnOrderThatChangesNothingSaysSo(t *testing.T) {
	d := &Demo{nodes: []*demoNode{{name: "eu-1"}, {name: "us-1", node: &node.Node{}}}}
	said, err := d.killNodes([]string{"eu-1"})
	require.NoError(t, err)
	require.Equal(t, "eu-1: already not running", said)
	said, err = d.startNodes(t.Context(), []string{"us-1"})
	require.NoError(t, err)
	require.Equal(t, "us-1: already running", said)
	said, err = d.killNodes([]string{"all"})
	require.NoError(t, err)
	require.Equal(t, "killed us-1; eu-1: already not running", said)
}
