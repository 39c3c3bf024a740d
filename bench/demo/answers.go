package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/dnsserver/client"
)

const (
	// pollEvery is how often each node is asked while a change is awaited. It
	// bounds what the polling itself adds to a figure.
	pollEvery = 2 * time.Millisecond

	// absent is how many answers in a row must lack the cluster before it counts as
	// gone, from the first of them. Answers are drawn by weight: with a third of
	// them on the cluster, that many without it by chance are one in 190,000.
	absent = 30

	// changeTimeout ends a wait that will not end by itself.
	changeTimeout = 20 * time.Second

	// between toggles everything comes to rest, and the next one falls somewhere
	// else in the interval of the probes.
	restMin  = 1500 * time.Millisecond
	restMore = time.Second
)

// toggles switches a cluster down and up in turn, n times in all, and returns how
// long each took until all nodes answered accordingly.
func (d *demo) toggles(ctx context.Context, n int) (down, up []time.Duration, err error) {
	cluster := d.ready.Clusters[0]
	for i := range n {
		if err := pause(ctx, restMin+rand.N(restMore)); err != nil {
			return nil, nil, err
		}
		side, list := "down", &down
		if i%2 == 1 {
			side, list = "up", &up
		}
		began := time.Now()
		if err := d.order(ctx, "toggle", cluster.Name, side); err != nil {
			return nil, nil, err
		}
		at, err := d.awaitAll(ctx, cluster.Addresses, side == "up")
		if err != nil {
			return nil, nil, fmt.Errorf("toggle %d, %s %s: %w", i+1, cluster.Name, side, err)
		}
		*list = append(*list, at.Sub(began))
	}
	return down, up, nil
}

// awaitAll returns when the last node began to answer with the addresses, or
// without them.
func (d *demo) awaitAll(ctx context.Context, addrs []netip.Addr, present bool) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	var wg sync.WaitGroup
	at := make([]time.Time, len(d.ready.Nodes))
	errs := make([]error, len(d.ready.Nodes))
	for i, n := range d.ready.Nodes {
		wg.Go(func() { at[i], errs[i] = d.await(ctx, n.DNS, addrs, present) })
	}
	wg.Wait()
	return slices.MaxFunc(at, time.Time.Compare), errors.Join(errs...)
}

// await polls one node.
func (d *demo) await(ctx context.Context, server string, addrs []netip.Addr, present bool) (time.Time, error) {
	c, err := client.Dial(ctx, server)
	if err != nil {
		return time.Time{}, err
	}
	defer func() { _ = c.Close() }() // nothing is pending
	var first time.Time              // of the run of answers without the addresses
	run := 0
	for {
		asked := time.Now()
		reply, err := c.Query(ctx, d.name(), "A", client.Options{Timeout: time.Second})
		switch {
		case err != nil:
			return time.Time{}, err
		case reply.Rcode != "NOERROR" || len(reply.Addresses) == 0:
			return time.Time{}, fmt.Errorf("%s answers %s with %d addresses", server, reply.Rcode, len(reply.Addresses))
		}
		has := slices.ContainsFunc(reply.Addresses, func(a netip.Addr) bool { return slices.Contains(addrs, a) })
		switch {
		case has && present:
			return time.Now(), nil
		case has:
			run = 0
		case !present:
			if run == 0 {
				first = asked
			}
			if run++; run == absent {
				return first, nil
			}
		}
		if err := pause(ctx, pollEvery); err != nil {
			return time.Time{}, fmt.Errorf("%s has not changed its answer: %w", server, err)
		}
	}
}

// name is the service that is asked for.
func (d *demo) name() string { return d.ready.Services[0].Name + "." + d.ready.Zone }

// restart ends all nodes, starts the first one alone and returns how long after
// the order its first answer came.
func (d *demo) restart(ctx context.Context) (time.Duration, error) {
	if err := pause(ctx, restMin); err != nil {
		return 0, err
	}
	if err := d.order(ctx, "kill", "all"); err != nil {
		return 0, err
	}
	first := d.ready.Nodes[0]
	done := make(chan error, 1)
	began := time.Now()
	go func() { done <- d.order(ctx, "start", first.Name) }()
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	for {
		reply, err := client.Query(ctx, first.DNS, d.name(), "A", client.Options{Timeout: 50 * time.Millisecond})
		if err == nil && reply.Rcode == "NOERROR" && len(reply.Addresses) > 0 {
			return time.Since(began), <-done
		}
		if err := pause(ctx, pollEvery); err != nil {
			return 0, fmt.Errorf("%s alone does not answer: %w (last: %v)", first.Name, err, <-done)
		}
	}
}
