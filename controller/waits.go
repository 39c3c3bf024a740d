package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/policy"
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

// replan makes the deciding loop look at once.
func (t *tenure) replan() {
	select {
	case t.plan <- struct{}{}:
	default:
	}
}

// heardFor is how long ago an observer may have been heard to count as there:
// one heartbeat, and half of one for the way.
const heardFor = 1500 * time.Millisecond

// unheardLocked returns the observing members that were not heard lately.
func (t *tenure) unheardLocked(st *statestore.State, now time.Duration) []string {
	var names []string
	for name, m := range st.Members {
		if last, known := t.spoke[health.ObserverID(name)]; m.Observes && (!known || now-last > heardFor) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// keepWaits looks at the active sides often enough to notice that this process
// stood still, until ctx is done.
func (c *Controller) keepWaits(ctx context.Context, t *tenure) {
	for wait(ctx, t.lease/looksPerLease) {
		t.look(c.cfg.Store.State())
	}
}

// look measures for how long active sides have been unwell. After a stall nobody
// knows what was missed: every wait starts anew.
func (t *tenure) look(st *statestore.State) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lookLocked(st, t.clock())
}

func (t *tenure) lookLocked(st *statestore.State, now time.Duration) {
	if now-t.looked > t.lease/stallsPerLease {
		t.down = map[string]time.Duration{}
	}
	t.looked = now
	unwell := policy.Unwell(st)
	maps.DeleteFunc(t.down, func(service string, _ time.Duration) bool {
		_, still := slices.BinarySearch(unwell, service)
		return !still
	})
	for _, service := range unwell {
		if _, known := t.down[service]; !known {
			t.down[service] = now
		}
	}
}

// waits returns what policy asks the leader's clock and the nodes, and how long
// until a wait may be over.
func (t *tenure) waits(st *statestore.State) (policy.Waits, time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock()
	t.lookLocked(st, now)
	w := policy.Waits{Down: make(map[string]time.Duration, len(t.down)), Acknowledged: map[string][]string{}, Unheard: t.unheardLocked(st, now)}
	next := replan
	for service, since := range t.down {
		w.Down[service] = now - since
		if s := st.Spec.Services[service]; s != nil && s.Stateful != nil && now-since < s.Stateful.ProposeAfter.D() {
			next = min(next, s.Stateful.ProposeAfter.D()-(now-since))
		}
	}
	for from, said := range t.acks {
		maps.DeleteFunc(said, func(id string, _ uint64) bool {
			co := st.Cutovers[id]
			return co != nil && !co.Phase.Open()
		})
		for id, epoch := range said {
			if co := st.Cutovers[id]; co != nil && co.Phase == statestore.Fencing && co.Next == epoch && st.Members[from] != nil {
				w.Acknowledged[id] = append(w.Acknowledged[id], from)
			}
		}
	}
	for _, members := range w.Acknowledged {
		slices.Sort(members)
	}
	return w, next
}
