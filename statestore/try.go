package statestore

// Try returns what Apply would say of the command if it came in the next entry: nil,
// or a *Refusal. It changes nothing. A command whose time matters is judged at the
// state's own log time.
func (st *State) Try(cmd Command) error {
	next := *st
	_, err := cmd.apply(&next, entry{index: st.Index + 1, now: st.Now})
	return err
}
