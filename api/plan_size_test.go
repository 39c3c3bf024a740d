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
	p, _ := makePlan(st, st.Spec, strings.Repeat("#", statestore.MaxEntry/2), nil)
	require.Empty(t, p.Blockers)
	p, _ = makePlan(st, st.Spec, strings.Repeat("#\n", statestore.MaxEntry/2), nil)
	require.Len(t, p.Blockers, 1)
	require.Contains(t, p.Blockers[0].Reason, "must fit a log entry of 4194304 bytes together with its text, has 6")
}
