package node

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/dnsserver"
	"github.com/quorate/quorate/statestore"
)

// cookies holds the keys of DNS cookies that the spec names. Secrets are read when
// they are used, and these are used for every query: they are read whenever files are
// looked at, and those that do not read leave the last good ones in use (G13).
type cookies struct {
	keys   atomic.Pointer[dnsserver.CookieSecrets] // nil: the nodes share none
	failed string                                  // why they were not read, the last time; of the goroutine that reads
}

// followCookies reads the keys that the spec in force names.
func (n *Node) followCookies() {
	keys, err := n.cookieKeys(n.view.State().Spec.DNS.Cookies)
	why := ""
	if err != nil {
		why = err.Error()
	}
	if why != "" && why != n.cookies.failed {
		n.log.Error("the keys of DNS cookies do not read, the last good ones stay in use", keyErr, err)
	}
	n.cookies.failed = why
	if keys != nil || err == nil {
		n.cookies.keys.Store(keys)
	}
}

// cookieKeys returns the keys of a set of names, nil for none. Without the one in use
// there are none; one beside it that does not read is left out, and said.
func (n *Node) cookieKeys(named *statestore.Secret) (*dnsserver.CookieSecrets, error) {
	if named == nil {
		return nil, nil //nolint:nilnil // nobody named any, and that is fine
	}
	current, err := n.cookieKey(named.Secret)
	if err != nil {
		return nil, err
	}
	keys := &dnsserver.CookieSecrets{Current: current}
	var errs []error
	for _, name := range []string{named.Next, named.Previous} {
		if name == "" {
			continue
		}
		key, err := n.cookieKey(name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		keys.Accepted = append(keys.Accepted, key)
	}
	return keys, errors.Join(errs...)
}

func (n *Node) cookieKey(name string) (dnsserver.CookieSecret, error) {
	value, err := n.secret(name)
	if err != nil {
		return dnsserver.CookieSecret{}, err
	}
	key, err := dnsserver.ParseCookieSecret(value)
	if err != nil {
		return dnsserver.CookieSecret{}, fmt.Errorf("secret %s: %w", name, err)
	}
	return key, nil
}

// rateLimit returns what the answers of this node are bounded by.
func rateLimit(l *config.RateLimit) dnsserver.RateLimit {
	if l == nil {
		return dnsserver.RateLimit{}
	}
	return dnsserver.RateLimit{PerSecond: l.PerSecond, Slip: l.Slip, Exempt: l.Exempt, LogOnly: l.LogOnly}
}
