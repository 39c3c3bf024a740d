package node

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/consensus/mesh"
	"github.com/quorate/quorate/statestore"
)

func csrOf(t *testing.T, key *ecdsa.PrivateKey) string {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}

func TestAJoinWhoseAnswerWasLostIsAnsweredAgainToTheSameKeyOnly(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	member := statestore.Member{Name: "eu-1", Nonce: "n1", Region: "eu-west"}
	req := mesh.JoinRequest{Token: "t", Secret: "s", CSR: csrOf(t, key), Member: statestore.Member{Name: "eu-1"}}
	is := map[string]*statestore.Member{"eu-1": &member}
	var a admissions

	_, ok := a.repeated(req, is)
	require.False(t, ok, "nobody was let in yet")
	a.keep(req, member)
	repeat := req
	repeat.CSR = csrOf(t, key) // a new request by the same key
	got, ok := a.repeated(repeat, is)
	require.True(t, ok)
	require.Equal(t, member, got)

	for name, edit := range map[string]func(*mesh.JoinRequest){
		"another key":    func(r *mesh.JoinRequest) { r.CSR = csrOf(t, other) },
		"another secret": func(r *mesh.JoinRequest) { r.Secret = "x" },
		"another token":  func(r *mesh.JoinRequest) { r.Token = "x" },
		"another name":   func(r *mesh.JoinRequest) { r.Member.Name = "eu-2" },
		"no request":     func(r *mesh.JoinRequest) { r.CSR = "" },
	} {
		r := req
		edit(&r)
		_, ok = a.repeated(r, is)
		require.False(t, ok, name)
	}
	_, ok = a.repeated(req, nil)
	require.False(t, ok, "removed meanwhile")
	_, ok = a.repeated(req, map[string]*statestore.Member{"eu-1": {Name: "eu-1", Nonce: "n2"}})
	require.False(t, ok, "removed and joined anew meanwhile")

	for range 2 * maxAdmissions {
		a.keep(req, member)
	}
	require.Len(t, a.list, maxAdmissions)
}
