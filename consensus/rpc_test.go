package consensus

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/statestore"
)

func TestErrorsSurviveTheWire(t *testing.T) {
	for i, k := range known {
		_, err := decodeResponse(encodeResponse(nil, fmt.Errorf("while trying: %w", k)))
		require.ErrorIs(t, err, k, "known %d", i)
		require.EqualError(t, err, "while trying: "+k.Error())
	}
	_, err := decodeResponse(encodeResponse(nil, errors.New("plain")))
	require.EqualError(t, err, "plain")
	_, err = decodeResponse(encodeResponse(nil, fmt.Errorf("apply: %w", &statestore.Refusal{Code: "floor", Text: "too few"})))
	require.ErrorIs(t, err, statestore.ErrFloor)
	out, err := decodeResponse(encodeResponse([]byte("body"), nil))
	require.NoError(t, err)
	require.Equal(t, "body", string(out))
	require.True(t, undone(fmt.Errorf("x: %w", ErrNotLeader)))
	require.False(t, undone(unknown(ErrParked)), "committed, but parked before it was applied")
	require.False(t, undone(errors.New("connection reset")))
}

// links dials to servers of the test's own.
type links struct{ dial func() net.Conn }

func (l links) Dial(context.Context, string, string, string) (net.Conn, error) { return l.dial(), nil }
func (links) Listener(string) net.Listener                                     { return nil }

// A connection that was closed while it lay idle has carried nothing: the request goes
// over another one instead of ending in doubt.
func TestACallPassesOverIdleConnectionsThatWereClosed(t *testing.T) {
	serve := func() net.Conn {
		here, there := net.Pipe()
		go func() {
			if _, err := readFrame(there); err == nil {
				_ = writeFrame(there, encodeResponse([]byte("pong"), nil))
			}
		}()
		return here
	}
	gone := func() net.Conn {
		here, _ := net.Pipe()
		require.NoError(t, here.Close())
		return here
	}
	r := newRPC(&Node{cfg: Config{Name: "n1", Addr: func(string) string { return "n2" }, Links: links{serve}}})
	for range maxIdle {
		r.keep("n2", gone())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	out, err := r.call(ctx, "n2", "ping", nil)
	require.NoError(t, err)
	require.Equal(t, "pong", string(out))

	r.n.cfg.Links = links{gone}
	r.forget("n2")
	_, err = r.call(ctx, "n2", "ping", nil)
	require.ErrorIs(t, err, ErrUnreachable)
}

func FuzzDecodeResponse(f *testing.F) {
	for _, seed := range [][]byte{nil, {0}, {2, '{'}, {3, 200}, {3, 1, 'x'}, {9}} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		out, err := decodeResponse(b)
		if err == nil && b[0] != codeOK {
			t.Fatalf("%x decoded to %x without an error", b, out)
		}
	})
}
