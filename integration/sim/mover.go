package sim

import (
	"context"
	"encoding/json"
	"time"

	"github.com/quorate/quorate/consensus"
	"github.com/quorate/quorate/controller"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/statestore"
)

// methodAcknowledge carries a node's word on a cutover to the leader, and
// acknowledgeEvery is how often it is repeated, as in cmd/quorate/node.
const (
	methodAcknowledge = "cutover.acknowledge"
	acknowledgeEvery  = 500 * time.Millisecond
)

// acknowledge tells the leader of the cutovers whose source this node does not
// answer with any more, until ctx ends.
func (n *node) acknowledge(ctx context.Context, raft *consensus.Node) {
	for ctx.Err() == nil {
		acks := n.acknowledgements()
		for _, a := range acks {
			body, err := json.Marshal(a)
			if err != nil {
				n.i.watch.wrong("acknowledgement of %s: %v", n.name, err)
				return
			}
			call, cancel := context.WithTimeout(ctx, 2*time.Second)
			_, _ = raft.CallLeader(call, methodAcknowledge, body) // repeated anyway
			cancel()
		}
		if len(acks) == 0 {
			select {
			case <-ctx.Done():
			case <-n.tables.swapped:
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
}

func (n *node) acknowledgements() []controller.Acknowledgement {
	st, t := n.view.State(), n.tables.table.Load()
	if t == nil {
		return nil
	}
	var acks []controller.Acknowledgement
	for _, id := range st.CutoverIDs() {
		co := st.Cutovers[id]
		if co.Phase != statestore.Fencing {
			continue
		}
		if e, ok := t.Epoch(co.Service); ok && e.Moving && e.Epoch == co.Next && e.Generation == co.Generation {
			acks = append(acks, controller.Acknowledgement{Cutover: id, Epoch: co.Next})
		}
	}
	return acks
}

// statefulSpec is spec with db, which is active on eu and moves by two people.
func statefulSpec(edits ...func(*statestore.Stateful)) *statestore.Spec {
	sp := spec()
	s := service("db", statestore.Policy{Type: statestore.Failover, Order: []string{"eu", "us", "ap"}})
	s.Stateful = &statestore.Stateful{
		Preferred: "eu", ProposeAfter: statestore.Duration(time.Minute), Cooldown: statestore.Duration(time.Minute),
		Failback: statestore.Failback{HealthyFor: statestore.Duration(30 * time.Second)},
		Approval: statestore.ApprovalPolicy{
			Name: "two-person", Required: 2, WaiversRequired: 2, From: []string{"approver"}, TTL: statestore.Duration(30 * time.Minute),
		},
	}
	for _, edit := range edits {
		edit(s.Stateful)
	}
	sp.Services["db"] = s
	return sp
}

func proposeAfter(d time.Duration) func(*statestore.Stateful) {
	return func(s *statestore.Stateful) { s.ProposeAfter = statestore.Duration(d) }
}

// who returns a person who may propose, sign and waive.
func who(name string) statestore.Signer {
	return statestore.Signer{User: name, Groups: []string{"approver"}, Via: statestore.ViaDemo}
}

// open returns the open cutover of db as the node has it; nil when there is none.
func (n *node) open() *statestore.Cutover { return n.view.State().OpenCutover("db") }

// wants has somebody propose a move of db at a node.
func (i *installation) wants(node, person string, kind statestore.CutoverKind, to string) error {
	cmd, _, _ := policy.Propose(i.state(node), policy.Move{Service: "db", To: to, Kind: kind}, who(person))
	cmd.Reason = "test"
	return i.propose(node, cmd)
}

// signature returns somebody's signature of what the node shows, with a waiver of
// each gate that lacks one.
func (n *node) signature(co *statestore.Cutover, person string) statestore.ApproveCutover {
	var waivers []statestore.Waiver
	for _, g := range n.view.State().Count(co).Lacking {
		waivers = append(waivers, statestore.Waiver{Gate: g})
	}
	return statestore.ApproveCutover{ID: co.ID, Evidence: co.Digest, Waivers: waivers, Reason: "test", Signer: who(person)}
}

// signs has somebody sign the open cutover of db at a node.
func (i *installation) signs(node, person string) error {
	n := i.nodes[node]
	co := n.open()
	if co == nil {
		return statestore.ErrNotFound
	}
	return i.propose(node, n.signature(co, person))
}
