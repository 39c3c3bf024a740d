package node

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/statestore"
)

// at is a state of the generation and index.
func at(generation, index uint64) *statestore.State {
	return &statestore.State{Generation: generation, Index: index, Spec: &statestore.Spec{}}
}

func TestTheKeptStateServesUntilItIsOvertaken(t *testing.T) {
	tests := []struct {
		name          string
		kept, applied *statestore.State
		overtaken     bool
	}{
		{"Raft has applied less", at(1, 9), at(1, 8), false},
		{"an older generation, whatever its index", at(2, 1), at(1, 8), false},
		{"as much", at(1, 9), at(1, 9), true},
		{"more", at(1, 9), at(1, 10), true},
		{"another generation", at(1, 9), at(2, 1), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := newView(statestore.NewStoreAt(tt.applied), tt.kept)
			if !tt.overtaken {
				require.Same(t, tt.kept, v.State())
				return
			}
			require.Equal(t, tt.applied.Index, v.State().Index)
			require.Nil(t, v.kept.Load(), "two states would take twice the memory")
		})
	}
}
