package probe

import (
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"time"
)

// authorityAge is how long a CA is kept before its secret is read again: a new one
// counts about that late.
const authorityAge = 30 * time.Second

// authorities holds the CAs that checks name. The zero value knows no secret.
type authorities struct {
	secret func(name string) ([]byte, error)

	mu    sync.Mutex // guards what follows
	pools map[string]authority
	empty *bool // whether the system has no CA at all; nil: not looked yet
}

type authority struct {
	pool *x509.CertPool
	sum  [sha256.Size]byte
	read time.Time
}

// named returns the CA in the secret of that name. An error is this node's own.
func (a *authorities) named(name string, now time.Time) (*x509.CertPool, error) {
	a.mu.Lock()
	had, ok := a.pools[name]
	fresh := ok && now.Sub(had.read).Abs() < authorityAge
	if ok && !fresh {
		had.read = now // others go on with it while it is read again, and if that fails
		a.pools[name] = had
	}
	a.mu.Unlock()
	if fresh {
		return had.pool, nil
	}
	read, err := a.read(name)
	switch {
	case err != nil && !ok:
		return nil, &ownError{fmt.Sprintf("the CA in the secret %q", name), err}
	case err != nil, ok && read.sum == had.sum:
		return had.pool, nil // the same pool, for which chains are known to hold
	}
	read.read = now
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pools == nil {
		a.pools = map[string]authority{}
	}
	a.pools[name] = read
	return read.pool, nil
}

// read returns the CA that the secret holds now.
func (a *authorities) read(name string) (authority, error) {
	if a.secret == nil {
		return authority{}, errors.New("this node has no secrets")
	}
	pem, err := a.secret(name)
	if err != nil {
		return authority{}, err
	}
	read := authority{pool: x509.NewCertPool(), sum: sha256.Sum256(pem)}
	if !read.pool.AppendCertsFromPEM(pem) {
		return authority{}, errors.New("must be certificates in PEM, holds none")
	}
	return read, nil
}

// none reports whether the system has no CA at all.
func (a *authorities) none() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.empty == nil {
		pool, err := x509.SystemCertPool()
		a.empty = new(err != nil || pool.Equal(x509.NewCertPool()))
	}
	return *a.empty
}
