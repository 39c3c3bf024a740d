package policy

import (
	"fmt"
	"strings"
	"time"

	"github.com/quorate/quorate/statestore"
)

// Rules that a spec may break about signed zones.
const (
	RuleDNSSECLeave = "dnssec_leave" // signatures would end while the parent promises them
	RuleDNSSECRoll  = "dnssec_roll"  // a step of a roll out of order, or too early
)

// roll is what a spec does to the keys of one role.
type roll uint8

const (
	rollNothing  roll = iota
	rollBegin         // a next key is published
	rollWithdraw      // the next key is published no more
	rollSwitch        // the next key is the active one, the active one the previous
	rollBack          // the previous key is the active one again, the active one stays published
	rollEnd           // the previous key is published no more
	rollJump          // anything else
)

// SigningStep is where the keys of a role stand, and what comes next.
type SigningStep struct {
	Role  string // "ksk" or "zsk"
	Keys  statestore.Secret
	Since time.Time // they are those

	// Then is what comes next, and Due from when on it may; none while no roll has begun.
	Then statestore.Secret
	Due  time.Time
}

// SigningSteps returns where the roll of each role of a signed zone stands, KSK first.
func SigningSteps(st *statestore.State, zone string) []SigningStep {
	z, marks := st.Spec.Zones[zone], st.Signing[zone]
	if z == nil || z.DNSSEC == nil || marks == nil {
		return nil
	}
	d := z.DNSSEC
	return []SigningStep{
		stepOf("ksk", d.KSK, marks.KSK, marks.KSK.RollDue(d.KSK, true, d.DSTTL)),
		stepOf("zsk", d.ZSK, marks.ZSK, marks.ZSK.RollDue(d.ZSK, false, d.DSTTL)),
	}
}

func stepOf(role string, keys statestore.Secret, mark statestore.SigningMark, due time.Time) SigningStep {
	s := SigningStep{Role: role, Keys: keys, Since: mark.Since, Due: due}
	switch {
	case keys.Next != "":
		s.Then = statestore.Secret{Secret: keys.Next, Previous: keys.Secret}
	case keys.Previous != "":
		s.Then = statestore.Secret{Secret: keys.Secret}
	}
	return s
}

// rollOf returns which step leads from one set of keys to the other.
func rollOf(was, is statestore.Secret) roll {
	switch {
	case was == is:
		return rollNothing
	case was.Secret == is.Secret && was.Next == "" && was.Previous == "" && is.Next != "":
		return rollBegin
	case was.Secret == is.Secret && was.Next != "" && is.Next == "" && is.Previous == "":
		return rollWithdraw
	case was.Next != "" && is.Secret == was.Next && is.Previous == was.Secret:
		return rollSwitch
	case was.Previous != "" && is.Secret == was.Previous && (is.Previous == was.Secret || is.Next == was.Secret):
		return rollBack
	case was.Secret == is.Secret && was.Previous != "" && is.Next == "" && is.Previous == "":
		return rollEnd
	}
	return rollJump
}

// signing checks that zones are signed, rolled and left in steps that resolvers and
// the parent can follow (RFC 6781 4.1, RFC 8078 4).
func (f *Findings) signing(st *statestore.State, spec *statestore.Spec) {
	for _, name := range sortedKeys(st.Spec.Zones) {
		was, is := st.Spec.Zones[name].DNSSEC, (*statestore.DNSSEC)(nil)
		if z := spec.Zones[name]; z != nil {
			is = z.DNSSEC
		}
		switch marks := st.Signing[name]; {
		case was == nil || marks == nil:
		case is == nil:
			f.unsigns(st.Now, name, was, marks)
		case was.Algorithm != is.Algorithm:
			f.block(RuleDNSSECLeave, "zones.%s.dnssec.algorithm: %s cannot become %s while the zone is signed, since resolvers want signatures of each algorithm that the parent or the keys name; leave first (mode: leaving)",
				dotless(name), was.Algorithm, is.Algorithm)
		default:
			f.rolls(st.Now, name, marks.KSK, was.KSK, is.KSK, true, was.DSTTL)
			f.rolls(st.Now, name, marks.ZSK, was.ZSK, is.ZSK, false, was.DSTTL)
		}
	}
	for _, name := range sortedKeys(spec.Zones) {
		is := spec.Zones[name].DNSSEC
		if is != nil {
			f.outlives(spec, name, is)
		}
		if was := st.Spec.Zones[name]; is == nil || was != nil && was.DNSSEC != nil {
			continue
		}
		f.warn("zones.%s.dnssec: resolvers validate once the parent has a DS record; when that may be is shown by: quorate zone dnssec status %s", dotless(name), dotless(name))
	}
}

// outlives warns of answers that may live longer in caches than their signatures: who
// validates behind such a cache finds them expired (RFC 6781 4.4.2).
func (f *Findings) outlives(spec *statestore.Spec, name string, d *statestore.DNSSEC) {
	left := d.Valid / 4 * 3 // the least that is left of one that is given out
	if ttl := spec.LongestTTL(name); ttl > left {
		f.warn("zones.%s.dnssec.signatures_valid: a signature may be given out with %s left of its %s, and an answer lives for up to %s; who validates behind a cache may find it expired; make it %s, or the TTL less",
			dotless(name), left.D(), d.Valid.D(), ttl.D(), (ttl * 4 / 3).D())
	}
}

// unsigns checks that a zone stops to be signed only when nobody expects signatures.
func (f *Findings) unsigns(now time.Time, name string, was *statestore.DNSSEC, marks *statestore.ZoneSigning) {
	due := marks.Mode.LeaveDue(was)
	switch {
	case due.IsZero():
		f.block(RuleDNSSECLeave, "zones.%s.dnssec.mode: on cannot become off: the parent promises signatures, and every validating resolver would refuse the zone; first mode: leaving", dotless(name))
	case now.Before(due):
		f.waive(RuleDNSSECLeave, "zones.%s.dnssec.mode: it is leaving since %s, and resolvers may hold the parent's DS until %s at least; wait until then and until the DS is gone at the parent (dig DS %s)",
			dotless(name), stampOf(marks.Mode.Since), stampOf(due), name)
	default:
		f.waive(RuleDNSSECLeave, "zones.%s.dnssec.mode: only you can know that the parent has had no DS for its TTL (dig DS %s); if so, go on", dotless(name), name)
	}
}

// rolls checks one step of the keys of a role.
func (f *Findings) rolls(now time.Time, name string, mark statestore.SigningMark, was, is statestore.Secret, ksk bool, dsTTL statestore.Duration) {
	path := "zones." + dotless(name) + ".dnssec.zsk"
	if ksk {
		path = "zones." + dotless(name) + ".dnssec.ksk"
	}
	step, gone := rollOf(was, is), was.Previous
	var due time.Time
	switch step {
	case rollJump:
		f.waive(RuleDNSSECRoll, "%s: %s cannot become %s in one step: resolvers must know a key before it counts, and forget it after; the next step is shown by: quorate zone dnssec status %s",
			path, keysText(was), keysText(is), dotless(name))
		return
	case rollSwitch, rollEnd:
		due = mark.RollDue(was, ksk, dsTTL)
	case rollWithdraw:
		due, gone = mark.WithdrawDue(was, ksk, dsTTL), was.Next
	}
	switch ends := step == rollEnd || step == rollWithdraw && mark.Signed; {
	case now.Before(due):
		f.waive(RuleDNSSECRoll, "%s: %s may become %s from %s on, when no resolver holds what was before", path, keysText(was), keysText(is), stampOf(due))
	case step == rollSwitch && ksk:
		f.warn("%s: the parent's DS should name the key of %s from now on; the one before it may go once that is so for the DS's TTL", path, is.Secret)
	case ends && ksk:
		f.warn("%s: the parent's DS must name the key of %s, and have done so for its TTL; a DS of %s alone makes the zone bogus", path, is.Secret, gone)
	}
}

// waive blocks unless a person forces it.
func (f *Findings) waive(rule, format string, args ...any) {
	f.Blockers = append(f.Blockers, Blocker{Rule: rule, Reason: fmt.Sprintf(format, args...), Waivable: true})
}

// keysText writes the keys of a role as the spec does.
func keysText(k statestore.Secret) string {
	text := "{secret: " + k.Secret
	if k.Next != "" {
		text += ", next: " + k.Next
	}
	if k.Previous != "" {
		text += ", previous: " + k.Previous
	}
	return text + "}"
}

// dotless is a zone as people write it in the spec.
func dotless(zone string) string { return strings.TrimSuffix(zone, ".") }
