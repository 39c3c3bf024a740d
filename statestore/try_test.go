package statestore

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTryRefusesWhatApplyRefusesAndChangesNothing(t *testing.T) {
	st := emptyState()
	before := st.Hash()
	require.NoError(t, st.Try(FreezeService{Reason: "change window"}))
	require.ErrorIs(t, st.Try(FreezeService{}), ErrInvalid)
	require.ErrorIs(t, st.Try(DrainCluster{Cluster: "eu", Reason: "test"}), ErrNotFound)
	require.Equal(t, before, st.Hash())
	require.Empty(t, st.Freezes)
}
