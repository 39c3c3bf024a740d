package consensus

import (
	"errors"
	"fmt"
	"testing"

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
