package statestore

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// wide is a spec of n services.
func wide(n int) *Spec {
	sp := *testSpec()
	sp.Services = map[string]*Service{}
	for i := range n {
		s := *testSpec().Services["web"]
		s.Names = []string{fmt.Sprintf("s%d", i)}
		sp.Services[fmt.Sprintf("s%d.example.com", i)] = &s
	}
	return &sp
}

func TestASpecOfTenThousandServicesFitsAnEntry(t *testing.T) {
	cmd := ApplySpec{Spec: wide(10_000), Source: "text"}
	for name := range cmd.Spec.Services {
		cmd.Rotations = append(cmd.Rotations, RotationChange{Service: name, Reason: "applied"})
	}
	data, err := Encode(cmd, Meta{Actor: "ann"})
	require.NoError(t, err)
	require.Less(t, len(data), 1<<20, "it would hold up heartbeats on a slow link")
	got, _, err := Decode(data)
	require.NoError(t, err)
	require.Len(t, got.(ApplySpec).Spec.Services, 10_000)
}

func TestOnlyLargeEntriesAreCompressed(t *testing.T) {
	for _, tt := range []struct {
		name   string
		size   int
		format byte
	}{
		{"one that is small", 100, entryFormat},
		{"one that is nearly large", compressFrom - 1000, entryFormat},
		{"one that is large", compressFrom, compressedFormat},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cmd := ThawService{Service: "web", Reason: string(make([]byte, 0, tt.size))}
			for len(cmd.Reason) < tt.size {
				cmd.Reason += "reason "
			}
			data, err := Encode(cmd, Meta{Actor: "ann"})
			require.NoError(t, err)
			require.Equal(t, tt.format, data[0])
			got, m, err := Decode(data)
			require.NoError(t, err)
			require.Equal(t, cmd, got)
			require.Equal(t, "ann", m.Actor)
		})
	}
}

func TestWhatNoEntryHoldsIsRefused(t *testing.T) {
	random := make([]byte, MaxEntry)
	_, err := rand.Read(random)
	require.NoError(t, err)
	for name, content := range map[string][]byte{
		"more than an entry's content":       make([]byte, MaxContent+1),
		"more than an entry when compressed": []byte(base64.StdEncoding.EncodeToString(append(random, random[:MaxEntry/2]...))),
	} {
		_, err := framed(KindTick, content)
		require.ErrorIs(t, err, ErrTooLarge, name)
	}
}

func TestDamagedCompressedEntriesAreUndecodable(t *testing.T) {
	whole, err := framed(KindTick, make([]byte, compressFrom))
	require.NoError(t, err)

	big, err := framed(KindTick, make([]byte, MaxContent))
	require.NoError(t, err)
	for name, tt := range map[string]struct {
		data []byte
		want string
	}{
		"nothing but a format":      {whole[:2], "compressed entry: unexpected EOF"},
		"cut short":                 {whole[:len(whole)-1], "compressed entry: unexpected EOF"},
		"data after it":             {append(append([]byte{}, whole...), 0), "data after the compressed entry"},
		"as much as an entry holds": {big, "malformed JSON"},
	} {
		_, _, err := Decode(tt.data)
		require.ErrorIs(t, err, ErrUndecodable, name)
		require.ErrorContains(t, err, tt.want, name)
	}
}
