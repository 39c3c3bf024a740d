package dev

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/quorate/quorate/api/client"
	"github.com/quorate/quorate/cmd/quorate/dev/database"
)

// The demo's services.
const (
	webName    = "web"       // stateless
	ordersName = "orders-db" // stateful
)

// ordersSides are how many of the clusters have a database of orders-db.
const ordersSides = 2

// openData gives the first clusters a database each and starts them.
func (d *Demo) openData() error {
	sides := d.clusters[:ordersSides]
	names := make([]string, 0, len(sides))
	for _, c := range sides {
		names = append(names, c.name)
	}
	d.data = database.NewSet(installation, names, time.Now)
	for _, c := range sides {
		c.data = &fakeServer{handler: d.data.Handler(c.name), changed: func(up bool) {
			if up {
				d.data.Up(c.name)
			} else {
				d.data.Down(c.name)
			}
		}}
	}
	return openServers(sides, func(c *fakeCluster) *fakeServer { return c.data }, firstDataPort)
}

const (
	// tokenEvery is how often the databases read the ownership token: several times
	// in the time for which they act on it, and cheap for an idle demo.
	tokenEvery = 250 * time.Millisecond

	// tokenTimeout is for a node that does not answer.
	tokenTimeout = 500 * time.Millisecond
)

// feedData tells the databases the ownership token until ctx ends. Each time the
// next node is asked first, so that none is trusted for ever; one that hears no
// leader is not believed, and another one is asked.
func (d *Demo) feedData(ctx context.Context) error {
	var clients []*client.Client
	for _, n := range d.nodes {
		c, err := client.New(client.Options{Addrs: []string{"unix:" + n.socket()}, Timeout: tokenTimeout})
		if err != nil {
			return err
		}
		defer c.Close()
		clients = append(clients, c)
	}
	again := time.NewTicker(tokenEvery)
	defer again.Stop()
	for first := 0; ; first++ {
		for i := range clients {
			if o := readOwnership(ctx, clients[(first+i)%len(clients)]); !o.Invalid {
				d.data.Learn(o)
				break
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-again.C:
		}
	}
}

// readOwnership asks one node. Its answer is invalid when it does not come, or when
// the node hears no leader.
func readOwnership(ctx context.Context, c *client.Client) database.Ownership {
	res, err := c.Services(ctx, ordersName)
	if err != nil || len(res.Items) != 1 || res.Items[0].Stateful == nil || res.Meta.Stale {
		return database.Ownership{Invalid: true}
	}
	s := res.Items[0].Stateful
	return database.Ownership{
		Token:  database.Token{Installation: installation, Generation: s.Generation, Epoch: s.Epoch},
		Active: s.Active, Held: s.Moving || s.Unconfirmed, Index: res.Meta.Index,
	}
}

// startFeeding runs feedData until the returned function is called.
func (d *Demo) startFeeding(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := d.feedData(ctx); err != nil {
			d.say("databases: %v", err)
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

// databases are the URLs of the databases, by cluster.
func (d *Demo) databases() map[string]string {
	urls := map[string]string{}
	for _, c := range d.clusters {
		if c.data != nil {
			urls[c.name] = "http://" + c.data.bind.String()
		}
	}
	return urls
}

// maxLag bounds the lag that a person may ask for.
const maxLag = 24 * time.Hour

// lagNote is what a person should know who looks for the lag in a cutover.
const lagNote = "; quorate reads no lag in this version, so lag_within_rpo stays not configured and needs a waiver; quorate dev watch shows the rows"

// lag makes replication between the databases trail, stop or keep up.
func (d *Demo) lag(args []string) (string, error) {
	if len(args) != 2 {
		return "", fmt.Errorf("%w: lag wants SERVICE SECONDS|frozen|ok, got %q", ErrUsage, args)
	}
	if args[0] != ordersName {
		return "", fmt.Errorf("%w: no service %q with databases; the demo has %s", ErrUsage, args[0], ordersName)
	}
	switch args[1] {
	case "ok":
		d.data.SetLag(0)
		return ordersName + " replicates at once again" + lagNote, nil
	case "frozen":
		d.data.Freeze()
		return ordersName + " no longer replicates: what is written now would be lost with the active side" + lagNote, nil
	}
	seconds, err := strconv.ParseFloat(args[1], 64)
	late := time.Duration(seconds * float64(time.Second))
	if err != nil || !(seconds >= 0) || seconds > maxLag.Seconds() {
		return "", fmt.Errorf("%w: lag must be seconds from 0 to %.0f, frozen or ok, is %q", ErrUsage, maxLag.Seconds(), args[1])
	}
	d.data.SetLag(late)
	return fmt.Sprintf("%s replicates %s late: the last writes before a loss of the active side would be lost%s", ordersName, late, lagNote), nil
}
