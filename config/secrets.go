package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"syscall"

	"github.com/quorate/quorate/statestore"
)

// Secrets says where a node finds the values of the names that the spec refers
// to. The values stay there: they are read when they are used, so that a new one
// needs no reload, and nothing here ever prints one.
type Secrets map[string]SecretSource

// SecretSource is where one value is. Exactly one field is set.
type SecretSource struct {
	File string // a file that only its owner can read
	Env  string // an environment variable
}

// SecretNames returns the names of the secrets that nodes need to do what the spec
// says, sorted: HMAC keys of webhooks, CAs of checks, keys of signed zones, and of
// cookies.
func SecretNames(sp *statestore.Spec) []string {
	names := map[string]bool{}
	add := func(name string) {
		if name != "" {
			names[name] = true
		}
	}
	ca := func(c *statestore.Check) {
		switch {
		case c == nil:
		case c.HTTPS != nil && c.HTTPS.TLS != nil:
			add(c.HTTPS.TLS.CA)
		case c.GRPC != nil && c.GRPC.TLS != nil:
			add(c.GRPC.TLS.CA)
		}
	}
	for _, r := range sp.Notify.Receivers {
		if r.Webhook != nil {
			add(r.Webhook.Sign)
		}
	}
	for _, z := range sp.Zones {
		if d := z.DNSSEC; d != nil {
			for _, k := range []statestore.Secret{d.KSK, d.ZSK} {
				add(k.Secret)
				add(k.Next)
				add(k.Previous)
			}
		}
	}
	if k := sp.DNS.Cookies; k != nil {
		add(k.Secret)
		add(k.Next)
		add(k.Previous)
	}
	for _, c := range sp.Clusters {
		ca(c.Check)
	}
	for _, s := range sp.Services {
		for _, c := range slices.Concat(s.Checks.All, s.Checks.Any) {
			ca(c)
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// Secret is a value that does not print: every verb of fmt, JSON and slog shows
// "***". Its length is not shown either.
type Secret struct{ value []byte }

// hidden is what is shown of a secret.
const hidden = "***"

// Bytes returns the value, which the caller must not change or keep.
func (s Secret) Bytes() []byte { return s.value }

// String returns "***".
func (Secret) String() string { return hidden }

// GoString returns "***".
func (Secret) GoString() string { return hidden }

// Format writes "***" whatever the verb is.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, hidden) } // fmt reports nothing either

// MarshalText writes "***".
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// maxSecret bounds a value, in bytes; keys and tokens are far below.
const maxSecret = 64 << 10

// ErrNoSecret says that the node has no secret of that name.
var ErrNoSecret = errors.New("not in secrets of node.yaml")

// Resolve reads the value of a name. One newline at its end, as editors leave it,
// is not part of it. Errors name the place, never the value.
func (s Secrets) Resolve(name string) (Secret, error) {
	source, ok := s[name]
	if !ok {
		return Secret{}, fmt.Errorf("secret %s: %w", name, ErrNoSecret)
	}
	value, err := source.read()
	if err != nil {
		return Secret{}, fmt.Errorf("secret %s: %w", name, err)
	}
	if rest, cut := bytes.CutSuffix(value, []byte("\n")); cut {
		value = bytes.TrimSuffix(rest, []byte("\r"))
	}
	if len(value) == 0 {
		return Secret{}, fmt.Errorf("secret %s: %s is empty", name, source)
	}
	return Secret{value}, nil
}

// String names the place.
func (s SecretSource) String() string {
	if s.Env != "" {
		return "environment variable " + s.Env
	}
	return "file " + s.File
}

func (s SecretSource) read() ([]byte, error) {
	if s.Env != "" {
		value, ok := os.LookupEnv(s.Env)
		if !ok {
			return nil, fmt.Errorf("%s is not set", s)
		}
		if len(value) > maxSecret {
			return nil, fmt.Errorf("%s has more than %d bytes", s, maxSecret)
		}
		return []byte(value), nil
	}
	// A pipe without a writer would block the opening for ever.
	f, err := os.OpenFile(s.File, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", s, pathCause(err))
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, fmt.Errorf("look at %s: %w", s, pathCause(err))
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", s)
	case info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("%s has mode %04o, which lets others than its owner at it; run chmod 600", s, info.Mode().Perm())
	}
	value, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", s, pathCause(err))
	case len(value) > maxSecret:
		return nil, fmt.Errorf("%s has more than %d bytes", s, maxSecret)
	}
	return value, nil
}

// pathCause leaves out the path that the error repeats.
func pathCause(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
