package dev

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Order is one thing a person asks of a running demo.
type Order struct {
	Verb string   `json:"verb"` // toggle, blind, cut, heal, kill, start, lag
	Args []string `json:"args"`
}

// answer is what the demo says back: what it did, or why not.
type answer struct {
	Done  string `json:"done,omitempty"`
	Error string `json:"error,omitempty"`
	Usage bool   `json:"usage,omitempty"` // the order itself is wrong, rather than its outcome
}

// ErrUsage marks an order that names something the demo does not have.
var ErrUsage = errors.New("wrong order")

// ErrNoDemo says that no demo answers on the control socket.
var ErrNoDemo = errors.New("no demo is running: start one with \"quorate dev\"")

// Send hands an order to the demo that listens on socket and returns what it
// did. It waits until the order has taken effect.
func Send(ctx context.Context, socket string, o Order) (string, error) {
	body, err := json.Marshal(o)
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://demo/order", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	var a answer
	if err := ask(req, socket, &a); err != nil {
		return "", err
	}
	switch {
	case a.Usage:
		return "", fmt.Errorf("%w: %s", ErrUsage, a.Error)
	case a.Error != "":
		return "", errors.New(a.Error)
	}
	return a.Done, nil
}

// Databases asks the demo that listens on socket where its databases are: URLs by
// cluster.
func Databases(ctx context.Context, socket string) (map[string]string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://demo/databases", nil)
	if err != nil {
		return nil, err
	}
	var urls map[string]string
	return urls, ask(req, socket, &urls)
}

// ask sends a request to the demo on socket and decodes its answer.
func ask(req *http.Request, socket string, into any) error {
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("%w (%s does not answer)", ErrNoDemo, socket)
	}
	defer func() { _ = resp.Body.Close() }() // read to its end below
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		return fmt.Errorf("read the demo's answer: %w", err)
	}
	return nil
}

// serveControl takes orders on ln until ctx ends.
func (d *Demo) serveControl(ctx context.Context, ln net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /order", func(w http.ResponseWriter, r *http.Request) {
		var (
			o Order
			a answer
		)
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&o); err != nil {
			a = answer{Error: err.Error(), Usage: true}
		} else if done, err := d.carryOut(r.Context(), o); err != nil {
			a = answer{Error: strings.TrimPrefix(err.Error(), ErrUsage.Error()+": "), Usage: errors.Is(err, ErrUsage)}
		} else {
			a = answer{Done: done}
			d.say("%s", done)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(a) // the asker has gone if this fails
	})
	mux.HandleFunc("GET /databases", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(d.databases()) // the asker has gone if this fails
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the demo's control socket: %w", err)
	}
	return nil
}

// carryOut does what o says and reports it in a line.
func (d *Demo) carryOut(ctx context.Context, o Order) (string, error) {
	switch o.Verb {
	case "toggle":
		return d.toggle(o.Args)
	case "blind":
		return d.blindNode(o.Args)
	case "cut":
		return d.cutNode(o.Args)
	case "heal":
		d.faults.heal()
		return "healed: every observer sees and every link is up again", nil
	case "kill":
		return d.killNodes(o.Args)
	case "start":
		return d.startNodes(ctx, o.Args)
	case "lag":
		return d.lag(o.Args)
	}
	return "", fmt.Errorf("%w: unknown verb %q", ErrUsage, o.Verb)
}

func (d *Demo) toggle(args []string) (string, error) {
	if len(args) != 2 || args[1] != "up" && args[1] != "down" {
		return "", fmt.Errorf("%w: toggle wants CLUSTER up|down, got %q", ErrUsage, args)
	}
	c, err := d.cluster(args[0])
	if err != nil {
		return "", err
	}
	if args[1] == "down" {
		c.down()
		return fmt.Sprintf("cluster %s is down: its listener and connections are closed", c.name), nil
	}
	if err := c.up(); err != nil {
		return "", err
	}
	return fmt.Sprintf("cluster %s is up", c.name), nil
}

func (d *Demo) blindNode(args []string) (string, error) {
	if len(args) != 2 {
		return "", fmt.Errorf("%w: blind wants NODE CLUSTER, got %q", ErrUsage, args)
	}
	n, err := d.node(args[0])
	if err != nil {
		return "", err
	}
	c, err := d.cluster(args[1])
	if err != nil {
		return "", err
	}
	d.faults.setBlind(n.name, c.name)
	return fmt.Sprintf("%s no longer sees cluster %s: its probes are dropped", n.name, c.name), nil
}

func (d *Demo) cutNode(args []string) (string, error) {
	names, err := d.nodeNames(args, "cut")
	if err != nil {
		return "", err
	}
	for _, n := range names {
		d.faults.setCut(n)
	}
	return fmt.Sprintf("%s cut off from its peers; DNS and console of it stay reachable", strings.Join(names, ", ")), nil
}

func (d *Demo) killNodes(args []string) (string, error) {
	names, err := d.nodeNames(args, "kill")
	if err != nil {
		return "", err
	}
	var killed, not []string
	for _, name := range names {
		n, err := d.node(name)
		if err != nil {
			return "", err
		}
		if n.running() == nil {
			not = append(not, name)
			continue
		}
		n.kill()
		killed = append(killed, name)
	}
	return outcome("killed ", killed, not, "not running"), nil
}

// outcome says what was done to which nodes, and which were so already.
func outcome(verb string, done, already []string, state string) string {
	var parts []string
	if len(done) > 0 {
		parts = append(parts, verb+strings.Join(done, ", "))
	}
	if len(already) > 0 {
		parts = append(parts, strings.Join(already, ", ")+": already "+state)
	}
	return strings.Join(parts, "; ")
}

func (d *Demo) startNodes(ctx context.Context, args []string) (string, error) {
	names, err := d.nodeNames(args, "start")
	if err != nil {
		return "", err
	}
	var started, not []string
	for _, name := range names {
		n, err := d.node(name)
		if err != nil {
			return "", err
		}
		if n.running() != nil {
			not = append(not, name)
			continue
		}
		if err := n.start(ctx); err != nil {
			return "", err
		}
		started = append(started, name)
	}
	return outcome("started ", started, not, "running"), nil
}

// nodeNames resolves NODE... or "all".
func (d *Demo) nodeNames(args []string, verb string) ([]string, error) {
	if len(args) == 0 {
		return nil, fmt.Errorf("%w: %s wants a node (%s) or all", ErrUsage, verb, strings.Join(d.allNodes(), ", "))
	}
	if len(args) == 1 && args[0] == "all" {
		return d.allNodes(), nil
	}
	for _, name := range args {
		if _, err := d.node(name); err != nil {
			return nil, err
		}
	}
	return args, nil
}

func (d *Demo) allNodes() []string {
	names := make([]string, 0, len(d.nodes))
	for _, n := range d.nodes {
		names = append(names, n.name)
	}
	return names
}

func (d *Demo) node(name string) (*demoNode, error) {
	i := slices.IndexFunc(d.nodes, func(n *demoNode) bool { return n.name == name })
	if i < 0 {
		return nil, fmt.Errorf("%w: no node %q; the demo has %s", ErrUsage, name, strings.Join(d.allNodes(), ", "))
	}
	return d.nodes[i], nil
}

func (d *Demo) cluster(name string) (*fakeCluster, error) {
	names := make([]string, 0, len(d.clusters))
	for _, c := range d.clusters {
		if c.name == name {
			return c, nil
		}
		names = append(names, c.name)
	}
	return nil, fmt.Errorf("%w: no cluster %q; the demo has %s", ErrUsage, name, strings.Join(names, ", "))
}
