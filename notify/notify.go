// Package notify tells receivers what happened: it posts the events that the
// spec's routes pick, as CloudEvents, to their webhooks.
//
// It runs on the leader only. Each event reaches each receiver at least once and,
// for one subject, in order; a receiver that fails or hangs delays nobody else.
// How far a receiver has been told is committed, so that the next leader goes on
// there. It never follows a redirect, never reads more than the head of an answer,
// and never shows a secret.
package notify

import (
	"context"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/statestore"
)

// Store is the replicated state as this node has it. *statestore.Store is one.
type Store interface {
	State() *statestore.State
	Changed() <-chan struct{}
}

// Config is what a Notifier needs. All but Log and Registerer are required.
//
// Whoever wires a node makes a Notifier whether the node leads or not, so that its
// metrics are there, and gives its Run to the controller as a duty.
type Config struct {
	Name  string // of this node
	Store Store

	// Propose commits a command as actor, as the controller's does.
	Propose func(ctx context.Context, cmd statestore.Command, actor string) (statestore.Result, error)

	// Encode returns an event as CloudEvents JSON, the bytes that the API's stream
	// sends too.
	Encode func(statestore.Event) ([]byte, error)

	// Secret returns the value of a name in this node's secrets. It is asked before
	// every request, so that a new value needs no reload.
	Secret func(name string) ([]byte, error)

	// Named returns the names of the secrets that this node needs for a spec, which are
	// shown when they cannot be resolved; those of receivers are among them. Nil: those.
	Named func(sp *statestore.Spec) []string

	// Dial connects to "HOST:PORT". It must refuse the addresses that hooks may not
	// reach after it has resolved the name: a net.Dialer whose Control is that of the
	// observer's address policy does.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	Log        *slog.Logger          // carries the node's name; nil: none
	Registerer prometheus.Registerer // nil: none
}

// Notifier tells while Run runs.
type Notifier struct {
	cfg     Config
	log     *slog.Logger
	actor   string
	client  *http.Client
	metrics *metrics

	mu      sync.Mutex
	missing map[string]bool // secrets that were warned of
}

// New returns a Notifier that tells nothing until Run.
func New(cfg Config) *Notifier {
	n := &Notifier{cfg: cfg, log: cfg.Log, actor: "node/" + cfg.Name, client: newClient(cfg.Dial), missing: map[string]bool{}}
	if n.log == nil {
		n.log = slog.New(slog.DiscardHandler)
	}
	n.metrics = newMetrics(cfg)
	return n
}

// Run tells receivers until ctx is done; it is a duty of the leader, which has
// passed a barrier. It must not be called twice at once. What was under way when
// it ends is told again by the next leader.
func (n *Notifier) Run(ctx context.Context) {
	t := &tenure{Notifier: n, room: make(chan struct{}, 1), moved: make(chan struct{}, 1), lines: map[string]*line{}}
	defer n.client.CloseIdleConnections()
	defer t.wg.Wait()
	t.wg.Go(func() { t.keepCursors(ctx) })
	for {
		changed := n.cfg.Store.Changed()
		t.feed(ctx, n.cfg.Store.State())
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-t.room:
		}
	}
}

// tenure is the work of one leadership.
type tenure struct {
	*Notifier
	wg    sync.WaitGroup
	room  chan struct{} // holds one: a full queue has room again
	moved chan struct{} // holds one: a cursor may have moved

	mu    sync.Mutex // guards lines
	lines map[string]*line
}

// feed gives every receiver of the spec the events it has not looked at, and lets
// go of receivers that are gone.
func (t *tenure) feed(ctx context.Context, st *statestore.State) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, l := range t.lines {
		if webhook(st, name) == nil {
			l.stop()
			delete(t.lines, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(st.Spec.Notify.Receivers)) {
		if webhook(st, name) == nil {
			continue
		}
		l := t.lines[name]
		if l == nil {
			l = newLine(ctx, name, max(st.Delivered[name], since(st, name)))
			t.lines[name] = l
		}
		t.read(l, st)
	}
}

// webhook returns where the receiver is told, or nil.
func webhook(st *statestore.State, receiver string) *statestore.Webhook {
	if r := st.Spec.Notify.Receivers[receiver]; r != nil {
		return r.Webhook
	}
	return nil
}

// Cursors are committed at most this often, so that a burst of events costs few
// entries of the log.
const betweenCursors = time.Second

// keepCursors commits how far receivers have been told.
func (t *tenure) keepCursors(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.moved:
		}
		for _, l := range t.sorted() {
			index, due := l.due(t.cfg.Store.State().Now)
			if !due {
				continue
			}
			res, err := t.cfg.Propose(ctx, statestore.NoteDelivery{Receiver: l.receiver, Index: index}, t.actor)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil: // perhaps it was committed: a second one does no harm
				t.log.Debug("how far a receiver was told is not committed", keyReceiver, l.receiver, keyIndex, index, keyErr, err)
				l.again()
				signal(t.moved)
			case res.Err != nil:
				t.log.Debug("how far a receiver was told is refused", keyReceiver, l.receiver, keyIndex, index, keyErr, res.Err)
			}
		}
		if !wait(ctx, betweenCursors) {
			return
		}
	}
}

// sorted returns the lines by receiver.
func (t *tenure) sorted() []*line {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []*line
	for _, name := range slices.Sorted(maps.Keys(t.lines)) {
		out = append(out, t.lines[name])
	}
	return out
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// wait waits for d; false when ctx is done first.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
