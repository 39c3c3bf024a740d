package node

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/quorate/quorate/routing"
	"github.com/quorate/quorate/statestore"
)

// A node is behind when what it hears may be long over and it has nothing to tell
// that by: it joins, perhaps again, or its floor is lost. Answering a stateful
// service as it once was, while others answer it as it is, is what a floor keeps
// other nodes from. So it answers nobody for those until it has applied all that a
// quorum had committed after it started. A restarted node that has its floor is not
// behind: without quorum it goes on with what it knew.

// notCaughtUp is why a service is withheld by a node that is behind.
const notCaughtUp = "this node has not caught up with the others yet"

// allWithheld is what a node that is behind may not answer of st.
func allWithheld(st *statestore.State) routing.Local {
	local := routing.Local{Withheld: map[string]string{}}
	for name, run := range st.Services {
		if run.Ownership != nil {
			local.Withheld[name] = notCaughtUp
		}
	}
	return local
}

// markBehind notes on disk that the node is behind, so that a restart knows.
func (d *dataDir) markBehind() error {
	if err := os.WriteFile(d.join(behindFile), nil, 0o600); err != nil {
		return err
	}
	return syncDir(d.path)
}

func (d *dataDir) isBehind() bool {
	_, err := os.Stat(d.join(behindFile))
	return err == nil
}

// setBehind makes the node answer nobody for stateful services until it has caught up.
func (n *Node) setBehind() {
	n.tables.behind = true
	if err := n.dir.markBehind(); err != nil {
		n.log.Warn("a restart will not know that this node has not caught up", keyErr, err)
	}
}

// catchUp ends that once this node has applied everything that was committed
// anywhere before it asked.
func (n *Node) catchUp(ctx context.Context) error {
	if !n.dir.isBehind() {
		n.tables.caughtUp()
		return nil
	}
	for {
		if _, err := n.raft.ReadIndex(ctx); err == nil && n.view.State().Installation != "" {
			break
		}
		if sleep(ctx, bootstrapRetry); ctx.Err() != nil {
			return nil
		}
	}
	n.tables.caughtUp()
	// A restart must find either what this node has answered since, or the mark.
	for !answersAll(n.view.State(), n.tables.table.Load()) {
		if sleep(ctx, bootstrapRetry); ctx.Err() != nil {
			return nil
		}
	}
	if err := os.Remove(n.dir.join(behindFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		n.log.Warn("a restart will take this node to be behind", keyErr, err)
	}
	return nil
}

// answersAll reports whether t withholds no stateful service of st.
func answersAll(st *statestore.State, t *routing.Table) bool {
	for name, run := range st.Services {
		if run.Ownership == nil {
			continue
		}
		if t == nil {
			return false
		}
		if e, ok := t.Epoch(name); !ok || e.Withheld != "" {
			return false
		}
	}
	return true
}

// caughtUp says that states that are read from now on are no history.
func (p *publisher) caughtUp() {
	p.current.Store(true)
	select {
	case p.caught <- struct{}{}:
	default: // nil, or told already
	}
}
