package dnssec

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
)

// The keys of RFC 6605 6.1 and RFC 8080 6.1.
const (
	bindP256 = `Private-key-format: v1.2
Algorithm: 13 (ECDSAP256SHA256)
PrivateKey: GU6SnQ/Ou+xC5RumuIUIuJZteXT2z0O/ok1s38Et6mQ=
`
	bindEd25519 = `Private-key-format: v1.2
Algorithm: 15 (ED25519)
PrivateKey: ODIyNjAzODQ2MjgwODAxMjI2NDUxOTAyMDQxNDIyNjI=
Created: 20260101000000
`
)

func TestKeysOfTheRFCs(t *testing.T) {
	for _, tt := range []struct{ text, zone, dnskey, ds string }{
		{
			bindP256, "example.net.", "257 3 13 GojIhhXUN/u4v54ZQqGSnyhWJwaubCvTmeexv7bR6edbkrSqQpF64cYbcB7wNcP+e+MAnLr+Wi9xMWyQLc8NAA==",
			"55648 13 2 B4C8C1FE2E7477127B27115656AD6256F424625BF5C1E2770CE6D6E37DF61D17",
		},
		{
			bindEd25519, "example.com.", "257 3 15 l02Woi0iS8Aa25FQkUd9RMzZHJpBoRQwAQEX1SxZJA4=",
			"3613 15 2 3AA5AB37EFCE57F737FC1627013FEE07BDF241BD10F3B1964AB55C78E79A304B",
		},
	} {
		k, err := ParseKey([]byte(tt.text))
		require.NoError(t, err)
		zsk, err := Generate(k.Algorithm())
		require.NoError(t, err)
		z, err := NewZone(Policy{Zone: tt.zone, Algorithm: k.Algorithm(), Valid: day, TTL: 3600, KSK: Keys{Active: k}, ZSK: Keys{Active: zsk}})
		require.NoError(t, err)
		set, _ := z.Apex(dns.TypeDNSKEY)
		require.Equal(t, tt.zone+"\t3600\tIN\tDNSKEY\t"+tt.dnskey, set.Records(tt.zone)[0].String())
		require.Equal(t, tt.ds, z.Keys()[0].DS)
		cds, _ := z.Apex(dns.TypeCDS)
		require.Equal(t, tt.zone+"\t3600\tIN\tCDS\t"+tt.ds, cds.Records(tt.zone)[0].String())
		require.NotContains(t, fmt.Sprintf("%v %+v %#v", k, k, k), strings.Fields(tt.text)[5], "a key prints no secret")
	}
}

func TestAKeyReadsBackAsItWasWritten(t *testing.T) {
	for _, algorithm := range []uint8{ECDSAP256SHA256, ED25519} {
		k, err := Generate(algorithm)
		require.NoError(t, err)
		text, err := k.PEM()
		require.NoError(t, err)
		again, err := ParseKey(text)
		require.NoError(t, err)
		require.True(t, k.equal(again))
	}
	_, err := Generate(8)
	require.Error(t, err)
}

func TestWhatIsNoKeySaysWhatItIs(t *testing.T) {
	block := func(typ string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: typ, Bytes: der}))
	}
	pkcs8 := func(key any) string {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		require.NoError(t, err)
		return block("PRIVATE KEY", der)
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	require.NoError(t, err)
	p256, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	sec1, err := x509.MarshalECPrivateKey(p256)
	require.NoError(t, err)
	for _, tt := range []struct{ name, text, want string }{
		{"nothing", "", "neither a PEM block nor"},
		{"a certificate", block("CERTIFICATE", []byte("x")), `PEM block "CERTIFICATE": must be "PRIVATE KEY"`},
		{"another curve", pkcs8(p384), "the key is of curve P-384"},
		{"RSA", pkcs8(rsaKey), "the key is a *rsa.PrivateKey"},
		{"half a key", block("PRIVATE KEY", []byte("x")), "PKCS#8 key"},
		{"two keys", pkcs8(p256) + pkcs8(p256), "more than one PEM block"},
		{"an encrypted one", block("ENCRYPTED PRIVATE KEY", []byte("x")), "the key is encrypted"},
		{"parameters alone", block("EC PARAMETERS", []byte("x")), "parameters of a curve"},
		{"BIND, RSA", "Private-key-format: v1.3\nAlgorithm: 8 (RSASHA256)\nModulus: AQ==\n", `algorithm "8 (RSASHA256)": must be 13`},
		{"BIND, no key", "Private-key-format: v1.3\nAlgorithm: 13\nPrivateKey: ???\n", "PrivateKey: must be base64"},
		{"BIND, a scalar of zero", "Private-key-format: v1.3\nAlgorithm: 13\nPrivateKey: AAAA\n", "PrivateKey: must be a scalar"},
		{"BIND, too short", "Private-key-format: v1.3\nAlgorithm: 15\nPrivateKey: AAAA\n", "must have 32 octets, has 3"},
		{"BIND, too long", "Private-key-format: v1.3\nAlgorithm: 13\nPrivateKey: " + strings.Repeat("AAAA", 20) + "\n", "must have 32 octets, has 60"},
		{"BIND, another format", "Private-key-format: v2.0\nAlgorithm: 13\n", `format "v2.0"`},
	} {
		_, err := ParseKey([]byte(tt.text))
		require.ErrorContains(t, err, tt.want, tt.name)
	}
	k, err := ParseKey([]byte(block("EC PARAMETERS", []byte("x")) + block("EC PRIVATE KEY", sec1)))
	require.NoError(t, err, "as openssl ecparam -genkey writes it")
	require.EqualValues(t, ECDSAP256SHA256, k.Algorithm())
}

func FuzzParseKey(f *testing.F) {
	f.Add([]byte(bindP256))
	f.Add([]byte(bindEd25519))
	k, err := Generate(ED25519)
	require.NoError(f, err)
	text, err := k.PEM()
	require.NoError(f, err)
	f.Add(text)
	f.Fuzz(func(t *testing.T, text []byte) {
		if k, err := ParseKey(text); err == nil {
			again, err := k.PEM()
			require.NoError(t, err)
			_, err = ParseKey(again)
			require.NoError(t, err)
		}
	})
}

func TestKeysOfARoll(t *testing.T) {
	key := func() *Key {
		k, err := Generate(ED25519)
		require.NoError(t, err)
		return k
	}
	a, b, c, d := key(), key(), key(), key()
	p := Policy{Zone: "z.example.", Algorithm: ED25519, Valid: day, TTL: 60, KSK: Keys{Active: a, Next: b}, ZSK: Keys{Active: c, Previous: d}}
	z, err := NewZone(p)
	require.NoError(t, err)
	set, _ := z.Apex(dns.TypeDNSKEY)
	require.Len(t, set.Rdata, 4, "all are published")
	require.Len(t, z.signers(dns.TypeDNSKEY), 2, "every KSK signs the keys")
	require.Len(t, z.signers(dns.TypeCDS), 2)
	require.Equal(t, []signing{z.zsk}, z.signers(dns.TypeA), "the active ZSK signs the rest")
	require.Same(t, c, z.zsk.key)
	cds, _ := z.Apex(dns.TypeCDS)
	require.Equal(t, "z.example.\t60\tIN\tCDS\t"+z.Keys()[0].DS, cds.Records("z.example.")[0].String(), "the parent is asked for the active KSK")

	p.Leaving = true
	z, err = NewZone(p)
	require.NoError(t, err)
	cds, _ = z.Apex(dns.TypeCDS)
	require.Equal(t, "z.example.\t60\tIN\tCDS\t0 0 0 00", cds.Records("z.example.")[0].String())
	cdnskey, _ := z.Apex(dns.TypeCDNSKEY)
	require.Equal(t, "z.example.\t60\tIN\tCDNSKEY\t0 3 0 AA==", cdnskey.Records("z.example.")[0].String())

	p.ZSK.Next, p.ZSK.Previous = a, nil
	_, err = NewZone(p)
	require.ErrorContains(t, err, "one key is both KSK and ZSK")
	_, err = NewZone(Policy{Zone: "z.example.", Algorithm: ED25519, KSK: Keys{Active: a}})
	require.ErrorContains(t, err, "a KSK and a ZSK are needed")
}
