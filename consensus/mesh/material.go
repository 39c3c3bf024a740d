package mesh

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// material is everything a handshake needs, taken together: who this node is, its
// certificate and key, and whom it trusts. Immutable; a change makes another.
type material struct {
	identity    Identity
	key         crypto.Signer
	chain       []*x509.Certificate // own leaf, then intermediates
	issuer      string              // fingerprint of the root the chain ends in
	bundle      []*x509.Certificate // trusted CAs, in the order given
	roots       *x509.CertPool
	authorities []*Authority // CAs this node can sign with, the newest first
	certificate tls.Certificate
}

// newMaterial checks that the parts belong together. at is the moment the
// certificate must be valid; zero leaves its dates alone, so that a node whose
// certificate ran out still starts, answers DNS and says what is wrong.
func newMaterial(key crypto.Signer, chainPEM, bundlePEM string, authorities []*Authority, at time.Time) (*material, error) {
	chain, err := parseCertificates(chainPEM)
	if err != nil {
		return nil, fmt.Errorf("node certificate: %w", err)
	}
	bundle, err := parseCertificates(bundlePEM)
	if err != nil {
		return nil, fmt.Errorf("CA bundle: %w", err)
	}
	m := &material{key: key, chain: chain, roots: x509.NewCertPool(), authorities: authorities}
	for _, c := range bundle {
		if !c.IsCA || !c.BasicConstraintsValid {
			return nil, fmt.Errorf("CA bundle: %q is not a CA certificate", c.Subject.CommonName)
		}
		if !slices.ContainsFunc(m.bundle, c.Equal) {
			m.bundle = append(m.bundle, c)
			m.roots.AddCert(c)
		}
	}
	leaf := chain[0]
	if !samePublic(leaf.PublicKey, key.Public()) {
		return nil, errors.New("node certificate: it is not for this node's private key")
	}
	moments := []time.Time{at}
	if at.IsZero() {
		moments = []time.Time{leaf.NotAfter, leaf.NotBefore} // a CA may end before what it signed
	}
	var (
		id   Identity
		root *x509.Certificate
	)
	for _, at := range moments {
		if id, root, err = m.verify(chain, x509.ExtKeyUsageClientAuth, at); err == nil {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("node certificate: %w", err)
	}
	if id.Role == RoleOperator {
		return nil, errors.New("node certificate: an operator's certificate cannot run a node")
	}
	m.identity, m.issuer = id, fingerprint(root)
	presented := make([][]byte, 0, len(chain)+1)
	for _, c := range chain {
		presented = append(presented, c.Raw)
	}
	// The root goes along for joining nodes, which know it by its hash only.
	if !slices.ContainsFunc(chain, root.Equal) {
		presented = append(presented, root.Raw)
	}
	m.certificate = tls.Certificate{Certificate: presented, PrivateKey: key, Leaf: leaf}
	return m, nil
}

// verify returns whom a peer's chain names and the trusted CA it ends in.
func (m *material) verify(chain []*x509.Certificate, usage x509.ExtKeyUsage, at time.Time) (Identity, *x509.Certificate, error) {
	return verifyChain(m.roots, m.identity.Installation, chain, usage, at)
}

// verifyChain checks a chain against roots, and its name against installation
// unless that is empty.
func verifyChain(roots *x509.CertPool, installation string, chain []*x509.Certificate, usage x509.ExtKeyUsage, at time.Time) (Identity, *x509.Certificate, error) {
	if len(chain) == 0 {
		return Identity{}, nil, errors.New("no certificate was shown")
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	verified, err := chain[0].Verify(x509.VerifyOptions{
		Roots:         roots,
		Intermediates: between,
		CurrentTime:   at,
		KeyUsages:     []x509.ExtKeyUsage{usage},
	})
	if err != nil {
		return Identity{}, nil, err
	}
	id, err := IdentityOf(chain[0])
	if err != nil {
		return Identity{}, nil, err
	}
	if installation != "" && id.Installation != installation {
		return Identity{}, nil, fmt.Errorf("certificate is of installation %q, not of %q", id.Installation, installation)
	}
	path := verified[0]
	return id, path[len(path)-1], nil
}

// chainPEM returns the node's own certificate and its intermediates.
func (m *material) chainPEM() string { return encodeCertificates(m.chain) }

// bundlePEM returns the trusted CAs.
func (m *material) bundlePEM() string { return encodeCertificates(m.bundle) }

// trusted returns the certificate of a trusted CA.
func (m *material) trusted(fp string) (string, bool) {
	for _, c := range m.bundle {
		if fingerprint(c) == fp {
			return encodeCertificate(c.Raw), true
		}
	}
	return "", false
}

// with returns the material with another chain and bundle, valid now. Authorities
// that are no longer trusted, or that this node's new role may not hold, go.
func (m *material) with(chainPEM, bundlePEM string, authorities []*Authority, now time.Time) (*material, error) {
	next, err := newMaterial(m.key, chainPEM, bundlePEM, nil, now)
	if err != nil {
		return nil, err
	}
	if next.identity.Name != m.identity.Name || next.identity.Installation != m.identity.Installation {
		return nil, fmt.Errorf("node certificate: it is for %s of %q, this node is %s of %q",
			next.identity.Name, next.identity.Installation, m.identity.Name, m.identity.Installation)
	}
	if len(next.bundle) > maxTrusted {
		return nil, fmt.Errorf("CA bundle: must hold at most %d certificates, holds %d", maxTrusted, len(next.bundle))
	}
	if next.identity.Role == RoleVoter {
		for _, a := range authorities {
			if _, ok := next.trusted(a.Fingerprint()); ok {
				next.authorities = append(next.authorities, a)
			}
		}
	}
	return next, nil
}

// load reads a node's files. Dates are not checked.
func load(p paths) (*material, error) {
	if ok, err := exists(p.cert); err != nil {
		return nil, err
	} else if !ok {
		return nil, fmt.Errorf("%w in %s: run quorate init on the first node, quorate join TOKEN@HOST on the others", ErrNoIdentity, p.dir)
	}
	// Where others put the files, the directory is theirs too.
	if filepath.Dir(p.key) == filepath.Clean(p.dir) {
		if err := checkMode(p.dir, modeDir); err != nil {
			return nil, err
		}
	}
	keyPEM, err := readSecret(p.key)
	if err != nil {
		return nil, err
	}
	key, err := parseKey(keyPEM)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.key, err)
	}
	chain, err := readBounded(p.cert)
	if err != nil {
		return nil, err
	}
	bundle, err := readBounded(p.ca)
	if err != nil {
		return nil, err
	}
	m, err := newMaterial(key, string(chain), string(bundle), nil, time.Time{})
	if err != nil {
		return nil, fmt.Errorf("load %s, %s: %w", p.cert, p.ca, err)
	}
	m.authorities, err = loadAuthorities(p, key, m.trusted)
	return m, err
}

// loadAuthorities reads the sealed CA keys. No file is no authority. A key whose
// CA is no longer trusted is left out: SetTrust may have been cut off between its
// two files.
func loadAuthorities(p paths, node crypto.Signer, trusted func(string) (string, bool)) ([]*Authority, error) {
	text, err := readSecret(p.caKey)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []*Authority
	for rest := text; ; {
		block, next := pem.Decode(rest)
		if block == nil {
			if strings.TrimSpace(string(rest)) != "" {
				return nil, fmt.Errorf("%s: ends in something that is no PEM block", p.caKey)
			}
			return all, nil
		}
		rest = next
		if _, ok := trusted(block.Headers[sealedCA]); !ok && block.Type == sealedType {
			continue
		}
		a, err := unseal(node, block, trusted)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.caKey, err)
		}
		all = append(all, a)
	}
}

// saveAuthorities writes the sealed CA keys, or removes the file when there are none.
func saveAuthorities(p paths, node crypto.Signer, all []*Authority) error {
	if len(all) == 0 {
		return removeFile(p.caKey)
	}
	var text []byte
	for _, a := range all {
		b, err := a.seal(node)
		if err != nil {
			return fmt.Errorf("seal CA key: %w", err)
		}
		text = append(text, b...)
	}
	return writeFile(p.caKey, text, modeSecret)
}
