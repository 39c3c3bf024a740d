package mesh

import (
	"fmt"
	"strings"
	"time"
)

// SetAllowed replaces the rule of who may use ProtoRaft and ProtoRPC, and closes
// the connections it does not allow; nil allows all. It is asked on every
// connection, from several goroutines, and must not block. It must allow a node it
// merely has not heard of while this node is behind, or nobody could ever bring it
// up to date. Operators are not asked about: they are no members.
func (m *Mesh) SetAllowed(allowed func(name string) bool) {
	m.allowed.Store(&allowed)
	m.Recheck()
}

// Recheck closes every connection that would not be accepted now. Call it when
// what Allowed says has changed.
func (m *Mesh) Recheck() {
	m.mu.Lock()
	conns := m.connsLocked()
	m.mu.Unlock()
	for _, c := range conns {
		if err := m.qualify(c); err != nil {
			m.log.Info("peer connection closed", keyPeer, c.peer.Name, keyProto, c.proto, keyReason, err)
			c.sever()
		}
	}
}

// SetTrust makes these CA certificates the trusted ones and closes connections of
// others. It is refused, and the last good trust kept, when a certificate is
// invalid or when this node's own certificate would no longer be trusted: renew it
// first.
func (m *Mesh) SetTrust(pems []string) error {
	m.writing.Lock()
	defer m.writing.Unlock()
	cur := m.current.Load()
	var bundle strings.Builder
	for _, p := range pems {
		bundle.WriteString(strings.TrimSpace(p) + "\n")
	}
	// A node whose certificate has run out must still learn of a new CA.
	next, err := cur.with(cur.chainPEM(), bundle.String(), cur.authorities, time.Time{})
	if err != nil {
		return fmt.Errorf("set trust: %w", err)
	}
	return m.adopt(next, "set trust")
}

// InstallCertificate puts a renewed certificate for this node's key in place of
// the present one, and the bundle in place of the trusted CAs unless it is empty.
// Its role may differ, its name may not. Invalid material is refused and the last
// good kept. Connections made with the old certificate go on until they are old.
func (m *Mesh) InstallCertificate(certPEM, bundle string) error {
	m.writing.Lock()
	defer m.writing.Unlock()
	cur := m.current.Load()
	if bundle == "" {
		bundle = cur.bundlePEM()
	}
	next, err := cur.with(certPEM, bundle, cur.authorities, time.Now())
	if err != nil {
		return fmt.Errorf("install certificate: %w", err)
	}
	return m.adopt(next, "install certificate")
}

// InstallAuthority adds a CA this voter can sign with from now on, and trusts it
// beside the others. In a roll every node must trust the new CA (SetTrust) before
// any node installs it, and hold a certificate of it before the old one is retired
// by a SetTrust without it.
func (m *Mesh) InstallAuthority(a *Authority) error {
	m.writing.Lock()
	defer m.writing.Unlock()
	cur := m.current.Load()
	if a.Installation() != cur.identity.Installation {
		return fmt.Errorf("install CA: it is of installation %q, this node of %q", a.Installation(), cur.identity.Installation)
	}
	if cur.identity.Role != RoleVoter {
		return fmt.Errorf("install CA: only voters hold CA keys, this node is %s", cur.identity)
	}
	next, err := cur.with(cur.chainPEM(), cur.bundlePEM()+a.CertificatePEM(), prepend(a, cur.authorities), time.Time{})
	if err != nil {
		return fmt.Errorf("install CA: %w", err)
	}
	return m.adopt(next, "install CA")
}

// Reload reads the files again, for certificates that somebody else makes. Invalid
// ones are refused and the last good kept.
func (m *Mesh) Reload() error {
	m.writing.Lock()
	defer m.writing.Unlock()
	cur := m.current.Load()
	read, err := load(m.paths)
	if err != nil {
		return fmt.Errorf("reload certificates: %w", err)
	}
	cur = &material{identity: cur.identity, key: read.key}
	next, err := cur.with(read.chainPEM(), read.bundlePEM(), read.authorities, time.Now())
	if err != nil {
		return fmt.Errorf("reload certificates: %w", err)
	}
	m.swap(next)
	return nil
}

// adopt writes the new material, then uses it. The order of the files keeps every
// prefix of the writes a directory that loads: trust grows before the certificate
// changes and shrinks after it.
func (m *Mesh) adopt(next *material, what string) error {
	cur := m.current.Load()
	if next.bundlePEM() != cur.bundlePEM() {
		both := cur.bundlePEM() + next.bundlePEM()
		if err := writeFile(m.paths.ca, []byte(both), modePublic); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	if !sameAuthorities(next.authorities, cur.authorities) {
		if err := saveAuthorities(m.paths, next.key, next.authorities); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	if next.chainPEM() != cur.chainPEM() {
		if err := writeFile(m.paths.cert, []byte(next.chainPEM()), modePublic); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	if next.bundlePEM() != cur.bundlePEM() {
		if err := writeFile(m.paths.ca, []byte(next.bundlePEM()), modePublic); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	m.swap(next)
	return nil
}

func (m *Mesh) swap(next *material) {
	m.current.Store(next)
	m.Recheck()
}

func sameAuthorities(a, b []*Authority) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Fingerprint() != b[i].Fingerprint() {
			return false
		}
	}
	return true
}

// NewCSR returns a certificate request for this node's key, to be signed by a
// voter's Authority and given to InstallCertificate. The key stays the same: a
// renewal then changes one file, and a crash cannot part a key from its
// certificate.
func (m *Mesh) NewCSR() (string, error) { return encodeCSR(m.current.Load().key) }

// RenewDue reports whether two thirds of the certificate's life are over.
func (m *Mesh) RenewDue(now time.Time) bool {
	notBefore, notAfter := m.Validity()
	return !now.Before(notBefore.Add(notAfter.Sub(notBefore) / 3 * 2))
}
