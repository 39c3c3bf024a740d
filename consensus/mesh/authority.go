package mesh

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net/url"
	"time"
)

const (
	// backdate covers peers whose clock is behind: a certificate from the future
	// has cut off whole clusters.
	backdate = time.Hour
	caLife   = 10 * 365 * 24 * time.Hour
	// nodeLife is a year; renewal is due at two thirds of it, which leaves four
	// months to notice that renewal fails.
	nodeLife = 365 * 24 * time.Hour
)

// Authority is a CA that signs the certificates of one installation. It is
// immutable. Its key never leaves it but by KeyPEM and the sealed file.
type Authority struct {
	installation string
	cert         *x509.Certificate
	key          crypto.Signer
}

// NewAuthority makes a CA for an installation.
func NewAuthority(installation string, now time.Time) (*Authority, error) {
	if err := checkInstallation(installation); err != nil {
		return nil, fmt.Errorf("make CA: %w", err)
	}
	key, err := newKey()
	if err != nil {
		return nil, fmt.Errorf("make CA key: %w", err)
	}
	serial := newSerial()
	tmpl := &x509.Certificate{
		SerialNumber: serial,
		// The serial in the subject tells two CAs of one installation apart while a
		// roll is on.
		Subject:               pkix.Name{CommonName: fmt.Sprintf("quorate CA %s %x", installation, serial.Bytes()[:4])},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(caLife),
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		URIs:                  []*url.URL{{Scheme: "spiffe", Host: installation}},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("sign CA certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read CA certificate: %w", err)
	}
	return &Authority{installation: installation, cert: cert, key: key}, nil
}

// ParseAuthority makes an Authority of what CertificatePEM and KeyPEM returned.
func ParseAuthority(certPEM, keyPEM string) (*Authority, error) {
	certs, err := parseCertificates(certPEM)
	if err != nil {
		return nil, fmt.Errorf("read CA certificate: %w", err)
	}
	key, err := parseKey([]byte(keyPEM))
	if err != nil {
		return nil, fmt.Errorf("read CA key: %w", err)
	}
	cert := certs[0]
	switch {
	case len(certs) != 1 || !cert.IsCA:
		return nil, errors.New("read CA certificate: must be exactly one CA certificate")
	case !samePublic(cert.PublicKey, key.Public()):
		return nil, errors.New("read CA: the key is not the certificate's")
	case len(cert.URIs) != 1 || cert.URIs[0].Scheme != "spiffe" || checkInstallation(cert.URIs[0].Host) != nil:
		return nil, errors.New("read CA certificate: it names no installation")
	}
	return &Authority{installation: cert.URIs[0].Host, cert: cert, key: key}, nil
}

// Installation returns the installation the CA signs for.
func (a *Authority) Installation() string { return a.installation }

// Fingerprint returns the hex SHA-256 of the CA's certificate.
func (a *Authority) Fingerprint() string { return fingerprint(a.cert) }

// CertificatePEM returns the CA's certificate.
func (a *Authority) CertificatePEM() string { return encodeCertificate(a.cert.Raw) }

// KeyPEM returns the CA's private key in clear: for handing over to a voter
// through an authenticated connection, and for nothing else.
func (a *Authority) KeyPEM() (string, error) { return encodeKey(a.key) }

// LogValue keeps the key out of logs.
func (a *Authority) LogValue() slog.Value { return slog.StringValue("CA " + a.Fingerprint()) }

// SignCSR signs a node's certificate for the identity, valid for a year from now
// and back-dated by an hour. Only the public key is taken from the request: what
// it says of names is ignored, for the caller decides who asks.
func (a *Authority) SignCSR(csrPEM string, id Identity, now time.Time) (string, error) {
	block, _ := pem.Decode([]byte(csrPEM))
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return "", errors.New("sign certificate: the request is not a PEM certificate request")
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return "", fmt.Errorf("sign certificate: read request: %w", err)
	}
	if err := csr.CheckSignature(); err != nil {
		return "", fmt.Errorf("sign certificate: the request is not signed by its own key: %w", err)
	}
	return a.sign(csr.PublicKey, id, now)
}

func (a *Authority) sign(pub crypto.PublicKey, id Identity, now time.Time) (string, error) {
	if err := id.Validate(); err != nil {
		return "", fmt.Errorf("sign certificate: %w", err)
	}
	if id.Installation != a.installation {
		return "", fmt.Errorf("sign certificate: the CA is of installation %q, the node of %q", a.installation, id.Installation)
	}
	if err := checkPublic(pub); err != nil {
		return "", fmt.Errorf("sign certificate: %w", err)
	}
	notAfter := now.Add(nodeLife)
	if notAfter.After(a.cert.NotAfter) {
		notAfter = a.cert.NotAfter
	}
	// A voter whose clock is behind must not date a certificate before its CA.
	notBefore := now.Add(-backdate)
	if notBefore.Before(a.cert.NotBefore) {
		notBefore = a.cert.NotBefore
	}
	tmpl := &x509.Certificate{
		SerialNumber:          newSerial(),
		Subject:               pkix.Name{CommonName: id.Name},
		NotBefore:             notBefore,
		NotAfter:              notAfter,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		URIs:                  []*url.URL{id.URI()},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, pub, a.key)
	if err != nil {
		return "", fmt.Errorf("sign certificate of %s: %w", id, err)
	}
	return encodeCertificate(der), nil
}

// CAFingerprintOf returns the fingerprint of the first certificate in a PEM text.
func CAFingerprintOf(certPEM string) (string, error) {
	certs, err := parseCertificates(certPEM)
	if err != nil {
		return "", err
	}
	return fingerprint(certs[0]), nil
}

func fingerprint(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.Raw)
	return hex.EncodeToString(sum[:])
}

func newKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

// newSerial returns a random positive number of 128 bits whose first byte is not 0.
func newSerial() *big.Int {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	b[0] = b[0]&0x7f | 0x40
	return new(big.Int).SetBytes(b)
}
