package sim

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/routing"
	"github.com/quorate/quorate/statestore"
)

// watch holds the rules that every installation is under at all times. It follows
// the log with a ledger of its own, so that what the state machine says of votes
// and verdicts is checked against what was committed rather than against itself.
type watch struct {
	t *testing.T

	mu     sync.Mutex // guards what follows
	log    map[uint64]logged
	last   uint64
	prev   *statestore.State // at last
	ledger ledger
	tokens map[string]bool // that people were told are kept
	tables map[[2]uint64]*routing.Table
	served map[string][2]uint64 // by node: newest (generation, index) that was answered
	moves  moves

	told atomic.Int64 // broken rules
}

// logged is an entry of the log as the first node to apply it saw it.
type logged struct {
	node string
	term uint64
	kind statestore.Kind
	hash [32]byte
}

func newWatch(t *testing.T) *watch {
	return &watch{
		t: t, log: map[uint64]logged{}, ledger: newLedger(), tokens: map[string]bool{},
		tables: map[[2]uint64]*routing.Table{}, served: map[string][2]uint64{}, moves: newMoves(),
	}
}

// wrong reports a broken rule. A scenario that breaks one breaks it often.
func (w *watch) wrong(format string, args ...any) {
	const most = 10
	if w.told.Add(1) <= most {
		w.t.Errorf(format, args...)
	}
}

// replayed is how many entries of a log that is replayed one hash checks.
const replayed = 16

// applied is called on every node after every entry.
func (w *watch) applied(node string, index, term uint64, data []byte, st *statestore.State) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e, known := w.log[index]
	if known && index+replayed < w.last && index%replayed != 0 {
		return // what differs here still does at the next one that is looked at
	}
	hash := st.Hash()
	if known {
		if e.hash != hash || e.term != term {
			w.wrong("G15: %s and %s differ at index %d (term %d, %d)", e.node, node, index, e.term, term)
		}
		return
	}
	if index <= w.last {
		w.wrong("G2: %s applied index %d, which others do not have, after %d", node, index, w.last)
		return
	}
	cmd, _, err := statestore.Decode(data)
	if err != nil {
		w.wrong("entry %d: %v", index, err)
		return
	}
	w.log[index] = logged{node, term, cmd.Kind(), hash}
	w.ledger.enter(term, cmd, st)
	if w.prev != nil {
		w.verdicts(index, st)
		w.moved(index, cmd, w.prev, st)
	}
	w.last, w.prev = index, st
}

// verdicts checks the turns of one entry (I2): the votes that the log holds of
// observers that were confirmed to the term and not silent give a majority of all
// regions, and two where there are two.
func (w *watch) verdicts(index uint64, st *statestore.State) {
	for t, ts := range policy.TargetStates(st) {
		old, ok := w.prev.Target(t)
		if !ok || old.Verdict.Number == ts.Verdict.Number {
			continue
		}
		v := ts.Verdict
		if v.Number != old.Verdict.Number+1 || v.Index != index {
			w.wrong("G2: verdict on %s went from number %d to %d at %d, recorded for %d", t, old.Verdict.Number, v.Number, index, v.Index)
		}
		all, agree := map[string]bool{}, map[string]bool{}
		var deciding []health.ObserverID
		for _, name := range slices.Sorted(maps.Keys(st.Members)) {
			all[st.Members[name].Region] = true // one observer a region
			if w.ledger.vote(health.ObserverID(name), t) == v.Side {
				agree[st.Members[name].Region] = true
				deciding = append(deciding, health.ObserverID(name))
			}
		}
		if 2*len(agree) <= len(all) || len(agree) < min(2, len(all)) {
			w.wrong("I2: index %d turned %s %s with %v of %d regions", index, t, v.Side, slices.Sorted(maps.Keys(agree)), len(all))
		}
		var recorded []health.ObserverID
		for _, d := range v.Deciding {
			recorded = append(recorded, d.Observer)
		}
		if !slices.Equal(recorded, deciding) {
			w.wrong("I2: index %d says %v turned %s, the log says %v", index, recorded, t, deciding)
		}
	}
}

// entries counts the entries of some kinds, or all, above index.
func (w *watch) entries(above uint64, kinds ...statestore.Kind) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for index, e := range w.log {
		if index > above && (len(kinds) == 0 || slices.Contains(kinds, e.kind)) {
			n++
		}
	}
	return n
}

// acknowledge notes what a person was told is done.
func (w *watch) acknowledge(cmd statestore.Command) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c, ok := cmd.(statestore.PutToken); ok {
		w.tokens[c.ID] = true
	}
}

// checkAcknowledged fails when a node lacks something that was acknowledged.
func (w *watch) checkAcknowledged(node string, st *statestore.State) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range w.tokens {
		if st.Tokens[id] == nil {
			w.wrong("G7: %s has lost %s, which was acknowledged", node, id)
		}
	}
	if head, err := statestore.VerifyEvents(st.Audit.Base, st.Events); err != nil || head != st.Audit.Head {
		w.wrong("G12: audit chain of %s does not fit: %v", node, err)
	}
}

// answered checks one answer of a node: there is one (G5), it is of no older
// table than before, restarts included (G2), and equal tables are equal.
func (w *watch) answered(node string, t *routing.Table, service string, a routing.Answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := [2]uint64{t.Generation, t.Index}
	if old := w.served[node]; slices.Compare(at[:], old[:]) < 0 {
		w.wrong("G2: %s answers from table %v after %v", node, at, old)
	}
	w.served[node] = at
	if same := w.tables[at]; same == nil {
		w.tables[at] = t
	} else if same.Serial != t.Serial {
		w.wrong("G2: table %v has serials %d and %d", at, same.Serial, t.Serial)
	}
	withheld := w.answeredFor(node, t, service, a)
	if !withheld && (a.Kind != routing.NoError || len(a.Addresses()) == 0) {
		w.wrong("G5: %s answers %s %v with %d addresses", node, service, a.Kind, len(a.Addresses()))
	}
}

// askEvery is how often every node is asked for every service.
const askEvery = 200 * time.Millisecond

// client asks all running nodes, cut off or not, until ctx ends.
func (i *installation) client(ctx context.Context) {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for draw := uint64(0); ; draw += 0x9e3779b97f4a7c15 {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, n := range i.all() {
			t := n.tables.table.Load()
			if t == nil {
				continue
			}
			for service := range i.opts.spec.Services {
				a, _ := routing.Select(t, routing.Query{Name: service + "." + zone, Type: routing.TypeA, Draw: draw})
				i.watch.answered(n.name, t, service, a)
			}
		}
	}
}

// ledger is who voted what, by the log alone.
type ledger struct {
	term      uint64
	seq       map[health.ObserverID]uint64
	votes     map[health.ObserverID]map[health.Target]health.Side
	confirmed map[health.ObserverID]bool // to the term, and not silent since
	silent    map[health.ObserverID]bool
}

func newLedger() ledger {
	return ledger{
		seq: map[health.ObserverID]uint64{}, votes: map[health.ObserverID]map[health.Target]health.Side{},
		confirmed: map[health.ObserverID]bool{}, silent: map[health.ObserverID]bool{},
	}
}

// enter follows one entry. Of the state it takes only which batches were accepted.
func (l *ledger) enter(term uint64, cmd statestore.Command, st *statestore.State) {
	if term > l.term {
		l.term = term
		clear(l.confirmed)
	}
	switch c := cmd.(type) {
	case statestore.CastVotes:
		for _, b := range c.Batches {
			if o := st.Observers[b.Observer]; o == nil || o.Seq != b.Seq || l.seq[b.Observer] >= b.Seq {
				continue // refused
			}
			l.seq[b.Observer] = b.Seq
			if b.Full {
				l.votes[b.Observer] = map[health.Target]health.Side{}
				l.confirmed[b.Observer], l.silent[b.Observer] = true, false
			}
			for t, v := range b.Votes {
				if _, known := st.Target(t); known {
					l.votes[b.Observer][t] = v.Side
				}
			}
		}
	case statestore.ConfirmObservers:
		if c.Reset {
			clear(l.confirmed)
		}
		for id, seq := range c.Observers {
			if seq == l.seq[id] && !l.silent[id] {
				l.confirmed[id] = true
			}
		}
	case statestore.ObserverSilent:
		l.silent[c.Observer], l.confirmed[c.Observer] = true, false
	}
}

// vote returns the side an observer is counted for.
func (l *ledger) vote(id health.ObserverID, t health.Target) health.Side {
	if !l.confirmed[id] || l.silent[id] {
		return health.Unknown
	}
	return l.votes[id][t]
}
