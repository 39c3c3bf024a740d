package statestore

import (
	"slices"
	"time"
)

// ZoneSigning is since when a signed zone is signed as it is. Each part of it that may
// be rolled has its own time: one never waits for the other.
type ZoneSigning struct {
	Mode SigningMark `json:"mode"` // of Mode, the algorithm included
	KSK  SigningMark `json:"ksk"`
	ZSK  SigningMark `json:"zsk"`

	// Until when resolvers may hold answers, or the keys, with a TTL that the zone has no
	// more.
	Held     time.Time `json:"held,omitzero"`
	HeldKeys time.Time `json:"held_keys,omitzero"`
}

// SigningMark is when something of a zone's signing changed last, and what resolvers
// may hold from before: answers for TTL, the keys for KeyTTL.
type SigningMark struct {
	Since time.Time `json:"since"` // log time
	Index uint64    `json:"index"`

	TTL    Duration `json:"ttl"`     // longest of the zone, then and since
	KeyTTL Duration `json:"key_ttl"` // longest of the DNSKEY set, then and since

	// ZoneSigning's Held and HeldKeys, then.
	Held     time.Time `json:"held,omitzero"`
	HeldKeys time.Time `json:"held_keys,omitzero"`

	// Signed says that the next key was the active one before: resolvers hold signatures of
	// it, or a DS that names it.
	Signed bool `json:"signed,omitempty"`
}

// What records have as TTL that say none in the spec.
const (
	staticTTL = Duration(5 * time.Minute) // of static records
	hinfoTTL  = Duration(time.Hour)       // of what ANY is answered with
)

// LongestTTL returns how long resolvers may keep what is in a zone; 0: there is none.
func (sp *Spec) LongestTTL(zone string) Duration {
	z := sp.Zones[zone]
	if z == nil {
		return 0
	}
	longest := max(staticTTL, hinfoTTL, z.NSTTL, z.SOA.NegativeTTL)
	for _, types := range z.TTLs {
		for _, seconds := range types {
			longest = max(longest, Duration(seconds)*Duration(time.Second))
		}
	}
	for _, s := range sp.Services {
		if s.Zone == zone {
			longest = max(longest, s.TTL.Normal, s.TTL.Changing)
		}
	}
	return longest
}

// resign moves on what is known of each zone's signing when the spec changes.
func (st *State) resign(prior *State, at entry) {
	var next map[string]*ZoneSigning
	for _, name := range sortedKeys(st.Spec.Zones) {
		is := st.Spec.Zones[name].DNSSEC
		if is == nil {
			continue
		}
		var was *DNSSEC
		before := SigningMark{Since: at.now, Index: at.index, TTL: prior.Spec.LongestTTL(name)}
		if z := prior.Spec.Zones[name]; z != nil {
			was, before.KeyTTL = z.DNSSEC, z.NSTTL
		}
		old := prior.Signing[name]
		zone := &ZoneSigning{}
		if was == nil || old == nil {
			was, old = &DNSSEC{}, &ZoneSigning{}
		} else {
			zone.Held = heldUntil(old.Held, at.now, before.TTL, st.Spec.LongestTTL(name))
			zone.HeldKeys = heldUntil(old.HeldKeys, at.now, before.KeyTTL, st.Spec.Zones[name].NSTTL)
		}
		mark := func(old SigningMark, same, signed bool) SigningMark {
			if !same {
				old = before
				old.Held, old.HeldKeys, old.Signed = zone.Held, zone.HeldKeys, signed
			}
			old.TTL = max(old.TTL, st.Spec.LongestTTL(name))
			old.KeyTTL = max(old.KeyTTL, st.Spec.Zones[name].NSTTL)
			return old
		}
		if next == nil {
			next = map[string]*ZoneSigning{}
		}
		zone.Mode = mark(old.Mode, was.Mode == is.Mode && was.Algorithm == is.Algorithm, false)
		zone.KSK = mark(old.KSK, was.KSK == is.KSK, is.KSK.Next != "" && is.KSK.Next == was.KSK.Secret)
		zone.ZSK = mark(old.ZSK, was.ZSK == is.ZSK, is.ZSK.Next != "" && is.ZSK.Next == was.ZSK.Secret)
		next[name] = zone
	}
	st.Signing = next
}

// heldUntil moves on until when resolvers may hold what had a longer TTL, when a TTL
// changes.
func heldUntil(held, now time.Time, was, is Duration) time.Time {
	if is >= was {
		return held
	}
	return later(held, now.Add(was.D()))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// RollDue returns when the next step of a role's roll may be taken, which has begun
// with keys; zero: none has.
func (m SigningMark) RollDue(keys Secret, ksk bool, dsTTL Duration) time.Time {
	switch {
	case keys.Next != "": // every resolver must have the key before it counts
		return later(m.Since.Add(m.KeyTTL.D()), m.HeldKeys)
	case keys.Previous != "":
		return m.forgotten(ksk, dsTTL)
	}
	return time.Time{}
}

// WithdrawDue returns when the next key of a role may be taken back; zero: at any time,
// since it never signed alone.
func (m SigningMark) WithdrawDue(keys Secret, ksk bool, dsTTL Duration) time.Time {
	if keys.Next == "" || !m.Signed {
		return time.Time{}
	}
	return m.forgotten(ksk, dsTTL)
}

// forgotten returns when no resolver needs the key any more that was the active one
// before the mark: for a KSK, the parent has a DS of the one that is.
func (m SigningMark) forgotten(ksk bool, dsTTL Duration) time.Time {
	keys := later(m.Since.Add(m.KeyTTL.D()), m.HeldKeys)
	if ksk { // none may hold a DS that names the key alone
		return later(keys, m.Since.Add(dsTTL.D()))
	}
	return later(keys, later(m.Since.Add(m.TTL.D()), m.Held)) // none may hold a signature of the key
}

// LeaveDue returns when a zone that is leaving may be unsigned, if its parent removed
// the DS at once; zero: it is not leaving.
func (m SigningMark) LeaveDue(d *DNSSEC) time.Time {
	if d.Mode != Leaving {
		return time.Time{}
	}
	return m.Since.Add(d.DSTTL.D())
}

// signingDeadline reports whether people wait for a step of some zone's signing.
func (st *State) signingDeadline() bool {
	for name, s := range st.Signing {
		z := st.Spec.Zones[name]
		if z == nil || z.DNSSEC == nil {
			continue
		}
		d := z.DNSSEC
		dues := []time.Time{
			s.KSK.RollDue(d.KSK, true, d.DSTTL), s.KSK.WithdrawDue(d.KSK, true, d.DSTTL),
			s.ZSK.RollDue(d.ZSK, false, d.DSTTL), s.ZSK.WithdrawDue(d.ZSK, false, d.DSTTL),
			s.Mode.LeaveDue(d),
		}
		if slices.ContainsFunc(dues, func(due time.Time) bool { return !due.IsZero() && !passed(st.Now, due) }) {
			return true
		}
	}
	return false
}
