package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/quorate/quorate/statestore"
)

// ErrNotMember says that the acknowledging node is none of this installation.
var ErrNotMember = errors.New("not a member")

// Acknowledgement is a node's word that it does not answer with the source of a
// cutover any more and, whatever happens to it, never will under an earlier epoch:
// the epoch that the cutover reserved is durable there.
type Acknowledgement struct {
	Cutover string `json:"cutover"`
	Epoch   uint64 `json:"epoch"` // the reserved one
}

// maxAcknowledged bounds what one member may have said of cutovers that this
// leader has not applied yet.
const maxAcknowledged = 1024

// Acknowledge takes the word of the node called from, which the transport has
// authenticated. It is kept for this leadership only; nodes repeat it until the
// cutover is published.
func (c *Controller) Acknowledge(_ context.Context, from string, a Acknowledgement) error {
	t := c.leading()
	if t == nil {
		return ErrNotLeading
	}
	st := c.cfg.Store.State()
	if st.Members[from] == nil {
		return fmt.Errorf("acknowledgement of %s: %w", from, ErrNotMember)
	}
	if co := st.Cutovers[a.Cutover]; co != nil && !co.Phase.Open() {
		return nil // it ended meanwhile, and the node will see that
	}
	if t.acknowledge(from, a) {
		t.replan()
	}
	return nil
}

// acknowledge notes the word; false when it was known.
func (t *tenure) acknowledge(from string, a Acknowledgement) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	said := t.acks[from]
	if said[a.Cutover] == a.Epoch || len(said) >= maxAcknowledged {
		return false
	}
	if said == nil {
		said = map[string]uint64{}
		t.acks[from] = said
	}
	said[a.Cutover] = a.Epoch
	return true
}

// Acknowledged returns the members that have stopped answering with the source of a
// cutover under way, sorted, and whether this node leads: only the leader knows.
func (c *Controller) Acknowledged(cutover string) (nodes []string, leads bool) {
	t := c.leading()
	if t == nil {
		return nil, false
	}
	st := c.cfg.Store.State()
	co := st.Cutovers[cutover]
	if co == nil {
		return nil, true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.acknowledgedLocked(st, co), true
}

// acknowledgedLocked returns the members whose word holds for the cutover, sorted:
// what they said of an epoch that it has not reserved counts nothing.
func (t *tenure) acknowledgedLocked(st *statestore.State, co *statestore.Cutover) []string {
	if co.Phase != statestore.Fencing {
		return nil
	}
	var members []string
	for from, said := range t.acks {
		if said[co.ID] == co.Next && st.Members[from] != nil {
			members = append(members, from)
		}
	}
	slices.Sort(members)
	return members
}

// forgetEndedLocked forgets what was said of cutovers that have ended. What is not
// known here may be one that this node has yet to apply.
func (t *tenure) forgetEndedLocked(st *statestore.State) {
	for _, said := range t.acks {
		maps.DeleteFunc(said, func(id string, _ uint64) bool {
			co := st.Cutovers[id]
			return co != nil && !co.Phase.Open()
		})
	}
}
