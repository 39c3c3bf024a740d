package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime/pprof"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/probe"
)

// proberOrder is what the prober is told.
type proberOrder struct {
	Do      string // "start" or "report"
	Port    int
	Checks  int
	Profile string
	// Check is what each check is but for its path.
	Check probe.Check
}

// proberReport is how it is doing.
type proberReport struct {
	Up, Down int
	Dials    []int64 // as nanoseconds of the wall clock
	Downs    []int64 // when votes turned down
	Status   probe.Status
}

// watcher counts what the prober does.
type watcher struct {
	prober *probe.Prober

	mu    sync.Mutex // guards what follows
	dials []int64
	downs map[health.Target]int64
	up    int
}

// proberMain probes until its orders end.
func proberMain(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := &watcher{downs: map[health.Target]int64{}}
	w.prober = probe.New(probe.Config{
		Node: "bench-1", MaxConcurrency: 1000,
		Policy:   probe.AddressPolicy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
		WrapDial: w.counting,
	})
	var wg sync.WaitGroup
	defer wg.Wait()
	orders, replies := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var o proberOrder
		if err := orders.Decode(&o); err != nil {
			cancel()
			return nil // the other side is gone
		}
		switch o.Do {
		case "start":
			if o.Profile != "" {
				f, err := os.Create(o.Profile)
				if err != nil {
					return err
				}
				if err := pprof.StartCPUProfile(f); err != nil {
					return err
				}
			}
			w.prober.SetPlan(plan(o))
			wg.Go(func() { _ = w.prober.Run(ctx) })
			wg.Go(func() { w.watch(ctx) })
		case "report":
			pprof.StopCPUProfile()
		}
		if err := replies.Encode(w.report()); err != nil {
			return err
		}
	}
}

// counting notes every dial.
func (w *watcher) counting(next probe.DialFunc) probe.DialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		now := time.Now().UnixNano()
		w.mu.Lock()
		w.dials = append(w.dials, now)
		w.mu.Unlock()
		return next(ctx, network, addr)
	}
}

// watch notes when votes turn.
func (w *watcher) watch(ctx context.Context) {
	for {
		changed := w.prober.Changed()
		votes, now := w.prober.Votes(), time.Now().UnixNano()
		w.mu.Lock()
		w.up = 0
		for t, v := range votes {
			switch _, was := w.downs[t]; {
			case v.Side == health.Up:
				w.up++
				delete(w.downs, t)
			case v.Side == health.Down && !was:
				w.downs[t] = now
			}
		}
		w.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-time.After(100 * time.Millisecond): // a copy of all votes at each change would cost more than probing
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

func (w *watcher) report() proberReport {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := proberReport{Up: w.up, Down: len(w.downs), Dials: slices.Clone(w.dials), Status: w.prober.Status()}
	for _, at := range w.downs {
		r.Downs = append(r.Downs, at)
	}
	return r
}

// plan spreads the checks over the hosts, each with a path of its own.
func plan(o proberOrder) probe.Plan {
	in := make([]probe.TargetChecks, 0, o.Checks)
	for i := range o.Checks {
		c := o.Check
		c.Name, c.HTTP = "http", &probe.HTTPCheck{Port: o.Port, Path: fmt.Sprintf("/c/%d", i), Host: "web.example.com"}
		in = append(in, probe.TargetChecks{
			Target: health.Target{Service: fmt.Sprintf("s%d", i/hosts), Cluster: fmt.Sprintf("c%d", i%hosts), Endpoint: netip.MustParseAddr(hostAddr(i))},
			All:    []probe.Check{c},
		})
	}
	return probe.BuildPlan(in)
}
