package policy

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/quorate/quorate/statestore"
)

// served is a time in which one spec was in force.
type served struct {
	to   time.Time
	zone *statestore.Zone
	ttl  statestore.Duration // longest of answers
}

func publishes(k statestore.Secret, key string) bool {
	return slices.Contains([]string{k.Secret, k.Next, k.Previous}, key)
}

// validates checks that a resolver can validate whatever it holds of one time with the
// keys that it holds of the other, as the other begins.
func validates(t *rapid.T, now time.Time, held, began served) {
	old, young := held.zone.DNSSEC, began.zone.DNSSEC
	answers, keys, ds := held.to.Add(held.ttl.D()).After(now), held.to.Add(held.zone.NSTTL.D()).After(now), held.to.Add(old.DSTTL.D()).After(now)
	require.False(t, answers && !publishes(young.ZSK, old.ZSK.Secret), "answers signed by %s are held, the keys are %v", old.ZSK.Secret, young.ZSK)
	require.False(t, keys && !publishes(old.ZSK, young.ZSK.Secret), "the keys %v are held, answers are signed by %s", old.ZSK, young.ZSK.Secret)
	require.False(t, ds && !publishes(young.KSK, old.KSK.Secret), "a DS of %s is held, the keys are %v", old.KSK.Secret, young.KSK)
	require.False(t, keys && !publishes(old.KSK, young.KSK.Secret), "the keys %v are held, the DS is of %s", old.KSK, young.KSK.Secret)
}

// rolled draws the next keys of a role: a step of some roll, or anything.
func rolled(t *rapid.T, k statestore.Secret) statestore.Secret {
	name := rapid.SampledFrom([]string{"a", "b", "c"})
	switch rapid.IntRange(0, 7).Draw(t, "step") {
	case 0:
		return keysOf(k.Secret, name.Draw(t, "next"), "")
	case 1:
		return keysOf(k.Secret, "", "")
	case 2, 3:
		if k.Next != "" {
			return keysOf(k.Next, "", k.Secret)
		}
	case 4:
		if k.Previous != "" {
			return keysOf(k.Previous, k.Secret, "")
		}
	case 5:
		if k.Previous != "" {
			return keysOf(k.Previous, "", k.Secret)
		}
	case 6:
		return keysOf(name.Draw(t, "secret"), "", rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "previous"))
	}
	return k
}

// Whatever is applied or rolled back to without force, a resolver that holds everything
// as long as it may, and a parent that follows at once, find the zone valid. It must hold
// whatever TTLs became on the way.
func TestWhateverIsAllowedStaysValid(t *testing.T) {
	const minute = hour / 60
	taken := map[roll]int{}
	rapid.Check(t, func(t *rapid.T) {
		now := time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
		specOf := func(d *statestore.DNSSEC, keys, answers statestore.Duration) *statestore.Spec {
			return &statestore.Spec{
				Zones:    map[string]*statestore.Zone{"z.example.": {NSTTL: keys, DNSSEC: d}},
				Services: map[string]*statestore.Service{"web": {Zone: "z.example.", TTL: statestore.TTL{Normal: answers}}},
			}
		}
		ended := func(spec *statestore.Spec) served {
			z := spec.Zones["z.example."]
			return served{now, z, max(hour, z.NSTTL, spec.Services["web"].TTL.Normal)} // what ANY is answered with lives for an hour
		}
		first := dnssecOf(keysOf("a", "", ""), keysOf("a", "", ""))
		st := (&statestore.State{Now: now, Spec: &statestore.Spec{}}).Under(specOf(first, hour, minute))
		history := []*statestore.Spec{st.Spec}
		var before []served
		for range rapid.IntRange(1, 400).Draw(t, "changes") {
			now = now.Add(rapid.SampledFrom([]statestore.Duration{0, minute, hour, 9 * hour}).Draw(t, "after").D())
			st.Now = now
			var next *statestore.Spec
			if rapid.IntRange(0, 9).Draw(t, "rollback") == 0 {
				next = rapid.SampledFrom(history).Draw(t, "to")
			} else {
				z := st.Spec.Zones["z.example."]
				d := *z.DNSSEC
				keys, answers := z.NSTTL, st.Spec.Services["web"].TTL.Normal
				switch rapid.IntRange(0, 6).Draw(t, "what") {
				case 0:
					keys = rapid.SampledFrom([]statestore.Duration{minute, 6 * hour}).Draw(t, "ns_ttl")
				case 1:
					answers = rapid.SampledFrom([]statestore.Duration{minute, 12 * hour}).Draw(t, "ttl")
				case 2, 3:
					d.KSK = rolled(t, d.KSK)
				default:
					d.ZSK = rolled(t, d.ZSK)
				}
				next = specOf(&d, keys, answers)
			}
			var f Findings
			f.signing(st, next)
			if len(f.Blockers) > 0 {
				continue
			}
			taken[rollOf(st.Spec.Zones["z.example."].DNSSEC.ZSK, next.Zones["z.example."].DNSSEC.ZSK)]++
			before = append(before, ended(st.Spec))
			before = slices.DeleteFunc(before, func(s served) bool { return now.Sub(s.to) > 24*time.Hour }) // nothing lives longer
			for _, held := range before {
				validates(t, now, held, ended(next))
			}
			st = st.Under(next)
			history = append(history, next)
		}
	})
	for _, step := range []roll{rollBegin, rollWithdraw, rollSwitch, rollBack, rollEnd} {
		require.Positive(t, taken[step], "step %d", step)
	}
}
