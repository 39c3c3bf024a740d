package controller

import (
	"slices"

	"github.com/quorate/quorate/statestore"
)

// Acknowledged returns the members that have stopped answering with the source of a
// cutover under way, sorted, and whether this node leads: only the leader knows.
func (c *Controller) Acknowledged(cutover string) (nodes []string, leads bool) {
	t := c.leading()
	if t == nil {
		return nil, false
	}
	st := c.cfg.Store.State()
	co := st.Cutovers[cutover]
	if co == nil || co.Phase != statestore.Fencing {
		return nil, true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for from, said := range t.acks {
		if said[cutover] == co.Next && st.Members[from] != nil {
			nodes = append(nodes, from)
		}
	}
	slices.Sort(nodes)
	return nodes, true
}
