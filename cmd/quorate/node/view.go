package node

import (
	"cmp"

	"github.com/quorate/quorate/statestore"
)

// view is the newest state this node knows: what Raft applied, or, until that has
// caught up, the last known good state from disk. Without quorum a restarted node
// has nothing else to show (Raft's commit index is not on disk).
type view struct {
	store *statestore.Store
	kept  *statestore.State // nil: none
}

func newView(store *statestore.Store, kept *statestore.State) *view {
	return &view{store: store, kept: kept}
}

// State returns the newer of the two. A higher generation is newer at any index:
// its log starts anew (G2).
func (v *view) State() *statestore.State {
	st := v.store.State()
	if v.kept != nil && cmp.Or(cmp.Compare(st.Generation, v.kept.Generation), cmp.Compare(st.Index, v.kept.Index)) < 0 {
		return v.kept
	}
	return st
}

// Changed returns a channel that is closed when the applied state changes.
func (v *view) Changed() <-chan struct{} { return v.store.Changed() }
