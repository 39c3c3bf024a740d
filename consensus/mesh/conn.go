package mesh

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// ErrWrongPeer says that somebody else answered than the node that was dialled.
var ErrWrongPeer = errors.New("wrong peer")

// ErrRefused says that the peer was the right one and refused this node.
var ErrRefused = errors.New("refused by peer")

// Conn is an authenticated connection. It closes by itself when it is old, and when
// trust or membership change so that its peer no longer qualifies.
type Conn struct {
	net.Conn
	mesh   *Mesh
	peer   Identity
	proto  string
	usage  x509.ExtKeyUsage
	chain  []*x509.Certificate // as the peer showed it; empty for ProtoJoin
	raw    net.Conn
	opened time.Time
	ends   time.Time // whatever it is at
	timer  *time.Timer
	once   sync.Once
	asked  atomic.Bool // something was written and nothing read since
}

const (
	// retireGrace is for how long an old connection may finish what it is at.
	// Only the dialling side waits for a quiet moment; the other side leaves the
	// choice to it, and closes a little after that.
	retireGrace = time.Minute
	retirePause = 100 * time.Millisecond
)

// Read reads. An answer, or its beginning, makes the connection quiet.
func (c *Conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.asked.Store(false)
	}
	return n, err
}

// Write writes, and makes the connection one that waits for an answer.
func (c *Conn) Write(b []byte) (int, error) {
	c.asked.Store(true)
	return c.Conn.Write(b)
}

// retire closes an old connection: on the dialling side once nobody waits for an
// answer, since a request cut off would end in doubt.
func (c *Conn) retire() {
	if c.usage == x509.ExtKeyUsageServerAuth && c.asked.Load() && time.Now().Before(c.ends) {
		c.mesh.mu.Lock()
		defer c.mesh.mu.Unlock()
		if _, open := c.mesh.conns[c]; open {
			c.timer.Reset(retirePause)
		}
		return
	}
	c.sever()
}

// Peer returns who is on the other side; the zero Identity on ProtoJoin.
func (c *Conn) Peer() Identity { return c.peer }

// Proto returns the protocol the connection is for.
func (c *Conn) Proto() string { return c.proto }

// Close closes the connection, telling the peer.
func (c *Conn) Close() error {
	c.forget()
	return c.Conn.Close()
}

// sever closes the connection without waiting for a peer that may not read.
func (c *Conn) sever() {
	c.forget()
	_ = c.raw.Close() // nobody is left to tell
}

func (c *Conn) forget() {
	c.once.Do(func() {
		c.mesh.mu.Lock()
		defer c.mesh.mu.Unlock()
		c.timer.Stop()
		delete(c.mesh.conns, c)
	})
}

// track makes the connection one that changes of trust and membership reach. It
// must be called before qualify: a change then either sees the connection, or is
// seen by qualify.
func (m *Mesh) track(c *Conn) error {
	c.mesh = m
	c.opened = time.Now()
	longest := m.cfg.MaxAge + retireGrace
	if len(c.chain) > 0 {
		longest = min(longest, c.chain[0].NotAfter.Sub(c.opened))
	}
	c.ends = c.opened.Add(longest)
	life := longest
	if c.usage == x509.ExtKeyUsageServerAuth {
		life = min(life, m.cfg.MaxAge)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.over {
		return net.ErrClosed
	}
	m.conns[c] = struct{}{}
	c.timer = time.AfterFunc(life, c.retire)
	return nil
}

// qualify says why a connection may not be, or nil: its chain by the present trust,
// its role by its protocol, its name by the present membership.
func (m *Mesh) qualify(c *Conn) error {
	if c.proto == ProtoJoin {
		return nil
	}
	id, _, err := m.current.Load().verify(c.chain, c.usage, time.Now())
	if err != nil {
		return fmt.Errorf("certificate no longer trusted: %w", err)
	}
	if !roleMay(id.Role, c.proto, c.usage) {
		return fmt.Errorf("%s may not use %s", id, c.proto)
	}
	if allowed := *m.allowed.Load(); allowed != nil && id.Role != RoleOperator && !allowed(id.Name) {
		return fmt.Errorf("%s is not a member", id.Name)
	}
	return nil
}

// roleMay reports whether a certificate of that role may call (as client) or
// answer (as server) on a protocol. An operator may call, and never answer.
func roleMay(role, proto string, usage x509.ExtKeyUsage) bool {
	switch role {
	case RoleVoter, RoleNonvoter:
		return true
	case RoleOperator:
		return proto == ProtoRPC && usage == x509.ExtKeyUsageClientAuth
	}
	return false
}
