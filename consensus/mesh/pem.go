package mesh

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

// Bounds of PEM texts from outside.
const (
	maxPEM     = 256 << 10
	maxTrusted = 16
	maxCerts   = 2*maxTrusted + 2 // while a bundle changes, the file holds the old and the new one
)

// parseCertificates returns the certificates of a PEM text: at least one, and
// nothing but certificates, so that a truncated or mixed-up file is refused whole.
func parseCertificates(text string) ([]*x509.Certificate, error) {
	if len(text) > maxPEM {
		return nil, fmt.Errorf("must be at most %d bytes, is %d", maxPEM, len(text))
	}
	var certs []*x509.Certificate
	rest := []byte(text)
	for {
		block, next := pem.Decode(rest)
		if block == nil {
			break
		}
		rest = next
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("must hold certificates only, holds %q", block.Type)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", len(certs)+1, err)
		}
		certs = append(certs, cert)
		if len(certs) > maxCerts {
			return nil, fmt.Errorf("must hold at most %d certificates", maxCerts)
		}
	}
	if bytes.Contains(rest, []byte("-----BEGIN")) {
		return nil, errors.New("ends in the middle of a certificate")
	}
	if len(certs) == 0 {
		return nil, errors.New("holds no PEM certificate")
	}
	return certs, nil
}

func encodeCertificate(der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func encodeCertificates(certs []*x509.Certificate) string {
	var text string
	for _, c := range certs {
		text += encodeCertificate(c.Raw)
	}
	return text
}

// parseKey reads a PKCS #8 or SEC 1 private key. Errors never repeat the text.
func parseKey(text []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("holds no PEM private key")
	}
	var (
		key any
		err error
	)
	switch block.Type {
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	default:
		return nil, fmt.Errorf("must hold a private key, holds %q", block.Type)
	}
	if err != nil {
		return nil, errors.New("holds a private key that does not decode")
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("must hold an ECDSA P-256 or Ed25519 key, holds %T", key)
	}
	return signer, checkPublic(signer.Public())
}

func encodeKey(key crypto.Signer) (string, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return "", fmt.Errorf("encode private key: %w", err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), nil
}

func encodeCSR(key crypto.Signer) (string, error) {
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return "", fmt.Errorf("make certificate request: %w", err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})), nil
}

func checkPublic(pub crypto.PublicKey) error {
	switch k := pub.(type) {
	case *ecdsa.PublicKey:
		if k.Curve == elliptic.P256() {
			return nil
		}
	case ed25519.PublicKey:
		return nil
	}
	return fmt.Errorf("key must be ECDSA P-256 or Ed25519, is %T", pub)
}

func samePublic(a, b crypto.PublicKey) bool {
	k, ok := a.(interface{ Equal(crypto.PublicKey) bool })
	return ok && k.Equal(b)
}
