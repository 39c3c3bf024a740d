//go:build integration

package probe

import (
	"strconv"
	"testing"
	"time"
)

func TestRealOpenSSL(t *testing.T) {
	path := program(t, "openssl")
	certs, others := newCertificates(t), newCertificates(t)
	serve := func(c *certificates, after time.Duration, args ...string) int {
		port := freePort(t)
		cert, key := pemFiles(t, c.leaf(time.Now().Add(after), "mail.example.com"))
		start(t, port, path, append([]string{"s_server", "-accept", "127.0.0.1:" + strconv.Itoa(port), "-cert", cert, "-key", key, "-quiet"}, args...)...)
		return port
	}
	good, old := serve(certs, time.Hour), serve(certs, time.Hour, "-tls1_2")
	mail := serve(certs, time.Hour, "-alpn", "smtp,imap")
	expired, other := serve(certs, -time.Minute), serve(others, time.Hour)
	check := func(port int, name string, alpn ...string) Check {
		return Check{TLS: &HandshakeCheck{Port: port, ServerName: name, ALPN: alpn}}
	}
	warn := check(good, "mail.example.com")
	warn.TLS.Warn.CertExpiresAfter = 2 * time.Hour

	runReal(t, localProber(certs.pool), []realCase{
		{"a handshake", check(good, "mail.example.com"), ReasonOK, "", ""},
		{"a handshake of TLS 1.2", check(old, "mail.example.com"), ReasonOK, "", ""},
		{"a handshake without a name", check(good, ""), ReasonOK, "", ""},
		{"a certificate that expires soon", warn, ReasonOK, "", DegradedCert},
		{"a protocol that is spoken", check(mail, "", "imap"), ReasonOK, "", ""},
		{"a protocol that is not spoken", check(mail, "", "xmpp"), ReasonTLS, "", ""},
		{"a server without protocols", check(good, "", "smtp"), ReasonTLS, "chose no application protocol", ""},
		{"an expired certificate", check(expired, ""), ReasonTLS, "expired", ""},
		{"a certificate of another name", check(good, "www.example.com"), ReasonTLS, "www.example.com", ""},
		{"a certificate of an unknown CA", check(other, ""), ReasonTLS, "unknown authority", ""},
		{"nobody listens", check(freePort(t), ""), ReasonRefused, "refused", ""},
		{"nobody answers", check(blackhole(t), ""), ReasonTimeout, "", ""},
	})
}
