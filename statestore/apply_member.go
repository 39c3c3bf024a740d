package statestore

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/quorate/quorate/health"
)

// nodeActor is the actor of what a node says of itself.
const nodeActor = "node/"

func (c UpsertMember) apply(st *State, at entry) (record, error) {
	m := c.Member
	old, exists := st.Members[m.Name]
	if !exists {
		return st.addMember(m, at, "member.added", fmt.Sprintf("%s added as %s in %s", m.Name, m.Role, m.Region))
	}
	self, isNode := strings.CutPrefix(at.meta.Actor, nodeActor)
	switch {
	case m.Region != old.Region:
		return record{}, refuse(ErrInvalid, "member %s: its region is %s and cannot change to %q; remove it and join it again", m.Name, old.Region, m.Region)
	case m.Nonce != old.Nonce:
		return record{}, refuse(ErrExists, "member %s: exists with another raft id; remove it first", m.Name)
	case isNode && self != m.Name:
		return record{}, refuse(ErrForbidden, "member %s: node %s may only change itself", m.Name, self)
	case isNode && m.Role != old.Role:
		return record{}, refuse(ErrForbidden, "member %s: a node cannot change its own role; an operator promotes or demotes it", m.Name)
	}
	if err := st.checkMember(m); err != nil {
		return record{}, err
	}
	m.AddedIndex = old.AddedIndex
	if Same(*old, m) {
		return record{}, nil
	}
	st.Members = with(st.Members, m.Name, &m)
	st.Versions++
	if old.Observes && !m.Observes {
		st.forgetObserver(health.ObserverID(m.Name), at)
	}
	if !sameAdvertise(*old, m) {
		st.TableIndex = at.index
	}
	return record{kind: "member.changed", subject: "members/" + m.Name, text: m.Name + " changed", detail: m}, nil
}

func (c UseJoinToken) apply(st *State, at entry) (record, error) {
	t, ok := st.JoinTokens[c.ID]
	switch {
	case !ok:
		return record{}, refuse(ErrNotFound, "join token %s: unknown or used; make another with quorate members token", c.ID)
	case passed(at.now, t.Expires):
		return record{}, refuse(ErrExpired, "join token %s: expired %s; make another with quorate members token", c.ID, t.Expires.Format("2006-01-02T15:04:05Z"))
	case c.Member.Role == Voter && t.Role != Voter:
		return record{}, refuse(ErrForbidden, "join token %s: is for a %s, not for a voter", c.ID, t.Role)
	}
	if _, ok := st.Members[c.Member.Name]; ok {
		return record{}, refuse(ErrExists, "member %s: exists; remove it first or choose another name", c.Member.Name)
	}
	rec, err := st.addMember(c.Member, at, "member.joined", fmt.Sprintf("%s joined as %s in %s", c.Member.Name, c.Member.Role, c.Member.Region))
	if err != nil {
		return record{}, err
	}
	st.JoinTokens = without(st.JoinTokens, c.ID)
	return rec, nil
}

// addMember puts a new member into the table. It turns no verdict.
func (st *State) addMember(m Member, at entry, kind, text string) (record, error) {
	if err := st.checkMember(m); err != nil {
		return record{}, err
	}
	m.AddedIndex = at.index
	st.Members = with(st.Members, m.Name, &m)
	st.Versions++
	if answers(m) || m.Role == Voter {
		st.TableIndex = at.index
	}
	return record{kind: kind, subject: "members/" + m.Name, text: text, detail: m}, nil
}

// checkMember refuses a member that no state may hold.
func (st *State) checkMember(m Member) error {
	switch {
	case !validName(m.Name):
		return refuse(ErrInvalid, "member %q: the name must be a DNS label", m.Name)
	case m.Nonce == "":
		return refuse(ErrInvalid, "member %s: must have a raft id", m.Name)
	case m.Region == "":
		return refuse(ErrInvalid, "member %s: must have a region", m.Name)
	case m.Role != Voter && m.Role != Nonvoter:
		return refuse(ErrInvalid, "member %s: role must be voter or nonvoter, is %q", m.Name, m.Role)
	case m.Supports < st.FeatureLevel:
		return refuse(ErrFeatureLevel, "member %s: supports feature level %d, the installation is at %d; run a newer quorate there", m.Name, m.Supports, st.FeatureLevel)
	}
	for _, name := range sortedKeys(st.Members) {
		if other := st.Members[name]; name != m.Name && !adjacent(m.Version, other.Version) {
			return refuse(ErrVersionSkew, "member %s: runs %s and %s runs %s; versions may differ by one minor release", m.Name, m.Version, name, other.Version)
		}
	}
	return nil
}

// adjacent reports whether two releases may run together: at most one minor
// apart. Versions that are no releases, such as those of development builds, are
// not compared.
func adjacent(a, b string) bool {
	aMajor, aMinor, aOK := release(a)
	bMajor, bMinor, bOK := release(b)
	if !aOK || !bOK {
		return true
	}
	return aMajor == bMajor && max(aMinor, bMinor)-min(aMinor, bMinor) <= 1
}

func release(v string) (major, minor int, ok bool) {
	parts := strings.Split(strings.TrimPrefix(v, "v"), ".")
	if len(parts) < 3 {
		return 0, 0, false
	}
	major, err1 := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(parts[1])
	return major, minor, err1 == nil && err2 == nil
}

func (c RemoveMember) apply(st *State, at entry) (record, error) {
	m, ok := st.Members[c.Name]
	if !ok {
		return record{}, refuse(ErrNotFound, "member %s: not found", c.Name)
	}
	if m.Role == Voter && st.countVoters() == 1 {
		return record{}, refuse(ErrFloor, "member %s: is the last voter", c.Name)
	}
	if err := st.MayRemove(c.Name); err != nil {
		return record{}, err
	}
	st.Members = without(st.Members, c.Name)
	st.forgetObserver(health.ObserverID(c.Name), at)
	st.Versions++
	if answers(*m) || m.Role == Voter {
		st.TableIndex = at.index
	}
	return record{
		kind: "member.removed", subject: "members/" + c.Name, text: withReason(c.Name+" removed", c.Reason),
		detail: map[string]string{"reason": c.Reason},
	}, nil
}

// MayRemove refuses to let a member go while a cutover is under way whose signatures
// do not name it. To remove a member does not stop it: it may go on answering with
// the side that is left, and that only people who approve may accept (G4).
func (st *State) MayRemove(member string) error {
	for _, co := range st.OpenCutovers() {
		if slices.Contains(st.Waiting(co, nil), member) {
			return refuse(ErrBlocked, "member %s: %s is under way and counts on its word; waive %s=%s there or abort it first",
				member, co.title(), GateNodesAcknowledged, member)
		}
	}
	return nil
}

func (st *State) countVoters() (n int) {
	for _, m := range st.Members {
		if m.Role == Voter {
			n++
		}
	}
	return n
}

// answers reports whether resolvers are sent to the member.
func answers(m Member) bool { return m.DNS.Name != "" || len(m.DNS.IPv4)+len(m.DNS.IPv6) > 0 }

func sameAdvertise(a, b Member) bool {
	return a.Role == b.Role && a.DNS.Name == b.DNS.Name && slices.Equal(a.DNS.IPv4, b.DNS.IPv4) && slices.Equal(a.DNS.IPv6, b.DNS.IPv6)
}

func withReason(text, reason string) string {
	if reason == "" {
		return text
	}
	return text + ": " + reason
}
