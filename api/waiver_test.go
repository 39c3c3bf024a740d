package api

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/statestore"
)

func TestParseWaiver(t *testing.T) {
	tests := []struct {
		text string
		want statestore.Waiver
		err  string
	}{
		{"source_fenced", statestore.Waiver{Gate: "source_fenced"}, ""},
		{"source_fenced=unknown", statestore.Waiver{Gate: "source_fenced", Outcome: "unknown"}, ""},
		{"source_fenced=refused", statestore.Waiver{Gate: "source_fenced", Outcome: "refused"}, ""},
		{"nodes_acknowledged", statestore.Waiver{Gate: "nodes_acknowledged"}, ""},
		{"nodes_acknowledged=us-1", statestore.Waiver{Gate: "nodes_acknowledged", Nodes: []string{"us-1"}}, ""},
		{"nodes_acknowledged=us-1, ap-1", statestore.Waiver{Gate: "nodes_acknowledged", Nodes: []string{"ap-1", "us-1"}}, ""},
		{"", statestore.Waiver{}, "must name a gate (source_down_by_quorum, "},
		{"=unknown", statestore.Waiver{}, "must name a gate"},
		{"Source_Fenced", statestore.Waiver{}, "must name a gate"},
		{"source_fenced ", statestore.Waiver{}, "must name a gate"},
		{"source_fenced=", statestore.Waiver{}, "must be unknown or refused"},
		{"source_fenced=clean", statestore.Waiver{}, "must be unknown or refused"},
		{"nodes_acknowledged=", statestore.Waiver{}, "must name members"},
		{"nodes_acknowledged=a,", statestore.Waiver{}, "must name members"},
		{"nodes_acknowledged=a,a", statestore.Waiver{}, "must name each member once"},
		{"no_other_cutover", statestore.Waiver{}, "cannot be waived"},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			got, err := ParseWaiver(tt.text)
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
			again, err := ParseWaiver(waiverText(got))
			require.NoError(t, err)
			require.Equal(t, got, again)
		})
	}
}

func FuzzParseWaiver(f *testing.F) {
	for _, text := range []string{"source_fenced=unknown", "nodes_acknowledged=us-1, ap-1", "=", "nodes_acknowledged=,"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		w, err := ParseWaiver(text)
		if err != nil {
			return
		}
		again, err := ParseWaiver(waiverText(w))
		require.NoError(t, err, "what was read is written as what is read")
		require.Equal(t, w, again)
	})
}
