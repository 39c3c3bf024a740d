package statestore

import "github.com/quorate/quorate/health"

// unconfirmAll sets every observer's votes aside until it confirmed them to the
// leader of this term: a grace would keep a dead observer's vote alive through
// every election.
func (st *State) unconfirmAll() {
	next := make(map[health.ObserverID]*Observer, len(st.Observers))
	for id, o := range st.Observers {
		if o.Confirmed {
			o = &Observer{Seq: o.Seq, Silent: o.Silent, Since: st.Now}
		}
		next[id] = o
	}
	st.Observers = next
}
