//go:build integration

package cluster

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/cmd/quorate/dev/watch"
	dnsclient "github.com/quorate/quorate/dnsserver/client"
)

const (
	// minRate is what every node must be asked a second; askRate leaves room for a
	// machine that is busy for a moment.
	minRate = 200
	askRate = 250

	// queryTimeout is above any pause of a loaded machine. So many lanes keep the rate
	// even towards a node that does not answer at all.
	queryTimeout = time.Second
	lanes        = 220

	// grace is how long a replaced answer may still come: the poll that sees the
	// commit, and the slowest follower.
	grace = time.Second

	truthEvery = 50 * time.Millisecond
)

// observation is a client that watches nodes from a host of its own.
type observation struct {
	t       *testing.T
	truth   *watch.Truth
	watcher *watch.Watcher
	started time.Time
	stop    context.CancelFunc
	running sync.WaitGroup
	follow  func(ctx context.Context) // keeps truth; nil: the test does

	mu      sync.Mutex        // guards what follows
	newest  uint64            // rotation
	rounded map[string]uint64 // node -> newest rotation it had
	partial map[string]bool   // nodes that were away: no rate is asked of them
}

func newObservation(t *testing.T, client *host, servers map[string]string) *observation {
	o := &observation{t: t, truth: watch.NewTruth(grace), rounded: map[string]uint64{}, partial: map[string]bool{}}
	o.watcher = watch.New(watch.Config{
		Servers: servers, Name: webName, Rate: askRate, Timeout: queryTimeout, Lanes: lanes, Truth: o.truth,
		Dial: func(ctx context.Context, _, server string) (*dnsclient.Client, error) {
			return dialFrom(ctx, client, server)
		},
	})
	return o
}

// begin asks, and follows the truth, until end.
func (o *observation) begin() {
	ctx, stop := context.WithCancel(context.Background())
	o.stop, o.started = stop, time.Now()
	o.running.Go(func() { _ = o.watcher.Run(ctx) }) // it only ends with ctx
	if o.follow != nil {
		o.running.Go(func() { o.follow(ctx) })
	}
}

// end prints the scenario's line and returns what was wrong. kind starts the line.
func (o *observation) end(kind, name string) []string {
	took := time.Since(o.started)
	o.watcher.Finish() // while the truth is still followed
	total, counts := o.watcher.Total(), o.watcher.Counts()
	o.stop()
	o.running.Wait()
	fmt.Printf("%-8s %-38s queries %d, wrong %d, empty %d, no answer %d, longest gap %s\n",
		kind, name, total.Queries, total.Wrong, total.Empty, total.Missing, total.Gap.Round(time.Millisecond))
	return o.problems(counts, took)
}

// problems judges the counts of a run that took so long.
func (o *observation) problems(counts map[string]watch.Counts, took time.Duration) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var found []string
	for node, c := range counts {
		if c.Wrong+c.Empty+c.Missing > 0 {
			found = append(found, node+": "+c.Line())
		}
		if rate := float64(c.Queries) / took.Seconds(); !o.partial[node] && rate < minRate {
			found = append(found, fmt.Sprintf("%s: was asked only %.0f times a second, the scenario proves nothing", node, rate))
		}
	}
	slices.Sort(found)
	return found
}

// away says that node stops answering on purpose.
func (o *observation) away(node string) {
	o.mu.Lock()
	o.partial[node] = true
	o.mu.Unlock()
	o.watcher.Away(node)
}

// gone says that node is no part of the installation, and is not asked.
func (o *observation) gone(node string) {
	o.mu.Lock()
	o.partial[node] = true
	o.mu.Unlock()
	o.watcher.Gone(node)
}

// restarts says that node starts anew: it may have one flush less than it had
// (G2), so it is not held to what it told before.
func (o *observation) restarts(node string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.rounded, node)
}

// saw notes what a node says is committed. The newest of all is the truth.
func (o *observation) saw(node string, s apitype.Service) error {
	var addrs []netip.Addr
	for _, share := range s.V4 {
		if share.Percent > 0 { // the next in a failover's order has endpoints, too
			addrs = append(addrs, share.Endpoints...)
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if s.Rotation < o.rounded[node] {
		return fmt.Errorf("%s went back from rotation %d to %d", node, o.rounded[node], s.Rotation)
	}
	o.rounded[node] = s.Rotation
	if s.Rotation >= o.newest {
		o.newest = s.Rotation
		o.truth.Commit(addrs, time.Now())
	}
	return nil
}

// known is the newest rotation that any node told of.
func (o *observation) known() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.newest
}
