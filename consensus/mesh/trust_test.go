package mesh

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func fingerprints(t *testing.T, m *Mesh) []string {
	t.Helper()
	var all []string
	for _, p := range m.Trust() {
		fp, err := CAFingerprintOf(p)
		require.NoError(t, err)
		all = append(all, fp)
	}
	return all
}

// renew gives m a certificate of a.
func renew(t *testing.T, m *Mesh, a *Authority, role string) {
	t.Helper()
	csr, err := m.NewCSR()
	require.NoError(t, err)
	cert, err := a.SignCSR(csr, Identity{inst, m.Identity().Name, role}, time.Now())
	require.NoError(t, err)
	require.NoError(t, m.InstallCertificate(cert, ""))
}

func dialed(t *testing.T, m *Mesh, proto, name, addr string) net.Conn {
	t.Helper()
	c, err := m.Dial(t.Context(), proto, name, addr)
	require.NoError(t, err)
	require.NoError(t, ping(t, c))
	return c
}

func TestCARollKeepsTheMeshTogether(t *testing.T) {
	old, fresh := newCA(t, inst), newCA(t, inst)
	usDir := nodeDir(t, old, "us-1", RoleVoter)
	us, eu, ap := open(t, Config{Dir: usDir}), node(t, old, "eu-1", RoleVoter), node(t, old, "ap-1", RoleNonvoter)
	echo(t, us, ProtoRaft)
	addr := serve(t, us)
	conn := dialed(t, eu, ProtoRaft, "us-1", addr)
	laggard := dialed(t, ap, ProtoRaft, "us-1", addr)

	all := []*Mesh{us, eu, ap}
	for _, m := range all {
		require.NoError(t, m.SetTrust([]string{old.CertificatePEM(), fresh.CertificatePEM()}))
	}
	require.NoError(t, us.InstallAuthority(fresh))
	require.ErrorContains(t, ap.InstallAuthority(fresh), "only voters hold CA keys")
	signer, err := us.Authority("")
	require.NoError(t, err)
	require.Equal(t, fresh.Fingerprint(), signer.Fingerprint())

	t.Run("retiring the CA of one's own certificate is refused", func(t *testing.T) {
		require.ErrorContains(t, us.SetTrust([]string{fresh.CertificatePEM()}), "unknown authority")
		require.Equal(t, []string{old.Fingerprint(), fresh.Fingerprint()}, fingerprints(t, us))
	})

	renew(t, us, signer, RoleVoter)
	renew(t, eu, signer, RoleVoter)
	require.Equal(t, fresh.Fingerprint(), us.Issuer())
	require.NoError(t, ping(t, conn), "a roll does not cut what is open")
	renewed := dialed(t, eu, ProtoRaft, "us-1", addr)
	dialed(t, ap, ProtoRaft, "us-1", addr)

	require.NoError(t, us.SetTrust([]string{fresh.CertificatePEM()}))
	waitClosed(t, laggard)
	waitClosed(t, conn) // it was made with the old certificate
	require.NoError(t, ping(t, renewed))
	_, err = ap.Dial(t.Context(), ProtoRaft, "us-1", addr)
	require.ErrorIs(t, err, ErrRefused)
	_, err = us.Authority(old.Fingerprint())
	require.ErrorIs(t, err, ErrNoAuthority, "the key of a retired CA is kept")

	t.Run("the disk agrees", func(t *testing.T) {
		again := open(t, Config{Dir: usDir})
		require.Equal(t, []string{fresh.Fingerprint()}, fingerprints(t, again))
		require.Equal(t, fresh.Fingerprint(), again.Issuer())
		a, err := again.Authority("")
		require.NoError(t, err)
		require.Equal(t, fresh.Fingerprint(), a.Fingerprint())
		sealed, err := os.ReadFile(filepath.Join(usDir, fileCAKey))
		require.NoError(t, err)
		require.Equal(t, 1, strings.Count(string(sealed), "BEGIN"))
	})
}

func TestLastGoodIsKept(t *testing.T) {
	ca, foreign := newCA(t, inst), newCA(t, inst)
	dir := nodeDir(t, ca, "us-1", RoleVoter)
	us, eu := open(t, Config{Dir: dir}), node(t, ca, "eu-1", RoleVoter)
	echo(t, us, ProtoRaft)
	addr := serve(t, us)
	conn := dialed(t, eu, ProtoRaft, "us-1", addr)
	files := snapshotDir(t, dir)

	csr, err := us.NewCSR()
	require.NoError(t, err)
	sign := func(a *Authority, id Identity, at time.Time) string {
		cert, err := a.SignCSR(csr, id, at)
		require.NoError(t, err)
		return cert
	}
	me := Identity{inst, "us-1", RoleVoter}
	good := ca.CertificatePEM()
	elsewhere := newCA(t, "other.example")
	otherKey, err := eu.NewCSR()
	require.NoError(t, err)
	notMine, err := ca.SignCSR(otherKey, me, time.Now())
	require.NoError(t, err)
	leaf := sign(ca, me, time.Now())

	tests := []struct {
		name string
		do   func() error
		want string
	}{
		{"empty trust", func() error { return us.SetTrust(nil) }, "holds no PEM certificate"},
		{"garbage trust", func() error { return us.SetTrust([]string{good, "garbage\n-----BEGIN CERT"}) }, "ends in the middle"},
		{"truncated trust", func() error { return us.SetTrust([]string{good[:len(good)-40]}) }, "middle"},
		{"trust in a leaf", func() error { return us.SetTrust([]string{good, leaf}) }, "is not a CA certificate"},
		{"trust in a key", func() error { return us.SetTrust([]string{good, mustKeyPEM(t, ca)}) }, "must hold certificates only"},
		{"trust without one's own CA", func() error { return us.SetTrust([]string{foreign.CertificatePEM()}) }, "unknown authority"},
		{"an empty certificate", func() error { return us.InstallCertificate("", "") }, "holds no PEM certificate"},
		{"a certificate of another CA", func() error { return us.InstallCertificate(sign(foreign, me, time.Now()), "") }, "unknown authority"},
		{"a certificate for another key", func() error { return us.InstallCertificate(notMine, "") }, "not for this node's private key"},
		{"a certificate of another name", func() error {
			return us.InstallCertificate(sign(ca, Identity{inst, "us-2", RoleVoter}, time.Now()), "")
		}, "it is for us-2"},
		{"a certificate of another installation", func() error {
			return us.InstallCertificate(sign(elsewhere, Identity{"other.example", "us-1", RoleVoter}, time.Now()), elsewhere.CertificatePEM())
		}, "other.example"},
		{"an operator's certificate", func() error {
			return us.InstallCertificate(sign(ca, Identity{inst, "us-1", RoleOperator}, time.Now()), "")
		}, "cannot run a node"},
		{"an expired certificate", func() error {
			return us.InstallCertificate(sign(ca, me, time.Now().Add(-nodeLife-time.Minute)), "")
		}, "expired"},
		{"a certificate from the future", func() error {
			return us.InstallCertificate(sign(ca, me, time.Now().Add(2*time.Hour)), "")
		}, "not yet valid"},
		{"a good certificate with a bad bundle", func() error { return us.InstallCertificate(leaf, "garbage") }, "CA bundle"},
		{"a CA of another installation", func() error { return us.InstallAuthority(elsewhere) }, "other.example"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.ErrorContains(t, tt.do(), tt.want)
			require.Equal(t, files, snapshotDir(t, dir), "files changed")
			require.NoError(t, ping(t, conn))
			_ = dialed(t, eu, ProtoRaft, "us-1", addr).Close()
		})
	}
}

func snapshotDir(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	files := map[string]string{}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		files[e.Name()] = string(b)
	}
	return files
}

func TestReloadTakesFilesOfSomebodyElse(t *testing.T) {
	ca := newCA(t, inst)
	dir, next := nodeDir(t, ca, "us-1", RoleNonvoter), nodeDir(t, ca, "us-1", RoleNonvoter)
	us := open(t, Config{
		Dir: t.TempDir(), CAFile: filepath.Join(dir, fileCA),
		CertFile: filepath.Join(dir, fileCert), KeyFile: filepath.Join(dir, fileKey),
	})
	before := us.current.Load().chain[0].SerialNumber

	require.NoError(t, os.Rename(filepath.Join(next, fileCert), filepath.Join(dir, fileCert)))
	require.ErrorContains(t, us.Reload(), "not for this node's private key")
	require.Equal(t, before, us.current.Load().chain[0].SerialNumber)

	require.NoError(t, os.Rename(filepath.Join(next, fileKey), filepath.Join(dir, fileKey)))
	require.NoError(t, us.Reload())
	require.NotEqual(t, before, us.current.Load().chain[0].SerialNumber)
}

func TestPromotionAndDemotionMoveTheCAKey(t *testing.T) {
	ca := newCA(t, inst)
	dir := nodeDir(t, ca, "us-1", RoleNonvoter)
	us := open(t, Config{Dir: dir})
	renew(t, us, ca, RoleVoter)
	require.NoError(t, us.InstallAuthority(ca))
	require.Len(t, us.Trust(), 1, "a CA that is trusted already is trusted once")
	_, err := LoadAuthority(dir)
	require.NoError(t, err)

	renew(t, us, ca, RoleNonvoter)
	_, err = us.Authority("")
	require.ErrorIs(t, err, ErrNoAuthority)
	require.NoFileExists(t, filepath.Join(dir, fileCAKey))
}

func TestRenewalIsDueAtTwoThirdsOfLife(t *testing.T) {
	us := node(t, newCA(t, inst), "us-1", RoleVoter)
	from, to := us.Validity()
	due := from.Add(to.Sub(from) / 3 * 2)
	require.False(t, us.RenewDue(due.Add(-time.Second)))
	require.True(t, us.RenewDue(due))
	require.True(t, us.RenewDue(to.Add(time.Hour)))
}

func TestUnlistedNodesAreCutOff(t *testing.T) {
	ca := newCA(t, inst)
	us, eu, ap := node(t, ca, "us-1", RoleVoter), node(t, ca, "eu-1", RoleVoter), node(t, ca, "ap-1", RoleVoter)
	for _, proto := range []string{ProtoRaft, ProtoRPC, ProtoJoin} {
		echo(t, us, proto)
	}
	addr := serve(t, us)
	raft, rpc := dialed(t, eu, ProtoRaft, "us-1", addr), dialed(t, eu, ProtoRPC, "us-1", addr)
	kept := dialed(t, ap, ProtoRaft, "us-1", addr)

	us.SetAllowed(func(name string) bool { return name != "eu-1" })
	waitClosed(t, raft)
	waitClosed(t, rpc)
	require.NoError(t, ping(t, kept))
	for _, proto := range []string{ProtoRaft, ProtoRPC} {
		_, err := eu.Dial(t.Context(), proto, "us-1", addr)
		require.ErrorIs(t, err, ErrRefused)
		require.ErrorContains(t, err, "eu-1 is not a member")
	}
	require.NoError(t, call(t, addr, ProtoJoin), "joining needs no membership")
	require.NoError(t, call(t, addr, ProtoRPC, forge(t, ca, Identity{inst, "anna", RoleOperator}, nil)), "operators are no members")

	us.SetAllowed(nil)
	dialed(t, eu, ProtoRaft, "us-1", addr)
}

func TestRecheckReachesDialledConnections(t *testing.T) {
	ca := newCA(t, inst)
	us, eu := node(t, ca, "us-1", RoleVoter), node(t, ca, "eu-1", RoleVoter)
	echo(t, us, ProtoRaft)
	conn := dialed(t, eu, ProtoRaft, "us-1", serve(t, us))
	var gone atomic.Bool
	eu.SetAllowed(func(string) bool { return !gone.Load() })
	require.NoError(t, ping(t, conn))
	gone.Store(true)
	eu.Recheck()
	require.ErrorIs(t, ping(t, conn), net.ErrClosed)
}

// A change between the check of a new connection and its use must not miss it.
func TestAChangeDuringAcceptanceIsNotMissed(t *testing.T) {
	ca := newCA(t, inst)
	us, eu := node(t, ca, "us-1", RoleVoter), node(t, ca, "eu-1", RoleVoter)
	echo(t, us, ProtoRaft)
	us.SetAllowed(func(string) bool {
		us.SetAllowed(func(string) bool { return false }) // removed just after it was looked up
		return true
	})
	c, err := eu.Dial(t.Context(), ProtoRaft, "us-1", serve(t, us))
	if err == nil {
		waitClosed(t, c)
	}
}

// blockFile makes the next write of a file fail, until the returned function puts
// the old file back.
func blockFile(t *testing.T, path string) (restore func()) {
	t.Helper()
	require.NoError(t, os.Rename(path, path+".old"))
	require.NoError(t, os.MkdirAll(filepath.Join(path, "full"), 0o700))
	return func() {
		require.NoError(t, os.RemoveAll(path))
		require.NoError(t, os.Rename(path+".old", path))
	}
}

// A change writes up to three files. Wherever it ends, by a full disk or a crash,
// the directory must open and the running node must go on as it was.
func TestAChangeThatEndsHalfWayLeavesADirectoryThatOpens(t *testing.T) {
	for _, blocked := range []string{fileCA, fileCAKey, fileCert} {
		t.Run("at "+blocked, func(t *testing.T) {
			old, fresh := newCA(t, inst), newCA(t, inst)
			dir := nodeDir(t, old, "us-1", RoleVoter)
			us := open(t, Config{Dir: dir})
			require.NoError(t, us.InstallAuthority(fresh))
			csr, err := us.NewCSR()
			require.NoError(t, err)
			cert, err := fresh.SignCSR(csr, Identity{inst, "us-1", RoleVoter}, time.Now())
			require.NoError(t, err)

			restore := blockFile(t, filepath.Join(dir, blocked))
			require.ErrorContains(t, us.InstallCertificate(cert, fresh.CertificatePEM()), blocked)
			restore()
			require.Equal(t, old.Fingerprint(), us.Issuer())

			again := open(t, Config{Dir: dir})
			require.Equal(t, old.Fingerprint(), again.Issuer())
			_, err = again.Authority("")
			require.NoError(t, err)
			require.NoError(t, again.InstallCertificate(cert, fresh.CertificatePEM()), "the change cannot be made again")
			require.Equal(t, []string{fresh.Fingerprint()}, fingerprints(t, open(t, Config{Dir: dir})))
		})
	}
}
