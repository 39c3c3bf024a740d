package watch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/api/client"
)

// SessionConfig says what of a running demo to watch.
type SessionConfig struct {
	Zone      string            // with the final dot
	Stateless string            // service
	Stateful  string            // service
	DNS       map[string]string // node -> IP:PORT
	APIs      map[string]string // node -> URL
	Databases map[string]string // cluster -> URL
	Token     string            // bearer token that may read
	Rate      int               // queries a second for each name to each node
}

// Session watches both services of a demo: every answer of every node against what
// the nodes say was committed, and who takes writes.
type Session struct {
	cfg      SessionConfig
	follower *follower
	names    []*Watcher // stateless, stateful
	writers  *Writers

	stop context.CancelFunc
	wg   sync.WaitGroup
}

// sessionGrace is how long a replaced answer may still come: the commit, the
// slowest follower and the poll.
const sessionGrace = 3 * time.Second

// ErrUnheard says that no node told what is committed.
var ErrUnheard = errors.New("no node tells what is committed")

// Watch begins to watch and returns once a node has told what is committed.
func Watch(ctx context.Context, cfg SessionConfig) (*Session, error) {
	truth, owner := NewTruth(sessionGrace), NewOwner(sessionGrace)
	s := &Session{cfg: cfg, writers: NewWriters(cfg.Databases), names: []*Watcher{
		New(Config{Servers: cfg.DNS, Name: cfg.Stateless + "." + cfg.Zone, Rate: cfg.Rate, Truth: truth}),
		New(Config{Servers: cfg.DNS, Name: cfg.Stateful + "." + cfg.Zone, Rate: cfg.Rate, Owner: owner}),
	}}
	s.follower = &follower{
		stateless: cfg.Stateless, stateful: cfg.Stateful, truth: truth, owner: owner,
		clients: map[string]*client.Client{}, held: map[string]bool{},
	}
	for node, url := range cfg.APIs {
		c, err := client.New(client.Options{Addrs: []string{url}, Token: cfg.Token, Timeout: time.Second})
		if err != nil {
			return nil, err
		}
		s.follower.clients[node] = c
	}
	s.follower.poll(ctx)
	if !s.follower.known() {
		return nil, ErrUnheard
	}
	ctx, s.stop = context.WithCancel(ctx)
	s.wg.Go(func() { s.follower.run(ctx) })
	s.wg.Go(func() { s.writers.Run(ctx) })
	for _, w := range s.names {
		s.wg.Go(func() { _ = w.Run(ctx) }) // it only ends with ctx
	}
	return s, nil
}

// Finish ends the watching and decides what was still open.
func (s *Session) Finish() {
	var last sync.WaitGroup
	for _, w := range s.names {
		last.Go(w.Finish) // while what is committed is still followed
	}
	last.Wait()
	s.stop()
	s.wg.Wait()
	for _, c := range s.follower.clients {
		c.Close()
	}
}

// Away says that node is dead on purpose: until Back its silence counts nothing.
func (s *Session) Away(node string) {
	for _, w := range s.names {
		w.Away(node)
	}
}

// Back says that node is to answer again.
func (s *Session) Back(node string) {
	for _, w := range s.names {
		w.Back(node)
	}
}

// Writers returns what the databases did so far.
func (s *Session) Writers() WriterCounts { return s.writers.Counts() }

// Totals adds up what all nodes did, for the stateless and the stateful name.
func (s *Session) Totals() (stateless, stateful Counts) {
	return s.names[0].Total(), s.names[1].Total()
}

// Lines say how it goes, one a service and one for the writers.
func (s *Session) Lines() []string {
	stateless, stateful := s.follower.lines()
	width := max(len(s.cfg.Stateless), len(s.cfg.Stateful))
	return []string{
		fmt.Sprintf("%-*s  %s  %s", width, s.cfg.Stateless, s.names[0].Total().Line(), stateless),
		fmt.Sprintf("%-*s  %s  %s", width, s.cfg.Stateful, s.names[1].Total().Line(), stateful),
		fmt.Sprintf("%-*s  %s", width, "", s.writers.Counts().Line()),
	}
}

// Report is the counts of each node.
func (s *Session) Report() []string {
	var lines []string
	width := max(len(s.cfg.Stateless), len(s.cfg.Stateful))
	for i, name := range []string{s.cfg.Stateless, s.cfg.Stateful} {
		counts := s.names[i].Counts()
		for _, node := range slices.Sorted(maps.Keys(counts)) {
			lines = append(lines, fmt.Sprintf("%-6s %-*s  %s", node, width, name, counts[node].Line()))
		}
	}
	return append(lines, s.writers.Counts().Line())
}

// Verdict is what was wrong, all of it; nil: nothing.
func (s *Session) Verdict() error {
	var errs []error
	stateless, stateful := s.Totals()
	if n, e := stateless.Wrong+stateful.Wrong, stateless.Empty+stateful.Empty; n+e > 0 {
		errs = append(errs, fmt.Errorf("%d wrong and %d empty answers", n, e))
	}
	if most := s.writers.Counts().Most; len(most) > 1 {
		errs = append(errs, fmt.Errorf("%d databases took writes at once: %v", len(most), most))
	}
	return errors.Join(errs...)
}
