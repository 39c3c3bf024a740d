package dev

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
)

// faults is what the demo does to its nodes: probes it drops and peer links it
// cuts. It is asked at every dial; it also closes connections made before a cut.
type faults struct {
	mu    sync.Mutex         // guards all below
	blind map[[2]string]bool // node, cluster
	cut   map[string]bool    // node
	links map[*link]bool
}

func newFaults() *faults {
	return &faults{blind: map[[2]string]bool{}, cut: map[string]bool{}, links: map[*link]bool{}}
}

// setBlind drops node's probes of cluster from now on.
func (f *faults) setBlind(node, cluster string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.blind[[2]string{node, cluster}] = true
}

// setCut cuts every peer link of node from now on, those in use included.
func (f *faults) setCut(node string) {
	f.mu.Lock()
	f.cut[node] = true
	var broken []*link
	for l := range f.links {
		if l.from == node || l.to == node {
			broken = append(broken, l)
		}
	}
	f.mu.Unlock()
	for _, l := range broken {
		_ = l.Close() // the cut is the point; both ends see it
	}
}

// heal undoes every blinding and cut.
func (f *faults) heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.blind)
	clear(f.cut)
}

// dialFunc has the shape of net.Dialer.DialContext.
type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// probeDial wraps dial for the probes of node. A dropped probe hangs until its
// deadline, as one does behind a firewall that drops.
func (f *faults) probeDial(node string, clusters []*fakeCluster, dial dialFunc) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		to, err := netip.ParseAddrPort(addr)
		if err != nil {
			return dial(ctx, network, addr)
		}
		for _, c := range clusters {
			if c.addr != to.Addr() {
				continue
			}
			if f.isBlind(node, c.name) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			for _, server := range c.servers() {
				if server.port == to.Port() {
					addr = server.bind.String()
				}
			}
		}
		return dial(ctx, network, addr)
	}
}

func (f *faults) isBlind(node, cluster string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.blind[[2]string{node, cluster}]
}

// peerDial wraps dial for node's links to its peers; names maps a peer address
// to the node that listens there.
func (f *faults) peerDial(node string, names map[string]string, dial dialFunc) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		to := names[addr]
		if f.isCut(node) || f.isCut(to) {
			return nil, fmt.Errorf("dial %s: cut off by the demo", to)
		}
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		l := &link{Conn: conn, from: node, to: to, faults: f}
		f.mu.Lock()
		f.links[l] = true
		f.mu.Unlock()
		return l, nil
	}
}

func (f *faults) isCut(node string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cut[node]
}

// link is a connection between two nodes that a cut can break.
type link struct {
	net.Conn
	from, to string
	faults   *faults
}

// Close forgets and closes the link.
func (l *link) Close() error {
	l.faults.mu.Lock()
	delete(l.faults.links, l)
	l.faults.mu.Unlock()
	return l.Conn.Close()
}
