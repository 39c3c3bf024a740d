package node

import (
	"cmp"
	"sync/atomic"

	"github.com/quorate/quorate/statestore"
)

// view is the newest state this node knows: what Raft applied, or, until that has
// caught up, the last known good state from disk. Without quorum a restarted node
// has nothing else to show (Raft's commit index is not on disk).
type view struct {
	store *statestore.Store
	kept  atomic.Pointer[statestore.State] // nil: none, or what Raft applied has overtaken it
}

func newView(store *statestore.Store, kept *statestore.State) *view {
	v := &view{store: store}
	v.kept.Store(kept)
	return v
}

// State returns the newer of the two. A higher generation is newer at any index:
// its log starts anew (G2).
func (v *view) State() *statestore.State {
	st := v.store.State()
	kept := v.kept.Load()
	if kept == nil {
		return st
	}
	if cmp.Or(cmp.Compare(st.Generation, kept.Generation), cmp.Compare(st.Index, kept.Index)) < 0 {
		return kept
	}
	v.kept.Store(nil) // it is as large as the state that replaces it
	return st
}

// Changed returns a channel that is closed when the applied state changes.
func (v *view) Changed() <-chan struct{} { return v.store.Changed() }
