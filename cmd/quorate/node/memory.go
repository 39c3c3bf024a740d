package node

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/quorate/quorate/statestore"
)

// To read a spec, to check it and to make its table takes several times the memory of
// what is left of it, and the runtime keeps that for minutes.
const (
	// givenBackAfter is how long a spec is in when that is given back: its table is
	// made by then.
	givenBackAfter = 3 * time.Second
	// givenBackAgain is when what its first verdicts and rotations took is too.
	givenBackAgain = 30 * time.Second
)

// giveBack returns memory to the system once a start or a new spec is over.
func (n *Node) giveBack(ctx context.Context) error {
	var seen *statestore.Spec
	timer := time.NewTimer(givenBackAfter)
	defer timer.Stop()
	again := true
	for {
		changed := n.view.Changed()
		if spec := n.view.State().Spec; spec != seen {
			seen, again = spec, true
			timer.Reset(givenBackAfter)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-timer.C:
			debug.FreeOSMemory()
			if again {
				again = false
				timer.Reset(givenBackAgain)
			}
		}
	}
}
