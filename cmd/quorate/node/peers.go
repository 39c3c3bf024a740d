package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/quorate/quorate/consensus"
	"github.com/quorate/quorate/consensus/mesh"
)

// openMesh loads this node's certificates and binds the peer port. Without an
// identity it joins first, when node.yaml says how.
func (n *Node) openMesh() error {
	cfg := mesh.Config{Dir: n.dir.join(meshFolder), Version: n.opts.Version, Log: n.log}
	if t := n.cfg.Peer.TLS; t != nil {
		cfg.CAFile, cfg.CertFile, cfg.KeyFile = t.CA, t.Cert, t.Key
	}
	if n.opts.WrapPeer != nil {
		cfg.Dial = n.opts.WrapPeer(new(net.Dialer).DialContext)
	}
	m, err := mesh.Open(cfg)
	if errors.Is(err, mesh.ErrNoIdentity) && n.cfg.Peer.JoinTokenFile != "" {
		if err = n.joinByFile(cfg.Dir); err != nil {
			return err
		}
		n.setBehind()
		m, err = mesh.Open(cfg)
	}
	switch {
	case errors.Is(err, mesh.ErrNoIdentity):
		return damaged(fmt.Errorf("this node has no certificate in %s; run \"quorate init\" for the first node of an installation, else \"quorate join TOKEN@HOST\"", cfg.Dir))
	case err != nil:
		return damaged(err)
	}
	n.mesh = m
	n.onClose(func() { _ = m.Close() }) // closing links has nobody to report to
	if name := m.Identity().Name; name != n.cfg.Name {
		return fmt.Errorf("the certificate in %s is of node %q, node.yaml says %q", cfg.Dir, name, n.cfg.Name)
	}
	if n.peers, err = net.Listen("tcp", n.cfg.Peer.Listen); err != nil {
		return err
	}
	n.onClose(func() { _ = n.peers.Close() })
	n.book = &addressBook{n: n, path: n.dir.join(peersFile), learned: map[string]string{}}
	m.SetAllowed(n.allowed)
	n.book.load()
	n.leaveOthersState()
	return nil
}

// leaveOthersState puts aside what was kept of another installation: its index may
// be far beyond this one's, and then it would go on being the newest.
func (n *Node) leaveOthersState() {
	mine, kept := n.mesh.Identity().Installation, n.view.kept.Load()
	if kept == nil || kept.Installation == mine {
		return
	}
	n.log.Warn("the last known good state is of another installation and is left behind", keyKept, kept.Installation)
	n.view = newView(n.store, nil)
	n.tables.table.Store(nil)
	n.setBehind()
	n.lkg.Rebase(n.store.State())
	// Its epochs say nothing about services of the same name here.
	if err := n.lkg.ForgetFloor(); err != nil {
		n.log.Error("the epochs of another installation cannot be forgotten; services of the same names may be withheld", keyErr, err)
	}
}

// peerName returns the authenticated name of the peer of a connection that the
// mesh made. An operator gets a name that no node can have, so that a certificate
// of one never speaks for a node.
func peerName(c net.Conn) string {
	peer, ok := c.(interface{ Peer() mesh.Identity })
	switch {
	case !ok:
		return ""
	case peer.Peer().Role == mesh.RoleOperator:
		return "operator/" + peer.Peer().Name
	}
	return peer.Peer().Name
}

// allowed reports whether a node of that name may talk to this one. While this
// node knows no members it cannot tell, and certificate and role have to do.
func (n *Node) allowed(name string) bool {
	st := n.view.State()
	if len(st.Members) == 0 || st.Members[name] != nil {
		return true
	}
	// A node that joined a moment ago may be known to the leader only.
	if n.raft == nil {
		return true
	}
	for _, s := range n.raft.Servers() {
		if s.Name == name {
			return true
		}
	}
	// Until it has caught up with a quorum a removed node cannot be told from a new
	// one, which may be the leader that it has to catch up with.
	h := n.raft.Health()
	return !h.Quorum || st.Index != h.Commit
}

// addressBook says at which address a member is dialled. What was heard from the
// member itself at one of the configured addresses goes before what the state
// says: identity is a certificate, and every address may change, all at once.
type addressBook struct {
	n    *Node
	path string

	mu      sync.Mutex // guards learned
	learned map[string]string
}

// load reads the addresses learned in earlier runs. They are a convenience that
// hellos and the state bring back: a damaged file keeps nobody from starting.
func (b *addressBook) load() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, err := readJSON(b.path, &b.learned); err != nil {
		b.n.log.Warn("learned peer addresses are lost and learned anew", keyErr, err)
		b.learned = nil
	}
	if b.learned == nil {
		b.learned = map[string]string{}
	}
}

// addr returns host:port of a member, or "" when it is not known.
func (b *addressBook) addr(name string) string {
	if name == b.n.cfg.Name {
		return b.n.cfg.Peer.Advertise
	}
	b.mu.Lock()
	learned := b.learned[name]
	b.mu.Unlock()
	if learned != "" {
		return learned
	}
	if m := b.n.view.State().Members[name]; m != nil {
		return m.Peer
	}
	return ""
}

// learn remembers that name was reached at, or said it is at, addr.
func (b *addressBook) learn(name, addr string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if addr == "" || name == b.n.cfg.Name || b.learned[name] == addr {
		return
	}
	b.learned[name] = addr
	if err := writeJSON(b.path, b.learned); err != nil {
		b.n.log.Warn("peer addresses are not kept", keyErr, err)
	}
}

// helloEvery is how often configured addresses are asked who is there while a
// member cannot be reached.
const helloEvery = 2 * time.Second

// run asks the addresses of peer.join who is there, whenever some member is not
// reachable, and follows what members say of themselves.
func (b *addressBook) run(ctx context.Context) error {
	for {
		b.follow()
		if b.n.missesPeers() {
			for _, addr := range b.n.cfg.Peer.Join {
				if addr == b.n.cfg.Peer.Advertise {
					continue
				}
				if _, err := b.n.hello(ctx, addr); err != nil && ctx.Err() == nil {
					b.n.log.Debug("configured peer does not answer", keyAddr, addr, keyErr, err)
				}
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(helloEvery):
		}
	}
}

// follow forgets what was learned about members whose own record says otherwise
// since: the record is newer once its member was reached and wrote it.
func (b *addressBook) follow() {
	st := b.n.view.State()
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, addr := range b.learned {
		if m := st.Members[name]; m != nil && m.Peer != addr && b.n.reaches(name) {
			delete(b.learned, name)
		}
	}
}

// missesPeers reports whether some member is not reachable, or none is known yet.
func (n *Node) missesPeers() bool {
	servers := n.raft.Servers()
	for _, s := range servers {
		if !s.Reachable {
			return true
		}
	}
	return len(servers) == 0
}

func (n *Node) reaches(name string) bool {
	for _, s := range n.raft.Servers() {
		if s.Name == name {
			return s.Reachable
		}
	}
	return false
}

// greeting is what nodes tell each other of themselves, before any state is shared.
type greeting struct {
	Name  string `json:"name"`
	Nonce string `json:"nonce"`
	Peer  string `json:"peer"`
	Voter bool   `json:"voter"`

	// Started says that the node's log is not empty: bootstrapping again would
	// fork the installation.
	Started bool `json:"started"`
}

func (n *Node) greeting() greeting {
	return greeting{
		Name: n.cfg.Name, Nonce: n.id.Nonce, Peer: n.cfg.Peer.Advertise,
		Voter: n.cfg.Voter, Started: n.raft.HasState(),
	}
}

// methodHello exchanges greetings.
const methodHello = "node.hello"

// hello asks the node at addr who it is, and tells it who this one is.
func (n *Node) hello(ctx context.Context, addr string) (greeting, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var theirs greeting
	body, from, err := n.raft.CallAddr(ctx, addr, methodHello, mustJSON(n.greeting()))
	if err != nil {
		return theirs, err
	}
	if theirs, err = parseGreeting(from, body); err != nil {
		return theirs, err
	}
	n.book.learn(theirs.Name, addr)
	return theirs, nil
}

// takeHello answers hello.
func (n *Node) takeHello(_ context.Context, from string, body []byte) ([]byte, error) {
	theirs, err := parseGreeting(from, body)
	if err != nil {
		return nil, err
	}
	n.book.learn(theirs.Name, theirs.Peer)
	return mustJSON(n.greeting()), nil
}

// handleCalls registers what peers may ask of this node.
func (n *Node) handleCalls() {
	for method, h := range map[string]consensus.Handler{
		methodHello:       n.takeHello,
		methodReport:      n.takeReport,
		methodMeasure:     n.takeMeasurement,
		methodAcknowledge: n.takeAcknowledgement,
		methodRenew:       n.takeRenewal,
		methodTrust:       n.takeTrust,
		methodCA:          n.takeAuthority,
		methodRenewed:     n.takeRenewNow,
	} {
		n.raft.Handle(method, h)
	}
}
