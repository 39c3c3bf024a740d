package node

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/quorate/quorate/consensus"
	"github.com/quorate/quorate/controller"
)

// openConsensus opens Raft over the mesh, and the loop of its leader.
func (n *Node) openConsensus() error {
	var err error
	if n.profile, err = consensus.ProfileNamed(n.cfg.Peer.Profile); err != nil {
		return err
	}
	dir := n.dir.join(raftFolder)
	if err := n.soundStore(dir); err != nil {
		return err
	}
	n.raft, err = consensus.Open(consensus.Config{
		Name:       n.cfg.Name,
		Nonce:      n.id.Nonce,
		Dir:        dir,
		Store:      n.store,
		Links:      n.mesh,
		PeerName:   peerName,
		Addr:       n.book.addr,
		Profile:    n.profile,
		OnApply:    n.lkg.Append,
		OnRestore:  n.restored,
		Log:        n.log,
		Registerer: n.registry,
	})
	if err != nil {
		return err
	}
	n.contact.opened(time.Now())
	n.opened.Store(n.raft)
	n.onClose(func() { _ = n.raft.Close() }) // its error was logged as it happened
	n.control = controller.New(controller.Config{
		Name:       n.cfg.Name,
		Store:      n.view,
		Propose:    n.proposeAs,
		Duties:     []func(context.Context){n.newNotifier().Run},
		Lease:      n.profile.ObserverLease(),
		Log:        n.log,
		Registerer: n.registry,
	})
	n.handleCalls()
	return nil
}

// soundStore leaves a store in dir that Raft can open, and a name for this node
// that fits it: one whose log is gone or damaged comes back as another server.
func (n *Node) soundStore(dir string) error {
	if n.id.Started && !consensus.StoreExists(dir) {
		if err := n.newIdentity(); err != nil {
			return err
		}
		n.log.Error("the Raft store is gone; this node answers DNS and must be let in again",
			keyNext, "quorate members remove "+n.cfg.Name+", then join again")
	}
	check := n.opts.CheckStore
	if check == nil {
		check = consensus.CheckStore
	}
	if err := check(dir); err != nil {
		kept, qerr := consensus.Quarantine(dir, time.Now())
		if qerr != nil {
			return errors.Join(err, qerr)
		}
		if err := n.newIdentity(); err != nil {
			return err
		}
		n.log.Error("the Raft store is damaged and was moved aside; this node answers DNS and must be let in again",
			keyErr, err, keyKept, kept, keyNext, "quorate members remove "+n.cfg.Name+", then join again")
	}
	return os.MkdirAll(dir, 0o700)
}

// newIdentity makes this node another server to Raft, which an operator lets in: a
// voter that came back under its old id with an empty log would have forgotten
// whom it voted for and what it acknowledged.
func (n *Node) newIdentity() error {
	n.id = identity{Name: n.id.Name, Nonce: newNonce()}
	return writeJSON(n.dir.join(identityFile), n.id)
}

// markStarted notes on disk that this node's id has a log now.
func (n *Node) markStarted(ctx context.Context) error {
	for !n.raft.HasState() {
		sleep(ctx, bootstrapRetry)
		if ctx.Err() != nil {
			return nil
		}
	}
	if n.id.Started {
		return nil
	}
	id := n.id
	id.Started = true
	return writeJSON(n.dir.join(identityFile), id)
}
