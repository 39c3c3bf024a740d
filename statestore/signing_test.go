package statestore

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheStateKnowsSinceWhenAZoneIsSignedSo(t *testing.T) {
	const zone, hour = "z.example.", Duration(time.Hour)
	start := time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
	spec := func(ttl Duration, d *DNSSEC) *Spec {
		return &Spec{
			Zones:    map[string]*Zone{zone: {NSTTL: hour, DNSSEC: d}},
			Services: map[string]*Service{"web": {Zone: zone, TTL: TTL{Normal: ttl}}, "other": {Zone: "other.example.", TTL: TTL{Normal: 100 * hour}}},
		}
	}
	signed := func(ksk, zsk Secret) *DNSSEC {
		return &DNSSEC{Mode: Signed, Algorithm: ED25519, Denial: CompactDenial, Valid: 24 * hour, DSTTL: 8 * hour, KSK: ksk, ZSK: zsk}
	}
	st := &State{Spec: spec(3*hour, nil)}
	change := func(at time.Duration, next *Spec) {
		t.Helper()
		prior := *st
		st.Spec = next
		st.resign(&prior, entry{index: st.Index + 1, now: start.Add(at)})
		st.Index++
	}
	one, two := Secret{Secret: "one"}, Secret{Secret: "two"}

	change(0, spec(3*hour, nil))
	require.Nil(t, st.Signing, "an unsigned zone has none")
	change(time.Hour, spec(2*hour, signed(one, two)))
	first := SigningMark{Since: start.Add(time.Hour), Index: 2, TTL: 3 * hour, KeyTTL: hour}
	require.Equal(t, &ZoneSigning{Mode: first, KSK: first, ZSK: first}, st.Signing[zone], "answers of before live on for their TTL")

	change(2*time.Hour, spec(5*hour, signed(one, Secret{Secret: "two", Next: "three"})))
	first.TTL = 5 * hour
	zsk := SigningMark{Since: start.Add(2 * time.Hour), Index: 3, TTL: 5 * hour, KeyTTL: hour}
	require.Equal(t, &ZoneSigning{Mode: first, KSK: first, ZSK: zsk}, st.Signing[zone], "one role does not wait for the other")
	change(3*time.Hour, spec(2*hour, signed(one, Secret{Secret: "two", Next: "three"})))
	require.Equal(t, zsk, st.Signing[zone].ZSK, "a TTL that was given out counts until the next step")

	st.Now = start.Add(3*time.Hour - time.Second)
	require.Equal(t, start.Add(3*time.Hour), st.Signing[zone].ZSK.RollDue(st.Spec.Zones[zone].DNSSEC.ZSK, false, 8*hour))
	require.True(t, st.signingDeadline(), "log time must move on for the wait to end")
	st.Now = start.Add(3 * time.Hour)
	require.False(t, st.signingDeadline())

	leaving := signed(one, Secret{Secret: "two", Next: "three"})
	leaving.Mode = Leaving
	change(4*time.Hour, spec(2*hour, leaving))
	require.Equal(t, start.Add(12*time.Hour), st.Signing[zone].Mode.LeaveDue(leaving))
	require.True(t, st.signingDeadline())
	change(20*time.Hour, spec(2*hour, nil))
	require.Nil(t, st.Signing)
}

func TestASignedZoneMakesItsOwnKeysAndProofs(t *testing.T) {
	z := &Zone{
		Records: map[string]map[string][]string{"@": {"CDS": {"0 0 0 00"}, "TXT": {"x"}}, "a": {"nsec": {"b A"}}},
		DNSSEC:  &DNSSEC{Mode: "no", Valid: Duration(time.Minute), KSK: Secret{Secret: "k", Next: "l", Previous: "m"}},
	}
	var f findings
	checkDNSSEC(&f, "zones.z", z)
	require.Equal(t, findings{
		"zones.z.records.@.CDS: a signed zone makes its own; remove it",
		"zones.z.records.a.nsec: a signed zone makes its own; remove it",
		`zones.z.dnssec.mode: must be on or leaving, is "no"`,
		`zones.z.dnssec.algorithm: must be ecdsap256sha256 or ed25519, is ""`,
		`zones.z.dnssec.denial: must be compact or nsec, is ""`,
		"zones.z.dnssec.signatures_valid: must be at least 1h0m0s, is 1m0s",
		"zones.z.dnssec.ksk: must not have both next and previous",
		"zones.z.dnssec.zsk.secret: must not be empty",
	}, f)
	z.DNSSEC = nil
	f = nil
	checkDNSSEC(&f, "zones.z", z)
	require.Empty(t, f)
}

func TestWhatWasGivenOutWithALongerTTLIsWaitedFor(t *testing.T) {
	const zone, hour = "z.example.", Duration(time.Hour)
	start := time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
	st := &State{Spec: &Spec{}}
	change := func(at time.Duration, keys, answers Duration, zsk Secret) SigningMark {
		prior := *st
		st.Spec = &Spec{
			Zones:    map[string]*Zone{zone: {NSTTL: keys, DNSSEC: &DNSSEC{Mode: Signed, KSK: Secret{Secret: "k"}, ZSK: zsk}}},
			Services: map[string]*Service{"web": {Zone: zone, TTL: TTL{Normal: answers}}},
		}
		st.resign(&prior, entry{now: start.Add(at)})
		return st.Signing[zone].ZSK
	}
	begun, switched := Secret{Secret: "a", Next: "b"}, Secret{Secret: "b", Previous: "a"}
	change(0, 20*hour, 30*hour, Secret{Secret: "a"})
	change(time.Hour, hour, hour, Secret{Secret: "a"})
	m := change(2*time.Hour, hour, hour, begun)
	require.Equal(t, start.Add(21*time.Hour), m.RollDue(begun, false, 0), "keys of before live on")
	m = change(21*time.Hour, hour, hour, switched)
	require.Equal(t, start.Add(31*time.Hour), m.RollDue(switched, false, 0), "so do answers")

	m = change(40*time.Hour, hour, hour, begun)
	require.Equal(t, start.Add(41*time.Hour), m.WithdrawDue(begun, false, 0), "a key that has signed is not taken back at once")
	m = change(50*time.Hour, hour, hour, Secret{Secret: "a"})
	require.Zero(t, m.WithdrawDue(Secret{Secret: "a"}, false, 0))
	m = change(51*time.Hour, hour, hour, begun)
	require.Zero(t, m.WithdrawDue(begun, false, 0), "one that has not is")
}
