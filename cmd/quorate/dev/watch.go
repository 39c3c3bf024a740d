package dev

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/api/client"
	"github.com/quorate/quorate/cmd/quorate/dev/watch"
)

// WatchConfig says what to watch and where to tell.
type WatchConfig struct {
	DNS   map[string]string // node -> IP:PORT
	APIs  map[string]string // node -> URL
	Token string
	Rate  int // queries a second to each node
	Out   io.Writer
	Live  bool // one line that is written over, for a terminal
}

const (
	// watchGrace is how long a replaced answer may still come: the commit, the
	// slowest follower and the poll below.
	watchGrace = 3 * time.Second
	truthEvery = 100 * time.Millisecond
	tellEvery  = time.Second
)

// Watch asks every node of the demo for its service until ctx ends, checks every
// answer against what the nodes say was committed, and tells the counts every
// second. It returns an error when an answer was wrong or empty.
func Watch(ctx context.Context, cfg WatchConfig) error {
	truth := watch.NewTruth(watchGrace)
	w := watch.New(watch.Config{Servers: cfg.DNS, Name: "web." + Zone, Rate: cfg.Rate, Truth: truth})
	f := &follower{cfg: cfg, truth: truth, rotation: map[string]uint64{}}
	if err := f.open(); err != nil {
		return err
	}
	f.poll(ctx)
	if !f.known() {
		return ErrNoDemo
	}
	var wg sync.WaitGroup
	wg.Go(func() { f.run(ctx) })
	wg.Go(func() { _ = w.Run(ctx) }) // it only ends with ctx
	tell := time.NewTicker(tellEvery)
	defer tell.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tell.C:
			total := w.Total()
			if cfg.Live {
				fmt.Fprintf(cfg.Out, "\r\x1b[K%s  %s", total.Line(), f.now())
			} else {
				fmt.Fprintf(cfg.Out, "%s  %s  %s\n", time.Now().UTC().Format("15:04:05Z"), total.Line(), f.now())
			}
		}
	}
	wg.Wait()
	w.Finish()
	if cfg.Live {
		fmt.Fprintln(cfg.Out)
	}
	counts := w.Counts()
	for _, node := range sortedNames(counts) {
		fmt.Fprintf(cfg.Out, "%-6s %s\n", node, counts[node].Line())
	}
	if total := w.Total(); total.Bad() > 0 {
		return fmt.Errorf("%d wrong and %d empty answers", total.Wrong, total.Empty)
	}
	return nil
}

// follower reads what is committed from every node: the newest rotation any of
// them has is the truth, and a node that is behind for long is cut off.
type follower struct {
	cfg     WatchConfig
	truth   *watch.Truth
	clients map[string]*client.Client

	mu       sync.Mutex        // guards what follows
	rotation map[string]uint64 // node -> number of the rotation it has
	held     map[string]bool
	newest   uint64
	shares   string
}

func (f *follower) open() error {
	f.clients, f.held = map[string]*client.Client{}, map[string]bool{}
	for node, url := range f.cfg.APIs {
		c, err := client.New(client.Options{Addrs: []string{url}, Token: f.cfg.Token, Timeout: time.Second})
		if err != nil {
			return err
		}
		f.clients[node] = c
	}
	return nil
}

func (f *follower) run(ctx context.Context) {
	for ctx.Err() == nil {
		f.poll(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(truthEvery):
		}
	}
}

// poll asks every node once.
func (f *follower) poll(ctx context.Context) {
	var wg sync.WaitGroup
	for node, c := range f.clients {
		wg.Go(func() {
			res, err := c.Services(ctx, "web")
			if err != nil || len(res.Items) != 1 {
				f.stale(node, true)
				return
			}
			s := res.Items[0]
			var addrs []netip.Addr
			shares := ""
			for _, sh := range s.V4 {
				addrs = append(addrs, sh.Endpoints...)
				shares += fmt.Sprintf(" %s %.0f%%", sh.Cluster, sh.Percent)
			}
			f.stale(node, res.Meta.Stale)
			f.saw(node, s.Rotation, addrs, shares)
		})
	}
	wg.Wait()
}

// saw notes the rotation that node has.
func (f *follower) saw(node string, rotation uint64, addrs []netip.Addr, shares string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rotation[node] = rotation
	if rotation >= f.newest {
		f.newest, f.shares = rotation, shares
		f.truth.Commit(addrs, time.Now())
	}
}

// stale notes that node hears no leader, or does again: until then it keeps what
// it had, which is right.
func (f *follower) stale(node string, stale bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if stale == f.held[node] {
		return
	}
	f.held[node] = stale
	if stale {
		f.truth.Hold(node, time.Now())
	} else {
		f.truth.Release(node, time.Now())
	}
}

func (f *follower) known() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.rotation) > 0
}

// now is what is committed, in a few words.
func (f *follower) now() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return fmt.Sprintf("committed: rotation %d%s", f.newest, f.shares)
}

func sortedNames(m map[string]watch.Counts) []string {
	names := make([]string, 0, len(m))
	for n := range m {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}
