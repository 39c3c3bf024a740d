package api

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/statestore"
)

func TestASpecThatFitsNoLogEntryIsRefusedByThePlan(t *testing.T) {
	r := newRig(t)
	st := r.store.State()
	p, _ := makePlan(st, st.Spec, strings.Repeat("#", statestore.MaxEntry), nil)
	require.Empty(t, p.Blockers)
	p, _ = makePlan(st, st.Spec, strings.Repeat("#\n", statestore.MaxContent/2), nil)
	require.Len(t, p.Blockers, 1)
	require.Contains(t, p.Blockers[0].Reason, "at most 25165824")
}
