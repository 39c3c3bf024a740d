package consensus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// transport is raft's network for one session. Raft's addresses are ServerIDs
// here, turned into an address by Config.Addr at every dial: identity is a name,
// and every address may change.
//
// Each connection starts with the ids of both ends, and is refused when the one
// meant is not this node's. Raft's requests carry no target: without this a node
// that came back under its name with a new nonce would answer for its old id too,
// and count as two voters.
type transport struct {
	*raft.NetworkTransport
	layer *streamLayer
}

func (n *Node) newTransport() *transport {
	ctx, cancel := context.WithCancel(context.Background())
	layer := &streamLayer{
		n: n, ctx: ctx, cancel: cancel,
		queue: make(chan net.Conn),
		conns: map[net.Conn]struct{}{}, warned: map[string]time.Time{},
	}
	return &transport{
		layer: layer,
		NetworkTransport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			Stream:          layer,
			MaxPool:         3,
			MaxRPCsInFlight: maxRPCsInFlight,
			Timeout:         n.cfg.Profile.Transport,
			Logger:          n.raftLog,
		}),
	}
}

// SetHeartbeatHandler sets none, so that heartbeats reach raft one by one with
// everything else. On its fast path a heartbeat changes term and role beside
// raft's main goroutine: one of the old term that comes as this node stands for
// election takes the new term back, and the node then leads in a term it does not
// know of, for ever and without a lease (hashicorp/raft #695). The price is that
// a follower whose disk stalls does not answer heartbeats meanwhile.
func (t *transport) SetHeartbeatHandler(func(raft.RPC)) {}

// streamLayer implements raft.StreamLayer over Links. It keeps every connection,
// so that Close ends them all: heartbeats must stop at once.
// errNotDialled marks a request that was not sent, for there was nobody to send it to.
var errNotDialled = errors.New("peer not dialled")

// AppendEntries waits for a peer that cannot be dialled instead of failing. Raft
// pauses longer after each failure, up to ten seconds, and forgets that only with a
// success: a node that came back would be left for so long with what it had, which
// nobody else answers any more. Heartbeats fail at once; raft bounds their pauses.
func (t *transport) AppendEntries(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	n := t.layer.n
	for {
		err := t.NetworkTransport.AppendEntries(id, target, args, resp)
		if !errors.Is(err, errNotDialled) || isHeartbeat(args) || !n.leadsIn(args.Term) {
			return err
		}
		select {
		case <-time.After(n.cfg.Profile.pingEvery()):
		case <-t.layer.ctx.Done():
			return err
		}
	}
}

// isHeartbeat tells raft's heartbeats from its replication: they name no entry.
func isHeartbeat(args *raft.AppendEntriesRequest) bool {
	return args.PrevLogEntry == 0 && args.PrevLogTerm == 0 && len(args.Entries) == 0 && args.LeaderCommitIndex == 0
}

// leadsIn reports whether this node leads in that term.
func (n *Node) leadsIn(term uint64) bool {
	s := n.session()
	return s != nil && s.raft.State() == raft.Leader && s.raft.CurrentTerm() == term
}

type streamLayer struct {
	n      *Node
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	queue  chan net.Conn // accepted and greeted

	mu     sync.Mutex // guards what follows
	conns  map[net.Conn]struct{}
	warned map[string]time.Time // when a refused peer was last told of, by name
}

func (l *streamLayer) Accept() (net.Conn, error) {
	select {
	case c := <-l.queue:
		return c, nil
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}

func (l *streamLayer) Close() error {
	l.cancel()
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		_ = c.Close() // it is being thrown away
	}
	clear(l.conns)
	return nil
}

func (l *streamLayer) Addr() net.Addr { return idAddr(l.n.id) }

type idAddr string

func (a idAddr) Network() string { return ProtoRaft }
func (a idAddr) String() string  { return string(a) }

func (l *streamLayer) Dial(id raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(l.ctx, timeout)
	defer cancel()
	name, _ := SplitServerID(string(id))
	c, err := l.n.dial(ctx, ProtoRaft, name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotDialled, err)
	}
	hello := append(append([]byte{byte(len(id))}, id...), byte(len(l.n.id)))
	hello = append(hello, l.n.id...)
	if err = c.SetDeadline(time.Now().Add(timeout)); err == nil {
		_, err = c.Write(hello)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("greet %s: %w", id, err), c.Close())
	}
	return l.keep(c)
}

// keep returns c such that Close of the layer closes it.
func (l *streamLayer) keep(c net.Conn) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return nil, errors.Join(net.ErrClosed, c.Close())
	}
	kept := &keptConn{Conn: c, layer: l}
	l.conns[kept] = struct{}{}
	return kept, nil
}

type keptConn struct {
	net.Conn
	layer *streamLayer
}

// Close may be called by the layer, which holds mu, or by raft.
func (c *keptConn) Close() error {
	if c.layer.ctx.Err() == nil {
		c.layer.mu.Lock()
		delete(c.layer.conns, c)
		c.layer.mu.Unlock()
	}
	return c.Conn.Close()
}

// refusalReminder is how often a peer that goes on dialling a node that is no more
// is told of at WARN: raft dials several times a second until an operator acts.
const refusalReminder = time.Minute

// refused logs a refused connection, at DEBUG when that peer was told of lately.
func (l *streamLayer) refused(peer string, err error) {
	l.mu.Lock()
	level := slog.LevelDebug
	if last, ok := l.warned[peer]; !ok || time.Since(last) >= refusalReminder {
		level, l.warned[peer] = slog.LevelWarn, time.Now()
	}
	l.mu.Unlock()
	l.n.log.Log(l.ctx, level, "raft connection refused", keyPeer, peer, keyErr, err)
}

// welcome reads the greeting of an accepted connection and queues it for raft.
func (l *streamLayer) welcome(c net.Conn) {
	kept, err := l.keep(c)
	if err != nil {
		return
	}
	if err := l.greeted(c); err != nil {
		if l.ctx.Err() == nil && !errors.Is(err, io.EOF) {
			l.refused(l.n.cfg.PeerName(c), err)
		}
		_ = kept.Close() // refused anyway
		return
	}
	select {
	case l.queue <- kept:
	case <-l.ctx.Done():
		_ = kept.Close() // the session is over
	}
}

func (l *streamLayer) greeted(c net.Conn) error {
	if err := c.SetDeadline(time.Now().Add(l.n.cfg.Profile.Transport)); err != nil {
		return err
	}
	target, err := readShort(c)
	if err != nil {
		return err
	}
	source, err := readShort(c)
	if err != nil {
		return err
	}
	if target != string(l.n.id) {
		return fmt.Errorf("meant for %s, this is %s", target, l.n.id)
	}
	if name, _ := SplitServerID(source); name != l.n.cfg.PeerName(c) {
		return fmt.Errorf("from %s, whose certificate says %s", source, l.n.cfg.PeerName(c))
	}
	return c.SetDeadline(time.Time{})
}

func readShort(r io.Reader) (string, error) {
	var size [1]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return "", err
	}
	b := make([]byte, size[0])
	_, err := io.ReadFull(r, b)
	return string(b), err
}

// dial connects to a member by name.
func (n *Node) dial(ctx context.Context, proto, name string) (net.Conn, error) {
	addr := n.cfg.Addr(name)
	if addr == "" {
		return nil, fmt.Errorf("dial %s: no address known", name)
	}
	return n.cfg.Links.Dial(ctx, proto, name, addr)
}

// acceptRaft hands raft's connections to the session of the moment, and refuses
// them while there is none.
func (n *Node) acceptRaft(ln net.Listener) {
	n.accept(ln, func(c net.Conn) {
		s := n.session()
		if s == nil {
			_ = c.Close() // parked: the others must see it at once
			return
		}
		s.trans.layer.welcome(c)
	})
}

// accept runs serve for each connection until the listener is closed, then waits
// for them.
func (n *Node) accept(ln net.Listener, serve func(net.Conn)) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		c, err := ln.Accept()
		if err != nil {
			if n.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			n.log.Warn("accept failed", keyErr, err)
			select {
			case <-time.After(acceptPause):
			case <-n.ctx.Done():
				return
			}
			continue
		}
		wg.Go(func() { serve(c) })
	}
}

// acceptPause keeps a broken listener from spinning.
const acceptPause = 100 * time.Millisecond
