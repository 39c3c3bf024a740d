package mesh

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCertificatesAreBackdatedAndLastAYear(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	a, err := NewAuthority(inst, now)
	require.NoError(t, err)
	key, err := newKey()
	require.NoError(t, err)
	csr, err := encodeCSR(key)
	require.NoError(t, err)
	text, err := a.SignCSR(csr, Identity{inst, "eu-1", RoleVoter}, now)
	require.NoError(t, err)
	certs, err := parseCertificates(text)
	require.NoError(t, err)
	leaf := certs[0]
	require.Equal(t, now.Add(-time.Hour), leaf.NotBefore)
	require.Equal(t, now.Add(nodeLife), leaf.NotAfter)
	require.Equal(t, "spiffe://prod.example/node/eu-1/voter", leaf.URIs[0].String())
	require.False(t, leaf.IsCA)
	require.Equal(t, now.Add(-time.Hour), a.cert.NotBefore)

	t.Run("never beyond the CA's own life", func(t *testing.T) {
		text, err := a.SignCSR(csr, Identity{inst, "eu-1", RoleVoter}, now.Add(caLife-time.Hour))
		require.NoError(t, err)
		certs, err := parseCertificates(text)
		require.NoError(t, err)
		require.Equal(t, a.cert.NotAfter, certs[0].NotAfter)
	})
	t.Run("never before the CA's own life", func(t *testing.T) {
		text, err := a.SignCSR(csr, Identity{inst, "eu-1", RoleVoter}, now.Add(-time.Minute))
		require.NoError(t, err)
		certs, err := parseCertificates(text)
		require.NoError(t, err)
		require.Equal(t, a.cert.NotBefore, certs[0].NotBefore)
	})
}

func TestSignCSRRefuses(t *testing.T) {
	a := newCA(t, inst)
	key, err := newKey()
	require.NoError(t, err)
	csr, err := encodeCSR(key)
	require.NoError(t, err)
	id := Identity{inst, "eu-1", RoleVoter}

	weak, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	weakCSR, err := encodeCSR(weak)
	require.NoError(t, err)
	curve, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	require.NoError(t, err)
	curveCSR, err := encodeCSR(curve)
	require.NoError(t, err)
	block, _ := pem.Decode([]byte(csr))
	block.Bytes[len(block.Bytes)-1] ^= 1
	forged := string(pem.EncodeToMemory(block))

	tests := []struct {
		name, csr string
		id        Identity
		want      string
	}{
		{"garbage", "x", id, "not a PEM certificate request"},
		{"a certificate", a.CertificatePEM(), id, "not a PEM certificate request"},
		{"a bad signature", forged, id, "not signed by its own key"},
		{"an RSA key", weakCSR, id, "key must be"},
		{"a small curve", curveCSR, id, "key must be"},
		{"another installation", csr, Identity{"other", "eu-1", RoleVoter}, `installation "prod.example", the node of "other"`},
		{"an unknown role", csr, Identity{inst, "eu-1", "root"}, "role must be"},
		{"a bad name", csr, Identity{inst, "EU 1", RoleVoter}, "node name must be"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := a.SignCSR(tt.csr, tt.id, time.Now())
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestFilesAreClosedToOthers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mesh")
	_, err := InitDir(dir, inst, "us-1", RoleVoter, time.Now())
	require.NoError(t, err)
	modes := map[string]fs.FileMode{"": 0o700, fileCA: 0o644, fileCAKey: 0o600, fileCert: 0o644, fileKey: 0o600}
	for name, want := range modes {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, want, info.Mode().Perm(), "mode of %q", name)
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 4, "temporary files are left")

	for name, open := range map[string]fs.FileMode{"": 0o750, fileCAKey: 0o640, fileKey: 0o604} {
		t.Run("refused when open: "+name, func(t *testing.T) {
			path := filepath.Join(dir, name)
			require.NoError(t, os.Chmod(path, open))
			_, err := Open(Config{Dir: dir})
			require.ErrorContains(t, err, "must not be open to other users")
			require.ErrorContains(t, err, "chmod")
			require.NoError(t, os.Chmod(path, modes[name]))
		})
	}
	open(t, Config{Dir: dir})
}

func TestOnlyVotersHoldTheCAKey(t *testing.T) {
	ca := newCA(t, inst)
	_, err := node(t, ca, "us-1", RoleNonvoter).Authority("")
	require.ErrorIs(t, err, ErrNoAuthority)
	_, err = LoadAuthority(nodeDir(t, ca, "us-2", RoleNonvoter))
	require.ErrorIs(t, err, ErrNoAuthority)

	dir := nodeDir(t, ca, "eu-1", RoleVoter)
	got, err := LoadAuthority(dir)
	require.NoError(t, err)
	require.Equal(t, ca.Fingerprint(), got.Fingerprint())
	require.True(t, ca.key.(*ecdsa.PrivateKey).Equal(got.key))
}

func TestACopiedCAKeyIsUseless(t *testing.T) {
	ca := newCA(t, inst)
	us, eu := nodeDir(t, ca, "us-1", RoleVoter), nodeDir(t, ca, "eu-1", RoleVoter)
	sealed, err := os.ReadFile(filepath.Join(us, fileCAKey))
	require.NoError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(ca.key)
	require.NoError(t, err)
	scalar, err := ca.key.(*ecdsa.PrivateKey).Bytes()
	require.NoError(t, err)
	block, _ := pem.Decode(sealed)
	require.NotContains(t, string(block.Bytes), string(der))
	require.NotContains(t, string(block.Bytes), string(scalar))

	require.NoError(t, os.WriteFile(filepath.Join(eu, fileCAKey), sealed, 0o600))
	_, err = LoadAuthority(eu)
	require.ErrorContains(t, err, "does not open with this node's private key")
}

func TestADamagedCAKeyIsNoticed(t *testing.T) {
	ca := newCA(t, inst)
	dir := nodeDir(t, ca, "us-1", RoleVoter)
	path := filepath.Join(dir, fileCAKey)
	good, err := os.ReadFile(path)
	require.NoError(t, err)
	block, _ := pem.Decode(good)
	block.Bytes[len(block.Bytes)-1] ^= 1
	for name, text := range map[string][]byte{
		"flipped bit": pem.EncodeToMemory(block),
		"truncated":   good[:len(good)-30],
		"garbage":     []byte("x"),
		"clear key":   []byte(mustKeyPEM(t, ca)),
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.WriteFile(path, text, 0o600))
			_, err := LoadAuthority(dir)
			require.ErrorContains(t, err, path)
			_, err = Open(Config{Dir: dir})
			require.ErrorContains(t, err, path)
		})
	}
}

func mustKeyPEM(t *testing.T, a *Authority) string {
	t.Helper()
	text, err := a.KeyPEM()
	require.NoError(t, err)
	return text
}

func TestSaveAddsACABesideTheOld(t *testing.T) {
	old, fresh := newCA(t, inst), newCA(t, inst)
	dir := nodeDir(t, old, "us-1", RoleVoter)
	require.NoError(t, fresh.Save(dir))
	require.NoError(t, fresh.Save(dir)) // twice is once
	got, err := LoadAuthority(dir)
	require.NoError(t, err)
	require.Equal(t, fresh.Fingerprint(), got.Fingerprint())
	m := open(t, Config{Dir: dir})
	require.Len(t, m.Trust(), 2)
	a, err := m.Authority(old.Fingerprint())
	require.NoError(t, err)
	require.Equal(t, old.Fingerprint(), a.Fingerprint())
}

func TestIssueRefusesADirectoryInUse(t *testing.T) {
	ca := newCA(t, inst)
	dir := nodeDir(t, ca, "us-1", RoleVoter)
	require.ErrorIs(t, IssueTo(dir, ca, Identity{inst, "us-1", RoleVoter}, time.Now()), ErrHasIdentity)
	_, err := InitDir(dir, inst, "us-1", RoleVoter, time.Now())
	require.ErrorIs(t, err, ErrHasIdentity)
}

func TestOpenSaysWhatIsMissing(t *testing.T) {
	_, err := Open(Config{Dir: filepath.Join(t.TempDir(), "none")})
	require.ErrorIs(t, err, ErrNoIdentity)
	require.ErrorContains(t, err, "quorate join")

	ca := newCA(t, inst)
	tests := []struct {
		name string
		do   func(dir string) error
		want string
	}{
		{"no key", func(dir string) error { return os.Remove(filepath.Join(dir, fileKey)) }, fileKey},
		{"no CA", func(dir string) error { return os.Remove(filepath.Join(dir, fileCA)) }, fileCA},
		{"another's key", func(dir string) error {
			return os.Rename(filepath.Join(nodeDir(t, ca, "x", RoleVoter), fileKey), filepath.Join(dir, fileKey))
		}, "not for this node's private key"},
		{"another CA", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, fileCA), []byte(newCA(t, inst).CertificatePEM()), 0o644)
		}, "unknown authority"},
		{"an empty certificate", func(dir string) error { return os.Truncate(filepath.Join(dir, fileCert), 0) }, "holds no PEM certificate"},
		{"half a certificate", func(dir string) error { return os.Truncate(filepath.Join(dir, fileCert), 200) }, "ends in the middle"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := nodeDir(t, ca, "us-1", RoleVoter)
			require.NoError(t, tt.do(dir))
			_, err := Open(Config{Dir: dir})
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestANodeWhoseCertificateRanOutStillOpens(t *testing.T) {
	then := time.Now().Add(-2 * nodeLife)
	dir := filepath.Join(t.TempDir(), "mesh")
	_, err := InitDir(dir, inst, "us-1", RoleVoter, then)
	require.NoError(t, err)
	m := open(t, Config{Dir: dir})
	require.Equal(t, "us-1", m.Identity().Name)
	require.True(t, m.RenewDue(time.Now()))
}
