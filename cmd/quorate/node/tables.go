package node

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/routing"
	"github.com/quorate/quorate/routing/geo"
	"github.com/quorate/quorate/statestore"
	"github.com/quorate/quorate/statestore/lkg"
)

// publisher turns states into the table that DNS answers from. Only a newer
// table replaces an older one, so neither a replaying log nor a restored
// snapshot ever takes answers back. What a stateful service comes to is on disk
// before the table that answers so is in, and a service whose epoch cannot be kept
// is withheld until it can (G2). All but table, swapped, current and caught belong to
// the goroutine that publishes.
type publisher struct {
	table   atomic.Pointer[routing.Table]
	swapped chan struct{}        // holds one: another table is in; nil: nobody waits for that
	floor   floor                // nil: no epoch is kept
	places  *places              // nil: no place is known
	serve   func(*routing.Table) // has DNS answer from a table; nil: nothing is opened yet
	keys    *zoneKeys            // of signed zones; nil: none are
	log     *slog.Logger

	// behind says that what this node hears may be long over; see behind.go. current
	// ends that: from then on states are no history.
	behind  bool
	current atomic.Bool
	caught  chan struct{} // holds one: current was set; nil: nobody sets it

	local routing.Local // of the table that is in
	owed  bool          // some epoch is not on disk yet

	writing chan error           // of the write that is under way; nil: none is
	since   time.Time            // when that began
	tried   map[lkg.Key]lkg.Mark // what the last write was of
	failed  error                // how it ended
	ended   time.Time
}

// floor is where epochs are kept. *lkg.File is one.
type floor interface {
	Floor() lkg.Floor
	SetFloor(lkg.Floor) error
}

const (
	// floorWait is how long a table waits for its epochs to be on disk: above a
	// healthy sync, and short, since other services wait too. What is not there by
	// then is withheld.
	floorWait = 250 * time.Millisecond

	// floorRetry spaces attempts on a disk that fails.
	floorRetry = time.Second
)

// publish compiles st and swaps the table in if it is newer, or if this node may
// answer more of it now. The error names what the table had to leave out; the rest
// of it serves.
func (p *publisher) publish(st *statestore.State) error {
	old := p.table.Load()
	newer := old == nil || st.Generation > old.Generation || st.Generation == old.Generation && st.TableIndex > old.Index
	same := old != nil && st.Generation == old.Generation && st.TableIndex == old.Index
	where := p.where()
	if !newer && !(same && (p.owed || where != p.local.Geo)) {
		return nil
	}
	p.raise(st)
	local := p.localTo(st)
	local.Geo = where
	if same && sameLocal(local, p.local) {
		return nil
	}
	next, err := routing.Update(old, st, local)
	p.keys.follow(st.Spec) // before the table: it wants them at once
	if p.serve != nil {
		p.serve(next) // before anybody reads, and acknowledges, that it is in
	}
	p.table.Store(next)
	p.local = local
	select {
	case p.swapped <- struct{}{}:
	default: // nil, or told already
	}
	if err != nil {
		return fmt.Errorf("compile the table of index %d: %w", st.Index, err)
	}
	return nil
}

// where is what places are known by now; nil: none are.
func (p *publisher) where() *geo.Index {
	if p.places == nil {
		return nil
	}
	return p.places.index.Load()
}

// moved holds one token when another GeoIP file is in.
func (p *publisher) moved() <-chan struct{} {
	if p.places == nil {
		return nil
	}
	return p.places.changed
}

func sameLocal(a, b routing.Local) bool {
	return a.Geo == b.Geo && maps.Equal(a.Withheld, b.Withheld) && maps.Equal(a.Active, b.Active)
}

// raise brings the epochs of st to disk, within floorWait. A disk that hangs costs
// that once: then the write goes on beside, and what it is of is withheld.
func (p *publisher) raise(st *statestore.State) {
	if p.floor == nil {
		return
	}
	if p.behind {
		p.owed = true // history raises no floor
		return
	}
	for {
		due := dueMarks(st, p.floor.Floor())
		p.owed = len(due) > 0
		if !p.owed {
			p.settle(nil)
			return
		}
		if p.writing == nil {
			if p.failed != nil && maps.Equal(due, p.tried) && time.Since(p.ended) < floorRetry {
				return
			}
			p.write(due)
		}
		timer := time.NewTimer(floorWait - time.Since(p.since))
		select {
		case err := <-p.writing:
			timer.Stop()
			p.wrote(err)
			if err != nil {
				return
			}
		case <-timer.C:
			return
		}
	}
}

// write starts a write. Its goroutine ends with it: nothing can end a write that hangs.
func (p *publisher) write(marks map[lkg.Key]lkg.Mark) {
	done, to := make(chan error, 1), p.floor
	p.writing, p.since, p.tried = done, time.Now(), marks
	go func() { done <- to.SetFloor(lkg.Floor{Services: marks}) }()
}

// wrote takes the end of a write in.
func (p *publisher) wrote(err error) {
	p.writing, p.ended = nil, time.Now()
	if err != nil {
		p.settle(err)
	}
}

// settle keeps the outcome of the writes, and logs when it changes.
func (p *publisher) settle(err error) {
	switch {
	case err != nil && p.failed == nil:
		p.log.Error("epochs cannot be written to disk; their services are withheld on this node, all others go on", keyErr, err)
	case err == nil && p.failed != nil:
		p.log.Info("epochs are written to disk again")
	}
	p.failed = err
}

// localTo is what this node may not answer of st, and what it knows beyond it.
func (p *publisher) localTo(st *statestore.State) routing.Local {
	if p.floor == nil {
		return routing.Local{}
	}
	if p.behind {
		return allWithheld(st)
	}
	local := localTo(st, p.floor.Floor())
	if p.failed != nil {
		for name, why := range local.Withheld {
			if why == notOnDisk {
				local.Withheld[name] = why + ": " + p.failed.Error()
			}
		}
	}
	return local
}

// run publishes every new state until ctx ends.
func (p *publisher) run(ctx context.Context, states states) {
	for ctx.Err() == nil {
		changed := states.Changed()
		p.behind = p.behind && !p.current.Load() // before the state: one read earlier may be history
		if st := states.State(); st.Revision > 0 {
			if err := p.publish(st); err != nil {
				p.log.Error("the table leaves something out", keyErr, err)
			}
		}
		retry, stop := p.retry()
		select {
		case <-ctx.Done():
		case <-changed:
		case <-p.caught:
		case <-p.moved():
		case err := <-p.writing:
			p.wrote(err)
		case <-retry:
		}
		stop()
	}
}

// retry returns a channel that says when to try the disk again; nil while there is
// nothing to try, or a write is under way.
func (p *publisher) retry() (again <-chan time.Time, stop func()) {
	if !p.owed || p.behind || p.writing != nil {
		return nil, func() {}
	}
	t := time.NewTimer(floorRetry)
	return t.C, func() { t.Stop() }
}

// states is where new states come from.
type states interface {
	State() *statestore.State
	Changed() <-chan struct{}
}
