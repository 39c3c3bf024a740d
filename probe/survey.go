package probe

import (
	"context"
	"hash/fnv"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// surveyAtOnce bounds how many names and capacities are asked for at a time.
	surveyAtOnce = 16
	// surveySpread is over how long the first questions of a plan are spread.
	surveySpread = time.Second
	// surveyTimeout is for one name or capacity, whoever has to be asked for it.
	surveyTimeout = 10 * time.Second
	// surveyRetryMin and surveyRetryMax bound the pause after a failure.
	surveyRetryMin = time.Second
	surveyRetryMax = 30 * time.Second
)

// reported is a capacity and when it came.
type reported struct {
	value float64
	at    time.Time
	keep  time.Duration
}

// errand is one name or capacity that is asked for again and again. Only the
// survey's goroutine touches it.
type errand struct {
	hostname *HostnamePlan
	capacity *CapacityPlan

	due     time.Time
	running bool
	failed  int // times in a row
	gone    bool
	cancel  context.CancelFunc
}

// errandKey is what an errand is for.
type errandKey struct{ kind, cluster string }

func (e *errand) same(o *errand) bool {
	if e.hostname != nil {
		return *e.hostname == *o.hostname
	}
	return e.capacity.equal(*o.capacity)
}

// errandDone is how an errand ended: when to ask again, or why it failed.
type errandDone struct {
	e     *errand
	addrs []netip.Addr
	value float64
	again time.Duration
	err   error
}

// survey asks for what is no probe: the addresses of hostnames and the capacities
// of clusters. One goroutine keeps it; each question under way has one more.
type survey struct {
	node     string
	log      *slog.Logger
	resolve  func(ctx context.Context, hostname string) ([]netip.Addr, time.Duration, error)
	capacity func(ctx context.Context, p CapacityPlan) (float64, error)
	planned  chan struct{} // holds one token: next was set

	errands map[errandKey]*errand // of the goroutine of run

	mu       sync.Mutex // guards what follows
	next     Plan
	resolved map[string]Resolved
	reports  map[string]reported
	changed  chan struct{} // closed and replaced when a resolved set or a capacity changes
}

func newSurvey(node string, log *slog.Logger, r *resolver, c *capacityReader) *survey {
	return &survey{
		node: node, log: log, resolve: r.resolve, capacity: c.read,
		planned:  make(chan struct{}, 1),
		errands:  map[errandKey]*errand{},
		resolved: map[string]Resolved{},
		reports:  map[string]reported{},
		changed:  make(chan struct{}),
	}
}

// setPlan makes run follow plan.
func (s *survey) setPlan(plan Plan) {
	s.mu.Lock()
	s.next = plan
	s.mu.Unlock()
	select {
	case s.planned <- struct{}{}:
	default: // the plan before was not taken yet; this one will be
	}
}

// run asks until ctx is done and waits for what is under way.
func (s *survey) run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	done := make(chan errandDone, surveyAtOnce) // so that no errand waits for the loop
	timer := time.NewTimer(0)
	defer timer.Stop()
	running := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.planned:
			s.adopt(time.Now())
		case d := <-done:
			running--
			s.take(d, time.Now())
		case <-timer.C:
		}
		now := time.Now()
		var first time.Time
		for _, e := range s.byDue() {
			if e.due.After(now) || running == surveyAtOnce {
				first = e.due
				break
			}
			running++
			e.running = true
			one, cancel := context.WithTimeout(ctx, surveyTimeout)
			e.cancel = cancel
			wg.Go(func() {
				defer cancel()
				done <- s.ask(one, e)
			})
		}
		if !first.IsZero() && running < surveyAtOnce {
			timer.Reset(max(first.Sub(now), 0))
		}
	}
}

// byDue returns the errands that are not under way, the first due first.
func (s *survey) byDue() []*errand {
	var out []*errand
	for _, e := range s.errands {
		if !e.running {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b *errand) int { return a.due.Compare(b.due) })
	return out
}

// ask runs one errand.
func (s *survey) ask(ctx context.Context, e *errand) errandDone {
	d := errandDone{e: e}
	if e.hostname != nil {
		d.addrs, d.again, d.err = s.resolve(ctx, e.hostname.Hostname)
		return d
	}
	d.again = e.capacity.interval()
	d.value, d.err = s.capacity(ctx, *e.capacity)
	return d
}

// take notes how an errand ended.
func (s *survey) take(d errandDone, now time.Time) {
	e := d.e
	e.running, e.cancel = false, nil
	if e.gone {
		return
	}
	if d.err != nil {
		pause := min(surveyRetryMin<<min(e.failed, 10), surveyRetryMax)
		if e.capacity != nil {
			pause = min(pause, d.again)
		}
		e.failed++
		e.due = now.Add(pause)
		s.failed(e, d.err)
		return
	}
	e.failed, e.due = 0, now.Add(d.again)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.hostname != nil {
		is := Resolved{e.hostname.Hostname, d.addrs}
		if !s.resolved[e.hostname.Cluster].equal(is) {
			s.resolved[e.hostname.Cluster] = is
			s.tellLocked()
		}
		return
	}
	was, known := s.reports[e.capacity.Cluster]
	s.reports[e.capacity.Cluster] = reported{d.value, now, e.capacity.maxAge()}
	if !known || was.value != d.value || now.Sub(was.at) > was.keep {
		s.tellLocked()
	}
}

// failed forgets what does not resolve and says so once. A capacity is kept until
// it is too old.
func (s *survey) failed(e *errand, err error) {
	if e.hostname == nil {
		if e.failed == 1 {
			s.log.Warn("capacity cannot be read; it counts until it is too old", keyCluster, e.capacity.Cluster, keyErr, err)
		}
		return
	}
	if e.failed == 1 {
		s.log.Warn("hostname does not resolve; it is not reported", keyCluster, e.hostname.Cluster, keyErr, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetLocked(e)
}

// forgetLocked forgets what e found.
func (s *survey) forgetLocked(e *errand) {
	found := false
	if e.hostname != nil {
		_, found = s.resolved[e.hostname.Cluster]
		delete(s.resolved, e.hostname.Cluster)
	} else {
		_, found = s.reports[e.capacity.Cluster]
		delete(s.reports, e.capacity.Cluster)
	}
	if found {
		s.tellLocked()
	}
}

func (s *survey) tellLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// adopt makes the errands those of the plan set last. Those that stay as they are
// keep what they found.
func (s *survey) adopt(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	want := map[errandKey]*errand{}
	for _, n := range s.next.Names {
		want[errandKey{"hostname", n.Cluster}] = &errand{hostname: &n}
	}
	for _, c := range s.next.Capacities {
		want[errandKey{"capacity", c.Cluster}] = &errand{capacity: &c}
	}
	for key, e := range s.errands {
		if w := want[key]; w != nil && w.same(e) {
			want[key] = e
			continue
		}
		e.gone = true
		if e.cancel != nil {
			e.cancel()
		}
		// The addresses of a hostname that resolves anew and the endpoints of the same
		// report are no reason to forget what was reported.
		if w := want[key]; w == nil || e.hostname != nil || !e.asks(w) {
			s.forgetLocked(e)
		}
	}
	for key, e := range want {
		if s.errands[key] == e {
			continue
		}
		h := fnv.New32a()
		_, _ = h.Write([]byte(strings.Join([]string{s.node, key.kind, key.cluster}, "\x00"))) // a hash never fails
		e.due = now.Add(time.Duration(h.Sum32()) % surveySpread)
	}
	s.errands = want
}

// asks reports whether e and o read the same number in the same place, though
// other endpoints may serve it now.
func (e *errand) asks(o *errand) bool {
	other := *o.capacity
	other.Endpoints = e.capacity.Endpoints
	return e.capacity.equal(other)
}

// measurements returns what counts now.
func (s *survey) measurements(now time.Time) (map[string]Resolved, map[string]float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	capacity := make(map[string]float64, len(s.reports))
	for cluster, r := range s.reports {
		if now.Sub(r.at) <= r.keep {
			capacity[cluster] = r.value
		}
	}
	return maps.Clone(s.resolved), capacity
}
