package node

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/config"
)

// writePair replaces the files by a new self-signed certificate with that number.
func writePair(t *testing.T, files *config.APITLS, number int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(number), NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	require.NoError(t, err)
	der, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	replace(t, files.Cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}))
	replace(t, files.Key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
}

// replace writes a file with a time of change of its own, however fast the test is.
func replace(t *testing.T, path string, data []byte) {
	t.Helper()
	next := time.Now()
	if fi, err := os.Stat(path); err == nil {
		next = fi.ModTime().Add(time.Second)
	}
	require.NoError(t, os.WriteFile(path, data, 0o600))
	require.NoError(t, os.Chtimes(path, next, next))
}

func TestAChangedCertificateIsTakenAndABrokenOneIsNot(t *testing.T) {
	dir := t.TempDir()
	files := &config.APITLS{Cert: filepath.Join(dir, "api.crt"), Key: filepath.Join(dir, "api.key")}
	writePair(t, files, 1)
	a := &apiServer{}
	require.NoError(t, a.readCertificate(files))
	w := newWatchedFiles("api.tls", func() error { return a.readCertificate(files) }, files.Cert, files.Key)
	serves := func() int64 {
		leaf, err := x509.ParseCertificate(a.cert.Load().Certificate[0])
		require.NoError(t, err)
		return leaf.SerialNumber.Int64()
	}

	changed, err := w.follow()
	require.NoError(t, err)
	require.False(t, changed, "nothing happened")

	writePair(t, files, 2)
	changed, err = w.follow()
	require.NoError(t, err)
	require.True(t, changed)
	require.EqualValues(t, 2, serves())

	replace(t, files.Cert, []byte("half a certi"))
	_, err = w.follow()
	require.ErrorContains(t, err, "read api.tls")
	require.EqualValues(t, 2, serves(), "the last good one stays")
	changed, err = w.follow()
	require.NoError(t, err, "one complaint a change")
	require.False(t, changed)

	writePair(t, files, 3)
	_, err = w.follow()
	require.NoError(t, err)
	require.EqualValues(t, 3, serves())
}
