package node

import (
	"context"
	"net"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/consensus"
	"github.com/quorate/quorate/notify"
	"github.com/quorate/quorate/probe"
	"github.com/quorate/quorate/statestore"
)

// newNotifier makes what tells receivers while this node leads. Where a webhook may
// lead is bounded as where a probe may.
func (n *Node) newNotifier() *notify.Notifier {
	policy := probe.AddressPolicy{Allow: n.cfg.Observer.Allow, Deny: n.ownAddrs()}
	return notify.New(notify.Config{
		Name:    n.cfg.Name,
		Store:   n.view,
		Propose: n.proposeAs,
		Encode: func(e statestore.Event) ([]byte, error) {
			return api.CloudEvent(n.view.State().Installation, n.cfg.Name, e)
		},
		Secret: func(name string) ([]byte, error) {
			secret, err := n.cfg.Secrets.Resolve(name)
			return secret.Bytes(), err
		},
		Dial:       (&net.Dialer{Control: policy.Control}).DialContext,
		Log:        n.log,
		Registerer: n.registry,
	})
}

// proposeAs commits a command for the leader's duties, as actor.
func (n *Node) proposeAs(ctx context.Context, cmd statestore.Command, actor string) (statestore.Result, error) {
	return n.raft.Propose(ctx, cmd, consensus.Origin{Actor: actor})
}
