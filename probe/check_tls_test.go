package probe

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// serveTLS serves handshakes and then silence, until the test ends.
func serveTLS(t *testing.T, cfg *tls.Config) int {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				s := tls.Server(conn, cfg)
				_, _ = io.Copy(io.Discard, s)
				_ = s.Close()
			}()
		}
	}()
	return portOf(t, ln.Addr())
}

func TestTLSCheck(t *testing.T) {
	certs := newCertificates(t)
	later := time.Now().Add(30 * time.Minute).Truncate(time.Second)
	past := time.Now().Add(-time.Minute).Truncate(time.Second)
	var sni atomic.Value
	serve := func(expiry time.Time, alpn ...string) int {
		leaf := certs.leaf(expiry, "mail.example.com")
		return serveTLS(t, &tls.Config{NextProtos: alpn, GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
			sni.Store(h.ServerName)
			return &leaf, nil
		}})
	}
	good, expired, speaks := serve(later), serve(past), serve(later, "smtp", "h2")
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	talker, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer talker.Close()
	go func() {
		for {
			conn, err := talker.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "220 mail.example.com ESMTP\r\n")
			_ = conn.Close()
		}
	}()

	name := func(n string, alpn ...string) HandshakeCheck { return HandshakeCheck{ServerName: n, ALPN: alpn} }
	warn := HandshakeCheck{Warn: Warn{CertExpiresAfter: time.Hour}}
	tests := []struct {
		name     string
		port     int
		check    HandshakeCheck
		roots    *x509.CertPool
		reason   Reason
		detail   string
		degraded string
		expiry   time.Time
	}{
		{"a good certificate", good, name("mail.example.com"), certs.pool, ReasonOK, "", "", later},
		{"without a name the chain is verified", good, name(""), certs.pool, ReasonOK, "", "", later},
		{"a chain of nobody known", good, name(""), x509.NewCertPool(), ReasonTLS, "unknown authority", "", later},
		{"another name", good, name("www.example.com"), certs.pool, ReasonTLS, "www.example.com", "", later},
		{"expired", expired, name("mail.example.com"), certs.pool, ReasonTLS, "expired", "", past},
		{"expired without a name", expired, name(""), certs.pool, ReasonTLS, "expired", "", past},
		{"expires soon", good, warn, certs.pool, ReasonOK, "", DegradedCert, later},
		{"one of the protocols is chosen", speaks, name("", "xmpp", "smtp"), certs.pool, ReasonOK, "", "", later},
		{"none of the protocols is spoken", speaks, name("", "xmpp"), certs.pool, ReasonTLS, "no application protocol", "", time.Time{}},
		{"a server that ignores protocols", good, name("", "smtp"), certs.pool, ReasonTLS, "chose no application protocol", "", later},
		{"no TLS at all", portOf(t, talker.Addr()), name(""), certs.pool, ReasonTLS, "tls handshake: ", "", time.Time{}},
		{"a handshake that hangs", portOf(t, silent.Addr()), name(""), certs.pool, ReasonTimeout, "", "", time.Time{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sni.Store("")
			tt.check.Port = tt.port
			c := Check{Timeout: 10 * time.Second, TLS: &tt.check}
			if tt.reason == ReasonTimeout {
				c.Timeout = 150 * time.Millisecond
			}
			r := localProber(tt.roots).Once(t.Context(), c, loopback)
			require.Equal(t, tt.reason, r.Reason, r.Detail)
			require.Contains(t, r.Detail, tt.detail)
			require.Equal(t, tt.degraded, r.Degraded)
			require.True(t, tt.expiry.Equal(r.CertExpiry), "expiry %s, want %s", r.CertExpiry, tt.expiry)
			require.Positive(t, r.RTT)
			if tt.port == good || tt.port == expired {
				require.Equal(t, tt.check.ServerName, sni.Load())
			}
		})
	}
}

// A step of this node's wall clock, be it to the past or to the future, is no fault of
// an endpoint's certificate (G10). One that has run out has done so by either clock.
func TestG10AStepOfTheWallClockExpiresNoCertificate(t *testing.T) {
	certs := newCertificates(t)
	start := time.Now()
	leaf, err := x509.ParseCertificate(certs.leaf(start.Add(30*time.Minute), "web.example.com").Certificate[0])
	require.NoError(t, err)
	const year = 365 * 24 * time.Hour
	tests := []struct {
		name    string
		elapsed time.Duration // since this node started, as its clock since boot has it
		wall    time.Duration // likewise, as its wall clock has it
		good    bool
	}{
		{"both go on", time.Minute, time.Minute, true},
		{"a step to the future", time.Minute, 10 * year, true},
		{"a step to the past", time.Minute, -50 * year, true},
		{"it has run out", 31 * time.Minute, 31 * time.Minute, false},
		{"it has run out, and a step to the future", 31 * time.Minute, 10 * year, false},
		{"it has run out, and a step to the past", 31 * time.Minute, -50 * year, false},
		{"this node began in another year, and was set right", -50 * year, time.Minute, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := &tlsClient{
				authority: &authorities{}, roots: certs.pool, name: "web.example.com", verify: true,
				steady: func() time.Time { return start.Add(tt.elapsed) },
			}
			state := tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}
			for range 2 { // also with what is remembered
				require.Equal(t, tt.good, c.judge(state, start.Add(tt.wall)) == nil)
			}
		})
	}
	c := localProber(certs.pool)
	check, err := c.newChecker(Check{TLS: &HandshakeCheck{Port: 1}}, loopback)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), check.(*handshakeChecker).tls.steady(), time.Second, "the checks that are made have it")
	check, err = c.newChecker(Check{HTTPS: &HTTPCheck{Port: 1}}, loopback)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), check.(*httpChecker).tls.steady(), time.Second)
}

// What holds once is not verified each time, but never for longer than it holds.
func TestAVerifiedChainIsRememberedWhileItHolds(t *testing.T) {
	certs, others := newCertificates(t), newCertificates(t)
	now := time.Now()
	parse := func(c tls.Certificate) []*x509.Certificate {
		leaf, err := x509.ParseCertificate(c.Certificate[0])
		require.NoError(t, err)
		return []*x509.Certificate{leaf}
	}
	chain := parse(certs.leaf(now.Add(30*time.Minute), "web.example.com"))
	c := &tlsClient{authority: &authorities{}, roots: certs.pool, name: "web.example.com", verify: true}
	require.NoError(t, c.chain(chain, now))
	require.NoError(t, c.chain(chain, now.Add(29*time.Minute)))
	require.ErrorContains(t, c.chain(chain, now.Add(31*time.Minute)), "expired")
	require.ErrorContains(t, c.chain(chain, now.Add(-3*time.Hour)), "not yet valid")
	require.NoError(t, c.chain(chain, now))
	require.Error(t, c.chain(parse(others.leaf(now.Add(time.Hour), "web.example.com")), now), "another chain")
	c.roots = others.pool
	require.Error(t, c.chain(chain, now), "other roots")

	// The check remembers, or this test tests nothing.
	c.roots = certs.pool
	require.NoError(t, c.chain(chain, now))
	c.name = "other.example.com"
	require.NoError(t, c.chain(chain, now))
}

func TestTheCAOfACheckComesFromASecret(t *testing.T) {
	certs, others := newCertificates(t), newCertificates(t)
	port := serveTLS(t, &tls.Config{Certificates: []tls.Certificate{certs.leaf(time.Now().Add(time.Hour), "127.0.0.1")}, NextProtos: []string{"h2"}})
	inPEM := func(c *certificates) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.ca.Raw})
	}
	secrets := map[string][]byte{"good": inPEM(certs), "other": inPEM(others), "junk": []byte("x")}
	tests := []struct {
		name   string
		ca     string
		reason Reason
		detail string
		own    bool
	}{
		{"the CA of the server", "good", ReasonTimeout, "", false}, // the handshake holds, then it is silent
		{"another CA", "other", ReasonTLS, "unknown authority", false},
		{"a secret that holds none", "junk", ReasonOther, `the CA in the secret "junk": must be certificates in PEM, holds none`, true},
		{"a secret that is not there", "none", ReasonOther, `the CA in the secret "none": no such secret`, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := New(Config{Policy: AddressPolicy{Allow: prefixes("127.0.0.0/8")}, Secret: func(name string) ([]byte, error) {
				if b, ok := secrets[name]; ok {
					return b, nil
				}
				return nil, errors.New("no such secret")
			}})
			check := Check{Timeout: 300 * time.Millisecond, HTTPS: &HTTPCheck{Port: port, TLS: &TLSCheck{Verify: true, CA: tt.ca}}}
			c, err := p.newChecker(check, loopback)
			require.NoError(t, err)
			o := measure(t.Context(), c, &check, nil)
			require.Equal(t, tt.reason, o.Reason, o.Detail)
			require.Contains(t, o.Detail, tt.detail)
			require.Equal(t, tt.own, o.unmeasured)
		})
	}
}

func TestASecretIsReadAgainAndTheLastGoodOneStays(t *testing.T) {
	certs := newCertificates(t)
	good := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certs.ca.Raw})
	content, reads := good, 0
	a := &authorities{secret: func(string) ([]byte, error) {
		reads++
		if content == nil {
			return nil, errors.New("gone")
		}
		return content, nil
	}}
	now := time.Now()
	first, err := a.named("ca", now)
	require.NoError(t, err)
	again, err := a.named("ca", now.Add(authorityAge-1))
	require.NoError(t, err)
	require.Same(t, first, again)
	require.Equal(t, 1, reads)
	again, err = a.named("ca", now.Add(authorityAge))
	require.NoError(t, err)
	require.Same(t, first, again, "the same content is the same pool")
	require.Equal(t, 2, reads)
	for _, bad := range [][]byte{nil, []byte("x")} {
		now, content = now.Add(time.Hour), bad
		again, err = a.named("ca", now)
		require.NoError(t, err)
		require.Same(t, first, again)
	}
	now, content = now.Add(time.Hour), append(good, good...)
	again, err = a.named("ca", now)
	require.NoError(t, err)
	require.NotSame(t, first, again)
}
