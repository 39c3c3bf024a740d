package probe

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// tlsClient shakes hands for one checker and verifies what it is shown.
type tlsClient struct {
	authority  *authorities
	roots      *x509.CertPool // nil: those of ca, or the system's
	ca         string         // name of the secret that holds the CA; empty: the system's
	config     *tls.Config
	name       string // what the certificate must name; empty: the chain alone is verified
	verify     bool
	mustChoose []string         // the server must choose one of these protocols; empty: it may choose none
	steady     func() time.Time // see runner; nil: there is the wall clock only

	verified verdictOnChain
}

// verdictOnChain remembers that a chain holds, since verifying it costs more than the
// rest of a probe. That the server has the key is proven in every handshake.
type verdictOnChain struct {
	sum   [sha256.Size]byte // of the chain as sent
	roots *x509.CertPool
	from  time.Time // within these, all certificates of the chain are valid
	until time.Time
}

// tlsConfig returns what is common to all handshakes of a checker. An address as
// server name is never sent (RFC 6066 section 3).
func tlsConfig(serverName string, alpn []string) *tls.Config {
	return &tls.Config{
		ServerName: serverName,
		NextProtos: alpn,
		// tlsClient verifies, so that the expiry of a refused certificate is known too.
		InsecureSkipVerify: true,
	}
}

// newTLS returns the client of a check that speaks HTTP over TLS.
func (r *runner) newTLS(check *TLSCheck, host string, endpoint netip.Addr, alpn []string) *tlsClient {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	c := &tlsClient{authority: &r.authority, roots: r.roots, verify: true, steady: r.steady}
	if check != nil {
		if check.ServerName != "" {
			host = check.ServerName
		}
		c.verify, c.ca = check.Verify, check.CA
	}
	if host == "" {
		host = endpoint.String()
	}
	c.name, c.config = host, tlsConfig(host, alpn)
	return c
}

// handshake makes a TLS connection of conn and returns when the server's
// certificate expires, also when it is refused.
func (c *tlsClient) handshake(ctx context.Context, conn net.Conn, rec *recorder) (*tls.Conn, time.Time, error) {
	rec.start("tls")
	t := tls.Client(conn, c.config)
	// The connection itself fails when ctx ends, which costs less than watching ctx.
	if err := t.Handshake(); err != nil {
		if classify(ctx, err) != ReasonTimeout && !ownFault(err) {
			err = &badError{ReasonTLS, "tls handshake: " + err.Error(), ""}
		}
		return nil, time.Time{}, err
	}
	state := t.ConnectionState()
	expiry := state.PeerCertificates[0].NotAfter
	if err := c.judge(state, time.Now()); err != nil {
		return nil, expiry, err
	}
	if rec != nil {
		rec.ok(describe(state))
	}
	return t, expiry, nil
}

// describe says for people what a handshake agreed on.
func describe(s tls.ConnectionState) string {
	alpn := "no ALPN"
	if s.NegotiatedProtocol != "" {
		alpn = "ALPN " + s.NegotiatedProtocol
	}
	return fmt.Sprintf("%s, %s, %s", tls.VersionName(s.Version), alpn, describeCertificate(s.PeerCertificates[0]))
}

func describeCertificate(leaf *x509.Certificate) string {
	names := slices.Clone(leaf.DNSNames)
	for _, ip := range leaf.IPAddresses {
		names = append(names, ip.String())
	}
	return fmt.Sprintf("certificate %q for %s, issued by %q, until %s",
		leaf.Subject, strings.Join(names, " "), leaf.Issuer, leaf.NotAfter.UTC().Format(time.RFC3339))
}

// judge returns what is wrong with the handshake.
func (c *tlsClient) judge(s tls.ConnectionState, now time.Time) error {
	if c.verify {
		if err := c.chain(s.PeerCertificates, now); err != nil && !c.stepped(s.PeerCertificates, now) {
			return err
		}
	}
	if len(c.mustChoose) > 0 && !slices.Contains(c.mustChoose, s.NegotiatedProtocol) {
		return &badError{ReasonTLS, "the server chose no application protocol", "ALPN " + strings.Join(c.mustChoose, " or ")}
	}
	return nil
}

// clockStep is how far the wall clock may be from the steady one before it has stepped.
// To be set right little by little, as time servers do, is no step.
const clockStep = time.Minute

// stepped reports whether the certificates hold, and only a step of this node's wall
// clock has put it outside of their dates (G10).
func (c *tlsClient) stepped(certs []*x509.Certificate, now time.Time) bool {
	if c.steady == nil {
		return false
	}
	steady := c.steady()
	return steady.Round(0).Sub(now.Round(0)).Abs() > clockStep && c.chain(certs, steady) == nil
}

// chain returns what is wrong with the certificates.
func (c *tlsClient) chain(certs []*x509.Certificate, now time.Time) error {
	roots := c.roots
	if c.ca != "" {
		var err error
		if roots, err = c.authority.named(c.ca, now); err != nil {
			return err
		}
	}
	sum := digest(certs)
	if v := &c.verified; v.sum == sum && v.roots == roots && !now.Before(v.from) && !now.After(v.until) {
		return nil
	}
	opts := x509.VerifyOptions{Roots: roots, DNSName: c.name, Intermediates: x509.NewCertPool(), CurrentTime: now}
	for _, cert := range certs[1:] {
		opts.Intermediates.AddCert(cert)
	}
	chains, err := certs[0].Verify(opts)
	if err != nil {
		var unknown x509.UnknownAuthorityError
		var noRoots x509.SystemRootsError
		if errors.As(err, &noRoots) || errors.As(err, &unknown) && roots == nil && c.authority.none() {
			return &ownError{"this node knows no certificate authority: install ca-certificates", err}
		}
		return &badError{ReasonTLS, err.Error(), "a valid chain for " + cmp.Or(c.name, "any name") + "; shown: " + describeCertificate(certs[0])}
	}
	c.verified = verdictOnChain{sum: sum, roots: roots, from: chains[0][0].NotBefore, until: chains[0][0].NotAfter}
	for _, cert := range chains[0] {
		c.verified.from = later(c.verified.from, cert.NotBefore)
		c.verified.until = earlier(c.verified.until, cert.NotAfter)
	}
	return nil
}

func digest(certs []*x509.Certificate) [sha256.Size]byte {
	h := sha256.New()
	for _, cert := range certs {
		_, _ = h.Write(cert.Raw) // a hash never fails; DER says its own length
	}
	return [sha256.Size]byte(h.Sum(nil))
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
