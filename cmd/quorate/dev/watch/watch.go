// Package watch asks every node the same question many times a second and checks
// each answer against what was committed.
//
// It is how the demo shows, and the integration suite proves, that no node gives
// a wrong or an empty answer while nodes die and links break. It only watches.
package watch

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	dnsclient "github.com/quorate/quorate/dnsserver/client"
)

// Config says what to watch.
type Config struct {
	Servers map[string]string // node -> IP:PORT
	Name    string            // question, of type A
	Rate    int               // queries a second to each node
	Timeout time.Duration     // of one query; zero: 1 s
	Lanes   int               // questions to one node that may be open at once; zero: 4
	Truth   *Truth            // of a stateless name
	Owner   *Owner            // of a stateful name, instead of Truth

	// Settle is how long an answer that looks wrong waits for the commit that
	// would make it right: a node may answer before Truth has heard. Zero: 1 s.
	Settle time.Duration

	// Dial makes the client of a node; nil: over this host's network.
	Dial func(ctx context.Context, node, server string) (*dnsclient.Client, error)
}

// Counts are what one node did.
type Counts struct {
	Queries  int
	Wrong    int           // answers with an address that was not committed, or is not any more
	Empty    int           // answers without an address, or with another code than NOERROR
	Missing  int           // no answer in time
	Withheld int           // SERVFAIL of a stateful name while a cutover is under way
	Gap      time.Duration // longest time between two answers
	Last     []netip.Addr  // of the last good answer
	Example  string        // the first bad answer
}

// Bad is how many answers were wrong or empty.
func (c Counts) Bad() int { return c.Wrong + c.Empty }

// Watcher counts while Run runs.
type Watcher struct {
	cfg Config

	mu     sync.Mutex // guards what follows
	counts map[string]*Counts
	good   map[string]time.Time // of each node's last answer
	away   map[string]bool      // nodes known to be dead: their silence is no gap
	gone   map[string]bool      // nodes that are not asked
	back   map[string]time.Time // when each node that was away was to answer again
	doubts []doubt              // oldest first
	ended  time.Time            // when asking was over; zero: not yet
}

// doubt is an answer that no commit heard so far makes right.
type doubt struct {
	node  string
	addrs []netip.Addr // none: it was withheld
	asked time.Time
	at    time.Time
}

// right reports whether an answer is right by what was heard so far.
func (w *Watcher) right(d doubt) bool {
	switch {
	case w.cfg.Owner == nil:
		return w.cfg.Truth.Allows(d.node, d.addrs, d.asked)
	case len(d.addrs) == 0:
		return w.cfg.Owner.Withheld(d.node, d.asked, d.at)
	}
	return w.cfg.Owner.Allows(d.node, d.addrs, d.asked, d.at)
}

// New returns a watcher that has not asked anything yet.
func New(cfg Config) *Watcher {
	if cfg.Timeout == 0 {
		cfg.Timeout = time.Second
	}
	if cfg.Lanes == 0 {
		cfg.Lanes = 4
	}
	if cfg.Settle == 0 {
		cfg.Settle = time.Second
	}
	if cfg.Dial == nil {
		cfg.Dial = func(ctx context.Context, _, server string) (*dnsclient.Client, error) {
			return dnsclient.Dial(ctx, server)
		}
	}
	w := &Watcher{cfg: cfg, counts: map[string]*Counts{}, good: map[string]time.Time{}, away: map[string]bool{}, gone: map[string]bool{}, back: map[string]time.Time{}}
	for node := range cfg.Servers {
		w.counts[node] = &Counts{}
	}
	return w
}

// Run asks until ctx ends.
func (w *Watcher) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	for node, server := range w.cfg.Servers {
		wg.Go(func() { w.askOne(ctx, node, server) })
	}
	return nil
}

// askOne keeps the rate towards one node. Questions are handed to lanes, so that
// one that waits for its answer delays no other.
func (w *Watcher) askOne(ctx context.Context, node, server string) {
	var wg sync.WaitGroup
	defer wg.Wait()
	turns := make(chan struct{})
	for range w.cfg.Lanes {
		wg.Go(func() { w.lane(ctx, node, server, turns) })
	}
	every := time.Second / time.Duration(w.cfg.Rate)
	for next := time.Now(); ; next = next.Add(every) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(next)):
		}
		select {
		case <-ctx.Done():
			return
		case turns <- struct{}{}:
		}
		// What a machine without time for us left out is not made up for in a burst.
		if late := time.Now().Add(-burst); next.Before(late) {
			next = late
		}
	}
}

// burst is how much of a delay is made up for.
const burst = 200 * time.Millisecond

// lane asks one question a turn, over a socket of its own.
func (w *Watcher) lane(ctx context.Context, node, server string, turns <-chan struct{}) {
	client, err := w.cfg.Dial(ctx, node, server)
	if err != nil {
		w.note(node, nil, err, time.Now())
		return
	}
	defer func() { _ = client.Close() }() // nothing was buffered
	for {
		select {
		case <-ctx.Done():
			return
		case <-turns:
		}
		if w.isGone(node) {
			continue
		}
		asked := time.Now()
		reply, err := client.Query(ctx, w.cfg.Name, "A", dnsclient.Options{Timeout: w.cfg.Timeout})
		if ctx.Err() != nil {
			return
		}
		w.note(node, reply, err, asked)
	}
}

// note counts one answer, or none.
func (w *Watcher) note(node string, reply *dnsclient.Reply, err error, asked time.Time) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.settleLocked(now)
	c := w.counts[node]
	switch {
	case err != nil && (w.away[node] || asked.Before(w.back[node])):
		return
	case err != nil:
		c.Missing++
	case w.cfg.Owner != nil && reply.Rcode == "SERVFAIL":
		c.Withheld++
		if d := (doubt{node: node, asked: asked, at: now}); !w.right(d) {
			w.doubts = append(w.doubts, d)
		}
	case reply.Rcode != "NOERROR" || len(reply.Addresses) == 0:
		c.Empty++
		c.example(now, "%s: %s with %d addresses", node, reply.Rcode, len(reply.Addresses))
	case !w.right(doubt{node, reply.Addresses, asked, now}):
		w.doubts = append(w.doubts, doubt{node, reply.Addresses, asked, now})
	default:
		c.Last = reply.Addresses
	}
	c.Queries++
	if err == nil && !w.away[node] { // else a last answer before death would begin a gap
		if last, ok := w.good[node]; ok {
			c.Gap = max(c.Gap, now.Sub(last))
		}
		w.good[node] = now
	}
}

// settleLocked decides the doubts that have waited long enough. The caller holds mu.
func (w *Watcher) settleLocked(now time.Time) {
	for len(w.doubts) > 0 && now.Sub(w.doubts[0].at) >= w.cfg.Settle {
		d := w.doubts[0]
		w.doubts = w.doubts[1:]
		if w.right(d) {
			continue
		}
		c := w.counts[d.node]
		if len(d.addrs) == 0 {
			c.Withheld--
			c.Empty++
			c.example(d.at, "%s: SERVFAIL while no cutover was under way", d.node)
			continue
		}
		c.Wrong++
		c.example(d.at, "%s: %v was not committed", d.node, d.addrs)
	}
}

// Finish decides every open doubt, after waiting for commits once more.
func (w *Watcher) Finish() {
	w.mu.Lock()
	w.ended = time.Now()
	w.mu.Unlock()
	time.Sleep(w.cfg.Settle)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.settleLocked(time.Now())
}

// example keeps the first bad answer.
func (c *Counts) example(at time.Time, format string, args ...any) {
	if c.Example == "" {
		c.Example = at.UTC().Format("15:04:05.000Z") + " " + fmt.Sprintf(format, args...)
	}
}

// Away says that node is dead on purpose: until Back its silence counts nothing.
func (w *Watcher) Away(node string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.away[node] = true
	delete(w.good, node)
}

// Gone says that node is no part of the installation: until Back it is not asked.
// A node that never had a table refuses, which is right of it.
func (w *Watcher) Gone(node string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gone[node] = true
	delete(w.good, node)
}

func (w *Watcher) isGone(node string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gone[node]
}

// Back says that node is to answer again; the time until it does is a gap.
func (w *Watcher) Back(node string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.away, node)
	delete(w.gone, node)
	now := time.Now()
	w.good[node], w.back[node] = now, now
}

// Counts returns what each node did so far. The gap includes the one still open.
func (w *Watcher) Counts() map[string]Counts {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.ended
	if now.IsZero() {
		now = time.Now()
	}
	out := make(map[string]Counts, len(w.counts))
	for node, c := range w.counts {
		counts := *c
		if last, ok := w.good[node]; ok && !w.away[node] && !w.gone[node] {
			counts.Gap = max(counts.Gap, now.Sub(last))
		}
		out[node] = counts
	}
	return out
}

// Total adds up what all nodes did; its gap is the longest of any.
func (w *Watcher) Total() Counts {
	var total Counts
	for _, c := range w.Counts() {
		total.Queries += c.Queries
		total.Wrong += c.Wrong
		total.Empty += c.Empty
		total.Missing += c.Missing
		total.Withheld += c.Withheld
		total.Gap = max(total.Gap, c.Gap)
		if total.Example == "" {
			total.Example = c.Example
		}
	}
	return total
}

// Line is the counts in a line for people.
func (c Counts) Line() string {
	var b strings.Builder
	fmt.Fprintf(&b, "queries %d, wrong %d, empty %d, no answer %d, longest gap %s",
		c.Queries, c.Wrong, c.Empty, c.Missing, c.Gap.Round(time.Millisecond))
	if c.Withheld > 0 {
		fmt.Fprintf(&b, ", withheld %d", c.Withheld)
	}
	if c.Example != "" {
		b.WriteString("   first: " + c.Example)
	}
	return b.String()
}
