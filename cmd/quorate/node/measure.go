package node

import (
	"context"
	"net/netip"
	"time"

	"github.com/quorate/quorate/controller"
	"github.com/quorate/quorate/probe"
	"github.com/quorate/quorate/statestore"
)

// methodMeasure carries what an observer measured beside its votes to the leader.
const methodMeasure = "observer.measure"

const (
	// measureEvery is how often a node repeats what it measured: a leader keeps it for
	// a few of these, in memory only.
	measureEvery = 5 * time.Second

	// measureRetry is how soon it tries again what nobody took.
	measureRetry = time.Second

	// measureGap is how long changes gather: names that are asked for together change
	// together.
	measureGap = 100 * time.Millisecond

	// measureTimeout bounds one try, so that a leader that does not answer costs
	// little once there is another.
	measureTimeout = 2 * time.Second
)

// keepMeasuring tells the leader what this node measured, every measureEvery and at
// once when addresses or a capacity changed, as long as the spec asks for any of it.
func (n *Node) keepMeasuring(ctx context.Context) error {
	var asked *measuring
	var of *statestore.Spec
	for ctx.Err() == nil {
		respec, elected, changed := n.view.Changed(), n.raft.LeaderChanged(), n.prober.MeasurementsChanged()
		if spec := n.view.State().Spec; spec != of {
			of, asked = spec, measuredUnder(spec)
		}
		if asked == nil {
			select { // silence costs nothing
			case <-ctx.Done():
			case <-respec:
			}
			continue
		}
		next := measureEvery
		if err := n.tellMeasured(ctx, asked.of(n.prober.Measurements())); err != nil {
			next = measureRetry
		}
		n.restMeasuring(ctx, of, next, elected, changed)
	}
	return nil
}

// restMeasuring waits until there is something to tell, at most for d.
func (n *Node) restMeasuring(ctx context.Context, of *statestore.Spec, d time.Duration, elected, changed <-chan struct{}) {
	again := time.NewTimer(d)
	defer again.Stop()
	for {
		respec := n.view.Changed()
		if n.view.State().Spec != of {
			return
		}
		select {
		case <-ctx.Done():
		case <-again.C:
		case <-elected:
		case <-changed:
			sleep(ctx, measureGap)
		case <-respec:
			continue // most entries are about something else
		}
		return
	}
}

func (n *Node) tellMeasured(ctx context.Context, m controller.Measurement) error {
	ctx, cancel := context.WithTimeout(ctx, measureTimeout)
	defer cancel()
	var heard struct{}
	err := n.askLeader(ctx, methodMeasure, m, &heard)
	if err != nil && ctx.Err() == nil {
		n.log.Debug("measurements not told yet", keyErr, err)
	}
	return err
}

// takeMeasurement is the leader's side of it.
func (n *Node) takeMeasurement(ctx context.Context, from string, body []byte) ([]byte, error) {
	return answerCall(body, func(m controller.Measurement) (struct{}, error) {
		return struct{}{}, n.control.Measure(ctx, from, m)
	})
}

// measuring is what a spec asks observers to measure.
type measuring struct {
	ranked map[netip.Addr]bool // endpoints that round trips rank
}

// measuredUnder returns what the spec asks observers to measure; nil: nothing.
func measuredUnder(spec *statestore.Spec) *measuring {
	m := &measuring{ranked: map[netip.Addr]bool{}}
	for _, a := range spec.LatencyEndpoints() {
		m.ranked[a] = true
	}
	asked := len(m.ranked) > 0
	for _, c := range spec.Clusters {
		asked = asked || c.Hostname != "" || c.CapacityFrom != nil
	}
	if !asked {
		return nil
	}
	return m
}

// of returns what is worth telling of what was measured. Nothing is told too: it takes
// back what was.
func (m *measuring) of(all probe.Measurements) controller.Measurement {
	out := controller.Measurement{RTT: map[netip.Addr]statestore.Duration{}, Resolved: map[string]controller.Resolved{}, Capacity: all.Capacity}
	for a, rtt := range all.RTT {
		if m.ranked[a] {
			out.RTT[a] = statestore.Duration(rtt)
		}
	}
	for cluster, r := range all.Resolved {
		out.Resolved[cluster] = controller.Resolved(r)
	}
	return out
}
