package mesh

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"time"
)

// Dial connects to the node of that name at addr for a protocol. The node must
// prove that name: an address that has passed to another node is ErrWrongPeer. An
// empty name, on ProtoRPC only, takes any node of the installation, for callers who
// know an address and not yet who is there; Peer tells.
// When Dial returns nil the other side has accepted this node; ErrRefused carries
// its reason otherwise. The connection is a *Conn.
func (m *Mesh) Dial(ctx context.Context, proto, name, addr string) (net.Conn, error) {
	c, err := m.dial(ctx, proto, name, addr)
	if err != nil {
		return nil, fmt.Errorf("dial %s at %s for %s: %w", name, addr, proto, err)
	}
	return c, nil
}

func (m *Mesh) dial(ctx context.Context, proto, name, addr string) (*Conn, error) {
	if proto != ProtoRaft && proto != ProtoRPC {
		return nil, fmt.Errorf("protocol must be %s or %s", ProtoRaft, ProtoRPC)
	}
	if name == "" && proto != ProtoRPC {
		return nil, fmt.Errorf("a node must be named on %s", proto)
	}
	mat := m.current.Load()
	var server Identity
	cfg := &tls.Config{
		MinVersion:             tls.VersionTLS13,
		NextProtos:             []string{proto},
		SessionTicketsDisabled: true,
		// Nodes are known by the name in their URI SAN, not by a host name:
		// VerifyConnection does the whole verification.
		InsecureSkipVerify: true,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &mat.certificate, nil
		},
		VerifyConnection: func(state tls.ConnectionState) error {
			id, _, err := m.current.Load().verify(state.PeerCertificates, x509.ExtKeyUsageServerAuth, time.Now())
			switch {
			case err != nil:
				return err
			case name != "" && id.Name != name:
				return fmt.Errorf("%w: it is %s, not %s", ErrWrongPeer, id.Name, name)
			case !roleMay(id.Role, proto, x509.ExtKeyUsageServerAuth):
				return fmt.Errorf("%w: %s may not serve %s", ErrWrongPeer, id, proto)
			}
			server = id
			return nil
		},
	}
	ctx, cancel := context.WithTimeout(ctx, m.cfg.HandshakeTimeout)
	defer cancel()
	tc, raw, err := dialTLS(ctx, m.cfg.Dial, addr, cfg, m.cfg.Version)
	if err != nil {
		return nil, err
	}
	c := &Conn{
		Conn: tc, raw: raw, peer: server, proto: proto, usage: x509.ExtKeyUsageServerAuth,
		chain: tc.ConnectionState().PeerCertificates,
	}
	if err := m.track(c); err != nil {
		_ = raw.Close()
		return nil, err
	}
	if err := m.qualify(c); err != nil {
		c.sever()
		return nil, err
	}
	return c, nil
}

// dialTLS connects, shakes hands and greets, all before ctx ends.
func dialTLS(ctx context.Context, dial func(context.Context, string, string) (net.Conn, error), addr string, cfg *tls.Config, version string) (*tls.Conn, net.Conn, error) {
	raw, err := dial(ctx, "tcp", addr)
	if err != nil {
		return nil, nil, err
	}
	unwatch := context.AfterFunc(ctx, func() { _ = raw.Close() })
	tc := tls.Client(raw, cfg)
	err = tc.HandshakeContext(ctx)
	if err == nil && tc.ConnectionState().NegotiatedProtocol != cfg.NextProtos[0] {
		err = fmt.Errorf("the peer does not speak %s", cfg.NextProtos[0])
	}
	if err == nil {
		err = greet(tc, version)
	}
	if !unwatch() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = raw.Close()
		if ctx.Err() != nil {
			err = fmt.Errorf("no answer in time: %w", context.Cause(ctx))
		}
		return nil, nil, err
	}
	return tc, raw, nil
}
