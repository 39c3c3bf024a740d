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
}

// SigningMark is when something of a zone's signing changed last, and what resolvers
// may hold from before: answers for TTL, the keys for KeyTTL.
type SigningMark struct {
	Since time.Time `json:"since"` // log time
	Index uint64    `json:"index"`

	TTL    Duration `json:"ttl"`     // longest of the zone, then and since
	KeyTTL Duration `json:"key_ttl"` // longest of the DNSKEY set, then and since
}

// What records have as TTL that say none in the spec.
const (
	staticTTL = Duration(5 * time.Minute) // of static records
	hinfoTTL  = Duration(time.Hour)       // of what ANY is answered with
)

// longestTTL returns how long resolvers may keep what is in a zone; 0: there is none.
func (sp *Spec) longestTTL(zone string) Duration {
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
		before := SigningMark{Since: at.now, Index: at.index, TTL: prior.Spec.longestTTL(name)}
		if z := prior.Spec.Zones[name]; z != nil {
			was, before.KeyTTL = z.DNSSEC, z.NSTTL
		}
		old := prior.Signing[name]
		if was == nil || old == nil {
			was, old = &DNSSEC{}, &ZoneSigning{}
		}
		mark := func(old SigningMark, same bool) SigningMark {
			if !same {
				old = before
			}
			old.TTL = max(old.TTL, st.Spec.longestTTL(name))
			old.KeyTTL = max(old.KeyTTL, st.Spec.Zones[name].NSTTL)
			return old
		}
		if next == nil {
			next = map[string]*ZoneSigning{}
		}
		next[name] = &ZoneSigning{
			Mode: mark(old.Mode, was.Mode == is.Mode && was.Algorithm == is.Algorithm),
			KSK:  mark(old.KSK, was.KSK == is.KSK),
			ZSK:  mark(old.ZSK, was.ZSK == is.ZSK),
		}
	}
	st.Signing = next
}

// RollDue returns when the next step of a role's roll may be taken, which has begun
// with keys; zero: none has.
func (m SigningMark) RollDue(keys Secret, ksk bool, dsTTL Duration) time.Time {
	switch {
	case keys.Next != "": // every resolver must have the key before it counts
		return m.Since.Add(m.KeyTTL.D())
	case keys.Previous != "" && ksk: // none may hold a DS that names the key alone
		return m.Since.Add(max(m.KeyTTL, dsTTL).D())
	case keys.Previous != "": // none may hold a signature of the key
		return m.Since.Add(max(m.TTL, m.KeyTTL).D())
	}
	return time.Time{}
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
		dues := []time.Time{s.KSK.RollDue(d.KSK, true, d.DSTTL), s.ZSK.RollDue(d.ZSK, false, d.DSTTL), s.Mode.LeaveDue(d)}
		if slices.ContainsFunc(dues, func(due time.Time) bool { return !due.IsZero() && !passed(st.Now, due) }) {
			return true
		}
	}
	return false
}
