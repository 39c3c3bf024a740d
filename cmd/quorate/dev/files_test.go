package dev

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
