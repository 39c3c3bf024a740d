package node

import (
	"context"
	"sync"
	"time"

	"github.com/quorate/quorate/controller"
	"github.com/quorate/quorate/routing"
	"github.com/quorate/quorate/statestore"
)

// methodAcknowledge carries a node's word on a cutover to the leader.
const methodAcknowledge = "cutover.acknowledge"

const (
	// acknowledgeEvery is how often a node repeats its word: a leader keeps it in
	// memory only, and the next one must hear it too.
	acknowledgeEvery = 500 * time.Millisecond

	// acknowledgeTimeout bounds one try, so that a leader that does not answer costs
	// little once there is another.
	acknowledgeTimeout = 2 * time.Second
)

// acknowledge tells the leader of each cutover under way whose source this node has
// stopped answering with, as soon as it has and until the cutover ends.
func (n *Node) acknowledge(ctx context.Context) error {
	for ctx.Err() == nil {
		changed := n.view.Changed()
		acks := acknowledgements(n.view.State(), n.tables.table.Load(), n.cfg.Name)
		var wg sync.WaitGroup
		for _, a := range acks {
			wg.Go(func() { n.tellAcknowledged(ctx, a) })
		}
		wg.Wait()
		if len(acks) == 0 {
			select {
			case <-ctx.Done():
			case <-n.tables.swapped:
			case <-changed: // a member now, perhaps
			}
			continue
		}
		again := time.NewTimer(acknowledgeEvery)
		select {
		case <-ctx.Done():
		case <-n.tables.swapped:
		case <-again.C:
		}
		again.Stop()
	}
	return nil
}

// acknowledgements are the cutovers that st has under way and t covers: nobody is
// answered, and the epoch that says so is on disk, or the service would be withheld.
func acknowledgements(st *statestore.State, t *routing.Table, node string) []controller.Acknowledgement {
	if t == nil || st.Members[node] == nil {
		return nil
	}
	var acks []controller.Acknowledgement
	for _, co := range st.Cutovers {
		if co.Phase != statestore.Fencing {
			continue
		}
		e, ok := t.Epoch(co.Service)
		if ok && e.Moving && e.Withheld == "" && e.Epoch == co.Next && e.Generation == co.Generation {
			acks = append(acks, controller.Acknowledgement{Cutover: co.ID, Epoch: co.Next})
		}
	}
	return acks
}

func (n *Node) tellAcknowledged(ctx context.Context, a controller.Acknowledgement) {
	ctx, cancel := context.WithTimeout(ctx, acknowledgeTimeout)
	defer cancel()
	var heard struct{}
	if err := n.askLeader(ctx, methodAcknowledge, a, &heard); err != nil && ctx.Err() == nil {
		n.log.Debug("cutover not acknowledged yet", keyCutover, a.Cutover, keyErr, err)
	}
}

// takeAcknowledgement is the leader's side of it.
func (n *Node) takeAcknowledgement(ctx context.Context, from string, body []byte) ([]byte, error) {
	return answerCall(body, func(a controller.Acknowledgement) (struct{}, error) {
		return struct{}{}, n.control.Acknowledge(ctx, from, a)
	})
}
