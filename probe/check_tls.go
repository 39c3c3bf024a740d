package probe

import (
	"context"
	"net/netip"
)

// handshakeChecker is good when a TLS handshake ends with a certificate that holds.
type handshakeChecker struct {
	r    *runner
	addr string
	tls  *tlsClient
}

func (r *runner) newHandshake(check *HandshakeCheck, endpoint netip.Addr) checker {
	return &handshakeChecker{r, hostPort(endpoint, check.Port), &tlsClient{
		authority: &r.authority, roots: r.roots,
		config: tlsConfig(check.ServerName, check.ALPN), name: check.ServerName, verify: true, mustChoose: check.ALPN, steady: r.steady,
	}}
}

func (c *handshakeChecker) run(ctx context.Context, rec *recorder) (seen, error) {
	l, rtt, err := c.r.connect(ctx, rec, "tcp", c.addr)
	if err != nil {
		return seen{}, err
	}
	defer l.drop()
	conn, expiry, err := c.tls.handshake(ctx, l, rec)
	if err == nil {
		_ = conn.Close() // says goodbye; the handshake was all we wanted
	}
	return seen{expiry, rtt}, err
}

func (c *handshakeChecker) close() {}
