package mesh

import (
	"crypto"
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// ErrNoIdentity says that a directory holds no node certificate yet.
var ErrNoIdentity = errors.New("no node certificate")

// ErrHasIdentity says that a directory holds a node certificate already.
var ErrHasIdentity = errors.New("a node certificate exists already")

// InitDir makes the first node of an installation: a CA, and the node's own key
// and certificate, in dir. It refuses a directory that has an identity; one left
// half-made by a crash is made again.
func InitDir(dir, installation, name, role string, now time.Time) (*Authority, error) {
	a, err := NewAuthority(installation, now)
	if err != nil {
		return nil, err
	}
	return a, IssueTo(dir, a, Identity{Installation: installation, Name: name, Role: role}, now)
}

// IssueTo makes a node's key and certificate in dir, signed by a. A voter also
// gets the CA's key, sealed with its own. It serves installations whose
// certificates are made beforehand.
func IssueTo(dir string, a *Authority, id Identity, now time.Time) error {
	if err := id.Validate(); err != nil {
		return fmt.Errorf("issue certificate: %w", err)
	}
	p := pathsIn(dir)
	if err := makeDir(dir); err != nil {
		return err
	}
	if ok, err := exists(p.cert); err != nil {
		return err
	} else if ok {
		return fmt.Errorf("issue certificate of %s: %w in %s", id, ErrHasIdentity, dir)
	}
	key, err := newKey()
	if err != nil {
		return fmt.Errorf("make node key: %w", err)
	}
	certPEM, err := a.sign(key.Public(), id, now)
	if err != nil {
		return err
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return err
	}
	if err := writeFile(p.key, []byte(keyPEM), modeSecret); err != nil {
		return err
	}
	return saveIdentity(p, key, id, a.CertificatePEM(), certPEM, a)
}

// saveIdentity writes everything but the node's key, the certificate last: a crash
// before it leaves a directory without an identity, never a broken one.
func saveIdentity(p paths, key crypto.Signer, id Identity, bundlePEM, certPEM string, a *Authority) error {
	if err := writeFile(p.ca, []byte(bundlePEM), modePublic); err != nil {
		return err
	}
	var all []*Authority
	if id.Role == RoleVoter && a != nil {
		all = append(all, a)
	}
	if err := saveAuthorities(p, key, all); err != nil {
		return err
	}
	return writeFile(p.cert, []byte(certPEM), modePublic)
}

// Save adds the CA to a node's directory: its certificate to the trusted ones, its
// key, sealed, as the one that signs. The directory must hold the node's key.
func (a *Authority) Save(dir string) error {
	p := pathsIn(dir)
	key, all, bundle, err := loadDirAuthorities(p)
	if err != nil {
		return fmt.Errorf("save CA: %w", err)
	}
	if _, ok := bundle[a.Fingerprint()]; !ok {
		text, err := readBounded(p.ca)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("save CA: %w", err)
		}
		if err := writeFile(p.ca, append(text, a.CertificatePEM()...), modePublic); err != nil {
			return fmt.Errorf("save CA: %w", err)
		}
	}
	if err := saveAuthorities(p, key, prepend(a, all)); err != nil {
		return fmt.Errorf("save CA: %w", err)
	}
	return nil
}

// LoadAuthority returns the CA that signs on the node whose directory this is.
// ErrNoAuthority: the node holds no CA key.
func LoadAuthority(dir string) (*Authority, error) {
	_, all, _, err := loadDirAuthorities(pathsIn(dir))
	if err != nil {
		return nil, fmt.Errorf("load CA: %w", err)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("load CA from %s: %w", dir, ErrNoAuthority)
	}
	return all[0], nil
}

func loadDirAuthorities(p paths) (crypto.Signer, []*Authority, map[string]string, error) {
	keyPEM, err := readSecret(p.key)
	if err != nil {
		return nil, nil, nil, err
	}
	key, err := parseKey(keyPEM)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("%s: %w", p.key, err)
	}
	bundle := map[string]string{}
	text, err := readBounded(p.ca)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, nil, nil, err
	default:
		certs, err := parseCertificates(string(text))
		if err != nil {
			return nil, nil, nil, fmt.Errorf("%s: %w", p.ca, err)
		}
		for _, c := range certs {
			bundle[fingerprint(c)] = encodeCertificate(c.Raw)
		}
	}
	all, err := loadAuthorities(p, key, func(fp string) (string, bool) { t, ok := bundle[fp]; return t, ok })
	return key, all, bundle, err
}

// prepend returns all with a first and only once.
func prepend(a *Authority, all []*Authority) []*Authority {
	next := []*Authority{a}
	for _, b := range all {
		if b.Fingerprint() != a.Fingerprint() {
			next = append(next, b)
		}
	}
	return next
}
