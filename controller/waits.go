package controller

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/statestore"
)

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
// knows what was missed: every wait starts anew, and so does listening to what
// observers measure.
func (t *tenure) look(st *statestore.State) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lookLocked(st, t.clock())
}

func (t *tenure) lookLocked(st *statestore.State, now time.Duration) {
	if now-t.looked > t.lease/stallsPerLease {
		t.down = map[string]time.Duration{}
		t.said, t.listens = map[health.ObserverID]measured{}, now
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
	t.forgetEndedLocked(st)
	for id, co := range st.Cutovers {
		if members := t.acknowledgedLocked(st, co); len(members) > 0 {
			w.Acknowledged[id] = members
		}
	}
	return w, next
}
