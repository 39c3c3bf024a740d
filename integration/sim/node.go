package sim

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/consensus"
	"github.com/quorate/quorate/controller"
	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/probe"
	"github.com/quorate/quorate/routing"
	"github.com/quorate/quorate/statestore"
)

// node is one node of an installation. What it would keep on disk beside Raft's
// store, the last known good state, survives in kept.
type node struct {
	i      *installation
	name   string
	region string
	sight  *sight
	kept   *statestore.State

	view    *view
	tables  publisher
	control *controller.Controller
	cancel  context.CancelFunc // nil: down
	wg      sync.WaitGroup

	mu      sync.Mutex // guards what follows
	offset  time.Duration
	paused  time.Duration // added to the clock of a leader that stood still
	holding chan struct{} // nil: entries are applied as they come
	nap     time.Duration // for the prober's loop to stand still, once
}

// wire builds and starts what cmd/quorate/node builds around Raft.
func (n *node) wire() {
	raft, store := n.i.raft.Node(n.name), n.i.raft.Store(n.name)
	n.view = &view{store: store, kept: n.kept}
	n.tables.reset()
	if n.kept != nil {
		n.tables.publish(n.kept)
	}
	n.control = controller.New(controller.Config{
		Name:  n.name,
		Store: n.view,
		Propose: func(ctx context.Context, cmd statestore.Command, actor string) (statestore.Result, error) {
			return raft.Propose(ctx, cmd, consensus.Origin{Actor: actor})
		},
		Lease: n.i.opts.profile.ObserverLease(),
		Clock: n.clock,
	})
	raft.Handle(methodReport, func(ctx context.Context, from string, body []byte) ([]byte, error) {
		var r controller.Report
		if err := json.Unmarshal(body, &r); err != nil {
			return nil, err
		}
		reply, err := n.control.Report(ctx, from, r)
		if err != nil {
			return nil, err
		}
		return json.Marshal(reply)
	})
	raft.Handle(methodAcknowledge, func(ctx context.Context, from string, body []byte) ([]byte, error) {
		var a controller.Acknowledgement
		if err := json.Unmarshal(body, &a); err != nil {
			return nil, err
		}
		return nil, n.control.Acknowledge(ctx, from, a)
	})
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel = cancel
	var opinion probe.Votes = n.sight
	if n.i.opts.probers {
		opinion = n.probe(ctx)
	}
	reporter := probe.NewReporter(probe.ReporterConfig{
		Votes:         opinion,
		Sink:          leaderSink{raft},
		Version:       "1.0.0",
		TableIndex:    n.tables.index,
		LeaderChanged: raft.LeaderChanged,
	})
	n.wg.Go(func() { _ = raft.Lead(ctx, n.control.Run) }) // ends with ctx or the node
	n.wg.Go(func() { _ = reporter.Run(ctx) })             // always nil
	n.wg.Go(func() { n.tables.run(ctx, n.view) })
	n.wg.Go(func() { n.acknowledge(ctx, raft) })
}

// leaderSink takes reports to the leader, whoever that is.
type leaderSink struct{ raft *consensus.Node }

// Report sends r to the leader.
func (s leaderSink) Report(ctx context.Context, r probe.Report) (probe.Ack, error) {
	reply, err := controller.Exchange(ctx, controller.Report(r), func(ctx context.Context, r controller.Report) (controller.Reply, error) {
		return askLeader(ctx, s.raft, r)
	})
	return probe.Ack{Nonce: reply.Nonce, NeedFull: reply.NeedFull, Seq: reply.Seq}, err
}

func (n *node) up() bool { return n.cancel != nil }

// kill ends the node as kill -9 would.
func (n *node) kill() {
	n.release()
	n.i.raft.Net.Down(n.name)
	n.cancel()
	n.cancel = nil
	n.i.raft.Kill(n.name)
	n.wg.Wait()
	n.tables.reset()
	n.kept = n.view.State()
}

// restart brings the node back, killing it first if it is up.
func (n *node) restart() {
	if n.up() {
		n.kill()
	}
	n.i.raft.Restart(n.name)
	n.wire()
}

// wall is the node's wall clock, which step moves.
func (n *node) wall() time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	return time.Now().Add(n.offset)
}

func (n *node) step(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.offset += d
}

// clock is the controller's monotonic clock.
func (n *node) clock() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return time.Since(n.i.start) + n.paused
}

// stall makes the controller see that it stood still.
func (n *node) stall(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.paused += d
}

// hold keeps the node from applying more entries, until release.
func (n *node) hold() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.holding == nil {
		n.holding = make(chan struct{})
	}
}

func (n *node) release() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.holding != nil {
		close(n.holding)
		n.holding = nil
	}
}

// heldUp waits while the node is held.
func (n *node) heldUp() {
	n.mu.Lock()
	holding := n.holding
	n.mu.Unlock()
	if holding != nil {
		<-holding
	}
}

// sight is what an observer sees: scripted votes.
type sight struct {
	mu      sync.Mutex // guards what follows
	votes   map[health.Target]health.Vote
	blind   map[string]health.Side // clusters it sees its own way
	truth   map[string]health.Side
	changed chan struct{}
}

func newSight() *sight {
	return &sight{
		votes: map[health.Target]health.Vote{}, changed: make(chan struct{}),
		blind: map[string]health.Side{}, truth: map[string]health.Side{},
	}
}

// open makes the observer see everything that spec names, all of it up.
func (s *sight) open(spec *statestore.Spec) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range spec.Targets() {
		s.votes[t] = health.Vote{Side: health.Unknown}
		s.truth[t.Cluster] = health.Up
	}
	s.updateLocked(slices.Collect(maps.Keys(s.truth))...)
}

// Votes returns a copy of the votes.
func (s *sight) Votes() map[health.Target]health.Vote {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.votes)
}

// Changed returns a channel that is closed at the next change.
func (s *sight) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// set makes the observer see clusters as they are, unless it is blind to them.
func (s *sight) set(side health.Side, clusters ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range clusters {
		s.truth[c] = side
	}
	s.updateLocked(clusters...)
}

// mistake makes the observer see a cluster its own way, until clear.
func (s *sight) mistake(cluster string, side health.Side) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blind[cluster] = side
	s.updateLocked(cluster)
}

// clear ends every mistake.
func (s *sight) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.blind)
	s.updateLocked(slices.Collect(maps.Keys(s.truth))...)
}

func (s *sight) updateLocked(clusters ...string) {
	changed := false
	for t, v := range s.votes {
		side, blind := s.blind[t.Cluster]
		if !blind {
			side = s.truth[t.Cluster]
		}
		if !slices.Contains(clusters, t.Cluster) || v.Side == side {
			continue
		}
		reason := map[health.Side]string{health.Up: "ok", health.Down: "refused", health.Unknown: "blind"}[side]
		s.votes[t] = health.Vote{Side: side, Reason: reason, Since: time.Now().Round(0)}
		changed = true
	}
	if changed {
		close(s.changed)
		s.changed = make(chan struct{})
	}
}

// view is the newest state the node knows, as in cmd/quorate/node.
type view struct {
	store *statestore.Store
	kept  *statestore.State
}

// State returns the newer of what Raft applied and what was kept.
func (v *view) State() *statestore.State {
	st := v.store.State()
	if v.kept != nil && (st.Generation < v.kept.Generation || st.Index < v.kept.Index) {
		return v.kept
	}
	return st
}

// Changed returns a channel that is closed when the applied state changes.
func (v *view) Changed() <-chan struct{} { return v.store.Changed() }

// publisher swaps tables forwards only, as in cmd/quorate/node.
type publisher struct {
	node    *node
	table   atomic.Pointer[routing.Table]
	swapped chan struct{} // holds one: another table is in
}

// reset forgets the table, as the end of the process does.
func (p *publisher) reset() { p.table.Store(nil) }

func (p *publisher) index() uint64 {
	if t := p.table.Load(); t != nil {
		return t.Index
	}
	return 0
}

func (p *publisher) publish(st *statestore.State) {
	old := p.table.Load()
	if old != nil && st.Generation == old.Generation && st.TableIndex <= old.Index {
		return
	}
	next, err := routing.Update(old, st, routing.Local{})
	if err != nil {
		p.node.i.watch.wrong("%s: compile the table of index %d: %v", p.node.name, st.Index, err)
	}
	if next.Newer(old) {
		p.table.Store(next)
		select {
		case p.swapped <- struct{}{}:
		default:
		}
	}
}

func (p *publisher) run(ctx context.Context, states *view) {
	for {
		changed := states.Changed()
		if st := states.State(); st.Revision > 0 {
			p.publish(st)
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}
