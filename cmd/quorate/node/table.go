package node

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/quorate/quorate/routing"
	"github.com/quorate/quorate/statestore"
)

// publisher turns states into the table that DNS answers from. Only a newer
// table replaces an older one, so neither a replaying log nor a restored
// snapshot ever takes answers back (G2).
type publisher struct {
	table atomic.Pointer[routing.Table]
	log   *slog.Logger
}

// publish compiles st and swaps the table in if it is newer. The error names what
// the table had to leave out; the rest of it serves.
func (p *publisher) publish(st *statestore.State) error {
	old := p.table.Load()
	if old != nil && st.Generation == old.Generation && st.TableIndex <= old.Index {
		return nil
	}
	next, err := routing.Update(old, st, routing.Local{})
	if next.Newer(old) {
		p.table.Store(next)
	}
	if err != nil {
		return fmt.Errorf("compile the table of index %d: %w", st.Index, err)
	}
	return nil
}

// run publishes every new state until ctx ends.
func (p *publisher) run(ctx context.Context, states states) {
	for {
		changed := states.Changed()
		if st := states.State(); st.Revision > 0 {
			if err := p.publish(st); err != nil {
				p.log.Error("the table leaves something out", keyErr, err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// states is where new states come from.
type states interface {
	State() *statestore.State
	Changed() <-chan struct{}
}
