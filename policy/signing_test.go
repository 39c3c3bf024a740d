package policy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorate/quorate/statestore"
)

const hour = statestore.Duration(time.Hour)

// keysOf are the keys of a role: the active one, then next=NAME or previous=NAME.
func keysOf(secret, next, previous string) statestore.Secret {
	return statestore.Secret{Secret: secret, Next: next, Previous: previous}
}

func dnssecOf(ksk, zsk statestore.Secret) *statestore.DNSSEC {
	return &statestore.DNSSEC{Mode: statestore.Signed, Algorithm: statestore.ED25519, Denial: statestore.CompactDenial, Valid: 24 * hour, DSTTL: 8 * hour, KSK: ksk, ZSK: zsk}
}

// signedWorld is a state whose zone is signed so since a time; old answers live for
// four hours, old keys for two.
func signedWorld(d *statestore.DNSSEC, since, now time.Time) *statestore.State {
	mark := statestore.SigningMark{Since: since, TTL: 4 * hour, KeyTTL: 2 * hour}
	return &statestore.State{
		Now:     now,
		Spec:    &statestore.Spec{Zones: map[string]*statestore.Zone{"z.example.": {DNSSEC: d}}},
		Signing: map[string]*statestore.ZoneSigning{"z.example.": {Mode: mark, KSK: mark, ZSK: mark}},
	}
}

func TestStepsOfARollAreTakenInOrderAndInTime(t *testing.T) {
	a, b := keysOf("a", "", ""), keysOf("b", "", "")
	begun, switched := keysOf("a", "b", ""), keysOf("b", "", "a")
	tests := []struct {
		name     string
		was, is  statestore.Secret
		ksk, zsk time.Duration // from when the step is allowed; never: with force only
	}{
		{"a next key is published at any time", a, begun, 0, 0},
		{"and taken back", begun, a, 0, 0},
		{"it counts once every resolver has the keys", begun, switched, 2 * time.Hour, 2 * time.Hour},
		{"the previous one goes when nothing of it is left", switched, b, 8 * time.Hour, 4 * time.Hour},
		{"a switch is taken back at any time", switched, begun, 0, 0},
		{"also with the other one as previous", switched, keysOf("a", "", "b"), 0, 0},
		{"one key for another is no step", a, b, never, never},
		{"a key that was not published may not sign", begun, keysOf("c", "", "a"), never, never},
		{"nor may the one before vanish at once", begun, b, never, never},
		{"a roll ends before the next one begins", switched, keysOf("b", "c", ""), never, never},
		{"a previous key does not come from nowhere", a, keysOf("a", "", "c"), never, never},
		{"no change is no step", switched, switched, 0, 0},
	}
	since := time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
	other := keysOf("o", "", "")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for role, due := range map[string]time.Duration{"ksk": tt.ksk, "zsk": tt.zsk} {
				was, is := dnssecOf(tt.was, other), dnssecOf(tt.is, other)
				if role == "zsk" {
					was, is = dnssecOf(other, tt.was), dnssecOf(other, tt.is)
				}
				for _, after := range []time.Duration{0, due - time.Second, due, 1000 * time.Hour} {
					if after < 0 {
						continue
					}
					st := signedWorld(was, since, since.Add(after))
					var f Findings
					f.signing(st, &statestore.Spec{Zones: map[string]*statestore.Zone{"z.example.": {DNSSEC: is}}})
					if due != never && after >= due {
						require.Empty(t, f.Blockers, "%s after %s", role, after)
						continue
					}
					require.Len(t, f.Blockers, 1, "%s after %s", role, after)
					require.Equal(t, RuleDNSSECRoll, f.Blockers[0].Rule)
					require.True(t, f.Blockers[0].Waivable, "a lost key must be replaced at once")
				}
			}
		})
	}
}

const never = 100_000 * time.Hour

func TestASignedZoneIsLeftInSteps(t *testing.T) {
	since := time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
	on := dnssecOf(keysOf("k", "", ""), keysOf("z", "", ""))
	leaving := *on
	leaving.Mode = statestore.Leaving
	other := *on
	other.Algorithm = statestore.ECDSAP256SHA256
	zones := func(d *statestore.DNSSEC) *statestore.Spec {
		return &statestore.Spec{Zones: map[string]*statestore.Zone{"z.example.": {DNSSEC: d}}}
	}
	tests := []struct {
		name  string
		was   *statestore.DNSSEC
		spec  *statestore.Spec
		after time.Duration
		rule  string
		force bool
	}{
		{"on to off is refused", on, zones(nil), never, RuleDNSSECLeave, false},
		{"so is removing the zone", on, &statestore.Spec{}, never, RuleDNSSECLeave, false},
		{"on to leaving is not", on, zones(&leaving), 0, "", false},
		{"nor is coming back", &leaving, zones(on), 0, "", false},
		{"leaving to off is early within the DS's TTL", &leaving, zones(nil), time.Hour, RuleDNSSECLeave, true},
		{"and only a person knows of the parent after it", &leaving, zones(nil), 9 * time.Hour, RuleDNSSECLeave, true},
		{"removing it then needs that person too", &leaving, &statestore.Spec{}, 9 * time.Hour, RuleDNSSECLeave, true},
		{"another algorithm is another zone", on, zones(&other), never, RuleDNSSECLeave, false},
		{"nothing changes", on, zones(on), 0, "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var f Findings
			f.signing(signedWorld(tt.was, since, since.Add(tt.after)), tt.spec)
			if tt.rule == "" {
				require.Empty(t, f.Blockers)
				return
			}
			require.Len(t, f.Blockers, 1)
			require.Equal(t, tt.rule, f.Blockers[0].Rule)
			require.Equal(t, tt.force, f.Blockers[0].Waivable)
		})
	}
	var f Findings
	f.signing(&statestore.State{Spec: &statestore.Spec{}}, zones(on))
	require.Empty(t, f.Blockers, "signing begins at any time")
	require.Len(t, f.Warnings, 1)
}

func TestSignaturesShouldOutliveAnswers(t *testing.T) {
	for ttl, warned := range map[statestore.Duration]int{18 * hour: 0, 18*hour + 1: 1} {
		d := dnssecOf(keysOf("k", "", ""), keysOf("z", "", "")) // signatures are valid for a day
		spec := &statestore.Spec{Zones: map[string]*statestore.Zone{"z.example.": {NSTTL: ttl, DNSSEC: d}}}
		var f Findings
		f.signing(signedWorld(d, time.Time{}, time.Time{}), spec)
		require.Empty(t, f.Blockers)
		require.Len(t, f.Warnings, warned)
	}
}
