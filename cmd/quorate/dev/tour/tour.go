// Package tour plays the demo's story with captions: what quorate does by itself,
// what it leaves to people, and what it refuses.
//
// Every step is asserted from outside, as a person would look: DNS answers, the
// API, the databases. All the while every answer of every node is checked and who
// takes writes is counted. The first step that fails ends the tour.
package tour

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/quorate/quorate/api/client"
	"github.com/quorate/quorate/cmd/quorate/dev/watch"
	dnsclient "github.com/quorate/quorate/dnsserver/client"
)

// ErrFailed says that a step did not go as told.
var ErrFailed = errors.New("the tour failed")

// Config is a running demo of three nodes, eu-1, us-1 and ap-1, and where to tell.
type Config struct {
	Watch    watch.SessionConfig // its services, nodes and databases
	Users    map[string]string   // name -> bearer token: alice, bob and carol
	Clusters map[string]netip.Addr

	// Order has the demo do something and says what it did.
	Order func(ctx context.Context, verb string, args ...string) (string, error)

	// Query asks a node's DNS server; nil: over the network.
	Query func(ctx context.Context, server, name string) (*dnsclient.Reply, error)

	Out  io.Writer
	JSON bool // a line of JSON a step instead of the captions
}

// The demo's people; each signs through a node of their own, since any will do.
var seats = map[string]string{"alice": "eu-1", "bob": "us-1", "carol": "ap-1"}

// player plays one tour.
type player struct {
	cfg     Config
	tell    *teller
	nodes   []string // sorted
	watch   *watch.Session
	clients map[string]*client.Client // by user and node
}

// Play plays the tour. Its error is ErrFailed when a step did not go as told.
func Play(ctx context.Context, cfg Config) error {
	p := &player{
		cfg: cfg, tell: &teller{out: cfg.Out, json: cfg.JSON},
		nodes: slices.Sorted(maps.Keys(cfg.Watch.DNS)), clients: map[string]*client.Client{},
	}
	if p.cfg.Query == nil {
		p.cfg.Query = func(ctx context.Context, server, name string) (*dnsclient.Reply, error) {
			return dnsclient.Query(ctx, server, name, "A", dnsclient.Options{Timeout: queryTimeout})
		}
	}
	defer func() {
		for _, c := range p.clients {
			c.Close()
		}
	}()
	p.tell.heading("The tour", "three real nodes (eu-1, us-1, ap-1), three fake clusters (eu, us, ap), two services; it takes about a minute")
	began := time.Now()
	var err error
	if p.watch, err = watch.Watch(ctx, cfg.Watch); err != nil {
		return err
	}
	for i, c := range chapters {
		p.tell.chapter(i+1, c.title, c.caption)
		if err = c.play(p, ctx); err != nil {
			break
		}
	}
	p.watch.Finish()
	if err == nil {
		p.tell.chapter(len(chapters)+1, "What was watched all the while", "Every name was asked 50 times a second at every node, and every database was written to 5 times a second.")
		err = p.sum()
	}
	if err != nil {
		return fmt.Errorf("%w: %v", ErrFailed, err) // what a step was refused for is no exit code of the tour
	}
	p.tell.end(time.Since(began))
	return nil
}

// sum asserts what was watched during the whole tour.
func (p *player) sum() error {
	stateless, stateful := p.watch.Totals()
	writers := p.watch.Writers()
	return errors.Join(
		p.step("no wrong and no empty answer, from any node, at any time", func() (string, error) {
			detail := fmt.Sprintf("%d answers of web, %d of orders-db; %d more were withheld while it moved", stateless.Queries, stateful.Queries-stateful.Withheld, stateful.Withheld)
			return detail, errors.Join(clean("web", stateless), clean("orders-db", stateful))
		}),
		p.step("never two databases that take writes", func() (string, error) {
			if len(writers.Most) != 1 {
				return "", fmt.Errorf("most at once: %v", writers.Most)
			}
			return fmt.Sprintf("%d writes taken, %d refused", writers.Accepted, writers.Writes-writers.Accepted), nil
		}),
	)
}

func clean(name string, c watch.Counts) error {
	if c.Bad() == 0 {
		return nil
	}
	return fmt.Errorf("%s: %d wrong, %d empty; the first: %s", name, c.Wrong, c.Empty, c.Example)
}

// step asserts one thing and tells how it went. What check returns beside an error
// is a detail for the caption.
func (p *player) step(text string, check func() (detail string, err error)) error {
	began := time.Now()
	detail, err := check()
	p.tell.step(text, detail, err, time.Since(began))
	if err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	return nil
}

// order has the demo do something, and tells the command.
func (p *player) order(ctx context.Context, verb string, args ...string) error {
	p.tell.command("dev", append([]string{verb}, args...)...)
	if _, err := p.cfg.Order(ctx, verb, args...); err != nil {
		p.tell.step("the demo does it", "", err, 0)
		return err
	}
	return nil
}

// as returns user's client: through the user's own node, or through node if given.
func (p *player) as(user, node string) (*client.Client, error) {
	if node == "" {
		node = seats[user]
	}
	key := user + "@" + node
	if c := p.clients[key]; c != nil {
		return c, nil
	}
	c, err := client.New(client.Options{Addrs: []string{p.cfg.Watch.APIs[node]}, Token: p.cfg.Users[user]})
	if err == nil {
		p.clients[key] = c
	}
	return c, err
}
