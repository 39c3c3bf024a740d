package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/statestore"
)

// ledger is a replicated state of one: what it needs of the state machine is that
// events append and that cursors only grow.
type ledger struct {
	mu      sync.Mutex
	st      *statestore.State
	changed chan struct{}
	down    bool   // Propose fails
	wrong   string // what no cursor may do
	notes   int    // cursors that were committed
}

func newLedger(notify statestore.Notify) *ledger {
	l := &ledger{changed: make(chan struct{}), st: &statestore.State{Index: 100, Now: time.Now(), Generation: 1, Delivered: map[string]uint64{}, Spec: &statestore.Spec{}}}
	for range 3 { // history from before anybody was to be told
		l.event("cluster.drained", "clusters/eu")
	}
	l.apply(notify)
	return l
}

func (l *ledger) State() *statestore.State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.st
}

func (l *ledger) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// change commits an entry that f makes.
func (l *ledger) change(f func(st *statestore.State)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := *l.st
	next.Index++
	if now := time.Now(); now.After(next.Now) {
		next.Now = now
	}
	f(&next)
	l.st = &next
	close(l.changed)
	l.changed = make(chan struct{})
}

// event commits an event and returns its index.
func (l *ledger) event(kind, subject string) (index uint64) {
	l.change(func(st *statestore.State) {
		index = st.Index
		st.Audit.Count++
		st.Events = append(st.Events, statestore.Event{ // as the state machine does: older states never look past their length
			Index: st.Index, At: st.Now, Wall: st.Now, Type: kind, Subject: subject, Text: subject + " " + kind,
		})
	})
	return index
}

// apply commits a revision of the spec.
func (l *ledger) apply(notify statestore.Notify) {
	l.change(func(st *statestore.State) {
		st.Spec = &statestore.Spec{Notify: notify}
		st.Revision++
		st.Revisions = append(slices.Clip(st.Revisions), statestore.Revision{Number: st.Revision, Index: st.Index, Spec: st.Spec})
	})
}

// propose commits what a Notifier proposes.
func (l *ledger) propose(_ context.Context, cmd statestore.Command, _ string) (statestore.Result, error) {
	note, ok := cmd.(statestore.NoteDelivery)
	if !ok {
		return statestore.Result{}, fmt.Errorf("proposed %T", cmd)
	}
	l.mu.Lock()
	down := l.down
	l.mu.Unlock()
	if down {
		return statestore.Result{}, context.DeadlineExceeded
	}
	l.change(func(st *statestore.State) {
		if note.Index < st.Delivered[note.Receiver] || note.Index >= st.Index {
			l.wrong = fmt.Sprintf("cursor of %s moved from %d to %d at %d", note.Receiver, st.Delivered[note.Receiver], note.Index, st.Index)
		}
		next := map[string]uint64{note.Receiver: note.Index}
		for name, index := range st.Delivered {
			if name != note.Receiver {
				next[name] = index
			}
		}
		st.Delivered = next
		l.notes++
	})
	return statestore.Result{}, nil
}

func (l *ledger) cursor(receiver string) uint64 { return l.State().Delivered[receiver] }

func (l *ledger) noted() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.notes
}

func (l *ledger) fail(down bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = down
}

// request is what a receiver got.
type request struct {
	at      time.Time
	id      uint64
	subject string
	header  http.Header
	body    []byte
}

// receiver is an HTTP server on connections in memory, so that it runs on virtual
// time.
type receiver struct {
	conns chan net.Conn
	srv   *http.Server

	mu     sync.Mutex
	got    []request
	answer func(w http.ResponseWriter, r *http.Request, got request)
}

// network connects by host name.
type network map[string]*receiver

func (n network) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	r := n[host]
	if r == nil {
		return nil, fmt.Errorf("lookup %s: no such host", host)
	}
	client, server := net.Pipe()
	select {
	case r.conns <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept, Close and Addr make it a listener.
func (r *receiver) Accept() (net.Conn, error) {
	c, ok := <-r.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (r *receiver) Close() error   { return nil }
func (r *receiver) Addr() net.Addr { return &net.TCPAddr{} }

// listen starts the receivers of the hosts; each answers 204 unless told otherwise.
func listen(t *testing.T, hosts ...string) network {
	t.Helper()
	n := network{}
	var wg sync.WaitGroup
	for _, host := range hosts {
		r := &receiver{conns: make(chan net.Conn)}
		r.srv = &http.Server{Handler: r}
		n[host] = r
		wg.Go(func() { _ = r.srv.Serve(r) }) // ends with its listener
	}
	all := maps.Clone(n) // a test may take one off the network
	t.Cleanup(func() {
		for _, r := range all {
			close(r.conns)
			_ = r.srv.Close() // what is under way ends too
		}
		wg.Wait()
	})
	return n
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	var ce struct{ ID, Subject string }
	_ = json.Unmarshal(body, &ce) // a bad one shows in the test as an empty id
	id, _ := strconv.ParseUint(ce.ID, 10, 64)
	got := request{time.Now(), id, ce.Subject, req.Header, body}
	r.mu.Lock()
	r.got = append(r.got, got)
	answer := r.answer
	r.mu.Unlock()
	if answer == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	answer(w, req, got)
}

func (r *receiver) answers(f func(w http.ResponseWriter, req *http.Request, got request)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = f
}

func (r *receiver) requests() []request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

// ids returns the ids that were posted of a subject, or of all.
func (r *receiver) ids(subject string) []uint64 {
	var out []uint64
	for _, g := range r.requests() {
		if subject == "" || g.subject == subject {
			out = append(out, g.id)
		}
	}
	return out
}

func encode(e statestore.Event) ([]byte, error) {
	return json.Marshal(map[string]any{"specversion": "1.0", "id": strconv.FormatUint(e.Index, 10), "type": "dev.quorate." + e.Type, "subject": e.Subject, "data": e})
}

// hooks routes all events to receivers at the hosts of their names.
func hooks(receivers ...string) statestore.Notify {
	n := statestore.Notify{Receivers: map[string]*statestore.Receiver{}, Routes: []statestore.Route{{Types: []string{"*"}, To: receivers}}}
	for _, name := range receivers {
		n.Receivers[name] = &statestore.Receiver{Webhook: &statestore.Webhook{URL: "http://" + name + "/in?token=c4nary-url", Sign: name + "-key"}}
	}
	return n
}

// bench is one node and what it talks to.
type bench struct {
	*ledger
	net     network
	log     *bytes.Buffer // read it after lead has ended
	secrets sync.Map      // string to string
	reg     *prometheus.Registry
	n       *Notifier
}

func newBench(t *testing.T, hosts ...string) *bench {
	t.Helper()
	b := &bench{ledger: newLedger(hooks(hosts...)), net: listen(t, hosts...), log: &bytes.Buffer{}, reg: prometheus.NewRegistry()}
	for _, h := range hosts {
		b.secrets.Store(h+"-key", "c4nary-"+h)
	}
	b.n = b.node(b.reg)
	t.Cleanup(func() { require.Empty(t, b.wrong) })
	return b
}

func (b *bench) node(reg prometheus.Registerer) *Notifier {
	return New(Config{
		Name: "eu-1", Store: b, Propose: b.propose, Encode: encode, Dial: b.net.dial,
		Secret: func(name string) ([]byte, error) {
			if v, ok := b.secrets.Load(name); ok {
				return []byte(v.(string)), nil
			}
			return nil, fmt.Errorf("secret %s: not in secrets of node.yaml", name)
		},
		Named: func(sp *statestore.Spec) []string { return append(signing(sp), "door-ca") },
		Log:   slog.New(slog.NewTextHandler(b.log, nil)), Registerer: reg,
	})
}

// lead runs a Notifier while during runs.
func lead(t *testing.T, n *Notifier, during func()) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.Run(ctx)
	}()
	synctest.Wait()
	during()
	stop()
	<-done
}

// metric returns the value of a series.
func (b *bench) metric(t *testing.T, name string, labels ...string) float64 {
	t.Helper()
	families, err := b.reg.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			has := map[string]string{}
			for _, l := range m.GetLabel() {
				has[l.GetName()] = l.GetValue()
			}
			other := false
			for i := 0; i < len(labels); i += 2 {
				other = other || has[labels[i]] != labels[i+1]
			}
			if other {
				continue
			}
			if h := m.GetHistogram(); h != nil {
				return float64(h.GetSampleCount())
			}
			return m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return -1
}
