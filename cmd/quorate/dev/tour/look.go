package tour

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/quorate/quorate/api/apitype"
	"github.com/quorate/quorate/api/client"
	dnsclient "github.com/quorate/quorate/dnsserver/client"
	"github.com/quorate/quorate/statestore"
)

const (
	queryTimeout = time.Second

	// lookEvery is how often a thing is looked at that is to come, or to stay.
	lookEvery = 50 * time.Millisecond

	// moveEvery is the same for a name that is about to move, where the figure counts.
	moveEvery = 5 * time.Millisecond

	// soon bounds what takes a second or two on a machine of its own.
	soon = 15 * time.Second
)

// until looks until it is so, for at most a time, and returns what was last not so.
func until(ctx context.Context, limit time.Duration, look func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var last error
	for {
		err := look(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err // else it says only that the time was over
		}
		if pause(ctx, lookEvery) != nil {
			return fmt.Errorf("not within %s: %w", limit, last)
		}
	}
}

// during looks for a time, in which it must stay so.
func during(ctx context.Context, length time.Duration, look func(ctx context.Context) error) error {
	for over := time.Now().Add(length); time.Now().Before(over); {
		if err := look(ctx); err != nil {
			return err
		}
		if err := pause(ctx, lookEvery); err != nil {
			return err
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// ask asks one node for a service.
func (p *player) ask(ctx context.Context, node, service string) (*dnsclient.Reply, error) {
	reply, err := p.cfg.Query(ctx, p.cfg.Watch.DNS[node], service+"."+p.cfg.Watch.Zone)
	if err == nil && (reply.Rcode != "NOERROR" || len(reply.Addresses) == 0) {
		err = fmt.Errorf("%s answers %s with %d addresses", node, reply.Rcode, len(reply.Addresses))
	}
	return reply, err
}

// answers reports whether every one of nodes answers a service with exactly one
// cluster, and with which TTL.
func (p *player) answers(ctx context.Context, service, cluster string, ttl time.Duration, nodes ...string) error {
	for _, node := range nodes {
		reply, err := p.ask(ctx, node, service)
		switch {
		case err != nil:
			return err
		case !slices.Equal(reply.Addresses, []netip.Addr{p.cfg.Clusters[cluster]}):
			return fmt.Errorf("%s answers %s with %s, not with %s", node, service, p.named(reply.Addresses), cluster)
		case ttl > 0 && reply.TTL != ttl:
			return fmt.Errorf("%s answers %s with TTL %s, not %s", node, service, reply.TTL, ttl)
		}
	}
	return nil
}

// named says which clusters have the addresses.
func (p *player) named(addrs []netip.Addr) string {
	var names []string
	for _, a := range addrs {
		name := a.String()
		for c, addr := range p.cfg.Clusters {
			if addr == a {
				name = c
			}
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// share returns how much of web's answers a node says each cluster has.
func (p *player) share(ctx context.Context, node, cluster string) (float64, error) {
	s, err := p.service(ctx, node, p.cfg.Watch.Stateless)
	if err != nil {
		return 0, err
	}
	for _, sh := range s.V4 {
		if sh.Cluster == cluster {
			return sh.Percent, nil
		}
	}
	return 0, nil
}

// service reads a service at a node.
func (p *player) service(ctx context.Context, node, name string) (apitype.Service, error) {
	c, err := p.as("alice", node)
	if err != nil {
		return apitype.Service{}, err
	}
	res, err := c.Services(ctx, name)
	if err != nil {
		return apitype.Service{}, err
	}
	return res.First()
}

// owner reads the stateful side of the stateful service at a node.
func (p *player) owner(ctx context.Context, node string) (*apitype.Stateful, error) {
	s, err := p.service(ctx, node, p.cfg.Watch.Stateful)
	if err == nil && s.Stateful == nil {
		err = fmt.Errorf("%s does not show %s as stateful", node, p.cfg.Watch.Stateful)
	}
	return s.Stateful, err
}

// owned reports whether every node has a cluster as the active side under an epoch.
func (p *player) owned(ctx context.Context, cluster string, epoch uint64) error {
	for _, node := range p.nodes {
		o, err := p.owner(ctx, node)
		if err != nil {
			return err
		}
		if o.Active != cluster || o.Epoch != epoch {
			return fmt.Errorf("%s has %s active under epoch %d, not %s under epoch %d", node, o.Active, o.Epoch, cluster, epoch)
		}
	}
	return nil
}

// cutover reads one cutover.
func (p *player) cutover(ctx context.Context, id string) (apitype.Cutover, error) {
	c, err := p.as("alice", "")
	if err != nil {
		return apitype.Cutover{}, err
	}
	res, err := c.Cutover(ctx, id)
	if err != nil {
		return apitype.Cutover{}, err
	}
	return res.First()
}

// settled reports whether the evidence to sign says what the gates say now: the
// entry that replaces it follows a change of them.
func settled(co apitype.Cutover) error {
	text, err := json.Marshal(co.Facts)
	if err != nil {
		return err
	}
	var ev statestore.Evidence
	if err := json.Unmarshal(text, &ev); err != nil {
		return err
	}
	for i, g := range co.Gates {
		if i >= len(ev.Gates) || string(ev.Gates[i].Class) != g.Class {
			return fmt.Errorf("the evidence does not say yet that %s is %s", g.Name, g.Class)
		}
	}
	return nil
}

// open lists the open cutovers.
func (p *player) open(ctx context.Context) ([]apitype.Cutover, error) {
	c, err := p.as("alice", "")
	if err != nil {
		return nil, err
	}
	res, err := c.Cutovers(ctx, "open", "")
	if err != nil {
		return nil, err
	}
	return res.Items, nil
}

// noneOpen reports whether no cutover is open.
func (p *player) noneOpen(ctx context.Context) error {
	open, err := p.open(ctx)
	if err == nil && len(open) > 0 {
		err = fmt.Errorf("%s was proposed: %s", open[0].ID, open[0].Reason)
	}
	return err
}

// writer reports whether exactly one database takes writes, and the right one.
func (p *player) writer(cluster string) error {
	now := p.watch.Writers().Now
	if !slices.Equal(now, []string{cluster}) {
		return fmt.Errorf("writes are taken by %v, not by %s", now, cluster)
	}
	return nil
}

// refused asserts that an act was refused for a reason, and returns how it was put.
func refused(err error, problem string) (string, error) {
	var p *client.ProblemError
	switch {
	case err == nil:
		return "", fmt.Errorf("it was done, not refused with %s", problem)
	case !errors.As(err, &p):
		return "", err
	case p.Name() != problem:
		return "", fmt.Errorf("refused with %s, not with %s: %w", p.Name(), problem, err)
	}
	if len(p.Blockers) > 0 {
		var rules []string
		for _, b := range p.Blockers {
			rules = append(rules, b.Rule)
		}
		return strings.Join(rules, ", "), nil
	}
	return p.Problem.Error(), nil
}

// sign signs the cutover's present evidence as user.
func (p *player) sign(ctx context.Context, user string, co apitype.Cutover, reason string) (apitype.Cutover, error) {
	var waivers []string
	for _, b := range co.Blockers {
		if b.Waive != "" {
			waivers = append(waivers, b.Waive)
		}
	}
	return p.signed(ctx, user, "", co.ID, apitype.ApproveRequest{Evidence: co.Evidence, Waivers: waivers, Reason: reason})
}

// signed sends a signature as user, through node if it is given.
func (p *player) signed(ctx context.Context, user, node, id string, r apitype.ApproveRequest) (apitype.Cutover, error) {
	c, err := p.as(user, node)
	if err != nil {
		return apitype.Cutover{}, err
	}
	words := []string{id}
	if node != "" {
		words = append(words, "--addr", p.cfg.Watch.APIs[node])
	}
	words = append(words, "--evidence", r.Evidence)
	for _, w := range r.Waivers {
		words = append(words, "--waive", w)
	}
	p.tell.command("--as "+user+" approve", append(words, "--reason", strconv.Quote(r.Reason))...)
	res, err := c.Approve(ctx, id, r, "")
	if err != nil {
		return apitype.Cutover{}, err
	}
	return res.First()
}

// moves does what moves the stateful name, and returns how long after that was sent
// the last node answered with the cluster.
func (p *player) moves(ctx context.Context, cluster string, do func(ctx context.Context) error) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	began := time.Now()
	var (
		wg   sync.WaitGroup
		took = make([]time.Duration, len(p.nodes))
		errs = make([]error, len(p.nodes))
	)
	for i, node := range p.nodes {
		wg.Go(func() {
			for {
				err := p.answers(ctx, p.cfg.Watch.Stateful, cluster, 0, node)
				if err == nil {
					took[i] = time.Since(began)
					return
				}
				if pause(ctx, moveEvery) != nil {
					errs[i] = err
					return
				}
			}
		})
	}
	err := do(ctx)
	if err != nil {
		cancel()
	}
	wg.Wait()
	if err != nil {
		return 0, err
	}
	return slices.Max(took), errors.Join(errs...)
}
