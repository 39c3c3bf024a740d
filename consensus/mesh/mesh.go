// Package mesh connects the nodes of an installation: a private CA, one TCP port
// with mutual TLS 1.3, and who may say what on it.
//
// It promises that a connection it hands out is to the node it names, of this
// installation, in a role its protocol allows, and that it is closed once that
// stops being so. It keeps the last good certificate and trust when new material
// is invalid. It never resumes a session, never decides by address, and knows
// nothing of Raft or of what travels through it.
package mesh

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// The protocols of the peer port, by ALPN. ProtoRaft takes voters and nonvoters;
// ProtoRPC takes operators too; ProtoJoin takes anybody, and shows a certificate
// without asking for one.
const (
	ProtoRaft = "quorate-raft"
	ProtoRPC  = "quorate-rpc"
	ProtoJoin = "quorate-join"
)

const (
	defaultHandshakeTimeout = 10 * time.Second
	// defaultMaxAge bounds for how long a removed certificate can still be of use,
	// whatever else goes wrong with its removal.
	defaultMaxAge = time.Hour
)

// ErrNoAuthority says that this node holds no CA key and cannot sign.
var ErrNoAuthority = errors.New("this node holds no CA key")

// Config configures a Mesh. Only Dir is needed.
type Config struct {
	Dir string // holds ca.crt, peer.crt, peer.key and, on voters, ca.key

	// CAFile, CertFile and KeyFile name files elsewhere than in Dir, for
	// certificates that somebody else makes.
	CAFile, CertFile, KeyFile string

	// Allowed reports whether the node of that name may use ProtoRaft and ProtoRPC
	// at all; nil allows every certificate of the right role. See SetAllowed.
	Allowed func(name string) bool

	// Version is told to peers; one that is more than a minor apart is refused.
	// Empty, or not MAJOR.MINOR.PATCH: nothing is refused.
	Version string

	Dial             func(ctx context.Context, network, addr string) (net.Conn, error) // nil: net.Dialer
	HandshakeTimeout time.Duration                                                     // from accept or dial to the end of the handshake; 0: 10 s
	MaxAge           time.Duration                                                     // connections are closed at that age, give or take a minute; 0: 1 h
	Log              *slog.Logger                                                      // nil: none
}

// Mesh is one node's place among its peers. It is safe for concurrent use.
type Mesh struct {
	cfg     Config
	paths   paths
	log     *slog.Logger
	allowed atomic.Pointer[func(string) bool]
	current atomic.Pointer[material]
	closed  chan struct{}
	gate    gate

	// writing serialises changes of the material and its files.
	writing sync.Mutex

	mu        sync.Mutex // guards what follows
	conns     map[*Conn]struct{}
	listeners map[string]*listener
	addr      net.Addr
	warned    map[string]time.Time
	over      bool
}

// Open loads the node's certificates. A certificate that is out of date is no
// error, for the node must still answer DNS; it is logged, and peers refuse it.
// ErrNoIdentity: the directory has none yet.
func Open(cfg Config) (*Mesh, error) {
	p := pathsIn(cfg.Dir)
	p.ca = cmp.Or(cfg.CAFile, p.ca)
	p.cert = cmp.Or(cfg.CertFile, p.cert)
	p.key = cmp.Or(cfg.KeyFile, p.key)
	cfg.HandshakeTimeout = cmp.Or(cfg.HandshakeTimeout, defaultHandshakeTimeout)
	cfg.MaxAge = cmp.Or(cfg.MaxAge, defaultMaxAge)
	if cfg.Dial == nil {
		cfg.Dial = new(net.Dialer).DialContext
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	mat, err := load(p)
	if err != nil {
		return nil, fmt.Errorf("open mesh: %w", err)
	}
	m := &Mesh{
		cfg:       cfg,
		paths:     p,
		log:       cfg.Log,
		closed:    make(chan struct{}),
		gate:      gate{hosts: map[string]int{}},
		conns:     map[*Conn]struct{}{},
		listeners: map[string]*listener{},
		warned:    map[string]time.Time{},
	}
	m.current.Store(mat)
	m.allowed.Store(&cfg.Allowed)
	m.logDates(mat)
	return m, nil
}

func (m *Mesh) logDates(mat *material) {
	leaf, now := mat.chain[0], time.Now()
	switch {
	case now.After(leaf.NotAfter):
		m.log.Error("node certificate expired, peers refuse this node", keyNode, mat.identity.Name, keyExpired, leaf.NotAfter)
	case now.Before(leaf.NotBefore):
		m.log.Error("node certificate is not valid yet, check this node's clock", keyNode, mat.identity.Name, keyValidFrom, leaf.NotBefore)
	}
}

// Identity returns who this node is by its present certificate.
func (m *Mesh) Identity() Identity { return m.current.Load().identity }

// Validity returns from when until when the present certificate is valid.
func (m *Mesh) Validity() (notBefore, notAfter time.Time) {
	leaf := m.current.Load().chain[0]
	return leaf.NotBefore, leaf.NotAfter
}

// Issuer returns the fingerprint of the CA the present certificate ends in.
func (m *Mesh) Issuer() string { return m.current.Load().issuer }

// Trust returns the certificates of the trusted CAs.
func (m *Mesh) Trust() []string {
	mat := m.current.Load()
	pems := make([]string, 0, len(mat.bundle))
	for _, c := range mat.bundle {
		pems = append(pems, encodeCertificate(c.Raw))
	}
	return pems
}

// Authority returns the CA with that fingerprint that this node can sign with, or
// the newest for "". ErrNoAuthority: this node does not hold its key.
func (m *Mesh) Authority(fingerprint string) (*Authority, error) {
	for _, a := range m.current.Load().authorities {
		if fingerprint == "" || a.Fingerprint() == fingerprint {
			return a, nil
		}
	}
	if fingerprint != "" {
		return nil, fmt.Errorf("%w: %s", ErrNoAuthority, fingerprint)
	}
	return nil, ErrNoAuthority
}

// Close closes every connection and listener. Serve and Accept return.
func (m *Mesh) Close() error {
	m.mu.Lock()
	if m.over {
		m.mu.Unlock()
		return nil
	}
	m.over = true
	close(m.closed)
	conns := m.connsLocked()
	m.mu.Unlock()
	for _, c := range conns {
		c.sever()
	}
	return nil
}

func (m *Mesh) connsLocked() []*Conn {
	conns := make([]*Conn, 0, len(m.conns))
	for c := range m.conns {
		conns = append(conns, c)
	}
	// The order decides nothing but the log's.
	slices.SortFunc(conns, func(a, b *Conn) int { return a.opened.Compare(b.opened) })
	return conns
}
