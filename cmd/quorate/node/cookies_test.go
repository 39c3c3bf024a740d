package node

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/dnsserver"
	"github.com/quorate/quorate/statestore"
)

// TestCookieSecretsRollOver goes through a rollover as docs/dns.md describes it, with
// the accidents that can happen on the way.
func TestCookieSecretsRollOver(t *testing.T) {
	dir := t.TempDir()
	secrets := config.Secrets{}
	file := func(name, value string) {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(value), 0o600))
		secrets[name] = config.SecretSource{File: path}
	}
	st := &statestore.State{Spec: &statestore.Spec{}, Generation: 1}
	n := &Node{log: slog.New(slog.DiscardHandler), view: newView(statestore.NewStore(), st)}
	n.secrets.Store(&secrets)
	follow := func(k *statestore.Secret) *dnsserver.CookieSecrets {
		st.Spec.DNS.Cookies = k
		n.followCookies()
		return n.cookies.keys.Load()
	}
	key := func(b byte) (k dnsserver.CookieSecret) {
		for i := range k {
			k[i] = b
		}
		return k
	}
	require.Nil(t, follow(nil), "each node draws its own")
	require.Nil(t, follow(&statestore.Secret{Secret: "one"}), "nowhere to be found: each node draws its own")
	require.Equal(t, []string{"secret one: not in secrets of node.yaml"}, n.missingSecrets())

	file("one", "11111111111111111111111111111111\n")
	require.Equal(t, &dnsserver.CookieSecrets{Current: key(0x11)}, follow(&statestore.Secret{Secret: "one"}))
	require.Empty(t, n.missingSecrets())

	file("two", "too short")
	require.Equal(t, &dnsserver.CookieSecrets{Current: key(0x11)}, follow(&statestore.Secret{Secret: "one", Next: "two"}))
	require.Equal(t, []string{"secret two: a cookie secret must be 16 octets or 32 hexadecimal digits (openssl rand -hex 16)"}, n.missingSecrets())

	file("two", "\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"") // 16 octets as they are
	require.Equal(t, &dnsserver.CookieSecrets{Current: key(0x11), Accepted: []dnsserver.CookieSecret{key('"')}}, follow(&statestore.Secret{Secret: "one", Next: "two"}))
	require.Equal(t, &dnsserver.CookieSecrets{Current: key('"'), Accepted: []dnsserver.CookieSecret{key(0x11)}}, follow(&statestore.Secret{Secret: "two", Previous: "one"}))

	delete(secrets, "two")
	require.Equal(t, key('"'), follow(&statestore.Secret{Secret: "two", Previous: "one"}).Current, "the last good ones stay in use")
	require.Nil(t, follow(nil))
}
