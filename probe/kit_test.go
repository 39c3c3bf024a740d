package probe

import (
	"context"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/health"
)

func tcpCheck(name string, port int) Check {
	return Check{Name: name, Interval: 10 * time.Second, Timeout: 3 * time.Second, Fall: 3, Rise: 2, Recheck: 2 * time.Second, TCP: &TCPCheck{Port: port}}
}

// world answers probes in virtual time.
type world struct {
	mu       sync.Mutex
	down     map[netip.Addr]bool
	hung     map[netip.Addr]bool // answers nothing until the timeout
	deaf     map[netip.Addr]bool // does not even heed the timeout
	starts   map[netip.Addr][]time.Time
	running  map[netip.Addr]int
	degraded string // what good results warn of
	overlaps int
	total    int
	most     int
}

func newWorld() *world {
	return &world{
		down: map[netip.Addr]bool{}, hung: map[netip.Addr]bool{}, deaf: map[netip.Addr]bool{},
		starts: map[netip.Addr][]time.Time{}, running: map[netip.Addr]int{},
	}
}

func (w *world) measure(ctx context.Context, p Probe, _ checker) outcome {
	w.mu.Lock()
	start := time.Now()
	w.starts[p.Endpoint] = append(w.starts[p.Endpoint], start)
	w.running[p.Endpoint]++
	w.total++
	w.most = max(w.most, w.total)
	if w.running[p.Endpoint] > 1 {
		w.overlaps++
	}
	down, hung, deaf := w.down[p.Endpoint], w.hung[p.Endpoint], w.deaf[p.Endpoint]
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		w.running[p.Endpoint]--
		w.total--
		w.mu.Unlock()
	}()
	w.mu.Lock()
	degraded := w.degraded
	w.mu.Unlock()
	o := outcome{Result: Result{At: start, OK: true, Reason: ReasonOK, Degraded: degraded}, reached: true}
	switch {
	case deaf:
		time.Sleep(time.Hour)
		o = outcome{Result: Result{At: start, Reason: ReasonTimeout}}
	case hung:
		select {
		case <-time.After(p.Check.Timeout):
		case <-ctx.Done():
		}
		o = outcome{Result: Result{At: start, Reason: ReasonTimeout}}
	case down:
		o = outcome{Result: Result{At: start, Reason: ReasonRefused}}
	}
	o.Took = time.Since(start)
	return o
}

func (w *world) set(m map[netip.Addr]bool, on bool, addrs ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range addrs {
		m[netip.MustParseAddr(a)] = on
	}
}

func (w *world) count(n *int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return *n
}

func (w *world) runningAt(addr netip.Addr) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.running[addr]
}

func (w *world) startsOf(addr string) []time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]time.Time(nil), w.starts[netip.MustParseAddr(addr)]...)
}

// launch runs a prober over w until the test ends.
func launch(t *testing.T, cfg Config, w *world, inputs ...TargetChecks) *Prober {
	t.Helper()
	p := prepare(cfg, w, inputs...)
	begin(t, p)
	return p
}

// prepare makes a prober over w that does not run yet.
func prepare(cfg Config, w *world, inputs ...TargetChecks) *Prober {
	p := New(cfg)
	p.measure = w.measure
	p.bootTime = func() time.Duration { return 0 } // of the real world; see boot_linux.go
	p.SetPlan(BuildPlan(inputs))
	return p
}

// begin runs p until the test ends.
func begin(t *testing.T, p *Prober) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = p.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
}

// history watches every vote that a target ever had.
type history struct {
	mu    sync.Mutex
	votes []health.Vote
	at    []time.Time
}

func watch(t *testing.T, p *Prober, target health.Target) *history {
	h := &history{}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			changed := p.Changed()
			if v, ok := p.Votes()[target]; ok {
				h.mu.Lock()
				if n := len(h.votes); n == 0 || h.votes[n-1] != v {
					h.votes, h.at = append(h.votes, v), append(h.at, time.Now())
				}
				h.mu.Unlock()
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return h
}

// sides returns the sides with their reasons, in order.
func (h *history) sides() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []string
	for _, v := range h.votes {
		out = append(out, strings.TrimSuffix(v.Side.String()+":"+v.Reason, ":"))
	}
	return strings.Join(out, " ")
}

func (h *history) last() (health.Vote, time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := len(h.votes) - 1
	return h.votes[n], h.at[n]
}

var webEU = target("web", "eu", "192.0.2.10")

func webInput() TargetChecks { return TargetChecks{Target: webEU, All: []Check{tcpCheck("c", 80)}} }
