package mesh

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Bounds of handshakes under way: what strangers can make a node hold. The bound
// by host keeps one of them from taking all the places.
const (
	maxHandshakes        = 512
	maxHandshakesPerHost = 64
)

// A failed accept (out of file descriptors) is tried again after a growing pause.
const (
	minAcceptPause = 5 * time.Millisecond
	maxAcceptPause = time.Second
)

// warnEvery bounds how often the same refused peer is logged.
const warnEvery = time.Minute

// Serve accepts peers on ln and gives them to the listeners of their protocols,
// until ctx is done or the mesh is closed: then it closes ln, ends the handshakes
// under way, and returns nil. Connections handed out live on; Close ends them.
// Several Serve calls may run at once, one for each address.
func (m *Mesh) Serve(ctx context.Context, ln net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	var handshakes sync.WaitGroup
	handshakes.Go(func() {
		select {
		case <-ctx.Done():
		case <-m.closed:
			cancel()
		}
		_ = ln.Close() // Accept returns what matters
	})
	defer handshakes.Wait()
	defer cancel()
	m.mu.Lock()
	if m.addr == nil {
		m.addr = ln.Addr()
	}
	m.mu.Unlock()

	pause := minAcceptPause
	for {
		raw, err := ln.Accept()
		switch {
		case err == nil:
			pause = minAcceptPause
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("accept peers on %s: %w", ln.Addr(), err)
		default:
			m.log.Warn("accept failed, trying again", keyListen, ln.Addr().String(), keyErr, err)
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
			pause = min(2*pause, maxAcceptPause)
			continue
		}
		host := hostOf(raw.RemoteAddr())
		if !m.gate.enter(host) {
			_ = raw.Close() // too many handshakes under way; a node tries again
			continue
		}
		handshakes.Go(func() {
			defer m.gate.leave(host)
			m.accept(ctx, raw)
		})
	}
}

// accept takes one connection through its handshake, within the deadline, and
// hands it out. Whatever fails closes it.
func (m *Mesh) accept(ctx context.Context, raw net.Conn) {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.HandshakeTimeout)
	defer cancel()
	// Closing is the only thing that ends a read or a write of every kind of net.Conn.
	unwatch := context.AfterFunc(ctx, func() { _ = raw.Close() })
	c, err := m.handshake(ctx, raw)
	if err != nil {
		m.logRefusal(raw.RemoteAddr(), c, err)
		_ = raw.Close()
		unwatch()
		return
	}
	m.mu.Lock()
	l := m.listeners[c.proto]
	m.mu.Unlock()
	if l == nil || !l.give(ctx, c) || !unwatch() {
		c.sever()
	}
}

// handshake returns the connection, tracked, qualified and greeted. With an error
// the connection may be non-nil, to say who was refused.
func (m *Mesh) handshake(ctx context.Context, raw net.Conn) (*Conn, error) {
	tc := tls.Server(raw, m.serverConfig())
	if err := tc.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	state := tc.ConnectionState()
	c := &Conn{Conn: tc, raw: raw, proto: state.NegotiatedProtocol, usage: x509.ExtKeyUsageClientAuth}
	if c.proto != ProtoJoin {
		c.chain = state.PeerCertificates
		id, err := IdentityOf(c.chain[0])
		if err != nil {
			return nil, err
		}
		c.peer = id
	}
	theirs, err := readShort(tc)
	if err != nil {
		return c, err
	}
	if err := m.track(c); err != nil {
		return c, err
	}
	refusal := m.admit(c, theirs)
	err = errors.Join(refusal, answer(tc, m.cfg.Version, refusal))
	if err != nil {
		c.forget()
		_ = tc.CloseWrite() // lets the caller read the reason; a failure changes nothing
	}
	return c, err
}

func (m *Mesh) admit(c *Conn, version string) error {
	m.mu.Lock()
	l := m.listeners[c.proto]
	m.mu.Unlock()
	if err := m.qualify(c); err != nil {
		return err
	}
	if err := checkSkew(m.cfg.Version, version); err != nil {
		return err
	}
	if l == nil {
		return fmt.Errorf("%s does not serve %s now", m.Identity().Name, c.proto)
	}
	return nil
}

// serverConfig makes a configuration of the present material for each connection.
func (m *Mesh) serverConfig() *tls.Config {
	mat := m.current.Load()
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		SessionTicketsDisabled: true,
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			// One protocol exactly: a caller that offers several could be checked as one
			// and served as another.
			if len(hello.SupportedProtos) != 1 {
				return nil, errors.New("caller must offer exactly one protocol")
			}
			proto := hello.SupportedProtos[0]
			cfg := &tls.Config{
				MinVersion:             tls.VersionTLS13,
				SessionTicketsDisabled: true,
				NextProtos:             []string{proto},
				Certificates:           []tls.Certificate{mat.certificate},
			}
			switch proto {
			case ProtoJoin:
				cfg.ClientAuth = tls.NoClientCert
			case ProtoRaft, ProtoRPC:
				// VerifyConnection and not ClientCAs: it runs for every connection, resumed
				// ones included, and asks the trust of that moment.
				cfg.ClientAuth = tls.RequireAnyClientCert
				cfg.VerifyConnection = func(state tls.ConnectionState) error {
					_, _, err := m.current.Load().verify(state.PeerCertificates, x509.ExtKeyUsageClientAuth, time.Now())
					return err
				}
			default:
				return nil, fmt.Errorf("no such protocol: %q", proto)
			}
			return cfg, nil
		},
	}
}

// logRefusal tells of refused peers that hold one of our certificates, each once a
// minute. Everybody else is the noise of an open port.
func (m *Mesh) logRefusal(from net.Addr, c *Conn, err error) {
	if c == nil || c.peer.Name == "" {
		m.log.Debug("handshake failed", keyFrom, from.String(), keyErr, err)
		return
	}
	now := time.Now()
	m.mu.Lock()
	last, known := m.warned[c.peer.Name]
	again := known && now.Sub(last) < warnEvery
	if !again {
		m.warned[c.peer.Name] = now
	}
	m.mu.Unlock()
	if !again {
		m.log.Warn("peer refused", keyPeer, c.peer.Name, keyRole, c.peer.Role, keyProto, c.proto, keyFrom, from.String(), keyErr, err)
	}
}

// Listener returns the listener of a protocol: its Accept returns *Conn values
// whose handshake is over. The same one until it is closed; then a new one.
func (m *Mesh) Listener(proto string) net.Listener {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := m.listeners[proto]; l != nil {
		return l
	}
	l := &listener{mesh: m, proto: proto, conns: make(chan *Conn), closed: make(chan struct{})}
	m.listeners[proto] = l
	return l
}

// listener is one protocol's share of the port.
type listener struct {
	mesh   *Mesh
	proto  string
	conns  chan *Conn
	closed chan struct{}
	once   sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
	case <-l.mesh.closed:
	}
	return nil, fmt.Errorf("accept %s: %w", l.proto, net.ErrClosed)
}

func (l *listener) give(ctx context.Context, c *Conn) bool {
	select {
	case l.conns <- c:
		return true
	case <-l.closed:
	case <-l.mesh.closed:
	case <-ctx.Done():
	}
	return false
}

// Close stops this protocol and leaves the port and the other protocols alone.
func (l *listener) Close() error {
	l.once.Do(func() {
		l.mesh.mu.Lock()
		delete(l.mesh.listeners, l.proto)
		l.mesh.mu.Unlock()
		close(l.closed)
	})
	return nil
}

// Addr returns the address of the first Serve, or a placeholder before it.
func (l *listener) Addr() net.Addr {
	l.mesh.mu.Lock()
	defer l.mesh.mu.Unlock()
	if l.mesh.addr == nil {
		return noAddr{}
	}
	return l.mesh.addr
}

type noAddr struct{}

func (noAddr) Network() string { return "tcp" }
func (noAddr) String() string  { return "not listening" }

// gate counts the handshakes under way.
type gate struct {
	mu    sync.Mutex // guards all and hosts
	all   int
	hosts map[string]int
}

func (g *gate) enter(host string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.all >= maxHandshakes || g.hosts[host] >= maxHandshakesPerHost {
		return false
	}
	g.all++
	g.hosts[host]++
	return true
}

func (g *gate) leave(host string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all--
	if g.hosts[host]--; g.hosts[host] == 0 {
		delete(g.hosts, host)
	}
}

func hostOf(addr net.Addr) string {
	host, _, err := net.SplitHostPort(addr.String())
	if err != nil {
		return addr.String()
	}
	return host
}
