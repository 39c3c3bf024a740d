package consensustest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"
)

// Network is an in-memory network between named nodes. Links are cut one way at
// a time. Like TCP, a cut link loses nothing that was sent: bytes are held and
// arrive after Heal, unless an end gave up before. It needs no real network, so
// it works inside a testing/synctest bubble.
type Network struct {
	// Latency of one way, read when a chunk is sent; zero delivers at once. Set it
	// before the network is used.
	Latency time.Duration

	mu        sync.Mutex // guards what follows
	listeners map[string]*listener
	cut       map[[2]string]bool
	changed   chan struct{} // closed when cut changes
	conns     map[*conn]struct{}
	links     map[string]*Links
	refused   map[string]bool // nodes whose links are reset and refused, both ways
}

// NewNetwork returns a network without nodes.
func NewNetwork() *Network {
	return &Network{
		listeners: map[string]*listener{},
		cut:       map[[2]string]bool{},
		changed:   make(chan struct{}),
		conns:     map[*conn]struct{}{},
		links:     map[string]*Links{},
		refused:   map[string]bool{},
	}
}

// Links returns name's view of the network: a consensus.Links. After Down it is
// dead, and taking it again brings the node back.
func (n *Network) Links(name string) *Links {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := &Links{net: n, name: name}
	n.links[name] = l
	return l
}

// Cut stops traffic between a and b, both ways.
func (n *Network) Cut(a, b string) { n.set(true, [2]string{a, b}, [2]string{b, a}) }

// Drop stops traffic from one node to another, one way only.
func (n *Network) Drop(from, to string) { n.set(true, [2]string{from, to}) }

// Join undoes Cut and Drop between a and b.
func (n *Network) Join(a, b string) { n.set(false, [2]string{a, b}, [2]string{b, a}) }

// Isolate cuts name off from all of others.
func (n *Network) Isolate(name string, others ...string) {
	for _, o := range others {
		if o != name {
			n.Cut(name, o)
		}
	}
}

// Refuse resets every connection of name and refuses new ones, both ways, until
// Heal: a cut that is noticed at once.
func (n *Network) Refuse(name string) {
	n.mu.Lock()
	n.refused[name] = true
	gone := n.connsOfLocked(name)
	n.mu.Unlock()
	for _, c := range gone {
		c.reset()
	}
}

// connsOfLocked returns the connections that name has an end of.
func (n *Network) connsOfLocked(name string) []*conn {
	var all []*conn
	for c := range n.conns {
		if c.local == name || c.remote == name {
			all = append(all, c)
		}
	}
	return all
}

// Heal undoes every cut.
func (n *Network) Heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut = map[[2]string]bool{}
	n.refused = map[string]bool{}
	n.wakeLocked()
}

// Down resets every connection of name and refuses new ones, as the end of its
// process would.
func (n *Network) Down(name string) {
	n.mu.Lock()
	gone := n.connsOfLocked(name)
	for key := range n.listeners {
		if strings.HasPrefix(key, name+"|") {
			delete(n.listeners, key)
		}
	}
	delete(n.links, name)
	n.mu.Unlock()
	for _, c := range gone {
		c.reset()
	}
}

func (n *Network) set(cut bool, links ...[2]string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range links {
		if cut {
			n.cut[l] = true
		} else {
			delete(n.cut, l)
		}
	}
	n.wakeLocked()
}

func (n *Network) wakeLocked() {
	close(n.changed)
	n.changed = make(chan struct{})
}

// open reports whether from reaches to, and a channel closed when that may change.
func (n *Network) open(from, to string) (bool, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.cut[[2]string{from, to}], n.changed
}

// Links is one node's side of a Network.
type Links struct {
	net  *Network
	name string
}

// Dial connects to the node called name; addr is ignored. It hangs until ctx
// ends while the link is cut.
func (l *Links) Dial(ctx context.Context, proto, name, _ string) (net.Conn, error) {
	for {
		out, changed := l.net.open(l.name, name)
		back, _ := l.net.open(name, l.name)
		if out && back {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("dial %s: %w", name, ctx.Err())
		}
	}
	l.net.mu.Lock()
	ln := l.net.listeners[name+"|"+proto]
	dead := l.net.links[l.name] != l || l.net.refused[l.name] || l.net.refused[name]
	l.net.mu.Unlock()
	if ln == nil || dead {
		return nil, fmt.Errorf("dial %s: connection refused", name)
	}
	here, there := l.net.pipe(l.name, name)
	select {
	case ln.queue <- there:
		return here, nil
	case <-ln.done:
		here.reset()
		return nil, fmt.Errorf("dial %s: connection refused", name)
	case <-ctx.Done():
		here.reset()
		return nil, fmt.Errorf("dial %s: %w", name, ctx.Err())
	}
}

// Listener returns this node's listener for proto.
func (l *Links) Listener(proto string) net.Listener {
	l.net.mu.Lock()
	defer l.net.mu.Unlock()
	key := l.name + "|" + proto
	if ln := l.net.listeners[key]; ln != nil {
		return ln
	}
	ln := &listener{name: l.name, queue: make(chan *conn, 16), done: make(chan struct{})}
	ln.forget = func() {
		l.net.mu.Lock()
		defer l.net.mu.Unlock()
		if l.net.listeners[key] == ln {
			delete(l.net.listeners, key)
		}
	}
	l.net.listeners[key] = ln
	return ln
}

type listener struct {
	name   string
	queue  chan *conn
	once   sync.Once
	done   chan struct{}
	forget func()
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.queue:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.done); l.forget() })
	return nil
}

func (l *listener) Addr() net.Addr { return addr(l.name) }

type addr string

func (a addr) Network() string { return "memory" }
func (a addr) String() string  { return string(a) }

// PeerName names the node at the other end of a connection of a Network.
func PeerName(c net.Conn) string {
	if mc, ok := c.(*conn); ok {
		return mc.remote
	}
	return ""
}

var errReset = errors.New("connection reset by peer")
