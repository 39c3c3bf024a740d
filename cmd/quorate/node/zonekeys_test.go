package node

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/dnsserver/dnssec"
	"github.com/quorate/quorate/statestore"
)

// fakeSecrets is a node's secrets, by name.
type fakeSecrets map[string][]byte

func (f fakeSecrets) secret(name string) ([]byte, error) {
	if text := f[name]; text != nil {
		return text, nil
	}
	return nil, errors.New("secret " + name + ": not there")
}

// make writes new keys.
func (f fakeSecrets) make(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		key, err := dnssec.Generate(dnssec.ED25519)
		require.NoError(t, err)
		f[name], err = key.PEM()
		require.NoError(t, err)
	}
}

const signedName = "gslb.example.com."

func signedSpec(ksk, zsk statestore.Secret) *statestore.Spec {
	return &statestore.Spec{Zones: map[string]*statestore.Zone{
		"plain.example.com.": {},
		signedName: {NSTTL: statestore.Duration(time.Hour), DNSSEC: &statestore.DNSSEC{
			Mode: statestore.Signed, Algorithm: statestore.ED25519, Denial: statestore.CompactDenial,
			Valid: statestore.Duration(24 * time.Hour), KSK: ksk, ZSK: zsk,
		}},
	}}
}

func TestKeysOfSignedZonesAreRead(t *testing.T) {
	only := func(name string) statestore.Secret { return statestore.Secret{Secret: name} }
	files := fakeSecrets{}
	files.make(t, "k1", "z1", "z2")
	k := newZoneKeys(files.secret, slog.New(slog.DiscardHandler))

	require.Nil(t, k.of(signedName), "nothing was read yet")
	k.follow(signedSpec(only("k1"), only("nobody")))
	require.ErrorContains(t, k.of(signedName).Err, "secret nobody: not there")
	require.Nil(t, k.of("plain.example.com."))

	files["nobody"] = files["z1"]
	spec := signedSpec(only("k1"), only("nobody"))
	k.follow(spec)
	first := k.of(signedName)
	require.NoError(t, first.Err, "it is tried again")
	require.Len(t, first.Keys(), 2)
	k.follow(spec)
	k.follow(signedSpec(only("k1"), only("nobody")))
	require.Same(t, first, k.of(signedName), "the same keys are not read again")

	k.follow(signedSpec(only("k1"), statestore.Secret{Secret: "nobody", Next: "later"}))
	require.NoError(t, k.of(signedName).Err, "the key to come may be missing")
	require.ErrorContains(t, k.of(signedName).Lacks, "secret later")
	files["later"] = files["z2"]
	k.follow(signedSpec(only("k1"), statestore.Secret{Secret: "nobody", Next: "later"}))
	require.NoError(t, k.of(signedName).Lacks)
	require.Len(t, k.of(signedName).Keys(), 3)

	gone := files["later"]
	delete(files, "later")
	k.follow(signedSpec(only("k1"), statestore.Secret{Secret: "later", Previous: "nobody"}))
	require.NoError(t, k.of(signedName).Err, "the keys of the step before serve on")
	require.Error(t, k.of(signedName).Lacks)
	require.Equal(t, "next", k.of(signedName).Keys()[2].Place)
	k.follow(signedSpec(only("k1"), statestore.Secret{Secret: "later", Previous: "nobody"}))
	require.NoError(t, k.of(signedName).Err, "however often that is tried")
	k.follow(signedSpec(only("k1"), only("later")))
	require.Error(t, k.of(signedName).Err, "those of two steps before do not")
	files["later"] = gone
	k.follow(signedSpec(only("k1"), only("later")))
	require.NoError(t, k.of(signedName).Err)

	k.follow(&statestore.Spec{})
	require.NotNil(t, k.of(signedName), "the table before may want them still")
}

func TestAKeyOfAnotherAlgorithmIsRefused(t *testing.T) {
	files := fakeSecrets{}
	files.make(t, "k1")
	key, err := dnssec.Generate(dnssec.ECDSAP256SHA256)
	require.NoError(t, err)
	files["z1"], err = key.PEM()
	require.NoError(t, err)
	k := newZoneKeys(files.secret, slog.New(slog.DiscardHandler))
	k.follow(signedSpec(statestore.Secret{Secret: "k1"}, statestore.Secret{Secret: "z1"}))
	require.ErrorContains(t, k.of(signedName).Err, "secret z1: the key is of algorithm ecdsap256sha256, the zone's is ed25519")
	files.make(t, "z2")
	k.follow(signedSpec(statestore.Secret{Secret: "k1"}, statestore.Secret{Secret: "z2", Next: "z1"}))
	require.NoError(t, k.of(signedName).Err, "it is not needed yet")
	require.ErrorContains(t, k.of(signedName).Lacks, "secret z1: the key is of algorithm")
	k.follow(signedSpec(statestore.Secret{Secret: "k1"}, statestore.Secret{Secret: "k1"}))
	require.EqualError(t, k.of(signedName).Err, "zones."+strings.TrimSuffix(signedName, ".")+".dnssec: one key is both KSK and ZSK; make two")
}

// What a node without a key serves must go with what all others sign and publish.
func TestKeysOfBeforeServeOnOnlyWithThoseOfOthers(t *testing.T) {
	keys := func(secret, next, previous string) statestore.Secret {
		return statestore.Secret{Secret: secret, Next: next, Previous: previous}
	}
	tests := []struct {
		name    string
		steps   []statestore.Secret // of the ZSK, or the KSK; "b" does not read
		answers bool
	}{
		{"a node that lags in the step after the key was read", []statestore.Secret{keys("a", "c", ""), keys("c", "", "a")}, true},
		{"one that never published the next key", []statestore.Secret{keys("a", "b", ""), keys("b", "", "a")}, false},
		{"one that missed the step between", []statestore.Secret{keys("a", "", ""), keys("b", "", "a")}, false},
		{"a jump", []statestore.Secret{keys("a", "", ""), keys("b", "", "")}, false},
		{"the key before does not read when a switch is taken back", []statestore.Secret{keys("c", "", "a"), keys("a", "", "c")}, true},
	}
	for _, tt := range tests {
		for _, role := range []string{"ksk", "zsk"} {
			t.Run(tt.name+", "+role, func(t *testing.T) {
				files := fakeSecrets{}
				files.make(t, "a", "c", "other")
				k := newZoneKeys(files.secret, slog.New(slog.DiscardHandler))
				for i, step := range tt.steps {
					if i == len(tt.steps)-1 {
						delete(files, step.Secret)
					}
					ksk, zsk := keys("other", "", ""), step
					if role == "ksk" {
						ksk, zsk = zsk, ksk
					}
					k.follow(signedSpec(ksk, zsk))
				}
				require.Equal(t, tt.answers, k.of(signedName).Err == nil, "%v", k.of(signedName).Err)
				require.Error(t, errors.Join(k.of(signedName).Err, k.of(signedName).Lacks))
			})
		}
	}
}
