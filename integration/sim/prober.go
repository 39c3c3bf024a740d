package sim

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/quorate/quorate/health"
	"github.com/quorate/quorate/probe"
	"github.com/quorate/quorate/statestore"
)

// world is what real probers reach: clusters that take connections or refuse them.
type world struct {
	mu   sync.Mutex // guards down
	down map[netip.Addr]bool
}

func newWorld() *world { return &world{down: map[netip.Addr]bool{}} }

// set switches a cluster of spec().
func (w *world) set(cluster string, side health.Side) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, addr := range spec().Clusters[cluster].IPv4 {
		w.down[addr] = side == health.Down
	}
}

// dial connects to a cluster, or does not.
func (w *world) dial(_ context.Context, _, addr string) (net.Conn, error) {
	at, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down[at.Addr()] {
		return nil, syscall.ECONNREFUSED
	}
	here, there := net.Pipe()
	return here, there.Close()
}

// probe runs a real prober on the world until ctx ends. It follows the spec as
// cmd/quorate/node makes it.
func (n *node) probe(ctx context.Context) probe.Votes {
	p := probe.New(probe.Config{
		Node:     n.name,
		WrapDial: func(probe.DialFunc) probe.DialFunc { return n.i.world.dial },
		Clock:    n.probeClock,
	})
	n.wg.Go(func() { _ = p.Run(ctx) }) // always nil
	states := n.view
	n.wg.Go(func() {
		var planned *statestore.Spec
		for {
			changed := states.Changed()
			if st := states.State(); st.Spec != planned {
				planned = st.Spec
				p.SetPlan(plan(planned))
			}
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
		}
	})
	return p
}

// plan is what a spec has probed: TCP checks only, which is all that spec() has.
func plan(sp *statestore.Spec) probe.Plan {
	var inputs []probe.TargetChecks
	for _, t := range sp.Targets() {
		in := probe.TargetChecks{Target: t}
		for _, c := range sp.Services[t.Service].Checks.All {
			in.All = append(in.All, probe.Check{
				Name: c.Name, Interval: c.Interval.D(), Timeout: c.Timeout.D(), Fall: c.Fall, Rise: c.Rise,
				Recheck: c.Recheck.D(), StaleAfter: c.StaleAfter.D(), TCP: &probe.TCPCheck{Port: c.TCP.Port},
			})
		}
		inputs = append(inputs, in)
	}
	return probe.BuildPlan(inputs)
}

// standStill makes the prober's loop stop for d at its next turn, as a process
// that is not scheduled does.
func (n *node) standStill(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.nap = d
}

// probeClock is the prober's monotonic clock; its loop reads it at every turn.
func (n *node) probeClock() time.Duration {
	n.mu.Lock()
	nap := n.nap
	n.nap = 0
	n.mu.Unlock()
	if nap > 0 {
		time.Sleep(nap)
	}
	return time.Since(n.i.start)
}
