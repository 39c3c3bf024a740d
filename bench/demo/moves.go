package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/api/apitype"
	apiclient "github.com/quorate/quorate/api/client"
	"github.com/quorate/quorate/dnsserver/client"
)

const (
	// moveRest lets a cutover's last acknowledgements and events pass before the next.
	moveRest = 200 * time.Millisecond

	// The demo's two sides of its stateful service, and its people: who proposes may
	// not sign.
	proposer = "alice"
	reason   = "bench"
)

var signers = []string{"bob", "carol"}

// moves moves the demo's stateful service back and forth, n times, and returns how
// long after the last signature was sent the last node answered with the new side.
func (d *demo) moves(ctx context.Context, n int) ([]time.Duration, error) {
	people := map[string]*apiclient.Client{}
	for i, u := range d.ready.Users {
		c, err := apiclient.New(apiclient.Options{Addrs: []string{d.ready.Nodes[i%len(d.ready.Nodes)].API}, Token: u.Token})
		if err != nil {
			return nil, err
		}
		defer c.Close()
		people[u.Name] = c
	}
	for _, name := range append([]string{proposer}, signers...) {
		if people[name] == nil {
			return nil, fmt.Errorf("the demo has no user %s", name)
		}
	}
	service, err := d.stateful()
	if err != nil {
		return nil, err
	}
	var took []time.Duration
	for i := range n {
		if err := pause(ctx, moveRest); err != nil {
			return nil, err
		}
		// The clusters are sorted as the demo's spec has them: the first is preferred.
		to := d.ready.Clusters[(i+1)%2]
		t, err := d.move(ctx, people, service, to.Name, to.Addresses)
		if err != nil {
			return nil, fmt.Errorf("cutover %d, to %s: %w", i+1, to.Name, err)
		}
		took = append(took, t)
	}
	return took, nil
}

// stateful is the name of the demo's stateful service.
func (d *demo) stateful() (string, error) {
	for _, s := range d.ready.Services {
		if s.Kind == "stateful" {
			return s.Name, nil
		}
	}
	return "", errors.New("the demo has no stateful service")
}

// move does one planned cutover.
func (d *demo) move(ctx context.Context, people map[string]*apiclient.Client, service, to string, addrs []netip.Addr) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	// A cluster that was down for long enough has left a proposal of automation's,
	// which is withdrawn within a moment of its return.
	if err := nothingWaits(ctx, people[proposer]); err != nil {
		return 0, err
	}
	res, err := people[proposer].Propose(ctx, apitype.CutoverRequest{Service: service, To: to, Kind: "planned", Reason: reason}, "")
	if err != nil {
		return 0, err
	}
	co, err := res.First()
	if err != nil {
		return 0, err
	}
	last := len(signers) - 1
	for _, name := range signers[:last] {
		if co, err = sign(ctx, people[name], co); err != nil {
			return 0, err
		}
	}
	var (
		wg    sync.WaitGroup
		at    = make([]time.Time, len(d.ready.Nodes))
		errs  = make([]error, len(d.ready.Nodes))
		ready sync.WaitGroup // every node is being asked
	)
	for i, n := range d.ready.Nodes {
		ready.Add(1)
		wg.Go(func() { at[i], errs[i] = awaitSide(ctx, n.DNS, service+"."+d.ready.Zone, addrs, ready.Done) })
	}
	ready.Wait()
	began := time.Now()
	if _, err := sign(ctx, people[signers[last]], co); err != nil {
		cancel()
		wg.Wait()
		return 0, err
	}
	wg.Wait()
	return slices.MaxFunc(at, time.Time.Compare).Sub(began), errors.Join(errs...)
}

// nothingWaits blocks until no cutover is open.
func nothingWaits(ctx context.Context, c *apiclient.Client) error {
	for {
		res, err := c.Status(ctx)
		if err != nil {
			return err
		}
		if len(res.Items) > 0 && len(res.Items[0].Waiting) == 0 {
			return nil
		}
		if err := pause(ctx, moveRest); err != nil {
			return err
		}
	}
}

// sign signs a cutover as it is and waives what is in the way.
func sign(ctx context.Context, c *apiclient.Client, co apitype.Cutover) (apitype.Cutover, error) {
	r := apitype.ApproveRequest{Evidence: co.Evidence, Reason: reason}
	for _, b := range co.Blockers {
		r.Waivers = append(r.Waivers, b.Waive)
	}
	res, err := c.Approve(ctx, co.ID, r, "")
	if err != nil {
		return apitype.Cutover{}, err
	}
	return res.First()
}

// awaitSide polls one node until it answers with exactly these addresses, and calls
// asking once it has asked. While the cutover is under way the name is withheld.
func awaitSide(ctx context.Context, server, name string, addrs []netip.Addr, asking func()) (time.Time, error) {
	c, err := client.Dial(ctx, server)
	if err != nil {
		asking()
		return time.Time{}, err
	}
	defer func() { _ = c.Close() }() // nothing is pending
	for first := true; ; first = false {
		reply, err := c.Query(ctx, name, "A", client.Options{Timeout: time.Second})
		if first {
			asking()
		}
		switch {
		case err != nil:
			return time.Time{}, err
		case reply.Rcode == "NOERROR" && slices.Equal(reply.Addresses, addrs):
			return time.Now(), nil
		case reply.Rcode != "NOERROR" && reply.Rcode != "SERVFAIL":
			return time.Time{}, fmt.Errorf("%s answers %s", server, reply.Rcode)
		}
		if err := pause(ctx, pollEvery); err != nil {
			return time.Time{}, fmt.Errorf("%s has not changed its answer: %w", server, err)
		}
	}
}
