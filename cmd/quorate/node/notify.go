package node

import (
	"context"
	"net"
	"time"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/config"
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
		Secret:     n.secret,
		Named:      config.SecretNames,
		Dial:       (&net.Dialer{Control: policy.Control}).DialContext,
		Log:        n.log,
		Registerer: n.registry,
	})
}

// hurry bounds the wait for followers to be told of a step at once.
const hurry = time.Second

// proposeAs commits a command for the leader's duties, as actor. Followers hear that
// an entry is committed with the next one, else up to two commit timeouts later.
// While a name is withheld nobody should wait for that: a barrier follows at once.
func (n *Node) proposeAs(ctx context.Context, cmd statestore.Command, actor string) (statestore.Result, error) {
	res, err := n.raft.Propose(ctx, cmd, consensus.Origin{Actor: actor})
	switch cmd.(type) {
	case statestore.BeginCutover, statestore.PublishCutover:
		if err == nil && res.Err == nil {
			ctx, cancel := context.WithTimeout(ctx, hurry)
			defer cancel()
			_, _ = n.raft.ReadIndex(ctx) // it is committed, and told sooner or later
		}
	}
	return res, err
}
