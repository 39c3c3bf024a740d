package dnssec

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/miekg/dns"
)

// Algorithms that keys may be of (RFC 8624 3.1: the two to sign with).
const (
	ECDSAP256SHA256 = dns.ECDSAP256SHA256 // RFC 6605
	ED25519         = dns.ED25519         // RFC 8080
)

// flags of DNSKEY records (RFC 4034 2.1.1): a zone key, and one that the parent names.
const (
	zskFlags = dns.ZONE
	kskFlags = dns.ZONE | dns.SEP
)

const (
	protocol   = 3  // RFC 4034 2.1.2
	p256Octets = 32 // of a coordinate or scalar
	pemPrivate = "PRIVATE KEY"
)

// Key is a private key that signs. It prints as its algorithm and public part.
type Key struct {
	algorithm uint8
	signer    crypto.Signer
	public    []byte // as in DNSKEY
}

// AlgorithmNumber returns the number of an algorithm by its name in the spec,
// ecdsap256sha256 or ed25519; ok is false for every other.
func AlgorithmNumber(name string) (number uint8, ok bool) {
	switch name {
	case "ecdsap256sha256":
		return ECDSAP256SHA256, true
	case "ed25519":
		return ED25519, true
	}
	return 0, false
}

// AlgorithmName names an algorithm as the spec does.
func AlgorithmName(number uint8) string {
	return strings.ToLower(dns.AlgorithmToString[number])
}

// Generate makes a key of an algorithm.
func Generate(algorithm uint8) (*Key, error) {
	switch algorithm {
	case ECDSAP256SHA256:
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, fmt.Errorf("generate a P-256 key: %w", err)
		}
		return newKey(k)
	case ED25519:
		_, k, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return nil, fmt.Errorf("generate an Ed25519 key: %w", err)
		}
		return newKey(k)
	}
	return nil, fmt.Errorf("algorithm %d: must be %d (ECDSA P-256) or %d (Ed25519)", algorithm, ECDSAP256SHA256, ED25519)
}

// newKey takes a private key of crypto.
func newKey(private any) (*Key, error) {
	switch k := private.(type) {
	case *ecdsa.PrivateKey:
		if k.Curve != elliptic.P256() {
			return nil, fmt.Errorf("the key is of curve %s, must be P-256 or Ed25519", k.Curve.Params().Name)
		}
		point, err := k.PublicKey.Bytes()
		if err != nil {
			return nil, fmt.Errorf("the public part of the key: %w", err)
		}
		return &Key{ECDSAP256SHA256, k, point[1:]}, nil // without the octet that says "uncompressed" (RFC 6605 4)
	case ed25519.PrivateKey:
		return &Key{ED25519, k, bytes.Clone(k.Public().(ed25519.PublicKey))}, nil
	}
	return nil, fmt.Errorf("the key is a %T, must be ECDSA P-256 or Ed25519", private)
}

// ParseKey reads a private key: PKCS#8 in PEM, as openssl genpkey writes it, or a
// private-key file of BIND. The error says what it is instead, and nothing of the
// key itself.
func ParseKey(text []byte) (*Key, error) {
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("Private-key-format:")) {
		return parseBIND(string(text))
	}
	block, rest := pem.Decode(text)
	switch {
	case block == nil:
		return nil, errors.New("neither a PEM block nor a private-key file of BIND; make one with: quorate zone dnssec keygen FILE")
	case block.Type == "EC PARAMETERS": // openssl ecparam -genkey writes them first
		if block, rest = pem.Decode(rest); block == nil {
			return nil, errors.New("parameters of a curve and no key")
		}
	}
	if extra, _ := pem.Decode(rest); extra != nil {
		return nil, fmt.Errorf("holds more than one PEM block (%s and %s); one key a file", block.Type, extra.Type)
	}
	switch block.Type {
	case pemPrivate:
		k, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("PKCS#8 key: %w", err)
		}
		return newKey(k)
	case "EC PRIVATE KEY":
		k, err := x509.ParseECPrivateKey(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("EC key: %w", err)
		}
		return newKey(k)
	case "ENCRYPTED PRIVATE KEY":
		return nil, errors.New("the key is encrypted; write it without a passphrase: openssl pkcs8 -in FILE -out NEW -nocrypt -topk8")
	}
	return nil, fmt.Errorf("PEM block %q: must be %q", block.Type, pemPrivate)
}

// parseBIND reads a private-key file, "Private-key-format: v1.x" (dnssec-keygen).
func parseBIND(text string) (*Key, error) {
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if name, v, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[strings.ToLower(name)] = strings.TrimSpace(v)
		}
	}
	if v := fields["private-key-format"]; !strings.HasPrefix(v, "v1.") {
		return nil, fmt.Errorf("private-key format %q: must be v1.2 or v1.3", v)
	}
	algorithm, _, _ := strings.Cut(fields["algorithm"], " ")
	secret, err := base64.StdEncoding.DecodeString(fields["privatekey"])
	if err != nil {
		return nil, errors.New("PrivateKey: must be base64")
	}
	switch algorithm {
	case "13":
		if len(secret) > p256Octets {
			return nil, fmt.Errorf("PrivateKey: must have %d octets, has %d", p256Octets, len(secret))
		}
		// Some tools leave out leading zeros.
		padded := append(make([]byte, p256Octets-len(secret)), secret...)
		k, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), padded)
		if err != nil {
			return nil, errors.New("PrivateKey: must be a scalar of P-256")
		}
		return newKey(k)
	case "15":
		if len(secret) != ed25519.SeedSize {
			return nil, fmt.Errorf("PrivateKey: must have %d octets, has %d", ed25519.SeedSize, len(secret))
		}
		return newKey(ed25519.NewKeyFromSeed(secret))
	}
	return nil, fmt.Errorf("algorithm %q: must be 13 (ECDSAP256SHA256) or 15 (ED25519)", fields["algorithm"])
}

// PEM returns the key as ParseKey reads it.
func (k *Key) PEM() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(k.signer)
	if err != nil {
		return nil, fmt.Errorf("encode the key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemPrivate, Bytes: der}), nil
}

// Algorithm returns the key's algorithm number.
func (k *Key) Algorithm() uint8 { return k.algorithm }

// String names the algorithm and the public part.
func (k *Key) String() string {
	return AlgorithmName(k.algorithm) + " " + base64.StdEncoding.EncodeToString(k.public)
}

// GoString is String: no verb of fmt prints the private part.
func (k *Key) GoString() string { return k.String() }

// equal reports whether both are the same key; nil equals nothing.
func (k *Key) equal(o *Key) bool {
	return k != nil && o != nil && k.algorithm == o.algorithm && bytes.Equal(k.public, o.public)
}

// dnskey returns the record that publishes the key.
func (k *Key) dnskey(zone string, flags uint16, ttl uint32) *dns.DNSKEY {
	return &dns.DNSKEY{
		Hdr:   dns.RR_Header{Name: zone, Rrtype: dns.TypeDNSKEY, Class: dns.ClassINET, Ttl: ttl},
		Flags: flags, Protocol: protocol, Algorithm: k.algorithm,
		PublicKey: base64.StdEncoding.EncodeToString(k.public),
	}
}

// deterministic makes signatures without chance: ECDSA by RFC 6979, for which
// crypto/ecdsa wants no source of randomness. Equal content is then signed equally on
// every node. Ed25519 always is.
type deterministic struct{ crypto.Signer }

// Sign implements crypto.Signer.
func (d deterministic) Sign(_ io.Reader, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	return d.Signer.Sign(nil, digest, opts)
}
